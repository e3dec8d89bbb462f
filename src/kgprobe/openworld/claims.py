"""`check_claims`: the paper's claims about the open world, each tested numerically on a grid of settings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.openworld.expected_scores import Removed, Unlearned, chance_level, expected, expected_where_candidates_vary
from kgprobe.openworld.lemmas import alpha_derivative, paper_alpha_derivative, paper_derivative, sign_term
from kgprobe.transform import AffinePower, Identity, InverseLog, Log, Power, TopK, Transformer

Place = tuple[int, ...]  # index of a setting in an array

EXACT = 1e-8
ROUNDING = 1e-12


@dataclass(frozen=True)
class Claim:
    """The result of testing a claim.

    Attributes:
        claim: The claim.
        holds: "yes", "no", or "in its model" if it holds only while unlearned answers score nothing.
        settings: Number of settings tested.
        violations: Number of settings that contradict the claim.
        worst: The setting with the largest violation, or the smallest margin.
    """

    claim: str
    holds: str
    settings: int
    violations: int
    worst: str

    def to_row(self) -> dict[str, Any]:
        return {name.replace("worst", "worst case"): value for name, value in asdict(self).items()}


def judged(claim: str, measure: Floats, limit: Floats | float, where: Callable[[Place], str]) -> Claim:
    """Test a claim that a measure is nowhere above a limit.

    Args:
        claim: The claim.
        measure: One number for each setting, in an array of any shape.
        limit: The limit of each setting, or of all.
        where: Describes the setting at an index of the array.

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
    """Settings of the theory: other true answers, candidates, missing rate and model strength of each.

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
        """All combinations; the numbers of other true answers are given as shares of the candidates."""
        rows = itertools.product(sizes, shares, rates, strengths)
        return cls(*np.array([(np.ceil(share * size), size, rate, strength) for size, share, rate, strength in rows]).T)

    def __len__(self) -> int:
        return len(self.others)

    @property
    def hidden(self) -> Removed:
        return Removed(self.others, self.rate)

    def text(self, row: int) -> str:
        n, size, rate, strength = (column[row] for column in (self.others, self.candidates, self.rate, self.strength))
        return f"N={n:.0f}, E={size:.0f}, gamma={rate:g}, l={strength:g}"


# In FEW_ANSWERS true answers are fewer than 10 % of the candidates, as the paper assumes.
FEW_ANSWERS = ClaimGrid.grid((100, 1000, 14541), (0.01, 0.03, 0.06, 0.09), RATES, STRENGTHS)
MANY_ANSWERS = ClaimGrid.grid((14, 104, 135), (0.2, 0.3, 0.4), RATES, STRENGTHS)


@cache
def derivatives(settings: ClaimGrid, transformer: Transformer, unlearned: Unlearned) -> Floats:
    """The derivative of the expected score by the strength in each setting; cached, since several claims need it."""
    return expected(transformer, settings.hidden, settings.candidates, settings.strength, unlearned).derivative


def shown(settings: ClaimGrid, transformer: Transformer, unlearned: Unlearned) -> Floats:
    """The derivative in each setting divided by that of the closed world; see `normalised_derivative`."""
    closed = transformer.optimum - chance_level(transformer, settings.candidates)
    return derivatives(settings, transformer, unlearned) / closed


TRANSFORMERS: tuple[Transformer, ...] = (
    *map(Power, (2.0, 1.0, 0.5, -0.5)),
    *map(AffinePower, (2.0, 1.0, 0.5, 0.0, -0.5, -1.0)),
    *map(TopK, (1, 3, 10)),
    InverseLog(),
    Log(),
    Identity(),
)

_SIZES = np.array([2.0, 14.0, 135.0, 1000.0, 6004.0, 40943.0])[:, None]
_ALPHAS = np.linspace(-5, 5, 201)
# Ranks from 1 to each size, evenly spaced in their logarithm: [ranks, sizes, 1].
_RANKS = np.maximum(np.rint(_SIZES ** np.linspace(0, 1, 41)[:, None, None]), 1.0)


def central_difference(function: Callable[[Floats], Floats], at: Floats, step: float = 1e-3) -> Floats:
    """The derivative of a function of one variable by an eighth-order central difference.

    Example:
        >>> central_difference(np.exp, np.array([0.0])).round(10).tolist()
        [1.0]
    """
    weights = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
    parts = [w * (function(at + i * step) - function(at - i * step)) for i, w in enumerate(weights, start=1)]
    return np.asarray(np.sum(parts, axis=0) / step)


def derivative_equation() -> list[Claim]:
    """Is the paper's equation the derivative of the expected metric, for every kind of transformer?"""
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
    equation = "Eq. cor4.1 is the derivative of the expected metric"
    return [
        judged(
            f"{equation} if g(0) = 0",
            np.array(off) / np.array(scale),
            EXACT,
            lambda place: f"{TRANSFORMERS[place[0]]}, {settings.text(place[1])}",
        ),
        judged(f"{equation} if g(0) = 1, as g is for MRR", counted, EXACT, lambda place: settings.text(place[0])),
    ]


