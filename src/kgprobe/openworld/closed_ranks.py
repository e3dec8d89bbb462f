"""Closed-world ranks behind open-world ranks, drawn from their estimated distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from scipy.special import gammaln

from kgprobe.arrays import Floats, Ints
from kgprobe.errors import UsageError
from kgprobe.openworld.missing_answers import HeldOut, MissingCounts, MissingSelection, check_odds, check_rate
from kgprobe.ranks import Ranks

_PLACES, _NODES = 6, 4

"""Places of an answer among those of its query that have a law of their own, and points at which each is evaluated."""

_WHOLE_MISSING, _MISSING_STEP = 24, 1.15

_WHOLE_FALSE, _FALSE_STEP = 24, 1.25

"""Up to here numbers of missing and of false answers are kept apart, then they are taken together in growing steps."""

_NEGLIGIBLE = 1e-6
_BORROWED = 1.0  # so many answers' worth of the law of all places goes into the law of each
# So many answers in a class may be there by chance; without the discount, a law with one sharp peak leaks from it.
_DISCOUNT = 0.6
_FEWEST = 1e-9
_STEPS = 100  # steps of expectation and maximisation
_CELLS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class ClosedRanks:
    """All that may lie behind the open ranks of a table, and how likely it is before the ranks are looked at.

    A target at open rank r has r - 1 candidates before it. j of them are missing answers, and the others are false. The
    answers of a query are in random order: which of them are held out, and which are missing, is independent of where
    they stand (or depends on it as `Selection` says). So if the target stands at place u among the answers, u has a
    beta law given the held-out answers before it, and j is a binomial share of the missing ones. The number of false
    answers before the target may depend on u in any way, but not on how many answers the query has, and that law is
    estimated from all rows by expectation and maximisation.

    Rows that have everything in common are one cell. Entries are the numbers j, and places, that a cell may have.

    Attributes:
        rank: The open rank of each row.
        cell: The cell of each row.
        starts: The first entry of each cell.
        missing: For each entry, the number of missing answers before the target.
        place: For each entry, the part of the places.
        likely: For each entry, its probability before the rank is looked at.
        outcome: For each entry, number of the pair of place and class of false answers.
        width: How many numbers of false answers a class holds.
        weight: For each place, what a known answer there stands for.
    """

    rank: Floats
    cell: Ints
    starts: Ints
    missing: Floats
    place: Ints
    likely: Floats
    outcome: Ints
    width: Floats
    weight: Floats

    @classmethod
    def of(cls, answers: HeldOut, counts: MissingCounts, selection: MissingSelection) -> ClosedRanks:
        """Lay out what is possible for each row."""
        nodes = (np.arange(_PLACES * _NODES) + 0.5) / (_PLACES * _NODES)
        half_rank = np.round(2 * answers.ranks.rank).astype(np.int64)
        _, first, which_known = np.unique(answers.known, return_index=True, return_inverse=True)
        pairs, which_pair = np.unique(np.stack([answers.above, answers.held_out]), axis=1, return_inverse=True)
        cells, cell = np.unique(
            np.stack([which_known.ravel(), which_pair.ravel(), half_rank]), axis=1, return_inverse=True
        )
        low, middle, size = _classes_of_missing(counts)
        before = _missing_before(
            counts.mean[first], counts.variance[first], middle, size, selection.missing_before(nodes)
        )
        places = _place_given_held_out(pairs[0], pairs[1], selection, nodes)
        return cls._of_cells(cells, cell.ravel(), before, places, low, middle, answers, selection.weight(nodes))

    @classmethod
    def _of_cells(
        cls,
        cells: Ints,
        cell: Ints,
        before: Floats,
        places: Floats,
        low: Floats,
        middle: Floats,
        answers: HeldOut,
        weight: Floats,
    ) -> ClosedRanks:
        first_false, width = _classes_of_false(float(answers.ranks.candidates.max()))
        parts = []
        for start in range(0, cells.shape[1], _CELLS_AT_ONCE):
            some = cells[:, start : start + _CELLS_AT_ONCE]
            joint = before[some[0]] * places[some[1]][:, None, :]
            likely = joint.reshape(*joint.shape[:2], _PLACES, _NODES).sum(axis=3)
            left = some[2][:, None] / 2 - 1
            likely *= (low <= left)[:, :, None]
            likely /= np.maximum(likely.sum(axis=(1, 2), keepdims=True), 1e-300)
            own, j, place = np.nonzero(likely > _NEGLIGIBLE)
            number = np.minimum(middle[j], np.floor(left[own, 0]))
            false = np.searchsorted(first_false, np.floor(left[own, 0] - number), side="right") - 1
            parts.append((own + start, number, place, likely[own, j, place], false * _PLACES + place))
        own, number, place, likely, outcome = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(
            rank=answers.ranks.rank,
            cell=cell,
            starts=np.searchsorted(own, np.arange(cells.shape[1])),
            missing=number,
            place=place,
            likely=likely,
            outcome=outcome,
            width=np.repeat(width, _PLACES).astype(float),
            weight=weight.reshape(_PLACES, _NODES).mean(axis=1),
        )

    @property
    def _entries(self) -> Ints:
        """How many entries each cell has."""
        return np.diff(self.starts, append=len(self.likely))

    def posterior(self, law: Floats) -> Floats:
        """The probability of every entry of a cell, once the rank is looked at."""
        joint = self.likely * (law / self.width)[self.outcome]
        total = np.add.reduceat(joint, self.starts)
        return np.asarray(joint / np.repeat(np.maximum(total, 1e-300), self._entries))

    def law(self, rows: Floats) -> Floats:
        """The law of outcomes, found by expectation and maximisation.

        Args:
            rows: The weight of each row; as many in all as there are rows.
        """
        cells = np.repeat(np.bincount(self.cell, weights=rows, minlength=len(self.starts)), self._entries)
        law = self._law(self.likely * cells)  # as if the rank said nothing about the missing answers before a target
        for _ in range(_STEPS):
            law = self._law(self.posterior(law) * cells)
        return law

    def _law(self, weight: Floats) -> Floats:
        """For each place the law of false answers, with a little of what all places have in common."""
        found = np.bincount(self.outcome, weights=weight, minlength=len(self.width)).reshape(-1, _PLACES)
        common = np.maximum(found.sum(axis=1, keepdims=True) - _DISCOUNT * _PLACES / 2, _FEWEST)
        found = np.maximum(found - _DISCOUNT, 0)
        law = (found + _BORROWED * common / common.sum()) / (found.sum(axis=0) + _BORROWED)
        return np.asarray(law.ravel())


def _classes_of_missing(counts: MissingCounts) -> tuple[Floats, Floats, Floats]:
    """Lowest, middle and size of the classes of numbers of missing answers."""
    most = float((counts.mean + 6 * np.sqrt(counts.variance) + 3).max(initial=0))
    low = _steps(_WHOLE_MISSING, _MISSING_STEP, most)
    size = np.diff(low, append=low[-1] + 1)
    return low, low + (size - 1) / 2, size


def _classes_of_false(candidates: float) -> tuple[Floats, Floats]:
    """Lowest and size of the classes of numbers of false answers."""
    low = _steps(_WHOLE_FALSE, _FALSE_STEP, candidates)
    return low, np.diff(low, append=low[-1] * _FALSE_STEP + 1)


def _steps(whole: int, factor: float, most: float) -> Floats:
    steps = list(range(whole))
    while steps[-1] < most:
        steps.append(int(np.ceil(steps[-1] * factor)))
    return np.array(steps, dtype=float)


def _missing_before(mean: Floats, variance: Floats, number: Floats, size: Floats, share: Floats) -> Floats:
    """The law of the number of missing answers before a target: [count, number, place].

    The missing answers of a query have a negative binomial law of this mean and variance, or a Poisson law where that
    is as narrow; a share of them is of the same kind.
    """
    mean = np.maximum(mean, _FEWEST)
    shape = (mean**2 / np.maximum(variance - mean, 1e-6 * mean))[:, None, None]
    ratio = mean[:, None, None] / shape * share
    j = number[None, :, None]
    log = (
        gammaln(shape + j) - gammaln(shape) - gammaln(j + 1) + j * np.log(ratio / (1 + ratio)) - shape * np.log1p(ratio)
    )
    law = np.exp(log) * size[None, :, None]
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def _place_given_held_out(above: Ints, held_out: Ints, selection: MissingSelection, nodes: Floats) -> Floats:
    """The law of the place of a target with so many held-out answers before it, of so many in all: [pair, place]."""
    before, below = np.log(selection.known_before(nodes)), np.log1p(-selection.known_before(nodes))
    log = above[:, None] * before + (held_out - 1 - above)[:, None] * below - np.log(selection.weight(nodes))
    law = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(law / law.sum(axis=1, keepdims=True))


WEIGHT = "stands_for"  # the column of a completed table that says what a row stands for

_LAYERS = 32  # so many ranks of each row, evenly spread over what is likely, stand for the whole of its law
_MANY = 2.0  # so many standard deviations above their mean, missing answers are many

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
        selection = MissingSelection(self.missing_share, self.odds)
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


def _drawing(answers: HeldOut, counts: MissingCounts, selection: MissingSelection, weight: Floats) -> Drawing:
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


_FEW_KNOWN = 0.25
_FEW_TOGETHER = 0.2
_FEW_ROWS = 300


@dataclass(frozen=True)
class Assumptions:
    """What is assumed about missing facts.

    Attributes:
        rates: The share of all true facts that is missing, or the lowest, a middle and the highest that it may be.
        odds: How much likelier the last of a query's answers is missing than the first.
        held_out: The share of the known facts that is held out, where it tells how many answers are missing.
    """

    rates: tuple[float, ...]
    odds: float = 1.0
    held_out: float | None = None

    @classmethod
    def of(cls, ranks: Ranks, rates: tuple[float, ...], odds: float, held_out: float | None) -> Assumptions:
        """Check them, and read off a rank table what is not given.

        Raises:
            UsageError: A number is impossible.
        """
        for rate in rates:
            check_rate(rate)
        if list(rates) != sorted(rates):
            raise UsageError(f"missing rates from {rates[0]} to {rates[-1]}", remedy="give the lowest first")
        check_odds(odds)
        if held_out is not None and not 0 < held_out <= 1:
            raise UsageError(
                f"the held-out share is {held_out}", remedy="it is a share of the known facts: above 0, at most 1"
            )
        return cls(rates, odds, _held_out(ranks) if held_out is None else held_out)

    @property
    def _how(self) -> str:
        if self.odds == 1:
            return "whatever a model says of it"
        return f"but the odds of the answer that a model ranks last are {self.odds:g} times those of its first"

    def remarks(self, answers: HeldOut) -> list[str]:
        """What to bear in mind, one sentence each."""
        middle = Completion(answers, self.rates[len(self.rates) // 2], self.odds, self.held_out)
        known = 1 - middle.missing_share
        together = float((answers.held_out > 1).mean())
        said = [
            f"each true fact is missing with probability {_span(self.rates)}, {self._how}",
            f"so {middle.missing_share:.0%} of the answers that training has not seen are missing, "
            f"{middle.counts.mean.mean():.1f} for a target",
        ]
        if middle.laws == 1:
            said.append("a model is taken to rank answers of queries with many and with few answers equally well")
        if known < _FEW_KNOWN:
            said.append(
                "few of the unseen answers are known: the estimate rests more on its assumptions than on the ranks"
            )
        if len(answers.ranks) < _FEW_ROWS and middle.missing_share:
            said.append(
                f"{len(answers.ranks)} ranks are few to learn from: the estimate is rough, and so is its interval"
            )
        if together < _FEW_TOGETHER and middle.missing_share:
            said.append(
                f"only {together:.0%} of the targets have another held-out answer beside them, "
                "which tells where a model puts missing ones"
            )
        return said


def _held_out(ranks: Ranks) -> float | None:
    """The share of known facts that is held out, where queries were chosen for how many of their answers are."""
    settings = ranks.info.settings
    task, split = settings.get("task"), settings.get("split")
    if not isinstance(task, dict) or not isinstance(split, dict) or task.get("kind") != "tail":
        return None
    share = split.get("train_share")
    return 1 - share if isinstance(share, float) and 0 < share < 1 else None


def _span(rates: tuple[float, ...]) -> str:
    return f"{rates[0]:g}" if len(rates) == 1 else f"{rates[0]:g} to {rates[-1]:g}"
