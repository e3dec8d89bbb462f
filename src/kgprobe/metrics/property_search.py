"""Test the six properties by search for counterexamples in a fixed pool of rank tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Ints
from kgprobe.errors import UsageError
from kgprobe.metrics.catalogue import METRICS, parse_all
from kgprobe.metrics.metric import Metric
from kgprobe.metrics.six_properties import (
    RARE,
    Evidence,
    Observation,
    Property,
    PropertyResult,
    Query,
    Table,
    measure,
    same,
)

# Usual values first: where any member can serve as a witness, it is one that people would use.
_NUMBERS = (0.5, 1.0, 2.0, 0.0, -0.5, -1.0)
_WHOLE_NUMBERS = (1, 3, 10, 30)


@dataclass(frozen=True)
class MetricFamily:
    """A metric and the metrics that differ from it in one parameter.

    Attributes:
        metric: The metric itself.
        by_parameter: For each parameter, the metric with each value of it; the metric itself comes first.
        members: All of them once, the metric itself first.

    Example:
        >>> from kgprobe.metrics import parse
        >>> [str(member) for member in MetricFamily.of(parse("Hits@5")).members]
        ['Hits@5', 'Hits@1', 'Hits@3', 'Hits@10', 'Hits@30']
    """

    metric: Metric
    by_parameter: dict[str, dict[float, Metric]]
    members: tuple[Metric, ...]

    @classmethod
    def of(cls, metric: Metric) -> MetricFamily:
        by_parameter: dict[str, dict[float, Metric]] = {}
        members = {metric: None}
        for key, present in metric.parameters.items():
            values = _WHOLE_NUMBERS if is_whole(metric, key) else _NUMBERS
            found = {} if present is None else {present: metric}
            found |= {value: member for value in values if value != present and (member := changed(metric, key, value))}
            by_parameter[key] = found
            members |= dict.fromkeys(found.values())
        return cls(metric, by_parameter, tuple(members))


def changed(metric: Metric, key: str, value: Any) -> Metric | None:
    """The metric with another value of a parameter; None where the value is invalid."""
    try:
        return type(metric)(**(metric.parameters | {key: value}))
    except (UsageError, ValueError):
        return None


def is_whole(metric: Metric, key: str) -> bool:
    """Whether a parameter takes whole numbers only, as the k of Hits@k does."""
    return metric.cutoff and key == fields(metric)[0].name  # type: ignore[arg-type]


TablePair = tuple[Table, Table]

SIZES = (2, 3, 5, 10, 11, 100, 1000)
"""Numbers of candidates that are combined with each other; random cases lie between and beyond them."""

_RANDOM_CASES = 100
_LARGEST = 5000

_LARGEST_TOGETHER = 50
"""For queries that share a table: small, so that a change of one score is not lost in the rounding of the other."""


@dataclass(frozen=True)
class Pool:
    """The rank tables of the search, and the pairs of tables to compare.

    Attributes:
        tables: Every table once.
        pairs: For each property but sharpness, the positions of two tables. The first must have the value of the second
            for a fixed optimum or pessimum, and a lower value for the other properties.
        literal: The additional pairs for the literal sentence on candidate-size awareness.
        inside: Tables of one query with 1 < r < E, for sharpness.
        ends: Tables of one query with r = 1 or r = E, which the literal sentence includes.
    """

    tables: tuple[Table, ...]
    pairs: dict[Property, Ints]
    literal: Ints
    inside: Ints
    ends: Ints


@cache
def pool() -> Pool:
    """All tables of the search."""
    random = np.random.default_rng(0)
    places: dict[Table, int] = {}

    def find(tables: Iterable[Table]) -> list[int]:
        return [places.setdefault(table, len(places)) for table in tables]

    def find_pairs(pairs: Iterable[TablePair]) -> Ints:
        return np.array([find(pair) for pair in pairs])

    pairs = {
        Property.fixed_optimum: find_pairs(_everywhere(lambda size: 1, random)),
        Property.fixed_pessimum: find_pairs(_everywhere(lambda size: size, random)),
        Property.anti_monotone: find_pairs(_worse_and_better(random)),
        Property.candidate_size: find_pairs(_fewer_and_more(random)),
        Property.popularity: find_pairs(_rarer_and_more_popular(random)),
    }
    literal = find_pairs(pairwise((Query(1, size),) for size in SIZES))
    # Whole ranks come before halves here and below: they make simpler counterexamples.
    inside = find((Query(r, size),) for ranks in (_whole, _with_halves) for size in SIZES for r in ranks(size)[1:-1])
    ends = find((Query(rank, size),) for size in SIZES for rank in (1, size))
    return Pool(tuple(places), pairs, literal, np.array(inside), np.array(ends))


def _whole(size: int) -> list[float]:
    """Selected ranks, from the worst to the best: the ends, their neighbours, the middle."""
    selected = {size, size - 1, size // 2, 3, 2, 1}
    return sorted((rank for rank in selected if 1 <= rank <= size), reverse=True)


def _with_halves(size: int) -> list[float]:
    """The same ranks, with mean ranks of ties between them."""
    whole = _whole(size)
    return sorted({*whole, *(rank + 0.5 for rank in whole if rank < size)}, reverse=True)


def _everywhere(place: Callable[[int], int], random: np.random.Generator) -> Iterator[TablePair]:
    """Tables that should all have the same value, as pairs of neighbours."""

    def table(sizes: Iterable[int]) -> Table:
        return tuple(Query(place(size), size) for size in sizes)

    def random_table() -> Table:
        sizes = random.integers(2, _LARGEST, size=random.integers(2, 6)).tolist()
        first, *rest = table(sizes)
        deltas = random.uniform(RARE, 1, size=(len(rest), 2)).round(2)
        return (first, *(Query(q.rank, q.candidates, *d) for q, d in zip(rest, deltas.tolist(), strict=True)))

    alone = [table([size]) for size in SIZES]
    together = [table(sizes) for sizes in combinations(SIZES, 2)]
    return pairwise([*alone, *together, *(random_table() for _ in range(_RANDOM_CASES))])


def _worse_and_better(random: np.random.Generator) -> Iterator[TablePair]:
    """A target at a worse and at a better rank of the same candidates, alone and beside targets that are first."""
    for ranks, size in product((_whole, _with_halves), SIZES):
        yield from pairwise((Query(rank, size),) for rank in ranks(size))
    for ranks, others, size in product((_whole, _with_halves), (1, 2), (3, 11)):
        yield from pairwise((*(Query(1, 10),) * others, Query(rank, size)) for rank in ranks(size))
    for _ in range(_RANDOM_CASES):
        size = int(random.integers(2, _LARGEST))
        better, worse = sorted(random.choice(np.arange(2, 2 * size + 1), 2, replace=False).tolist())
        yield (Query(worse / 2, size),), (Query(better / 2, size),)


def _fewer_and_more(random: np.random.Generator) -> Iterator[TablePair]:
    """The same rank among fewer and among more candidates, alone and beside the other set, whose target is first."""
    for rank in (2, 3, 5, 10, 100, 1.5, 2.5):
        yield from pairwise((Query(rank, size),) for size in SIZES if size >= rank)
    for rank, few, many in _random_sizes(_LARGEST, random):
        yield (Query(rank, few),), (Query(rank, many),)
    simple = (
        (rank, few, many)
        for ranks in (_whole, _with_halves)
        for few, many in combinations(SIZES, 2)
        for rank in ranks(few)[:-1]
    )
    for rank, few, many in (*simple, *_random_sizes(_LARGEST_TOGETHER, random)):
        yield (Query(rank, few), Query(1, many)), (Query(1, few), Query(rank, many))


def _random_sizes(largest: int, random: np.random.Generator) -> Iterator[tuple[float, int, int]]:
    """Ranks that two numbers of candidates have in common."""
    for _ in range(_RANDOM_CASES):
        few, many = sorted(random.choice(np.arange(2, largest), 2, replace=False).tolist())
        yield int(random.integers(3, 2 * few + 1)) / 2, few, many


def _rarer_and_more_popular(random: np.random.Generator) -> Iterator[TablePair]:
    """Two tables with the same two ranks; in the second, the better target is more popular relative to the worse."""
    ranks = [(1, 100, 50, 100), (1, 10, 10, 10), (2, 11, 3, 11), (1, 10, 100, 1000)]
    for _ in range(_RANDOM_CASES // 10):
        few, many = sorted(random.integers(3, _LARGEST, size=2).tolist())
        better, worse = sorted(random.choice(np.arange(1, few + 1), 2, replace=False).tolist())
        ranks.append((better, few, worse, many))
    popularities = [(0.4, RARE), (RARE, 0.4), (0.7, 0.9)]
    for (better, few, worse, many), popularity in product(ranks, popularities):
        plain = Query(better, few), Query(worse, many)
        yield plain, (Query(better, few, *popularity), plain[1])
        yield (plain[0], Query(worse, many, *popularity)), plain


_FIXED = (Property.fixed_optimum, Property.fixed_pessimum)


def check_properties(metrics: Iterable[str | Metric] | None = None) -> list[PropertyResult]:
    """Test metrics for the paper's six properties by search for a counterexample.

    A verdict comes from values of the metric on a fixed pool of small rank tables: "holds" means that no
    counterexample is among them. Values that agree to 12 digits count as equal.

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
    return [result for metric in chosen for result in _Search(MetricFamily.of(metric)).results()]


