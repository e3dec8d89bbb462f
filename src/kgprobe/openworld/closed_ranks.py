"""Distribution of the closed-world ranks given open-world ranks, and random completions of a rank table."""

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

_POSITIONS, _NODES = 6, 4  # bins of the position of an answer among those of its query, and quadrature nodes of each
# Numbers of missing and of false answers are distinguished up to here, then binned with widths growing by the factor.
_WHOLE_MISSING, _MISSING_STEP = 24, 1.15
_WHOLE_FALSE, _FALSE_STEP = 24, 1.25
_NEGLIGIBLE = 1e-6
_BORROWED = 1.0  # weight of the pooled distribution in the distribution of each position bin, in answers
_DISCOUNT = 0.6  # subtracted from the answers of each bin; without it, the mass of a sharp peak leaks into other bins
_FEWEST = 1e-9
_STEPS = 100  # EM steps
_CELLS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class ClosedRanks:
    """Possible explanations of the open-world ranks of a table, with their prior probabilities.

    A target at open-world rank r has r - 1 candidates before it: j missing answers, and false ones. Which answers of a
    query are held out or missing is independent of their position (or depends on it as `MissingSelection` says). So the
    position u of the target among the answers has a beta distribution given the held-out answers before it, and j is a
    binomial share of the missing answers. The number of false answers before the target may depend on u, but not on the
    number of answers; its distribution is estimated from all rows by expectation maximisation (EM).

    Rows with equal data form a cell. The entries of a cell are the possible pairs of j and a position bin.

    Attributes:
        rank: The open-world rank of each row.
        cell: The cell of each row.
        starts: The first entry of each cell.
        missing: For each entry, the number of missing answers before the target.
        position: For each entry, the position bin.
        likely: For each entry, its prior probability.
        outcome: For each entry, the index of its pair of position bin and bin of the number of false answers.
        width: For each outcome, how many numbers of false answers its bin holds.
        weight: For each position bin, the weight of a known answer there.
    """

    rank: Floats
    cell: Ints
    starts: Ints
    missing: Floats
    position: Ints
    likely: Floats
    outcome: Ints
    width: Floats
    weight: Floats

    @classmethod
    def of(cls, answers: HeldOut, counts: MissingCounts, selection: MissingSelection) -> ClosedRanks:
        nodes = (np.arange(_POSITIONS * _NODES) + 0.5) / (_POSITIONS * _NODES)
        half_rank = np.round(2 * answers.ranks.rank).astype(np.int64)
        _, first, which_known = np.unique(answers.known, return_index=True, return_inverse=True)
        pairs, which_pair = np.unique(np.stack([answers.above, answers.held_out]), axis=1, return_inverse=True)
        data = np.stack([which_known.ravel(), which_pair.ravel(), half_rank])
        cells, cell = np.unique(data, axis=1, return_inverse=True)
        low, middle, size = _bins_of_missing(counts)
        missing_before = selection.missing_before(nodes)
        before = _missing_before(counts.mean[first], counts.variance[first], middle, size, missing_before)
        positions = _position_given_held_out(pairs[0], pairs[1], selection, nodes)
        first_false, width = _bins_of_false(float(answers.ranks.candidates.max()))
        parts = []
        for start in range(0, cells.shape[1], _CELLS_AT_ONCE):
            some = cells[:, start : start + _CELLS_AT_ONCE]
            joint = before[some[0]] * positions[some[1]][:, None, :]
            likely = joint.reshape(*joint.shape[:2], _POSITIONS, _NODES).sum(axis=3)
            left = some[2][:, None] / 2 - 1
            likely *= (low <= left)[:, :, None]
            likely /= np.maximum(likely.sum(axis=(1, 2), keepdims=True), 1e-300)
            own, j, position = np.nonzero(likely > _NEGLIGIBLE)
            number = np.minimum(middle[j], np.floor(left[own, 0]))
            false = np.searchsorted(first_false, np.floor(left[own, 0] - number), side="right") - 1
            parts.append((own + start, number, position, likely[own, j, position], false * _POSITIONS + position))
        own, number, position, likely, outcome = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(
            rank=answers.ranks.rank,
            cell=cell.ravel(),
            starts=np.searchsorted(own, np.arange(cells.shape[1])),
            missing=number,
            position=position,
            likely=likely,
            outcome=outcome,
            width=np.repeat(width, _POSITIONS).astype(float),
            weight=selection.weight(nodes).reshape(_POSITIONS, _NODES).mean(axis=1),
        )

    @property
    def _entries(self) -> Ints:
        return np.diff(self.starts, append=len(self.likely))

    def posterior(self, distribution: Floats) -> Floats:
        """The posterior probability of every entry of a cell, given the distribution of outcomes."""
        joint = self.likely * (distribution / self.width)[self.outcome]
        total = np.add.reduceat(joint, self.starts)
        return np.asarray(joint / np.repeat(np.maximum(total, 1e-300), self._entries))

    def distribution(self, rows: Floats) -> Floats:
        """The distribution of outcomes, estimated by EM.

        Args:
            rows: The weight of each row; the weights sum to the number of rows.
        """
        cells = np.repeat(np.bincount(self.cell, weights=rows, minlength=len(self.starts)), self._entries)
        distribution = self._distribution(self.likely * cells)  # the prior as a first guess
        for _ in range(_STEPS):
            distribution = self._distribution(self.posterior(distribution) * cells)
        return distribution

    def _distribution(self, weight: Floats) -> Floats:
        """For each position bin the distribution of false answers, smoothed with the pooled distribution."""
        found = np.bincount(self.outcome, weights=weight, minlength=len(self.width)).reshape(-1, _POSITIONS)
        common = np.maximum(found.sum(axis=1, keepdims=True) - _DISCOUNT * _POSITIONS / 2, _FEWEST)
        found = np.maximum(found - _DISCOUNT, 0)
        distribution = (found + _BORROWED * common / common.sum()) / (found.sum(axis=0) + _BORROWED)
        return np.asarray(distribution.ravel())


