"""Claims about slopes: Lemma 1, whether better models expect more, and the slope over that of the closed world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kgprobe.openworld.theory.claims.claim import EXACT, ROUNDING, Claim, Place, judged
from kgprobe.openworld.theory.claims.settings import FEW_ANSWERS, MANY_ANSWERS, Settings, shown, slopes
from kgprobe.openworld.theory.expected import Unlearned
from kgprobe.transform import AffinePower, Power, Transformer

Floats = NDArray[np.float64]
Measure = Callable[[Settings, Transformer, Unlearned], Floats]

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
