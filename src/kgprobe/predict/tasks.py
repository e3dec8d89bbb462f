"""Candidate sets, ranking tasks, blocks of queries, and counts that add up over disjoint sets of entities."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, EntityRows, Flags, Grouped, Ints, find, pair_keys, run_starts
from kgprobe.errors import DataError, UsageError, nearest, spans
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.candidate_files import (
    Listed,
    is_type_file,
    list_problems,
    read_negatives,
    read_pairs,
    read_type_constraints,
    read_types,
)
from kgprobe.predict.queries import KnownFilter, Queries, RankedTriples
from kgprobe.predict.scorers import Side

_WORDS = ("all", "train")

_HOW = (
    "candidates by relation are lines of relation<TAB>side<TAB>entity (or .gz), OpenKE's type_constrain.txt, or types "
    "of entities (entity2types.json: entity to list of types; or lines of entity<TAB>type<TAB>type ...); "
    "candidates by triple are arrays [triples, k] 'head' and 'tail' in an .npz file"
)

_NAMED = 8
_HASH_ROWS = 1 << 12


@dataclass(frozen=True, eq=False)
class RelationCandidates:
    """The candidates of each side of a relation (type constraints).

    The target of a query is a candidate whether it is listed or not.

    Attributes:
        name: Where they come from.
        groups: For each side, the entities by relation.
        file_hash: SHA-256 of the file that they come from, if any.
        shared: For each side, the key of the group of each relation, if relations share groups.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2], [2, 1, 0]])
        >>> seen = RelationCandidates.from_train(graph)
        >>> seen.ids("tail", 0).tolist(), seen.ids("head", 1).tolist()
        ([1, 2], [2])
    """

    name: str
    groups: Mapping[Side, Grouped]
    file_hash: str | None = None
    shared: Mapping[Side, AnyInts] | None = None

    @classmethod
    def from_pairs(
        cls, name: str, graph: KnowledgeGraph, listed: Listed, file_hash: str | None = None
    ) -> RelationCandidates:
        """From the relation and the entity of every pair, by side."""
        groups = {
            side: Grouped.build(relation, entity, graph.num_relations, graph.num_entities)
            for side, (relation, entity) in listed.items()
        }
        return cls(name, groups, file_hash)

    @classmethod
    def from_train(cls, graph: KnowledgeGraph) -> RelationCandidates:
        """The entities that occur in training triples on that side of that relation."""
        if not graph.has_train:
            raise DataError(
                f"{graph.name}: no candidates by relation",
                ["the graph has no training triples"],
                "give the candidates in a file, or use `candidates='all'`",
            )
        head, relation, tail = graph.triples("train").T
        return cls.from_pairs("train", graph, {"head": (relation, head), "tail": (relation, tail)})

    def ids(self, side: Side, relation: int) -> Ints:
        """The candidates on a side of a relation: distinct, in ascending order; empty if none are listed."""
        groups = self.groups[side]
        listed = EntityRows(groups.offsets, groups.values).take(
            find(groups.keys, self._keys(side, np.array([relation])))
        )
        return listed.entities.astype(np.int64, copy=False)

    def contains(self, side: Side, relation: AnyInts, entity: AnyInts) -> Flags:
        """Whether each entity is listed on a side of each relation."""
        return self.groups[side].contains(self._keys(side, relation), entity)

    def _keys(self, side: Side, relation: AnyInts) -> AnyInts:
        return relation if self.shared is None else self.shared[side][relation]


@dataclass(frozen=True, eq=False)
class QueryCandidates:
    """The candidates of each triple (fixed negative samples).

    The target of a query is a candidate whether it is listed or not.

    Attributes:
        name: Where they come from.
        lists: For each side, an array [rows, k] of entities, aligned with the triples as they were given.
        rows: For each ranked triple, its row there.
        file_hash: SHA-256 of the file that they come from, if any.

    Example:
        >>> sets = QueryCandidates("negatives", {"tail": np.array([[5, 2, 5], [7, 8, 9]])}, rows=np.array([0, 1]))
        >>> offsets, entities = sets.ids("tail", np.array([0, 1]))
        >>> offsets.tolist(), entities.tolist()
        ([0, 2, 5], [2, 5, 7, 8, 9])
    """

    filtered: ClassVar[bool] = False
    """Whether neither targets nor known answers are listed, so that none has to be left out."""

    name: str
    lists: Mapping[Side, AnyInts]
    rows: AnyInts
    file_hash: str | None = None

    @property
    def negatives(self) -> int:
        """The number of listed candidates of a triple; the larger one, if the sides have different numbers."""
        return max(int(lists.shape[1]) for lists in self.lists.values())

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the lists of the ranked triples."""
        digest = hashlib.sha256()
        for side, lists in sorted(self.lists.items()):
            digest.update(f"{side} {lists.shape[1]}\n".encode())
            for start in range(0, len(self.rows), _HASH_ROWS):
                digest.update(np.sort(lists[self.rows[start : start + _HASH_ROWS]], axis=1).astype("<i8").tobytes())
        return digest.hexdigest()

    def ids(self, side: Side, triple_rows: AnyInts) -> EntityRows:
        """The candidates on a side of these rows of `RankedTriples.triples`."""
        ordered = np.sort(self.lists[side][self.rows[triple_rows]], axis=1)
        new = np.ones(ordered.shape, dtype=bool)
        np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])
        offsets = np.zeros(len(ordered) + 1, dtype=np.int64)
        np.cumsum(new.sum(axis=1), out=offsets[1:])
        return EntityRows(offsets, ordered[new].astype(np.int64, copy=False))