def _bins_of_missing(counts: MissingCounts) -> tuple[Floats, Floats, Floats]:
    """Lowest number, middle and size of the bins of numbers of missing answers."""
    most = float((counts.mean + 6 * np.sqrt(counts.variance) + 3).max(initial=0))
    low = _steps(_WHOLE_MISSING, _MISSING_STEP, most)
    size = np.diff(low, append=low[-1] + 1)
    return low, low + (size - 1) / 2, size


def _bins_of_false(candidates: float) -> tuple[Floats, Floats]:
    """Lowest number and size of the bins of numbers of false answers."""
    low = _steps(_WHOLE_FALSE, _FALSE_STEP, candidates)
    return low, np.diff(low, append=low[-1] * _FALSE_STEP + 1)


def _steps(whole: int, factor: float, most: float) -> Floats:
    steps = list(range(whole))
    while steps[-1] < most:
        steps.append(int(np.ceil(steps[-1] * factor)))
    return np.array(steps, dtype=float)


def _missing_before(mean: Floats, variance: Floats, number: Floats, size: Floats, share: Floats) -> Floats:
    """The distribution of the number of missing answers before a target: [count, number, position].

    The missing answers of a query are negative binomial with this mean and variance (Poisson if the variance is no
    larger than the mean), and so is a random share of them.
    """
    mean = np.maximum(mean, _FEWEST)
    shape = (mean**2 / np.maximum(variance - mean, 1e-6 * mean))[:, None, None]
    ratio = mean[:, None, None] / shape * share
    j = number[None, :, None]
    log = (
        gammaln(shape + j) - gammaln(shape) - gammaln(j + 1) + j * np.log(ratio / (1 + ratio)) - shape * np.log1p(ratio)
    )
    distribution = np.exp(log) * size[None, :, None]
    return np.asarray(distribution / distribution.sum(axis=1, keepdims=True))


