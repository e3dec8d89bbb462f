"""Standard errors and the width of the band, against loops and against the bootstrap."""

import math

import numpy as np
import pytest
from scipy import stats

from clustered import lineup
from kgprobe.comparison import Clusters, Lineup, line_up
from kgprobe.comparison.estimators import difference, estimator
from kgprobe.comparison.resampling import critical_value, standard_errors
from kgprobe.decision import bands as bands_module
from kgprobe.decision import decision_map, influence
from kgprobe.decision.bands import SeedVariance, band_width, covariances, variances_of_differences, widened
from kgprobe.decision.influence import Influences, model_surface
from kgprobe.metrics import parse
from planes import plain_influences, random_lineup, ranked
from support import with_columns

ALPHAS, BETAS = [-1.0, 0.0, 1.0], [0.0, 0.5]


@pytest.fixture(scope="module")
def given():
    return lineup(250, 3, runs=2)


def expected(given, *models):
    """Value and influence at every point, through the estimators."""
    values, influences = [], []
    for alpha in ALPHAS:
        for beta in BETAS:
            metric = parse(f"PROBE(alpha={alpha},beta={beta})")
            own = [estimator(given, m, metric, clusters=given.clusters()) for m in models]
            one = own[0] if len(own) == 1 else difference(*own)
            values.append(one.estimate)
            influences.append(one.columns @ one.gradient(one.sums))
    return np.reshape(values, (3, 2)), np.stack(influences, axis=1)


@pytest.mark.parametrize("models", [("model 0",), ("model 2", "model 0")], ids=["model", "difference"])
def test_scores_and_influences_are_those_of_the_estimators(given, models):
    signs = np.array([1.0, -1.0][: len(models)])
    surfaces = [model_surface(given, name, ALPHAS, BETAS).mean for name in models]
    chosen = Lineup({name: given.runs[name] for name in models}, {})
    found = np.empty((250, 3, 2))
    for some, beta, table in Influences(chosen, given.clusters(), popular=True).tables(
        np.array(ALPHAS), np.array(BETAS)
    ):
        found[:, some, beta] = table @ signs
    value, influence = expected(given, *models)
    assert np.tensordot(signs, surfaces, 1) == pytest.approx(value, rel=1e-12)
    assert found.reshape(250, -1) == pytest.approx(influence - influence.mean(axis=0), rel=1e-9, abs=1e-15)
    assert standard_errors(found.reshape(250, -1)) == pytest.approx(
        np.std(influence, axis=0, ddof=1) * 250**0.5, rel=1e-9
    )
    assert critical_value(found.reshape(250, -1)) == pytest.approx(critical_value(influence), rel=1e-3)
    assert critical_value(influence) > 2.1


GRID_ALPHAS, GRID_BETAS = (
    np.array([1.0, 0.3, 0.0, -0.5, -1.0, 2.0, 0.7, -2.0, 0.1]),
    np.array([0.0, 0.4, 0.8]),
)


def looped_errors(lineup: Lineup, cluster: str, alphas: np.ndarray, betas: np.ndarray) -> np.ndarray:
    codes = lineup.clusters(cluster).codes
    count, models = int(codes.max()) + 1, len(lineup.models)
    errors = np.zeros((models, models, len(alphas), len(betas)))
    for i, alpha in enumerate(alphas):
        for j, beta in enumerate(betas):
            moved = [plain_influences(lineup, model, float(alpha), float(beta), codes) for model in lineup.models]
            for a in range(models):
                for b in range(models):
                    squares = math.fsum((x - y) ** 2 for x, y in zip(moved[a], moved[b], strict=True))
                    errors[a, b, i, j] = math.sqrt(squares * count / (count - 1))
    return errors


@pytest.mark.parametrize("betas", [GRID_BETAS, GRID_BETAS[:1]], ids=["weighted", "unweighted"])
@pytest.mark.parametrize("same_candidates", [True, False], ids=["same candidates", "other candidates"])
@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("cluster", ["triple", "relation", "query"])
def test_errors_are_those_of_a_loop_over_clusters(
    cluster: str, runs: int, same_candidates: bool, betas: np.ndarray
) -> None:
    lineup = random_lineup(3, triples=25, runs=runs, same_candidates=same_candidates)
    plane = decision_map(lineup, GRID_ALPHAS, betas, cluster=cluster, seeds="fixed", replicates=10)
    expected = looped_errors(lineup, cluster, GRID_ALPHAS, betas)
    np.testing.assert_allclose(plane.errors, expected, rtol=1e-9, atol=1e-15)


