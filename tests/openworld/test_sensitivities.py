import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.metrics import evaluate
from kgprobe.openworld import sensitivity
from kgprobe.openworld.expected_scores import Unlearned
from kgprobe.openworld.sensitivities import AnswerCounts, MetricSensitivity
from kgprobe.openworld.world import OPEN_WORLD_METRICS
from kgprobe.ranks import Ranks
from kgprobe.transform import AffinePower, Power, TopK, Transformer

COUNTS = AnswerCounts("queries", np.array([1.0, 3.0, 3.0, 8.0]), np.array([30.0, 28.0, 28.0, 23.0]))


def _world(seed: int = 0, entities: int = 40, size: int = 160) -> KnowledgeGraph:
    rng = np.random.default_rng(seed)
    triples = np.unique(rng.integers(0, [entities, 2, entities], (size, 3)), axis=0)
    rng.shuffle(triples)
    return KnowledgeGraph.from_triples(train=triples[:100], test=triples[100:], num_entities=entities)


def _by_hand(f: Transformer, known: float, size: float, rate: float, strength: float) -> tuple[float, float]:
    """Open and closed expectation of one query: every number of missing answers, every number of learned ones."""

    def score(rank: float, candidates: float) -> float:
        return float(f(np.array([rank]), np.array([candidates]))[0])

    opened = closed = 0.0
    for m in range(150):
        p = float(stats.nbinom.pmf(m, known, 1 - rate))
        fewer = int(max(size - m, 2))
        closed += p * (strength + (1 - strength) * np.mean([score(r, fewer) for r in range(1, fewer + 1)]))
        scores = [score(min(r, size), size) for r in range(1, m + 2)]
        for k in range(m + 1):
            q = p * float(stats.binom.pmf(k, m, strength))
            below = [score(r, size) for r in range(min(k, int(size) - 1) + 1, int(size) + 1)]
            opened += q * (strength * np.mean(scores[: k + 1]) + (1 - strength) * np.mean(below))
        if p < 1e-14 and m > known:
            break
    return opened, closed


@pytest.mark.parametrize(
    ("metric", "f"), [("MRR", Power(1.0)), ("Hits@3", TopK(3)), ("PROBE(alpha=0)", AffinePower(0.0))]
)
def test_values_are_means_over_the_queries_of_what_is_expected(metric: str, f: Transformer) -> None:
    reading = sensitivity(COUNTS, 0.2, metric, strength=0.7).readings[0]
    pairs = [_by_hand(f, *query, 0.2, 0.7) for query in zip(COUNTS.known, COUNTS.candidates, strict=True)]
    assert (reading.value, reading.closed_value) == pytest.approx(tuple(np.mean(pairs, axis=0)), abs=1e-10)


@pytest.mark.parametrize(
    "metric", ["MRR", "MR", "GMR", "HMR", "AMRI", "AMR", "ZMR", "WMR", "nWMR", "APROBE", "ZHits@3"]
)
def test_slopes_are_derivatives_of_the_values_whatever_the_metric_does_with_its_sums(metric: str) -> None:
    h = 1e-4

    def read(strength: float) -> MetricSensitivity:
        return sensitivity(COUNTS, 0.2, metric, strength=strength).readings[0]

    at, ahead, behind = read(0.6), read(0.6 + h), read(0.6 - h)
    assert at.derivative == pytest.approx((ahead.value - behind.value) / (2 * h), rel=1e-6)
    assert at.closed_derivative == pytest.approx((ahead.closed_value - behind.closed_value) / (2 * h), rel=1e-6)
    assert at.shown == at.derivative / at.closed_derivative