def _position_given_held_out(above: Ints, held_out: Ints, selection: MissingSelection, nodes: Floats) -> Floats:
    """The distribution of the position of a target given the held-out answers before it and in all [pair, position]."""
    before, below = np.log(selection.known_before(nodes)), np.log1p(-selection.known_before(nodes))
    log = above[:, None] * before + (held_out - 1 - above)[:, None] * below - np.log(selection.weight(nodes))
    distribution = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(distribution / distribution.sum(axis=1, keepdims=True))


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
        return self._counts(np.ones(len(self.answers.ranks)))

    def _counts(self, weight: Floats) -> MissingCounts:
        if self.held_out is None:
            return MissingCounts.of(self.answers.known, self.rate, weight)
        unseen = self.rate + (1 - self.rate) * self.held_out
        return MissingCounts.of(self.answers.held_out, self.rate / unseen, weight)

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
        counts = self._counts(queries)
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
    def _groups(self) -> list[tuple[Ints, HeldOut]]:
        """Rows grouped by the number of known answers of their queries."""
        number = self.num_groups
        known = self.answers.known
        group = np.searchsorted(np.quantile(known, np.arange(1, number) / number), known, side="left")
        return [(rows, self.answers.take(rows)) for rows in map(np.flatnonzero, group == np.unique(group)[:, None])]

    def _fitted(self, counts: MissingCounts, weight: Floats) -> Callable[[Floats], tuple[Floats, Floats]]:
        """Fit the distributions to weighted rows; return a function from quantiles to missing answers and weights.

        A model may do worse on queries with many answers, of which also many are missing. So groups of queries with
        different numbers of answers have separate distributions, if there are enough rows.
        """
        selection = MissingSelection(self.missing_share, self.odds)
        posteriors = [
            (rows, _Posterior(part, counts.take(rows), selection, weight[rows])) for rows, part in self._groups
        ]

        def drawn(quantile: Floats) -> tuple[Floats, Floats]:
            missing, weight = np.empty_like(quantile), np.empty_like(quantile)
            for rows, posterior in posteriors:
                missing[rows], weight[rows] = posterior(quantile[rows])
            return missing, weight

        return drawn

    def _completed(self, counts: MissingCounts, missing: Floats, weight: Floats) -> Ranks:
        ranks = self.answers.ranks
        rank = np.maximum(ranks.rank - missing, 1.0)
        candidates = np.maximum(ranks.candidates - np.round(counts.mean), np.ceil(rank)).astype(np.int64)
        table = ranks.to_arrow()
        for name, values in (("rank", rank), ("candidates", candidates)):
            table = table.set_column(table.column_names.index(name), name, pa.array(values))
        return Ranks(table.append_column(WEIGHT, pa.array(weight)), ranks.info, validate=False)


class _Posterior:
    """Turns one quantile per row into the number of missing answers before its target and its weight."""

    def __init__(self, answers: HeldOut, counts: MissingCounts, selection: MissingSelection, weight: Floats) -> None:
        self._possible = possible = ClosedRanks.of(answers, counts, selection)
        # Answers of one query are dependent, so they count less than as many queries would.
        share = weight / np.sqrt(answers.held_out)
        distribution = possible.distribution(share * len(share) / share.sum())
        self._cumulative = np.cumsum(possible.posterior(distribution))
        self._before = np.concatenate([[0.0], self._cumulative])[possible.starts]
        self._last = np.append(possible.starts[1:], len(self._cumulative)) - 1

    def __call__(self, quantile: Floats) -> tuple[Floats, Floats]:
        possible, cell = self._possible, self._possible.cell
        entry = np.searchsorted(self._cumulative, self._before[cell] + quantile, side="right")
        entry = np.clip(entry, possible.starts[cell], self._last[cell])
        return possible.missing[entry], possible.weight[possible.position[entry]]


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
