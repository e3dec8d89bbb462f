import dataclasses
import math

import numpy as np
import pytest

import kgprobe as kp
from clustered import lineup, model
from kgprobe.comparison import estimator_families, inference, line_up, model_comparison, resampling, results
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.comparison.pair_tests import Correction, benjamini_hochberg, holm
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import scores
from kgprobe.ranks import read_ranks
from support import take, with_columns

METRICS = ["MRR", "PROBE(alpha=1,beta=0.6)", "MR"]

FEW = {"replicates": 400, "permutations": 400}


@pytest.fixture(scope="module")
def found():
    return compare_models(lineup(150, 3), METRICS, by=["relation"], **FEW)


def by_key(found):
    estimates = {(e.model, str(e.metric), str(e.group)): e for e in found.estimates}
    differences = {(d.first, d.second, str(d.metric), str(d.group)): d for d in found.differences}
    return estimates, differences


def test_every_value_is_that_of_eval(found):
    given = lineup(150, 3)
    expected = {
        (name, str(s.metric), str(s.group)): s
        for name, (run,) in given.runs.items()
        for s in scores(run, METRICS, by=["relation"])
    }
    estimates, _ = by_key(found)
    assert estimates.keys() == expected.keys()
    for key, score in expected.items():
        one = estimates[key]
        assert one.value == pytest.approx(score.value, rel=1e-12)
        assert (one.queries, one.effective) == (score.queries, pytest.approx(score.effective))
        assert (one.std, one.seeds, one.clusters) == (None, 1, score.queries // 2)
        assert one.interval.low <= one.value <= one.interval.high


def test_differences_are_those_of_the_values_and_a_family_for_each_metric_and_group(found):
    estimates, differences = by_key(found)
    assert len(differences) == 3 * 3 * 3
    for (first, second, *where), one in differences.items():
        expected = estimates[first, *where].value - estimates[second, *where].value
        assert one.value == pytest.approx(expected, abs=1e-15)
        assert one.interval.low <= one.value <= one.interval.high
        assert 0 < one.p <= one.bh <= one.holm <= 1
    for start in range(0, 27, 3):  # three pairs of models
        family = found.differences[start : start + 3]
        assert len({(str(one.metric), str(one.group)) for one in family}) == 1
        assert [one.tests for one in family] == [3] * 3
        p = [one.p for one in family]
        assert [one.holm for one in family] == holm(p).tolist()
        assert [one.bh for one in family] == benjamini_hochberg(p).tolist()


@pytest.mark.parametrize("correction", Correction)
@pytest.mark.parametrize("runs", [1, 2])
def test_other_metrics_change_no_p_value_interval_or_verdict(correction, runs):
    given = lineup(150, 4, runs=runs)
    alone = compare_models(given, "MRR", correction=correction, **FEW)
    among = compare_models(given, [*METRICS, "Hits@1", "Hits@3", "MedianRank"], correction=correction, **FEW)
    same = [one for one in among.differences if str(one.metric) == "MRR"]
    assert same == alone.differences
    assert [one for one in among.estimates if str(one.metric) == "MRR"] == alone.estimates
    assert alone.family == among.family


def test_the_family_of_tests_is_said():
    given = lineup(30, 4)
    ending = "for each metric by itself; choose the metric before you look at the results."
    assert compare_models(given, "MRR", **FEW).family == (
        f"Tests and 95 % intervals of differences are simultaneous for the 6 pairs of models (max-t), {ending}"
    )
    assert compare_models(given, "MRR", correction="holm", **FEW).family == f"Holm over the 6 pairs of models, {ending}"
    assert "for each metric and group" in compare_models(given, "MRR", by=["relation"], **FEW).family
    assert "the only pair of models" in compare_models(lineup(30, 2), "MRR", **FEW).family


def test_small_groups_are_not_trusted(found):
    assert {one.interval.trusted for one in found.estimates} == {False}
    assert all("below 200" in one.interval.remark for one in found.estimates if one.effective < 199.5)


def test_the_same_seed_gives_the_same_and_another_seed_nearly_so():
    given = lineup(120, 2)
    one, again, other = (compare_models(given, METRICS, seed=seed, **FEW) for seed in (1, 1, 2))
    assert one == again
    assert other.estimates != one.estimates
    for a, b in zip(one.estimates, other.estimates, strict=True):
        assert a.interval.low == pytest.approx(b.interval.low, abs=0.2 * (a.interval.high - a.interval.low))


def test_the_order_of_rows_and_models_does_not_matter():
    tables = {f"model {i}": model(120, i, worse=0.1 * i) for i in range(3)}
    order = np.random.default_rng(0).permutation(240).tolist()
    turned = {name: take(table, order) for name, table in reversed(tables.items())}
    one, other = (by_key(compare_models(line_up(given), METRICS, **FEW)) for given in (tables, turned))
    for key, estimate in one[0].items():
        assert other[0][key].value == pytest.approx(estimate.value, rel=1e-12)
        ends = (estimate.interval.low, estimate.interval.high)
        assert (other[0][key].interval.low, other[0][key].interval.high) == pytest.approx(ends, rel=1e-9)
    for (first, second, *where), difference in one[1].items():
        back = other[1][second, first, *where]
        assert back.value == pytest.approx(-difference.value, abs=1e-14)
        assert back.interval.low == pytest.approx(-difference.interval.high, abs=1e-9)
        assert back.p == pytest.approx(difference.p)


def test_identical_models_are_alike():
    table = model(120, 1)
    found = compare_models(line_up({"one": table, "copy": table}), ["MRR", "MedianRank"], **FEW)
    for one in found.differences:
        assert (one.value, one.p, one.holm, one.interval.low, one.interval.high) == (0, 1, 1, 0, 0)
        assert not one.interval.trusted


def test_the_best_is_held_against_the_others_on_request():
    given = lineup(120, 4)
    found = compare_models(given, ["MRR", "MR"], pairs="best", **FEW)
    whole = by_key(compare_models(given, ["MRR", "MR"], **FEW))[1]
    for metric, best in (("MRR", max), ("MR", min)):
        values = {e.model: e.value for e in found.estimates if str(e.metric) == metric}
        leader = best(values, key=values.get)
        own = [d for d in found.differences if str(d.metric) == metric]
        assert [d.first for d in own] == [leader] * 3
        assert {d.second for d in own} == set(values) - {leader}
        for d in own:
            there, back = (d.first, d.second, metric, "{}"), (d.second, d.first, metric, "{}")
            assert d.p == whole[there if there in whole else back].p


def test_seeds_are_random_where_all_models_have_several():
    several, one = lineup(120, 2, runs=3), lineup(120, 2)
    found = compare_models(several, "MRR", **FEW)
    assert found.settings.seeds == "random"
    assert [(e.seeds, e.interval.method) for e in found.estimates] == [(3, "t")] * 2
    assert all(e.std > 0 for e in found.estimates)
    fixed = compare_models(several, "MRR", seeds="fixed", **FEW)
    assert [e.interval.method for e in fixed.estimates] == ["bootstrap-t"] * 2
    assert compare_models(one, "MRR", **FEW).settings.seeds == "fixed"
    mixed = line_up({"one": model(120, 1, runs=2), "other": model(120, 2)})
    assert compare_models(mixed, "MRR", **FEW).settings.seeds == "fixed"
    with pytest.raises(UsageError) as refused:
        compare_models(mixed, "MRR", seeds="random", level=2, **FEW)
    assert len(refused.value.problems) == 2
    assert "two runs of other" in refused.value.problems[1]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"level": 0}, {"replicates": 3}, {"permutations": 0}, {"pairs": "some"}, {"seeds": "lucky"}),
        *({"tie": "broken"}, {"level": "0.9"}, {"replicates": 1e3}, {"seed": -1}, {"seed": None}, {"metrics": []}),
    ],
    ids=str,
)
def test_senseless_requests_are_refused(wrong):
    with pytest.raises(UsageError):
        compare_models(lineup(5, 2), **{"metrics": "MRR", **wrong})


