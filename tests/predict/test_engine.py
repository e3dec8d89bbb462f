"""Ranks against a brute force by loops, on random and on adversarial vectors, whatever computes them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from adversarial import TABLES
from kgprobe import resources
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.backends.numba_backend import NumbaBackend
from kgprobe.predict.engine import count
from kgprobe.predict.queries import KnownFilter, RankedTriples
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity
from kgprobe.predict.tasks import Task
from kgprobe.resources import Resources
from ranking import (
    COUNTED,
    COUNTING,
    QUICK,
    SIMILARITIES,
    Rows,
    Vectors,
    brute_force,
    counted,
    graph_of,
    matrix,
    query_sets,
    relation_sets,
    relation_vectors,
    vectors,
)

FILTERS: dict[str, tuple[str, ...]] = {
    "none": (),
    "train": ("train",),
    "train+valid": ("train", "valid"),
    "all": ("train", "valid", "test"),
}

RELATION_KINDS = [kind for kind in TABLES if kind != "over half-way"]

"""Those that can be made larger and stay finite."""


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("kind", TABLES)
def test_ranks_equal_the_brute_force(kind: str, similarity: Similarity, backend: str) -> None:
    graph = graph_of(seed=1)
    model = vectors(kind, similarity, graph, dimension=6, seed=2)
    assert counted(model, graph, COUNTING[backend]()) == brute_force(model, graph)


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("kind", ["random", "whole", "huge", "some infinite", "mixed"])
@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(3, gamma=2.0)], ids=str)
def test_candidates_that_depend_on_the_relation(kind: str, similarity: Similarity, backend: str) -> None:
    graph = graph_of(seed=3)
    model = relation_vectors(kind, similarity, graph, seed=4)
    assert counted(model, graph, COUNTING[backend]()) == brute_force(model, graph)


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("wanted", FILTERS)
def test_what_is_filtered_is_no_candidate(wanted: str, backend: str) -> None:
    graph = graph_of(seed=5, entities=6)
    for model in (vectors("whole", Dot(), graph, 6, seed=6), matrix(graph, seed=6)):
        found = counted(model, graph, COUNTING[backend](), filtered=wanted)
        assert found == brute_force(model, graph, FILTERS[wanted])


@pytest.mark.parametrize("backend", COUNTED)
def test_where_all_but_the_target_is_filtered_it_is_first_of_one(backend: str) -> None:
    everything = [[0, 0, e] for e in range(9)]
    graph = KnowledgeGraph.from_triples(train=everything, test=[[0, 0, 4]], num_entities=9)
    for model in (
        vectors("huge", Dot(), graph, 4, seed=0),
        vectors("zero", GroupNorm(2), graph, 4, 0),
        matrix(graph, 0),
    ):
        found = counted(model, graph, COUNTING[backend]())
        assert found[0, 0, 4, "tail"] == (1.0, 0, 1)
        assert found == brute_force(model, graph)


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("shards", [1, 5])
@pytest.mark.parametrize("wanted", ["none", "all"])
@pytest.mark.parametrize("sets", ["relation", "query"])
def test_candidate_sets_with_filters_and_shards(sets: str, wanted: str, shards: int, backend: str) -> None:
    graph = graph_of(seed=7)
    drawn, allowed = (
        relation_sets(graph, seed=8)
        if sets == "relation"
        else query_sets(RankedTriples.build(graph), graph.num_entities, 8)
    )
    models = [vectors("mixed", GroupNorm(2, 1.0), graph, 6, 9), relation_vectors("whole", Dot(), graph, 9)]
    for model in (*models, matrix(graph, 9)):
        resources = Resources(threads=1, shards=shards, tile=3)
        found = counted(model, graph, COUNTING[backend](), resources, wanted, drawn)
        assert found == brute_force(model, graph, FILTERS[wanted], allowed)


def test_a_target_outside_its_candidate_set_is_ranked_against_the_set() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2]], test=[[3, 0, 4]])
    drawn, _ = relation_sets(graph, 0)
    seen = type(drawn).from_train(graph)
    model = vectors("zero", Dot(), graph, 2, 0)
    found = counted(model, graph, NumbaBackend(), sets=seen)
    assert found == {(3, 0, 4, "tail"): (2.0, 2, 3), (3, 0, 4, "head"): (1.5, 1, 2)}


@st.composite
def situations(draw: st.DrawFn) -> dict[str, Any]:
    similarity = draw(st.sampled_from([Dot(), *(GroupNorm(k, g) for k in (1, 2, 3, 6, None) for g in (0.0, 3.3, 1e9))]))
    dimension = draw(st.integers(1, 9))
    if isinstance(similarity, GroupNorm) and similarity.size:
        dimension = similarity.size * draw(st.integers(1, 4))
    return {
        "graph": graph_of(draw(st.integers(0, 10**6)), draw(st.integers(1, 14)), draw(st.integers(1, 3)), 24),
        "similarity": similarity,
        "dimension": dimension,
        "seed": draw(st.integers(0, 10**6)),
        "backend": draw(st.sampled_from(sorted(QUICK))),
        "resources": Resources(
            threads=draw(st.integers(1, 2)),
            batch=draw(st.sampled_from([None, 1, 2, 5])),
            tile=draw(st.sampled_from([None, 1, 2, 3, 7])),
            shards=draw(st.integers(1, 6)),
        ),
        "wanted": draw(st.sampled_from(sorted(FILTERS))),
        "sets": draw(st.sampled_from(["all", "relation", "query"])),
    }


def _found_and_expected(situation: dict[str, Any], model: Any) -> tuple[Rows, Rows]:
    graph, seed = situation["graph"], situation["seed"]
    drawn: Any = {
        "all": lambda: (None, None),
        "relation": lambda: relation_sets(graph, seed),
        "query": lambda: query_sets(RankedTriples.build(graph), graph.num_entities, seed),
    }[situation["sets"]]()
    backend = COUNTING[situation["backend"]]()
    found = counted(model, graph, backend, situation["resources"], situation["wanted"], drawn[0])
    return found, brute_force(model, graph, FILTERS[situation["wanted"]], drawn[1])


@given(situations(), st.sampled_from(sorted(TABLES)))
@settings(max_examples=200)
def test_any_model_that_compares_vectors(situation: dict[str, Any], kind: str) -> None:
    names = ("similarity", "graph", "dimension", "seed")
    model = vectors(kind, **{name: situation[name] for name in names})
    found, expected = _found_and_expected(situation, model)
    assert found == expected


@given(situations(), st.integers(1, 4))
@settings(max_examples=100)
def test_any_model_that_hands_out_scores(situation: dict[str, Any], levels: int) -> None:
    found, expected = _found_and_expected(situation, matrix(situation["graph"], situation["seed"], levels))
    assert found == expected


@given(st.integers(0, 10**6), st.sampled_from(RELATION_KINDS), st.integers(1, 4), st.integers(1, 5))
@example(seed=0, kind="random", batch=1, shards=5)
@settings(max_examples=40)
def test_any_model_with_candidates_by_relation(seed: int, kind: str, batch: int, shards: int) -> None:
    graph = graph_of(seed)
    model = relation_vectors(kind, Dot() if seed % 2 else GroupNorm(2, 5.0), graph, seed)
    resources = Resources(threads=2, batch=batch, tile=5, shards=shards)
    assert counted(model, graph, NumbaBackend(), resources) == brute_force(model, graph)


def test_count_takes_whatever_is_a_scorer_and_tells_how_far_it_is() -> None:
    graph = graph_of(seed=1)
    queries = RankedTriples.build(graph).queries("tail")
    task = Task(graph, queries, KnownFilter.build(graph), None, range(graph.num_entities))
    for model in (
        vectors("random", Dot(), graph, 6, 0),
        relation_vectors("random", Dot(), graph, 0),
        matrix(graph, 0),
    ):
        watched: list[int] = []
        counts = count(model, task, Resources(batch=3, threads=2), watched.append)
        triples = np.column_stack([queries.given[queries.query], queries.relation[queries.query], queries.target])
        expected = brute_force(model, graph)
        assert counts.rank.tolist() == [expected[(*triple, "tail")][0] for triple in triples.tolist()]
        assert sum(watched) == len(queries.query)
        assert all(type(targets) is int for targets in watched)
        assert len(watched) >= len(queries) // 3


def test_blas_has_one_thread_where_the_engine_has_its_own() -> None:
    seen: list[int] = []

    class Noted(Vectors):
        def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
            seen.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
            return super().encode_queries(side, given, relation)

    graph = graph_of(seed=1)
    model = vectors("random", Dot(), graph, 6, 0)
    task = Task(
        graph, RankedTriples.build(graph).queries("tail"), KnownFilter.build(graph), None, range(graph.num_entities)
    )
    resources._thread_pools.cache_clear()  # SciPy may have brought a BLAS of its own since
    with threadpool_limits(2, user_api="blas"):
        count(Noted(Dot(), model.queries, model.table), task, Resources())
    assert set(seen) == {1}
