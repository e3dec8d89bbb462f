"""Where two models are equal: closed forms, and differences that vanish at what is returned."""

import builtins

import numpy as np
import pytest
from scipy import optimize

import kgprobe as kp
from kgprobe.comparison import line_up
from kgprobe.decision import DecisionMap, decision_map
from kgprobe.decision.decisions import Crossing, reach
from kgprobe.decision.influence import curves, roots, samples
from planes import queries_of, random_lineup, ranked
from support import with_columns

CANDIDATES = 100


def sharp_and_even(triples: int = 50) -> dict[str, kp.Ranks]:
    """The first is right on one side and among the last on the other; the second is tenth on both."""
    return {"sharp": ranked(triples, [1, 90] * triples), "even": ranked(triples, [10, 10] * triples)}


def equal_alpha() -> float:
    """Where (1 + 90^-a) / 2 = 10^-a: at beta 0 the rescaling is the same for both and cancels."""
    return float(optimize.brentq(lambda a: (1 + 90**-a) / 2 - 10**-a, -1.0, -0.01))


@pytest.fixture(scope="module")
def random_map() -> DecisionMap:
    """Six random models, of which some pairs cross."""
    return decision_map(
        random_lineup(6, triples=30, seed=3), np.linspace(-1, 1, 21), np.linspace(0, 0.8, 17), replicates=20
    )


def test_a_planted_crossing_is_where_the_formula_says() -> None:
    plane = decision_map(line_up(sharp_and_even()), [1.0, 0.0, -1.0], [0.0], replicates=20)
    (found,) = plane.crossing_alphas("sharp", "even", 0.0)
    assert found == pytest.approx(equal_alpha(), abs=1e-9)
    assert plane.crossing_alphas("even", "sharp", 0.0) == pytest.approx([found], abs=1e-12)
    assert [plane.models[w] for w in plane.winner[:, 0]] == ["sharp", "sharp", "even"]


def test_a_planted_crossing_along_beta() -> None:
    """Right on the rare entity against right on the common one: equal where both weigh the same."""
    triples = 30
    columns = queries_of(triples) | {
        "entity_popularity": [0.001, 0.1] * triples,
        "relation_popularity": [0.5] * 2 * triples,
    }

    def model(rank: list[int]) -> kp.Ranks:
        return kp.Ranks.from_columns(rank=rank * triples, candidates=[CANDIDATES] * 2 * triples, **columns)

    lineup = line_up({"rare": model([5, 50]), "common": model([70, 2])})
    plane = decision_map(lineup, [0.0], [0.0, 2.0], replicates=20)
    gain, loss = np.log(70 / 5), np.log(50 / 2)
    # (0.002 / 0.101)^-beta * gain = loss
    expected = np.log(loss / gain) / np.log(0.101 / 0.002)
    assert plane.crossing_betas("rare", "common", 0.0) == pytest.approx([expected], abs=1e-9)


def test_exact_points_have_no_difference(random_map: DecisionMap) -> None:
    seen = 0
    for first in random_map.models:
        for second in random_map.models:
            for alpha in random_map.crossing_alphas(first, second, 0.3):
                values = [
                    kp.evaluate(random_map.lineup.runs[model][0], f"PROBE(alpha={float(alpha)!r},beta=0.3)").popitem()[
                        1
                    ]
                    for model in (first, second)
                ]
                assert values[0] - values[1] == pytest.approx(0, abs=1e-9)
                seen += 1
    assert seen > 0


def test_curves_follow_the_exact_points(random_map: DecisionMap) -> None:
    seen = 0
    for m, first in enumerate(random_map.models):
        for second in random_map.models[:m]:
            difference = random_map.scores[m] - random_map.scores[random_map.models.index(second)]
            lines = random_map.crossings(first, second)
            assert bool(lines) == bool((difference.min() < 0) & (difference.max() > 0))
            for line in lines:
                for alpha, beta in line[:: max(1, len(line) // 5)]:
                    values = [
                        kp.surface(random_map.lineup.runs[model][0], alpha, beta).item() for model in (first, second)
                    ]
                    assert values[0] - values[1] == pytest.approx(0, abs=5e-3 * np.ptp(difference))
                    seen += 1
    assert seen > 0


def test_curves_do_not_depend_on_the_order_of_the_axes() -> None:
    rng = np.random.default_rng(0)
    alphas, betas = np.linspace(-1, 1, 6), np.linspace(0, 1, 5)
    difference = alphas[:, None] + 0.3 * betas[None, :] + 0.01
    rows, columns = rng.permutation(6), rng.permutation(5)
    (one,), (other,) = (
        curves(alphas, betas, difference),
        curves(alphas[rows], betas[columns], difference[np.ix_(rows, columns)]),
    )
    np.testing.assert_allclose(one, other)
    np.testing.assert_allclose(one[:, 0] + 0.3 * one[:, 1] + 0.01, 0, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1)])
def test_a_line_of_points_has_no_curve(shape: tuple[int, int]) -> None:
    assert curves(np.arange(shape[0]), np.arange(shape[1]), np.ones(shape)) == []


