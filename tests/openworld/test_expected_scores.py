import math

import numpy as np
import pytest
from scipy import stats

from kgprobe.openworld import expected_scores as blocks_module
from kgprobe.openworld.expected_scores import (
    Hidden,
    Removed,
    Unknown,
    Unlearned,
    chance_level,
    expected,
    expected_closed,
    expected_where_candidates_vary,
)
from kgprobe.transform import AffinePower, Identity, InverseLog, Log, Power, TopK, Transformer

KINDS: list[Transformer] = [
    *map(Power, (2.0, 1.0, 0.33, -0.5, -1.0)),
    *map(AffinePower, (3.0, 1.0, 0.5, 0.0, -0.5, -1.0, -2.0, math.inf, -math.inf)),
    *map(TopK, (1, 3, 10)),
    InverseLog(),
    Log(),
    Identity(),
]

SETTINGS = np.array(
    [
        (n, size, rate, strength)
        for n, size in ((1, 12), (9, 100), (28, 5976), (60, 135))
        for rate in (0.05, 0.25, 0.95)
        for strength in (0.1, 0.5, 0.9)
    ]
).T


def _score(f: Transformer, rank: int, size: int) -> float:
    return float(f(np.array([float(rank)]), np.array([float(size)]))[0])


def _by_hand(f: Transformer, n: int, size: int, rate: float, strength: float, unlearned: str) -> float:
    """The definition, term by term."""
    scores = [_score(f, rank, size) for rank in range(1, size + 1)]
    total = 0.0
    for k in range(n + 1):
        p = math.comb(n, k) * (strength * rate) ** k * (1 - strength * rate) ** (n - k)
        other = {"nothing": 0.0, "anywhere": np.mean(scores), "below": np.mean(scores[k:])}[unlearned]
        total += p * (strength * np.mean(scores[: k + 1]) + (1 - strength) * other)
    return total


@pytest.mark.parametrize("unlearned", Unlearned)
@pytest.mark.parametrize("f", KINDS, ids=str)
def test_the_value_is_the_sum_over_all_numbers_of_learned_missing_answers(f: Transformer, unlearned: Unlearned) -> None:
    for n, size, rate, strength in [(0, 5, 0.5, 0.5), (3, 4, 0.3, 1.0), (7, 30, 0.9, 0.2), (12, 13, 0.4, 0.8)]:
        hidden = Removed(np.array([float(n)]), np.array([rate]))
        found = expected(f, hidden, [size], strength, unlearned).value
        assert found == pytest.approx([_by_hand(f, n, size, rate, strength, unlearned)], rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("f", KINDS, ids=str)
@pytest.mark.parametrize("kind", [Removed, Unknown])
def test_the_slope_is_the_derivative_of_the_value(f: Transformer, kind: type[Removed | Unknown]) -> None:
    n, size, rate, strength = SETTINGS
    assert SETTINGS.shape[1] * len(KINDS) * len(Unlearned) >= 200
    hidden = kind(n, np.minimum(rate, 0.6))
    steps = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])  # the central difference of the eighth order
    h = 1e-3 * np.arange(1, 5)
    at = strength + np.concatenate([h, -h])[:, None]
    scale = np.maximum(np.abs(f(size, size)), 1.0)
    for unlearned in Unlearned:
        ahead, behind = np.split(expected(f, hidden, size, at, unlearned).value, 2)
        difference = steps @ (ahead - behind) / 1e-3
        derivative = expected(f, hidden, size, strength, unlearned).derivative
        assert (np.abs(derivative - difference) < 1e-8 * scale).all()


def _sampled(
    f: Transformer, n: int, false: int, rate: float, strength: float, unlearned: str, draws: int, seed: int
) -> np.ndarray:
    """The model itself: who is missing, who is learned, and one order of all candidates by random scores."""
    rng = np.random.default_rng(seed)
    missing = rng.random((draws, n)) < rate
    learned = rng.random((draws, n)) < strength
    mine = rng.random(draws) < strength
    other_scores = np.where(learned, 1.0, 0.0) + rng.random((draws, n))
    false_scores = rng.random((draws, false))
    my_score = np.where(mine, 1.0, 0.0) + rng.random(draws)
    above = ((other_scores > my_score[:, None]) & missing).sum(axis=1) + (false_scores > my_score[:, None]).sum(axis=1)
    size = (1 + false + missing.sum(axis=1)).astype(np.float64)
    anywhere = rng.integers(1, size.astype(np.int64) + 1)
    rank = np.where(mine, above + 1, anywhere if unlearned == "anywhere" else above + 1).astype(np.float64)
    scores = f(rank, size)
    return np.where(mine, scores, 0.0) if unlearned == "nothing" else scores


