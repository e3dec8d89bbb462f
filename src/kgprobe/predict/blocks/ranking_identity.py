"""What a ranking is a ranking of: hashes of the model, the graph, the queries, the filter and the candidates."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Ints
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters.opening import Model
from kgprobe.predict.adapters.top_k import TopKLists
from kgprobe.predict.encoding import encoded, on_host, require_numbers, shared_candidates
from kgprobe.predict.scorers import AnyScorer, EmbeddingScorer, RelationEmbeddingScorer, as_array
from kgprobe.predict.setting import Setting
from kgprobe.predict.stored_arrays import StoredTable
from kgprobe.predict.tasks import CandidateSets, QueryCandidates, Task
from kgprobe.ranks import RanksInfo

SCHEMA = 1
"""Version of what a block holds and of how it is counted. Blocks of another version are not merged."""

_PIECE = 1 << 26
"""Bytes of a file that are hashed at a time; several pieces are hashed by several threads."""

_ROWS = 1 << 16


@dataclass(frozen=True)
class ModelFile:
    """A file of a model.

    Attributes:
        name: Its name below the folder that all files of the model share.
        size: Its bytes.
        modified: When it was last written, in nanoseconds.
        hash: Hash of its content.
    """

    name: str
    size: int
    modified: int
    hash: str

    def is_at(self, path: Path) -> bool:
        """Whether the file at a path has this size and this time, so that its content need not be read."""
        found = path.stat()
        return (found.st_size, found.st_mtime_ns) == (self.size, self.modified)


def model_files(paths: Sequence[Path], known: Sequence[ModelFile] = ()) -> tuple[ModelFile, ...]:
    """The files of a model with their hashes; those that are known, and have not changed since, are not read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "model.npz"
        >>> _ = path.write_bytes(b"weights")
        >>> file, = model_files([path])
        >>> file.name, file.size, model_files([path], [file]) == (file,)
        ('model.npz', 7, True)
    """
    if not paths:
        return ()
    folder = Path(os.path.commonpath([path.parent.absolute() for path in paths]))
    before = {file.name: file for file in known}
    found = []
    for path in paths:
        name = path.absolute().relative_to(folder).as_posix()
        try:
            if name in before and before[name].is_at(path):
                found.append(before[name])
                continue
            state = path.stat()
            found.append(ModelFile(name, state.st_size, state.st_mtime_ns, _file_hash(path, state.st_size)))
        except OSError as error:
            raise DataError(f"{path}: cannot be read", [str(error)], "check the name and the permissions") from None
    return tuple(sorted(found, key=lambda file: file.name))


def _file_hash(path: Path, size: int) -> str:
    """SHA-256 of the SHA-256 of every piece of a file, so that a large file is hashed on all cores."""

    def piece(start: int) -> bytes:
        with path.open("rb") as file:
            file.seek(start)
            return hashlib.sha256(file.read(_PIECE)).digest()

    with ThreadPoolExecutor() as pool:
        return hashlib.sha256(b"".join(pool.map(piece, range(0, size, _PIECE)))).hexdigest()


@dataclass(frozen=True)
class RankingIdentity:
    """Everything that the ranks of a ranking depend on. Two rankings with the same identity have the same ranks.

    Attributes:
        model: Hash of the model: of its files, of its embeddings if it has none, or the name of a baseline.
        graph: Content hash of the graph.
        labels: Hash of the labels of the graph, by which the rows of a model are found.
        triples: Hash of the ranked triples and sides.
        filter: Hash of the filter.
        candidates: Hash of the candidate sets.
        recorded: Hash of the metadata of the rank file, without the version of kgprobe.
        schema: Version of the blocks.
    """

    model: str
    graph: str
    labels: str
    triples: str
    filter: str
    candidates: str
    recorded: str
    schema: int = SCHEMA

    @classmethod
    def of(cls, setting: Setting, model: Model, info: RanksInfo, files: Sequence[ModelFile]) -> RankingIdentity:
        """The identity of a ranking of a model in a setting.

        Raises:
            UsageError: The model was not opened from a file, and only returns scores.
        """
        recorded = {name: value for name, value in asdict(info).items() if name != "kgprobe"}
        return cls(
            model=_model_hash(setting, model, files),
            graph=setting.graph.content_hash,
            labels=_labels_hash(setting.graph),
            triples=triples_hash(setting.ranked.triples, setting.ranked.sides),
            filter=setting.known.hash or "none",
            candidates=_candidates_hash(setting.sets),
            recorded=_hash(json.dumps(recorded, sort_keys=True).encode()),
        )

    @property
    def hash(self) -> str:
        return _hash(json.dumps(asdict(self), sort_keys=True).encode())

    def differences(self, other: RankingIdentity) -> list[str]:
        """What differs from another identity, in words."""
        return [_WORDS[one.name] for one in fields(self) if getattr(self, one.name) != getattr(other, one.name)]


_WORDS = {
    "model": "the model has other weights, or is another one",
    "graph": "the graph has other triples, entities or relations",
    "labels": "the labels of the graph are others",
    "triples": "other triples or sides are ranked",
    "filter": "other known triples are filtered",
    "candidates": "the candidate sets are others",
    "recorded": "the rank file would have other metadata: the name of the model, of the graph or of the split",
    "schema": "the blocks were counted by another version of kgprobe",
}


def triples_hash(triples: Ints, sides: Sequence[str]) -> str:
    """Hash of ranked triples and sides."""
    digest = hashlib.sha256(f"{' '.join(sides)} {len(triples)}\n".encode())
    for start in range(0, len(triples), _ROWS):
        digest.update(triples[start : start + _ROWS].astype("<i8").tobytes())
    return digest.hexdigest()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _labels_hash(graph: KnowledgeGraph) -> str:
    digest = hashlib.sha256()
    for labels in (graph.entity_labels, graph.relation_labels):
        digest.update(b"\n")
        for rows in () if labels is None else (labels[i : i + _ROWS] for i in range(0, len(labels), _ROWS)):
            digest.update(json.dumps(rows.to_pylist()).encode())
    return digest.hexdigest()


def _candidates_hash(sets: CandidateSets | None) -> str:
    if sets is None:
        return "all"
    if sets.file_hash is not None:
        return sets.file_hash
    if isinstance(sets, QueryCandidates):
        arrays: Mapping[str, Any] = {side: (lists,) for side, lists in sets.lists.items()} | {"rows": (sets.rows,)}
    else:
        arrays = {side: (some.keys, some.offsets, some.values) for side, some in sets.groups.items()}
    digest = hashlib.sha256(type(sets).__name__.encode())
    for name, values in sorted(arrays.items()):
        digest.update(name.encode())
        for array in values:
            _add_array(digest, array.astype("<i8", copy=False))
    return digest.hexdigest()


def scorer_of(model: Model) -> AnyScorer:
    """The scorer of a model; a UsageError if it has top-k lists."""
    if isinstance(model.scorer, TopKLists):
        raise UsageError("top-k lists are not ranked by blocks", remedy="leave out `blocks`: it takes a moment")
    return model.scorer


def _model_hash(setting: Setting, model: Model, files: Sequence[ModelFile]) -> str:
    if files:
        return _hash(json.dumps([(file.name, file.hash) for file in files]).encode())
    if model.baseline:
        return model.baseline
    if not isinstance(model.scorer, EmbeddingScorer | RelationEmbeddingScorer):
        raise UsageError(
            f"{model.name} cannot be ranked by blocks",
            ["it returns scores, and was not opened from a file, so a later run cannot tell whether it is the same"],
            "save it, and give the path; or define `encode_queries` and `candidates`",
        )
    return _embeddings_hash(setting, model.scorer)


def _embeddings_hash(setting: Setting, scorer: EmbeddingScorer | RelationEmbeddingScorer) -> str:
    """Hash of the embeddings of all queries and candidates of a model in memory."""
    digest = hashlib.sha256(repr(scorer.similarity).encode())
    for array in _embeddings(setting, scorer):
        _add_array(digest, array)
    return digest.hexdigest()


def _embeddings(setting: Setting, scorer: EmbeddingScorer | RelationEmbeddingScorer) -> Iterator[NDArray[Any]]:
    for side in setting.ranked.sides:
        queries = setting.ranked.queries(side)
        task = Task(setting.graph, queries, setting.known, setting.sets, range(setting.graph.num_entities))
        last: Any = None
        for shared in shared_candidates(scorer, task):
            if shared.values is not last:
                yield from _rows(shared.values, scorer, task)
            last = shared.values if isinstance(scorer, EmbeddingScorer) else None
            yield from (as_array(values).astype("<f4", copy=False) for _, values in encoded(scorer, task, shared))


def _rows(values: Any, scorer: AnyScorer, task: Task) -> Iterator[NDArray[Any]]:
    if isinstance(values, StoredTable):
        yield from (values[start : start + _ROWS] for start in range(0, len(values), _ROWS))
    else:
        assert isinstance(scorer, EmbeddingScorer | RelationEmbeddingScorer)
        require_numbers(values, scorer.similarity, task)
        yield on_host(values, task).astype("<f4", copy=False)


def _add_array(digest: Any, array: NDArray[Any]) -> None:
    digest.update(str(array.shape).encode())
    digest.update(np.ascontiguousarray(array).data)
