"""The paper's claims about the open world, each tested on a grid of settings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.openworld.expected_scores import Removed, Unlearned, chance_level, expected, expected_where_candidates_vary
from kgprobe.openworld.lemmas import alpha_derivative, paper_alpha_derivative, paper_derivative, sign_term
from kgprobe.transform import AffinePower, Hits, Identity, InverseLog, Log, Power, Transformer

Place = tuple[int, ...]

EXACT = 1e-8

ROUNDING = 1e-12


@dataclass(frozen=True)
class Claim:
    """What was found about a claim.

    Attributes:
        claim: The claim.
        holds: "yes", "no", or "in its model" where it fails once unlearned answers score as they do.
        settings: How many settings were tried.
        violations: How many of them contradict it.
        worst: The setting that contradicts it most, or comes closest to.
    """

    claim: str
    holds: str
    settings: int
    violations: int
    worst: str

    def to_row(self) -> dict[str, Any]:
        """The claim as a row of a table."""
        return {
            "claim": self.claim,
            "holds": self.holds,
            "settings": self.settings,
            "violations": self.violations,
            "worst case": self.worst,
        }


def judged(claim: str, measure: Floats, limit: Floats | float, where: Callable[[Place], str]) -> Claim:
    """A claim that a measure is nowhere above a limit.

    Args:
        claim: The claim.
        measure: One number for each setting, in an array of any shape.
        limit: The limit of each, or of all.
        where: What the setting at a place of the array is called.

    Example:
        >>> judged("small", np.array([0.5, 2.0]), 1.0, lambda place: f"number {place[0]}")
        Claim(claim='small', holds='no', settings=2, violations=1, worst='2 at number 1')
    """
    excess = measure - limit
    place = tuple(int(i) for i in np.unravel_index(np.argmax(excess), excess.shape))
    violations = int(np.count_nonzero(excess > 0))
    worst = f"{measure[place]:.3g} at {where(place)}"
    return Claim(claim, "no" if violations else "yes", measure.size, violations, worst)


RATES, STRENGTHS = (0.05, 0.25, 0.5, 0.9), (0.1, 0.3, 0.6, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class ClaimGrid:
    """Queries and models of the theory: other true answers, candidates, missing rate and strength of each.

    Example:
        >>> few = ClaimGrid.grid((100,), (0.02, 0.09), (0.25,), (0.5, 0.9))
        >>> len(few), few.text(3)
        (4, 'N=9, E=100, gamma=0.25, l=0.9')
    """

    others: Floats
    candidates: Floats
    rate: Floats
    strength: Floats

    @classmethod
    def grid(
        cls, sizes: Sequence[int], shares: Sequence[float], rates: Sequence[float], strengths: Sequence[float]
    ) -> ClaimGrid:
        """All combinations, with the other true answers as shares of the candidates."""
        rows = itertools.product(sizes, shares, rates, strengths)
        return cls(*np.array([(np.ceil(share * size), size, rate, strength) for size, share, rate, strength in rows]).T)

    def __len__(self) -> int:
        return len(self.others)

    @property
    def hidden(self) -> Removed:
        """The distribution of the missing answers."""
        return Removed(self.others, self.rate)

    def text(self, row: int) -> str:
        """One setting in words."""
        n, size, rate, strength = (column[row] for column in (self.others, self.candidates, self.rate, self.strength))
        return f"N={n:.0f}, E={size:.0f}, gamma={rate:g}, l={strength:g}"


# True answers are fewer than 10 % of the candidates, as the paper assumes.
FEW_ANSWERS = ClaimGrid.grid((100, 1000, 14541), (0.01, 0.03, 0.06, 0.09), RATES, STRENGTHS)

MANY_ANSWERS = ClaimGrid.grid((14, 104, 135), (0.2, 0.3, 0.4), RATES, STRENGTHS)


@cache
def slopes(settings: ClaimGrid, transformer: Transformer, unlearned: Unlearned) -> Floats:
    """The slope in each setting; several claims are about the same."""
    return expected(transformer, settings.hidden, settings.candidates, settings.strength, unlearned).slope


def shown(settings: ClaimGrid, transformer: Transformer, unlearned: Unlearned) -> Floats:
    """The slope in each setting over that of the closed world; see `normalised_slope`."""
    closed = transformer.optimum - chance_level(transformer, settings.candidates)
    return slopes(settings, transformer, unlearned) / closed


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
# From 1 to each size, evenly by their logarithm: [ranks, sizes, 1].
_RANKS = np.maximum(np.rint(_SIZES ** np.linspace(0, 1, 41)[:, None, None]), 1.0)


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
    settings = ClaimGrid.grid((100, 6004), (0.001, 0.005, 0.09), (0.05, 0.25, 0.5), (0.1, 0.3, 0.6, 0.9))
    size = settings.candidates
    queries = settings.others, size, settings.rate, settings.strength
    off, scale = [], []
    for f in TRANSFORMERS:
        off.append(
            np.abs(paper_derivative(f, *queries) - central_difference(partial(_value, f, settings), settings.strength))
        )
        scale.append(np.maximum(np.abs(f(size, size)), 1.0))
    mrr = Power(1.0)
    counted = np.abs(paper_derivative(mrr, *queries, at_zero=1.0) - paper_derivative(mrr, *queries))
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


def _value(transformer: Transformer, settings: ClaimGrid, strength: Floats) -> Floats:
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
    settings = ClaimGrid.grid((100, 1000), (0.01, 0.05, 0.09), RATES, STRENGTHS)
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


Measure = Callable[[ClaimGrid, Transformer, Unlearned], Floats]

_USUAL, _SHARP, _ALL = np.linspace(-3, 1, 17), np.linspace(1, 6, 21), np.linspace(-3, 3, 25)


def lemma() -> list[Claim]:
    """Lemma 1, under each reading of what an unlearned answer scores."""
    found = [_falls("Lemma 1: the slope falls with alpha", slopes, _ALL, unlearned) for unlearned in Unlearned]
    paper, *others = found
    inside = paper.holds == "yes" and any(other.holds == "no" for other in others)
    return [replace(paper, holds="in its model") if inside else paper, *others]


def better_models() -> list[Claim]:
    """Whether a better model expects a better score, also where true answers are many."""
    grids = (FEW_ANSWERS, MANY_ANSWERS)
    names = [grid.text(row) for grid in grids for row in range(len(grid))]
    return [
        judged(
            f"A better model expects no lower score (unlearned: {unlearned})",
            -np.stack(
                [np.concatenate([slopes(grid, AffinePower(float(a)), unlearned) for grid in grids]) for a in _ALL]
            ),
            ROUNDING,
            lambda place: f"{names[place[1]]}, alpha={_ALL[place[0]]:g}",
        )
        for unlearned in Unlearned
    ]


def over_closed() -> list[Claim]:
    """What holds in place of the lemma."""
    claims = [
        _falls(
            f"The slope over the closed one falls with alpha in [{alphas[0]:g}, {alphas[-1]:g}]",
            shown,
            alphas,
            reading,
        )
        for reading in (Unlearned.anywhere, Unlearned.below)
        for alphas in (_USUAL, _SHARP)
    ]
    raw = [float(alpha) for alpha in _USUAL if alpha != 0]  # r^0 is 1 for all ranks
    gaps = [
        np.abs(shown(FEW_ANSWERS, Power(a), Unlearned.below) - shown(FEW_ANSWERS, AffinePower(a), Unlearned.below))
        for a in raw
    ]
    same = judged(
        "The slope over the closed one is equal for r^-alpha and f*: rescaling shows no more",
        np.stack(gaps),
        EXACT,
        lambda place: f"{FEW_ANSWERS.text(place[1])}, alpha={raw[place[0]]:g}",
    )
    return [*claims, same]


def _falls(claim: str, measure: Measure, alphas: Floats, unlearned: Unlearned) -> Claim:
    """The claim that a measure falls with alpha in every setting; one in which it ever rises contradicts it."""
    values = np.stack([measure(FEW_ANSWERS, AffinePower(float(alpha)), unlearned) for alpha in alphas])
    rises = np.diff(values, axis=0)
    step = rises.argmax(axis=0)

    def where(place: Place) -> str:
        i = step[place[0]]
        return f"{FEW_ANSWERS.text(place[0])}, alpha {alphas[i]:g} to {alphas[i + 1]:g}"

    return judged(f"{claim} (unlearned: {unlearned})", rises.max(axis=0), ROUNDING, where)


def check_claims() -> list[Claim]:
    """Try every claim, now.

    Example:
        >>> sorted({claim.holds for claim in check_claims()})
        ['in its model', 'no', 'yes']
    """
    return [*slope_equation(), *signs(), fixed_candidates(), *lemma(), *better_models(), *over_closed()]
