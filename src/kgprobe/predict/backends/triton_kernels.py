"""Triton kernels that compare candidates with targets: fast scores first, canonical scores where those are unclear.

Importing this module needs triton. A row is a target with the embedding of its query; a column is a candidate. The fast
kernels score tiles of rows and columns, compare them with the bounds of the targets and count, all in registers: scores
are never written. Pairs within the bounds are unclear; their columns are appended to a list of fixed room for each row
and program. `settle_lists` counts them by canonical scores. Integer additions commute, so the order of programs makes
no difference.
"""

from __future__ import annotations

import os

import triton
import triton.language as tl

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,unused-ignore"

_INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")

if _INTERPRETED:

    def _limit(number):
        """The bound of a loop. Triton's interpreter holds numbers in arrays, which are no bounds of Python's loops."""
        return number.handle.data.item()

else:

    @triton.jit
    def _limit(number):
        """The bound of a loop."""
        return number


@triton.jit(do_not_specialize=["rows"])
def round_rows(
    embeddings,
    high,
    low,
    sizes,
    rows,
    dimension: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Round float32 rows to bfloat16, and what is lost to a second bfloat16; what is subnormal becomes zero.

    ``sizes`` [3, rows] becomes the norm of each row, of what the first number has lost, and of what both have lost.
    Rows and coordinates beyond the embeddings are filled with zeros.
    """
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    total = tl.zeros((ROWS,), tl.float64)
    once = tl.zeros((ROWS,), tl.float64)
    twice = tl.zeros((ROWS,), tl.float64)
    for first in range(0, PADDED, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = (row < rows)[:, None] & (column < dimension)[None, :]
        value = tl.load(embeddings + row[:, None] * dimension + column[None, :], mask=inside, other=0.0)
        short = _shortened(value)
        rest = value - short
        tl.store(high + row[:, None] * PADDED + column[None, :], short.to(tl.bfloat16))
        exact = value.to(tl.float64)
        missed = exact - short.to(tl.float64)
        total += tl.sum(exact * exact, axis=1)
        once += tl.sum(missed * missed, axis=1)
        second = _shortened(rest)
        tl.store(low + row[:, None] * PADDED + column[None, :], second.to(tl.bfloat16))
        missed -= second.to(tl.float64)
        twice += tl.sum(missed * missed, axis=1)
    there = row < rows
    tl.store(sizes + row, tl.sqrt(total), mask=there)
    tl.store(sizes + rows + row, tl.sqrt(once), mask=there)
    tl.store(sizes + 2 * rows + row, tl.sqrt(twice), mask=there)


@triton.jit
def _shortened(value):
    """The nearest bfloat16 as a float32: never infinite for a finite number, and zero where it is subnormal."""
    largest = 3.3895313892515355e38
    short = tl.minimum(tl.maximum(value, -largest), largest).to(tl.bfloat16).to(tl.float32)
    return tl.where(tl.abs(short) < 1.1754943508222875e-38, 0.0, short)


@triton.jit(do_not_specialize=["columns", "tiles", "room"])
def count_dots(
    query_high,
    query_low,
    bounds,
    slope,
    candidate_high,
    candidate_low,
    scale,
    counts,
    found,
    rows,
    columns,
    tiles,
    room,
    PADDED: tl.constexpr,
    TIGHT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Count dot products in bfloat16; if ``TIGHT``, by three products of halves of the coordinates.

    A program compares a tile of rows with ``tiles`` tiles of columns. A candidate is above the target if its score
    minus slope * scale is larger than the second of the row's ``bounds`` [2, rows], and below it if its score plus
    slope * scale is smaller than minus the first. Rows that have NaN for bounds and columns that have it for ``scale``
    do not count: they are padding, or they are counted by canonical scores alone. ``counts`` [2, programs, rows] become
    the numbers of candidates above, and of entries in the lists.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    of_query = row.to(tl.int64)[:, None] * PADDED
    low, high = -tl.load(bounds + row)[:, None], tl.load(bounds + rows + row)[:, None]
    steep = tl.load(slope + row)[:, None]
    above = tl.zeros((ROWS,), tl.int32)
    listed = tl.zeros((ROWS,), tl.int32)
    if PADDED == BLOCK and not TIGHT:
        whole = tl.load(query_high + of_query + tl.arange(0, BLOCK)[None, :])
    start = tl.program_id(1) * tiles
    for tile in range(_limit(start), _limit(tl.minimum(start + tiles, columns // COLUMNS))):
        column = tile * COLUMNS + tl.arange(0, COLUMNS)
        of_candidate = column.to(tl.int64)[None, :] * PADDED
        scores = tl.zeros((ROWS, COLUMNS), tl.float32)
        if PADDED == BLOCK and not TIGHT:
            candidate = tl.load(candidate_high + of_candidate + tl.arange(0, BLOCK)[:, None])
            scores = _product(whole, candidate, scores)
        else:
            for first in range(0, PADDED, BLOCK):
                coordinate = first + tl.arange(0, BLOCK)
                query = tl.load(query_high + of_query + coordinate[None, :])
                candidate = tl.load(candidate_high + of_candidate + coordinate[:, None])
                if TIGHT:
                    rest_of_query = tl.load(query_low + of_query + coordinate[None, :])
                    rest_of_candidate = tl.load(candidate_low + of_candidate + coordinate[:, None])
                    scores = _product(rest_of_query, candidate, scores)
                    scores = _product(query, rest_of_candidate, scores)
                scores = _product(query, candidate, scores)
        bound = steep * tl.load(scale + column)[None, :]
        least, most = scores - bound, scores + bound
        above += tl.sum((least > high).to(tl.int32), axis=1)
        unclear = (least <= high) & (most >= low)
        listed = _listed(row, tile, unclear, listed, found, room, ROWS, COLUMNS)
    _store_counts(row, above, listed, counts, rows)


@triton.jit
def _product(rows, columns, added):
    """The matrix product plus ``added``. Triton's interpreter would multiply the bits of bfloat16 as integers."""
    if _INTERPRETED:
        return tl.dot(rows.to(tl.float32), columns.to(tl.float32), added)
    else:  # noqa: RET505 (Triton needs both returns in one statement)
        return tl.dot(rows, columns, added)


@triton.jit(do_not_specialize=["tiles", "room"])
def count_norms(
    queries,
    bounds,
    candidates,
    counts,
    found,
    rows,
    columns,
    tiles,
    room,
    dimension: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Count sums of group norms in float32, with approximate square roots; see `count_dots`.

    Queries and candidates are transposed, [dimension, rows] and [dimension, columns], so that neighbouring threads load
    neighbouring numbers. ``bounds`` [2, rows]: a candidate beats the target if its distance is below the first, and is
    unclear from there up to the second; NaN for rows that do not count.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    near, far = tl.load(bounds + row)[:, None], tl.load(bounds + rows + row)[:, None]
    above = tl.zeros((ROWS,), tl.int32)
    listed = tl.zeros((ROWS,), tl.int32)
    start = tl.program_id(1) * tiles
    for tile in range(_limit(start), _limit(tl.minimum(start + tiles, columns // COLUMNS))):
        of_query, of_candidate = queries + row, candidates + tile * COLUMNS + tl.arange(0, COLUMNS)
        distance = tl.zeros((ROWS, COLUMNS), tl.float32)
        if WIDTH == 1:
            for _ in range(dimension):
                distance += tl.abs(tl.load(of_query)[:, None] - tl.load(of_candidate)[None, :])
                of_query += rows
                of_candidate += columns
        elif WIDTH == 2:
            for _ in range(0, dimension, 2):
                real = tl.load(of_query)[:, None] - tl.load(of_candidate)[None, :]
                imaginary = tl.load(of_query + rows)[:, None] - tl.load(of_candidate + columns)[None, :]
                distance += tl.sqrt(real * real + imaginary * imaginary)
                of_query += 2 * rows
                of_candidate += 2 * columns
        else:
            for _ in range(0, dimension, WIDTH):
                squared = tl.zeros((ROWS, COLUMNS), tl.float32)
                for _ in range(WIDTH):
                    difference = tl.load(of_query)[:, None] - tl.load(of_candidate)[None, :]
                    squared += difference * difference
                    of_query += rows
                    of_candidate += columns
                distance += tl.sqrt(squared)
        above += tl.sum((distance < near).to(tl.int32), axis=1)
        unclear = (distance >= near) & (distance <= far)
        listed = _listed(row, tile, unclear, listed, found, room, ROWS, COLUMNS)
    _store_counts(row, above, listed, counts, rows)


@triton.jit
def _listed(row, tile, unclear, listed, found, room, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Append the unclear pairs of a tile to the lists of this program, and return how many entries there are now.

    ``found`` is [rows, programs, room]. An entry stands for 32 columns: its upper half is their number, its lower half
    has a bit for each that is unclear. Entries for which there is no room are only counted.
    """
    WORDS: tl.constexpr = COLUMNS // 32
    bits = tl.reshape(unclear.to(tl.int32), (ROWS, WORDS, 32)) << tl.arange(0, 32)[None, None, :]
    words = tl.sum(bits, axis=2)
    segment = tl.arange(0, WORDS)
    used = tl.sum((words != 0).to(tl.int32) << segment[None, :], axis=1)  # a bit for each entry
    place = listed[:, None] + _ones(used[:, None] & ((1 << segment[None, :]) - 1))
    entry = ((tile * WORDS + segment).to(tl.int64)[None, :] << 32) | (words.to(tl.int64) & 0xFFFFFFFF)
    list_of = row.to(tl.int64)[:, None] * tl.num_programs(1) + tl.program_id(1)
    tl.store(found + list_of * room + place, entry, mask=(words != 0) & (place < room))
    return listed + _ones(used)


@triton.jit
def _ones(bits):
    """The number of bits that are set, of at most eight."""
    bits -= (bits >> 1) & 0x55
    bits = (bits & 0x33) + ((bits >> 2) & 0x33)
    return (bits + (bits >> 4)) & 0x0F


@triton.jit
def _store_counts(row, above, listed, counts, rows):
    """Store what a program has counted."""
    place = tl.program_id(1).to(tl.int64) * rows + row
    tl.store(counts + place, above)
    tl.store(counts + tl.num_programs(1).to(tl.int64) * rows + place, listed)


@triton.jit
def _canonical(query, candidate, there, gamma, dimension: tl.constexpr, WIDTH: tl.constexpr, PAIRS: tl.constexpr):
    """Canonical scores of pairs of pointers to rows: float64 in the order of the coordinates, rounded to float32.

    ``WIDTH`` is the width of a group, or 0 for dot products. Four coordinates are loaded at a time where groups allow
    it; they are added one after the other all the same. Products and sums must not be fused (``enable_fp_fusion``).
    """
    total = tl.zeros((PAIRS,), tl.float64)
    if dimension % 4 == 0 and (WIDTH <= 2 or WIDTH % 4 == 0):
        squared = tl.zeros((PAIRS,), tl.float64)
        four = tl.arange(0, 4)
        for first in range(0, dimension, 4):
            q0, q1, q2, q3 = _columns(query[:, None] + (first + four)[None, :], there, PAIRS)
            e0, e1, e2, e3 = _columns(candidate[:, None] + (first + four)[None, :], there, PAIRS)
            if WIDTH == 0:
                total += q0 * e0
                total += q1 * e1
                total += q2 * e2
                total += q3 * e3
            else:
                d0, d1, d2, d3 = q0 - e0, q1 - e1, q2 - e2, q3 - e3
                if WIDTH == 1:
                    total += tl.abs(d0)  # the square root of a rounded square is exact
                    total += tl.abs(d1)
                    total += tl.abs(d2)
                    total += tl.abs(d3)
                elif WIDTH == 2:
                    total += tl.sqrt(d0 * d0 + d1 * d1)
                    total += tl.sqrt(d2 * d2 + d3 * d3)
                else:
                    squared += d0 * d0
                    squared += d1 * d1
                    squared += d2 * d2
                    squared += d3 * d3
                    if (first + 4) % WIDTH == 0:
                        total += tl.sqrt(squared)
                        squared = tl.zeros((PAIRS,), tl.float64)
    elif WIDTH == 0:
        for i in range(dimension):
            q = tl.load(query + i, mask=there, other=0.0).to(tl.float64)
            total += q * tl.load(candidate + i, mask=there, other=0.0).to(tl.float64)
    else:
        for first in range(0, dimension, WIDTH):
            squares = tl.zeros((PAIRS,), tl.float64)
            for i in range(first, first + WIDTH):
                q = tl.load(query + i, mask=there, other=0.0).to(tl.float64)
                d = q - tl.load(candidate + i, mask=there, other=0.0).to(tl.float64)
                squares += d * d
            total += tl.sqrt(squares)
    if WIDTH > 0:
        total = tl.load(gamma) - total
    return total.to(tl.float32)


@triton.jit
def _columns(pointers, there, PAIRS: tl.constexpr):
    """Four neighbouring numbers of each pair in float64."""
    loaded = tl.load(pointers, mask=there[:, None], other=0.0)
    even, odd = tl.split(tl.reshape(loaded, (PAIRS, 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first.to(tl.float64), second.to(tl.float64), third.to(tl.float64), fourth.to(tl.float64)


@triton.jit(do_not_specialize=["pairs", "first_column"])
def score_pairs(
    queries,
    row,
    candidates,
    column,
    place,
    scores,
    gamma,
    pairs,
    first_column,
    dimension: tl.constexpr,
    WIDTH: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Canonical scores of pairs of a query and a candidate, each stored at its ``place``."""
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    there = pair < pairs
    query = queries + tl.load(row + pair, mask=there, other=0).to(tl.int64) * dimension
    of = tl.load(column + pair, mask=there, other=0).to(tl.int64) - first_column
    score = _canonical(query, candidates + of * dimension, there, gamma, dimension, WIDTH, PAIRS)
    tl.store(scores + tl.load(place + pair, mask=there, other=0), score, mask=there)


@triton.jit(do_not_specialize=["lists", "room"])
def settle_lists(
    queries,
    own,
    candidates,
    found,
    listed,
    above,
    index,
    totals,
    gamma,
    lists,
    room,
    dimension: tl.constexpr,
    WIDTH: tl.constexpr,
    LISTS: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Count the candidates in the lists of a row by canonical scores, and add what was counted before, ``above``.

    A program takes ``LISTS`` of the ``lists`` of a row; ``listed`` [lists, rows] are their numbers of entries.
    ``totals`` [.., 3] are the numbers of greater, equal and NaN scores of the rows whose numbers are ``index``.
    """
    row = tl.program_id(0).to(tl.int64)
    first_list = tl.program_id(1) * LISTS
    listed += row
    found += row * lists * room
    number = 0
    for k in range(LISTS):
        some = first_list + k
        number += tl.load(listed + some.to(tl.int64) * tl.num_programs(0), mask=some < lists, other=0)
    query = queries + (row * dimension + tl.zeros((PAIRS,), tl.int64))
    target = tl.load(own + row)
    greater = tl.zeros((PAIRS,), tl.int32)
    equal = tl.zeros((PAIRS,), tl.int32)
    broken = tl.zeros((PAIRS,), tl.int32)
    start = 0
    while start < number:
        place = start + tl.arange(0, PAIRS)
        before = 0
        at = tl.zeros((PAIRS,), tl.int64)  # where the entries are, one list after the other
        for k in range(LISTS):
            some = first_list + k
            stop = before + tl.load(listed + some.to(tl.int64) * tl.num_programs(0), mask=some < lists, other=0)
            at = tl.where((place >= before) & (place < stop), some.to(tl.int64) * room + place - before, at)
            before = stop
        # Each thread takes an entry, and its candidates one after the other. Most entries have only one.
        entry = tl.load(found + at, mask=place < number, other=0)
        first, bits = (entry >> 32) * 32, entry & 0xFFFFFFFF
        while tl.max(bits, axis=0) > 0:
            there, lowest = bits != 0, bits & -bits
            column = first + _exponent(lowest)
            score = _canonical(query, candidates + column * dimension, there, gamma, dimension, WIDTH, PAIRS)
            greater += (there & (score > target)).to(tl.int32)
            equal += (there & (score == target)).to(tl.int32)
            broken += (there & (score != score)).to(tl.int32)
            bits -= lowest
        start += PAIRS
    beaten = tl.where(tl.program_id(1) == 0, tl.load(above + row), 0)
    _add(totals + 3 * tl.load(index + row).to(tl.int64), beaten + tl.sum(greater, axis=0), equal, broken)


@triton.jit
def settle_all(
    queries,
    own,
    candidates,
    columns,
    index,
    totals,
    gamma,
    dimension: tl.constexpr,
    WIDTH: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Count all candidates, whose number ``columns`` points to, by canonical scores; see `settle_lists`."""
    row = tl.program_id(0).to(tl.int64)
    number = tl.load(columns)
    query = queries + (row * dimension + tl.zeros((PAIRS,), tl.int64))
    target = tl.load(own + row)
    greater = tl.zeros((PAIRS,), tl.int32)
    equal = tl.zeros((PAIRS,), tl.int32)
    broken = tl.zeros((PAIRS,), tl.int32)
    start = tl.program_id(1) * PAIRS
    while start < number:
        column = (start + tl.arange(0, PAIRS)).to(tl.int64)
        there = column < number
        score = _canonical(query, candidates + column * dimension, there, gamma, dimension, WIDTH, PAIRS)
        greater += (there & (score > target)).to(tl.int32)
        equal += (there & (score == target)).to(tl.int32)
        broken += (there & (score != score)).to(tl.int32)
        start += tl.num_programs(1) * PAIRS
    _add(totals + 3 * tl.load(index + row).to(tl.int64), tl.sum(greater, axis=0), equal, broken)


@triton.jit
def _add(totals, greater, equal, broken):
    """Add to the three numbers of a row, which other programs may add to as well."""
    tl.atomic_add(totals, greater.to(tl.int64), sem="relaxed")
    tl.atomic_add(totals + 1, tl.sum(equal, axis=0).to(tl.int64), sem="relaxed")
    tl.atomic_add(totals + 2, tl.sum(broken, axis=0).to(tl.int64), sem="relaxed")


@triton.jit
def _exponent(powers):
    """The exponents of powers of two."""
    return (powers.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127


@triton.jit
def subtract_scores(scores, offsets, query, own, totals, PAIRS: tl.constexpr):
    """Subtract from the numbers of each target the scores of its query, from ``offsets`` of the query on."""
    row = tl.program_id(0).to(tl.int64)
    of = tl.load(query + row)
    start, last = tl.load(offsets + of), tl.load(offsets + of + 1)
    target = tl.load(own + row)
    greater = tl.zeros((PAIRS,), tl.int32)
    equal = tl.zeros((PAIRS,), tl.int32)
    broken = tl.zeros((PAIRS,), tl.int32)
    while start < last:
        pair = start + tl.arange(0, PAIRS)
        there = pair < last
        score = tl.load(scores + pair, mask=there, other=0.0)
        greater -= (there & (score > target)).to(tl.int32)
        equal -= (there & (score == target)).to(tl.int32)
        broken -= (there & (score != score)).to(tl.int32)
        start += PAIRS
    _add(totals + 3 * row, tl.sum(greater, axis=0), equal, broken)
