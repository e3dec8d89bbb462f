import math
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import Metric, parse_all, scores
from kgprobe.ranks import Basis, CandidatesInfo, Ranks, RanksInfo, SampleInfo, merge_seeds
from kgprobe.ranks.schema import estimated_rank
from ranking import graph_of, matrix

INFO = RanksInfo(candidates=CandidatesInfo(Basis.verified, sample=SampleInfo(5, estimates=True, seed=0)))
LINEAR = ["MR", "AMR", "AMRI", "ZMR", "PROBE(alpha=-1)", "PROBE(alpha=-1,beta=0.5)", "rawPROBE(alpha=-1)"]
CURVED = ["MRR", "PROBE(alpha=0)", "PROBE(alpha=1,beta=0.4)", "PROBE(alpha=-0.5)", "GMR", "Hits@3", "AMRR", "logMRR"]


def table(
    greater: Any, equal: Any, size: Any, population: Any, hits: Any, ties: Any, info: RanksInfo = INFO, **more: Any
) -> Ranks:
    rows = len(greater)
    sample = {
        "exact_greater": np.asarray(greater),
        "exact_equal": np.asarray(equal),
        "sample_size": np.asarray(size),
        "sampled_from": np.asarray(population),
        "sampled_greater": np.asarray(hits),
        "sampled_equal": np.asarray(ties),
    }
    known = np.asarray(size) == np.asarray(population)
    return Ranks.from_columns(
        head=np.arange(rows),
        relation=np.arange(rows) % 2,
        tail=np.full(rows, rows),
        side=["tail"] * rows,
        rank=estimated_rank(*(sample[name] for name in list(sample)[:4]), np.asarray(hits) + np.asarray(ties) / 2),
        candidates=np.asarray(population) + np.asarray(greater) + np.asarray(equal) + 1,
        ties=np.where(known, np.asarray(equal) + np.asarray(ties), np.nan),
        entity_popularity=np.linspace(0.1, 0.9, rows),
        relation_popularity=np.linspace(0.5, 0.1, rows),
        sample=sample,
        info=info,
        **more,
    )


def simulated(better: NDArray[np.int64], population: int, size: int, rng: np.random.Generator, exact: int = 0) -> Ranks:
    none = np.zeros(len(better), dtype=int)
    hits = rng.hypergeometric(better, population - better, size)
    return table(none + exact, none, none + size, none + population, hits, none)


def exactly(ranks: Ranks, rank: Any) -> Ranks:
    """The same queries with these ranks, which are known."""
    return ranks.with_ranks(rank, np.zeros(len(ranks), dtype=int), ranks.candidates.astype(int), info=RanksInfo())


@pytest.mark.parametrize("metric", LINEAR)
@pytest.mark.parametrize("tie", ["mean", "optimistic", "pessimistic"])
def test_linear_metrics_are_unbiased_over_all_samples_with_ties(metric: str, tie: str) -> None:
    populations = [[1.0, 0.5, 0.0, 0.0, 1.0], [0.5, 0.5, 0.0, 1.0]]
    exact, exact_ties, size = [2, 0], [1, 0], 2
    subsets = [list(combinations(own, size)) for own in populations]
    found = []
    for chosen in product(*subsets):
        hits = [sum(value == 1.0 for value in own) for own in chosen]
        ties = [sum(value == 0.5 for value in own) for own in chosen]
        ranks = table(exact, exact_ties, [size] * 2, [len(own) for own in populations], hits, ties)
        found.append(scores(ranks, [metric], tie=tie)[0].value)
    weight = {"mean": 0.5, "optimistic": 0.0, "pessimistic": 1.0}[tie]
    rank = [
        1 + a + weight * e + sum(1.0 if v == 1 else weight * (v == 0.5) for v in own)
        for a, e, own in zip(exact, exact_ties, populations, strict=True)
    ]
    assert np.mean(found) == pytest.approx(scores(exactly(ranks, rank), [metric])[0].value, rel=1e-9)
    assert np.std(found) > 0


