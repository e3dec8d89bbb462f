"""A brute force that ranks by loops, written from the definitions, and the models and graphs it is held against."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.scorer import Side
from kgprobe.predict.similarity import Dot, GroupNorm, Similarity

Row = tuple[float, int, int]
"""Rank, ties and candidates."""


@dataclass
class Vectors:
    """A model whose queries are the vectors of (side, given, relation) in a table."""

    similarity: Similarity
    queries: NDArray[np.float32]  # [2, entities, relations, d]
    table: NDArray[np.float32]  # [entities, d]

    def encode_queries(self, side: Side, given: Any, relation: Any) -> Any:
        return self.queries[int(side == "tail"), given, relation]

    def candidates(self, side: Side) -> Any:
        return self.table


@dataclass
class RelationVectors(Vectors):
    """The same, with candidates that are scaled differently for every relation."""

    def candidates(self, side: Side) -> Any:
        raise AssertionError("these candidates depend on the relation")

    def candidates_for(self, side: Side, relation: int) -> Any:
        return self.table * np.float32(1 + relation)


def vectors(kind: str, similarity: Similarity, graph: KnowledgeGraph, dimension: int, seed: int) -> Vectors:
    rng = np.random.default_rng(seed)
    table = TABLES[kind](rng, graph.num_entities, dimension)
    queries = QUERIES.get(kind, _normal)(rng, 2 * graph.num_entities * graph.num_relations, dimension)
    return Vectors(similarity, queries.reshape(2, graph.num_entities, graph.num_relations, dimension), table)


def _normal(rng: np.random.Generator, rows: int, dimension: int) -> NDArray[np.float32]:
    return rng.standard_normal((rows, dimension)).astype(np.float32)


def _duplicated(rng: np.random.Generator, rows: int, dimension: int) -> NDArray[np.float32]:
    return _normal(rng, 3, dimension)[rng.integers(0, 3, rows)]


def _one_ulp_apart(rng: np.random.Generator, rows: int, dimension: int) -> NDArray[np.float32]:
    table = np.repeat(_normal(rng, 1, dimension), rows, axis=0)
    moved = rng.integers(0, dimension, rows)
    toward = rng.choice([-np.inf, np.inf], rows).astype(np.float32)
    table[np.arange(rows), moved] = np.nextafter(table[np.arange(rows), moved], toward)
    return table


def _huge(rng: np.random.Generator, rows: int, dimension: int) -> NDArray[np.float32]:
    return (_normal(rng, rows, dimension) * 10.0 ** rng.uniform(15, 37, (rows, 1))).astype(np.float32)


def _tiny(rng: np.random.Generator, rows: int, dimension: int) -> NDArray[np.float32]:
    return (_normal(rng, rows, dimension) * 10.0 ** rng.uniform(-44, -18, (rows, 1))).astype(np.float32)


def _cancelling(rng: np.random.Generator, rows: int, dimension: int) -> NDArray[np.float32]:
    table = _normal(rng, rows, dimension)
    table[:, 0], table[:, -1] = 1e7, -1e7
    return table


def _some_infinite(rng: np.random.Generator, rows: int, dimension: int) -> NDArray[np.float32]:
    table = _normal(rng, rows, dimension)
    table[::3, 0] = rng.choice([-np.inf, np.inf], len(table[::3]))
    return table


TABLES: dict[str, Callable[[np.random.Generator, int, int], NDArray[np.float32]]] = {
    "random": _normal,
    "duplicated": _duplicated,
    "one ulp apart": _one_ulp_apart,
    "zero": lambda rng, rows, dimension: np.zeros((rows, dimension), dtype=np.float32),
    "huge": _huge,
    "tiny": _tiny,
    "cancelling": _cancelling,
    "some infinite": _some_infinite,
}
QUERIES = {
    "one ulp apart": lambda rng, rows, dimension: np.repeat(_normal(rng, 1, dimension), rows, axis=0),
    "huge": _huge,
    "tiny": _tiny,
    "cancelling": lambda rng, rows, dimension: np.abs(_normal(rng, 1, dimension)).repeat(rows, axis=0),
}


def graph_of(seed: int, entities: int = 12, relations: int = 3, facts: int = 60) -> KnowledgeGraph:
    """A small graph with self-loops, repeated test facts, and test facts that training knows."""
    rng = np.random.default_rng(seed)

    def drawn(n: int) -> NDArray[np.int64]:
        return np.column_stack([rng.integers(0, size, n) for size in (entities, relations, entities)])

    test = drawn(facts // 2)
    test[0, 2] = test[0, 0]
    train = drawn(facts)
    return KnowledgeGraph.from_triples(
        train=train,
        valid=drawn(facts // 4),
        test=np.concatenate([test, test[:3], train[:2]]),
        num_entities=entities,
        num_relations=relations,
    )


def score(similarity: Similarity, query: NDArray[np.float32], candidate: NDArray[np.float32]) -> float:
    """The score of record, from its definition: float64 in the order of the coordinates, rounded to float32."""
    pairs = [(float(q), float(e)) for q, e in zip(query, candidate, strict=True)]
    total = 0.0
    if isinstance(similarity, Dot):
        for q, e in pairs:
            total += q * e
    else:
        assert isinstance(similarity, GroupNorm)
        width = similarity.size or len(pairs)
        for start in range(0, len(pairs), width):
            squared = 0.0
            for q, e in pairs[start : start + width]:
                squared += (q - e) * (q - e)
            total += math.sqrt(squared)
        total = similarity.gamma - total
    with np.errstate(over="ignore"):
        return float(np.float32(total))


def brute_force(
    model: Vectors,
    graph: KnowledgeGraph,
    filtered: tuple[str, ...] = ("train", "valid", "test"),
    allowed: Callable[[tuple[int, int, int], Side], set[int]] | None = None,
) -> dict[tuple[int, int, int, Side], Row]:
    """The rank, ties and candidates of every distinct query and target of the test facts, by loops."""
    known = {tuple(triple) for split in filtered for triple in graph.triples(split).tolist()}
    found: dict[tuple[int, int, int, Side], Row] = {}
    for head, relation, tail in graph.triples("test").tolist():
        for side in ("tail", "head"):
            given, target = (head, tail) if side == "tail" else (tail, head)
            query = np.asarray(model.encode_queries(side, given, relation))
            per_relation = hasattr(model, "candidates_for")
            table = model.candidates_for(side, relation) if per_relation else model.candidates(side)
            own = score(model.similarity, query, table[target])
            others = set(range(graph.num_entities)) if allowed is None else allowed((head, relation, tail), side)
            greater = equal = candidates = 0
            for entity in others - {target}:
                fact = (given, relation, entity) if side == "tail" else (entity, relation, given)
                if fact in known:
                    continue
                candidates += 1
                value = score(model.similarity, query, table[entity])
                greater += value > own
                equal += value == own
            found[head, relation, tail, side] = (1 + greater + equal / 2, equal, candidates + 1)
    return found
