"""Distribution of the closed-world ranks of a table given its open-world ranks, estimated by EM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammaln

from kgprobe.arrays import AnyInts, Floats, Ints, pair_keys, run_starts
from kgprobe.openworld.missing_answers import HeldOut, MissingCounts, MissingSelection

_POSITIONS, _NODES = 6, 4  # bins of the position of an answer among those of its query, and quadrature nodes of each
# Numbers of missing and of false answers are distinguished up to here, then binned with widths growing by the factor.
_WHOLE_MISSING, _MISSING_STEP = 24, 1.15
_WHOLE_FALSE, _FALSE_STEP = 24, 1.25
_NEGLIGIBLE = 1e-6
_BORROWED = 1.0  # weight of the pooled distribution in the distribution of each position bin, in answers
_DISCOUNT = 0.6  # subtracted from the answers of each bin; without it, the mass of a sharp peak leaks into other bins
_FEWEST = 1e-9
_STEPS = 100  # EM steps
_ROWS_AT_ONCE = 4096


class _Prior:
    """Prior probabilities of the missing answers before a target and of its position, before its rank is known.

    They are equal for all rows of a kind: the rows whose queries have the same numbers of known and held-out answers,
    with the same number of held-out answers before the target.

    Attributes:
        kind: The kind of each row; sorted by the number of known answers.
        low: Lowest number of each bin of missing answers.
        middle: Middle of each bin.
        weight: For each position bin, the weight of a known answer there.
    """

    def __init__(self, answers: HeldOut, counts: MissingCounts, selection: MissingSelection) -> None:
        nodes = (np.arange(_POSITIONS * _NODES) + 0.5) / (_POSITIONS * _NODES)
        _, self._row_of_known, known = np.unique(answers.known, return_index=True, return_inverse=True)
        most = int(answers.held_out.max()) + 1
        pairs, pair = np.unique(pair_keys(answers.above, answers.held_out, most), return_inverse=True)
        kinds, self.kind = np.unique(pair_keys(known, pair, len(pairs)), return_inverse=True)
        self._known_of_kind, pair_of_kind = np.divmod(kinds, len(pairs))
        position = _position_given_held_out(*np.divmod(pairs, most), selection, nodes)
        self._position = position.reshape(-1, _POSITIONS, _NODES)[pair_of_kind]
        self._missing_before = selection.missing_before(nodes)
        self.low, self.middle, self._size = _bins_of_missing(counts)
        self.weight = selection.weight(nodes).reshape(_POSITIONS, _NODES).mean(axis=1)

    def tables(self, counts: MissingCounts) -> Iterator[tuple[slice, Floats]]:
        """Slices of the kinds, each with its probabilities [kind, bin of missing answers, position bin]."""
        first = self._row_of_known
        mean, variance = counts.mean[first], counts.variance[first]
        before = _missing_before(mean, variance, self.middle, self._size, self._missing_before)
        before = before.reshape(*before.shape[:2], _POSITIONS, _NODES).transpose(0, 2, 3, 1)
        ends = np.append(run_starts(self._known_of_kind), len(self._known_of_kind)).tolist()
        for known, (start, stop) in enumerate(pairwise(ends)):
            for begin in range(start, stop, _ROWS_AT_ONCE):
                kinds = slice(begin, min(begin + _ROWS_AT_ONCE, stop))
                product = self._position[kinds].transpose(1, 0, 2) @ before[known]
                yield kinds, product.transpose(1, 2, 0)


@dataclass(frozen=True, eq=False)
class ClosedRanks:
    """Possible explanations of the open-world ranks of a table, with their prior probabilities.

    A target at open-world rank r has r - 1 candidates before it: j missing answers, and false ones. Which answers of a
    query are held out or missing is independent of their position (or depends on it as `MissingSelection` says). So the
    position u of the target among the answers has a beta distribution given the held-out answers before it, and j is a
    binomial share of the missing answers. The number of false answers before the target may depend on u, but not on the
    number of answers; its distribution is estimated from all rows of a group by expectation maximisation (EM).

    Rows with equal data form a cell. The entries of a cell are the possible pairs of j and a position bin. An outcome
    is a group, a bin of the number of false answers, and a position bin. EM sees only outcomes, so it runs on a sparse
    matrix of cells x outcomes, which has far fewer numbers than there are entries.

    Attributes:
        cell: The cell of each row.
        order: The rows in the order of their cells.
        starts: The first entry of each cell.
        missing: For each entry, the number of missing answers before the target.
        position: For each entry, the position bin.
        likely: For each entry, its prior probability.
        outcome: For each entry, the index of its outcome.
        width: For each outcome, how many numbers of false answers its bin holds.
        groups: Number of groups.
    """

    cell: Ints
    order: Ints
    starts: Ints
    missing: Floats
    position: AnyInts
    likely: Floats
    outcome: AnyInts
    width: Floats
    groups: int
    _prior: _Prior
    _kind_of_cell: Ints
    _in_table: AnyInts  # for each entry, its place in the table of the prior that has its kind
    _summands: Summands  # the entries of each element of the matrix

    @classmethod
    def of(
        cls, answers: HeldOut, counts: MissingCounts, selection: MissingSelection, group: Ints | None = None
    ) -> ClosedRanks:
        """The possible explanations of a table.

        Args:
            answers: The table.
            counts: Estimated numbers of missing answers of each row's query.
            selection: How being missing depends on the position.
            group: Index of the group of each row; rows with as many known answers are in one group.
        """
        prior = _Prior(answers, counts, selection)
        half_rank = np.round(2 * answers.ranks.rank).astype(np.int64)
        most = int(half_rank.max()) + 1
        cells, row, cell = np.unique(pair_keys(prior.kind, half_rank, most), return_index=True, return_inverse=True)
        kind, left = cells // most, cells % most / 2 - 1
        own_group = np.zeros_like(kind) if group is None else group[row]
        first_false, width = _bins_of_false(float(answers.ranks.candidates.max()))
        parts = []
        for kinds, table in prior.tables(counts):
            start, stop = np.searchsorted(kind, [kinds.start, kinds.stop]).tolist()
            for begin in range(start, stop, _ROWS_AT_ONCE):
                some = slice(begin, min(begin + _ROWS_AT_ONCE, stop))
                likely = table[kind[some] - kinds.start] * (prior.low <= left[some, None])[:, :, None]
                likely /= np.maximum(likely.sum(axis=(1, 2), keepdims=True), 1e-300)
                own, j, position = np.nonzero(likely > _NEGLIGIBLE)
                place = np.ravel_multi_index((kind[some][own] - kinds.start, j, position), table.shape)
                own += begin
                number = np.minimum(prior.middle[j], np.floor(left[own]))
                false = np.searchsorted(first_false, np.floor(left[own] - number), side="right") - 1
                outcome = (own_group[own] * len(width) + false) * _POSITIONS + position
                parts.append((own, number, position.astype(np.int8), outcome.astype(np.int32), place.astype(np.int32)))
        own, number, position, outcome, place = (np.concatenate(column) for column in zip(*parts, strict=True))
        groups = int(own_group.max()) + 1
        possible = cls(
            cell=cell,
            order=np.argsort(cell),
            starts=run_starts(own),
            missing=number,
            position=position,
            likely=np.empty(len(own)),
            outcome=outcome,
            width=np.tile(np.repeat(width, _POSITIONS).astype(float), groups),
            groups=groups,
            _prior=prior,
            _kind_of_cell=kind,
            _in_table=place,
            _summands=Summands.of(own, outcome),
        )
        return possible.given(counts)

    def given(self, counts: MissingCounts) -> ClosedRanks:
        """The same explanations, with their prior probabilities for other estimated numbers of missing answers."""
        likely = np.empty_like(self.likely)
        ends = np.append(self.starts, len(likely))
        for kinds, table in self._prior.tables(counts):
            own = slice(*ends[np.searchsorted(self._kind_of_cell, [kinds.start, kinds.stop])].tolist())
            likely[own] = table.ravel()[self._in_table[own]]
        likely /= np.repeat(np.maximum(np.add.reduceat(likely, self.starts), 1e-300), self._entries)
        return replace(self, likely=likely)

    @property
    def _entries(self) -> Ints:
        return np.diff(self.starts, append=len(self.likely))

    def weight(self, entry: Ints) -> Floats:
        """The weight of a known answer at the position of each of these entries."""
        return np.asarray(self._prior.weight[self.position[entry]])

    def posterior(self, distribution: Floats) -> Floats:
        """The posterior probability of every entry of a cell, given the distribution of outcomes."""
        joint = self.likely * (distribution / self.width)[self.outcome]
        total = np.add.reduceat(joint, self.starts)
        return np.asarray(joint / np.repeat(np.maximum(total, 1e-300), self._entries))

    def distribution(self, rows: Floats) -> Floats:
        """The distribution of outcomes in each group, estimated by EM.

        Args:
            rows: The weight of each row; the weights of a group sum to the number of its rows.
        """
        cells = np.bincount(self.cell, weights=rows, minlength=len(self.starts))
        matrix = self._summands.matrix(self.likely, (len(cells), len(self.width)))
        transposed = matrix.T
        distribution = self._smoothed(transposed @ cells)  # the prior as a first guess
        for _ in range(_STEPS):
            density = distribution / self.width
            total = np.maximum(matrix @ density, 1e-300)
            distribution = self._smoothed(density * (transposed @ (cells / total)))
        return distribution

    def _smoothed(self, answers: Floats) -> Floats:
        """For each position bin the distribution of false answers, smoothed with the pooled one of its group.

        Args:
            answers: The expected number of answers of each outcome.
        """
        found = answers.reshape(self.groups, -1, _POSITIONS)
        common = np.maximum(found.sum(axis=2, keepdims=True) - _DISCOUNT * _POSITIONS / 2, _FEWEST)
        found = np.maximum(found - _DISCOUNT, 0)
        borrowed = _BORROWED * common / common.sum(axis=1, keepdims=True)
        return np.asarray((found + borrowed) / (found.sum(axis=1, keepdims=True) + _BORROWED)).ravel()


@dataclass(frozen=True, eq=False)
class Summands:
    """The elements of a sparse matrix as sums of entries.

    Attributes:
        element: The element that each entry adds to.
        row_starts: The first element of each row.
        columns: The column of each element.

    Example:
        >>> summands = Summands.of(np.array([0, 0, 0, 1]), np.array([2, 0, 2, 1]))
        >>> summands.matrix(np.array([1.0, 2.0, 3.0, 4.0]), (2, 3)).toarray().tolist()
        [[2.0, 0.0, 4.0], [0.0, 4.0, 0.0]]
    """

    element: AnyInts
    row_starts: AnyInts
    columns: AnyInts

    @classmethod
    def of(cls, row: Ints, column: AnyInts) -> Summands:
        """From the row and the column of each entry."""
        size = int(column.max()) + 1
        keys, element = np.unique(pair_keys(row, column, size), return_inverse=True)
        starts = np.append(run_starts(keys // size), len(keys))
        return cls(element.astype(np.int32), starts.astype(np.int32), (keys % size).astype(np.int32))

    def matrix(self, values: Floats, shape: tuple[int, int]) -> csr_array:
        """The matrix, for a value of each entry."""
        data = np.bincount(self.element, weights=values, minlength=len(self.columns))
        return csr_array((data, self.columns, self.row_starts), shape=shape)


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
