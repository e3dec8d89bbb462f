import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, TrainCounts, load_graph
from kgprobe.predict.baselines import BASELINES, EntityFrequency, RandomScores, RelationFrequency
from kgprobe.predict.ranking import rank
from kgprobe.predict.scorers import SIDES, Scorer, Side

triples = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30)

Queries = tuple[np.ndarray, np.ndarray]


def queries(number: int, entities: int = 50, relations: int = 7) -> Queries:
    """Distinct queries in no particular order."""
    chosen = np.random.default_rng(0).choice(entities * relations, number, replace=False)
    given, relation = np.divmod(chosen, relations)
    return given, relation


def split_mix(start: int, number: int) -> list[int]:
    """The first numbers of Vigna's splitmix64.c."""
    word, outputs = start, []
    for _ in range(number):
        word = (word + 0x9E3779B97F4A7C15) % 2**64
        mixed = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) % 2**64
        outputs.append(mixed ^ (mixed >> 31))
    return outputs


def test_the_generator_is_split_mix() -> None:
    assert split_mix(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("seed", [0, 7, -1, 2**70 + 3])
@pytest.mark.parametrize("side", SIDES)
def test_random_scores_are_the_hash_that_they_say(seed: int, side: Side) -> None:
    scores = RandomScores(5, seed).score(side, np.array([3, 0], dtype=np.int32), np.array([2, 6]))
    for row, entity, relation in ((scores[0], 3, 2), (scores[1], 0, 6)):
        start = seed % 2**64
        for part in (int(side == "tail"), entity, relation):
            start = split_mix(start ^ part, 1)[0]
        assert row.tolist() == [(word >> 11) / 2**53 for word in split_mix(start, 5)]


def test_random_scores_depend_on_nothing_but_the_question() -> None:
    scorer, (given, relation) = RandomScores(50, seed=3), queries(200)
    whole = scorer.score("tail", given, relation)
    for batch in (1, 7, 64):
        parts = [
            RandomScores(50, seed=3).score("tail", given[i : i + batch], relation[i : i + batch])
            for i in range(0, 200, batch)
        ]
        assert (np.concatenate(parts) == whole).all()
    assert (RandomScores(20, seed=3).score("tail", given, relation) == whole[:, :20]).all()
    assert np.unique(whole).size == whole.size
    for other in (scorer.score("head", given, relation), RandomScores(50, seed=4).score("tail", given, relation)):
        assert (other != whole).all()


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    given, relation = queries(20)
    whole = RandomScores(50).score("head", given, relation)
    monkeypatch.setattr("kgprobe.predict.baselines._BLOCK_CELLS", 1)
    assert (RandomScores(50).score("head", given, relation) == whole).all()


@pytest.mark.parametrize("side", SIDES)
def test_random_ranks_are_uniform(side: Side) -> None:
    given, relation = queries(5000, entities=1000)
    scores = RandomScores(20, seed=1).score(side, given, relation)
    for target in (0, 13, given % 20):
        own = scores[np.arange(len(given)), target]
        ranks = 1 + (scores > own[:, None]).sum(axis=1)
        assert stats.chisquare(np.bincount(ranks, minlength=21)[1:]).pvalue > 0.001
        # The mean of n uniform ranks from 1 to E is normal, with variance (E^2 - 1) / 12 n.
        assert abs(ranks.mean() - 10.5) < 4 * np.sqrt((20**2 - 1) / 12 / len(ranks))


def test_random_scores_of_different_questions_are_unrelated() -> None:
    given, relation = queries(2000, entities=1000)
    tail, head = (RandomScores(2, seed=1).score(side, given, relation)[:, 0] for side in SIDES)
    neighbour = RandomScores(2, seed=1).score("tail", given + 1, relation)[:, 0]
    swapped = RandomScores(2, seed=1).score("tail", relation, given)[:, 0]
    for other in (head, neighbour, swapped):
        correlation = stats.spearmanr(tail, other)
        assert correlation.pvalue > 0.001


@given(triples)
def test_frequencies_are_those_of_counting(train: list[tuple[int, int, int]]) -> None:
    graph = KnowledgeGraph.from_triples(train=train, num_entities=6, num_relations=4)
    given, relation = np.array([0, 5, 2, 1, 1]), np.array([3, 0, 2, 0, 1])
    anywhere = Counter(entity for h, _, t in train for entity in (h, t))
    on_side: dict[Side, Counter[tuple[int, int]]] = {
        "head": Counter((r, h) for h, r, _ in train),
        "tail": Counter((r, t) for _, r, t in train),
    }
    for side in SIDES:
        everywhere = EntityFrequency(graph).score(side, given, relation)
        assert everywhere.tolist() == [[anywhere[e] for e in range(6)]] * 5
        there = RelationFrequency(graph).score(side, given, relation)
        assert there.tolist() == [[on_side[side][r, e] for e in range(6)] for r in relation.tolist()]


def test_counts_are_exact_however_large() -> None:
    counts = TrainCounts.from_pairs(
        np.array([2**24 + 1, 2**24 + 3]), *(np.array([], dtype=np.int64) for _ in range(3)), num_relations=1
    )
    graph = KnowledgeGraph("counted", 2, 1, {}, train_counts=counts)
    scores = EntityFrequency(graph).score("tail", np.array([0]), np.array([0]))
    assert scores.tolist() == [[2**24 + 1, 2**24 + 3]]


def test_entity_frequency_needs_only_counts_of_train(data: Path) -> None:
    graph = load_graph(data / "graphs" / "yago3-10")
    scores = EntityFrequency(graph).score("tail", np.array([0]), np.array([0]))
    assert scores.sum(dtype=np.float64) == 2 * 1_079_040
    assert scores.max() == 61_044
    with pytest.raises(DataError, match="needs training triples") as caught:
        RelationFrequency(graph)
    assert caught.value.problems == ["the graph has only their counts"]


@pytest.mark.parametrize("frequency", [EntityFrequency, RelationFrequency])
@pytest.mark.parametrize("train", [None, []], ids=["absent", "empty"])
def test_without_training_triples(frequency: type[Scorer], train: list[list[int]] | None) -> None:
    graph = KnowledgeGraph.from_triples(train=train, test=[[0, 0, 1]], name="tiny")
    with pytest.raises(DataError, match="tiny: this baseline needs training triples"):
        frequency(graph)  # type: ignore[call-arg]


def test_baselines_by_name() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [2, 1, 1]])
    given, relation = np.array([0]), np.array([1])
    made = {name: make(graph, 5) for name, make in BASELINES.items()}
    assert list(made) == ["random", "entity-frequency", "relation-frequency"]
    assert all(isinstance(scorer, Scorer) for _, scorer in made.values())
    scores = {name: scorer.score("head", given, relation).tolist() for name, (_, scorer) in made.items()}
    assert scores["random"] == RandomScores(3, seed=5).score("head", given, relation).tolist()
    assert scores["entity-frequency"] == [[1, 2, 1]]
    assert scores["relation-frequency"] == [[0, 0, 1]]