class _Search:
    """The values of a family on the pool, and the verdicts."""

    def __init__(self, family: MetricFamily) -> None:
        self.family, self.metric, self.pool = family, family.metric, pool()
        self.values = measure(family.members, self.pool.tables)
        self.row = {member: i for i, member in enumerate(family.members)}

    def results(self) -> Iterator[PropertyResult]:
        for about in Property:
            if about is Property.sharpness:
                yield self._sharpness()
            elif about is Property.popularity:
                yield self._popularity()
            else:
                yield self._for_all(about)

    def _for_all(self, about: Property) -> PropertyResult:
        """A property that must hold for every pair of tables."""
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

    def _broken(self, about: Property, pairs: Ints) -> NDArray[np.bool_]:
        """Which member [row] violates the property on which pair [column]; an undefined value violates it."""
        first, second = self.values[:, pairs.T].swapaxes(0, 1)
        return ~same(first, second) if about in _FIXED else same(first, second) | ~(first < second)

    def _first(self, pairs: Ints, chosen: NDArray[np.bool_], member: int = 0) -> Evidence | None:
        """The first of the chosen pairs, as evidence about a member of the family."""
        if not chosen.any():
            return None
        # Prefer a pair with two finite values.
        defined = chosen & np.isfinite(self.values[member, pairs]).all(axis=1)
        pair = pairs[(defined if defined.any() else chosen).argmax()]
        return Evidence.of(self.metric, *(self._observe(member, place) for place in pair))

    def _observe(self, member: int, place: int) -> Observation:
        return Observation(self.family.members[member], self.pool.tables[place], float(self.values[member, place]))

    def _sharpness(self) -> PropertyResult:
        """One parameter is enough, so the property fails only where each of them has a counterexample."""
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

    def _unsharp(self, key: str, members: dict[float, Metric], places: Ints) -> Evidence | None:
        """A rank that has the same score for two values of a parameter."""
        for defined in (True, False):
            for first, second in combinations([self.row[member] for member in members.values()], 2):
                here, there = self.values[first, places], self.values[second, places]
                equal = same(here, there) & (np.isfinite(here) | (not defined))
                if equal.any():
                    place = places[equal.argmax()]
                    return Evidence.of(self.metric, self._observe(first, place), self._observe(second, place))
        return None if is_whole(self.metric, key) else self._turning(key, members, places)

    def _turning(self, key: str, members: dict[float, Metric], places: Ints) -> Evidence | None:
        """Find two values of a parameter with the same score, where the score rises and falls along it."""
        from scipy.optimize import brentq  # slow to import, and seldom needed

        at = sorted(value for value in members if math.isfinite(value))
        values = self.values[[[self.row[members[value]]] for value in at], places]
        steps = np.diff(values, axis=0)
        turns = steps[:-1] * steps[1:] < 0
        if not turns.any():
            return None
        column = int(turns.any(axis=0).argmax())
        turn = int(turns[:, column].argmax())
        # The score of the neighbour that is closer to the turning point occurs again on the way to the other one.
        near, far = (turn, turn + 2) if abs(steps[turn, column]) < abs(steps[turn + 1, column]) else (turn + 2, turn)
        table, target = self.pool.tables[places[column]], float(values[near, column])
        again = brentq(lambda value: self._value(key, value, table) - target, at[turn + 1], at[far], xtol=1e-15)
        member, value = changed(self.metric, key, again), self._value(key, again, table)
        if member is None or not same(np.array(value), np.array(target)):
            return None  # the score jumps over that value
        return Evidence.of(
            self.metric, Observation(members[at[near]], table, target), Observation(member, table, value)
        )

    def _value(self, key: str, value: float, table: Table) -> float:
        member = changed(self.metric, key, value)
        return np.nan if member is None else float(measure([member], [table])[0, 0])

    def _popularity(self) -> PropertyResult:
        """One member of the family and one pair are enough."""
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
