import numpy as np
import pytest
from scipy import stats

from kgprobe.openworld.theory import Hidden, Removed, Unknown

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