def random_graph(seed: int) -> KnowledgeGraph:
    rng = np.random.default_rng(seed)
    triples = np.unique(np.stack([rng.integers(0, n, 120) for n in (9, 3, 9)], axis=1), axis=0)
    rng.shuffle(triples)
    return KnowledgeGraph.from_triples(train=triples[:60], valid=triples[60:70], test=triples[70:], num_entities=11)


def rank_by_hand(graph: KnowledgeGraph, scores: list[float], triple: tuple[int, int, int], side: str) -> list[float]:
    """Rank, ties and candidates of a triple among the entities that make no known triple."""
    h, r, t = triple
    known = {tuple(x) for x in graph.triples().tolist()}
    target = t if side == "tail" else h
    asked = {e: (h, r, e) if side == "tail" else (e, r, t) for e in range(graph.num_entities)}
    others = [scores[e] for e in asked if e != target and asked[e] not in known]
    ties = others.count(scores[target])
    return [1 + sum(score > scores[target] for score in others) + ties / 2, ties, len(others) + 1]


@pytest.mark.parametrize("name", list(BASELINES))
@pytest.mark.parametrize("seed", range(3))
def test_ranks_agree_with_counting_by_hand(name: str, seed: int) -> None:
    graph = random_graph(seed)
    _, scorer = BASELINES[name](graph, seed)
    ranks = rank(scorer, graph)
    assert len(ranks) == 2 * len(graph.triples("test"))
    rows = zip(ranks.head.tolist(), ranks.relation.tolist(), ranks.tail.tolist(), strict=True)
    expected = []
    for (h, r, t), side in zip(rows, ranks.column("side").to_pylist(), strict=True):
        scores = scorer.score(side, np.array([h if side == "tail" else t]), np.array([r]))[0].tolist()
        expected.append(rank_by_hand(graph, scores, (h, r, t), side))
    found = np.stack([ranks.rank, ranks.ties, ranks.candidates], axis=1)
    assert found.tolist() == expected


@pytest.mark.parametrize("name", list(BASELINES))
def test_memory_is_one_matrix(name: str) -> None:
    entities, batch = 20_000, 200
    rng = np.random.default_rng(0)
    train = np.column_stack([rng.integers(0, limit, 50_000) for limit in (entities, 10, entities)])
    _, scorer = BASELINES[name](KnowledgeGraph.from_triples(train=train, num_entities=entities), 0)
    given, relation = rng.integers(0, entities, batch), rng.integers(0, 10, batch)
    tracemalloc.start()
    try:
        scorer.score("tail", given, relation)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.1 * 8 * entities * batch