@pytest.mark.parametrize("metric", [*LINEAR, *CURVED])
def test_a_sample_of_everything_has_the_value_and_no_width(metric: str) -> None:
    graph = graph_of(seed=4)
    full, whole = kp.rank(matrix(graph, 2), graph), kp.rank(matrix(graph, 2), graph, sample=50, by="relation-type")
    (one,), (other,) = scores(full, [metric]), scores(whole, [metric])
    assert other.value == pytest.approx(one.value, rel=1e-12)
    assert other.low == other.high == other.value
    assert (other.queries, other.left_out, other.effective) == (one.queries, one.left_out, pytest.approx(one.effective))


@pytest.mark.parametrize("exact", [0, 4])
def test_intervals_hold_the_value_as_often_as_they_say(exact: int) -> None:
    rng = np.random.default_rng(0)
    better = np.minimum(rng.zipf(1.3, 400) - 1, 500)
    metrics = parse_all([*LINEAR, *CURVED])
    held, width = np.zeros(len(metrics)), np.zeros(len(metrics))
    runs = 60
    for _ in range(runs):
        ranks = simulated(better, 500, 60, rng, exact)
        truth = scores(exactly(ranks, 1 + exact + better), metrics)
        found = scores(ranks, metrics)
        held += [one.low <= true.value <= one.high for one, true in zip(found, truth, strict=True)]
        width += [one.high - one.low for one in found]
    # 95 %: of 60 sets, fewer than 50 have a probability below 1e-4.
    assert dict(zip(map(str, metrics), held, strict=True)) == {
        str(metric): pytest.approx(runs, abs=10) for metric in metrics
    }
    assert width[metrics.index(parse_all(["MRR"])[0])] / runs < 0.6


@pytest.mark.parametrize("metric", [*LINEAR, *CURVED])
@pytest.mark.parametrize(("hits", "size"), [(0, 10), (10, 10), (3, 10), (0, 1), (0, 0)])
def test_one_query_has_the_exact_interval(metric: str, hits: int, size: int) -> None:
    from scipy.stats import hypergeom

    ranks = table([2], [0], [size], [40], [hits], [0])
    (found,) = scores(ranks, [metric])
    b = np.arange(41)
    possible = (hypergeom.cdf(hits, 40, b, size) > 0.025) & (hypergeom.sf(hits - 1, 40, b, size) > 0.025)
    values = [scores(exactly(ranks, [3 + int(n)]), [metric])[0].value for n in b[possible]]
    assert found.low <= min(values) + 1e-12
    assert found.high >= max(values) - 1e-12
    if size:
        every = [scores(exactly(ranks, [3 + int(n)]), [metric])[0].value for n in (hits, 40 - size + hits)]
        assert min(every) - 1e-12 <= found.low
        assert found.high <= max(every) + 1e-12


def test_without_samples_the_interval_has_all_possible_ranks() -> None:
    ranks = table([2, 0], [0, 0], [0, 0], [10, 5], [0, 0], [0, 0])
    (found,) = scores(ranks, ["MR"])
    assert (found.low, found.value, found.high) == (2.0, 5.75, 9.5)


def test_ties_in_the_sample_widen_the_interval_of_a_curved_metric() -> None:
    rng = np.random.default_rng(0)
    none = np.zeros(300, dtype=int)
    hits = rng.hypergeometric(20, 180, 40, size=300)
    without = table(none, none, none + 40, none + 200, hits, none)
    tied = table(none, none, none + 40, none + 200, hits - np.minimum(hits, 2), np.minimum(hits, 2) * 2)
    (one,), (other,) = scores(without, ["MRR"]), scores(tied, ["MRR"])
    assert other.high - other.low > one.high - one.low
    assert scores(tied, ["MRR"], tie="pessimistic")[0].value < scores(tied, ["MRR"], tie="optimistic")[0].value


def test_groups_are_estimated_by_themselves() -> None:
    rng = np.random.default_rng(1)
    ranks = simulated(rng.integers(0, 100, 80), 200, 40, rng)
    groups = scores(ranks, ["MR", "MRR"], by=["relation"])
    assert [(str(one.metric), one.group) for one in groups] == [
        (metric, {"relation": relation}) for relation in (0, 1) for metric in ("MR", "MRR")
    ]
    for one in groups:
        alone = scores(ranks[ranks.relation == one.group["relation"]], [one.metric])[0]
        assert (one.value, one.low, one.high) == pytest.approx((alone.value, alone.low, alone.high), rel=1e-9)


