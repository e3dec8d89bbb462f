"""PROBE over a grid of (alpha, beta) in one pass.

With X[a, i] = 1 - f*(r_i, a) and W[b, i] the weight of query i, the surface is 1 - X W' / sum(W): the weighted mean of
`Sums` and the f* of `AffinePower`, as a chunked matrix product. Powers of ranks and candidate counts are looked up in
tables of the values that occur, and a chunk of rows stays in the cache, so memory does not grow with the table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.aggregate.weighted_mean import Sums, Tie, no_alternatives, refuse_empty, tied_rank, tied_score
from kgprobe.aggregate.weights import LARGEST_BETA, Columns, PopularityWeight, log_weight, resolve_epsilon, settle
from kgprobe.arrays import Flags, Floats, Ints, distinct
from kgprobe.errors import UsageError
from kgprobe.graph import GraphLike, as_graph
from kgprobe.ranks import End, RankFile, Ranks, RanksLike, open_ranks, refuse_estimates, refuse_intervals, validate
from kgprobe.tables import Table, in_report
from kgprobe.transform import SO_SMALL_THAT_LINEAR, AffinePower

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_ALPHAS = (1.0, 0.5, 0.0, -0.5, -1.0)
PAPER_BETAS = (0.0, 0.2, 0.4, 0.6, 0.8)
"""The axes of the paper's tables."""

_MAX_EXPONENT = 600.0
"""Beyond this a power overflows, or a product of two does."""

_RESTART_EVERY = 32
"""After so many steps of the recurrence a row is computed directly, so that rounding errors do not accumulate."""

_BATCH, _CHUNK = 1 << 18, 2048
"""Rows that share their tables of powers, and rows whose part of a matrix product stays in the cache."""

_TABLE_ROWS = 1 << 16


