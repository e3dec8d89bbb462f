"""Held-out and missing answers of each query: how many, and which."""

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
from kgprobe.ranks import Ranks, refuse_intervals


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The held-out answers of the queries of a rank table, one for each row.

    Attributes:
        ranks: The table; all its answers of a query are ranked against the same candidates.
        query: The query of each row, from 0.
        held_out: How many answers its query has in the table.
        above: How many of them the model puts before this one.
        known: How many answers of the query the graph knows in all its splits, this one included.

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
        """Read them off a table of one training run.

        Args:
            ranks: The table, filtered by all that is known.
            graph: Counts the known answers of every query.
            entities: The number of entities, from which the filtered candidates tell the same where there is no graph.

        Raises:
            DataError: The table is not filtered, has intervals or no rows, or does not fit the graph.
            UsageError: Neither a graph nor the number of entities is given.
        """
        refuse_intervals(ranks)
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
        """Some of the rows, which still know of the answers that are left out."""
        return HeldOut(self.ranks.take(rows), self.query[rows], self.held_out[rows], self.above[rows], self.known[rows])

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return int(self.query.max()) + 1


def _require_filtered(ranks: Ranks) -> None:
    if not len(ranks):
        raise DataError("there is no held-out answer to estimate from", remedy="rank facts that training did not see")
    filtered = ranks.info.filtered
    if filtered is not None and (not filtered or (ranks.info.split and ranks.info.split not in filtered)):
        raise DataError(
            "the ranks are not filtered, so that known answers stand among the candidates",
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
            "how many answers of a query are known cannot be told from ranks alone",
            remedy="give the graph (--graph), or the number of its entities (--entities)",
        )
    return (size - ranks.candidates + 1).astype(np.int64)


def _require_consistent(ranks: Ranks, graph: KnowledgeGraph | None, known: Ints, held_out: Ints) -> None:
    problems = []
    few = np.flatnonzero(known < held_out)
    if len(few):
        problems.append(
            f"rows {spans((few + 1).tolist())}: the table has more answers of the query than the graph knows, "
            f"such as {held_out[few[0]]} and {known[few[0]]}"
        )
    left = np.inf if graph is None else graph.num_entities - known + 1
    more = np.flatnonzero(ranks.candidates > left)
    if len(more):
        problems.append(
            f"rows {spans((more + 1).tolist())}: there are more candidates than filtering by all that the graph knows "
            "leaves"
        )
    if problems:
        raise DataError(
            "the ranks do not fit the graph",
            problems,
            "give the graph, or the number of entities, that was ranked, with all its splits",
        )


_STEPS = 40  # steps of expectation and maximisation: enough for the shape of the law, too few for spikes
_WHOLE = 64  # up to here every number of answers is considered, further on those that thinning can tell apart
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
        """Those of some of the rows."""
        return MissingCounts(self.mean[rows], self.variance[rows])

    @classmethod
    def of(cls, known: Ints, rate: float, weight: Floats | None = None) -> MissingCounts:
        """What is missing, if every true answer is missing with the same probability.

        The answer of a row is known, for it is ranked; each of the others of its query is known with probability
        ``1 - rate``. The law of their number is estimated from all rows, and gives that of the missing ones.

        Args:
            known: For each row, how many answers of its query are known, its own included.
            rate: The share of all true facts that is missing.
            weight: What each row counts; 1 where it is not given.
        """
        values, row = np.unique(known, return_inverse=True)
        rows = np.bincount(row.ravel(), weights=weight)
        if rate == 0:
            return cls(np.zeros(len(known)), np.zeros(len(known)))
        others = values - 1
        total = _totals(int(others.max()), rate)
        likelihood = binom.pmf(others[:, None], total, 1 - rate)
        law = np.gradient(total.astype(float))  # every number alike, at first
        for _ in range(_STEPS):
            law = (rows / rows.sum()) @ _normal(likelihood * law)
        missing, chance = total - others[:, None], _normal(likelihood * law)
        mean = (chance * missing).sum(axis=1)
        variance = (chance * (missing - mean[:, None]) ** 2).sum(axis=1)
        return cls(mean[row.ravel()], variance[row.ravel()])


