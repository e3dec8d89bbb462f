"""The pool that is searched: pairs of tables for each property, the simplest first, the same in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
from numpy.typing import NDArray

from kgprobe.metrics.properties.definitions import Property
from kgprobe.metrics.properties.tables import RARE, Query, Table

Pair = tuple[Table, Table]
Places = NDArray[np.int64]

SIZES = (2, 3, 5, 10, 11, 100, 1000)
"""Numbers of candidates that are combined with each other; the random cases lie between and beyond."""
_RANDOM_CASES = 100
_LARGEST = 5000
_LARGEST_TOGETHER = 50
"""Of queries that share a table: small, so that what one of them loses is not lost in the rounding of the other."""


@dataclass(frozen=True)
class Pool:
    """Tables, and which of them to hold against each other.

    Attributes:
        tables: Every table once.
        pairs: For each property but sharpness, places of two tables. The first must have the value of the second for
            a fixed optimum or pessimum, a lower one for the other properties.
        literal: What the paper's sentence asks besides of candidate-size awareness.
        inside: Tables of one query with 1 < r < E, for sharpness.
        ends: Tables of one query with r = 1 or r = E, which the literal sentence includes.
    """

    tables: tuple[Table, ...]
    pairs: dict[Property, Places]
    literal: Places
    inside: Places
    ends: Places


@cache
def pool() -> Pool:
    """All tables of the search.

    Example:
        >>> first, second = pool().pairs[Property.fixed_pessimum][0]
        >>> [str(query) for place in (first, second) for query in pool().tables[place]]
        ['2 of 2', '3 of 3']
    """
    random = np.random.default_rng(0)
    places: dict[Table, int] = {}

    def find(tables: Iterable[Table]) -> list[int]:
        return [places.setdefault(table, len(places)) for table in tables]

    def find_pairs(pairs: Iterable[Pair]) -> Places:
        return np.array([find(pair) for pair in pairs])

    pairs = {
        Property.fixed_optimum: find_pairs(_everywhere(lambda size: 1, random)),
        Property.fixed_pessimum: find_pairs(_everywhere(lambda size: size, random)),
        Property.anti_monotone: find_pairs(_worse_and_better(random)),
        Property.candidate_size: find_pairs(_fewer_and_more(random)),
        Property.popularity: find_pairs(_rarer_and_more_popular(random)),
    }
    literal = find_pairs(pairwise((Query(1, size),) for size in SIZES))
    # Whole ranks come before halves here and below: they make the simpler counterexample.
    inside = find((Query(r, size),) for ranks in (_whole, _with_halves) for size in SIZES for r in ranks(size)[1:-1])
    ends = find((Query(rank, size),) for size in SIZES for rank in (1, size))
    return Pool(tuple(places), pairs, literal, np.array(inside), np.array(ends))


def _whole(size: int) -> list[float]:
    """Ranks worth a look, from the worst to the best: the ends, what is near them, the middle."""
    wanted = {size, size - 1, size // 2, 3, 2, 1}
    return sorted((rank for rank in wanted if 1 <= rank <= size), reverse=True)


def _with_halves(size: int) -> list[float]:
    """The same, with mean ranks of ties between them."""
    whole = _whole(size)
    return sorted({*whole, *(rank + 0.5 for rank in whole if rank < size)}, reverse=True)


def _everywhere(place: Callable[[int], int], random: np.random.Generator) -> Iterator[Pair]:
    """Tables that should all have one value, as a chain of neighbours: what differs must differ from a neighbour."""

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


def _worse_and_better(random: np.random.Generator) -> Iterator[Pair]:
    """A target at a worse and at a better rank of the same candidates, alone and beside targets that are first."""
    for ranks, size in product((_whole, _with_halves), SIZES):
        yield from pairwise((Query(rank, size),) for rank in ranks(size))
    for ranks, others, size in product((_whole, _with_halves), (1, 2), (3, 11)):
        yield from pairwise((*(Query(1, 10),) * others, Query(rank, size)) for rank in ranks(size))
    for _ in range(_RANDOM_CASES):
        size = int(random.integers(2, _LARGEST))
        better, worse = sorted(random.choice(np.arange(2, 2 * size + 1), 2, replace=False).tolist())
        yield (Query(worse / 2, size),), (Query(better / 2, size),)


def _fewer_and_more(random: np.random.Generator) -> Iterator[Pair]:
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


def _rarer_and_more_popular(random: np.random.Generator) -> Iterator[Pair]:
    """The same two ranks twice: from the first table to the second, the better target gains popularity on the worse."""
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
