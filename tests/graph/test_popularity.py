import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, Popularity, knowledge_graph, load_graph
from kgprobe.graph.popularity import TrainCounts, entity_degrees

ENTITIES, RELATIONS = 6, 3

triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), max_size=40)


@settings(max_examples=50)
@given(triples)
def test_every_pair_agrees_with_counting_by_hand(rows: list[tuple[int, int, int]]) -> None:
    occurrences = [(h, r) for h, r, _ in rows] + [(t, r) for _, r, t in rows]
    pairs, entities = Counter(occurrences), Counter(e for e, _ in occurrences)
    train = np.array(rows, dtype=np.int32).reshape(-1, 3)
    popularity = Popularity.from_triples(train, ENTITIES, RELATIONS)

    expected = [entities[e] / (2 * len(rows)) if rows else 0.0 for e in range(ENTITIES)]
    assert popularity.entity(np.arange(ENTITIES)).tolist() == expected
    e, r = (grid.ravel() for grid in np.meshgrid(range(ENTITIES), range(RELATIONS)))
    shares = [pairs[a, b] / entities[a] if entities[a] else 0.0 for a, b in zip(e.tolist(), r.tolist(), strict=True)]
    assert popularity.relation(r, e).tolist() == shares


@settings(max_examples=50)
@given(triples, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=10))
def test_counts_of_some_pairs_are_those_of_all(rows: list[tuple[int, int, int]], asked: list[tuple[int, int]]) -> None:
    train = np.array(rows, dtype=np.int32).reshape(-1, 3)
    entity, relation = np.array(asked, dtype=int).reshape(-1, 2).T
    whole = Popularity.from_triples(train, ENTITIES, RELATIONS)
    part = Popularity.from_counts(TrainCounts.of_pairs(train, entity, relation, ENTITIES, RELATIONS))
    assert part.entity(np.arange(ENTITIES)).tolist() == whole.entity(np.arange(ENTITIES)).tolist()
    assert part.relation(relation, entity).tolist() == whole.relation(relation, entity).tolist()


def test_a_large_graph_counts_only_the_pairs_that_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).integers(0, 5, (50, 3))
    small, large = (KnowledgeGraph.from_triples(train=rows, num_entities=9) for _ in range(2))
    assert small.popularity_of([1], [1]) is small.popularity
    monkeypatch.setattr(knowledge_graph, "_MOST_COUNTED", 49)
    some = large.popularity_of([[1], [8]], [0, 1])
    assert (some.counts.pair_keys.tolist(), some.counts.complete) == ([5, 6, 40, 41], False)
    assert some.relation([[0], [1]], [1, 8]).tolist() == small.popularity.relation([[0], [1]], [1, 8]).tolist()
    assert large.popularity.counts.complete
    assert large.popularity_of([1], [1]) is large.popularity


def test_shapes_follow_the_request() -> None:
    popularity = Popularity.from_triples(np.array([[0, 0, 1], [0, 1, 1]]), 2, 2)
    assert popularity.entity([[0, 1], [1, 0]]).shape == (2, 2)
    assert popularity.relation([[0], [1]], [0, 1]).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert popularity.entity(0).shape == ()
    assert popularity.relation([], []).shape == (0,)


def test_ids_outside_the_graph_are_refused() -> None:
    popularity = Popularity.from_triples(np.array([[0, 0, 1]]), 2, 1)
    with pytest.raises(DataError) as caught:
        popularity.relation([0, 3], [-1, 0])
    assert len(caught.value.problems) == 2
    with pytest.raises(DataError, match="ids outside the graph"):
        popularity.entity([2])


def test_partial_counts_answer_what_they_know_and_refuse_the_rest() -> None:
    counts = TrainCounts.from_pairs(
        degree=np.array([3, 1, 0]),
        entity=np.array([0]),
        relation=np.array([1]),
        count=np.array([2]),
        num_relations=2,
    )
    popularity = Popularity.from_counts(counts)
    assert popularity.entity([0, 1, 2]).tolist() == [0.75, 0.25, 0.0]
    assert popularity.relation([1, 0, 1], [0, 2, 2]).tolist() == [2 / 3, 0.0, 0.0]
    with pytest.raises(DataError, match="do not cover 2 of the") as caught:
        popularity.relation([1, 0, 0, 1, 0], [0, 0, 0, 1, 2])
    assert "(0, 0), (1, 1)" in caught.value.problems[0]