@pytest.mark.parametrize("metric", ["MRR", "PROBE(alpha=0.5,beta=0.8)", "StratMRR", "WMR", "nWMR", "Hits@3", "AMRI"])
def test_a_perfect_model_without_missing_triples_scores_as_evaluation_says(metric: str) -> None:
    graph = _world()
    test = graph.triples("test")
    head, relation, tail = np.tile(test, (2, 1)).T
    on_tail = np.arange(2 * len(test)) < len(test)
    others = graph.known_answers().others(head, relation, tail, on_tail)
    columns = {"head": head, "relation": relation, "tail": tail, "side": np.where(on_tail, "tail", "head")}
    size = graph.num_entities - others
    perfect = Ranks.from_columns(**columns, rank=np.ones(len(head)), candidates=size)
    reading = sensitivity(graph, 0.0, metric, strength=1.0).readings[0]
    assert reading.value == pytest.approx(next(iter(evaluate(perfect, metric, graph=graph).values())), rel=1e-12)
    assert (reading.derivative, reading.value) == pytest.approx(
        (reading.closed_derivative, reading.closed_value), rel=1e-12
    )
    assert reading.shown == pytest.approx(1.0, rel=1e-12)
    # The chance level is the mean over all tables of ranks, which is that of the mean over each query's ranks.
    rng = np.random.default_rng(0)
    draws = [
        evaluate(Ranks.from_columns(**columns, rank=rng.integers(1, size + 1), candidates=size), metric, graph=graph)
        for _ in range(60)
    ]
    values = np.array([next(iter(draw.values())) for draw in draws])
    if metric not in ("WMR",):  # an exponential of a mean
        assert abs(values.mean() - reading.chance) < 4 * values.std() / math.sqrt(len(values))


def test_metrics_see_what_sampled_models_score_on_graphs_of_which_only_the_known_answers_are_seen() -> None:
    rng = np.random.default_rng(5)
    entities, rate, strength, n = 500, 0.3, 0.8, 400_000
    others = rng.integers(0, 120, n)  # any number is as likely as any other
    missing = rng.binomial(others, rate)
    known = 1 + others - missing
    seen = known <= 40
    known, missing = known[seen], missing[seen]
    size = entities - (known - 1)
    above = rng.binomial(missing, strength)
    mine = rng.random(len(known)) < strength
    rank = np.where(mine, rng.integers(1, above + 2), rng.integers(above + 1, size + 1)).astype(np.float64)
    counts = AnswerCounts("sampled", known.astype(np.float64), size.astype(np.float64))
    found = sensitivity(counts, rate, ["MRR", "Hits@10", "PROBE(alpha=0)"], strength=strength)
    for reading in found.readings:
        scores = reading.metric.transformer(rank, size.astype(np.float64))
        assert abs(scores.mean() - reading.value) < 4 * scores.std() / math.sqrt(len(scores))


def test_the_mean_rank_shows_every_improvement_and_sharp_metrics_little() -> None:
    counts = AnswerCounts("many", np.full(3, 50.0), np.full(3, 5000.0))
    shown = [reading.shown for reading in sensitivity(counts, 0.3, ["MR", "PROBE(alpha=0)", "MRR", "Hits@1"]).readings]
    assert shown[0] == pytest.approx(1.0, abs=1e-9)
    assert shown[0] > shown[1] > shown[2] > shown[3]


def test_the_paper_reading_shows_more_at_lower_alpha_and_never_less_than_nothing() -> None:
    found = sensitivity(COUNTS, 0.25, [f"PROBE(alpha={a})" for a in (-1, 0, 1)], unlearned=Unlearned.nothing)
    derivatives = [reading.derivative for reading in found.readings]
    assert derivatives == sorted(derivatives, reverse=True)
    assert all(reading.closed_derivative == pytest.approx(1.0) for reading in found.readings)


def test_rows_are_flat_and_in_order() -> None:
    rows = sensitivity(COUNTS, [0.1, 0.25], ["MRR", "Hits@1"]).to_rows()
    assert [(row["missing"], row["metric"]) for row in rows] == [
        (0.1, "MRR"),
        (0.1, "Hits@1"),
        (0.25, "MRR"),
        (0.25, "Hits@1"),
    ]
    assert list(rows[0]) == [
        *("graph", "metric", "missing", "strength", "shown", "slope", "closed_slope"),
        *("open", "closed", "chance", "flat", "queries"),
    ]
    assert len(sensitivity(COUNTS, 0.1).readings) == len(OPEN_WORLD_METRICS)


