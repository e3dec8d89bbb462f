"""An open rank table completed: the ranks that its targets might have if no answer were missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.openworld.estimate.answers import HeldOut
from kgprobe.openworld.estimate.closed_ranks import ClosedRanks
from kgprobe.openworld.estimate.missing import MissingCounts
from kgprobe.openworld.estimate.selection import Selection
from kgprobe.ranks import Ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WEIGHT = "stands_for"
"""The column of a completed table that says what a row stands for."""
_LAYERS = 32
"""So many ranks of each row, evenly spread over what is likely, stand for the whole of its law."""
_MANY = 2.0
"""So many standard deviations above their mean, missing answers are many."""
_ROWS_OF_A_LAW, _MOST_LAWS = 2_000, 8
"""So many rows are needed for a law of false answers, and so many laws are told apart at most."""
_GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class Completion:
    """What is known of the closed ranks of a table, for one missing rate.

    Attributes:
        answers: The held-out answers.
        rate: The share of all true facts that is missing.
        odds: How much likelier the last of a query's answers is missing than the first; see `Selection`.
        held_out: Which share of the known facts is held out. Where it is given, the answers that training has not seen
            tell alone how many of them are missing; else all known answers of a query do, which tells more, but not
            where queries were chosen for the number of their held-out answers.

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
        """How many answers of each row's query are missing."""
        return self._counts(np.ones(len(self.answers.ranks)))

    def _counts(self, weight: Floats) -> MissingCounts:
        if self.held_out is None:
            return MissingCounts.of(self.answers.known, self.rate, weight)
        unseen = self.rate + (1 - self.rate) * self.held_out
        return MissingCounts.of(self.answers.held_out, self.rate / unseen, weight)

    @cached_property
    def missing_share(self) -> float:
        """The share of the answers that training has not seen which are missing."""
        behind_each = 1 + self.counts.mean / self.answers.held_out
        return float(1 - 1 / behind_each.mean())

    def layers(self) -> Iterator[Ranks]:
        """Tables that together hold the likely closed ranks of every row."""
        rows = len(self.answers.ranks)
        if not self.missing_share:
            yield self._completed(self.counts, np.zeros(rows), np.ones(rows))
            return
        found = self._found(self.counts, np.ones(rows))
        # Rows that are alike are not drawn alike: their places within a layer differ by the golden ratio.
        offset = np.arange(rows) * _GOLDEN % 1
        for layer in range(_LAYERS):
            yield self._completed(self.counts, *found((layer + offset) / _LAYERS))

    def draw(self, shared: np.random.Generator, own: np.random.Generator) -> Ranks:
        """A table as it might be: other queries to learn from, other answers missing.

        Args:
            shared: Draws what all models have in common: which queries, and which answers, there are.
            own: Draws what is this model's own: where it puts the missing answers.
        """
        answers = self.answers
        queries = shared.exponential(size=answers.queries)[answers.query]
        if not self.missing_share:
            return self._completed(self.counts, np.zeros(len(queries)), np.ones(len(queries)))
        # The held-out answers are a sample without replacement of all: what it leaves to chance is this share.
        sampled = shared.gamma(1 / self.missing_share, self.missing_share, len(queries))
        counts = self._counts(queries)
        # The missing answers before one target are mostly those before the next: one number for a query.
        missing, weight = self._found(counts, queries)(own.random(answers.queries)[answers.query])
        return self._completed(counts, missing, weight * sampled)

    def at_most(self) -> Ranks:
        """The table if as many answers as may well be missing all stood before every target: the most they explain."""
        many = np.floor(self.counts.mean + _MANY * np.sqrt(self.counts.variance))
        missing = np.minimum(many, np.ceil(self.answers.ranks.rank) - 1)
        return self._completed(self.counts, missing, np.ones(len(missing)))

    @property
    def laws(self) -> int:
        """How many sizes of queries are told apart: there must be many rows for each."""
        return min(max(len(self.answers.ranks) // _ROWS_OF_A_LAW, 1), _MOST_LAWS)

    @cached_property
    def _groups(self) -> list[tuple[Ints, HeldOut]]:
        """Rows whose queries have about as many known answers, by number and as a part of the table."""
        number = self.laws
        known = self.answers.known
        group = np.searchsorted(np.quantile(known, np.arange(1, number) / number), known, side="left")
        return [(rows, self.answers.take(rows)) for rows in map(np.flatnonzero, group == np.unique(group)[:, None])]

    def _found(self, counts: MissingCounts, weight: Floats) -> Callable[[Floats], tuple[Floats, Floats]]:
        """Whence the closed ranks of rows of these weights are drawn.

        A model may do worse where answers are many, which is also where many are missing. So rows whose queries have
        different numbers of answers have laws of their own, as far as there are enough of them.
        """
        selection = Selection(self.missing_share, self.odds)
        drawings = [(rows, _drawing(part, counts.take(rows), selection, weight[rows])) for rows, part in self._groups]

        def drawn(chance: Floats) -> tuple[Floats, Floats]:
            missing, stands_for = np.empty_like(chance), np.empty_like(chance)
            for rows, drawing in drawings:
                missing[rows], stands_for[rows] = drawing(chance[rows])
            return missing, stands_for

        return drawn

    def _completed(self, counts: MissingCounts, missing: Floats, weight: Floats) -> Ranks:
        ranks = self.answers.ranks
        rank = np.maximum(ranks.rank - missing, 1.0)
        candidates = np.maximum(ranks.candidates - np.round(counts.mean), np.ceil(rank)).astype(np.int64)
        table = ranks.to_arrow()
        for name, values in (("rank", rank), ("candidates", candidates)):
            table = table.set_column(table.column_names.index(name), name, pa.array(values))
        return Ranks(table.append_column(WEIGHT, pa.array(weight)), ranks.info, validate=False)


def _drawing(answers: HeldOut, counts: MissingCounts, selection: Selection, weight: Floats) -> Drawing:
    possible = ClosedRanks.of(answers, counts, selection)
    # Answers of one query go wrong together, so that many of them say less than as many queries would.
    spread = weight / np.sqrt(answers.held_out)
    return Drawing(possible, possible.law(spread * len(spread) / spread.sum()))


class Drawing:
    """Turns numbers from 0 to 1, one for each row, into missing answers before its target and what it stands for."""

    def __init__(self, possible: ClosedRanks, law: Floats) -> None:
        self._possible = possible
        self._cumulative = np.cumsum(possible.posterior(law))
        self._before = np.concatenate([[0.0], self._cumulative])[possible.starts]
        self._last = np.append(possible.starts[1:], len(self._cumulative)) - 1

    def __call__(self, chance: Floats) -> tuple[Floats, Floats]:
        """The larger the number, the more missing answers stand before the target."""
        possible, cell = self._possible, self._possible.cell
        entry = np.searchsorted(self._cumulative, self._before[cell] + chance, side="right")
        entry = np.clip(entry, possible.starts[cell], self._last[cell])
        return possible.missing[entry], possible.weight[possible.place[entry]]