def test_models_may_record_other_popularities() -> None:
    one, other = (lineup.first for lineup in (random_lineup(1, seed=1), random_lineup(1, seed=2)))
    other = with_columns(one, rank=np.minimum(other.rank, one.candidates), entity_popularity=np.full(80, 0.5))
    lineup = line_up({"one": one, "other": other})
    plane = decision_map(lineup, GRID_ALPHAS, GRID_BETAS, replicates=10)
    np.testing.assert_allclose(
        plane.errors,
        looped_errors(lineup, "triple", GRID_ALPHAS, GRID_BETAS),
        rtol=1e-9,
        atol=1e-15,
    )


def test_errors_are_those_of_a_bootstrap_of_triples() -> None:
    lineup = random_lineup(2, triples=300, seed=1)
    plane = decision_map(lineup, [0.5], [0.4], replicates=10)
    codes = lineup.clusters("triple").codes
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(codes == c) for c in range(codes.max() + 1)]
    runs = [lineup.runs[model][0] for model in lineup.models]
    weight = np.array(
        (runs[0].numbers("entity_popularity") + 0.001) ** -0.4 * (runs[0].numbers("relation_popularity") + 0.1) ** -0.4
    )
    scores = [(run.rank**-0.5 - run.candidates**-0.5) / (1 - run.candidates**-0.5) for run in runs]
    differences = []
    for _ in range(1500):
        rows = np.concatenate([members[c] for c in rng.integers(0, len(members), len(members))])
        differences.append(np.average(scores[0][rows] - scores[1][rows], weights=weight[rows]))
    assert np.std(differences) == pytest.approx(plane.errors[0, 1, 0, 0], rel=0.08)


def test_few_or_many_alphas_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lineup = random_lineup(3, runs=2, same_candidates=False)
    whole = decision_map(lineup, GRID_ALPHAS, GRID_BETAS, replicates=50)
    monkeypatch.setattr(influence, "_TABLE", 1)
    single = decision_map(lineup, GRID_ALPHAS, GRID_BETAS, replicates=50)
    np.testing.assert_allclose(single.errors, whole.errors, rtol=1e-12)
    assert single.settings.width == pytest.approx(whole.settings.width, rel=1e-6)


def test_width_grows_with_models_and_points_and_falls_with_the_level() -> None:
    lineup = random_lineup(4, triples=400)
    pair = random_lineup(2, triples=400)

    def width(models: object, alphas: list[float], betas: list[float], level: float = 0.95) -> float:
        influences = Influences(models, models.clusters("triple"), popular=True)  # type: ignore[arg-type, attr-defined]
        return band_width(influences, np.array(alphas), np.array(betas), level=level, replicates=2000, seed=0)

    point = width(pair, [0.5], [0.2])
    assert point == pytest.approx(1.96, abs=0.15)
    plane = width(pair, [-1.0, 1.0], [0.0, 0.8])
    assert point < plane < width(lineup, [-1.0, 1.0], [0.0, 0.8])
    assert width(pair, [-1.0, 1.0], [0.0, 0.8], 0.5) < plane


def test_groups_of_clusters_keep_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    lineup = random_lineup(3, triples=2000)
    influences = Influences(lineup, lineup.clusters("triple"), popular=True)
    grid = np.array([-1.0, 1.0]), np.array([0.0, 0.8])
    whole = band_width(influences, *grid, level=0.95, replicates=2000, seed=0)
    monkeypatch.setattr(bands_module, "_ROWS", 500)
    assert band_width(influences, *grid, level=0.95, replicates=2000, seed=0) == pytest.approx(whole, rel=0.05)


