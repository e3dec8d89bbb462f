"""Random completions of a rank table: its ranks as if no triple were missing, and what this assumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from kgprobe.arrays import Floats, Ints
from kgprobe.errors import UsageError
from kgprobe.openworld.closed_ranks import ClosedRanks
from kgprobe.openworld.missing_answers import (
    HeldOut,
    MissingCounts,
    MissingSelection,
    NumbersOfAnswers,
    check_odds,
    check_rate,
)
from kgprobe.ranks import Ranks

WEIGHT = "stands_for"  # weight column of a completed table
_LAYERS = 32  # number of quantiles of the posterior of each row that represent its distribution
_MANY = 2.0  # standard deviations above the mean of an unusually large number of missing answers
_ROWS_PER_GROUP, _MOST_GROUPS = 2_000, 8  # rows per separate distribution of false answers, and their largest number
_GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class Completion:
    """Closed-world versions of a rank table at one missing rate.

    Attributes:
        answers: The held-out answers.
        rate: Share of all true triples that is missing.
        odds: Odds of being missing of the last answer of a query over those of the first; see `MissingSelection`.
        held_out: Share of the known triples that is held out. If given, the number of missing answers is estimated from
            the held-out answers alone; otherwise from all known answers of a query, which is more precise, but biased
            if queries were chosen by the number of their held-out answers.

    Example:
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 2], side=["tail"] * 2, rank=[2, 4], candidates=[90, 90]
        ... )
        >>> completion = Completion(HeldOut.of(ranks, entities=100), rate=0.25)
        >>> bool(np.mean([layer.rank for layer in completion.layers()]) < 3)
        True
    """

    answers: HeldOut
    rate: float
    odds: float = 1.0
    held_out: float | None = None

    @cached_property
    def counts(self) -> MissingCounts:
        """Estimated numbers of missing answers of each row's query."""
        return self._numbers.missing(np.ones(len(self.answers.ranks)))

    @cached_property
    def _numbers(self) -> NumbersOfAnswers:
        if self.held_out is None:
            return NumbersOfAnswers(self.answers.known, self.rate)
        unseen = self.rate + (1 - self.rate) * self.held_out
        return NumbersOfAnswers(self.answers.held_out, self.rate / unseen)

    @cached_property
    def missing_share(self) -> float:
        """Share of the answers outside train that are missing."""
        behind_each = 1 + self.counts.mean / self.answers.held_out
        return float(1 - 1 / behind_each.mean())

    def layers(self) -> Iterator[Ranks]:
        """Tables that together represent the posterior distribution of the closed-world rank of every row."""
        rows = len(self.answers.ranks)
        if not self.missing_share:
            yield self._completed(self.counts, np.zeros(rows), np.ones(rows))
            return
        fitted = self._fitted(self.counts, np.ones(rows))
        # Equal rows get different quantiles within a layer, spaced by the golden ratio.
        offset = np.arange(rows) * _GOLDEN % 1
        for layer in range(_LAYERS):
            yield self._completed(self.counts, *fitted((layer + offset) / _LAYERS))

    def draw(self, shared: np.random.Generator, own: np.random.Generator) -> Ranks:
        """A random completed table: resampled queries and answers, and random ranks of the missing answers.

        Args:
            shared: Random generator of the queries and answers, which all models have in common.
            own: Random generator of the ranks of the missing answers of this model.
        """
        answers = self.answers
        queries = shared.exponential(size=answers.queries)[answers.query]
        if not self.missing_share:
            return self._completed(self.counts, np.zeros(len(queries)), np.ones(len(queries)))
        # The held-out answers are a sample without replacement; this is the remaining sampling variance.
        sampled = shared.gamma(1 / self.missing_share, self.missing_share, len(queries))
        counts = self._numbers.missing(queries)
        # The missing answers before one target are mostly those before the next, so a query has one quantile.
        missing, weight = self._fitted(counts, queries)(own.random(answers.queries)[answers.query])
        return self._completed(counts, missing, weight * sampled)

    def at_most(self) -> Ranks:
        """The table if an unusually large number of missing answers all stood before every target."""
        many = np.floor(self.counts.mean + _MANY * np.sqrt(self.counts.variance))
        missing = np.minimum(many, np.ceil(self.answers.ranks.rank) - 1)
        return self._completed(self.counts, missing, np.ones(len(missing)))

    @property
    def num_groups(self) -> int:
        """Number of groups of queries, by known answers, with separate distributions of false answers."""
        return min(max(len(self.answers.ranks) // _ROWS_PER_GROUP, 1), _MOST_GROUPS)

    @cached_property
    def _group(self) -> Ints:
        """The group of each row, by the number of known answers of its query.

        A model may do worse on queries with many answers, of which also many are missing. So groups of queries with
        different numbers of answers have separate distributions, if there are enough rows.
        """
        number, known = self.num_groups, self.answers.known
        group = np.searchsorted(np.quantile(known, np.arange(1, number) / number), known, side="left")
        return np.unique(group, return_inverse=True)[1]

    @cached_property
    def _possible(self) -> ClosedRanks:
        selection = MissingSelection(self.missing_share, self.odds)
        return ClosedRanks.of(self.answers, self.counts, selection, self._group)

    def _fitted(self, counts: MissingCounts, weight: Floats) -> Callable[[Floats], tuple[Floats, Floats]]:
        """Fit the distributions to weighted rows; return a function from quantiles to missing answers and weights."""
        possible = self._possible.given(counts)
        # Answers of one query are dependent, so they count less than as many queries would.
        share = weight / np.sqrt(self.answers.held_out)
        share *= (np.bincount(self._group) / np.bincount(self._group, weights=share))[self._group]
        cumulative = np.cumsum(possible.posterior(possible.distribution(share)))
        last = np.append(possible.starts[1:], len(cumulative)) - 1
        before = np.concatenate([[0.0], cumulative])[possible.starts]

        def drawn(quantile: Floats) -> tuple[Floats, Floats]:
            order, cell = possible.order, possible.cell
            entry = np.empty(len(cell), dtype=np.int64)
            # Searching in the order of the cells reads memory in order, which is several times faster.
            entry[order] = np.searchsorted(cumulative, (before[cell] + quantile)[order], side="right")
            entry = np.clip(entry, possible.starts[cell], last[cell])
            return possible.missing[entry], possible.weight(entry)

        return drawn

    def _completed(self, counts: MissingCounts, missing: Floats, weight: Floats) -> Ranks:
        ranks = self.answers.ranks
        rank = np.maximum(ranks.rank - missing, 1.0)
        candidates = np.maximum(ranks.candidates - np.round(counts.mean), np.ceil(rank)).astype(np.int64)
        table = ranks.to_arrow()
        for name, values in (("rank", rank), ("candidates", candidates)):
            table = table.set_column(table.column_names.index(name), name, pa.array(values))
        return Ranks(table.append_column(WEIGHT, pa.array(weight)), ranks.info, validate=False)


_FEW_KNOWN = 0.25
_FEW_TOGETHER = 0.2
_FEW_ROWS = 300


@dataclass(frozen=True)
class Assumptions:
    """Assumptions about missing triples.

    Attributes:
        rates: The missing rate, or its lowest, middle and highest value.
        odds: Odds of being missing of the last answer of a query over those of the first.
        held_out: Share of the known triples that is held out, if it is used to estimate the missing answers.
    """

    rates: tuple[float, ...]
    odds: float = 1.0
    held_out: float | None = None

    @classmethod
    def of(cls, ranks: Ranks, rates: tuple[float, ...], odds: float, held_out: float | None) -> Assumptions:
        """Check the arguments; by default, read ``held_out`` from the metadata of the ranks.

        Raises:
            UsageError: A number is out of range.
        """
        for rate in rates:
            check_rate(rate)
        if list(rates) != sorted(rates):
            raise UsageError(f"missing rates from {rates[0]} to {rates[-1]}", remedy="give the lowest first")
        check_odds(odds)
        if held_out is not None and not 0 < held_out <= 1:
            remedy = "it is a share of the known triples: above 0, at most 1"
            raise UsageError(f"the held-out share is {held_out}", remedy=remedy)
        return cls(rates, odds, _held_out(ranks) if held_out is None else held_out)

    @property
    def _how(self) -> str:
        if self.odds == 1:
            return "independently of its rank"
        return f"with {self.odds:g} times the odds for the answer that a model ranks last as for its first"

    def remarks(self, answers: HeldOut) -> list[str]:
        """The assumptions and their limits, one sentence each."""
        middle = Completion(answers, self.rates[len(self.rates) // 2], self.odds, self.held_out)
        known = 1 - middle.missing_share
        together = float((answers.held_out > 1).mean())
        said = [
            f"each true triple is missing with probability {_span(self.rates)}, {self._how}",
            f"so {middle.missing_share:.0%} of the answers that are not in train are missing, "
            f"{middle.counts.mean.mean():.1f} per target",
        ]
        if middle.num_groups == 1:
            said.append("models are assumed to rank answers of queries with many and with few answers equally well")
        if known < _FEW_KNOWN:
            said.append("few of the unseen answers are known: the estimate depends more on assumptions than on ranks")
        if len(answers.ranks) < _FEW_ROWS and middle.missing_share:
            said.append(f"with only {len(answers.ranks)} ranks, the estimate and its interval are rough")
        if together < _FEW_TOGETHER and middle.missing_share:
            said.append(
                f"only {together:.0%} of the targets have another held-out answer of the same query, "
                "from which the ranks of missing answers are inferred"
            )
        return said


def _held_out(ranks: Ranks) -> float | None:
    """The recorded share of known triples that is held out, if queries were chosen by their held-out answers."""
    world = ranks.info.world
    if world is None or world.sides != "tail" or world.train_share is None:
        return None
    return 1 - world.train_share if 0 < world.train_share < 1 else None


def _span(rates: tuple[float, ...]) -> str:
    return f"{rates[0]:g}" if len(rates) == 1 else f"{rates[0]:g} to {rates[-1]:g}"
