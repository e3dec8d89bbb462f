"""Claims about the equations: the slope of an expected metric, and the derivative of the transformer by alpha."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kgprobe.openworld.theory.claims.claim import EXACT, ROUNDING, Claim, Place, judged
from kgprobe.openworld.theory.claims.settings import RATES, STRENGTHS, Settings
from kgprobe.openworld.theory.equation import paper_slope
from kgprobe.openworld.theory.expected import Unlearned, expected, expected_where_candidates_vary
from kgprobe.openworld.theory.lemma import alpha_derivative, paper_alpha_derivative, sign_term
from kgprobe.transform import AffinePower, Hits, Identity, InverseLog, Log, Power, Transformer

Floats = NDArray[np.float64]

TRANSFORMERS: tuple[Transformer, ...] = (
    *map(Power, (2.0, 1.0, 0.5, -0.5)),
    *map(AffinePower, (2.0, 1.0, 0.5, 0.0, -0.5, -1.0)),
    *map(Hits, (1, 3, 10)),
    InverseLog(),
    Log(),
    Identity(),
)
_SIZES = np.array([2.0, 14.0, 135.0, 1000.0, 6004.0, 40943.0])[:, None]
_ALPHAS = np.linspace(-5, 5, 201)
_RANKS = np.maximum(np.rint(_SIZES ** np.linspace(0, 1, 41)[:, None, None]), 1.0)
"""From 1 to each size, evenly by their logarithm: [ranks, sizes, 1]."""


def central_difference(function: Callable[[Floats], Floats], at: Floats, step: float = 1e-3) -> Floats:
    """The derivative of a function of one variable, to the eighth order of the step.

    Example:
        >>> central_difference(np.exp, np.array([0.0])).round(10).tolist()
        [1.0]
    """
    weights = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
    parts = [w * (function(at + i * step) - function(at - i * step)) for i, w in enumerate(weights, start=1)]
    return np.asarray(np.sum(parts, axis=0) / step)


def slope_equation() -> list[Claim]:
    """Whether the paper's equation is the derivative of what is expected, for every kind of transformer."""
    settings = Settings.grid((100, 6004), (0.001, 0.005, 0.09), (0.05, 0.25, 0.5), (0.1, 0.3, 0.6, 0.9))
    size = settings.candidates
    queries = settings.others, size, settings.rate, settings.strength
    off, scale = [], []
    for f in TRANSFORMERS:
        off.append(
            np.abs(paper_slope(f, *queries) - central_difference(partial(_value, f, settings), settings.strength))
        )
        scale.append(np.maximum(np.abs(f(size, size)), 1.0))
    mrr = Power(1.0)
    counted = np.abs(paper_slope(mrr, *queries, at_zero=1.0) - paper_slope(mrr, *queries))
    equation = "Eq. cor4.1 is the slope of the expected metric"
    return [
        judged(
            f"{equation}, g(0) being 0",
            np.array(off) / np.array(scale),
            EXACT,
            lambda place: f"{TRANSFORMERS[place[0]]}, {settings.text(place[1])}",
        ),
        judged(f"{equation}, g(0) being 1 as g is for MRR", counted, EXACT, lambda place: settings.text(place[0])),
    ]


def _value(transformer: Transformer, settings: Settings, strength: Floats) -> Floats:
    return expected(transformer, settings.hidden, settings.candidates, strength, Unlearned.nothing).value


def signs() -> list[Claim]:
    """Whether F has the sign that the lemma needs, and is what it is said to be."""
    a, b = np.log(_RANKS), np.log(_SIZES)
    found = sign_term(_ALPHAS, _RANKS, _SIZES)
    rounding = ROUNDING * np.maximum(np.abs(np.expm1(_ALPHAS * a) * b) + np.abs(np.expm1(_ALPHAS * b) * a), 1.0)
    zero = (_RANKS == 1) | (_RANKS == _SIZES) | (np.abs(_ALPHAS) < ROUNDING)
    beyond = _SIZES + _RANKS
    # Near alpha 0 the printed quotient is 0 over 0, and only its limit can be compared.
    far = np.abs(_ALPHAS) > 0.04
    printed = paper_alpha_derivative(_ALPHAS[far], _RANKS, _SIZES)
    at_zero = alpha_derivative(0.0, _RANKS, _SIZES)
    return [
        judged(
            "d f*/d alpha is (E/r)^alpha F(r) / (E^alpha - 1)^2",
            np.abs(printed - alpha_derivative(_ALPHAS[far], _RANKS, _SIZES)),
            EXACT,
            partial(_place, _RANKS, _ALPHAS[far]),
        ),
        judged("F(r) <= 0 for 1 <= r <= E and every alpha", found, rounding, partial(_place, _RANKS, _ALPHAS)),
        judged(
            "F(r) = 0 for r = 1, r = E and alpha = 0 alone",
            np.where(zero, np.abs(found), found),
            np.where(zero, rounding, -rounding),
            partial(_place, _RANKS, _ALPHAS),
        ),
        judged("F(r) <= 0 for r > E", sign_term(_ALPHAS, beyond, _SIZES), ROUNDING, partial(_place, beyond, _ALPHAS)),
        judged(
            "d f*/d alpha at alpha = 0 is -(ln r / 2) (1 - ln r / ln E)",
            np.abs(at_zero + a / 2 * (1 - a / b)),
            EXACT,
            partial(_place, _RANKS, np.zeros(1)),
        ),
    ]


def _place(ranks: Floats, alphas: Floats, place: Place) -> str:
    rank, size = ranks[place[0], place[1], 0], _SIZES[place[1], 0]
    return f"r={rank:.0f}, E={size:.0f}, alpha={alphas[place[2]]:g}"


def fixed_candidates() -> Claim:
    """Whether it matters that the number of candidates varies with the number of missing answers."""
    settings = Settings.grid((100, 1000), (0.01, 0.05, 0.09), RATES, STRENGTHS)
    false = settings.candidates - settings.others
    mean = np.rint(false + 1 + settings.others * settings.rate)
    alphas = (-1.0, 0.0, 1.0)
    gaps = []
    for f in map(AffinePower, alphas):
        varying = expected_where_candidates_vary(f, settings.others, false, settings.rate, settings.strength)
        gaps.append(np.abs(varying.slope - expected(f, settings.hidden, mean, settings.strength).slope))
    return judged(
        "A mean number of candidates for a varying one moves no slope by 0.001",
        np.array(gaps),
        1e-3,
        lambda place: f"{settings.text(place[1])}, alpha={alphas[place[0]]:g}",
    )
