"""Counts of candidates that beat or tie with targets, by fused kernels at rising levels of accuracy.

Dot products have two levels: bfloat16, and three products of halves, which are nearly as accurate as float32. Group
norms have one, float32. The unclear pairs of each level are settled by canonical scores. A row whose list of unclear
candidates is too short goes to the next level, and after the last one all of its pairs are settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from kgprobe.predict.backends import triton_kernels as kernels
from kgprobe.predict.backends.triton_backend import (
    COORDINATES,
    Compared,
    Rows,
    Tile,
    TritonBackend,
    padded_number,
    width_of,
)
from kgprobe.predict.scorers import MIXED_UNIT, Dot, Rounding, Similarity

_TINY = 2.0**-126

_LARGEST_SHARES = (2.0**-8, 2.0**-15)
"""The most that the first, and both, bfloat16 of a candidate may lose of its norm. Candidates that lose more, because
coordinates are subnormal, get a larger scale in the bound instead."""

_WORTH_SETTLING = 2.0**-8
"""The share of unclear pairs of a row up to which it takes less time to settle them than to compare the row again by
three products. Settling a pair takes as long as comparing 130 (of 64 coordinates) to 460 pairs (of 512) in bfloat16."""

_SAMPLE = 1024
"""Candidates by which the share of unclear pairs of a row is estimated."""

_BITS = 32
"""Candidates that an entry in a list of unclear candidates stands for."""

_BYTES_PER_LIST = 32
"""Bytes that a list takes beside its entries: its counts, copies of them, and an entry by which it is rounded up."""

_BOUNDS = 256
"""Bytes of the bounds of a target or of a candidate, while they are computed in float64."""


class Footprint(NamedTuple):
    """Bytes of the device that counting takes at most, beside the lists of unclear candidates.

    Attributes:
        query: For each distinct query.
        target: For each target.
        candidate: For each candidate of a range, with what is left of the range before it and the next one.
    """

    query: int
    target: int
    candidate: int

    @classmethod
    def of(cls, similarity: Similarity, dimension: int) -> Footprint:
        """Those of embeddings with so many coordinates."""
        exact = 4 * dimension
        other = 4 * padded_number(dimension, COORDINATES) if isinstance(similarity, Dot) else exact
        # Targets have copies for each level: those that begin with it, and with those that the level before it left.
        copies = 3 if isinstance(similarity, Dot) else 2
        return cls(exact, copies * (exact + other) + _BOUNDS, 3 * exact + other + _BOUNDS)


class FusedCount:
    """Counts the candidates of targets, range after range.

    Args:
        backend: The backend.
        similarity: How embeddings are compared.
        distinct: Embeddings [queries, d] on the device.
        query: For each row, which is a target, the index of its query.
        targets: Embeddings [rows, d] of the targets.
        memory: Bytes for the lists of unclear candidates; three quarters for their entries.

    Attributes:
        own: The canonical scores of the targets.
        totals: [rows, 3] the numbers of candidates that are greater, equal, and NaN.
        broken: Whether embeddings of candidates contain NaN.
    """

    def __init__(
        self,
        backend: TritonBackend,
        similarity: Similarity,
        distinct: Tensor,
        query: Tensor,
        targets: Tensor,
        memory: int,
    ) -> None:
        self.backend, self.similarity, self.memory = backend, similarity, memory
        self.distinct, self.query = distinct, query
        every = torch.arange(len(query), dtype=torch.int32, device=backend.device)
        self.own = backend.pair_scores(similarity, distinct, query, targets, every)
        self.totals = torch.zeros((len(query), 3), dtype=torch.int64, device=backend.device)
        self.broken = torch.zeros((), dtype=torch.bool, device=backend.device)
        self._groups: list[Rows] | None = None

    def add(self, candidates: Tensor) -> None:
        """Count the candidates of a range by fast scores, and by canonical scores where these are unclear."""
        if not len(candidates) or not len(self.own):
            return
        table = _DotTable(self, candidates) if isinstance(self.similarity, Dot) else _NormTable(self, candidates)
        self.broken |= torch.isnan(table.largest)
        if self._groups is None:  # the first range decides for all ranges
            self._groups = [self._rows.chosen(index) for index in table.first_levels()]
        left = self._rows.index[:0]
        for level, group in enumerate(self._groups):
            rows = group if not len(left) else self._rows.chosen(torch.cat([group.index, left]))
            left = self._count(table, rows, level) if len(rows.index) else left
        self._count_all(candidates, left)

    @cached_property
    def _rows(self) -> Rows:
        embeddings = self.distinct.index_select(0, self.query)
        padding = self.backend.tiles.of(self.similarity, embeddings.shape[1]).rows
        every = torch.arange(len(self.own), device=self.backend.device)
        if isinstance(self.similarity, Dot):
            high, low, sizes = self.backend.rounded(embeddings, padding)
            return Rows(padding, every, embeddings, self.own, sizes, high, low)
        own = self.own.cpu().numpy()
        # The bounds of norms are relative to the distance, whatever the candidates are.
        low_score, high_score = self.similarity.thresholds(own, np.zeros(len(own)), 0.0, embeddings.shape[1])
        high, size = self.backend.transposed(embeddings, padding)
        bounds = self.backend.placed(np.stack([-high_score, -low_score])).double()
        return Rows(padding, every, embeddings, self.own, torch.cat([size[None], bounds]), high, high)

    @property
    def padding(self) -> int:
        """The number of candidates is filled up to a multiple of this."""
        return self.backend.tiles.columns(self.similarity, self.distinct.shape[1])

    def _count(self, table: _Table, rows: Rows, level: int) -> Tensor:
        """Count rows at a level, and return the numbers of those whose lists were too short, or that may overflow."""
        room = min(self.room(len(table.exact), rows.padded), table.worth_settling(level))
        compared = table.compare(rows, level, room)
        full = (compared.listed > compared.found.shape[2]).any(0)
        above, listed = (torch.where(full, 0, numbers) for numbers in (compared.above, compared.listed))
        self.backend.settle(
            self.similarity, rows, table.exact, compared._replace(above=above, listed=listed), self.totals
        )
        return rows.index[full | table.risky(rows)]

    def _count_all(self, candidates: Tensor, index: Tensor) -> None:
        """Count rows by canonical scores alone."""
        if len(index):
            self.backend.settle_all(self.similarity, self._rows.chosen(index), candidates, self.totals)

    def subtract(self, scores: Tensor, offsets: Tensor) -> None:
        """Take back the filtered candidates by their canonical scores, which begin at ``offsets`` for each query."""
        self.backend.subtract_scores(scores, offsets, self.query, self.own, self.totals)

    def room(self, columns: int, rows: int) -> int:
        """The length of the lists of unclear candidates of a row."""
        fits = 3 * self.memory // (32 * max(rows, 1)) if self.backend.room is None else self.backend.room
        return max(1, min(-(-columns // _BITS), fits))


class _DotTable:
    """Candidates of dot products, and the bounds of their errors at both levels."""

    def __init__(self, counter: FusedCount, exact: Tensor) -> None:
        self.counter, self.exact = counter, exact
        self.high, self.low, sizes = counter.backend.rounded(exact, counter.padding)
        size, missed = sizes[0], sizes[1:]
        self.largest = size.amax()
        shares = torch.nan_to_num(missed / size, nan=0.0).amax(1)  # a vector of zeros loses nothing
        self.shares = [share.clamp(max=most) for share, most in zip(shares, _LARGEST_SHARES, strict=True)]
        first, both = (torch.fmax(size, lost / share) for lost, share in zip(missed, self.shares, strict=True))
        scales = torch.stack([first, torch.fmax(first, both)])
        self.scales = _filled(_upward(scales.clamp(min=_TINY)), len(self.high))

    def risky(self, rows: Rows) -> Tensor:
        """Whether scores of a row may overflow, so that they are not compared."""
        return _flags(Dot().may_overflow, rows.sizes[0], self.largest, self.exact.shape[1])

    def first_levels(self) -> list[Tensor]:
        """The numbers of the rows that begin with each level.

        A row begins with three products if so many of its pairs are unclear in bfloat16, by a sample of candidates,
        that settling them takes longer. If there are few candidates, all rows do: a second level would only take time.
        """
        counter, number = self.counter, len(self.exact)
        rows = counter._rows
        if number < counter.backend.tiles.many:
            return [rows.index[:0], rows.index]
        size = padded_number(min(_SAMPLE, number), counter.padding)
        sample = torch.linspace(0, number - 1, size, device=self.exact.device).long()
        listed = self._launched(rows, 0, 1, self.high[sample], self.low[:0], self.scales[0][sample]).listed.sum(0)
        fits = counter.room(number, rows.padded) / (2 * number)
        tight = listed > max(1, round(size * min(_WORTH_SETTLING, fits)))
        return [(~tight).nonzero()[:, 0], tight.nonzero()[:, 0]]

    def worth_settling(self, level: int) -> int:
        """Entries in the lists of a row that take less time to settle than the next level."""
        number = len(self.exact)
        return number if level else round(2 * _WORTH_SETTLING * number)

    def compare(self, rows: Rows, level: int, room: int) -> Compared:
        """Compare all candidates with the targets of some rows."""
        return self._launched(rows, level, room, self.high, self.low, self.scales[level])

    def _launched(self, rows: Rows, level: int, room: int, high: Tensor, low: Tensor, scale: Tensor) -> Compared:
        dimension, (number, padded) = self.exact.shape[1], rows.high.shape
        tile = self.counter.backend.tiles.of(Dot(), dimension, level)
        lost = 2 * Dot().lost(dimension)
        own = rows.own.double().masked_fill(self.risky(rows), torch.nan)
        bounds = _filled(_upward(torch.stack([lost - own, lost + own])), number)
        launch = _Launch.of(self.counter, rows, len(high), tile, room)
        kernels.count_dots[launch.grid](
            rows.high, rows.low, bounds, _filled(_upward(self._slope(rows, level)), number), high, low, scale,
            launch.counts, launch.found, number, len(high), launch.tiles, launch.room, padded, bool(level), tile.rows,
            tile.columns, tile.block, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
        return launch.result(len(rows.own))

    def _slope(self, rows: Rows, level: int) -> Tensor:
        """The bound of the error of each row, as a multiple of a candidate's scale; see `Dot.slope`."""
        dimension, (size, missed, twice) = self.exact.shape[1], rows.sizes
        terms, share = dimension, self.shares[level]
        if level:
            # The product of both second halves is left out. The partial sums of the three others exceed |q| |e| by less
            # than 2 %, for which an eighth of the terms is added.
            missed = twice + (missed + twice) * (self.shares[0] + self.shares[1])
            terms = 3 * dimension + dimension // 8 + 1
        rounding: Any = Rounding(MIXED_UNIT, missed, share)
        slope: Any = Dot().slope(size, terms, rounding)
        wider: Tensor = slope * (1 + 2.0**-20)  # for the rounding of the bound in the kernel
        return wider.clamp(min=_TINY)


