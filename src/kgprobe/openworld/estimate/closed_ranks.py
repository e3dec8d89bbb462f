"""The closed ranks behind open ones: how many missing answers stand before a target, and how many false ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from kgprobe.openworld.estimate.answers import HeldOut
from kgprobe.openworld.estimate.missing import MissingCounts
from kgprobe.openworld.estimate.selection import Selection

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PLACES, _NODES = 6, 4
"""Places of an answer among those of its query that have a law of their own, and points at which each is evaluated."""
_WHOLE_MISSING, _MISSING_STEP = 24, 1.15
_WHOLE_FALSE, _FALSE_STEP = 24, 1.25
"""Up to here numbers of missing and of false answers are kept apart, then they are taken together in growing steps."""
_NEGLIGIBLE = 1e-6
_BORROWED = 1.0
"""So many answers' worth of the law of all places goes into the law of each."""
_DISCOUNT = 0.6
"""So many answers in a class may be there by chance; without the discount, a law with one sharp peak leaks from it."""
_FEWEST = 1e-9
_STEPS = 100
"""Steps of expectation and maximisation."""
_CELLS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class ClosedRanks:
    """All that may lie behind the open ranks of a table, and how likely it is before the ranks are looked at.

    A target at open rank r has r - 1 candidates before it. j of them are missing answers, and the others are false. The
    answers of a query are in random order: which of them are held out, and which are missing, is independent of where
    they stand (or depends on it as `Selection` says). So if the target stands at place u among the answers, u has a
    beta law given the held-out answers before it, and j is a binomial share of the missing ones. The number of false
    answers before the target may depend on u in any way, but not on how many answers the query has, and that law is
    estimated from all rows by expectation and maximisation.

    Rows that have everything in common are one cell. Entries are the numbers j, and places, that a cell may have.

    Attributes:
        rank: The open rank of each row.
        cell: The cell of each row.
        starts: The first entry of each cell.
        missing: For each entry, the number of missing answers before the target.
        place: For each entry, the part of the places.
        likely: For each entry, its probability before the rank is looked at.
        outcome: For each entry, number of the pair of place and class of false answers.
        width: How many numbers of false answers a class holds.
        weight: For each place, what a known answer there stands for.
    """

    rank: Floats
    cell: Ints
    starts: Ints
    missing: Floats
    place: Ints
    likely: Floats
    outcome: Ints
    width: Floats
    weight: Floats

    @classmethod
    def of(cls, answers: HeldOut, counts: MissingCounts, selection: Selection) -> ClosedRanks:
        """Lay out what is possible for each row."""
        nodes = (np.arange(_PLACES * _NODES) + 0.5) / (_PLACES * _NODES)
        half_rank = np.round(2 * answers.ranks.rank).astype(np.int64)
        _, first, which_known = np.unique(answers.known, return_index=True, return_inverse=True)
        pairs, which_pair = np.unique(np.stack([answers.above, answers.held_out]), axis=1, return_inverse=True)
        cells, cell = np.unique(
            np.stack([which_known.ravel(), which_pair.ravel(), half_rank]), axis=1, return_inverse=True
        )
        low, middle, size = _classes_of_missing(counts)
        before = _missing_before(
            counts.mean[first], counts.variance[first], middle, size, selection.missing_before(nodes)
        )
        places = _place_given_held_out(pairs[0], pairs[1], selection, nodes)
        return cls._of_cells(cells, cell.ravel(), before, places, low, middle, answers, selection.weight(nodes))

    @classmethod
    def _of_cells(
        cls,
        cells: Ints,
        cell: Ints,
        before: Floats,
        places: Floats,
        low: Floats,
        middle: Floats,
        answers: HeldOut,
        weight: Floats,
    ) -> ClosedRanks:
        first_false, width = _classes_of_false(float(answers.ranks.candidates.max()))
        parts = []
        for start in range(0, cells.shape[1], _CELLS_AT_ONCE):
            some = cells[:, start : start + _CELLS_AT_ONCE]
            joint = before[some[0]] * places[some[1]][:, None, :]
            likely = joint.reshape(*joint.shape[:2], _PLACES, _NODES).sum(axis=3)
            left = some[2][:, None] / 2 - 1
            likely *= (low <= left)[:, :, None]
            likely /= np.maximum(likely.sum(axis=(1, 2), keepdims=True), 1e-300)
            own, j, place = np.nonzero(likely > _NEGLIGIBLE)
            number = np.minimum(middle[j], np.floor(left[own, 0]))
            false = np.searchsorted(first_false, np.floor(left[own, 0] - number), side="right") - 1
            parts.append((own + start, number, place, likely[own, j, place], false * _PLACES + place))
        own, number, place, likely, outcome = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(
            rank=answers.ranks.rank,
            cell=cell,
            starts=np.searchsorted(own, np.arange(cells.shape[1])),
            missing=number,
            place=place,
            likely=likely,
            outcome=outcome,
            width=np.repeat(width, _PLACES).astype(float),
            weight=weight.reshape(_PLACES, _NODES).mean(axis=1),
        )

    @property
    def _entries(self) -> Ints:
        """How many entries each cell has."""
        return np.diff(self.starts, append=len(self.likely))

    def posterior(self, law: Floats) -> Floats:
        """The probability of every entry of a cell, once the rank is looked at."""
        joint = self.likely * (law / self.width)[self.outcome]
        total = np.add.reduceat(joint, self.starts)
        return np.asarray(joint / np.repeat(np.maximum(total, 1e-300), self._entries))

    def law(self, rows: Floats) -> Floats:
        """The law of outcomes, found by expectation and maximisation.

        Args:
            rows: The weight of each row; as many in all as there are rows.
        """
        cells = np.repeat(np.bincount(self.cell, weights=rows, minlength=len(self.starts)), self._entries)
        law = self._law(self.likely * cells)  # as if the rank said nothing about the missing answers before a target
        for _ in range(_STEPS):
            law = self._law(self.posterior(law) * cells)
        return law

    def _law(self, weight: Floats) -> Floats:
        """For each place the law of false answers, with a little of what all places have in common."""
        found = np.bincount(self.outcome, weights=weight, minlength=len(self.width)).reshape(-1, _PLACES)
        common = np.maximum(found.sum(axis=1, keepdims=True) - _DISCOUNT * _PLACES / 2, _FEWEST)
        found = np.maximum(found - _DISCOUNT, 0)
        law = (found + _BORROWED * common / common.sum()) / (found.sum(axis=0) + _BORROWED)
        return np.asarray(law.ravel())