def test_all_that_makes_no_sense_is_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        sensitivity(COUNTS, [1.0, -0.1, math.nan, 0.5], ["MedianRank", "MRR", "VarRank"], strength=0.0)
    problems = caught.value.problems
    assert len(problems) == 6
    assert sum("missing rate" in problem for problem in problems) == 3
    assert sum("no mean of scores" in problem for problem in problems) == 2
    for strength in (1.5, math.nan):
        with pytest.raises(UsageError, match="sensitivity"):
            sensitivity(COUNTS, 0.1, strength=strength)
    with pytest.raises(UsageError):
        sensitivity(COUNTS, [])


def test_a_graph_without_test_triples_is_refused() -> None:
    with pytest.raises(DataError, match="no test triples"):
        sensitivity(KnowledgeGraph.from_triples(train=[[0, 0, 1]]), 0.1)


def test_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(DataError) as caught:
        AnswerCounts("odd", np.array([0.0, 1.0]), np.array([1.0]))
    assert len(caught.value.problems) == 2
    with pytest.raises(DataError, match="not the counts"):
        AnswerCounts("none", np.empty(0), np.empty(0))


def test_each_warning_comes_where_it_should_and_nowhere_else() -> None:
    calm = AnswerCounts("calm", np.ones(5), np.full(5, 1000.0))
    assert sensitivity(calm, 0.25).warnings == ()
    crowded = AnswerCounts("crowded", np.array([1.0, 1.0, 8.0, 8.0]), np.array([1000.0, 1000.0, 100.0, 9.0]))
    told = "\n".join(sensitivity(crowded, 0.25, ["MRR", "Hits@10", "PROBE(alpha=0)"]).warnings)
    assert "at least 10 % of the candidates in 50.0 % of the queries" in told
    assert "Hits@10: every rank is a hit in 25.0 % of the queries, which have at most 10 candidates" in told
    assert "no improvement is visible in 25.0 % of the queries: Hits@10" in told
    assert "1.5 missing answers per query are expected, which affect metrics dominated by rank 1: MRR" in told
    assert "PROBE(alpha=0" not in told
    assert "does not have a better expected score" not in told
    assert "cannot hold" not in told
    alone = AnswerCounts("alone", np.array([1.0, 1.0, 8.0]), np.array([1000.0, 9.0, 1.0]))
    told = "\n".join(sensitivity(alone, 0.25, ["MRR", "Hits@10", "Hits@1", "logMRR"]).warnings)
    assert "visible in 66.7 % of the queries: Hits@10" in told
    assert "visible in 33.3 % of the queries: all metrics but Hits@10" in told
    assert sensitivity(alone, 0.25, ["MRR", "Hits@1"]).warnings[-1].endswith("33.3 % of the queries: all metrics")
    useless = sensitivity(AnswerCounts("few", np.ones(2), np.full(2, 3.0)), 0.1, "Hits@5").warnings
    assert any("a better model does not have a better expected score: Hits@5" in warning for warning in useless)
    falling = sensitivity(
        AnswerCounts("f", np.full(2, 60.0), np.full(2, 100.0)), 0.5, "MRR", unlearned=Unlearned.anywhere
    )
    assert any("does not have a better expected score: MRR" in warning for warning in falling.warnings)
    impossible = sensitivity(AnswerCounts("i", np.full(2, 60.0), np.full(2, 30.0)), 0.5, "MRR").warnings
    assert any("the rate cannot hold in 100.0 % of the queries" in warning for warning in impossible)