def check_rate(rate: float) -> None:
    """Refuse a missing rate that is none.

    Example:
        >>> check_rate(1.0)
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: the missing rate is 1.0
        Remedy: it is the share of all true facts that the graph lacks: from 0 to less than 1
    """
    if not 0 <= rate < 1:
        raise UsageError(
            f"the missing rate is {rate}",
            remedy="it is the share of all true facts that the graph lacks: from 0 to less than 1",
        )


def _totals(most: int, rate: float) -> Ints:
    """Numbers of answers to consider: so many that what is known leaves no doubt beyond them."""
    last = (most + 1) / (1 - rate) + 8 * np.sqrt(most + 1) / (1 - rate) + 8
    roots = np.arange(1, np.sqrt(last) / _SPACING + 1) * _SPACING
    return np.unique(np.concatenate([np.arange(min(_WHOLE, int(last))), np.square(roots).astype(np.int64)]))


def _normal(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-300))


_NEARLY_ALIKE = 1e-9
# Extreme odds leave next to no known answers at some places: never quite none, so that there are logarithms.
_LEAST = 1e-12


@dataclass(frozen=True)
class MissingSelection:
    """How the chance to be missing depends on the place of an answer among the answers of its query.

    The place u runs from 0, the answer that the model ranks first, to 1, the one that it ranks last. The logarithm of
    the odds of being missing is linear in u.

    Attributes:
        missing: The share of the answers that are missing.
        odds: The odds of being missing at the last place, over those at the first; 1 where places play no part.

    Example:
        >>> MissingSelection(0.5, odds=1.0).chance(np.array([0.0, 1.0])).tolist()
        [0.5, 0.5]
        >>> MissingSelection(0.5, odds=4.0).chance(np.array([0.0, 1.0])).round(3).tolist()
        [0.333, 0.667]
    """

    missing: float
    odds: float = 1.0

    @property
    def _slope(self) -> float:
        return math.log(self.odds)

    @cached_property
    def _start(self) -> float:
        """The logarithm of the odds at place 0 that makes the share come out."""
        level = math.log(self.missing / (1 - self.missing))
        if abs(self._slope) < _NEARLY_ALIKE:
            return level
        reach = abs(self._slope) + 1
        return float(brentq(lambda start: float(self._below(start, 1.0)) - self.missing, level - reach, level + reach))

    def _below(self, start: float, place: Floats | float) -> Floats:
        """The integral of the chance to be missing from 0 to a place."""
        softplus = np.logaddexp(0, start + self._slope * np.asarray(place)) - np.logaddexp(0, start)
        return np.asarray(softplus / self._slope)

    def chance(self, place: Floats) -> Floats:
        """The chance that the answer at a place is missing."""
        return np.asarray(expit(self._start + self._slope * place))

    def missing_before(self, place: Floats) -> Floats:
        """The share of the missing answers that stand before a place."""
        if abs(self._slope) < _NEARLY_ALIKE:
            return place
        return self._below(self._start, place) / self.missing

    def known_before(self, place: Floats) -> Floats:
        """The share of the known answers that stand before a place."""
        share = (place - self.missing * self.missing_before(place)) / (1 - self.missing)
        return np.clip(share, _LEAST, 1 - _LEAST)

    def weight(self, place: Floats) -> Floats:
        """How many answers a known one at a place stands for, in proportion: 1 where places play no part."""
        return np.asarray((1 - self.missing) / np.maximum(expit(-self._start - self._slope * place), _LEAST))


def check_odds(odds: float) -> None:
    """Refuse odds that are none.

    Example:
        >>> check_odds(0)
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: the odds of missing answers are 0
        Remedy: give a number above 0; 1 where it plays no part how an answer is ranked
    """
    if not 0 < odds < math.inf:
        raise UsageError(
            f"the odds of missing answers are {odds}",
            remedy="give a number above 0; 1 where it plays no part how an answer is ranked",
        )