def _classes_of_missing(counts: MissingCounts) -> tuple[Floats, Floats, Floats]:
    """Lowest, middle and size of the classes of numbers of missing answers."""
    most = float((counts.mean + 6 * np.sqrt(counts.variance) + 3).max(initial=0))
    low = _steps(_WHOLE_MISSING, _MISSING_STEP, most)
    size = np.diff(low, append=low[-1] + 1)
    return low, low + (size - 1) / 2, size


def _classes_of_false(candidates: float) -> tuple[Floats, Floats]:
    """Lowest and size of the classes of numbers of false answers."""
    low = _steps(_WHOLE_FALSE, _FALSE_STEP, candidates)
    return low, np.diff(low, append=low[-1] * _FALSE_STEP + 1)


def _steps(whole: int, factor: float, most: float) -> Floats:
    steps = list(range(whole))
    while steps[-1] < most:
        steps.append(int(np.ceil(steps[-1] * factor)))
    return np.array(steps, dtype=float)


def _missing_before(mean: Floats, variance: Floats, number: Floats, size: Floats, share: Floats) -> Floats:
    """The law of the number of missing answers before a target: [count, number, place].

    The missing answers of a query have a negative binomial law of this mean and variance, or a Poisson law where that
    is as narrow; a share of them is of the same kind.
    """
    mean = np.maximum(mean, _FEWEST)
    shape = (mean**2 / np.maximum(variance - mean, 1e-6 * mean))[:, None, None]
    ratio = mean[:, None, None] / shape * share
    j = number[None, :, None]
    log = (
        gammaln(shape + j) - gammaln(shape) - gammaln(j + 1) + j * np.log(ratio / (1 + ratio)) - shape * np.log1p(ratio)
    )
    law = np.exp(log) * size[None, :, None]
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def _place_given_held_out(above: Ints, held_out: Ints, selection: Selection, nodes: Floats) -> Floats:
    """The law of the place of a target with so many held-out answers before it, of so many in all: [pair, place]."""
    before, below = np.log(selection.known_before(nodes)), np.log1p(-selection.known_before(nodes))
    log = above[:, None] * before + (held_out - 1 - above)[:, None] * below - np.log(selection.weight(nodes))
    law = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(law / law.sum(axis=1, keepdims=True))