def test_a_plain_text_is_one_grouping():
    plain, listed = (compare_models(lineup(30, 2), "MRR", by=by, **FEW) for by in ("relation", ["relation"]))
    assert plain == listed
    assert len(plain.estimates) == 6


def test_clusters_by_relation_are_few_and_say_so():
    found = compare_models(lineup(400, 2), "MRR", cluster="relation", **FEW)
    assert found.settings.cluster == "relation"
    assert found.estimates[0].clusters == 3
    assert "effective number of clusters is 3, below 100" in found.estimates[0].interval.remark
    assert found.differences[0].p >= 2 / 8  # there are eight ways to swap


def test_settings_are_remembered():
    found = compare_models(lineup(20, 2), "MRR", level=0.9, tie="optimistic", seed=8, **FEW)
    assert dataclasses.asdict(found.settings) == {
        "cluster": "triple",
        "level": 0.9,
        "replicates": 400,
        "permutations": 400,
        "seeds": "fixed",
        "pairs": "all",
        "tie": "optimistic",
        "seed": 8,
        "correction": "max-t",
        "allow_different_candidates": False,
    }


def test_progress_counts_replicates_and_permutations():
    told = []
    compare_models(lineup(30, 2), METRICS, progress=told.append, **FEW)
    assert sum(told) == 800


