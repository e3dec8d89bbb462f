"""Ranks that are intervals: bounds by brute force over all ranks that they allow, and verdicts whatever they are."""

import itertools
import math

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import compare_models, line_up
from kgprobe.comparison.unknown_ranks import verdicts
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import evaluate

FEW = {"replicates": 200, "permutations": 200}
METRICS = ["MRR", "MR", "Hits@3", "PROBE(alpha=1,beta=0.6)", "PROBE(alpha=-1,beta=0)", "AMRI", "MedianRank"]


def ranks(rank, worst=None, candidates=6, popularity=None):
    n = len(rank)
    return kp.Ranks.from_columns(
        head=range(n),
        relation=[0] * n,
        tail=[n] * n,
        side=["tail"] * n,
        rank=rank,
        worst_rank=worst,
        candidates=[candidates] * n,
        entity_popularity=np.linspace(0.01, 0.3, n),
        relation_popularity=np.linspace(0.5, 0.2, n),
    )


def completions(table):
    """Every table of exact ranks that the intervals allow."""
    choices = [range(int(low), int(high) + 1) for low, high in zip(table.rank, table.worst_rank, strict=True)]
    return [ranks(list(chosen)) for chosen in itertools.product(*choices)]


ONE = ranks([1, 3, 4, 2, 1], [1, 6, 6, 2, 3])
OTHER = ranks([2, 1, 3, 5, 4], [2, 4, 3, 6, 4])
EXACT = ranks([6, 5, 1, 3, 2])


@pytest.mark.parametrize("metric", METRICS)
def test_ranges_are_those_of_all_ranks_that_the_intervals_allow(metric):
    tables = {"one": ONE, "other": OTHER, "exact": EXACT}
    found = compare_models(line_up(tables, unknown=True), metric, **FEW)
    name = str(found.estimates[0].metric)
    values = {model: [evaluate(one, metric)[name] for one in completions(table)] for model, table in tables.items()}
    for estimate in found.estimates:
        own = values[estimate.model]
        assert estimate.ends == pytest.approx((min(own), max(own)), abs=1e-12)
        assert math.isnan(estimate.value) == (min(own) < max(own))
    for difference in found.differences:
        apart = [a - b for a, b in itertools.product(values[difference.first], values[difference.second])]
        assert difference.ends == pytest.approx((min(apart), max(apart)), abs=1e-12)
        assert difference.interval.low <= difference.ends[0] <= difference.ends[1] <= difference.interval.high


def test_no_range_is_given_for_a_metric_that_is_not_monotone():
    found = compare_models(line_up({"one": ONE, "exact": EXACT}, unknown=True), ["StdRank", "MRR"], **FEW)
    (deviation, _), (difference, _) = found.estimates[:2], found.differences
    assert math.isnan(deviation.value)
    assert deviation.unknown is None
    assert "not monotone" in deviation.reason
    assert "not monotone" in difference.reason
    assert not difference.significant
    assert math.isnan(difference.adjusted)


def large(seed, low, high, unknown):
    """400 queries with ranks in a range; a share of them is known to be above 10 only."""
    rng = np.random.default_rng(seed)
    rank = rng.integers(low, high, 400)
    beyond = rng.random(400) < unknown
    return ranks(np.where(beyond, 11, rank), np.where(beyond, 50, rank), candidates=50)


def test_verdicts_hold_whatever_the_unknown_ranks():
    tables = {"sharp": large(0, 1, 4, 0.1), "blunt": large(1, 5, 40, 0.1), "open": large(2, 1, 10, 0.7)}
    found = compare_models(line_up(tables, unknown=True), ["MRR", "MR"], **FEW)
    said = list(verdicts(found))
    assert said[0].startswith("MRR: sharp beats blunt whatever the unknown ranks: it scores 0.")
    assert said[0].endswith("): significant")
    assert " higher (95 % simultaneous CI " in said[0]
    assert " lower (95 % simultaneous CI " in said[3]
    assert said[3].startswith("MR: sharp beats blunt whatever the unknown ranks")
    assert said[5].startswith("MR: the unknown ranks decide between blunt and open: the difference is between -")
    for one in found.differences:
        assert one.significant == (not one.interval.low <= 0 <= one.interval.high)
        assert one.tests == 3
    assert "the 3 pairs of models at both ends of their unknown ranks" in found.family
    # With the models in the other order, the same is said.
    back = compare_models(line_up(dict(reversed(tables.items())), unknown=True), ["MRR", "MR"], **FEW)
    assert [line for line in verdicts(back) if "sharp beats blunt" in line] == [said[0], said[3]]


