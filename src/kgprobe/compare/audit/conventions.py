"""Ways to count candidates, and which of them explains the counts of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kgprobe.compare.audit.view import Flags, Floats, Queries
from kgprobe.graph import SPLITS, KnowledgeGraph

Counts = NDArray[np.int32]


@dataclass(frozen=True)
class Convention:
    """A way to count the candidates of a query.

    Attributes:
        filtered: The splits whose facts are no candidates.
        offset: How many candidates there are more than that filter leaves, in every query.
        swapped: Whether the count is that of the other side of the triple.

    Example:
        >>> str(Convention(("train",))), str(Convention(("train", "valid"), offset=-1))
        ('filtered by train only', 'filtered by train+valid, with one too few candidates everywhere')
    """

    filtered: tuple[str, ...]
    offset: int = 0
    swapped: bool = False

    def __str__(self) -> str:
        only = " only" if len(self.filtered) == 1 else ""
        name = f"filtered by {'+'.join(self.filtered)}{only}" if self.filtered else "unfiltered"
        return name + self.oddities

    @property
    def oddities(self) -> str:
        """What deviates besides the filter."""
        amount = {-1: "one too few", 1: "one too many"}.get(
            self.offset, f"{abs(self.offset):,} too {'few' if self.offset < 0 else 'many'}"
        )
        offset = f", with {amount} candidates everywhere" if self.offset else ""
        return (", with head and tail side swapped" if self.swapped else "") + offset


@dataclass(frozen=True)
class Fit:
    """How well a convention explains some counts."""

    convention: Convention
    explained: int
    rows: int

    @property
    def share(self) -> float:
        """The share of rows that it explains."""
        return self.explained / self.rows if self.rows else 1.0


class Recount:
    """The candidates of the queries under every convention, counted again from the graph when asked for.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2]], test=[[0, 0, 3]])
        >>> queries = Queries(np.array([0]), np.array([0]), np.array([3]), np.array([True]))
        >>> counted = Recount(graph, queries)
        >>> counted.left(("train",)).tolist(), counted.left(()).tolist()
        ([2], [4])
        >>> str(counted.best(np.array([3.0]), np.array([True]), ("train", "test")).convention)
        'filtered by train+test, with one too many candidates everywhere'
    """

    def __init__(self, graph: KnowledgeGraph, queries: Queries) -> None:
        self.graph, self.queries = graph, queries
        self._left = cache(self._count)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that can be filtered by."""
        return tuple(split for split in SPLITS if split in self.graph.splits)

    def left(self, filtered: tuple[str, ...], swapped: bool = False) -> Counts:
        """How many candidates a filter leaves in each query."""
        return self._left(filtered, swapped)

    def _count(self, filtered: tuple[str, ...], swapped: bool) -> Counts:
        left = np.full(len(self.queries), self.graph.num_entities, dtype=np.int32)
        if filtered:
            side = self.queries.predicts_tail ^ swapped
            left -= self.graph.known_answers(*filtered).others(*self.queries.triples, side).astype(np.int32)
        return left

    def fit(self, candidates: Floats, rows: Flags, filtered: tuple[str, ...], swapped: bool = False) -> Fit:
        """The most frequent offset from what a filter leaves; none, where it is as frequent as any."""
        values, counts = np.unique((candidates - self.left(filtered, swapped))[rows], return_counts=True)
        if not len(values):
            return Fit(Convention(filtered, 0, swapped), 0, 0)
        top = max(range(len(values)), key=lambda i: (counts[i], values[i] == 0, -abs(values[i])))
        return Fit(Convention(filtered, int(values[top]), swapped), int(counts[top]), int(counts.sum()))

    def best(self, candidates: Floats, rows: Flags, due: tuple[str, ...]) -> Fit:
        """The convention that explains most rows; the one that is due, or else the least odd, where several do."""
        fits = [self.fit(candidates, rows, *hypothesis) for hypothesis in self._hypotheses(due)]
        return max(fits, key=lambda fit: (fit.explained, fit.convention.offset == 0, not fit.convention.swapped))

    def _hypotheses(self, due: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
        subsets = [names for size in range(len(self.splits) + 1) for names in combinations(self.splits, size)]
        # What several filters explain is taken for the one that is due, or else for the likeliest mistake.
        likely = [due, *(self.splits[:size] for size in range(len(self.splits)))]
        ordered = [*dict.fromkeys(likely), *(names for names in subsets if names not in likely)]
        yield from ((names, False) for names in ordered)
        yield from ((names, True) for names in ordered if names)