def test_a_single_model_has_intervals_and_no_differences():
    found = compare_models(lineup(120, 1), METRICS, **FEW)
    assert len(found.estimates) == 3
    assert found.differences == []


def test_a_metric_without_value_is_said_and_spoils_no_other():
    table = with_columns(model(120, 1), candidates=np.ones(240, dtype=int), rank=np.ones(240))
    found = compare_models(line_up({"one": table, "other": table}), ["PROBE(alpha=1)", "MRR"], **FEW)
    assert math.isnan(found.estimates[0].value)
    assert "no finite value" in found.estimates[0].interval.remark
    assert math.isnan(found.differences[0].p)
    assert math.isnan(found.differences[0].holm)
    assert found.estimates[0].reason == "every query has a single candidate"
    assert found.differences[0].reason == "; ".join(f"{m}: {found.estimates[0].reason}" for m in ("one", "other"))
    assert (found.differences[1].p, found.differences[1].holm) == (1, 1)
    assert found.estimates[2].reason is found.differences[1].reason is None
    with pytest.raises(DataError, match="no metric has a value"):
        compare_models(line_up({"one": table}), ["PROBE(alpha=1)"], **FEW)


def test_a_metric_that_overflows_has_a_value_and_no_interval_without_a_reason():
    found = compare_models(lineup(30, 2), ["rawPROBE(alpha=-150)", "rawPROBE(alpha=-400)"], **FEW)
    for estimate in found.estimates:
        finite = [math.isfinite(number) for number in (estimate.value, estimate.interval.low, estimate.interval.high)]
        assert all(finite) == (estimate.reason is None and estimate.interval.reason is None)
    for difference in found.differences:
        assert math.isfinite(difference.p) or difference.reason


def test_a_group_has_a_value_though_its_weights_vanish_beside_others():
    table = with_columns(
        model(60, 1),
        entity_popularity=np.where(np.arange(120) % 2, 1e-300, 0.5),
        relation_popularity=np.ones(120),
        kind=np.arange(120) % 2,
    )
    found = compare_models(line_up({"one": table}), ["PROBE(alpha=1,beta_e=20)", "PROBE(alpha=1)"], by=["kind"], **FEW)
    for weighted, plain in zip(found.estimates[::2], found.estimates[1::2], strict=True):
        assert weighted.value == pytest.approx(plain.value, rel=1e-9)  # equal popularity within a group


