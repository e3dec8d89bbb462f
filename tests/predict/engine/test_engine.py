"""Ranks against a brute force by loops, on random and on adversarial vectors, whatever computes them."""

from collections.abc import Callable

import numpy as np
import pytest
from ranking import TABLES, RelationVectors, Vectors, brute_force, graph_of, vectors

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.arithmetic import Arithmetic
from kgprobe.predict.arithmetic.compiled import CompiledArithmetic
from kgprobe.predict.arithmetic.plain import PlainArithmetic
from kgprobe.predict.arithmetic.torch_ import TorchArithmetic
from kgprobe.predict.counts import Counts
from kgprobe.predict.engine import Task
from kgprobe.predict.engine.embedding import count_embedding
from kgprobe.predict.facts import Facts
from kgprobe.predict.filter import KnownFilter
from kgprobe.predict.resources import Resources
from kgprobe.predict.similarity import Dot, GroupNorm, Similarity

ARITHMETICS: dict[str, Callable[[], Arithmetic]] = {
    "plain": PlainArithmetic,
    "compiled": CompiledArithmetic,
    "torch": lambda: TorchArithmetic("cpu"),
}
SIMILARITIES = [Dot(), GroupNorm(1, gamma=12.0), GroupNorm(2), GroupNorm(3, gamma=-0.5), GroupNorm(None, gamma=9.0)]


def counted(
    model: Vectors,
    graph: KnowledgeGraph,
    arithmetic: Arithmetic,
    resources: Resources = Resources(threads=1),  # noqa: B008
    filtered: str | None = None,
) -> dict[tuple[int, int, int, str], tuple[float, int, int]]:
    facts, known = Facts.build(graph), KnownFilter.build(graph, filtered)
    found = {}
    for side in facts.sides:
        queries = facts.queries(side)
        counts = Counts.zeros(len(queries.query))
        for entities in resources.ranges(graph.num_entities):
            task = Task(graph, queries, known, None, entities)
            counts = counts + count_embedding(model, task, arithmetic, resources, lambda targets: None)
        rows = zip(facts.triples[queries.fact].tolist(), counts.rank, counts.equal, counts.candidates, strict=True)
        found |= {(*triple, side): (float(r), int(t), int(c)) for triple, r, t, c in rows}
    return found


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("kind", TABLES)
def test_ranks_equal_the_brute_force(kind: str, similarity: Similarity, arithmetic: str) -> None:
    graph = graph_of(seed=1)
    model = vectors(kind, similarity, graph, dimension=6, seed=2)
    assert counted(model, graph, ARITHMETICS[arithmetic]()) == brute_force(model, graph)