@pytest.mark.parametrize("unlearned", Unlearned)
@pytest.mark.parametrize("f", [Power(1.0), AffinePower(0.0), AffinePower(-1.0), TopK(3), InverseLog()], ids=str)
def test_sampled_models_score_as_expected(f: Transformer, unlearned: Unlearned) -> None:
    for seed, (n, false, rate, strength) in enumerate([(12, 40, 0.4, 0.7), (3, 5, 0.8, 0.3)]):
        scores = _sampled(f, n, false, rate, strength, unlearned, 40_000, seed)
        error = scores.std() / math.sqrt(len(scores))
        found = expected_where_candidates_vary(f, n, false, rate, strength, unlearned).value
        assert abs(scores.mean() - float(found)) < 4 * error


@pytest.mark.parametrize("unlearned", Unlearned)
def test_where_candidates_vary_each_number_of_missing_answers_has_its_own(unlearned: Unlearned) -> None:
    f, n, false, rate, strength = AffinePower(0.5), 6, 9, 0.3, 0.8
    found = expected_where_candidates_vary(f, n, [false, false], rate, strength, unlearned)
    value = derivative = 0.0
    for m in range(n + 1):
        p = math.comb(n, m) * rate**m * (1 - rate) ** (n - m)
        given = expected(f, Removed(np.array([float(m)]), np.ones(1)), [false + 1 + m], strength, unlearned)
        value, derivative = value + p * given.value[0], derivative + p * given.derivative[0]
    assert found.value == pytest.approx([value] * 2, rel=1e-12)
    assert found.derivative == pytest.approx([derivative] * 2, rel=1e-12)


def test_a_number_of_candidates_that_varies_hardly_matters_where_answers_are_few() -> None:
    n, size, rate, strength = np.array([27.0, 59.0]), np.array([6004.0, 135.0]), 0.25, 0.9
    for alpha in (-1.0, 0.0, 1.0):
        f = AffinePower(alpha)
        varying = expected_where_candidates_vary(f, n, size - n - 1, rate, strength).derivative
        fixed = expected(f, Removed(n, np.full(2, rate)), np.rint(size - n + rate * n), strength).derivative
        assert abs(varying - fixed)[0] < 1e-5
        assert abs(varying - fixed)[1] < 1e-3


def test_a_better_model_expects_no_less_whatever_falls_with_the_rank() -> None:
    n, size, rate, strength = SETTINGS
    for f in KINDS:
        sign = -1.0 if isinstance(f, Identity | Log) or f in (Power(-0.5), Power(-1.0)) else 1.0
        assert (sign * expected(f, Removed(n, rate), size, strength).derivative > -1e-12).all(), f


def test_the_mean_rank_shows_every_improvement_whole() -> None:
    n, size, rate, strength = SETTINGS
    found = expected_where_candidates_vary(Identity(), n, size - n, rate, strength)
    assert found.derivative == pytest.approx((n - size) / 2, rel=1e-11)


@pytest.mark.parametrize("f", KINDS, ids=str)
def test_without_missing_answers_the_open_world_is_the_closed_one(f: Transformer) -> None:
    size = np.array([2.0, 50.0, 1000.0])
    for unlearned in Unlearned:
        found = expected(f, Removed(np.array([4.0, 4.0, 0.0]), np.array([0.0, 0.0, 0.5])), size, 0.7, unlearned)
        closed = expected_closed(f, chance_level(f, size), 0.7, unlearned)
        assert found.value == pytest.approx(closed.value, rel=1e-12)
        assert found.derivative == pytest.approx(closed.derivative, rel=1e-12)


def test_a_hundred_thousand_answers_are_no_harder() -> None:
    n, size, rate, strength = 100_000, 2_000_000, 0.25, 0.9
    found = expected(
        AffinePower(1.0), Removed(np.array([n * 1.0]), np.array([rate])), [size], strength, Unlearned.nothing
    )
    # E[1 / (1 + K)] of a binomial K has a closed form.
    p = rate * strength
    inverse = -math.expm1((n + 1) * math.log1p(-p)) / ((n + 1) * p)
    assert found.derivative == pytest.approx([(inverse - 1 / size) / (1 - 1 / size)], rel=1e-10)


