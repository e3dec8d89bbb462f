"""Scores that are clamped, and models whose farthest candidate is the best: ranks equal those of loops."""

import pytest

from kgprobe.predict.backends.backend import NumpyBackend
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.scorers import ClampedDot, FarthestNorm, Similarity
from kgprobe.resources import Resources
from ranking import (
    COUNTED,
    COUNTING,
    brute_force,
    counted,
    graph_of,
    query_sets,
    relation_sets,
    relation_vectors,
    vectors,
)

GRAPH = graph_of(seed=5)

ORDERS: list[Similarity] = [ClampedDot(1.0), ClampedDot(4.0), ClampedDot(), FarthestNorm(None), FarthestNorm(2, 3.0)]


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("similarity", ORDERS, ids=str)
def test_ranks_are_those_of_loops(similarity: Similarity, backend: str) -> None:
    quick = ("random", "whole", "zero", "duplicated", "huge", "permuted")
    for seed, kind in enumerate(("whole",) if backend == "triton" else quick):  # interpreted kernels take long
        model = vectors(kind, similarity, GRAPH, 6, seed)
        expected = brute_force(model, GRAPH)
        for resources in (Resources(threads=1), Resources(threads=1, batch=2, tile=3, shards=3)):
            assert counted(model, GRAPH, COUNTING[backend](), resources) == expected


@pytest.mark.parametrize("similarity", ORDERS, ids=str)
def test_ranks_without_a_filter_and_among_candidate_sets(similarity: Similarity) -> None:
    model = vectors("whole", similarity, GRAPH, 6, seed=9)
    ranked = RankedTriples.build(GRAPH)
    assert counted(model, GRAPH, NumpyBackend(), filtered="none") == brute_force(model, GRAPH, ())
    for sets, allowed in (relation_sets(GRAPH, 1), query_sets(ranked, GRAPH.num_entities, 1)):
        expected = brute_force(model, GRAPH, allowed=allowed)
        assert counted(model, GRAPH, NumpyBackend(), Resources(threads=1, tile=3), sets=sets) == expected
    by_relation = relation_vectors("whole", similarity, GRAPH, seed=2)
    assert counted(by_relation, GRAPH, NumpyBackend()) == brute_force(by_relation, GRAPH)


def test_many_targets_are_beyond_a_limit() -> None:
    model = vectors("whole", ClampedDot(1.0), GRAPH, 6, seed=1)
    ties = [equal for _, equal, _ in brute_force(model, GRAPH).values()]
    assert sum(equal > 2 for equal in ties) > len(ties) / 2
