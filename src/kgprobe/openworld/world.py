"""OpenWorld: a graph that is taken as complete, and which of its triples are trained on, known and missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.arrays import AnyInts, codes_of, id_problems, triple_problems
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, KnownAnswers
from kgprobe.graph.names import Labels
from kgprobe.metrics import parse_all
from kgprobe.predict.queries import KnownFilter

# The metrics that are compared by default.
_PMRR = [f"pMRR(p={p})" for p in (1, 0.67, 0.5, 0.33, 0.25)]
_PROBE = [f"PROBE(alpha={alpha},beta=0)" for alpha in (2, 1, 0.5, 0, -0.5, -1)]
OPEN_WORLD_METRICS = tuple(parse_all(["MRR", *_PMRR, "logMRR", "Hits@1", "Hits@3", "Hits@10", *_PROBE]))
PARTS = ("train", "valid", "known", "missing")  # every triple of a world is in exactly one part


@dataclass(frozen=True, eq=False)
class OpenWorld:
    """All triples of a closed world, divided into training, validation, known test and missing triples.

    Triples are read-only arrays [n, 3] (head, relation, tail) without repetitions. The *hard* triples are those that no
    model is trained or selected on: known and missing.

    Attributes:
        name: Name in reports.
        num_entities: Number of entities.
        num_relations: Number of relations.
        train: Training triples.
        known: Held-out triples that are known to be true: the test split of the open world.
        missing: True triples that the open world takes for false.
        valid: Validation triples; may be empty.
        queries: [n, 2] (head, relation) if the hard triples are only those of these tail queries; None if they are all.
        entity_labels: Labels of the entities in id order.
        relation_labels: Labels of the relations in id order.
        settings: How the world was made.
        entity_names: Names of the entities for people, in id order.
        relation_names: Names of the relations for people.

    Raises:
        DataError: The parts are invalid or overlap; the message lists every problem.

    Example:
        >>> world = OpenWorld("tiny", 4, 1, train=[[0, 0, 1]], known=[[0, 0, 2]], missing=[[0, 0, 3], [1, 0, 3]])
        >>> world.graph.triples("test").tolist(), len(world.complete.triples("test"))
        ([[0, 0, 2]], 3)
        >>> world.shares["missing"], round(world.shares["hard_missing"], 3)
        (0.5, 0.667)
    """

    name: str
    num_entities: int
    num_relations: int
    train: AnyInts
    known: AnyInts
    missing: AnyInts
    valid: AnyInts = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    queries: AnyInts | None = None
    entity_labels: Labels | None = None
    relation_labels: Labels | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    entity_names: Labels | None = None
    relation_names: Labels | None = None

    def __post_init__(self) -> None:
        parts = {part: _as_array(getattr(self, part), 3) for part in PARTS}
        queries = None if self.queries is None else _as_array(self.queries, 2)
        problems = [
            problem
            for part, triples in parts.items()
            for problem in triple_problems(part, triples, self.num_entities, self.num_relations)
        ]
        problems += [] if queries is None else _query_problems(queries, self.num_entities, self.num_relations)
        if not problems:
            problems = _overlaps(parts)
        if problems:
            remedy = "give every triple once, in train, valid, known or missing"
            raise DataError(f"{self.name}: invalid parts of a world", problems, remedy)
        for part, triples in parts.items():
            object.__setattr__(self, part, _frozen(triples))
        object.__setattr__(self, "queries", None if queries is None else _frozen(queries))

    @property
    def train_share(self) -> float | None:
        """Share of the known triples that is in train, if the world was split by it."""
        share = self.settings.get("train_share")
        return share if isinstance(share, float) and 0 < share < 1 else None

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The graph of the open world: the known triples are the test split."""
        return self._with_test(self.known)

    @cached_property
    def complete(self) -> KnowledgeGraph:
        """The graph of the closed world: known and missing triples are the test split."""
        return self._with_test(self.hard)

    @cached_property
    def learned(self) -> KnowledgeGraph:
        """The graph that models are trained on, without a test split."""
        return self._with_test(None)

    def _with_test(self, test: AnyInts | None) -> KnowledgeGraph:
        splits = {"train": self.train}
        splits |= {"valid": self.valid} if len(self.valid) else {}
        splits |= {} if test is None else {"test": test}
        return KnowledgeGraph(
            self.name,
            self.num_entities,
            self.num_relations,
            splits,
            self.entity_labels,
            self.relation_labels,
            entity_names=self.entity_names,
            relation_names=self.relation_names,
        )

    @cached_property
    def hard(self) -> AnyInts:
        """The known triples, then the missing triples."""
        return _frozen(np.concatenate([self.known, self.missing]))

    @cached_property
    def open_filter(self) -> KnownFilter:
        """The filter of the open world: all triples but the missing ones."""
        return _filter(self.graph, ())

    @cached_property
    def closed_filter(self) -> KnownFilter:
        """The filter of the closed world: all triples."""
        return _filter(self.complete, ("missing",))

    @property
    def sizes(self) -> dict[str, int]:
        """Number of triples of each part."""
        return {part: len(getattr(self, part)) for part in PARTS}

    @property
    def shares(self) -> dict[str, float]:
        """The share of each part in all triples, and ``hard_missing``, the share of the hard triples that is missing.

        If the hard triples are only those of some queries, there is only the latter.
        """
        total = sum(self.sizes.values())
        parts = {} if self.queries is not None else {part: size / max(total, 1) for part, size in self.sizes.items()}
        return parts | {"hard_missing": len(self.missing) / max(len(self.hard), 1)}


