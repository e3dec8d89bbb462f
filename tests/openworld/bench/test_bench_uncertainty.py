import numpy as np
import pytest
from scipy.stats import kendalltau

from benches import made_pairs, made_points
from kgprobe.metrics import parse
from kgprobe.metrics.popularity import Probe
from kgprobe.openworld.bench import Points, Settings, TauDifference, tau_differences
from kgprobe.openworld.bench.uncertainty import comparisons, sentences
from kgprobe.openworld.metrics import OPEN_WORLD_METRICS

METRICS = ["pMRR(p=1)", "pMRR(p=0.25)", "PROBE(alpha=1)", "PROBE(alpha=-1)"]


def test_every_probe_meets_the_gentlest_power_and_its_own() -> None:
    found = [(str(first), str(second)) for first, second, _ in comparisons(OPEN_WORLD_METRICS)]
    probe = "PROBE(alpha={},beta=0)".format
    assert found == [
        *((probe(alpha), "pMRR(p=0.25)") for alpha in (2, 1, 0.5, 0, -0.5, -1)),
        (probe(1), "pMRR(p=1)"),
        (probe(0.5), "pMRR(p=0.5)"),
    ]
    assert not list(comparisons(made_points([0], [0], [0]).metrics))


@pytest.mark.parametrize("late", [False, True])
def test_intervals_are_those_of_a_loop_over_drawn_models(late: bool) -> None:
    points = Points.of(made_pairs(5, 4, queries=15), METRICS)
    settings = Settings(replicates=200, seed=3, late=0.3)
    kept = points.mrr > 0.3 if late else points.mrr > -1
    assert not late or 5 < kept.sum() < len(points)
    rng = np.random.default_rng(3)
    draws = rng.multinomial(5, np.full(5, 0.2), size=200)
    taus = np.empty((200, 4))
    for number, draw in enumerate(draws):
        rows = [
            i for m, times in enumerate(draw) for _ in range(times) for i in np.flatnonzero(kept & (points.model == m))
        ]
        taus[number] = [kendalltau(points.open[k][rows], points.closed[k][rows]).statistic for k in range(4)]
    found = tau_differences(points, settings, late=late)
    assert [(str(one.first), str(one.second)) for one in found] == [
        ("PROBE(alpha=1,beta=0)", "pMRR(p=0.25)"),
        ("PROBE(alpha=-1,beta=0)", "pMRR(p=0.25)"),
        ("PROBE(alpha=1,beta=0)", "pMRR(p=1)"),
    ]
    whole = [kendalltau(points.open[k][kept], points.closed[k][kept]).statistic for k in range(4)]
    for one, (first, second) in zip(found, ((2, 1), (3, 1), (2, 0)), strict=True):
        assert one.late == late
        assert one.value == pytest.approx(whole[first] - whole[second], abs=1e-12)
        wanted = np.nanquantile(taus[:, first] - taus[:, second], [0.025, 0.975])
        assert [one.low, one.high] == pytest.approx(wanted.tolist(), abs=1e-9)


def test_the_same_seed_draws_the_same_models() -> None:
    points = Points.of(made_pairs(4, 2, queries=15), METRICS)
    one, again, other = (tau_differences(points, Settings(replicates=50, seed=seed)) for seed in (1, 1, 2))
    assert one == again != other


def test_equal_candidates_make_probe_and_its_power_equal() -> None:
    found = tau_differences(Points.of(made_pairs(4, 3), METRICS), Settings(replicates=100))
    assert {str(one.second): one.verdict for one in found if one.first == parse("PROBE(alpha=1)")}[
        "pMRR(p=1)"
    ] == "equal"


def test_one_model_has_no_interval() -> None:
    assert tau_differences(Points.of(made_pairs(1, 4), METRICS), Settings()) == []


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.01, 0.2), "more"), ((-0.2, -0.01), "less"), ((-0.1, 0.1), "undecided"), ((0.0, 0.2), "undecided")],
)
def test_a_verdict_needs_an_interval_beyond_zero(interval: tuple[float, float], verdict: str) -> None:
    assert TauDifference(Probe(alpha=0), parse("MRR"), "MRR", False, 0.05, *interval).verdict == verdict


def test_sentences_name_every_alpha_once() -> None:
    def one(alpha: float, low: float, high: float, late: bool) -> TauDifference:
        return TauDifference(Probe(alpha=alpha), parse("MRR"), "MRR", late, (low + high) / 2, low, high)

    found = [one(1, -0.2, -0.1, False), one(0.5, -0.1, 0.1, False), one(0, 0, 0, False), one(1, -0.2, -0.1, True)]
    assert sentences(found) == [
        "Over all points PROBE is more consistent than MRR at no alpha; less at 1; equally at 0; undecided at 0.5.",
        "Over late points PROBE is more consistent than MRR at no alpha; less at 1.",
    ]