def test_neighbours_are_not_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters that cancel in pairs would leave nothing to vary."""
    monkeypatch.setattr(bands_module, "_ROWS", 50)
    lineup = line_up({"turns": ranked(100, [1, 1, 9, 9] * 50), "even": ranked(100, [4] * 200)})
    influences = Influences(lineup, Clusters(np.arange(200) // 2, 100), popular=False)
    assert band_width(influences, np.array([1.0]), np.array([0.0]), level=0.95, replicates=500, seed=0) > 1.5


def test_what_never_varies_does_not_widen_the_band() -> None:
    constant = {"one": ranked(20, [1] * 40), "three": ranked(20, [3] * 40)}
    varying = {"some": ranked(20, np.random.default_rng(0).integers(1, 50, 40))}
    plane = decision_map(line_up(constant | varying), [1.0], [0.0], replicates=500)
    assert 1.5 < plane.settings.width < 5


@pytest.mark.slow
def test_the_band_holds_for_all_pairs_and_points_at_once() -> None:
    """Models that are equally good: some lead is called beyond noise in about 5 % of all draws, not more."""
    false_alarms = 0
    draws = 120
    for seed in range(draws):
        lineup = random_lineup(3, triples=150, seed=seed)
        plane = decision_map(lineup, [1.0, 0.0, -1.0], [0.0, 0.4], replicates=200, seed=seed)
        false_alarms += bool(plane.beats.any())
    assert stats.binomtest(false_alarms, draws, 0.05).pvalue > 1e-3


def test_seed_variance_by_hand() -> None:
    between = SeedVariance(std=np.array([[[0.3]], [[np.nan]], [[0.1]]]), runs=np.array([3, 1, 2]))
    assert between.variance.ravel() == pytest.approx([0.03, 0.0, 0.005])
    total = np.full((3, 3, 1, 1), 0.06)
    freedom = between.freedom(total)
    assert freedom[0, 0, 0, 0] == pytest.approx(0.06**2 / (2 * 0.03**2 / 2))
    fewest = pytest.approx(0.06**2 / (0.03**2 / 1 + 0.005**2 / 1))
    assert freedom[0, 2, 0, 0] == freedom[2, 0, 0, 0] == fewest
    assert freedom[1, 1, 0, 0] == np.inf


def test_random_seeds_add_their_variance() -> None:
    lineup = random_lineup(2, runs=3)
    fixed = decision_map(lineup, GRID_ALPHAS, GRID_BETAS, seeds="fixed", replicates=100)
    random = decision_map(lineup, GRID_ALPHAS, GRID_BETAS, seeds="random", replicates=100)
    added = np.square(random.errors[0, 1]) - np.square(fixed.errors[0, 1])
    np.testing.assert_allclose(added, np.square(random.std).sum(axis=0) / 3, rtol=1e-9)
    assert (random.bands[0, 1] / random.errors[0, 1] > fixed.bands[0, 1] / fixed.errors[0, 1]).all()
    default = decision_map(lineup, GRID_ALPHAS, GRID_BETAS, replicates=100)
    np.testing.assert_array_equal(default.bands, random.bands)
    assert decision_map(random_lineup(2), [1.0], [0.0], replicates=100).settings.seeds == "fixed"


@pytest.mark.parametrize("freedom", [1.0, 2.0, 7.5, 100.0])
def test_a_width_means_the_same_probability_under_t(freedom: float) -> None:
    wide = widened(2.5, np.array([freedom])).item()
    assert stats.t(freedom).sf(wide) == pytest.approx(stats.norm.sf(2.5), rel=1e-9)
    assert widened(50.0, np.array([np.inf])).item() == 50.0


def test_differences_of_copies_have_no_variance() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(50, 3))
    table[:, 2] = table[:, 0]
    covariance = (table.T @ table)[None, None]
    covariance[0, 0, 0, 2] = covariance[0, 0, 2, 0] = covariance[0, 0, 0, 0] * (1 + 1e-15)
    variance = variances_of_differences(covariance)[:, :, 0, 0]
    assert variance[0, 2] == variance[1, 1] == 0
    assert variance[0, 1] == pytest.approx(np.square(table[:, 0] - table[:, 1]).sum())


def test_one_cluster_says_nothing() -> None:
    lineup = random_lineup(2, triples=1)
    influences = Influences(lineup, lineup.clusters("triple"), popular=False)
    assert np.isnan(covariances(influences, np.array([1.0]), np.array([0.0]))).all()
    assert not decision_map(lineup, [1.0], [0.0], replicates=10).beats.any()
