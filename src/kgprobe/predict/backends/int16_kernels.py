"""Compiled loops of the int16 backend: embeddings as integers of 16 bits, their exact products, and counts by bounds.

An embedding is multiplied by a factor and rounded. The factor is so large that the norm of the integers is just below
sqrt(2^31), so no dot product exceeds 32 bits. Dot products of integers are exact: only the rounding of the embeddings
has to be bounded. Importing this module needs numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numpy.typing import NDArray

from kgprobe.arrays import Floats, Ints
from kgprobe.predict.backends.numba_backend import compiled
from kgprobe.predict.scorers import LARGE, Dot, Singles

# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,var-annotated"

ROWS, PANEL = 6, 64
"""Queries and candidates whose products are computed at a time."""

_CACHE_LINE = 64

_MOST = 32766.0
"""The largest integer that a coordinate is rounded to."""

_LONGEST = 46339.0
"""The largest norm of integers. The product of two is below 2^31."""

_LEAST_SCORE, _MOST_SCORE = -(2**31), 2**31 - 1
_ALL = np.uint64(2**64 - 1)

_LISTED = 1024
"""Pairs that are listed before they are compared by float32 products."""

_fast = compiled(fastmath={"nsz", "contract", "arcp", "reassoc"})


class Instructions(NamedTuple):
    """How a CPU adds products of pairs of int16 to int32.

    Attributes:
        feature: The feature of the CPU; empty for any CPU, which takes longer than float32 products.
        name: The intrinsic of LLVM.
        lanes: The int32 in a vector.
        vectors: The vectors of candidates that are multiplied at a time. The sums of these and `ROWS` queries fit into
            the registers.
    """

    feature: str
    name: str
    lanes: int
    vectors: int


INSTRUCTIONS = [
    Instructions("+avx512vnni", "llvm.x86.avx512.vpdpwssd.512", 16, 4),
    Instructions("+avxvnni", "llvm.x86.avx512.vpdpwssd.256", 8, 2),
]

ANY_CPU = Instructions("", "", 8, 2)


def instructions() -> Instructions:
    """The best instructions of the CPU that numba compiles for."""
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    return next((each for each in INSTRUCTIONS if each.feature in features), ANY_CPU)


class Packed(NamedTuple):
    """Embeddings that are rounded to integers. Rows of a span have the same factor.

    Attributes:
        words: Pairs of coordinates, flat: [groups of rows, pairs, rows of a group].
        norm: The norm of each embedding.
        factor: What the coordinates were multiplied by, for each span; 0 if they are infinite.
        size: The largest norm of the embeddings of each span.
        lost: The largest norm of what the rounding has changed in each span, divided by the factor.
    """

    words: NDArray[np.int32]
    norm: Floats
    factor: Floats
    size: Floats
    lost: Floats

    @classmethod
    def empty(cls, number: int, dimension: int, group: int, span: int) -> Packed:
        """Room for embeddings in groups of so many rows, and in spans of so many."""
        words = _aligned(-(-number // group) * group * -(-dimension // 2))
        return cls(words, np.empty(number), *(np.empty(-(-number // span)) for _ in range(3)))

    @classmethod
    def of(cls, embeddings: Singles, group: int, span: int) -> Packed:
        """Embeddings in groups of so many rows, rounded in spans of so many."""
        packed = cls.empty(*embeddings.shape, group, span)
        pack(embeddings, group, span, packed)
        return packed


def _aligned(number: int) -> NDArray[np.int32]:
    """Uninitialised integers that begin with a cache line, so that no vector crosses two."""
    room = np.empty(4 * number + _CACHE_LINE, dtype=np.int8)
    start = -room.ctypes.data % _CACHE_LINE
    return room[start : start + 4 * number].view(np.int32)


@_fast
def pack(embeddings, group, span, packed):
    """Round embeddings to integers, and store them so that the same pair of coordinates of a group stands together."""
    number, dimension = embeddings.shape
    pairs = (dimension + 1) // 2
    short = np.zeros(2 * pairs, dtype=np.int16)
    both = short.view(np.int32)
    for part in range(len(packed.factor)):
        first, last = part * span, min((part + 1) * span, number)
        longest, largest, missed = 0.0, 0.0, 0.0
        for row in range(first, last):
            packed.norm[row], most = _norms(embeddings[row])
            longest, largest = max(longest, packed.norm[row]), max(largest, most)
        factor = _factor(longest, largest, dimension)
        for row in range(first, last):
            if factor:
                missed = max(missed, _round(embeddings[row], factor, short))
            start = row // group * group * pairs + row % group
            for pair in range(pairs):
                packed.words[np.uint64(start + pair * group)] = both[pair]
        packed.factor[part], packed.size[part] = factor, longest
        packed.lost[part] = np.sqrt(missed) / factor if factor else np.inf


@_fast
def _norms(embedding):
    """The norm of an embedding, and its largest absolute coordinate, by its bits: that loop is vectorised."""
    total, most = 0.0, np.int32(0)
    for i in range(len(embedding)):
        total += np.float64(embedding[i]) * np.float64(embedding[i])
        most = max(most, np.int32(np.float32(embedding[i]).view(np.int32) & np.int32(0x7FFFFFFF)))
    return np.sqrt(total), np.float64(np.int32(most).view(np.float32))


@_fast
def _factor(longest, largest, dimension):
    """What embeddings up to this norm, with coordinates up to the largest, are multiplied by."""
    if not longest < np.inf:
        return 0.0
    room = _LONGEST - np.sqrt(dimension) / 2  # rounding adds at most a half to each coordinate
    return min(room / longest, _MOST / largest) if longest > 0 else 1.0


@_fast
def _round(embedding, factor, short):
    """Round the multiples of the coordinates, and return the square of the norm of what this has changed."""
    missed = 0.0
    for i in range(len(embedding)):
        exact = np.float64(embedding[i]) * factor
        whole = np.floor(exact + 0.5)
        short[i] = np.int16(np.int32(whole))
        missed += (exact - whole) * (exact - whole)
    return missed


@intrinsic
def products(typing, queries, at, candidates, start, pairs, out):
    """Store the dot products of a group of queries, from ``at`` on, and a panel of candidates, from ``start`` on."""

    def build(context, builder, signature, arguments):
        index, used = ir.IntType(64), instructions()
        queries, candidates, out = (_data(context, builder, signature, arguments, i) for i in (0, 2, 5))
        query = builder.gep(queries, [arguments[1]])
        for column in range(0, PANEL, used.lanes * used.vectors):
            first = builder.add(arguments[3], index(column))
            sums = _sums(builder, used, query, builder.gep(candidates, [first]), arguments[4])
            for number, total in enumerate(sums):
                row, place = divmod(number, used.vectors)
                address = builder.gep(out, [index(row * PANEL + column + place * used.lanes)])
                builder.store(total, builder.bitcast(address, total.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(queries, types.intp, candidates, types.intp, types.intp, out), build


def _sums(builder, used, query, candidate, pairs):
    """Vectors of dot products of `ROWS` queries and a few vectors of candidates, whose first pairs are given."""
    vector, index = ir.VectorType(ir.IntType(32), used.lanes), ir.IntType(64)
    before, loop, after = builder.block, *(builder.append_basic_block() for _ in range(2))
    builder.branch(loop)
    builder.position_at_end(loop)
    pair = builder.phi(index)
    pair.add_incoming(index(0), before)
    sums = [builder.phi(vector) for _ in range(ROWS * used.vectors)]
    query = builder.gep(query, [builder.mul(pair, index(ROWS))])
    candidate = builder.gep(candidate, [builder.mul(pair, index(PANEL))])
    places = [builder.gep(candidate, [index(i * used.lanes)]) for i in range(used.vectors)]
    columns = [builder.load(builder.bitcast(place, vector.as_pointer()), align=4) for place in places]
    rows = [_repeated(builder, builder.load(builder.gep(query, [index(i)])), vector) for i in range(ROWS)]
    added = []
    for number, total in enumerate(sums):
        row, column = divmod(number, used.vectors)
        added.append(_multiplied(builder, used, total, rows[row], columns[column]))
        total.add_incoming(ir.Constant(vector, [0] * used.lanes), before)
        total.add_incoming(added[-1], loop)
    following = builder.add(pair, index(1))
    pair.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, pairs), loop, after)
    builder.position_at_end(after)
    return added


def _multiplied(builder, used, total, left, right):
    """The sums plus the products of pairs of int16."""
    if used.name:
        function = builder.module.globals.get(used.name)
        function = function or ir.Function(builder.module, ir.FunctionType(total.type, [total.type] * 3), used.name)
        return builder.call(function, [total, left, right])
    half = ir.Constant(total.type, [16] * used.lanes)
    for shifted in (True, False):
        parts = [builder.ashr(builder.shl(x, half) if shifted else x, half) for x in (left, right)]
        total = builder.add(total, builder.mul(*parts))
    return total


@intrinsic
def compared(typing, scores, start, floor, ceiling):
    """Two words with a bit for each of 64 scores from ``start`` on: whether it reaches the floor, is above the ceiling.

    Loops do not compile to the few vector instructions that this takes.
    """

    def build(context, builder, signature, arguments):
        panel = ir.VectorType(ir.IntType(32), PANEL)
        place = builder.gep(_data(context, builder, signature, arguments, 0), [arguments[1]])
        values = builder.load(builder.bitcast(place, panel.as_pointer()), align=4)
        words = [
            builder.bitcast(builder.icmp_signed(operator, values, _repeated(builder, bound, panel)), ir.IntType(PANEL))
            for operator, bound in ((">=", arguments[2]), (">", arguments[3]))
        ]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(types.uint64, 2)(scores, types.intp, types.int32, types.int32), build


def _data(context, builder, signature, arguments, number):
    """The address of the first number of an array."""
    return context.make_array(signature.args[number])(context, builder, arguments[number]).data


def _repeated(builder, value, vector):
    """A vector of the same value in each lane."""
    index, undefined = ir.IntType(32), ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(index, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(index, vector.count), [0] * vector.count))


@intrinsic
def _ones(typing, word):
    """The number of bits that are set."""
    return types.intp(types.uint64), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])


@intrinsic
def _lowest(typing, word):
    """The position of the lowest bit that is set."""
    defined = ir.Constant(ir.IntType(1), 1)
    return types.intp(types.uint64), lambda context, builder, signature, arguments: builder.cttz(arguments[0], defined)


class Targets(NamedTuple):
    """The targets of a block of queries, in the order of these.

    Attributes:
        row: The query of each target.
        first: Where the targets of each group of queries begin; one more for the end.
        own: The canonical score of each target.
        factor: What the query was multiplied by.
        size: The norm of the query.
        lost: The norm of what its rounding has changed.
        slope: The bound of the error of a float32 score, as a multiple of the norm of the candidate.
        flushed: The part of this error that does not depend on the candidate.
    """

    row: Ints
    first: Ints
    own: NDArray[Any]
    factor: Floats
    size: Floats
    lost: Floats
    slope: Floats
    flushed: float

    @classmethod
    def of(cls, row: Ints, own: NDArray[Any], queries: Packed, dimension: int) -> Targets:
        groups = np.arange(-(-len(queries.factor) // ROWS) + 1) * ROWS
        sizes = queries.factor[row], queries.size[row], queries.lost[row]
        slope, flushed = Dot().slope(queries.size[row], dimension), Dot().lost(dimension)
        return cls(row, np.searchsorted(row, groups), own, *sizes, slope, flushed)


class Found(NamedTuple):
    """What is counted for each target, and the pairs that float32 cannot decide, as many as there is room for.

    Attributes:
        above: The number of candidates that beat the target.
        within: The number of candidates that float32 cannot decide.
        which: The target of each of these pairs.
        column: The candidate of each of these pairs.
    """

    above: Ints
    within: Ints
    which: Ints
    column: Ints

    @classmethod
    def empty(cls, targets: int, room: int) -> Found:
        return cls(*(np.empty(size, dtype=np.int64) for size in (targets, targets, room, room)))


@_fast
def count(queries, candidates, kept, exact_queries, exact_candidates, targets, row, column, found):
    """Count the candidates of each target, except the filtered pairs of ``row`` and ``column``.

    ``queries`` are packed in groups of `ROWS`, and ``candidates`` in groups of `PANEL` if they are kept, else there is
    room for one group; ``exact_...`` are the same in float32.
    """
    number, pairs = len(exact_queries), (exact_queries.shape[1] + 1) // 2
    panels = (len(exact_candidates) + PANEL - 1) // PANEL
    scores, left = np.empty(ROWS * PANEL, dtype=np.int32), np.empty(number, dtype=np.uint64)
    floor, ceiling = np.empty(len(targets.row), dtype=np.int32), np.empty(len(targets.row), dtype=np.int32)
    marked, bits = np.empty(len(targets.row) + 1, dtype=np.uint64), np.empty(len(targets.row) + 1, dtype=np.uint64)
    which, unclear = np.empty(_LISTED, dtype=np.uint64), np.empty(_LISTED, dtype=np.uint64)
    order, filtered = by_panels(column, panels)
    stored = 0
    found.above[:], found.within[:] = 0, 0
    for panel in range(panels):
        start = panel * PANEL
        left[:] = _ALL >> np.uint64(max(start + PANEL - len(exact_candidates), 0))
        for pair in order[filtered[panel] : filtered[panel + 1]]:
            left[row[pair]] &= ~(np.uint64(1) << np.uint64(column[pair] - start))
        if not kept:
            pack(exact_candidates[start : start + PANEL], PANEL, PANEL, candidates)
        part = panel if kept else 0
        bound(targets, candidates.factor[part], candidates.size[part], candidates.lost[part], floor, ceiling)
        marks = np.uint64(0)
        for group in range(len(targets.first) - 1):
            first, last = np.uint64(targets.first[group]), np.uint64(targets.first[group + 1])
            if first == last:
                continue
            products(queries.words, group * ROWS * pairs, candidates.words, part * PANEL * pairs, pairs, scores)
            for target in range(first, last):
                query = np.uint64(targets.row[target])
                place = (np.int64(query) - group * ROWS) * PANEL
                reached, greater = compared(scores, place, floor[target], ceiling[target])
                found.above[target] += _ones(greater & left[query])
                # Few words have bits. To store all of them takes less time than a branch that is predicted wrongly.
                marked[marks], bits[marks] = target, reached & ~greater & left[query]
                marks += np.uint64(bits[marks] != 0)
        listed, norm = 0, candidates.norm[part * PANEL : (part + 1) * PANEL]
        for mark in range(marks):
            inside = bits[mark]
            while inside:
                which[listed], unclear[listed] = marked[mark], _lowest(inside)
                inside &= inside - np.uint64(1)
                listed += 1
            if listed > _LISTED - PANEL or mark + 1 == marks:
                some = which[:listed], unclear[:listed]
                stored = _settle(exact_queries, exact_candidates, start, norm, targets, *some, found, stored)
                listed = 0


@_fast
def by_panels(column, panels):
    """The order of pairs by the panels of their candidates, and where those of each panel begin."""
    first, order = np.zeros(panels + 1, dtype=np.int64), np.empty(len(column), dtype=np.int64)
    for pair in range(len(column)):
        first[column[pair] // PANEL + 1] += 1
    first = np.cumsum(first)
    following = first.copy()
    for pair in range(len(column)):
        panel = column[pair] // PANEL
        order[following[panel]] = pair
        following[panel] += 1
    return order, first


@_fast
def bound(targets, factor, size, lost, floor, ceiling):
    """The products of integers from which on a candidate of a panel may beat or tie, and above which it beats.

    A product, divided by the factors, differs from the dot product by at most what `Dot.slope` gives for the rounding,
    times the size. What float64 rounds here and in `pack` changes the bounds by much less than 1, and so by nothing:
    bounds are moved outward to whole numbers, and products are whole. NaN leaves everything open.
    """
    for target in range(len(targets.row)):
        both = targets.factor[target] * factor
        error = targets.lost[target] * size + (targets.size[target] + targets.lost[target]) * lost
        error += _error(targets, target, size)
        floor[target] = _integer(np.floor((targets.own[target] - error) * both), _LEAST_SCORE)
        ceiling[target] = _integer(np.ceil((targets.own[target] + error) * both), _MOST_SCORE)


@_fast
def _error(targets, target, norm):
    """The bound of the error of a float32 score of candidates up to this norm, as in `Dot.thresholds`."""
    if not targets.size[target] * norm < LARGE:
        return np.inf
    return targets.slope[target] * norm + targets.flushed


@_fast
def _integer(number, unknown):
    """A whole number, or ``unknown`` for NaN, as an integer. No product is the smallest or the largest one."""
    return np.int32(min(max(number, _LEAST_SCORE), _MOST_SCORE)) if number == number else np.int32(unknown)


@_fast
def _settle(queries, candidates, start, norm, targets, which, column, found, stored):
    """Compare pairs by float32 products, and store those that these cannot decide.

    Columns and norms are those of a panel that begins at ``start``. ``stored`` is the number of pairs stored so far,
    also of those for which there was no room, and is returned.
    """
    scores = np.empty(len(which), dtype=np.float32)
    _float32_products(queries, candidates[start : start + PANEL], targets.row, which, column, scores)
    for i in range(len(which)):
        target, score = which[i], np.float64(scores[i])
        own, error = np.float64(targets.own[target]), _error(targets, target, norm[column[i]])
        if score > own + error:
            found.above[target] += 1
        elif not score < own - error:
            found.within[target] += 1
            if stored < len(found.which):
                found.which[stored], found.column[stored] = target, start + column[i]
            stored += 1
    return stored


@_fast
def _float32_products(queries, candidates, row, which, column, scores):
    """Float32 products of pairs, four at a time, so that their loads overlap."""
    last = len(which) - 1
    for i in range(0, len(which), 4):
        a, b, c, d = i, min(i + 1, last), min(i + 2, last), min(i + 3, last)
        p, q = np.uint64(row[which[a]]), np.uint64(row[which[b]])
        r, s = np.uint64(row[which[c]]), np.uint64(row[which[d]])
        e, f, g, h = column[a], column[b], column[c], column[d]
        w, x, y, z = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(queries.shape[1]):
            w += queries[p, k] * candidates[e, k]
            x += queries[q, k] * candidates[f, k]
            y += queries[r, k] * candidates[g, k]
            z += queries[s, k] * candidates[h, k]
        scores[a], scores[b], scores[c], scores[d] = w, x, y, z