class _NormTable:
    """Candidates of group norms."""

    def __init__(self, counter: FusedCount, exact: Tensor) -> None:
        self.counter, self.exact = counter, exact
        self.columns, size = counter.backend.transposed(exact, counter.padding)
        self.largest = size.amax()

    def risky(self, rows: Rows) -> Tensor:
        """Whether scores of a row may overflow, so that they are not compared."""
        return _flags(self.counter.similarity.may_overflow, rows.sizes[0], self.largest, self.exact.shape[1])

    def first_levels(self) -> list[Tensor]:
        """The numbers of all rows: there is one level."""
        return [self.counter._rows.index]

    def worth_settling(self, level: int) -> int:
        """All: there is no next level."""
        return len(self.exact)

    def compare(self, rows: Rows, level: int, room: int) -> Compared:
        """Compare all candidates with the targets of some rows."""
        dimension, number = rows.high.shape
        bounds = _filled(rows.sizes[1:].masked_fill(self.risky(rows), torch.nan), number)
        similarity, columns = self.counter.similarity, self.columns.shape[1]
        tile = self.counter.backend.tiles.of(similarity, dimension)
        launch = _Launch.of(self.counter, rows, columns, tile, room)
        kernels.count_norms[launch.grid](
            rows.high, bounds, self.columns, launch.counts, launch.found, number, columns, launch.tiles, launch.room,
            dimension, width_of(similarity, dimension), tile.rows, tile.columns, num_warps=tile.warps,
            maxnreg=tile.registers,
        )  # fmt: skip
        return launch.result(len(rows.own))


