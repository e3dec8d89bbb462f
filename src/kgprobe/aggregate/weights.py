"""Query weights: the paper's log weight and epsilon rule, weights by candidates and strata, weights of a whole table.

A weighting names the columns it depends on. Queries with equal values in these columns have equal weights, so sums can
be kept per distinct combination of values and weighted at the end, when epsilon and the relation counts of the whole
table are known. This makes every weighted metric mergeable, at the cost of memory for every distinct combination.
`settle` avoids that cost with one more pass over the table: epsilon and the scale of the weights are then known in
advance, and a sum is a single number.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.errors import DataError, UsageError
from kgprobe.ranks import RankFile, Ranks

Columns = Mapping[str, Floats]

LARGEST_BETA = 1e300
"""A log weight with a larger beta could overflow. Far below it, only the queries of the largest weight count."""

_LOG_SPREAD = 300.0
"""Weights whose logarithms spread wider than this are scaled slice by slice: their squares would underflow."""

_SMALLEST_SETTLED = 1e-100
"""Settled weights below this, relative to the largest, could vanish beside sample weights."""


def resolve_epsilon(column: str, popularity: Floats, eps: float | None = None) -> float:
    """The epsilon that is added to a popularity column: ``eps``, or else the smallest popularity above 0.

    Args:
        column: The name of the column.
        popularity: The popularity of the evaluated queries, or its extremes.
        eps: A value chosen by the user.

    Example:
        >>> resolve_epsilon("entity_popularity", np.array([0.0, 0.4, 0.1]))
        0.1
    """
    name = column.replace("_", " ")
    if np.isnan(popularity).any():
        raise DataError(
            f"{name} is not recorded in every row",
            ["beta other than 0 needs the popularity of the targets"],
            "give `graph`, or use beta=0",
        )
    if eps is None:
        positive = popularity[popularity > 0]
        if positive.size == 0:
            raise DataError(
                f"no evaluated query has any {name} above 0",
                ["the default epsilon is the smallest such value"],
                "check that graph is the graph that the model was trained on, or give eps_e and eps_r",
            )
        return float(positive.min())
    if not 0 <= eps < math.inf:
        raise UsageError(f"epsilon must be a finite number of at least 0, not {eps}")
    if eps == 0 and (popularity == 0).any():
        raise DataError(
            f"epsilon 0 gives a query with {name} 0 infinite weight",
            remedy="give a positive epsilon, or none to use the default",
        )
    return eps


def log_weight(columns: Columns, counted: Flags, factors: Mapping[str, tuple[float, float | None]]) -> Floats:
    """The logarithm of the paper's weight (Eq. 3): minus the sum of ``beta * ln(eps + popularity)``.

    Args:
        columns: The popularity columns.
        counted: The rows that are evaluated; the value of all others is 0, and they do not affect epsilon.
        factors: Beta and epsilon of each popularity column; see `resolve_epsilon`.

    Example:
        >>> columns, counted = {"entity_popularity": np.array([0.01])}, np.array([True])
        >>> log_weight(columns, counted, {"entity_popularity": (1.0, 0.0)}).round(3).tolist()
        [4.605]
    """
    result = np.zeros(len(counted))
    if not counted.any():
        return result
    rows = slice(None) if counted.all() else counted
    for column, (beta, eps) in factors.items():
        popularity = columns[column][rows]
        term = popularity + resolve_epsilon(column, popularity, eps)
        np.log(term, out=term)
        term *= beta
        result[rows] -= term
        del popularity, term  # before the next column is read
    return result


def scaled_exp(log_weights: Floats, slices: Ints | None = None) -> Floats:
    """Exponentials divided by the largest of them, so that none overflows.

    Args:
        log_weights: The logarithms.
        slices: The slice of each number, where means are taken by slice; -1 for none. Numbers that spread so widely
            that a whole slice could underflow to 0 are divided by the largest of their slice.

    Example:
        >>> scaled_exp(np.array([0.0, -1000.0, -1000.0]), np.array([0, 1, 1])).tolist()
        [1.0, 1.0, 1.0]
    """
    if not log_weights.size:
        return log_weights
    scaled = log_weights - log_weights.max()
    if slices is not None and scaled.min() < -_LOG_SPREAD:
        largest = np.full(slices.max() + 2, -np.inf)
        np.maximum.at(largest, slices + 1, log_weights)
        scaled = log_weights - largest[slices + 1]
    return np.asarray(np.exp(scaled))


class Weighting(ABC):
    """The weight of each query."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of the rank table on which the weight depends."""

    @abstractmethod
    def weights(self, columns: Columns, count: Floats, slices: Ints | None = None) -> Floats:
        """The weight of a query for each combination of column values, up to a common factor.

        Args:
            columns: The values, one array for each of `columns`.
            count: How many evaluated queries have that combination; may be 0.
            slices: The slice of each combination, -1 for none, where means are taken by slice. The common factor may
                then differ between slices.
        """