@pytest.mark.parametrize("seeds", ["fixed", "random"])
@pytest.mark.parametrize("by", [[], ["relation"]], ids=["whole", "groups"])
def test_a_model_without_value_leaves_the_others_their_intervals(seeds, by):
    given = {f"model {i}": model(120, i, runs=2) for i in range(2)}
    empty = with_columns(model(120, 3, runs=2), candidates=np.ones(480, dtype=int), rank=np.ones(480))
    metrics = ["PROBE(alpha=1)", "APROBE(alpha=0)"]
    alone = by_key(compare_models(line_up(given), metrics, by=by, seeds=seeds, **FEW))
    for tables in ({"none": empty, **given}, {**given, "none": empty}):
        found = by_key(compare_models(line_up(tables), metrics, by=by, seeds=seeds, **FEW))
        for before, after in zip(alone, found, strict=True):
            for key, one in before.items():
                ends = (one.interval.low, one.interval.high)
                assert (after[key].interval.low, after[key].interval.high) == pytest.approx(ends, rel=1e-9)


def test_too_few_permutations_for_so_many_tests_are_said():
    given = lineup(30, 3)
    few = {"replicates": 100, "permutations": 100}
    assert compare_models(given, METRICS, by=["relation"], correction="holm", **few).remarks == [
        "With 3 pairs of models and 100 permutations, no adjusted p-value can be below 0.03; "
        "300 permutations would allow 0.01."
    ]
    assert compare_models(given, "MRR", **few).remarks == []
    assert compare_models(lineup(30, 3, runs=2), "MRR", correction="holm", **few).remarks == []


def test_published_models_come_apart_where_the_paper_says(data):
    """HousE rises from last at alpha 1 to first at alpha -1, and both orders are beyond noise."""
    names = ["ComplEx", "HousE", "RotatE", "TuckER", "RNNLogic"]
    given = line_up(
        {name: read_ranks(data / "published_ranks" / "wn18rr" / f"{name}.parquet") for name in names}, common=True
    )
    found = compare_models(given, ["PROBE(alpha=1,beta=0)", "PROBE(alpha=-1,beta=0)"])
    about = [d for d in found.differences if "HousE" in (d.first, d.second)]
    sharp, blunt = (
        {d.first if d.second == "HousE" else d.second: d for d in about if str(d.metric) == metric}
        for metric in ("PROBE(alpha=1,beta=0)", "PROBE(alpha=-1,beta=0)")
    )
    assert found.settings.seeds == "random"
    for other in ("ComplEx", "RotatE", "TuckER", "RNNLogic"):
        sign = -1 if sharp[other].first == "HousE" else 1
        assert sign * sharp[other].value > 0 > sign * blunt[other].value
        assert sharp[other].holm < 0.05
        assert blunt[other].p < 0.05


def test_many_clusters_change_draws_but_no_value(monkeypatch):
    """Estimates, sample sizes and remarks are those of all clusters; limits and p-values differ by chance."""
    given = lineup(900, 3, runs=2)
    metrics = [*METRICS, "StdRank", "MedianRank"]
    wider = {"seeds": "fixed", "replicates": 2_000, "permutations": 2_000}
    full = {kind: compare_models(given, metrics, **options) for kind, options in (("fixed", wider), ("random", FEW))}
    widths = []
    drawn = resampling.resampled
    monkeypatch.setattr(estimator_families, "resampled", lambda *size: widths.append(size[1]) or drawn(*size))
    for module in (resampling, inference, results):
        monkeypatch.setattr(module, "MOST_UNITS", 300)
    merged = {kind: compare_models(given, metrics, **options) for kind, options in (("fixed", wider), ("random", FEW))}
    assert set(widths) == {300}
    for kind, all_clusters in full.items():
        for one, other in zip(all_clusters.estimates, merged[kind].estimates, strict=True):
            assert dataclasses.replace(one, interval=other.interval) == other
            assert one.clusters == 900
            assert (one.interval.trusted, one.interval.remark) == (other.interval.trusted, other.interval.remark)
            if kind == "random" and str(one.metric) == "MedianRank":  # a whole number, with hardly any variance
                continue
            width = one.interval.high - one.interval.low
            limits = (one.interval.low, one.interval.high)
            assert (other.interval.low, other.interval.high) == pytest.approx(limits, abs=0.15 * width)
    for one, other in zip(full["random"].differences, merged["random"].differences, strict=True):
        if str(one.metric) != "MedianRank":  # t intervals need no draws
            assert one == other
    assert "300 random groups of the 900 clusters" in merged["fixed"].remarks[0]
    monkeypatch.undo()
    assert not full["fixed"].remarks