CandidateSets: TypeAlias = RelationCandidates | QueryCandidates


def open_candidates(text: str | os.PathLike[str], graph: KnowledgeGraph, ranked: RankedTriples) -> CandidateSets | None:
    """Candidate sets by name or from a file.

    Args:
        text: "all" entities; "train": entities that occur in training on that side of the relation; or a file.
        graph: The graph.
        ranked: The ranked triples.

    Returns:
        The candidate sets; None for all entities.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
        >>> open_candidates("train", graph, RankedTriples.build(graph)).name
        'train'
    """
    name, path = os.fspath(text), Path(text)
    if name == "all":
        return None
    if name == "train":
        return RelationCandidates.from_train(graph)
    if not os.path.exists(path):
        raise UsageError(f"{name!r} is neither a set of candidates nor a file{nearest(name, _WORDS)}", remedy=_HOW)
    problems: list[str] = []
    sets = _read(path, graph, ranked, problems)
    if sets is None:
        raise DataError(f"{path}: not candidates for {graph.name}", problems, _HOW)
    return sets


def _read(path: Path, graph: KnowledgeGraph, ranked: RankedTriples, problems: list[str]) -> CandidateSets | None:
    if path.suffix == ".npz":
        lists = read_negatives(path, ranked, graph.num_entities, problems)
        return None if lists is None else QueryCandidates(path.name, lists, ranked.rows, _hash(path))
    by_types = read_types if is_type_file(path) else read_pairs
    read = read_type_constraints if path.name.startswith("type_constrain") else by_types
    listed = read(path, graph, problems)
    return None if listed is None else RelationCandidates.from_pairs(path.name, graph, listed, _hash(path))


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_fit(sets: CandidateSets, graph: KnowledgeGraph, ranked: RankedTriples) -> None:
    """Raise an error unless the candidate sets belong to the ranked triples of the graph."""
    sides = sets.lists if isinstance(sets, QueryCandidates) else sets.groups
    problems = []
    if isinstance(sets, QueryCandidates):
        for side, lists in sets.lists.items():
            problems += list_problems(side, lists, len(ranked.given), graph.num_entities)
    elif any(groups.num_values != graph.num_entities for groups in sets.groups.values()):
        problems.append(f"they belong to a graph that does not have {graph.num_entities:,} entities")
    problems += [f"none for the {side}" for side in ranked.sides if side not in sides]
    if problems:
        raise DataError(f"{sets.name}: not candidates for {graph.name}", problems)