@dataclass(frozen=True)
class Uniform(Weighting):
    """Equal weights."""

    columns: ClassVar[tuple[str, ...]] = ()

    def weights(self, columns: Columns, count: Floats, slices: Ints | None = None) -> Floats:
        return np.ones_like(count)


@dataclass(frozen=True)
class CandidateWeight(Weighting):
    """The number of wrong candidates, E - 1, as in Tiwari et al. (2021).

    Args:
        in_log: Multiply by ln E (see `nWMR`).
    """

    columns: ClassVar[tuple[str, ...]] = ("candidates",)
    in_log: bool = False

    def weights(self, columns: Columns, count: Floats, slices: Ints | None = None) -> Floats:
        size = columns["candidates"]
        return (size - 1) * np.log(size) if self.in_log else size - 1


@dataclass(frozen=True)
class PopularityWeight(Weighting):
    """The paper's weight (Eq. 3): ``(eps_e + delta(e))^-beta_e * (eps_r + delta(r|e))^-beta_r`` of the target.

    The largest weight is scaled to 1, so that none overflows.

    Args:
        beta_e: Robustness to the popularity of the entity; 0 ignores it.
        beta_r: Robustness to the popularity of the relation given the entity; 0 ignores it.
        eps_e: Added to delta(e); by default the smallest non-zero delta(e) among the evaluated queries.
        eps_r: The same for delta(r|e).

    Example:
        >>> rare = PopularityWeight(1.0, 0.0, eps_e=0.0)
        >>> rare.weights({"entity_popularity": np.array([0.1, 0.4])}, np.ones(2)).round(12).tolist()
        [1.0, 0.25]
    """

    beta_e: float
    beta_r: float
    eps_e: float | None = None
    eps_r: float | None = None

    @property
    def factors(self) -> dict[str, tuple[float, float | None]]:
        """Beta and epsilon of each popularity column whose beta is not 0; see `log_weight`."""
        factors = {"entity_popularity": (self.beta_e, self.eps_e), "relation_popularity": (self.beta_r, self.eps_r)}
        return {column: factor for column, factor in factors.items() if factor[0] != 0}

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.factors)

    def weights(self, columns: Columns, count: Floats, slices: Ints | None = None) -> Floats:
        return scaled_exp(log_weight(columns, count > 0, self.factors), slices)


@dataclass(frozen=True)
class StratumWeight(Weighting):
    """The stratified weight of Mohamed et al. (2020): ``delta(e)^-beta_e * n(r)^-beta_r``.

    delta(e) is the training popularity of the target, with the default epsilon of `PopularityWeight` added so that
    unseen entities have a finite weight. n(r) is the number of evaluated queries of the relation: a rank table knows it
    without the graph, and it is proportional to the training count when the test set is a random sample.
    """

    beta_e: float
    beta_r: float

    @property
    def columns(self) -> tuple[str, ...]:
        return ("entity_popularity",) * (self.beta_e != 0) + ("relation",) * (self.beta_r != 0)

    def weights(self, columns: Columns, count: Floats, slices: Ints | None = None) -> Floats:
        result = log_weight(columns, count > 0, PopularityWeight(self.beta_e, 0.0).factors)
        if self.beta_r:
            _, which = np.unique(columns["relation"], return_inverse=True)
            result -= self.beta_r * np.log(np.maximum(np.bincount(which, weights=count), 1)[which])
        return scaled_exp(result, slices)