def test_progress_counts_up_to_the_announced_total(monkeypatch):
    given = lineup(150, 2)
    monkeypatch.setattr(model_comparison, "_MANY_ROWS", 100)
    monkeypatch.setattr(model_comparison, "_ROWS_PER_DRAW", 10)
    done = []
    compare_models(given, METRICS, by=["relation"], progress=done.append, **FEW)
    assert sum(done) == model_comparison.draws_of(given, 3, 3, 800) == 3 * 800 + 3 * 2 * 30


def with_other_candidates(given, *models):
    """The same line-up, in which some models have one candidate more in the first seven queries."""
    more = np.arange(len(given)) < 7
    runs = {
        name: tuple(with_columns(run, candidates=run.candidates + more) for run in own) if name in models else own
        for name, own in given.runs.items()
    }
    return dataclasses.replace(given, runs=runs)


def test_models_with_other_candidates_are_not_tested_and_the_others_are_as_before():
    plain = lineup(120, 4)
    one, two, three, odd = plain.models
    given = with_other_candidates(plain, odd)
    assert given.candidate_differences == {(one, odd): 7, (two, odd): 7, (three, odd): 7}
    found = compare_models(given, "MRR", **FEW)
    kept = dataclasses.replace(plain, runs={name: plain.runs[name] for name in (one, two, three)})
    alone = {(d.first, d.second): d for d in compare_models(kept, "MRR", **FEW).differences}
    assert found.tests == len(alone) == 3
    assert len(found.differences) == 6
    for d in found.differences:
        if d.second == odd:
            assert (d.tested, d.reason) == (False, "candidate sets differ in 7 queries")
            assert np.isnan([d.p, d.holm, d.bh, d.interval.low, d.interval.high]).all()
            values = {e.model: e.value for e in found.estimates}
            assert d.value == pytest.approx(values[d.first] - values[d.second], abs=1e-15)
        else:
            same = alone[d.first, d.second]
            assert (d.tested, d.p, d.holm, d.bh) == (True, same.p, same.holm, same.bh)
    allowed = compare_models(given, "MRR", allow_different_candidates=True, **FEW)
    assert all(d.tested and 0 < d.p <= 1 for d in allowed.differences)


def test_of_the_others_the_best_is_tested_too_where_the_best_has_other_candidates():
    plain = lineup(120, 4)
    values = {model: kp.evaluate(plain.runs[model][0], "MRR")["MRR"] for model in plain.models}
    best, second, *rest = sorted(values, key=lambda model: -values[model])
    found = compare_models(with_other_candidates(plain, best), "MRR", pairs="best", **FEW)
    assert {(d.first, d.second) for d in found.differences if not d.tested} == {(best, m) for m in (second, *rest)}
    assert {(d.first, d.second) for d in found.differences if d.tested} == {(second, model) for model in rest}


def test_a_run_with_other_candidates_counts():
    given = lineup(60, 2, runs=2)
    one, other = given.models
    changed = with_columns(given.runs[other][1], candidates=given.runs[other][1].candidates + 1)
    odd = dataclasses.replace(given, runs={**given.runs, other: (given.runs[other][0], changed)})
    assert given.candidate_differences == {}
    assert odd.candidate_differences == {(one, other): len(given)}