def limited(
    sets: CandidateSets | None, own: RelationCandidates, ranked: RankedTriples, num_entities: int
) -> CandidateSets:
    """Candidate sets without the entities that a model does not have on a side of a relation.

    Args:
        sets: The candidate sets; None for all entities.
        own: The entities that the model has.
        ranked: The ranked triples.
        num_entities: Number of entities of the graph.

    Raises:
        DataError: Negatives of some triples are entities that the model does not have there.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2], [2, 1, 0]])
        >>> own = RelationCandidates.from_pairs("own", graph, {"tail": (np.array([0]), np.array([1]))})
        >>> seen = limited(RelationCandidates.from_train(graph), own, RankedTriples.build(graph, "train"), 3)
        >>> seen.name, seen.ids("tail", 0).tolist()
        ('train, own', [1])
    """
    if sets is None:
        return own
    if isinstance(sets, RelationCandidates):
        groups = {}
        for side in sets.groups.keys() & own.groups.keys():
            relation, entity = _pairs(sets, side)
            kept = own.contains(side, relation, entity)
            groups[side] = Grouped.build(relation[kept], entity[kept], int(relation.max(initial=0)) + 1, num_entities)
        return RelationCandidates(f"{sets.name}, {own.name}", groups, sets.file_hash)
    problems = []
    for side, lists in sets.lists.items():
        relation = np.repeat(ranked.given[:, 1], lists.shape[1])
        rows = np.flatnonzero(~own.contains(side, relation, lists.ravel()).reshape(lists.shape).all(axis=1))
        if len(rows):
            problems.append(
                f"{side}: entities that the model does not have there, in {len(rows):,} rows: "
                f"{spans(rows.tolist(), most=10)} (counted from 0)"
            )
    if problems:
        raise DataError(f"{sets.name}: not candidates for this model", problems, f"list only {own.name}")
    return sets


def _pairs(sets: RelationCandidates, side: Side) -> tuple[AnyInts, AnyInts]:
    """All pairs of a relation and a candidate."""
    if sets.shared is None:
        return sets.groups[side].pairs()
    relations = np.arange(len(sets.shared[side]))
    each = [sets.ids(side, relation) for relation in relations.tolist()]
    return np.repeat(relations, [len(ids) for ids in each]), np.concatenate(each) if each else relations


@dataclass(frozen=True, eq=False)
class Counts:
    """For each target: the number of other candidates that are better, that tie with it, and in total.

    Counts over disjoint ranges of entities add up to those over their union.

    Example:
        >>> part = Counts(greater=np.array([3]), equal=np.array([1]), others=np.array([50]))
        >>> whole = part + part
        >>> whole.rank.tolist(), whole.candidates.tolist()
        ([8.0], [101])
    """

    greater: Ints
    equal: Ints
    others: Ints

    @classmethod
    def zeros(cls, targets: int) -> Counts:
        return cls(*(np.zeros(targets, dtype=np.int64) for _ in range(3)))

    def put(self, targets: slice, greater: Ints, equal: Ints, others: Ints) -> None:
        """Set the counts of some targets."""
        self.greater[targets], self.equal[targets], self.others[targets] = greater, equal, others

    def add(self, targets: slice, part: Counts) -> None:
        """Add the counts of some targets over further entities."""
        for own, more in ((self.greater, part.greater), (self.equal, part.equal), (self.others, part.others)):
            own[targets] += more

    def at(self, targets: Ints) -> Counts:
        """The counts of the targets in another order."""
        return Counts(self.greater[targets], self.equal[targets], self.others[targets])

    def __add__(self, more: Counts) -> Counts:
        return Counts(self.greater + more.greater, self.equal + more.equal, self.others + more.others)

    @property
    def reversed(self) -> Counts:
        """The counts if smaller scores are better.

        Example:
            >>> Counts(greater=np.array([3]), equal=np.array([1]), others=np.array([50])).reversed.greater.tolist()
            [46]
        """
        return Counts(self.others - self.greater - self.equal, self.equal, self.others)

    @property
    def rank(self) -> NDArray[np.float64]:
        """Mean rank of the target over its tie group."""
        return 1 + self.greater + self.equal / 2

    @property
    def candidates(self) -> Ints:
        """Number of candidates, the target included."""
        return 1 + self.others


