"""Held-out and missing answers of each query: their numbers, and how being missing depends on the rank."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom

from kgprobe.arrays import Floats, Ints
from kgprobe.errors import DataError, UsageError, spans
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks, refuse_estimates, refuse_intervals


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The held-out answers of a rank table of one training run; each row is one.

    Attributes:
        ranks: The table; all answers of a query are ranked against the same candidates.
        query: Index of the query of each row.
        held_out: Number of answers of the query in the table.
        above: Number of them with a better rank than this one.
        known: Number of answers of the query in all splits of the graph, this one included.

    Example:
        >>> queries = dict(head=[0, 0, 1], relation=[0] * 3, tail=[2, 3, 2], side=["tail"] * 3)
        >>> ranks = Ranks.from_columns(**queries, rank=[5, 1, 2], candidates=[8, 8, 9])
        >>> answers = HeldOut.of(ranks, entities=10)
        >>> answers.held_out.tolist(), answers.above.tolist(), answers.known.tolist()
        ([2, 2, 1], [1, 0, 0], [3, 3, 2])
    """

    ranks: Ranks
    query: Ints
    held_out: Ints
    above: Ints
    known: Ints

    @classmethod
    def of(cls, ranks: Ranks, graph: KnowledgeGraph | None = None, entities: int | None = None) -> HeldOut:
        """Group the rows of a table of one training run by query.

        Args:
            ranks: The table, filtered by all known triples.
            graph: Gives the number of known answers of every query.
            entities: Number of entities; without a graph, the known answers are counted as filtered candidates.

        Raises:
            DataError: The table is not filtered, has intervals or no rows, or does not fit the graph.
            UsageError: Neither a graph nor the number of entities is given.
        """
        refuse_intervals(ranks)
        refuse_estimates(ranks)
        _require_filtered(ranks)
        side = ranks.predicts_tail
        given = np.where(side, ranks.head, ranks.tail)
        _, query = np.unique(np.stack([given, ranks.relation, side]), axis=1, return_inverse=True)
        query = query.ravel().astype(np.int64)
        order = np.lexsort((ranks.rank, query))
        starts = np.flatnonzero(np.diff(query[order], prepend=-1))
        size = np.diff(starts, append=len(query))
        above, held_out = np.empty_like(query), np.empty_like(query)
        above[order] = np.arange(len(query)) - np.repeat(starts, size)
        held_out[order] = np.repeat(size, size)
        known = _known(ranks, graph, entities)
        _require_consistent(ranks, graph, known, held_out)
        return cls(ranks, query, held_out, above, known)

    def take(self, rows: Ints) -> HeldOut:
        """Some of the rows; their counts still include the rows left out."""
        return HeldOut(self.ranks.take(rows), self.query[rows], self.held_out[rows], self.above[rows], self.known[rows])

    @property
    def queries(self) -> int:
        """Number of queries."""
        return int(self.query.max()) + 1


def _require_filtered(ranks: Ranks) -> None:
    if not len(ranks):
        raise DataError("there is no held-out answer to estimate from", remedy="rank triples that are not in train")
    filtered = ranks.info.filtered
    if filtered is not None and (not filtered or (ranks.info.split and ranks.info.split not in filtered)):
        raise DataError(
            "the ranks are not filtered, so known answers are among the candidates",
            [f"filtered: {', '.join(filtered) or 'nothing'}"],
            "rank again with the default filter",
        )


def _known(ranks: Ranks, graph: KnowledgeGraph | None, entities: int | None) -> Ints:
    if graph is not None and graph.has_train:
        others = graph.known_answers().others(ranks.head, ranks.relation, ranks.tail, ranks.predicts_tail)
        return others + 1
    size = graph.num_entities if graph is not None else entities
    if size is None:
        raise UsageError(
            "the number of known answers of a query cannot be determined from ranks alone",
            remedy="give the graph, or the number of its entities",
        )
    return (size - ranks.candidates + 1).astype(np.int64)


def _require_consistent(ranks: Ranks, graph: KnowledgeGraph | None, known: Ints, held_out: Ints) -> None:
    problems = []
    few = np.flatnonzero(known < held_out)
    if len(few):
        example = f"such as {held_out[few[0]]} and {known[few[0]]}"
        rows = spans((few + 1).tolist())
        problems.append(f"rows {rows}: the table has more answers of the query than the graph, {example}")
    left = np.inf if graph is None else graph.num_entities - known + 1
    more = np.flatnonzero(ranks.candidates > left)
    if len(more):
        problems.append(
            f"rows {spans((more + 1).tolist())}: there are more candidates than the filter of the graph leaves"
        )
    if problems:
        remedy = "give the graph that was ranked with all its splits, or its number of entities"
        raise DataError("the ranks do not fit the graph", problems, remedy)


_STEPS = 40  # EM steps: enough for the shape of the distribution, too few for overfitted spikes
_WHOLE = 64  # up to here every number of answers is considered, beyond that a grid of numbers
_SPACING = 0.1


