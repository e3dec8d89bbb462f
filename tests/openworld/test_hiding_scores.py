import numpy as np
import pytest

from kgprobe import DataError, Ranks, merge_seeds, rank
from kgprobe.graph import KnowledgeGraph
from kgprobe.openworld.pair import rank_worlds
from kgprobe.openworld.scores import rank_scores, tail_popularity
from kgprobe.openworld.split import split_world
from kgprobe.openworld.task import all_task
from kgprobe.predict import Resources
from support import take
from worlds import Dense, as_set, random_graph, random_world, rows


def test_popularity_counts_the_facts_of_the_tail() -> None:
    graph = random_graph()
    facts = graph.triples().tolist()
    expected = [sum((h == tail) + (t == tail) for h, _, t in facts) for _, _, tail in facts]
    assert tail_popularity(graph).tolist() == expected


def test_scores_are_minus_the_ranks_of_tails() -> None:
    graph = random_graph()
    ranks = rank("random", graph, resources=Resources(threads=1))
    found, by_row = rank_scores(ranks, graph), rows(ranks)
    test = as_set(graph.triples("test"))
    for fact, score in zip(map(tuple, graph.triples().tolist()), found, strict=True):
        if fact in test:
            assert score == -by_row[(*fact, "tail")][0]
        else:
            assert np.isnan(score)


def test_training_runs_are_averaged() -> None:
    graph = random_graph()
    one, two = (rank(Dense(np.random.default_rng(n).random((12, 3, 12))), graph, sides="tail") for n in (0, 1))
    merged = rank_scores(merge_seeds({0: one, 1: two}), graph)
    np.testing.assert_allclose(merged, (rank_scores(one, graph) + rank_scores(two, graph)) / 2)


def test_ranks_of_another_graph_are_refused() -> None:
    ranks = rank("random", random_graph(0))
    with pytest.raises(DataError, match="no scores of its facts") as caught:
        rank_scores(ranks, random_graph(1))
    assert "ranked facts are not in random" in caught.value.problems[0]


def test_ranks_without_tails_are_refused() -> None:
    graph = random_graph()
    with pytest.raises(DataError) as caught:
        rank_scores(rank("random", graph, sides="head"), graph)
    assert caught.value.problems == ["it ranks no tails"]
    with pytest.raises(DataError, match="no scores"):
        rank_scores(take(rank("random", graph), []), graph)


def test_what_a_model_ranks_low_can_be_hidden_from_it() -> None:
    graph, plain = random_graph(), random_world()
    model = Dense(np.random.default_rng(0).random((12, 3, 12)))
    ranks: Ranks = rank_worlds(model, plain, all_task(plain)).closed
    known: KnowledgeGraph = graph
    hidden = split_world(known, 0.6, 0.5, 0, rank_scores(ranks, graph), np.inf, valid=0.2)
    assert as_set(hidden.train) == as_set(plain.train)
    scores = {
        part: np.array([model.of(f, "tail", f[2]) for f in as_set(getattr(hidden, part))])
        for part in ("known", "missing")
    }
    assert scores["known"].mean() > scores["missing"].mean() + 0.1