def test_a_single_candidate_says_nothing_to_candidate_aware_metrics() -> None:
    counts = AnswerCounts("single", np.array([2.0, 5.0]), np.array([50.0, 1.0]))
    probe, mrr = sensitivity(counts, 0.1, ["PROBE", "MRR"]).readings
    assert (probe.queries, mrr.queries) == (1, 2)
    assert math.isfinite(probe.derivative + mrr.derivative)


def test_the_sides_and_the_split_are_those_asked_for() -> None:
    graph = KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [0, 0, 2]], valid=[[3, 0, 1]], test=[[0, 0, 3], [0, 0, 3]], num_entities=9
    )
    assert AnswerCounts.of_graph(graph, sides="tail").known.tolist() == [3.0]  # a repeated fact is one query
    assert AnswerCounts.of_graph(graph, sides="head").known.tolist() == [1.0]
    valid = AnswerCounts.of_graph(graph, split="valid", sides="head")
    assert (valid.known.tolist(), valid.candidates.tolist()) == ([2.0], [8.0])
    with pytest.raises(UsageError, match="invalid sides"):
        sensitivity(graph, 0.1, sides="left")


OTHERS = {"umls": 0.5187, "kinship": 0.3955, "wn18rr": 0.0, "family": 0.0, "fb15k-237": 0.0472}

"""Shares of test queries whose other answers are at least 10 % of all entities (for FB15k-237, all answers)."""


@pytest.mark.parametrize("name", OTHERS)
def test_answers_are_many_in_small_graphs(data: Path, name: str) -> None:
    graph = load_graph(data / "graphs" / name)
    counts = AnswerCounts.of_graph(graph)
    others = counts.known - (name != "fb15k-237")
    assert np.mean(others >= 0.1 * graph.num_entities) == pytest.approx(OTHERS[name], abs=5e-5)
    assert (counts.candidates + counts.known - 1 == graph.num_entities).all()
    if name == "umls":
        assert np.count_nonzero(counts.candidates <= 10) == np.count_nonzero(counts.candidates == 2) == 155


def test_counts_alone_are_enough_where_training_triples_are_absent(data: Path) -> None:
    graph = load_graph(data / "graphs" / "yago3-10")
    with pytest.raises(DataError, match="cannot be counted"):
        sensitivity(graph, 0.1)
    removed = pq.read_table(data / "graphs" / "yago3-10" / "test_filtered_candidates.parquet")
    others = np.concatenate([removed["head_side"].to_numpy(), removed["tail_side"].to_numpy()]).astype(np.float64)
    counts = AnswerCounts("yago3-10", others + 1, graph.num_entities - others)
    assert counts.crowded(0.0) == pytest.approx(0.0275)
    found = sensitivity(counts, 0.25, ["MRR", "PROBE(alpha=0)"])
    assert 0 < found.readings[0].shown < found.readings[1].shown < 1


def test_blunt_metrics_show_more_of_an_improvement_on_a_real_graph(data: Path) -> None:
    found = sensitivity(load_graph(data / "graphs" / "fb15k-237"), 0.25)
    shown = {str(reading.metric): reading.shown for reading in found.readings}
    assert shown["Hits@1"] < shown["MRR"] < shown["PROBE(alpha=0,beta=0)"] < shown["PROBE(alpha=-1,beta=0)"] < 1


def test_weights_by_the_number_of_candidates_are_those_of_each_world() -> None:
    rate, strength = 0.2, 0.7
    reading = sensitivity(COUNTS, rate, "nWMR", strength=strength).readings[0]
    queries = zip(COUNTS.known, COUNTS.candidates, strict=True)
    opened, closed = np.array([_by_hand(AffinePower(0.0), *query, rate, strength) for query in queries]).T
    size, fewer = COUNTS.candidates, COUNTS.candidates - COUNTS.known * rate / (1 - rate)
    assert reading.value == pytest.approx(np.average(opened, weights=(size - 1) * np.log(size)), abs=1e-10)
    assert reading.closed_value == pytest.approx(np.average(closed, weights=(fewer - 1) * np.log(fewer)), abs=1e-10)
