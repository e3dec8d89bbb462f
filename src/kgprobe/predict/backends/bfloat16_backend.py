"""The bfloat16 backend, for CPUs that multiply bfloat16 several times as fast as float32. It needs torch and numba.

Dot products are computed from embeddings that are rounded to bfloat16. The candidates within their error bounds are
compared again by float32 products, and what is then still undecided by canonical scores. Group norms are computed by
the numba backend.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kgprobe.arrays import Floats, Ints
from kgprobe.predict.backends.backend import Bounds
from kgprobe.predict.backends.numba_backend import NumbaBackend, compiled
from kgprobe.predict.scorers import MIXED_UNIT, Dot, Rounding, Similarity, Singles

# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,var-annotated"

Bits: TypeAlias = NDArray[np.int16]
"""The bits of bfloat16 numbers."""

_FILTERED = -1
"""The bits of a filtered score: a negative NaN, which is below every bound, also below minus infinity."""

_INFINITE = 0x7F80
"""The bits of infinity. Those of the largest finite bfloat16 are one less."""

_LANES = 64
_CACHE_LINE = 64

_ROUNDED_AT_ONCE = 1 << 26
"""Bytes of embeddings that are rounded beforehand. Larger tables are rounded a tile at a time, to save memory."""

_UNCLEAR = 4
"""Pairs that float32 cannot decide, for each target, that are kept until their canonical scores are computed."""

_WORTH = 1.5
"""How many times as fast as float32 products the products of bfloat16 must be."""

_fast = compiled(fastmath={"nsz", "contract", "arcp", "reassoc"})


# Integers in the order of the numbers: the bits of a negative number are reversed. A bound is moved outward to the next
# bfloat16, so that it holds for a score that was rounded to one of its two neighbours.


@_fast
def _ordered(number):
    bits = np.float32(number).view(np.int32)
    return np.int64(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))


@_fast
def _below(number):
    """The integer of the largest bfloat16 that is not above the number."""
    order = _ordered(number)
    return np.int16(order >> 16) if order >= 0 else np.int16(((order + 1) >> 16) - 1)


@_fast
def _above(number):
    """The integer of the smallest bfloat16 that is not below the number."""
    order = _ordered(number)
    return np.int16((order + 0xFFFF) >> 16) if order >= 0 else np.int16(order >> 16)


@_fast
def round_rows(embeddings, bits, size, lost):
    """Round rows to the nearest finite bfloat16, or to zero where that is subnormal. Infinity stays infinite.

    ``size`` becomes the norm of each row, ``lost`` the norm of what the rounding has changed.
    """
    for row in range(len(embeddings)):
        line, out = embeddings[row], bits[row]
        total, missed = 0.0, 0.0
        for i in range(len(line)):
            word = np.float32(line[i]).view(np.int32)
            # Numbers are rounded up if they are above the middle, or in the middle and odd. A carry goes into the
            # exponent, as it should, unless a finite number becomes infinite: infinity times 0 would be NaN.
            short = np.int32((word + np.int32(0x7FFF) + ((word >> 16) & np.int32(1))) >> 16)
            infinite = (short & np.int32(0x7FFF)) == _INFINITE
            short -= np.int32(infinite & ((word & np.int32(0x7FFFFFFF)) < (_INFINITE << 16)))
            short = np.int32(0) if (short & np.int32(0x7FFF)) < 0x80 else short
            out[i] = np.int16(short)
            value, rounded = np.float64(line[i]), np.float64(np.int32(short << 16).view(np.float32))
            total += value * value
            missed += (value - rounded) * (value - rounded)
        size[row], lost[row] = np.sqrt(total), np.sqrt(missed)


@intrinsic
def _compared(typing, line, start, floor, ceiling):
    """Two words with a bit for each of 64 scores from ``start`` on: whether it reaches the floor, is above the ceiling.

    The bits of bfloat16 are compared as integers, 64 in a few vector instructions. Loops do not compile to these.
    """

    def build(context, builder, signature, arguments):
        scores = ir.VectorType(ir.IntType(16), _LANES)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), scores.as_pointer())
        bits = builder.load(place, align=2)
        negative = builder.ashr(bits, ir.Constant(scores, [15] * _LANES))
        order = builder.xor(bits, builder.and_(negative, ir.Constant(scores, [0x7FFF] * _LANES)))
        words = [
            builder.bitcast(builder.icmp_signed(operator, order, _repeated(builder, bound, scores)), ir.IntType(64))
            for operator, bound in ((">=", arguments[2]), (">", arguments[3]))
        ]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(types.uint64, 2)(line, types.intp, types.int16, types.int16), build


def _repeated(builder, value, vector):
    """A vector of the same value in each lane."""
    index, undefined = ir.IntType(32), ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(index, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(index, _LANES), [0] * _LANES))


@intrinsic
def _ones(typing, word):
    """The number of bits that are set."""
    return types.intp(types.uint64), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])


@intrinsic
def _lowest(typing, word):
    """The position of the lowest bit that is set."""
    defined = ir.Constant(ir.IntType(1), 1)
    return types.intp(types.uint64), lambda context, builder, signature, arguments: builder.cttz(arguments[0], defined)


@_fast
def _widening(bound, error):
    """How far a bound is moved, with room for the rounding of the sum itself."""
    return error * (1 + 2.0**-20) + abs(np.float64(bound)) * 2.0**-22


@_fast
def _find(bits, first, last, floor, ceiling, found, end):
    """The number of scores above the bounds, and of those within them, whose places are stored in ``found``.

    The scores are those of a flat array from ``first`` up to ``last``. ``end`` has room for an incomplete stretch.
    """
    above, within, whole = 0, 0, first + (last - first) // _LANES * _LANES
    for start in range(first, whole, _LANES):
        reached, greater = _compared(bits, start, floor, ceiling)
        above += _ones(greater)
        within = _store(reached & ~greater, start - first, found, within)
    if whole < last:
        end[:] = _FILTERED
        for i in range(whole, last):
            end[i - whole] = bits[i]
        reached, greater = _compared(end, 0, floor, ceiling)
        above += _ones(greater)
        within = _store(reached & ~greater, whole - first, found, within)
    return above, within


@_fast
def _store(inside, start, found, within):
    """Append the places of the bits that are set, and return how many places there are now."""
    while inside:
        found[within] = start + _lowest(inside)
        within += 1
        inside &= inside - np.uint64(1)
    return within


@_fast
def _products(queries, row, candidates, found, count, out):
    """Float32 products of a query and the candidates that were found, four at a time."""
    fours = count // 4 * 4
    for i in range(0, fours, 4):
        a, b, c, d = found[i], found[i + 1], found[i + 2], found[i + 3]
        s, t, u, v = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(queries.shape[1]):
            s += queries[row, k] * candidates[a, k]
            t += queries[row, k] * candidates[b, k]
            u += queries[row, k] * candidates[c, k]
            v += queries[row, k] * candidates[d, k]
        out[i], out[i + 1], out[i + 2], out[i + 3] = s, t, u, v
    for i in range(fours, count):
        a, s = found[i], np.float32(0)
        for k in range(queries.shape[1]):
            s += queries[row, k] * candidates[a, k]
        out[i] = s


@_fast
def _outside(scores, count, least, most):
    """How many of the first scores are above the bounds, and how many are below.

    The loop stores nothing, so it compiles to vector instructions.
    """
    greater, less = np.int32(0), np.int32(0)
    for i in range(count):
        greater += np.int32(scores[i] > most)
        less += np.int32(scores[i] < least)
    return np.int64(greater), np.int64(less)


@_fast
def compare(bits, error, queries, candidates, row, low, high, above, within, which, columns):
    """For each target, the number of candidates above its bounds, and the number within, by float32 products.

    ``error`` bounds the error of the scores of each row, besides that of float32. The targets and columns within are
    stored if there is room for them.
    """
    width = bits.shape[1]
    found, end = np.empty(width, dtype=np.uint32), np.empty(_LANES, dtype=np.int16)
    scores, flat, stored = np.empty(width, dtype=np.float32), bits.reshape(-1), 0
    for target in range(len(row)):
        at, least, most = row[target], low[target], high[target]
        lower = np.float64(least) - _widening(least, error[at])
        upper = np.float64(most) + _widening(most, error[at])
        floor = _below(lower) if lower == lower else _below(-np.inf)
        ceiling = _above(upper) if upper == upper else _above(np.inf)
        beaten, unclear = _find(flat, at * width, (at + 1) * width, floor, ceiling, found, end)
        _products(queries, np.uint64(at), candidates, found, unclear, scores)
        greater, less = _outside(scores, unclear, least, most)
        above[target], within[target] = beaten + greater, unclear - greater - less
        if len(which) and within[target]:
            for i in range(unclear):
                if not ((scores[i] > most) | (scores[i] < least)) and stored < len(which):
                    which[stored], columns[stored] = target, found[i]
                    stored += 1


@dataclass(frozen=True, eq=False)
class RoundedEmbeddings:
    """Embeddings, and what they are when rounded to bfloat16.

    Attributes:
        exact: The embeddings.
        short: A torch tensor of them in bfloat16; what is subnormal there is zero.
        size: The norm of each embedding.
        lost: The norm of what the rounding has changed.
    """

    exact: Singles
    short: Any
    size: Floats
    lost: Floats

    @classmethod
    def of(cls, embeddings: Singles) -> RoundedEmbeddings:
        bits = np.empty(embeddings.shape, dtype=np.int16)
        size, lost = (np.empty(len(embeddings)) for _ in range(2))
        round_rows(embeddings, bits, size, lost)
        return cls(_aligned(embeddings), torch.from_numpy(bits).view(torch.bfloat16), size, lost)

    def __getitem__(self, some: slice) -> RoundedEmbeddings:
        return RoundedEmbeddings(self.exact[some], self.short[some], self.size[some], self.lost[some])


def _aligned(embeddings: Singles) -> Singles:
    """The same embeddings where each vector register is filled from one cache line, which takes half the time."""
    if embeddings.ctypes.data % _CACHE_LINE == 0:
        return embeddings
    copy: Singles = torch.empty(embeddings.shape, dtype=torch.float32).numpy()  # torch aligns its memory
    copy[:] = embeddings
    return copy


@dataclass(eq=False)
class _Tile:
    """Dot products in bfloat16, what they were computed from, and the bound of the error of each row.

    ``unclear`` are the targets and columns that float32 could not decide when they were counted, if there was room.
    """

    bits: Bits
    queries: Singles
    candidates: Singles
    error: Floats
    unclear: tuple[Ints, Ints] | None = None


class Bfloat16Backend(NumbaBackend):
    """The backend that computes dot products in bfloat16 first.

    Example:
        >>> backend = Bfloat16Backend()
        >>> queries, table = (backend.to_device(np.float32(x)) for x in ([[1, 2]], [[3, 4], [1, 1], [0, 1]]))
        >>> bounds = Bounds(np.array([0]), np.float32([2.5]), np.float32([3.5]))
        >>> [counts.tolist() for counts in backend.count(backend.scores(Dot(), queries, table), bounds)]
        [[1], [1]]
    """

    def to_device(self, embeddings: Singles) -> Any:
        return RoundedEmbeddings.of(embeddings) if embeddings.nbytes <= _ROUNDED_AT_ONCE else embeddings

    def scores(self, similarity: Similarity, queries: Any, candidates: Any) -> Any:
        if not isinstance(similarity, Dot):
            return super().scores(similarity, _exact(queries), _exact(candidates))
        self._use_one_thread()
        queries, candidates = _rounded(queries), _rounded(candidates)
        cells = len(queries.exact) * len(candidates.exact)
        if not hasattr(self._own, "short") or self._own.short.numel() < cells:
            self._own.short = torch.empty(cells, dtype=torch.bfloat16)
        out = self._own.short[:cells].view(len(queries.exact), len(candidates.exact))
        with torch.autocast("cpu", enabled=False):
            torch.mm(queries.short, candidates.short.T, out=out)
        dimension, size = queries.exact.shape[1], float(candidates.size.max(initial=0.0))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            share = float(candidates.lost.max(initial=0.0)) / size if size else 0.0
            slope = similarity.slope(queries.size, dimension, Rounding(MIXED_UNIT, queries.lost, share))
            error = slope * size + similarity.lost(dimension)
        return _Tile(out.view(torch.int16).numpy(), queries.exact, candidates.exact, error)

    def _use_one_thread(self) -> None:
        """Let torch use one thread within this thread of the engine, as BLAS does."""
        if not hasattr(self._own, "limits"):
            torch.get_num_threads()  # sets the number of this thread, which is then not set again
            self._own.limits = threadpool_limits(1, user_api="openmp")

    def clear_rows(self, scores: Any, rows: Ints) -> None:
        super().clear_rows(scores.bits if isinstance(scores, _Tile) else scores, rows)

    def mask(self, scores: Any, row: Ints, column: Ints) -> None:
        if isinstance(scores, _Tile):
            scores.bits[row, column] = _FILTERED
        else:
            super().mask(scores, row, column)

    def count(self, scores: Any, bounds: Bounds) -> tuple[Ints, Ints]:
        if not isinstance(scores, _Tile):
            return super().count(scores, bounds)
        above, within, *found = self._compare(scores, bounds, _UNCLEAR * len(bounds.row))
        total = int(within.sum())
        which, column = (values[:total] for values in found)
        scores.unclear = (which, column) if len(which) == total else None
        return above, within

    def within(self, scores: Any, bounds: Bounds, found: int) -> tuple[Ints, Ints]:
        if not isinstance(scores, _Tile):
            return super().within(scores, bounds, found)
        if scores.unclear is None or bounds.chosen is None:
            _, _, which, column = self._compare(scores, bounds, found)
            return which, column
        which, column = scores.unclear
        position = np.searchsorted(bounds.chosen, which)
        there = bounds.chosen.take(position, mode="clip") == which
        return position[there], column[there]

    def _compare(self, tile: _Tile, bounds: Bounds, room: int) -> tuple[Ints, Ints, Ints, Ints]:
        above, within = (np.empty(len(bounds.row), dtype=np.int64) for _ in range(2))
        which, column = (np.empty(room, dtype=np.int64) for _ in range(2))
        targets = (bounds.row, bounds.low, bounds.high)
        compare(tile.bits, tile.error, tile.queries, tile.candidates, *targets, above, within, which, column)
        return above, within, which, column

    def canonical(self, similarity: Similarity, queries: Any, row: Ints, candidates: Any, column: Ints) -> Singles:
        return super().canonical(similarity, _exact(queries), row, _exact(candidates), column)


def _exact(embeddings: Any) -> Singles:
    exact: Singles = embeddings.exact if isinstance(embeddings, RoundedEmbeddings) else embeddings
    return exact


def _rounded(embeddings: Any) -> RoundedEmbeddings:
    return embeddings if isinstance(embeddings, RoundedEmbeddings) else RoundedEmbeddings.of(embeddings)


@cache
def is_worthwhile() -> bool:
    """Whether products of bfloat16 are much faster than those of float32 on this CPU, by a measurement."""
    rng = np.random.default_rng(0)
    queries, candidates = (rng.standard_normal((rows, 256), dtype=np.float32) for rows in (512, 2048))
    short = [torch.from_numpy(values).bfloat16() for values in (queries, candidates)]
    with threadpool_limits(1), torch.autocast("cpu", enabled=False):
        single = _seconds(lambda: queries @ candidates.T)
        return single > _WORTH * _seconds(lambda: torch.mm(short[0], short[1].T))


def _seconds(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