@dataclass(frozen=True, eq=False)
class Task:
    """The queries of one side, their candidates, and the filter.

    Attributes:
        graph: The graph, for its size and its names.
        queries: The queries and their targets.
        known: The filter.
        sets: The candidate sets; None for all entities.
        entities: The entities to count over.
    """

    graph: KnowledgeGraph
    queries: Queries
    known: KnownFilter
    sets: CandidateSets | None
    entities: range

    def runs(self, *, apart: bool = False) -> Iterator[tuple[range, Columns]]:
        """Queries that share their candidates: all of them, or those of one relation after the other.

        Args:
            apart: Whether to separate relations even if their candidates are the same entities.
        """
        apart = apart or isinstance(self.sets, RelationCandidates)
        starts = run_starts(self.queries.relation)[: None if apart else 1]
        for start, stop in zip(starts, np.append(starts[1:], len(self.queries)), strict=False):
            columns = Columns(self.entities)
            if isinstance(self.sets, RelationCandidates):
                ids = self.sets.ids(self.queries.side, int(self.queries.relation[start]))
                columns = Columns(ids).within(self.entities)
            yield range(start, stop), columns

    def block(self, columns: Columns, start: int, stop: int) -> QueryBlock:
        """The block of the queries ``start`` up to ``stop``; that of all queries is kept for the next model."""
        if stop - start < len(self.queries) or not isinstance(columns.entities, range):
            return QueryBlock(self, columns, start, stop)
        return self._whole

    @cached_property
    def _whole(self) -> QueryBlock:
        return QueryBlock(self, Columns(self.entities), 0, len(self.queries))

    def nan_error(self, queries: Ints) -> DataError:
        """The error for NaN scores of these queries."""
        first = np.unique(queries)[:_NAMED]
        given = self.graph.entity_label(self.queries.given[first])
        relation = self.graph.relation_label(self.queries.relation[first])
        form = "({given}, {relation}, ?)" if self.queries.side == "tail" else "(?, {relation}, {given})"
        named = [form.format(given=g, relation=r) for g, r in zip(given, relation, strict=True)]
        more = len(np.unique(queries)) - len(named)
        return DataError(
            "scores are NaN, so nothing can be ranked",
            [f"query {name}" for name in named] + ([f"and {more:,} more found so far"] if more else []),
            "look for the cause in the model: a division by zero, an overflow, a training that diverged",
        )


@dataclass(frozen=True, eq=False)
class Columns:
    """Which entity is in which column of a score tile.

    Attributes:
        entities: The entities in ascending order: a range, or an array of ids.

    Example:
        >>> Columns(range(10, 20)).position(np.array([12, 30])).tolist()
        [2, -1]
        >>> Columns(np.array([3, 7])).within(range(5, 9)).position(np.array([7])).tolist()
        [0]
    """

    entities: range | Ints

    def __len__(self) -> int:
        return len(self.entities)

    def within(self, entities: range) -> Columns:
        """Only the columns of entities in a range."""
        if isinstance(self.entities, range):
            return Columns(range(max(self.entities.start, entities.start), min(self.entities.stop, entities.stop)))
        first, last = np.searchsorted(self.entities, [entities.start, entities.stop])
        return Columns(self.entities[first:last])

    def position(self, entities: NDArray[np.integer]) -> Ints:
        """The column of each entity, -1 where it has none."""
        if isinstance(self.entities, range):
            inside = (entities >= self.entities.start) & (entities < self.entities.stop)
            return np.where(inside, entities - self.entities.start, -1).astype(np.int64)
        return find(self.entities, entities)

    @property
    def index(self) -> slice | Ints:
        """The index that selects these columns from an array of all entities."""
        if isinstance(self.entities, range):
            return slice(self.entities.start, max(self.entities.start, self.entities.stop))
        return self.entities


