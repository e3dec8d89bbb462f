"""OpenWorld: a graph that is taken as complete, and the part of it that an evaluator sees."""

from __future__ import annotations

import re
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
from kgprobe.graph.knowledge_graph import Labels
from kgprobe.metrics import parse_all
from kgprobe.predict.filters import KnownFilter


def natural(name: str) -> list[tuple[bool, int, str]]:
    """A key by which epoch-5 stands before epoch-10.

    Example:
        >>> sorted(["epoch-10", "epoch-5", "final"], key=natural)
        ['epoch-5', 'epoch-10', 'final']
    """
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


OPEN_WORLD_METRICS = tuple(
    parse_all(
        [
            "MRR",
            *(f"pMRR(p={p})" for p in (1, 0.67, 0.5, 0.33, 0.25)),
            "logMRR",
            *(f"Hits@{k}" for k in (1, 3, 10)),
            *(f"PROBE(alpha={alpha},beta=0)" for alpha in (2, 1, 0.5, 0, -0.5, -1)),
        ]
    )
)

"""What is compared where nothing else is asked for."""

PARTS = ("train", "valid", "known", "missing")  # the parts of a world; each fact is in one of them


@dataclass(frozen=True, eq=False)
class OpenWorld:
    """All facts of a closed world: those that an open one trains on, those that it holds out, and those that it lacks.

    Facts are arrays [n, 3] (head, relation, tail), read-only, and no fact occurs twice. The *hard* facts are those
    that no model is trained or selected on: known and missing.

    Attributes:
        name: What reports call it.
        num_entities: Number of entities.
        num_relations: Number of relations.
        train: What models learn.
        known: What is held out, and known to be true.
        missing: What is true, and taken for false in the open world.
        valid: What models are selected by; may be empty.
        queries: [n, 2] (head, relation), where the hard facts are only those of some tail queries; None where they are
            all that there are.
        entity_labels: Names of the entities in id order.
        relation_labels: Names of the relations in id order.
        settings: How it was made.

    Raises:
        DataError: These are not the parts of a world; all that is wrong is listed.

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

    def __post_init__(self) -> None:
        parts = {part: _as_array(getattr(self, part), 3) for part in PARTS}
        queries = None if self.queries is None else _as_array(self.queries, 2)
        problems = [
            problem
            for part, facts in parts.items()
            for problem in triple_problems(part, facts, self.num_entities, self.num_relations)
        ]
        problems += [] if queries is None else _query_problems(queries, self.num_entities, self.num_relations)
        if not problems:
            problems = _overlaps(parts)
        if problems:
            remedy = "give every fact once: trained on, known, or missing"
            raise DataError(f"{self.name}: these are not the parts of a world", problems, remedy)
        for part, facts in parts.items():
            object.__setattr__(self, part, _frozen(facts))
        object.__setattr__(self, "queries", None if queries is None else _frozen(queries))

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """What an evaluator sees: the known facts are the test split."""
        return self._with_test(self.known)

    @cached_property
    def complete(self) -> KnowledgeGraph:
        """All there is: known and missing facts are the test split."""
        return self._with_test(self.hard)

    @cached_property
    def learned(self) -> KnowledgeGraph:
        """What models see: no test split."""
        return self._with_test(None)

    def _with_test(self, test: AnyInts | None) -> KnowledgeGraph:
        given = {"train": self.train, "valid": self.valid if len(self.valid) else None, "test": test}
        splits = {split: facts for split, facts in given.items() if facts is not None}
        labels = self.entity_labels, self.relation_labels
        return KnowledgeGraph(self.name, self.num_entities, self.num_relations, splits, *labels)

    @cached_property
    def hard(self) -> AnyInts:
        """The facts that no model has seen: the known ones, then the missing ones."""
        return _frozen(np.concatenate([self.known, self.missing]))

    @cached_property
    def open_filter(self) -> KnownFilter:
        """The true answers that an evaluator can leave out."""
        return _filter(self.graph, ())

    @cached_property
    def closed_filter(self) -> KnownFilter:
        """All true answers."""
        return _filter(self.complete, ("missing",))

    @property
    def facts(self) -> dict[str, int]:
        """How many facts each part has."""
        return {part: len(getattr(self, part)) for part in PARTS}

    @property
    def shares(self) -> dict[str, float]:
        """The share of each part in all facts, and ``hard_missing``, the share of the hard facts that is missing.

        Where the hard facts of most queries are not told, there is only the latter.
        """
        total = sum(self.facts.values())
        parts = {} if self.queries is not None else {part: count / max(total, 1) for part, count in self.facts.items()}
        return parts | {"hard_missing": len(self.missing) / max(len(self.hard), 1)}


def _filter(graph: KnowledgeGraph, more: tuple[str, ...]) -> KnownFilter:
    known = KnownAnswers.from_triples(graph.triples(), graph.num_entities, graph.num_relations)
    return KnownFilter(known, (*graph.splits, *more))


def _as_array(rows: ArrayLike, columns: int) -> NDArray[Any]:
    array = np.asarray(rows)
    return array if array.size else np.empty((0, columns), dtype=np.int64)


def _frozen(rows: NDArray[Any]) -> AnyInts:
    """In memory that nobody can change."""
    frozen = np.array(rows, dtype=np.int64)
    frozen.flags.writeable = False
    return frozen


def _query_problems(queries: NDArray[Any], entities: int, relations: int) -> list[str]:
    if queries.ndim != 2 or queries.shape[1] != 2 or not np.issubdtype(queries.dtype, np.integer):
        return [f"queries: {queries.dtype} of shape {queries.shape}, expected whole numbers [n, 2] (head, relation)"]
    head, relation = queries.T
    problems = id_problems("queries head", head, entities) + id_problems("queries relation", relation, relations)
    repeated = 0 if problems else len(queries) - len(np.unique(queries, axis=0))
    return [*problems, f"queries: {repeated:,} are given more than once"] if repeated else problems


def _overlaps(parts: Mapping[str, AnyInts]) -> list[str]:
    """Facts that are given more than once, in a part or in two."""
    codes = dict(zip(parts, codes_of([list(facts.T) for facts in parts.values()]), strict=True))
    repeated = {part: len(own) - len(np.unique(own)) for part, own in codes.items()}
    problems = [f"{part}: {count:,} facts are given more than once" for part, count in repeated.items() if count]
    for one, other in combinations(parts, 2):
        shared = np.flatnonzero(np.isin(codes[one], codes[other]))
        if len(shared):
            example = tuple(parts[one][shared[0]].tolist())
            problems.append(f"{len(shared):,} facts are in {one} and in {other}, for example {example}")
    return problems
