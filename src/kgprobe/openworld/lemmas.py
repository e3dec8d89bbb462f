"""The paper's equation and Lemma 1: derivatives of the expected score by the strength of the model and by alpha."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.arrays import Floats
from kgprobe.openworld.expected_scores import Hidden, Removed, Unlearned, blocks, chance_level, expected
from kgprobe.transform import Transformer


def paper_derivative(
    transformer: Transformer,
    answers: ArrayLike,
    candidates: ArrayLike,
    rate: ArrayLike,
    strength: ArrayLike,
    at_zero: float = 0.0,
) -> Floats:
    """The paper's ``E[g(R)] / (l gamma (N + 1))`` with g(r) = r f(r) and R binomial(N + 1, l gamma).

    R may be 0, which is no rank: the equation is the derivative of an expected metric only if g(0) is taken as 0. R is
    not a predicted rank either: it is a size-biased number of learned missing answers plus one.

    Args:
        transformer: The f of the metric.
        answers: N, the number of true answers of each query besides the target.
        candidates: The number of candidates of each query.
        rate: gamma, the missing rate, above 0.
        strength: l, the strength of the model, above 0.
        at_zero: g(0).

    Example:
        >>> from kgprobe.transform import Power
        >>> right, wrong = (paper_derivative(Power(1.0), 28, 5976, 0.25, 0.3, at_zero=g).item() for g in (0.0, 1.0))
        >>> round(right, 4), round(wrong - right, 4)
        (0.4118, 0.0479)
    """
    arrays = np.broadcast_arrays(answers, candidates, rate, strength)
    count, size, missing, share = (column.ravel().astype(np.float64) for column in arrays)
    derivative = np.empty_like(count)
    trials = Removed(count + 1, missing)
    for rows, r in blocks(*trials.window(share)):
        some = Removed(trials.count[rows], missing[rows])
        score = transformer(np.clip(r, 1.0, size[rows, None]), np.broadcast_to(size[rows, None], r.shape))
        g = np.where(r == 0, at_zero, r * score)
        mean = (some.probability(r, share[rows]) * g).sum(axis=1)
        derivative[rows] = mean / (share[rows] * missing[rows] * some.count)
    return derivative.reshape(arrays[0].shape)


_SMALL = 0.02  # below this, four terms of the series are exact to machine precision, and the closed form is not


def sign_term(alpha: ArrayLike, rank: ArrayLike, candidates: ArrayLike) -> Floats:
    """``F(r) = (r^alpha - 1) ln E + (1 - E^alpha) ln r``, whose sign is that of the derivative of f* by alpha.

    It is 0 for r = 1, r = E and alpha = 0, negative between 1 and E, and positive beyond E.

    Example:
        >>> sign_term(1.0, np.array([1.0, 2.0, 4.0, 8.0]), 4.0).round(4).tolist()
        [0.0, -0.6931, 0.0, 3.4657]
    """
    power, a, b = np.asarray(alpha, dtype=np.float64), np.log(rank), np.log(candidates)
    return np.asarray(np.expm1(power * a) * b - np.expm1(power * b) * a)


def paper_alpha_derivative(alpha: ArrayLike, rank: ArrayLike, candidates: ArrayLike) -> Floats:
    """The derivative of f*(r) by alpha as in the paper, ``(E / r)^alpha F(r)``, divided by ``(E^alpha - 1)^2``.

    The paper omits the positive divisor. It is 0 at alpha = 0, and the quotient is inaccurate near it.

    Example:
        >>> paper_alpha_derivative(1.0, 2.0, 4.0).round(6).item()
        -0.154033
    """
    power, a, b = np.asarray(alpha, dtype=np.float64), np.log(rank), np.log(candidates)
    return np.asarray(np.exp(power * (b - a)) * sign_term(alpha, rank, candidates) / np.square(np.expm1(power * b)))


def alpha_derivative(alpha: ArrayLike, rank: ArrayLike, candidates: ArrayLike) -> Floats:
    """The derivative of f*(r) by alpha, accurate for all alpha including 0.

    As 1 - f* is (1 - r^-alpha) / (1 - E^-alpha), the derivative is (1 - f*) (h(alpha ln E) - h(alpha ln r)) / alpha
    with h(x) = x / (e^x - 1). Since h is decreasing, the derivative is negative for 1 < r < E.

    Example:
        >>> alpha_derivative(np.array([0.0, 1.0]), 2.0, 4.0).round(6).tolist()
        [-0.173287, -0.154033]
    """
    power, a, b = np.broadcast_arrays(np.asarray(alpha, dtype=np.float64), np.log(rank), np.log(candidates))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(power == 0, a / b, np.expm1(-power * a) / np.expm1(-power * b))
    return np.asarray(share * (b * _log_derivative(power * b) - a * _log_derivative(power * a)))


def normalised_derivative(
    transformer: Transformer, hidden: Hidden, candidates: ArrayLike, strength: ArrayLike, unlearned: Unlearned
) -> Floats:
    """The derivative divided by that of the closed world, f(1) minus the chance level: the share of a gain that shows.

    It is the same for any affine rescaling of a transformer, such as r^-alpha and f*.

    Example:
        >>> from kgprobe.transform import AffinePower
        >>> hidden = Removed(np.array(28.0), np.array(0.25))
        >>> [round(normalised_derivative(AffinePower(a), hidden, 5976, 0.9, Unlearned.anywhere).item(), 3)
        ...  for a in (-1.0, -0.5, 0.0, 0.5, 1.0)]
        [0.998, 0.967, 0.748, 0.369, 0.152]
    """
    size = np.asarray(candidates, dtype=np.float64)
    best = transformer(np.ones_like(size), size)
    derivative = expected(transformer, hidden, size, strength, unlearned).derivative
    return np.asarray(derivative / (best - chance_level(transformer, size)))


def _log_derivative(x: Floats) -> Floats:
    """(h(x) - 1) / x = 1 / (e^x - 1) - 1 / x: the derivative of ln((1 - e^-x) / x)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        direct = 1 / np.expm1(x) - 1 / x
    series = -1 / 2 + x / 12 - x**3 / 720 + x**5 / 30240
    return np.where(np.abs(x) < _SMALL, series, direct)
