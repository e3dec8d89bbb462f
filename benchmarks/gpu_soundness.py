"""Soundness of the fast passes on a GPU: no pair that they decide is decided wrongly. A part of gpu_ranking.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kgprobe.predict.backends.fused_counts import _DotTable, _NormTable
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity

if TYPE_CHECKING:
    from gpu_ranking import Bench

BITS = 32  # candidates that an entry in a list of unclear candidates stands for

NORMS = (GroupNorm(1, 12.0), GroupNorm(2), GroupNorm(8), GroupNorm(None, 9.0))


def used_places(listed: Tensor, found: Tensor) -> Tensor:
    """[rows, programs, room]: which places of the lists are in use."""
    return torch.arange(found.shape[2], device=listed.device) < listed.T[:, :, None]


def drawn(bench: Bench, kind: str, rows: int, dimension: int, *, queries: bool) -> Tensor:
    """Vectors that are meant to break an error bound."""
    table = bench.normal(rows, dimension)
    if kind in ("huge", "tiny"):
        # Some rows of "huge" may overflow in float32, most do not; products of "tiny" are subnormal or zero.
        low, high = {"huge": (10, 20 if queries else 16), "tiny": (-44, -18)}[kind]
        return (table.double() * 10.0 ** bench.uniform(low, high, rows, 1)).float()
    if kind == "one ulp apart" and not queries:
        table = table[:1].repeat(rows, 1)
        place = torch.arange(rows, device=bench.place), bench.chosen(dimension, rows)
        toward = torch.where(bench.chosen(2, rows) > 0, torch.inf, -torch.inf)
        table[place] = torch.nextafter(table[place], toward.to(table.dtype))
    if kind == "permuted":  # equal sums, if nothing were rounded
        order = bench.uniform(0, 1, rows, dimension).argsort(1)
        return torch.full_like(table, 0.1) if queries else table[:1].expand(rows, -1).gather(1, order)
    if kind == "cancelling":
        table[:, -1] = table[:, 0] if queries else -1e7
        table[:, 0] = table[:, 0] if queries else 1e7
    return table


def cases(bench: Bench) -> Iterator[tuple[str, Similarity, int, int]]:
    """Tables, similarities, levels and dimensions that are checked."""
    for kind in ("normal", "one ulp apart", "permuted", "huge", "tiny", "cancelling"):
        for dimension in bench.sizes.checked_dimensions:
            yield kind, Dot(), 0, dimension
            yield kind, Dot(), 1, dimension
            yield from ((kind, similarity, 0, dimension) for similarity in NORMS)


def soundness(bench: Bench) -> None:
    """The counts of the fast passes and the final counts, against float64 on the device."""
    rows, columns = bench.sizes.checked
    pairs, compared, violations = 0, 0, 0
    for kind, similarity, level, dimension in cases(bench):
        queries = drawn(bench, kind, rows, dimension, queries=True)
        candidates = drawn(bench, kind, columns, dimension, queries=False)
        by_fast_scores, broken = check(bench, similarity, level, queries, candidates)
        pairs, compared, violations = pairs + rows * columns, compared + by_fast_scores * columns, violations + broken
        if broken:
            print(f"  VIOLATION: {kind}, {similarity}, level {level}, d {dimension}: {broken} rows")
    print(f"{pairs:,} pairs, {compared:,} of them in rows that fast scores count; rows in violation: {violations}")
    if violations:
        raise RuntimeError("the bounds of fast scores do not hold")


def check(bench: Bench, similarity: Similarity, level: int, queries: Tensor, candidates: Tensor) -> tuple[int, int]:
    """The number of rows that fast scores count, and of those that violate the bounds."""
    column = bench.chosen(len(candidates), len(queries))
    counter = bench.counter(similarity, queries, candidates[column])
    table = _DotTable(counter, candidates) if isinstance(similarity, Dot) else _NormTable(counter, candidates)
    above, listed, found = table.compare(counter._rows, level, -(-len(candidates) // BITS))
    unclear = unclear_pairs(listed, found, len(candidates))
    counter.add(candidates)

    # The reference adds in another order than canonical scores do, so it is off by less than the slack. Where that does
    # not matter after rounding to float32, the order of a candidate and the target is certain; else both are accepted.
    scores, slack = reference(similarity, queries.double(), candidates.double())
    own, low, high = counter.own[:, None], (scores - slack).float(), (scores + slack).float()
    greater, maybe_greater = low > own, high > own
    equal, maybe_equal = (low == own) & (high == own), (low <= own) & (high >= own)

    # Every pair that is not listed as unclear must be decided rightly: none of them is equal, and those that are
    # greater were counted above. It follows that the rank lies in [above, above + unclear].
    decided = ~unclear
    wrong = (above < (greater & decided).sum(1)) | (above > (maybe_greater & decided).sum(1)) | (equal & decided).any(1)
    fast = ~table.risky(counter._rows)
    wrong &= fast
    wrong |= ~maybe_equal.gather(1, column[:, None])[:, 0]  # the target's own score
    for counted, least, most in zip(counter.totals.T, (greater, equal), (maybe_greater, maybe_equal), strict=False):
        wrong |= (counted < least.sum(1)) | (counted > most.sum(1))
    return int(fast.sum()), int((wrong | (counter.totals[:, 2] > 0)).sum())


def unclear_pairs(listed: Tensor, found: Tensor, columns: int) -> Tensor:
    """[rows, columns]: whether the lists of entries contain a pair."""
    row, program, place = used_places(listed, found).nonzero(as_tuple=True)
    words = torch.zeros((listed.shape[1], -(-columns // BITS)), dtype=torch.int64, device=listed.device)
    words[row, found[row, program, place] >> BITS] = found[row, program, place] & 0xFFFFFFFF
    bits = words[:, :, None] >> torch.arange(BITS, device=listed.device) & 1
    return bits.bool().flatten(1)[:, :columns]


def reference(similarity: Similarity, queries: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Scores in float64, and bounds of what they may differ from sums of float64 in any other order."""
    dimension = queries.shape[1]
    unit = (dimension + 16) * 2.0**-52
    if isinstance(similarity, Dot):
        return queries @ candidates.T, unit * queries.norm(dim=1)[:, None] * candidates.norm(dim=1)
    width = similarity.width(dimension)
    distance = queries.new_zeros((len(queries), len(candidates)))
    for first in range(0, dimension, width):
        squared = torch.zeros_like(distance)
        for place in range(first, first + width):
            squared += (queries[:, place, None] - candidates[:, place]).square_()
        distance += squared.sqrt_()
    return similarity.gamma - distance, unit * (distance + abs(similarity.gamma))