def read_column(ranks: Ranks, column: str, counted: Flags | slice = slice(None)) -> Floats:
    """A column that weights depend on, which must be recorded in every row that is counted."""
    values = ranks.numbers(column)[counted]
    unknown = int(np.isnan(values).sum())
    if unknown:
        raise DataError(
            f"{column.replace('_', ' ')} is not recorded in {unknown:,} of {len(ranks):,} rows",
            ["beta other than 0 needs the popularity of the targets"],
            "give `graph`, or use beta=0",
        )
    return values


def table_weights(ranks: Ranks, weighting: Weighting, counted: Flags, slices: Ints | None = None) -> Floats:
    """The weight of every query of a table, 0 where it is not counted; `slices` as for `Weighting.weights`."""
    columns = _ReadColumns(ranks, weighting.columns, slice(None) if counted.all() else counted)
    ones = np.broadcast_to(np.float64(1), int(counted.sum()))
    own = weighting.weights(columns, ones, None if slices is None else slices[counted])
    if counted.all():
        return own
    weights = np.zeros(len(ranks))
    weights[counted] = own
    return weights


@dataclass(frozen=True)
class _ReadColumns(Mapping[str, Floats]):
    """The columns that weights depend on; each is read when it is used, so that one is in memory at a time."""

    ranks: Ranks
    names: tuple[str, ...]
    counted: Flags | slice

    def __getitem__(self, name: str) -> Floats:
        return read_column(self.ranks, name, self.counted)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Extremes:
    """The smallest, the smallest positive and the largest value of a column; fewer where these are equal or missing."""

    values: frozenset[float] = frozenset()

    def joined(self, column: Floats) -> Extremes:
        """The extremes of this column and of all before."""
        if column.size == 0:
            return self
        low, high = column.min(), column.max()
        seen = np.array([*self.values, low, high, column.min(where=column > 0, initial=high) if low <= 0 else low])
        positive = seen[seen > 0]
        smallest = [float(positive.min())] if positive.size else []
        return Extremes(frozenset([float(seen.min()), float(seen.max()), *smallest]))


@dataclass(frozen=True)
class SettledWeight:
    """A weighting that gives every batch of one table weights on the same scale.

    It weights the batch together with reference rows that hold the extremes of the table in every combination: they
    determine epsilon, and the largest of their weights is at least that of every query, so the scale is relative to it.

    Attributes:
        weighting: The weighting.
        reference: The reference rows.
        fewest_candidates: Queries with fewer candidates were left out.
    """

    weighting: Weighting
    reference: Columns = field(compare=False)
    fewest_candidates: int = 1

    @property
    def may_vanish(self) -> bool:
        """Whether weights spread so widely that those of a group of queries could all underflow to 0."""
        rows = len(next(iter(self.reference.values())))
        return bool(self.weighting.weights(self.reference, np.ones(rows)).min(initial=1.0) < _SMALLEST_SETTLED)

    def __call__(self, columns: Columns) -> Floats:
        """The weights of some rows."""
        joined = {name: np.concatenate([self.reference[name], columns[name]]) for name in self.weighting.columns}
        rows = len(next(iter(joined.values())))
        added = len(next(iter(columns.values())))
        return self.weighting.weights(joined, np.ones(rows))[rows - added :]


def settle(ranks: Ranks | RankFile, weightings: Iterable[tuple[Weighting, int]]) -> list[SettledWeight]:
    """Settle weightings in one pass over the table.

    Args:
        ranks: A table, or a file, which is streamed.
        weightings: Each with the fewest candidates that a query needs to be evaluated.
    """
    weightings = list(weightings)
    found = {
        (weighting.columns, fewest): dict.fromkeys(weighting.columns, Extremes()) for weighting, fewest in weightings
    }
    for batch in ranks.batches() if weightings else ():
        for (_, fewest), extremes in found.items():
            enough = batch.candidates >= fewest
            counted = slice(None) if enough.all() else enough
            extremes.update(
                {column: old.joined(read_column(batch, column, counted)) for column, old in extremes.items()}
            )
    return [
        SettledWeight(weighting, _corners(found[weighting.columns, fewest]), fewest) for weighting, fewest in weightings
    ]


def _corners(extremes: dict[str, Extremes]) -> Columns:
    corners = np.array(list(itertools.product(*(sorted(found.values) for found in extremes.values()))))
    return dict(zip(extremes, corners.reshape(-1, len(extremes)).T, strict=True))
