"""The search: every metric is evaluated on the whole pool, and what contradicts a property is reported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kgprobe.metrics.base import Metric
from kgprobe.metrics.catalogue import METRICS, parse_all
from kgprobe.metrics.properties.definitions import Property
from kgprobe.metrics.properties.evidence import Evidence, Observation
from kgprobe.metrics.properties.family import Family, changed, is_whole
from kgprobe.metrics.properties.pool import Places, pool
from kgprobe.metrics.properties.result import PropertyResult
from kgprobe.metrics.properties.tables import Table, measure, same

_FIXED = (Property.fixed_optimum, Property.fixed_pessimum)


def check_properties(metrics: Iterable[str | Metric] | None = None) -> list[PropertyResult]:
    """Test metrics for the paper's six properties by search for a counterexample.

    A verdict comes from values of the metric on a fixed pool of small rank tables, never from its name: "holds" means
    that no counterexample is among them. Values that agree to 12 digits count as equal.

    Args:
        metrics: Names or metric values; by default every metric of the catalogue with its default parameters.

    Returns:
        Six results for each metric.

    Example:
        >>> optimum, pessimum, *_ = check_properties(["Hits@10"])
        >>> optimum.holds, pessimum.holds, pessimum.counterexample.text
        (True, False, 'rank 10 of 10 scores 1, rank 11 of 11 scores 0')
    """
    chosen = parse_all([metric() for metric in METRICS] if metrics is None else metrics)
    return [result for metric in chosen for result in _Search(Family.of(metric)).results()]


class _Search:
    """The values of a family on the pool, and what they say."""

    def __init__(self, family: Family) -> None:
        self.family, self.metric, self.pool = family, family.metric, pool()
        self.values = measure(family.members, self.pool.tables)
        self.row = {member: i for i, member in enumerate(family.members)}

    def results(self) -> Iterator[PropertyResult]:
        """One for each property, in order."""
        for about in Property:
            if about is Property.sharpness:
                yield self._sharpness()
            elif about is Property.popularity:
                yield self._popularity()
            else:
                yield self._for_all(about)

    def _for_all(self, about: Property) -> PropertyResult:
        """A property that every pair of tables must have."""
        pairs = self.pool.pairs[about]
        broken = self._broken(about, pairs)
        fails: NDArray[np.bool_] = np.asarray(broken.any(axis=1))
        counterexample = self._first(pairs, broken[0])
        literal = None
        if counterexample is None and about.literally:
            literal = self._first(self.pool.literal, self._broken(about, self.pool.literal)[0])
        together = np.array([len(self.pool.tables[place]) > 1 for place in pairs[:, 1]])
        lower, higher = self.values[0, pairs.T]
        return PropertyResult(
            self.metric,
            about,
            searched=len(pairs),
            counterexample=counterexample,
            literal=literal,
            exceptions=tuple(m for m, fail in zip(self.family.members, fails, strict=True) if fail != fails[0]),
            alone=bool(fails[0] and not broken[0, ~together].any()),
            reversed=about is Property.anti_monotone and bool((lower > higher).all()),
        )

    def _broken(self, about: Property, pairs: Places) -> NDArray[np.bool_]:
        """Which member [row] breaks the property on which pair [column]; what is undefined breaks it."""
        first, second = self.values[:, pairs.T].swapaxes(0, 1)
        return ~same(first, second) if about in _FIXED else same(first, second) | ~(first < second)

    def _first(self, pairs: Places, chosen: NDArray[np.bool_], member: int = 0) -> Evidence | None:
        """The first of the chosen pairs, as evidence about a member of the family."""
        if not chosen.any():
            return None
        # Two numbers say more than one that does not exist.
        defined = chosen & np.isfinite(self.values[member, pairs]).all(axis=1)
        pair = pairs[(defined if defined.any() else chosen).argmax()]
        return Evidence.of(self.metric, *(self._observe(member, place) for place in pair))

    def _observe(self, member: int, place: int) -> Observation:
        return Observation(self.family.members[member], self.pool.tables[place], float(self.values[member, place]))

    def _sharpness(self) -> PropertyResult:
        """One parameter is enough, so the property fails when each of them has a counterexample."""
        against: list[Evidence] = []
        searched = 0
        for key, members in self.family.by_parameter.items():
            searched += math.comb(len(members), 2) * len(self.pool.inside)
            found = self._unsharp(key, members, self.pool.inside)
            if found is None and len(members) > 1:
                literal = self._unsharp(key, members, self.pool.ends)
                return PropertyResult(self.metric, Property.sharpness, searched, literal=literal)
            against += [found] if found else []
        counterexample = Evidence.joined(against) if against else Evidence("there is no parameter to change")
        return PropertyResult(self.metric, Property.sharpness, searched, counterexample)

    def _unsharp(self, key: str, members: dict[float, Metric], places: Places) -> Evidence | None:
        """A rank that has the same score for two values of a parameter."""
        for defined in (True, False):
            for first, second in combinations([self.row[member] for member in members.values()], 2):
                here, there = self.values[first, places], self.values[second, places]
                equal = same(here, there) & (np.isfinite(here) | (not defined))
                if equal.any():
                    place = places[equal.argmax()]
                    return Evidence.of(self.metric, self._observe(first, place), self._observe(second, place))
        return None if is_whole(self.metric, key) else self._turning(key, members, places)

    def _turning(self, key: str, members: dict[float, Metric], places: Places) -> Evidence | None:
        """A score that rises and falls along a parameter takes some value twice: find where."""
        from scipy.optimize import brentq  # slow to import, and seldom needed

        at = sorted(value for value in members if math.isfinite(value))
        values = self.values[[[self.row[members[value]]] for value in at], places]
        steps = np.diff(values, axis=0)
        turns = steps[:-1] * steps[1:] < 0
        if not turns.any():
            return None
        column = int(turns.any(axis=0).argmax())
        turn = int(turns[:, column].argmax())
        # Of the neighbours of the turning point, the nearer one's score is met again on the way to the farther one.
        near, far = (turn, turn + 2) if abs(steps[turn, column]) < abs(steps[turn + 1, column]) else (turn + 2, turn)
        table, target = self.pool.tables[places[column]], float(values[near, column])
        again = brentq(lambda value: self._value(key, value, table) - target, at[turn + 1], at[far], xtol=1e-15)
        member, value = changed(self.metric, key, again), self._value(key, again, table)
        if member is None or not same(np.array(value), np.array(target)):
            return None  # it jumps over that score
        return Evidence.of(
            self.metric, Observation(members[at[near]], table, target), Observation(member, table, value)
        )

    def _value(self, key: str, value: float, table: Table) -> float:
        member = changed(self.metric, key, value)
        return np.nan if member is None else float(measure([member], [table])[0, 0])

    def _popularity(self) -> PropertyResult:
        """One member of the family and one pair is enough."""
        pairs = self.pool.pairs[Property.popularity]
        first, second = self.values[:, pairs.T].swapaxes(0, 1)
        moved = ~same(first, second)
        aware = np.flatnonzero(moved.any(axis=1))
        counterexample = witness = literal = None
        if aware.size == 0:
            counterexample = self._first(pairs, ~moved[0])
        else:
            witness = self._first(pairs, moved[aware[0]], aware[0])
            better = np.array([[1 if member.higher_is_better else -1] for member in self.family.members])
            astray = moved & ((second - first) * better < 0)
            wrong = np.flatnonzero(astray.any(axis=1))
            literal = self._first(pairs, astray[wrong[0]], wrong[0]) if wrong.size else None
        return PropertyResult(self.metric, Property.popularity, moved.size, counterexample, witness, literal)