def test_yago_counts_answer_for_all_test_pairs(data: Path) -> None:
    folder = data / "graphs" / "yago3-10"
    graph = load_graph(folder)
    degree = pq.read_table(folder / "entity_train_degree.parquet").column("train_degree").to_pylist()
    rows = pq.read_table(folder / "test_entity_relation_train_count.parquet").to_pylist()
    counted = {(row["entity"], row["relation"]): row["train_count"] for row in rows}
    pairs = [(e, r) for h, r, t in graph.triples("test").tolist() for e in (h, t)]
    entities, relations = np.array(pairs).T
    expected = [counted[pair] / degree[pair[0]] if degree[pair[0]] else 0.0 for pair in pairs]
    assert graph.popularity.relation(relations, entities).tolist() == expected
    assert graph.popularity.entity(entities).tolist() == [degree[e] / (2 * 1079040) for e, _ in pairs]


def test_yago_counts_do_not_guess_other_pairs(data: Path) -> None:
    graph = load_graph(data / "graphs" / "yago3-10")
    head, relation, _ = graph.triples("valid").T
    with pytest.raises(DataError, match="do not cover"):
        graph.popularity.relation(relation, head)


def test_popularity_published_with_the_ranks(data: Path) -> None:
    """The authors' own file holds delta(r|e) and delta(e) of the given entity of each query."""
    records = json.loads((data / "published_ranks" / "raw" / "RotatE_umls_1.json").read_text())
    given_entity = [triple[2] if side == "h" else triple[0] for triple, side, *_ in records]
    relation = [triple[1] for triple, *_ in records]
    popularity = load_graph(data / "graphs" / "umls").popularity
    assert len(records) > 6000
    np.testing.assert_allclose(popularity.relation(relation, given_entity), [r[3] for r in records], rtol=1e-12)
    np.testing.assert_allclose(popularity.entity(given_entity), [r[4] for r in records], rtol=1e-12)


training_triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=40)


def _pairs(rows: list[tuple[int, int, int]]) -> Counter[tuple[int, int]]:
    counted = Counter((h, r) for h, r, _ in rows)
    counted.update((t, r) for _, r, t in rows)
    return counted


@settings(max_examples=50)
@given(training_triples)
def test_counts_are_those_of_a_counter(rows: list[tuple[int, int, int]]) -> None:
    counts = TrainCounts.from_triples(np.array(rows, dtype=np.int32), ENTITIES, RELATIONS)
    found = {divmod(k, RELATIONS): n for k, n in zip(counts.pair_keys.tolist(), counts.pair_counts, strict=True)}
    assert found == _pairs(rows)
    degrees = Counter([h for h, _, _ in rows] + [t for _, _, t in rows])
    assert counts.degree.tolist() == [degrees[e] for e in range(ENTITIES)]
    assert counts.num_triples == len(rows)
    assert counts.complete


@settings(max_examples=30)
@given(training_triples)
def test_given_pairs_are_sorted_and_partial(rows: list[tuple[int, int, int]]) -> None:
    train = np.array(rows)
    whole = TrainCounts.from_triples(train, ENTITIES, RELATIONS)
    listed = list(_pairs(rows).items())
    counts = TrainCounts.from_pairs(
        entity_degrees(train, ENTITIES),
        np.array([pair[0] for pair, _ in listed]),
        np.array([pair[1] for pair, _ in listed]),
        np.array([count for _, count in listed]),
        num_relations=RELATIONS,
    )
    assert counts.pair_keys.tolist() == whole.pair_keys.tolist()
    assert counts.pair_counts.tolist() == whole.pair_counts.tolist()
    assert (counts.num_triples, counts.complete) == (len(rows), False)