def test_curves_need_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "contourpy":
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(kp.UsageError, match="curves need contourpy") as caught:
        curves(np.arange(2.0), np.arange(2.0), np.array([[1.0, 1.0], [-1.0, -1.0]]))
    assert caught.value.remedy == "pip install 'kgprobe[report]'"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x, [0.0]),  # a sample lies on the root
        (lambda x: (x - 1) * (x + 1), []),  # both ends are roots, and nothing changes between them
        (lambda x: x**2, []),  # touches without crossing
        (lambda x: np.zeros_like(x), []),
        (lambda x: x**3 - 0.25 * x, [-0.5, 0.0, 0.5]),
    ],
    ids=["sample", "ends", "touch", "zero", "three"],
)
def test_roots_are_changes_of_sign(function, expected: list[float]) -> None:
    assert roots(function, samples(-1.0, 1.0)) == pytest.approx(expected, abs=1e-9)


def test_unknown_models_are_named(random_map: DecisionMap) -> None:
    with pytest.raises(kp.UsageError, match="not in the map: who"):
        random_map.crossings("m0", "who")
    with pytest.raises(kp.UsageError, match="not in the map: who, what"):
        random_map.crossing_alphas("who", "what", 0.0)


def test_reach_ends_at_the_nearest_crossing() -> None:
    lineup = line_up(sharp_and_even())
    point = {"alpha": 0.5, "beta": 0.0}
    found = reach(lineup, "sharp", "alpha", point, (-1.0, 1.0), "mean")
    assert found.low == Crossing(pytest.approx(equal_alpha(), abs=1e-9), "even")  # type: ignore[arg-type]
    assert found.high is None
    assert str(found) == f"alpha {equal_alpha():.3g} to 1 (even below)"
    other = reach(lineup, "even", "alpha", {"alpha": -3.0, "beta": 0.0}, (-1.0, 1.0), "mean")
    assert other.limits == (-3.0, 1.0)
    assert other.low is None
    assert other.high == Crossing(pytest.approx(equal_alpha(), abs=1e-9), "sharp")  # type: ignore[arg-type]


def test_the_first_to_overtake_ends_the_reach() -> None:
    ranks = {"sharp": [1, 90], "less sharp": [2, 95], "even": [5, 5], "less even": [10, 10]}
    lineup = line_up({model: ranked(30, rank * 30) for model, rank in ranks.items()})
    down = reach(lineup, "sharp", "alpha", {"alpha": 1.0, "beta": 0.0}, (-1.0, 1.0), "mean")
    up = reach(lineup, "even", "alpha", {"alpha": -1.0, "beta": 0.0}, (-1.0, 1.0), "mean")
    expected = optimize.brentq(lambda a: (1 + 90**-a) / 2 - 5**-a, 0.01, 1.0)
    assert down.low == Crossing(pytest.approx(expected, abs=1e-9), "even")  # type: ignore[arg-type]
    assert up.high == Crossing(pytest.approx(expected, abs=1e-9), "sharp")  # type: ignore[arg-type]


@pytest.mark.parametrize("tie", ["optimistic", "pessimistic"])
def test_crossings_score_ties_as_the_map_does(tie: str) -> None:
    rng = np.random.default_rng(0)
    ties = rng.integers(0, 4, 100)
    tied = {
        name: with_columns(table, rank=np.minimum(table.rank + 2, 90), ties=ties)
        for name, table in sharp_and_even().items()
    }
    settled = {name: with_columns(table, rank=getattr(table, tie), ties=np.zeros(100)) for name, table in tied.items()}
    asked = decision_map(line_up(tied), [1.0, -1.0], [0.0], tie=tie, replicates=20)
    plain = decision_map(line_up(settled), [1.0, -1.0], [0.0], replicates=20)
    np.testing.assert_allclose(asked.errors, plain.errors, rtol=1e-12)
    found = asked.crossing_alphas("sharp", "even", 0.0)
    assert len(found) == 1
    assert found == pytest.approx(plain.crossing_alphas("sharp", "even", 0.0), abs=1e-12)


def test_reach_is_where_the_winner_stays_the_winner(random_map: DecisionMap) -> None:
    lineup = random_map.lineup
    for alpha, beta in [(1.0, 0.0), (0.0, 0.4), (-1.0, 0.8)]:
        point = {"alpha": alpha, "beta": beta}
        winner = lineup.models[int(np.argmax([kp.surface(r[0], alpha, beta).item() for r in lineup.runs.values()]))]
        for axis, limits in (("alpha", (-1.0, 1.0)), ("beta", (0.0, 0.8))):
            found = reach(lineup, winner, axis, point, limits, "mean")
            line = np.linspace(*limits, 200)
            grid = (line, [beta]) if axis == "alpha" else ([alpha], line)
            best = np.array(lineup.models)[
                np.argmax([np.ravel(kp.surface(runs[0], *grid)) for runs in lineup.runs.values()], axis=0)
            ]
            low, high = found.low.at if found.low else -np.inf, found.high.at if found.high else np.inf
            assert (best[(line > low) & (line < high)] == winner).all()
            for end, beyond in ((found.low, line < low), (found.high, line > high)):
                if end is not None and beyond.any():
                    assert end.model == best[beyond][-1 if end is found.low else 0]