def _filter(graph: KnowledgeGraph, more: tuple[str, ...]) -> KnownFilter:
    parts = tuple(graph.splits.values())
    known = KnownAnswers.build(parts, graph.num_entities, graph.num_relations)
    return KnownFilter(known, (*graph.splits, *more), parts)


def _as_array(rows: ArrayLike, columns: int) -> NDArray[Any]:
    try:
        array = np.asarray(rows)
    except ValueError as error:
        raise DataError(
            "rows of different lengths", [str(error)], f"give {columns} whole numbers in each row"
        ) from None
    return array if array.size else np.empty((0, columns), dtype=np.int64)


def _frozen(rows: NDArray[Any]) -> AnyInts:
    """A read-only copy."""
    frozen = np.array(rows, dtype=np.int64)
    frozen.flags.writeable = False
    return frozen


def _query_problems(queries: NDArray[Any], entities: int, relations: int) -> list[str]:
    if queries.ndim != 2 or queries.shape[1] != 2 or not np.issubdtype(queries.dtype, np.integer):
        return [f"queries: {queries.dtype} of shape {queries.shape}, expected integers [n, 2] (head, relation)"]
    head, relation = queries.T
    problems = id_problems("queries head", head, entities) + id_problems("queries relation", relation, relations)
    repeated = 0 if problems else len(queries) - len(np.unique(queries, axis=0))
    return [*problems, f"queries: {repeated:,} repeated queries"] if repeated else problems


def _overlaps(parts: Mapping[str, AnyInts]) -> list[str]:
    """Triples that occur more than once, in one part or in two."""
    codes = dict(zip(parts, codes_of([list(triples.T) for triples in parts.values()]), strict=True))
    repeated = {part: len(own) - len(np.unique(own)) for part, own in codes.items()}
    problems = [f"{part}: {count:,} repeated triples" for part, count in repeated.items() if count]
    for one, other in combinations(parts, 2):
        shared = np.flatnonzero(np.isin(codes[one], codes[other]))
        if len(shared):
            example = tuple(parts[one][shared[0]].tolist())
            problems.append(f"{len(shared):,} triples are in both {one} and {other}, for example {example}")
    return problems
