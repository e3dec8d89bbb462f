"""The ranked triples, their distinct queries, and the filter of known triples."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kgprobe.arrays import AnyInts, EntityRows, Ints, pair_keys, run_starts, triple_problems
from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import SPLITS, KnowledgeGraph, KnownAnswers
from kgprobe.graph.parquet_graph import id_columns, read_parquet
from kgprobe.graph.text_files import KnownNames, Layout, read_text
from kgprobe.graph.triple_files import read_triple_file
from kgprobe.graph.triple_streams import distinct_rows
from kgprobe.predict.scorers import SIDES, Side
from kgprobe.ranks.schema import side_name

COLUMNS = ("head", "relation", "tail")

FilterChoice: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
"""Splits and files whose triples are filtered; see `KnownFilter.build`."""

_HEAD, _RELATION, _TAIL = range(3)
_SIDES: Mapping[str, tuple[Side, ...]] = {"both": SIDES, "head": ("head",), "tail": ("tail",)}
_WORDS = ("none", "all")

_FORMATS = (
    "a file of triples has lines of head, relation, tail by the graph's labels, separated by tabs, spaces or commas "
    "(.csv), perhaps .gz; or integer columns head, relation, tail (.parquet); or OpenKE's lines of ids (...2id.txt)"
)

_OPENKE = Layout(
    dict.fromkeys(("head", "tail", "relation"), False), "head tail relation (ids)", " \t", str.split, counted=True
)

_OPENKE_ENDINGS = ("2id.txt", "2id.txt.gz")


@dataclass(frozen=True, eq=False)
class RankedTriples:
    """The distinct triples that are ranked, and the predicted sides.

    Only the first row of a repeated triple is kept.

    Attributes:
        given: [m, 3] (head, relation, tail), as they were given.
        rows: The rows (from 0) of the ranked ones.
        sides: The sides that are predicted.

    Example:
        >>> graph = KnowledgeGraph.from_triples(test=[[0, 0, 1], [2, 0, 1], [0, 0, 1]])
        >>> ranked = RankedTriples.build(graph)
        >>> ranked.triples.tolist(), ranked.repeated, ranked.sides
        ([[0, 0, 1], [2, 0, 1]], 1, ('tail', 'head'))
    """

    given: Ints
    rows: Ints
    sides: tuple[Side, ...]

    @classmethod
    def build(
        cls,
        graph: KnowledgeGraph,
        split: str = "test",
        sides: str = "both",
        triples: npt.ArrayLike | str | os.PathLike[str] | None = None,
    ) -> RankedTriples:
        """The triples of a split, or other triples of the graph.

        Args:
            graph: The graph.
            split: The split, unless ``triples`` are given.
            sides: "both", "head" ("subject") or "tail" ("object").
            triples: Other triples instead: an array [n, 3] or a file.
        """
        sides = side_name(sides)
        problems = [] if sides in _SIDES else [f"no side is called {sides!r}{nearest(sides, _SIDES)}"]
        problems += [] if split in SPLITS else [f"no split is called {split!r}{nearest(split, SPLITS)}"]
        if problems:
            raise UsageError("invalid sides or split", problems)
        given = _of_split(graph, split) if triples is None else _others(graph, triples)
        return cls(given.astype(np.int64), _first_rows(given), _SIDES[sides])

    @cached_property
    def triples(self) -> Ints:
        """[n, 3] (head, relation, tail): the ranked triples, in the order in which they were given."""
        return self.given[self.rows]

    @property
    def repeated(self) -> int:
        """Number of rows that repeat an earlier triple."""
        return len(self.given) - len(self.rows)

    def queries(self, side: Side) -> Queries:
        """The distinct queries for one side of the triples.

        Example:
            >>> graph = KnowledgeGraph.from_triples(test=[[2, 1, 0], [0, 0, 1], [2, 1, 3]])
            >>> queries = RankedTriples.build(graph).queries("tail")
            >>> queries.relation.tolist(), queries.given.tolist()
            ([0, 1], [0, 2])
            >>> queries.query.tolist(), queries.target.tolist(), queries.triple.tolist()
            ([0, 1, 1], [1, 0, 3], [1, 0, 2])
        """
        if side not in self._queries:
            self._queries[side] = self._distinct(side)
        return self._queries[side]

    @cached_property
    def _queries(self) -> dict[Side, Queries]:
        return {}

    def _distinct(self, side: Side) -> Queries:
        ask, answer = (_HEAD, _TAIL) if side == "tail" else (_TAIL, _HEAD)
        given, relation = self.triples[:, ask], self.triples[:, _RELATION]
        keys = pair_keys(relation, given, int(given.max(initial=0)) + 1)
        triple = np.argsort(keys, kind="stable")
        starts = run_starts(keys[triple])
        return Queries(
            side=side,
            given=given[triple[starts]],
            relation=relation[triple[starts]],
            query=np.repeat(np.arange(len(starts)), np.diff(starts, append=len(triple))),
            target=self.triples[triple, answer],
            triple=triple,
        )


@dataclass(frozen=True, eq=False)
class Queries:
    """The distinct queries of one side, sorted by (relation, given), and the triples that they come from.

    Attributes:
        side: The side that is predicted.
        given: For each query, the entity on the other side.
        relation: For each query, its relation.
        query: For each triple, in the order of the queries, the index of its query.
        target: For each triple in that order, the entity to be predicted.
        triple: For each triple in that order, its row in `RankedTriples.triples`.
    """

    side: Side
    given: Ints
    relation: Ints
    query: Ints
    target: Ints
    triple: Ints

    def __len__(self) -> int:
        return len(self.given)

    @cached_property
    def order(self) -> Ints:
        """For each row of `RankedTriples.triples`, its position among the triples in the order of the queries."""
        return np.argsort(self.triple)

    def part(self, some: range) -> Queries:
        """The queries of a range alone, with their targets.

        Example:
            >>> graph = KnowledgeGraph.from_triples(test=[[2, 1, 0], [0, 0, 1], [2, 1, 3]])
            >>> part = RankedTriples.build(graph).queries("tail").part(range(1, 2))
            >>> part.given.tolist(), part.query.tolist(), part.target.tolist(), part.triple.tolist()
            ([2], [0, 0], [0, 3], [0, 2])
        """
        if len(some) == len(self):
            return self
        queries, targets = slice(some.start, some.stop), self.targets(some)
        return Queries(
            side=self.side,
            given=self.given[queries],
            relation=self.relation[queries],
            query=self.query[targets] - some.start,
            target=self.target[targets],
            triple=self.triple[targets],
        )

    def targets(self, some: range) -> slice:
        """The positions of the targets of the queries of a range."""
        first, last = np.searchsorted(self.query, [some.start, some.stop])
        return slice(int(first), int(last))

    def known_rows(self, known: KnownFilter, start: int, stop: int) -> EntityRows:
        """The known answers of the queries ``start`` up to ``stop`` (not included), targets included.

        Example:
            >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 2]], test=[[0, 0, 1], [1, 0, 0]])
            >>> queries = RankedTriples.build(graph).queries("tail")
            >>> offsets, entities = queries.known_rows(KnownFilter.build(graph), 0, 2)
            >>> offsets.tolist(), entities.tolist()
            ([0, 2, 3], [1, 2, 0])
        """
        answers = known.known
        if answers is None:
            return EntityRows(np.zeros(stop - start + 1, dtype=np.int64), np.empty(0, dtype=np.int64))
        groups = answers.tails if self.side == "tail" else answers.heads
        keys = pair_keys(self.given[start:stop], self.relation[start:stop], answers.num_relations)
        return EntityRows(groups.offsets, groups.values).take(answers.places(groups, keys))


def _of_split(graph: KnowledgeGraph, split: str) -> npt.NDArray[Any]:
    triples = graph.triples(split)
    if not len(triples):
        filled = ", ".join(name for name, there in graph.splits.items() if len(there)) or "none"
        raise DataError(f"{graph.name}: no {split} triples to rank", [f"splits with triples: {filled}"])
    return triples


def _others(graph: KnowledgeGraph, triples: npt.ArrayLike | str | os.PathLike[str]) -> npt.NDArray[Any]:
    problems: list[str] = []
    if isinstance(triples, str | os.PathLike):
        path = Path(triples)
        read = read_triples(path, graph, problems)
        if read is None:
            raise DataError(f"{path}: these triples cannot be ranked", problems, _FORMATS)
        return read
    try:
        array = np.asarray(triples)
    except ValueError:
        array, problems = np.empty((0, 3), dtype=np.int64), ["triples: rows of different lengths, expected [n, 3]"]
    array = array if array.size else np.empty((0, 3), dtype=np.int64)
    problems += triple_problems("triples", array, graph.num_entities, graph.num_relations)
    if problems:
        raise DataError(f"these are not triples of {graph.name}", problems)
    return array


def _first_rows(triples: npt.NDArray[Any]) -> Ints:
    """The first row of each distinct triple, in ascending order."""
    order = np.lexsort(triples.T)
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(triples[order], axis=0) != 0).any(axis=1)
    # The sort is stable: among equal triples, the first in order is the first that was given.
    rows: Ints = np.sort(order[new])
    return rows


def read_triples(path: Path, graph: KnowledgeGraph, problems: list[str]) -> AnyInts | None:
    """Read the triples in a file as ids of the graph; or None, with all problems appended to ``problems``.

    Triples that the file labels as false are left out.
    """
    if path.suffix == ".parquet":
        return _read_ids(path, graph, problems)
    by_ids = path.name.endswith(_OPENKE_ENDINGS)
    entities, relations = graph.entity_index(labels=not by_ids), graph.relation_index(labels=not by_ids)
    rule = KnownNames({"head": entities, "relation": relations, "tail": entities}, tuple(_OPENKE.columns))
    if by_ids:
        columns = read_text(path, _OPENKE, rule, problems)
    else:
        read = read_triple_file(path, rule.names, problems)
        columns = None if read is None else read.part(negative=False)
    return None if columns is None else np.column_stack([rule.ids(columns, name) for name in COLUMNS])


def _read_ids(path: Path, graph: KnowledgeGraph, problems: list[str]) -> AnyInts | None:
    table = read_parquet(path, problems)
    columns = None if table is None else id_columns(path, table, COLUMNS, problems)
    if columns is None:
        return None
    triples = np.column_stack(columns).astype(np.int64, copy=False)
    wrong = triple_problems(path.name, triples, graph.num_entities, graph.num_relations)
    problems += wrong
    return None if wrong else triples


@dataclass(frozen=True, eq=False)
class KnownFilter:
    """The known answers, which are not candidates of a query unless they are its target.

    Attributes:
        known: The answers of each query; None for no filter.
        names: The splits and files that they come from.
        parts: The known triples, in several arrays, which may repeat each other's.

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
    parts: tuple[AnyInts, ...] = ()

    @classmethod
    def build(
        cls,
        graph: KnowledgeGraph,
        choice: FilterChoice = None,
        split: str = "test",
        ranked: RankedTriples | None = None,
    ) -> KnownFilter:
        """Index the triples that are filtered.

        Args:
            graph: The graph.
            choice: Splits and files of extra triples, in a list or joined by "+" or ","; "none"; "all"; None for the
                default of the split: train for train, train and valid for valid, all three for test.
            split: The split that is ranked.
            ranked: The triples that are ranked: the answers of other queries are not looked up. Without them, the
                answers of all queries are indexed, which takes more memory.

        Raises:
            DataError: A split is missing, or a file has names that the graph does not know.
            UsageError: A name is neither a split nor a file.
        """
        names = _chosen(graph, choice, split)
        if not names:
            return cls(None, ())
        splits, files = tuple(name for name in SPLITS if name in names), [n for n in names if n not in SPLITS]
        _require(graph, splits, by_default=choice is None)
        parts = _parts(graph, splits, [Path(file) for file in files])
        return cls(_indexed(parts, graph, ranked), (*splits, *(Path(file).name for file in files)), parts)

    @property
    def rows(self) -> int:
        """Number of known triples, those that are repeated included."""
        return sum(map(len, self.parts))

    @property
    def triples(self) -> int:
        """Number of distinct known triples."""
        return self._counted_and_hashed[0]

    @property
    def hash(self) -> str | None:
        """SHA-256 of the sizes of the graph and of the sorted distinct triples; None for no filter.

        Two filters with the same triples have the same hash, whatever their order, repeats and files.
        """
        return self._counted_and_hashed[1]

    @cached_property
    def _counted_and_hashed(self) -> tuple[int, str | None]:
        if self.known is None:
            return 0, None
        count, sizes = 0, (self.known.tails.num_values, self.known.num_relations)
        digest = hashlib.sha256(f"{sizes[0]} {sizes[1]}\n".encode())
        for columns, _ in distinct_rows([list(part.T) for part in self.parts], (*sizes, sizes[0])):
            digest.update(np.column_stack(columns).astype("<i8", copy=False).data)
            count += len(columns[0])
        return count, digest.hexdigest()


