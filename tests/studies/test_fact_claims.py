import numpy as np
import pytest

from kgprobe.metrics import parse
from kgprobe.metrics.six_properties import Property
from kgprobe.openworld.benches import Bench
from kgprobe.studies.claim_logic import Sample
from kgprobe.studies.fact_claims import DrawnSign, HasProperties, KeepsOrder, Theory, open_world_metrics
from planted_claims import planted_points

ABOUT = {"name": "claim", "statement": "", "section": ""}
METHOD = Sample(method=True)


def test_probe_has_all_six_properties():
    claim = HasProperties(**ABOUT, metric=parse("PROBE(alpha=0.5,beta=0.5)"), has=tuple(Property))
    assert claim.proof().holds


@pytest.mark.parametrize(
    ("metric", "has", "lacks", "reason"),
    [
        ("MR", (Property.fixed_pessimum,), (), "has not fixed pessimum"),
        ("MRR", (), (Property.fixed_optimum,), "has fixed optimum"),
    ],
)
def test_a_wrong_property_is_contradicted_with_the_reason(metric, has, lacks, reason):
    proof = HasProperties(**ABOUT, metric=parse(metric), has=has, lacks=lacks).proof()
    assert not proof.holds
    assert proof.reason.startswith(reason)


def test_the_lemma_holds_in_its_model_alone():
    name = "Lemma 1: the derivative decreases with alpha"
    assert Theory(**ABOUT, sentence=f"{name} (unlearned: nothing)").proof().holds
    failed = Theory(**ABOUT, sentence=f"{name} (unlearned: anywhere)").proof()
    assert not failed.holds
    assert "240 of 240 settings violate it" in failed.reason


def test_differences_of_tau_are_those_of_the_bench():
    points = planted_points({"PROBE(alpha=0,beta=0)": 0.05, "pMRR(p=0.25)": 0.2}, seed=3)
    (expected, _) = Bench.of(points).differences[:2]
    found = KeepsOrder(**ABOUT, metric=points.metrics[0], than=points.metrics[1], missing=0.25).stated(points)
    assert found.value == pytest.approx(expected.value)
    low, high = np.quantile(found.draws, [0.025, 0.975])
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_metrics_with_the_same_order_do_not_keep_it_better():
    points = planted_points({"MRR": 0.1, "Hits@10": 0.1}, seed=0)
    same = KeepsOrder(**ABOUT, metric=points.metrics[0], than=points.metrics[0], missing=0.25).stated(points)
    assert same.equal
    assert same.p(METHOD).opposes < 0.001 < 0.9 < same.p(METHOD).supports


def test_p_values_of_draws_are_never_zero():
    assert DrawnSign("", 1.0, np.ones(99)).p(METHOD) == (0.01, 1.0)
    assert DrawnSign("", -1.0, -np.ones(99)).p(METHOD) == (1.0, 0.01)


def test_metrics_of_the_open_world_claims():
    claims = [KeepsOrder(**ABOUT, metric=parse("MRR"), than=parse("Hits@3"), missing=0.25)]
    assert open_world_metrics(claims) == (parse("MRR"), parse("Hits@3"))