@pytest.mark.parametrize("rank", ["best", "worst"])
def test_what_holds_whatever_the_unknown_ranks_holds_at_each_end(rank):
    tables = {"sharp": large(0, 1, 4, 0.1), "blunt": large(1, 5, 40, 0.1), "open": large(2, 1, 10, 0.3)}
    either = compare_models(line_up(tables, unknown=True), "MRR", **FEW)
    exact = compare_models(line_up(tables, at=rank), "MRR", **FEW)
    for one, known in zip(either.differences, exact.differences, strict=True):
        assert one.ends[0] <= known.value <= one.ends[1]
        assert known.significant or not one.significant


def test_one_end_is_the_table_with_it():
    tables = {"one": ONE, "other": OTHER}
    for end, exact in (("best", kp.Ranks.at_best), ("worst", kp.Ranks.at_worst)):
        given = kp.compare(tables, "MRR", at=end, **FEW)
        expected = kp.compare({name: exact(table) for name, table in tables.items()}, "MRR", **FEW)
        assert given.to_rows() == expected.to_rows()
        both = line_up(tables, unknown=True)
        expected_runs = {name: exact(table).rank.tolist() for name, table in tables.items()}
        assert {name: run.rank.tolist() for name, (run,) in line_up(both, at=end).runs.items()} == expected_runs
    for given in (tables, both):
        with pytest.raises(DataError, match="ranks are intervals") as error:
            line_up(given)
        assert error.value.problems == ["one: 3 of 5 ranks", "other: 2 of 5 ranks"]
        assert "`at='worst'`" in error.value.remedy
    with pytest.raises(UsageError, match="unknown end of an interval: 'middle'"):
        line_up(tables, at="middle")


def test_a_report_shows_ranges_and_no_places(tmp_path):
    report = kp.compare({"one": ONE, "other": OTHER, "exact": EXACT}, "MRR", **FEW)
    low, high = (evaluate(table, "MRR")["MRR"] for table in (ONE.at_worst(), ONE.at_best()))
    assert f"{low:.4f} to {high:.4f}" in str(report)
    assert "1st" not in str(report)
    assert "Some ranks are intervals" in str(report)
    rows = report.to_rows()
    assert (rows[0]["least"], rows[0]["most"]) == pytest.approx((low, high))
    assert rows[2]["least"] == rows[2]["most"] == rows[2]["value"]
    assert rows[0]["reason"] == "ranks are intervals; the value lies between least and most"
    report.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1000


def test_a_decision_holds_whatever_the_unknown_ranks():
    tables = {"blunt": large(1, 5, 40, 0.1), "sharp": large(0, 1, 4, 0.1)}
    decision = kp.decide(tables, alpha=1, beta=0, **FEW)
    assert decision.winner == "sharp"
    assert decision.choices == ("sharp",)
    assert "significantly higher than that of every other model whatever the unknown ranks; blunt" in str(decision)
    assert decision.reaches == ()
    row = decision.to_rows()[1]
    assert row["lead_least"] < row["lead_most"]
    open_ends = kp.decide({"one": large(3, 1, 9, 0.6), "other": large(4, 1, 9, 0.6)}, alpha=1, beta=0, **FEW)
    assert set(open_ends.choices) == {"one", "other"}
    exact = kp.decide(tables, alpha=1, beta=0, at="worst", **FEW)
    assert exact.standings[0].estimate.value == pytest.approx(decision.standings[0].estimate.ends[0])


def test_the_map_says_who_wins_whatever_the_unknown_ranks():
    tables = {"sharp": large(0, 1, 4, 0.05), "blunt": large(1, 20, 40, 0.05)}
    plane = kp.decision_map(tables, [1.0, 0.0], [0.0])
    assert plane.models == ("sharp at best", "sharp at worst", "blunt at best", "blunt at worst")
    assert str(plane) == "Whatever the unknown ranks, sharp beats every other model on 100 % of the points."
    assert plane.dominates("sharp").all()
    assert not plane.dominates("blunt").any()
    worst, best = (kp.decision_map(tables, [1.0, 0.0], [0.0], at=end) for end in ("worst", "best"))
    assert plane.scores[1] == pytest.approx(worst.scores[0])
    assert plane.scores[2] == pytest.approx(best.scores[1])
    undecided = kp.decision_map({"one": large(3, 1, 9, 0.6), "other": large(4, 1, 9, 0.6)}, [1.0], [0.0])
    assert str(undecided) == "Whatever the unknown ranks, no model beats every other anywhere."


def test_evaluation_and_surfaces_take_an_end():
    for end, exact in (("best", ONE.at_best()), ("worst", ONE.at_worst())):
        assert kp.evaluate(ONE, "MRR", at=end) == kp.evaluate(exact, "MRR")
        assert kp.scores(ONE, ["MRR"], at=end)[0].value == kp.evaluate(exact, "MRR")["MRR"]
        assert (kp.surface(ONE, [1.0], [0.0, 0.5], at=end) == kp.surface(exact, [1.0], [0.0, 0.5])).all()