def test_more_missing_answers_than_candidates_leave_the_target_last() -> None:
    found = expected(AffinePower(1.0), Removed(np.array([50.0]), np.ones(1)), [5.0], 1.0)
    assert found.value == pytest.approx([np.mean([_score(AffinePower(1.0), min(r, 5), 5) for r in range(1, 52)])])
    assert found.derivative == pytest.approx([0.0])


def test_everything_broadcasts_and_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = Unknown(np.array([1.0, 7.0, 40.0])[:, None], np.array([0.1, 0.5]))
    whole = expected(AffinePower(0.0), hidden, 100.0, 0.9)
    assert whole.value.shape == whole.derivative.shape == (3, 2)
    monkeypatch.setattr(blocks_module, "_CELLS", 50)
    pieces = expected(AffinePower(0.0), hidden, 100.0, 0.9)
    assert pieces.value == pytest.approx(whole.value, rel=1e-14)
    assert pieces.derivative == pytest.approx(whole.derivative, rel=1e-14)
    single = expected(AffinePower(0.0), Unknown(np.array(7.0), np.array(0.5)), 100.0, 0.9)
    assert whole.value[1, 1] == pytest.approx(float(single.value), rel=1e-14)


CASES = [(Removed, 20, 0.4, 0.7), (Removed, 3, 0.9, 0.2), (Unknown, 4, 0.3, 0.6), (Unknown, 1, 0.8, 0.9)]


def _joint(kind: type[Hidden], count: int, rate: float, share: float, most: int) -> np.ndarray:
    """P(K = k, M = m), from the distribution of all missing answers and a draw of each that is learned."""
    m = np.arange(most + 1)
    every = stats.binom.pmf(m, count, rate) if kind is Removed else stats.nbinom.pmf(m, count, 1 - rate)
    return stats.binom.pmf(np.arange(most + 1)[:, None], m, share) * every


@pytest.mark.parametrize(("kind", "count", "rate", "share"), CASES)
def test_a_share_of_the_missing_answers_is_learned(kind: type[Hidden], count: int, rate: float, share: float) -> None:
    most = 400
    joint = _joint(kind, count, rate, share, most)
    k = np.arange(most + 1.0)
    hidden, at = kind(np.array([float(count)]), np.array([rate])), np.array([share])
    assert hidden.probability(k[None], at)[0] == pytest.approx(joint.sum(axis=1), rel=1e-9, abs=1e-15)
    assert hidden.mean(at) == pytest.approx([joint.sum(axis=1) @ k], rel=1e-9)
    left = (joint * (k - k[:, None])).sum(axis=1)
    likely = joint.sum(axis=1) > 1e-9
    given = left[likely] / joint.sum(axis=1)[likely]
    assert hidden.unlearned(k[None], at)[0][likely] == pytest.approx(given, rel=1e-6, abs=1e-9)


def test_unknown_answers_follow_from_bayes_rule() -> None:
    """Any number of other answers is as likely before; each is kept or not; what is left is seen."""
    known, rate = 5, 0.3
    others = np.arange(known - 1, 400)
    posterior = stats.binom.pmf(known - 1, others, 1 - rate)
    posterior /= posterior.sum()
    missing = others - (known - 1)
    hidden = Unknown(np.array([float(known)]), np.array([rate]))
    assert hidden.probability(missing[None].astype(float), np.ones(1))[0] == pytest.approx(posterior, abs=1e-12)
    assert known + hidden.mean(np.ones(1))[0] == pytest.approx(known / (1 - rate))


@pytest.mark.parametrize("kind", [Removed, Unknown])
@pytest.mark.parametrize("share", [0.01, 0.9, 1.0])
def test_nothing_worth_the_name_is_outside_the_window(kind: type[Hidden], share: float) -> None:
    count, rate = (grid.ravel() for grid in np.meshgrid([0.0, 1.0, 30.0, 1e3, 1e5], [0.0, 0.01, 0.5, 0.97]))
    if kind is Unknown:
        count = np.maximum(count, 1.0)
    hidden = kind(count, rate)
    first, width = hidden.window(np.full_like(count, share))
    p, odds = share * rate, share * rate / (1 - rate)
    law = stats.binom(count, p) if kind is Removed else stats.nbinom(count, 1 / (1 + odds))
    assert (law.cdf(first - 1) + law.sf(first + width - 1)).max() < 1e-15
    assert (width <= np.maximum(count + 1, 2) if kind is Removed else width < 1e7).all()