@dataclass(frozen=True, eq=False)
class MissingCounts:
    """Mean and variance of the number of missing answers of each row's query.

    Example:
        >>> known = 1 + np.random.default_rng(0).binomial(40, 0.5, 1000)
        >>> round(float(MissingCounts.of(known, rate=0.5).mean.mean()))
        20
    """

    mean: Floats
    variance: Floats

    def take(self, rows: Ints) -> MissingCounts:
        return MissingCounts(self.mean[rows], self.variance[rows])

    @classmethod
    def of(cls, known: Ints, rate: float, weight: Floats | None = None) -> MissingCounts:
        """Estimate them, if every true answer is missing with the same probability.

        The answer of a row is known, since it is ranked; each of the other answers of its query is known with
        probability ``1 - rate``. The distribution of the number of answers is estimated from all rows by EM, and gives
        that of the missing answers.

        Args:
            known: Number of known answers of the query of each row, its own included.
            rate: Share of all true triples that is missing.
            weight: Weight of each row; 1 by default.
        """
        return NumbersOfAnswers(known, rate).missing(np.ones(len(known)) if weight is None else weight)


class NumbersOfAnswers:
    """Estimates the distribution of the number of answers of a query by EM, and with it the missing answers.

    Args:
        known: Number of known answers of the query of each row, its own included.
        rate: Share of all true triples that is missing.
    """

    def __init__(self, known: Ints, rate: float) -> None:
        values, self._row = np.unique(known, return_inverse=True)
        others = values - 1
        self._rate, self._total = rate, _totals(int(others.max()), rate)
        self._likelihood = binom.pmf(others[:, None], self._total, 1 - rate)
        self._missing = self._total - others[:, None]

    def missing(self, weight: Floats) -> MissingCounts:
        """The missing answers of the query of each row, estimated from rows with these weights."""
        if self._rate == 0:
            return MissingCounts(np.zeros(len(weight)), np.zeros(len(weight)))
        rows = np.bincount(self._row, weights=weight)
        distribution = np.gradient(self._total.astype(float))  # uniform at first
        for _ in range(_STEPS):
            chance = np.maximum(self._likelihood @ distribution, 1e-300)
            distribution = distribution * ((rows / rows.sum() / chance) @ self._likelihood)
        posterior = self._likelihood * distribution
        posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), 1e-300)
        mean = (posterior * self._missing).sum(axis=1)
        variance = (posterior * (self._missing - mean[:, None]) ** 2).sum(axis=1)
        return MissingCounts(mean[self._row], variance[self._row])


def check_rate(rate: float) -> None:
    """Raise a UsageError for an invalid missing rate."""
    if not 0 <= rate < 1:
        remedy = "it is the share of all true triples that the graph lacks: at least 0 and below 1"
        raise UsageError(f"the missing rate is {rate}", remedy=remedy)


def _totals(most: int, rate: float) -> Ints:
    """Numbers of answers to consider; larger ones have negligible probability given the known answers."""
    last = (most + 1) / (1 - rate) + 8 * np.sqrt(most + 1) / (1 - rate) + 8
    roots = np.arange(1, np.sqrt(last) / _SPACING + 1) * _SPACING
    return np.unique(np.concatenate([np.arange(min(_WHOLE, int(last))), np.square(roots).astype(np.int64)]))


_NEARLY_ALIKE = 1e-9
_LEAST = 1e-12  # least share of known answers before a position, so that logarithms stay finite


@dataclass(frozen=True)
class MissingSelection:
    """How the probability of being missing depends on the position of an answer among the answers of its query.

    The position u runs from 0, the answer that the model ranks first, to 1, the one that it ranks last. The log-odds of
    being missing are linear in u.

    Attributes:
        missing: Share of the answers that are missing.
        odds: Odds of being missing at the last position over those at the first; 1 if the position does not matter.

    Example:
        >>> MissingSelection(0.5, odds=1.0).chance(np.array([0.0, 1.0])).tolist()
        [0.5, 0.5]
        >>> MissingSelection(0.5, odds=4.0).chance(np.array([0.0, 1.0])).round(3).tolist()
        [0.333, 0.667]
    """

    missing: float
    odds: float = 1.0

    @property
    def _log_odds(self) -> float:
        return math.log(self.odds)

    @cached_property
    def _start(self) -> float:
        """The log-odds at position 0, such that the mean probability is ``missing``."""
        level = math.log(self.missing / (1 - self.missing))
        if abs(self._log_odds) < _NEARLY_ALIKE:
            return level
        reach = abs(self._log_odds) + 1
        return float(brentq(lambda start: float(self._below(start, 1.0)) - self.missing, level - reach, level + reach))

    def _below(self, start: float, position: Floats | float) -> Floats:
        """The integral of the probability of being missing from 0 to a position."""
        softplus = np.logaddexp(0, start + self._log_odds * np.asarray(position)) - np.logaddexp(0, start)
        return np.asarray(softplus / self._log_odds)

    def chance(self, position: Floats) -> Floats:
        """The probability that the answer at a position is missing."""
        return np.asarray(expit(self._start + self._log_odds * position))

    def missing_before(self, position: Floats) -> Floats:
        """The share of the missing answers before a position."""
        if abs(self._log_odds) < _NEARLY_ALIKE:
            return position
        return self._below(self._start, position) / self.missing

    def known_before(self, position: Floats) -> Floats:
        """The share of the known answers before a position."""
        share = (position - self.missing * self.missing_before(position)) / (1 - self.missing)
        return np.clip(share, _LEAST, 1 - _LEAST)

    def weight(self, position: Floats) -> Floats:
        """Inverse-probability weight of a known answer at a position; 1 if the position does not matter."""
        return np.asarray((1 - self.missing) / np.maximum(expit(-self._start - self._log_odds * position), _LEAST))


def check_odds(odds: float) -> None:
    """Raise a UsageError for invalid odds."""
    if not 0 < odds < math.inf:
        remedy = "give a finite number above 0; 1 if being missing does not depend on the rank"
        raise UsageError(f"the odds of missing answers are {odds}", remedy=remedy)