@dataclass(frozen=True, eq=False)
class QueryBlock:
    """The queries from ``start`` up to ``stop`` (not included), against the entities in the columns."""

    task: Task
    columns: Columns
    start: int
    stop: int

    @cached_property
    def targets(self) -> slice:
        """The positions of the targets of these queries among all targets."""
        first, last = np.searchsorted(self.task.queries.query, [self.start, self.stop])
        return slice(int(first), int(last))

    @cached_property
    def row(self) -> Ints:
        """For each target, the row of its query in the block."""
        return self.task.queries.query[self.targets] - self.start

    @cached_property
    def target(self) -> Ints:
        """The target entities."""
        return self.task.queries.target[self.targets]

    @cached_property
    def column(self) -> Ints:
        """The column of each target, -1 where it has none."""
        return self.columns.position(self.target)

    @cached_property
    def known(self) -> tuple[Ints, Ints]:
        """The filtered candidates: rows in ascending order, and columns."""
        offsets, entities = self.task.queries.known_rows(self.task.known, self.start, self.stop)
        column = self.columns.position(entities)
        row = np.repeat(np.arange(self.stop - self.start), np.diff(offsets))
        return row[column >= 0], column[column >= 0]

    @cached_property
    def placed(self) -> dict[str, Any]:
        """What a backend keeps of this block on each device, for the next model."""
        return {}

    @cached_property
    def known_offsets(self) -> Ints:
        """Where the filtered candidates of each query begin; one more for the end."""
        return np.searchsorted(self.known[0], np.arange(self.stop - self.start + 1))

    def _is_known(self, row: Ints, column: Ints) -> NDArray[np.bool_]:
        width = max(len(self.columns), 1)
        return find(pair_keys(*self.known, width), pair_keys(row, column, width)) >= 0

    @cached_property
    def counts_itself(self) -> Ints:
        """The columns of targets that are not filtered, so that they would count themselves; -1 for all others."""
        return np.where(self._is_known(self.row, self.column), -1, self.column)

    @cached_property
    def others(self) -> Ints:
        """The number of candidates of each target besides itself."""
        left = len(self.columns) - np.bincount(self.known[0], minlength=self.stop - self.start)
        return left[self.row] - (self.counts_itself >= 0)

    @cached_property
    def _known_by_column(self) -> tuple[Ints, Ints]:
        row, column = self.known
        order = np.argsort(column, kind="stable")
        return row[order], column[order]

    def filtered(self, first: int, last: int) -> tuple[Ints, Ints]:
        """The filtered candidates in the columns ``first`` up to ``last``: rows, and columns counted from first."""
        if (first, last) == (0, len(self.columns)):
            return self.known
        row, column = self._known_by_column
        some = slice(*np.searchsorted(column, [first, last]))
        return row[some], column[some] - first

    def listed(self, sets: QueryCandidates) -> tuple[Ints, Ints]:
        """The candidates listed for each target, except the target and what is filtered.

        Returns:
            Positions among the targets, and columns.
        """
        queries = self.task.queries
        offsets, entities = sets.ids(queries.side, queries.triple[self.targets])
        which, column = np.repeat(np.arange(len(self.row)), np.diff(offsets)), self.columns.position(entities)
        if sets.filtered:
            return which[column >= 0], column[column >= 0]
        left = (column >= 0) & (column != self.column[which]) & ~self._is_known(self.row[which], column)
        return which[left], column[left]