_Table: TypeAlias = _DotTable | _NormTable


@dataclass(frozen=True, eq=False)
class _Launch:
    """How tiles are divided into programs, and what the programs fill.

    Attributes:
        grid: Tiles of rows, and programs that share the columns.
        tiles: Tiles of columns for each program.
        counts: [2, programs, rows] the numbers of candidates above, and of entries in the lists.
        found: [rows, programs, room] the lists.
    """

    grid: tuple[int, int]
    tiles: int
    counts: Tensor
    found: Tensor

    @classmethod
    def of(cls, counter: FusedCount, rows: Rows, columns: int, tile: Tile, room: int) -> _Launch:
        """The work of comparing rows and columns: by many programs, but no more than there is memory for lists."""
        device, number, every = counter.backend.device, rows.padded, columns // tile.columns
        across, most = number // tile.rows, max(1, counter.memory // (4 * _BYTES_PER_LIST * number))
        tiles = max(1, every * across // counter.backend.tiles.counting, -(-every // most))
        programs = -(-every // tiles)
        room = min(-(-room // programs), tiles * tile.columns // _BITS)
        counts = torch.empty((2, programs, number), dtype=torch.int32, device=device)
        found = torch.empty((number, programs, room), dtype=torch.int64, device=device)
        return cls((across, programs), tiles, counts, found)

    @property
    def room(self) -> int:
        """The length of a list."""
        return self.found.shape[2]

    def result(self, number: int) -> Compared:
        """What was counted for the first rows; the others are padding."""
        above, listed = self.counts[:, :, :number]
        return Compared(above.sum(0), listed, self.found)


def _filled(values: Tensor, number: int) -> Tensor:
    """Float32 values, followed by NaN up to a number of columns, which is never counted."""
    filled = torch.full((*values.shape[:-1], number), torch.nan, dtype=torch.float32, device=values.device)
    filled[..., : values.shape[-1]] = values
    return filled


def _upward(values: Tensor) -> Tensor:
    """Float32 numbers that are not below the values."""
    short = values.float()
    return torch.nextafter(short, torch.full_like(short, torch.inf))


def _flags(may_overflow: Any, *arguments: Any) -> Tensor:
    """The formulas of similarities hold for tensors as for arrays."""
    flags: Tensor = may_overflow(*arguments)
    return flags