def test_seeds_are_averaged() -> None:
    rng = np.random.default_rng(1)
    runs = {seed: simulated(rng.integers(0, 100, 60), 200, 40, rng) for seed in (1, 2)}
    (found,) = scores(merge_seeds(runs), ["MR"])
    alone = [scores(own, ["MR"])[0] for own in runs.values()]
    assert found.seeds == 2
    assert found.value == pytest.approx(np.mean([one.value for one in alone]))
    assert found.low == pytest.approx(np.mean([one.low for one in alone]))
    assert found.std == pytest.approx(np.std([one.value for one in alone], ddof=1))


def test_files_are_estimated_as_tables_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    ranks = simulated(rng.integers(0, 100, 60), 200, 40, rng)
    ranks.write(tmp_path / "ranks.parquet")
    (one,), (other,) = scores(ranks, ["MRR"]), scores(tmp_path / "ranks.parquet", ["MRR"])
    assert (one.value, one.low, one.high) == (other.value, other.low, other.high)
    assert other.level == 0.95


def test_queries_with_a_single_candidate_are_left_out() -> None:
    ranks = table([0] * 20, [0] * 20, [5] * 19 + [0], [50] * 19 + [0], [1] * 19 + [0], [0] * 20)
    (found,) = scores(ranks, ["PROBE(alpha=1)"])
    assert (found.queries, found.left_out) == (19, 1)
    assert math.isfinite(found.low)


def test_metrics_that_are_no_means_have_a_reason() -> None:
    ranks = table([0], [0], [3], [9], [1], [0])
    (found,) = scores(ranks, ["MedianRank"])
    assert math.isnan(found.value)
    assert found.reason is not None
    assert "only means of scores" in found.reason


def test_scores_say_that_candidates_were_sampled() -> None:
    (found,) = scores(table([0], [0], [3], [9], [1], [0]), ["MRR"])
    assert found.note is not None
    assert "estimated from a sample of 5 candidates, seed 0" in found.note
    fixed = exactly(table([0], [0], [3], [9], [1], [0]), [2]).with_info(
        candidates=CandidatesInfo(Basis.given, "few.npz", sample=SampleInfo(9))
    )
    (found,) = scores(fixed, ["MRR"])
    assert (found.level, found.value) == (None, 0.5)
    assert found.note is not None
    assert "sampled, 9 negatives" in found.note
    with pytest.warns(UserWarning, match="sampled, 9 negatives"):
        kp.evaluate(fixed, "MRR")
    with pytest.warns(UserWarning, match="estimated from a sample"):
        assert kp.evaluate(table([0], [0], [3], [9], [1], [0]), "MR") == {"MR": 4.0}


@pytest.mark.parametrize("options", [{"macro": "relation"}, {"weight": "share"}, {"tie": "expected"}])
def test_what_has_no_estimate_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        scores(table([0], [0], [3], [9], [1], [0], labels={"share": [1.0]}), ["MRR"], **options)


@pytest.mark.parametrize(
    "use",
    [
        lambda ranks: kp.surface(ranks, [1.0], [0.0]),
        lambda ranks: kp.compare({"mine": ranks}, ["MRR"]),
        lambda ranks: kp.decide({"one": ranks, "other": ranks}, 1.0, 0.0),
        lambda ranks: kp.RankAccumulator(["MRR"]).update(ranks),
    ],
)
def test_estimates_are_not_taken_for_ranks(use: Any) -> None:
    with pytest.raises(DataError, match="estimates from a sample"):
        use(table([0], [0], [3], [9], [1], [0]))


def test_a_wide_range_of_metrics_is_ordered() -> None:
    rng = np.random.default_rng(3)
    ranks = simulated(rng.integers(0, 300, 200), 300, 30, rng)
    metrics: list[Metric] = parse_all(
        [*LINEAR, *CURVED, "IMR", "HMR", "IGMR", "WMR", "nWMR", "ZMRR", "AHits@10", "StratMRR"]
    )
    for found in scores(ranks, metrics):
        assert found.low <= found.value <= found.high
        assert math.isfinite(found.low)
        assert math.isfinite(found.high)
