"""A brute force that ranks by loops, written from the definitions, and the models and graphs it is held against."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from adversarial import QUERIES, TABLES, Floats, normal
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.backends.backend import Backend, NumpyBackend
from kgprobe.predict.backends.int16_backend import Int16Backend
from kgprobe.predict.backends.numba_backend import NumbaBackend
from kgprobe.predict.backends.torch_backend import TorchBackend
from kgprobe.predict.engine import count_embedding, count_matrix
from kgprobe.predict.queries import FilterChoice, KnownFilter, RankedTriples
from kgprobe.predict.scorers import (
    SIDES,
    ClampedDot,
    Dot,
    EmbeddingScorer,
    FarthestNorm,
    GroupNorm,
    RelationEmbeddingScorer,
    Side,
    Similarity,
)
from kgprobe.predict.tasks import CandidateSets, Counts, QueryCandidates, RelationCandidates, Task
from kgprobe.ranks import Ranks
from kgprobe.resources import Resources

Triple = tuple[int, int, int]

Rows = dict[tuple[int, int, int, Side], tuple[float, int, int]]

"""Rank, ties and candidates of every triple and side."""

Allowed = Callable[[Triple, Side], set[int]]

BACKENDS: dict[str, Callable[[], Backend]] = {
    "plain": NumpyBackend,
    "compiled": NumbaBackend,
    "torch": lambda: TorchBackend("cpu"),
} | ({"cuda": lambda: TorchBackend("cuda")} if torch.cuda.is_available() else {})

QUICK: dict[str, Callable[[], Backend]] = BACKENDS | {"int16": Int16Backend}

"""Those that may count, also those whose tiles are not matrices of scores."""

COUNTING = dict(QUICK)

if find_spec("triton"):
    from kgprobe.predict.backends.triton_backend import Tile, Tiles, TritonBackend

    SMALL = Tiles(*6 * [Tile(16, 32, 4)], counting=3, settling=2, many=48)
    COUNTING["triton"] = lambda: TritonBackend("cuda" if torch.cuda.is_available() else "cpu", SMALL)

COUNTED = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in COUNTING]

"""The names of all of them. Interpreted kernels take long; tests of their own are quick."""

SIMILARITIES = [Dot(), GroupNorm(1, gamma=12.0), GroupNorm(2), GroupNorm(3, gamma=-0.5), GroupNorm(None, gamma=9.0)]


@dataclass
class Vectors:
    """A model whose queries are the vectors of (side, given, relation) in a table."""

    similarity: Similarity
    queries: Floats  # [2, entities, relations, d]
    table: Floats  # [entities, d]

    def encode_queries(self, side: Side, given: Any, relation: Any) -> Any:
        return self.queries[int(side == "tail"), given, relation]

    def candidates(self, side: Side) -> Any:
        return self.table


@dataclass
class RelationVectors:
    """The same, with candidates that are scaled differently for every side and relation."""

    similarity: Similarity
    queries: Floats
    table: Floats

    def encode_queries(self, side: Side, given: Any, relation: Any) -> Any:
        return self.queries[int(side == "tail"), given, relation]

    def candidates_for(self, side: Side, relation: int) -> Any:
        return self.table * np.float32(1 + relation if side == "tail" else -(2.0**relation))


@dataclass
class Matrix:
    """A model that hands out scores: those of (side, given, relation) in a table [2, entities, relations, entities]."""

    scores: NDArray[Any]

    def score(self, side: Side, given: Any, relation: Any) -> Any:
        return self.scores[int(side == "tail"), given, relation]


AnyModel = Vectors | RelationVectors | Matrix


def vectors(kind: str, similarity: Similarity, graph: KnowledgeGraph, dimension: int, seed: int) -> Vectors:
    rng = np.random.default_rng(seed)
    table = TABLES[kind](rng, graph.num_entities, dimension)
    queries = QUERIES.get(kind, normal)(rng, 2 * graph.num_entities * graph.num_relations, dimension)
    return Vectors(similarity, queries.reshape(2, graph.num_entities, graph.num_relations, dimension), table)


def relation_vectors(kind: str, similarity: Similarity, graph: KnowledgeGraph, seed: int) -> RelationVectors:
    model = vectors(kind, similarity, graph, 6, seed)
    return RelationVectors(similarity, model.queries, model.table)


def matrix(graph: KnowledgeGraph, seed: int, levels: int = 5) -> Matrix:
    """Scores that tie often, some of them infinite."""
    values = np.concatenate([np.arange(levels) / 3, [-np.inf, np.inf]])
    shape = (2, graph.num_entities, graph.num_relations, graph.num_entities)
    return Matrix(np.random.default_rng(seed).choice(values, shape))


def graph_of(seed: int, entities: int = 12, relations: int = 3, facts: int = 60) -> KnowledgeGraph:
    """A small graph with self-loops, repeated test triples, and test triples that training knows."""
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


def relation_sets(graph: KnowledgeGraph, seed: int) -> tuple[RelationCandidates, Allowed]:
    """Entities drawn for each side of each relation: none for the first, all for the last; and what is allowed."""
    rng = np.random.default_rng(seed)
    kept = {side: rng.random((graph.num_relations, graph.num_entities)) < 0.5 for side in SIDES}
    for flags in kept.values():
        flags[0], flags[-1] = False, True
    listed = {side: np.nonzero(flags) for side, flags in kept.items()}
    sets = RelationCandidates.from_pairs("drawn", graph, listed)
    return sets, lambda triple, side: set(np.flatnonzero(kept[side][triple[1]]).tolist())


def query_sets(ranked: RankedTriples, entities: int, seed: int) -> tuple[QueryCandidates, Allowed]:
    """A few entities for each triple that was given, perhaps several times; and what is allowed."""
    rng = np.random.default_rng(seed)
    lists = {side: rng.integers(0, entities, (len(ranked.given), 5)) for side in SIDES}
    place = {tuple(triple): row for row, triple in reversed(list(enumerate(ranked.given.tolist())))}
    sets = QueryCandidates("drawn", lists, ranked.rows)
    return sets, lambda triple, side: set(lists[side][place[triple]].tolist())


def score(similarity: Similarity, query: Sequence[float], candidate: Sequence[float]) -> float:
    """The compared score, from its definition: float64 in the order of the coordinates, rounded to float32."""
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
        rounded = float(np.float32(total))
    if isinstance(similarity, ClampedDot):
        return min(max(rounded, -similarity.limit), similarity.limit)
    return -rounded if isinstance(similarity, FarthestNorm) else rounded


def all_scores(model: AnyModel, side: Side, given: int, relation: int) -> list[float]:
    if isinstance(model, Matrix):
        return [float(value) for value in model.score(side, given, relation)]
    query = model.encode_queries(side, given, relation).tolist()
    per_relation = isinstance(model, RelationVectors)
    table = model.candidates_for(side, relation) if per_relation else model.candidates(side)
    return [score(model.similarity, query, candidate) for candidate in table.tolist()]


def brute_force(
    model: AnyModel,
    graph: KnowledgeGraph,
    filtered: tuple[str, ...] = ("train", "valid", "test"),
    allowed: Allowed | None = None,
) -> Rows:
    """The rank, ties and candidates of every test triple on either side, by loops."""
    known = {tuple(triple) for split in filtered for triple in graph.triples(split).tolist()}
    asked: dict[tuple[Side, int, int], list[float]] = {}
    found: Rows = {}
    for head, relation, tail in graph.triples("test").tolist():
        for side in SIDES:
            given, target = (head, tail) if side == "tail" else (tail, head)
            if (side, given, relation) not in asked:
                asked[side, given, relation] = all_scores(model, side, given, relation)
            scores = asked[side, given, relation]
            others = set(range(graph.num_entities)) if allowed is None else allowed((head, relation, tail), side)
            greater = equal = candidates = 0
            for entity in others - {target}:
                triple = (given, relation, entity) if side == "tail" else (entity, relation, given)
                if triple not in known:
                    candidates += 1
                    greater += scores[entity] > scores[target]
                    equal += scores[entity] == scores[target]
            found[head, relation, tail, side] = (1 + greater + equal / 2, equal, candidates + 1)
    return found


def counted(
    model: AnyModel,
    graph: KnowledgeGraph,
    backend: Backend,
    resources: Resources = Resources(threads=1),  # noqa: B008
    filtered: FilterChoice = None,
    sets: CandidateSets | None = None,
) -> Rows:
    """The same from the engine, with an backend of choice."""
    ranked, known = RankedTriples.build(graph), KnownFilter.build(graph, filtered)
    count: Any = count_embedding if isinstance(model, EmbeddingScorer | RelationEmbeddingScorer) else count_matrix
    found: Rows = {}
    for side in ranked.sides:
        queries = ranked.queries(side)
        counts = Counts.zeros(len(queries.query))
        for entities in resources.ranges(graph.num_entities):
            task = Task(graph, queries, known, sets, entities)
            counts = counts + count(model, task, backend, resources, lambda targets: None)
        rows = zip(ranked.triples[queries.triple].tolist(), counts.rank, counts.equal, counts.candidates, strict=True)
        found |= {(*triple, side): (float(r), int(t), int(c)) for triple, r, t, c in rows}
    return found


def rows_of(ranks: Ranks) -> Rows:
    """The same from a rank table."""
    names = ("head", "relation", "tail", "side", "rank", "ties", "candidates")
    rows = list(zip(*(ranks.column(name).to_pylist() for name in names), strict=True))
    found: Any = {row[:4]: row[4:] for row in rows}
    assert len(found) == len(rows)
    return found