def _indexed(parts: Sequence[AnyInts], graph: KnowledgeGraph, ranked: RankedTriples | None) -> KnownAnswers:
    """The known answers of the queries of the ranked triples, or of all queries."""
    sizes = graph.num_entities, graph.num_relations
    if ranked is None:
        return KnownAnswers.build(parts, *sizes)
    head, relation, tail = ranked.triples.T
    heads = pair_keys(tail, relation, graph.num_relations)
    # The index of tails also tells whether a ranked triple is known.
    return KnownAnswers.of_queries(
        parts, *sizes, pair_keys(head, relation, graph.num_relations), heads if "head" in ranked.sides else heads[:0]
    )


def _chosen(graph: KnowledgeGraph, choice: FilterChoice, split: str) -> list[str]:
    """The names of the chosen splits and files, each once."""
    if split not in SPLITS:
        raise UsageError(f"no split is called {split!r}{nearest(split, SPLITS)}")
    if choice is None:
        # A training split that has only its counts is chosen too, and then reported as missing.
        has = [*graph.splits, *(("train",) if graph.train_counts is not None else ())]
        return [name for name in SPLITS[: SPLITS.index(split) + 1] if name in has]
    names = list(dict.fromkeys(_names(choice)))
    if names == ["none"]:
        return []
    if names == ["all"]:
        return _chosen(graph, None, SPLITS[-1])
    problems = [f"{word!r} cannot be combined with anything else" for word in _WORDS if word in names]
    problems += [
        f"{name!r} is neither a split nor a file{nearest(name, (*SPLITS, *_WORDS))}"
        for name in names
        if name not in (*SPLITS, *_WORDS) and not os.path.exists(name)
    ]
    if problems or not names:
        raise UsageError(
            f"{graph.name}: invalid filter",
            problems or ["it is empty"],
            f"join any of {', '.join(SPLITS)} and files of triples by '+', or use 'none' or 'all'",
        )
    return names


