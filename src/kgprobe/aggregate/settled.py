"""Popularity weights settled for a whole table, so that its batches can be weighed one by one.

Kept apart by popularity, sums need memory for every distinct pair of values: as much as the graph has (entity,
relation) pairs. One look at the whole table first makes epsilon and the scale of the weights known, and a sum needs
a single number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate.weights import Columns, Floats, Weighting
from kgprobe.ranks import RankFile, Ranks


@dataclass(frozen=True)
class Extremes:
    """The smallest, the smallest positive and the largest value of a column, as far as there are any."""

    values: frozenset[float] = frozenset()

    def joined(self, column: Floats) -> Extremes:
        """The extremes of this column and of all before.

        Example:
            >>> sorted(Extremes().joined(np.array([0.5, 0.0, 0.7])).joined(np.array([0.2])).values)
            [0.0, 0.2, 0.7]
        """
        seen = np.concatenate([column, np.array(sorted(self.values))])
        if seen.size == 0:
            return self
        positive = seen[seen > 0]
        return Extremes(
            frozenset([float(seen.min()), float(seen.max()), *([float(positive.min())] if positive.size else [])])
        )


@dataclass(frozen=True)
class SettledWeight:
    """A weighting that gives every batch of one table weights on the same scale.

    It weighs the batch together with a few reference rows that hold the extremes of the table in every combination:
    they fix epsilon, and the heaviest of them outweighs every query, so the scale is always relative to it.

    Attributes:
        weighting: What is settled.
        reference: The reference rows.
        needs_alternatives: Whether queries with a single candidate were left out.

    Example:
        >>> from kgprobe.aggregate.weights import PopularityWeight
        >>> reference = {"entity_popularity": np.array([0.1, 0.4])}
        >>> settled = SettledWeight(PopularityWeight(1.0, 0.0), reference)
        >>> settled({"entity_popularity": np.array([0.3])}).round(12).tolist()
        [0.5]
    """

    weighting: Weighting
    reference: Columns = field(compare=False)
    needs_alternatives: bool = False

    def __call__(self, columns: Columns) -> Floats:
        """The weights of some rows."""
        joined = {name: np.concatenate([self.reference[name], columns[name]]) for name in self.weighting.columns}
        rows = len(next(iter(joined.values())))
        added = len(next(iter(columns.values())))
        return self.weighting.weights(joined, np.ones(rows))[rows - added :]


def settle(
    source: Ranks | RankFile, wanted: Iterable[tuple[Weighting, bool]], read: Callable[[Ranks, str], Floats]
) -> list[SettledWeight]:
    """Settle weightings, each with or without the queries that have a single candidate, in one pass over the table."""
    asked = list(wanted)
    found = {(weighting.columns, alone): dict.fromkeys(weighting.columns, Extremes()) for weighting, alone in asked}
    for batch in source.batches() if asked else ():
        several = batch.candidates > 1
        for (_, needs_alternatives), extremes in found.items():
            counted: NDArray[np.bool_] | slice = several if needs_alternatives else slice(None)
            extremes.update({column: old.joined(read(batch, column)[counted]) for column, old in extremes.items()})
    return [SettledWeight(weighting, _corners(found[weighting.columns, alone]), alone) for weighting, alone in asked]


def _corners(extremes: dict[str, Extremes]) -> Columns:
    corners = np.array(list(itertools.product(*(sorted(found.values) for found in extremes.values()))))
    return dict(zip(extremes, corners.reshape(-1, len(extremes)).T, strict=True))
