"""Query weights: by popularity, by number of candidates, by stratum.

A weighting names the columns it depends on. Queries that agree in them share a weight, so sums can be kept per
distinct combination and the weights applied at the end, when quantities of the whole table (epsilon, relation
counts) are known: this is what makes every weighted metric mergeable.

Kept apart by popularity, sums need memory for every distinct pair of values: as much as the graph has (entity,
relation) pairs. One look at the whole table first makes epsilon and the scale of the weights known, and a sum needs
a single number.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Floats
from kgprobe.errors import DataError
from kgprobe.ranks import RankFile, Ranks

Columns = Mapping[str, Floats]


class Weighting(ABC):
    """How much each query counts."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of the rank table on which the weight depends."""

    @abstractmethod
    def weights(self, columns: Columns, count: Floats) -> Floats:
        """The weight of a query for each combination of column values, up to a common factor.

        Args:
            columns: The values, one array for each of `columns`.
            count: How many evaluated queries have that combination; may be 0.
        """


@dataclass(frozen=True)
class Uniform(Weighting):
    """Every query counts the same."""

    @property
    def columns(self) -> tuple[str, ...]:
        """None."""
        return ()

    def weights(self, columns: Columns, count: Floats) -> Floats:
        """Ones."""
        return np.ones_like(count)


@dataclass(frozen=True)
class CandidateWeight(Weighting):
    """Every query counts as much as it has wrong candidates, as in Tiwari et al. (2021).

    Args:
        in_log: Multiply by the log of the candidate count (see `nWMR`).
    """

    in_log: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The candidate count."""
        return ("candidates",)

    def weights(self, columns: Columns, count: Floats) -> Floats:
        """One less than the number of candidates."""
        size = columns["candidates"]
        return (size - 1) * np.log(size) if self.in_log else size - 1


@dataclass(frozen=True)
class PopularityWeight(Weighting):
    """The paper's weight (Eq. 3): ``(eps_e + delta(e))^-beta_e * (eps_r + delta(r|e))^-beta_r`` of the target.

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
    def _factors(self) -> tuple[tuple[str, float, float | None], ...]:
        factors = (
            ("entity_popularity", self.beta_e, self.eps_e),
            ("relation_popularity", self.beta_r, self.eps_r),
        )
        return tuple(factor for factor in factors if factor[1] != 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """The popularity columns whose beta is not 0."""
        return tuple(column for column, _, _ in self._factors)

    def weights(self, columns: Columns, count: Floats) -> Floats:
        """The product of both factors, scaled so that the largest is 1 and none overflows."""
        log_weight = np.zeros_like(count)
        for column, beta, eps in self._factors:
            log_weight -= beta * _log_shifted(column, columns[column], count, eps)
        return scaled_exp(log_weight)


@dataclass(frozen=True)
class StratumWeight(Weighting):
    """The stratified weight of Mohamed et al. (2020): ``delta(e)^-beta_e * n(r)^-beta_r``.

    delta(e) is the training popularity of the target, shifted by its smallest non-zero value as in
    `PopularityWeight` so that unseen entities have a finite weight; n(r) is the number of evaluated queries of the
    relation, which a rank table knows without the graph and which is in proportion to the training count when the
    test set is a random sample of the facts.
    """

    beta_e: float
    beta_r: float

    @property
    def columns(self) -> tuple[str, ...]:
        """Entity popularity and relation, each unless its beta is 0."""
        return ("entity_popularity",) * (self.beta_e != 0) + ("relation",) * (self.beta_r != 0)

    def weights(self, columns: Columns, count: Floats) -> Floats:
        """The product of both factors, scaled so that the largest is 1."""
        log_weight = np.zeros_like(count)
        if self.beta_e:
            log_weight -= self.beta_e * _log_shifted("entity_popularity", columns["entity_popularity"], count, None)
        if self.beta_r:
            _, which = np.unique(columns["relation"], return_inverse=True)
            log_weight -= self.beta_r * np.log(np.maximum(np.bincount(which, weights=count), 1)[which])
        return scaled_exp(log_weight)


def smallest_popularity(column: str, popularity: Floats) -> float:
    """The default epsilon: the smallest popularity above 0."""
    positive = popularity[popularity > 0]
    if positive.size == 0:
        raise DataError(
            f"no evaluated query has any {column.replace('_', ' ')} above 0",
            ["the default epsilon is the smallest such value"],
            "check that --graph is the graph that was trained on, or give eps_e and eps_r",
        )
    return float(positive.min())


def _log_shifted(column: str, popularity: Floats, count: Floats, eps: float | None) -> Floats:
    evaluated = count > 0
    if np.isnan(popularity[evaluated]).any():
        raise DataError(f"{column.replace('_', ' ')} is not recorded in every row", remedy="attach it from the graph")
    shift = smallest_popularity(column, popularity[evaluated]) if eps is None else eps
    if shift == 0 and (popularity[evaluated] == 0).any():
        raise DataError(
            f"with epsilon 0 a query of {column.replace('_', ' ')} 0 would weigh infinitely much",
            remedy="give a positive epsilon, or none to use the default",
        )
    return np.log(np.where(evaluated, popularity + shift, 1.0))


def scaled_exp(log_weight: Floats) -> Floats:
    """Exponentials divided by the largest of them."""
    return np.exp(log_weight - log_weight.max()) if log_weight.size else log_weight


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
