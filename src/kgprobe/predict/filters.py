"""The known-triples filter: which true answers are no candidates."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from kgprobe.arrays import AnyInts, triple_problems
from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import SPLITS, KnowledgeGraph, KnownAnswers
from kgprobe.graph.names import KnownNames, Names
from kgprobe.graph.parquet_graph import id_columns, read_parquet
from kgprobe.graph.text_files import Layout, read_text

COLUMNS = ("head", "relation", "tail")

HOW = (
    "a file of triples has lines of head<TAB>relation<TAB>tail by the graph's labels (perhaps .gz), or integer "
    "columns head, relation, tail (.parquet), or OpenKE's lines of ids (...2id.txt)"
)

"""What a file of triples looks like, for a person."""


_LABELLED = Layout(dict.fromkeys(COLUMNS, False), "head<TAB>relation<TAB>tail", "\t", lambda line: line.split("\t"))

_OPENKE = Layout(
    dict.fromkeys(("head", "tail", "relation"), False), "head tail relation (ids)", " \t", str.split, counted=True
)

_OPENKE_ENDINGS = ("2id.txt", "2id.txt.gz")


def read_triples(path: Path, graph: KnowledgeGraph, problems: list[str]) -> AnyInts | None:
    r"""The triples in a file, as ids of the graph; or None, with everything that is wrong added to ``problems``.

    Example:
        >>> import tempfile, pathlib
        >>> from kgprobe.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples(entity_labels=["Ada", "Bob"], relation_labels=["knows"])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "more.tsv"
        >>> _ = path.write_text("Bob\tknows\tAda\n")
        >>> read_triples(path, graph, []).tolist()
        [[1, 0, 0]]
        >>> _ = path.write_text("Bob\tknows\tAda\nAda\tlikes\tEve\n")
        >>> problems = []
        >>> read_triples(path, graph, problems)
        >>> problems[0]
        "more.tsv, line 2: 'likes' is no known relation, 'Eve' is no known entity: 'Ada\\tlikes\\tEve'"
    """
    if path.suffix == ".parquet":
        return _read_ids(path, graph, problems)
    by_ids = path.name.endswith(_OPENKE_ENDINGS)
    return _read_names(path, _OPENKE if by_ids else _LABELLED, graph, problems, labels=not by_ids)


def _read_ids(path: Path, graph: KnowledgeGraph, problems: list[str]) -> AnyInts | None:
    table = read_parquet(path, problems)
    columns = None if table is None else id_columns(path, table, COLUMNS, problems)
    if columns is None:
        return None
    triples = np.column_stack(columns).astype(np.int64, copy=False)
    found = triple_problems(path.name, triples, graph.num_entities, graph.num_relations)
    problems += found
    return None if found else triples


def _read_names(
    path: Path, layout: Layout, graph: KnowledgeGraph, problems: list[str], *, labels: bool
) -> AnyInts | None:
    entities, relations = Names.entities(graph, labels=labels), Names.relations(graph, labels=labels)
    rule = KnownNames({"head": entities, "relation": relations, "tail": entities}, tuple(layout.columns))
    columns = read_text(path, layout, rule, problems)
    return None if columns is None else np.column_stack([rule.ids(columns, name) for name in COLUMNS])


Wanted: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None

_WORDS = ("none", "all")

_HASH_ROWS = 1 << 18


@dataclass(frozen=True, eq=False)
class KnownFilter:
    """The true answers that are left out of the candidates of every query, except its own target.

    Attributes:
        known: The answers of each query; None where nothing is filtered.
        names: The splits and the files that they come from.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], valid=[[0, 0, 2]], test=[[1, 0, 2]])
        >>> KnownFilter.build(graph, split="valid").names
        ('train', 'valid')
        >>> KnownFilter.build(graph, "none").triples
        0
        >>> KnownFilter.build(graph, "test+valid").hash == KnownFilter.build(graph, ["valid", "test"]).hash
        True
    """

    known: KnownAnswers | None
    names: tuple[str, ...]

    @classmethod
    def build(cls, graph: KnowledgeGraph, wanted: Wanted = None, split: str = "test") -> KnownFilter:
        """Index the triples that are wanted.

        Args:
            graph: The graph that is ranked.
            wanted: Splits and files of extra triples, in a list or joined by "+" or ","; "none", "all"; None for what
                the split asks for: train for train, train and valid for valid, all three for test.
            split: The split that is ranked.

        Raises:
            DataError: Triples that are wanted are not there, or a file has something that the graph does not know.
            UsageError: A name is neither a split nor a file.
        """
        names = _listed(graph, wanted, split)
        if not names:
            return cls(None, ())
        splits, files = tuple(name for name in SPLITS if name in names), [n for n in names if n not in SPLITS]
        _require(graph, splits, by_default=wanted is None)
        triples = _union(graph, splits, [Path(file) for file in files])
        known = KnownAnswers.from_triples(triples, graph.num_entities, graph.num_relations)
        return cls(known, (*splits, *(Path(file).name for file in files)))

    @property
    def triples(self) -> int:
        """How many distinct triples are known."""
        return 0 if self.known is None else len(self.known.tails.values)

    @cached_property
    def hash(self) -> str | None:
        """SHA-256 of the sizes of the graph and of the distinct triples in order; None where nothing is filtered.

        It does not depend on the order, repeats and files of the triples: two filters that leave out the same
        answers have the same hash.
        """
        if self.known is None:
            return None
        tails = self.known.tails
        digest = hashlib.sha256(f"{tails.num_values} {self.known.num_relations}\n".encode())
        for start in range(0, self.triples, _HASH_ROWS):
            row = np.arange(start, min(start + _HASH_ROWS, self.triples))
            key = tails.keys[np.searchsorted(tails.offsets, row, side="right") - 1]
            head, relation = np.divmod(key, self.known.num_relations)
            digest.update(np.column_stack([head, relation, tails.values[row]]).astype("<i8").tobytes())
        return digest.hexdigest()


def _listed(graph: KnowledgeGraph, wanted: Wanted, split: str) -> list[str]:
    """The names of the splits and files that are wanted, each once."""
    if split not in SPLITS:
        raise UsageError(f"no split is called {split!r}{nearest(split, SPLITS)}")
    if wanted is None:
        # A split that has only its counts is not passed over: it is asked for, and found missing.
        has = [*graph.splits, *(("train",) if graph.train_counts is not None else ())]
        return [name for name in SPLITS[: SPLITS.index(split) + 1] if name in has]
    names = list(dict.fromkeys(_taken_apart(wanted)))
    if names == ["none"]:
        return []
    if names == ["all"]:
        return _listed(graph, None, SPLITS[-1])
    problems = [f"{word!r} goes with nothing else" for word in _WORDS if word in names]
    problems += [
        f"{name!r} is neither a split nor a file{nearest(name, (*SPLITS, *_WORDS))}"
        for name in names
        if name not in (*SPLITS, *_WORDS) and not os.path.exists(name)
    ]
    if problems or not names:
        raise UsageError(
            f"{graph.name}: this is no filter",
            problems or ["it names nothing"],
            f"join any of {', '.join(SPLITS)} and files of triples by '+', or say 'none' or 'all'",
        )
    return names


def _taken_apart(wanted: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    if not isinstance(wanted, str):
        return [os.fspath(part) for part in ([wanted] if isinstance(wanted, os.PathLike) else wanted)]
    if os.path.isfile(wanted):  # the name of a file may itself hold what joins several
        return [wanted]
    parts = (part.strip() for part in wanted.replace(",", "+").split("+"))
    return [part for part in parts if part]


def _require(graph: KnowledgeGraph, splits: Sequence[str], *, by_default: bool) -> None:
    """Refuse to filter less than what was asked for."""
    absent = [split for split in splits if split not in graph.splits]
    if not absent:
        return
    only_counts = "only counts of the training triples are here, not the triples"
    problems = [
        only_counts if split == "train" and graph.train_counts is not None else f"there is no split {split!r}"
        for split in absent
    ]
    there = "+".join(graph.splits) or "none"
    remedy = (
        f"filter by what is there with --filter {there}, which leaves true answers of {absent[0]} among the candidates"
    )
    what = "the usual filter" if by_default else "this filter"
    raise DataError(f"{graph.name}: {what} cannot be made", problems, remedy)


def _union(graph: KnowledgeGraph, splits: Sequence[str], files: Sequence[Path]) -> AnyInts:
    problems: list[str] = []
    extra = [triples for file in files if (triples := read_triples(file, graph, problems)) is not None]
    if problems:
        raise DataError(f"{graph.name}: the extra triples cannot be used", problems, HOW)
    if not extra:
        return graph.triples(*splits)
    dtype = np.int32 if max(graph.num_entities, graph.num_relations) <= 2**31 else np.int64
    own = [graph.triples(split) for split in splits]
    return np.concatenate([part.astype(dtype, copy=False) for part in (*own, *extra)])