def _names(choice: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    if not isinstance(choice, str):
        return [os.fspath(part) for part in ([choice] if isinstance(choice, os.PathLike) else choice)]
    if os.path.isfile(choice):  # the name of a file may contain a separator
        return [choice]
    parts = (part.strip() for part in choice.replace(",", "+").split("+"))
    return [part for part in parts if part]


def _require(graph: KnowledgeGraph, splits: Sequence[str], *, by_default: bool) -> None:
    """Raise an error if a split to filter by is missing."""
    absent = [split for split in splits if split not in graph.splits]
    if not absent:
        return
    only_counts = "the graph has only counts of its training triples, not the triples"
    problems = [
        only_counts if split == "train" and graph.train_counts is not None else f"there is no split {split!r}"
        for split in absent
    ]
    there = "+".join(graph.splits) or "none"
    remedy = f"use `filter={there!r}`, which leaves true answers of {absent[0]} among the candidates"
    what = "the default filter" if by_default else "this filter"
    raise DataError(f"{graph.name}: {what} cannot be built", problems, remedy)


def _parts(graph: KnowledgeGraph, splits: Sequence[str], files: Sequence[Path]) -> tuple[AnyInts, ...]:
    problems: list[str] = []
    extra = [triples for file in files if (triples := read_triples(file, graph, problems)) is not None]
    if problems:
        raise DataError(f"{graph.name}: the extra triples cannot be used", problems, _FORMATS)
    dtype = np.int32 if max(graph.num_entities, graph.num_relations) <= 2**31 else np.int64
    own = [graph.triples(split) for split in splits]
    return tuple(own + [part.astype(dtype, copy=False) for part in extra])