def _value(transformer: Transformer, settings: ClaimGrid, strength: Floats) -> Floats:
    return expected(transformer, settings.hidden, settings.candidates, strength, Unlearned.nothing).value


def signs() -> list[Claim]:
    """Does F have the sign that the lemma needs, and does it give the derivative of f* by alpha?"""
    a, b = np.log(_RANKS), np.log(_SIZES)
    found = sign_term(_ALPHAS, _RANKS, _SIZES)
    rounding = ROUNDING * np.maximum(np.abs(np.expm1(_ALPHAS * a) * b) + np.abs(np.expm1(_ALPHAS * b) * a), 1.0)
    zero = (_RANKS == 1) | (_RANKS == _SIZES) | (np.abs(_ALPHAS) < ROUNDING)
    beyond = _SIZES + _RANKS
    # Near alpha = 0 the printed quotient is 0 / 0, so only its limit can be compared.
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
            "F(r) = 0 only for r = 1, r = E and alpha = 0",
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
    """Does it matter that the number of candidates varies with the number of missing answers?"""
    settings = ClaimGrid.grid((100, 1000), (0.01, 0.05, 0.09), RATES, STRENGTHS)
    false = settings.candidates - settings.others
    mean = np.rint(false + 1 + settings.others * settings.rate)
    alphas = (-1.0, 0.0, 1.0)
    gaps = []
    for f in map(AffinePower, alphas):
        varying = expected_where_candidates_vary(f, settings.others, false, settings.rate, settings.strength)
        gaps.append(np.abs(varying.derivative - expected(f, settings.hidden, mean, settings.strength).derivative))
    return judged(
        "Replacing a varying number of candidates by its mean changes no derivative by 0.001",
        np.array(gaps),
        1e-3,
        lambda place: f"{settings.text(place[1])}, alpha={alphas[place[0]]:g}",
    )


Measure = Callable[[ClaimGrid, Transformer, Unlearned], Floats]

_USUAL, _SHARP, _ALL = np.linspace(-3, 1, 17), np.linspace(1, 6, 21), np.linspace(-3, 3, 25)


def lemma() -> list[Claim]:
    """Lemma 1, for each definition of the score of an unlearned answer."""
    name = "Lemma 1: the derivative decreases with alpha"
    paper, *others = (_decreases(name, derivatives, _ALL, unlearned) for unlearned in Unlearned)
    inside = paper.holds == "yes" and any(other.holds == "no" for other in others)
    return [replace(paper, holds="in its model") if inside else paper, *others]


def better_models() -> list[Claim]:
    """Does a better model have a better expected score, also if there are many true answers?"""
    grids = (FEW_ANSWERS, MANY_ANSWERS)
    names = [grid.text(row) for grid in grids for row in range(len(grid))]
    return [
        judged(
            f"A better model has no lower expected score (unlearned: {unlearned})",
            -np.stack(
                [np.concatenate([derivatives(grid, AffinePower(float(a)), unlearned) for grid in grids]) for a in _ALL]
            ),
            ROUNDING,
            lambda place: f"{names[place[1]]}, alpha={_ALL[place[0]]:g}",
        )
        for unlearned in Unlearned
    ]


def over_closed() -> list[Claim]:
    """What holds instead of the lemma."""
    name = "The derivative divided by the closed-world derivative"
    claims = [
        _decreases(f"{name} decreases with alpha in [{alphas[0]:g}, {alphas[-1]:g}]", shown, alphas, reading)
        for reading in (Unlearned.anywhere, Unlearned.below)
        for alphas in (_USUAL, _SHARP)
    ]
    raw = [float(alpha) for alpha in _USUAL if alpha != 0]  # r^0 is 1 for all ranks
    gaps = [
        np.abs(shown(FEW_ANSWERS, Power(a), Unlearned.below) - shown(FEW_ANSWERS, AffinePower(a), Unlearned.below))
        for a in raw
    ]
    same = judged(
        f"{name} is equal for r^-alpha and f*: rescaling has no effect",
        np.stack(gaps),
        EXACT,
        lambda place: f"{FEW_ANSWERS.text(place[1])}, alpha={raw[place[0]]:g}",
    )
    return [*claims, same]


def _decreases(claim: str, measure: Measure, alphas: Floats, unlearned: Unlearned) -> Claim:
    """Test that a measure decreases with alpha in every setting; any increase is a violation."""
    values = np.stack([measure(FEW_ANSWERS, AffinePower(float(alpha)), unlearned) for alpha in alphas])
    rises = np.diff(values, axis=0)
    step = rises.argmax(axis=0)

    def where(place: Place) -> str:
        i = step[place[0]]
        return f"{FEW_ANSWERS.text(place[0])}, alpha {alphas[i]:g} to {alphas[i + 1]:g}"

    return judged(f"{claim} (unlearned: {unlearned})", rises.max(axis=0), ROUNDING, where)


def check_claims() -> list[Claim]:
    """Test every claim.

    Example:
        >>> sorted({claim.holds for claim in check_claims()})
        ['in its model', 'no', 'yes']
    """
    return [*derivative_equation(), *signs(), fixed_candidates(), *lemma(), *better_models(), *over_closed()]