class Surface(np.ndarray[tuple[int, int], np.dtype[np.float64]], Table):
    """The values, an array [alphas, betas], with its axes.

    Attributes:
        alphas: Predictive sharpness of each row.
        betas: Popularity-bias robustness of each column.
        effective: Effective number of queries for each beta (mean over seeds).
        left_out: Queries left out because they have a single candidate (the largest number of any seed).
    """

    alphas: Floats
    betas: Floats
    effective: Floats
    left_out: int

    def __array_finalize__(self, source: Any) -> None:
        for name in ("alphas", "betas", "effective", "left_out"):
            setattr(self, name, getattr(source, name, None))

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for every alpha and beta."""
        if not self._is_whole:
            raise UsageError("a part of a surface has no axes", remedy="use the surface itself")
        return [
            {"alpha": alpha, "beta": beta, "value": float(self[i, j]), "effective": float(self.effective[j])}
            for i, alpha in enumerate(self.alphas.tolist())
            for j, beta in enumerate(self.betas.tolist())
        ]

    def plot(self) -> Figure:
        """Draw the surface as a heat map with matplotlib."""
        figure: Figure = in_report("figures.plane_figures").draw_surface(self)
        return figure

    @property
    def _is_whole(self) -> bool:
        """Whether this is the result of `surface`, not a part or a number computed from it."""
        return self.alphas is not None and self.shape == (len(self.alphas), len(self.betas))

    def __repr__(self) -> str:
        if not self._is_whole:
            return repr(np.asarray(self))
        values = f"{float(np.nanmin(self)):.4f} to {float(np.nanmax(self)):.4f}"
        return f"Surface({len(self.alphas)} alphas x {len(self.betas)} betas, PROBE {values})"

    def _shown_rows(self) -> list[dict[str, Any]]:
        """One row for every alpha, with a column for every beta."""
        return [
            {"alpha": f"{alpha:g}", **{f"beta={beta:g}": float(self[i, j]) for j, beta in enumerate(self.betas)}}
            for i, alpha in enumerate(self.alphas)
        ]

    def _notes(self) -> list[str]:
        out = [f"{self.left_out:,} queries with a single candidate are left out."] if self.left_out else []
        effective = ", ".join(f"{number:,.0f}" for number in self.effective)
        return [f"Effective number of queries for each beta: {effective}.", *out]

    def _repr_html_(self) -> str:
        return super()._repr_html_() if self._is_whole else f"<pre>{escape(repr(self))}</pre>"


def surface(
    ranks: RanksLike,
    alphas: ArrayLike = PAPER_ALPHAS,
    betas: ArrayLike = PAPER_BETAS,
    *,
    graph: GraphLike | None = None,
    tie: Tie | str = Tie.mean,
    eps_e: float | None = None,
    eps_r: float | None = None,
    at: End | str | None = None,
) -> Surface:
    """PROBE(alpha, beta) for every alpha and beta; with several seeds, the mean over them.

    Ranks that are intervals are refused, unless ``at`` says which end of them to use.

    Args:
        ranks: A table, or a file or its path, which is streamed.
        alphas: Predictive sharpness; by default that of the paper's tables.
        betas: Popularity-bias robustness; by default that of the paper's tables.
        graph: Gives the popularity of the targets; without it, the table's own columns are used.
        tie: How ties are scored: ``mean``, ``expected``, ``optimistic`` or ``pessimistic``.
        eps_e: Epsilon of the entity popularity; by default the smallest popularity above 0.
        eps_r: Epsilon of the relation popularity.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken.

    Example:
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5],
        ...     entity_popularity=[0.5, 0.1], relation_popularity=[1.0, 0.5],
        ... )
        >>> surface(ranks, [1.0, 0.0], [0.0, 1.0]).round(4).tolist()
        [[0.6875, 0.4886], [0.7847, 0.6476]]
    """
    alpha, beta, tie = grid_axis("alphas", alphas), grid_axis("betas", betas), Tie(tie)
    if not (np.abs(beta) <= LARGEST_BETA).all():
        raise UsageError(f"betas must be finite, and at most {LARGEST_BETA:g}")
    known, opened = as_graph(graph), open_ranks(ranks)
    if isinstance(opened, RankFile) or known is not None:  # a table is valid since it was made
        validate(opened, known)
    refuse_empty(opened)
    opened = opened if at is None else End(at).of(opened)
    refuse_intervals(opened)
    refuse_estimates(opened)
    table = opened if known is None else opened.with_popularity(known.popularity)
    popularity = _Popularity.of(table, beta, eps_e, eps_r) if (beta != 0).any() else None
    totals: dict[int, list[Floats]] = {}
    left_out: Counter[int] = Counter()
    for batch in table.batches(_BATCH):
        counted = batch.candidates > 1
        left_out.update({seed: len(rows) for seed, rows in _by_seed(batch, ~counted)})
        for seed, rows in _by_seed(batch, counted):
            part = _Kernel(rows, alpha, beta, tie, popularity and popularity.of_seed(seed)).sums()
            totals[seed] = [a + b for a, b in zip(totals[seed], part, strict=True)] if seed in totals else part
    if not totals:
        raise no_alternatives()
    seeds = [Sums(weight, squared, score=product) for weight, squared, product in totals.values()]
    result: Surface = np.mean([1 - sums.mean for sums in seeds], axis=0).view(Surface)
    result.alphas, result.betas, result.left_out = alpha, beta, max(left_out.values(), default=0)
    result.effective = np.mean([sums.effective for sums in seeds], axis=0)
    return result


def grid_axis(name: str, values: ArrayLike) -> Floats:
    """The values of an axis as a one-dimensional array; anything but numbers is refused."""
    try:
        axis = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        axis = np.array([np.nan])
    if axis.ndim > 1 or axis.size == 0 or np.isnan(axis).any():
        raise UsageError(f"{name} must be a list of numbers")
    return axis


Limits = tuple[float, float]
"""The smallest and the largest log weight at beta 1."""


@dataclass(frozen=True)
class _Popularity:
    """The weighting at beta 1, with epsilon known, and limits of its log weight: of the whole table, or by seed."""

    weighting: PopularityWeight
    limits: Limits
    by_seed: Mapping[int, Limits] = field(default_factory=dict)

    @classmethod
    def of(cls, ranks: Ranks | RankFile, beta: Floats, eps_e: float | None, eps_r: float | None) -> _Popularity:
        (settled,) = settle(ranks, [(PopularityWeight(1.0, 1.0), 2)])
        reference = settled.reference
        if not len(reference["entity_popularity"]):
            raise no_alternatives()
        given = {"entity_popularity": eps_e, "relation_popularity": eps_r}
        eps = (resolve_epsilon(column, reference[column], own) for column, own in given.items())
        weighting = PopularityWeight(1.0, 1.0, *eps)
        found = cls(weighting, _limits(log_weight(reference, _all_of(reference), weighting.factors)))
        if np.abs(beta).max() * (found.limits[1] - found.limits[0]) <= _MAX_EXPONENT / 2:
            return found
        # Weights may vanish: use the limits that each run reaches, since the columns may never be extreme together.
        by_seed: dict[int, Limits] = {}
        for batch in ranks.batches():
            for seed, rows in _by_seed(batch, batch.candidates > 1):
                by_seed[seed] = _limits(found._logs(rows), *by_seed.get(seed, ()))
        return replace(found, by_seed=by_seed)

    def of_seed(self, seed: int) -> _Popularity:
        """The same weighting with the limits of one training run."""
        return replace(self, limits=self.by_seed.get(seed, self.limits))

    @property
    def span(self) -> float:
        """The difference between the largest and the smallest log weight."""
        return self.limits[1] - self.limits[0]

    def log_weights(self, ranks: Ranks) -> Floats:
        """The log weight at beta 1 of every query, relative to the largest."""
        return self._logs(ranks) - self.limits[1]

    def _logs(self, ranks: Ranks) -> Floats:
        columns = {column: ranks.numbers(column) for column in self.weighting.columns}
        return log_weight(columns, _all_of(columns), self.weighting.factors)


def _limits(logs: Floats, *known: float) -> Limits:
    return min([float(logs.min()), *known]), max([float(logs.max()), *known])


def _all_of(columns: Columns) -> Flags:
    return np.ones(len(columns["entity_popularity"]), dtype=bool)


def _by_seed(batch: Ranks, kept: Flags) -> Iterator[tuple[int, Ranks]]:
    if batch.seed is None and kept.all():
        yield 0, batch
        return
    seeds = np.zeros(len(batch), dtype=np.int64) if batch.seed is None else batch.seed
    for seed in np.unique(seeds[kept]).tolist():
        yield seed, batch.filter(kept & (seeds == seed))


class _Kernel:
    """Tables of powers of all values that occur, so that a chunk costs a few look-ups and a matrix product."""

    def __init__(self, ranks: Ranks, alpha: Floats, beta: Floats, tie: Tie, popularity: _Popularity | None) -> None:
        alpha = np.where(np.abs(alpha) < SO_SMALL_THAT_LINEAR, 0.0, alpha)
        each_rank, self.rank = _indexed(tied_rank(ranks, tie))
        each_size, self.size = _indexed(ranks.candidates)
        largest = math.log(each_size.max())
        overflows = np.isinf(alpha) | (np.abs(alpha) > _MAX_EXPONENT / largest if largest else False)
        direct = np.flatnonzero(overflows | (tie is Tie.expected)).tolist()
        self.direct = {i: 1 - tied_score(AffinePower(float(alpha[i])), ranks, tie) for i in direct}
        # NaN and inf in these tables belong to an alpha that is computed directly, or to values that do not occur.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            self.gain = _powers_less_one(each_rank, alpha)
            self.scale = 1 / _powers_less_one(each_size, alpha)
        self.weight_powers = Powers(beta)
        self.log_weights = popularity.log_weights(ranks) if popularity else np.zeros(len(ranks))
        # Relative to the largest weight in the table, only the weights of a negative beta can overflow.
        self.log_heaviest = np.maximum(-beta, 0) * (popularity.span if popularity else 0.0)

    def sums(self) -> list[Floats]:
        """The sums of W, of W squared and of X W' over the table.

        One thread: the chunks are so small that threads would wait for each other longer than they work.
        """
        alphas, betas = self.gain.shape[1], self.log_heaviest.size
        x, scale, w = np.empty((_CHUNK, alphas)), np.empty((_CHUNK, alphas)), np.empty((betas, _CHUNK))
        product, weight, squared = np.zeros((alphas, betas)), np.zeros(betas), np.zeros(betas)
        ones = np.ones(_CHUNK)
        for start in range(0, len(self.rank), _CHUNK):
            rows = slice(start, min(start + _CHUNK, len(self.rank)))
            size = rows.stop - rows.start
            X, S, W = x[:size], scale[:size], w[:, :size]
            np.take(self.gain, self.rank[rows], axis=0, out=X, mode="clip")
            np.take(self.scale, self.size[rows], axis=0, out=S, mode="clip")
            with np.errstate(over="ignore", invalid="ignore"):  # the columns that overflow are overwritten
                X *= S
            for i, values in self.direct.items():
                X[:, i] = values[rows]
            self._weights(rows, W)
            product += X.T @ W.T
            weight += W @ ones[:size]
            squared += np.einsum("bi,bi->b", W, W)
        return [weight, squared, product]

    def _weights(self, rows: slice, W: Floats) -> None:
        if self.log_heaviest.max() < _MAX_EXPONENT / 2:  # so that the squares do not overflow either
            self.weight_powers.fill(self.log_weights[rows], W)
        else:
            np.multiply.outer(self.weight_powers.exponents, self.log_weights[rows], out=W)
            np.exp(W - self.log_heaviest[:, None], out=W)


class Powers:
    """``base ** exponents[k]`` for many bases; over even steps each row is the previous one times a common factor."""

    def __init__(self, exponents: Floats) -> None:
        self.exponents = exponents
        self.largest = float(np.abs(exponents).max())
        steps = np.diff(exponents)
        self.even = len(exponents) > 2 and bool(np.abs(steps - steps[0]).max() <= 1e-14 * self.largest)

    def fill(self, log_base: Floats, out: Floats) -> None:
        """Write the powers into ``out``, an array [exponents, bases]."""
        # The recurrence cannot recover from an overflow or underflow.
        if not self.even or self.largest * np.abs(log_base).max() >= _MAX_EXPONENT:
            np.multiply.outer(self.exponents, log_base, out=out)
            np.exp(out, out=out)
            return
        factor = np.exp((self.exponents[1] - self.exponents[0]) * log_base)
        for k, exponent in enumerate(self.exponents):
            if k % _RESTART_EVERY == 0:
                np.exp(exponent * log_base, out=out[k])
            else:
                np.multiply(out[k - 1], factor, out=out[k])


def _indexed(values: Floats) -> tuple[Floats, Ints]:
    """All values that occur (and maybe others), and the index of each row's value."""
    doubled = 2 * values
    least, most = doubled.min(), doubled.max()
    if most - least < _TABLE_ROWS and (doubled == np.floor(doubled)).all():
        return (least + np.arange(most - least + 1)) / 2, (doubled - least).astype(np.int64)
    (found,), which = distinct([values], len(values))
    return found, which


def _powers_less_one(base: Floats, alpha: Floats) -> Floats:
    """``base ** -alpha - 1``, an array [bases, alphas]; for alpha 0 its limit after division by -alpha."""
    logs = np.log(base)
    result = np.expm1(np.multiply.outer(logs, -alpha))
    result[:, alpha == 0] = logs[:, None]
    return np.asarray(result)
