"""Compression of ranks to histograms, for pages with too many queries.

Small ranks, on which sharp metrics depend, are exact. Larger ranks, candidate counts and popularities are binned on a
log scale, because PROBE is a function of their logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import Sums, surface
from kgprobe.aggregate.weights import log_weight, scaled_exp
from kgprobe.arrays import Floats, Ints, distinct, sum_by
from kgprobe.comparison.lineup import Lineup
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks
from kgprobe.ranks.schema import POPULARITY
from kgprobe.report.page.page_queries import Content, draw_sample, query_content
from kgprobe.transform import AffinePower

ALPHAS, BETAS = (-1.0, -0.5, 0.0, 0.5, 1.0), (0.0, 0.2, 0.4, 0.6, 0.8)
"""The paper's grid, on which the compression error is measured."""

MOST_CELLS = 2_500_000
_EXACT_RANKS = 64
_RANK_WIDTH, _SIZE_WIDTH, _POPULARITY_WIDTH = 0.02, 0.02, 0.05
"""Bin widths in natural logs."""

_MOST_BINS = 1 << 20  # of popularity: more than float64 has

_COARSER = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Strata:
    """Queries with nearly the same candidate count and popularity, and their means."""

    of_query: NDArray[np.int32]
    size: Floats
    log_popularity: Floats


@dataclass(frozen=True)
class HistogramCells:
    """Numbers of queries of a run by rank bin and stratum."""

    rank: Ints
    stratum: Ints
    count: Ints


@dataclass(frozen=True)
class Histogram:
    """The cells of all runs of a line-up; runs with the same candidates and popularity share their strata."""

    ranks: Floats
    strata: list[Strata]
    strata_of: list[int]
    cells: list[HistogramCells]

    @property
    def size(self) -> int:
        """The number of cells of all runs."""
        return sum(len(cells.rank) for cells in self.cells)

    def surface(self, run: int, weighted: bool) -> Floats:
        """PROBE of a run over the paper's grid, computed from the cells as on the page."""
        cells, strata = self.cells[run], self.strata[self.strata_of[run]]
        rank, size = self.ranks[cells.rank], strata.size[cells.stratum]
        betas = np.array(BETAS if weighted else (0.0,))
        weight = cells.count * np.stack([scaled_exp(-beta * strata.log_popularity)[cells.stratum] for beta in betas])
        scores = np.stack([AffinePower(alpha)(rank, size) for alpha in ALPHAS])
        return Sums(weight.sum(axis=1), score=scores @ weight.T).mean


def histogram(lineup: Lineup, epsilons: Sequence[Sequence[float] | None]) -> Histogram:
    """The finest histogram with at most `MOST_CELLS` cells."""
    runs = [(run, epsilons[number]) for number, own in enumerate(lineup.runs.values()) for run in own]
    for coarser in _COARSER:
        found = _histogram(runs, coarser)
        if found.size <= MOST_CELLS:
            break
    return found


def deviation(found: Histogram, lineup: Lineup, weighted: bool) -> float:
    """The largest compression error of any run over the paper's grid."""
    betas = BETAS if weighted else (0.0,)
    runs = [run for own in lineup.runs.values() for run in own]
    return max(
        float(np.abs(found.surface(i, weighted) - surface(run, ALPHAS, betas)).max()) for i, run in enumerate(runs)
    )


def cell_content(found: Histogram) -> Content:
    """The cells of all runs as arrays."""
    content = Content(arrays={"cellRanks": found.ranks})
    for i, strata in enumerate(found.strata):
        content.arrays |= {f"stratumSize{i}": strata.size, f"stratumLog{i}": strata.log_popularity}
    for i, cells in enumerate(found.cells):
        content.arrays |= {f"cellRank{i}": cells.rank, f"cellStratum{i}": cells.stratum, f"cellCount{i}": cells.count}
    content.steps = frozenset(f"cellStratum{i}" for i in range(len(found.cells)))
    content.header["cells"] = [{"cells": i, "strata": strata} for i, strata in enumerate(found.strata_of)]
    return content


Run = tuple[Ranks, Sequence[float] | None]
"""A training run and the epsilons of its popularities."""


def _histogram(runs: Sequence[Run], coarser: int) -> Histogram:
    codes = [_by_batch(run, np.int32, lambda batch: _rank_codes(batch.rank, coarser)) for run, _ in runs]
    most = 1 + max(int(own.max()) for own in codes)
    counts = sum(np.bincount(own, minlength=most) for own in codes)
    logs = sum(np.bincount(own, np.log(run.rank), most) for own, (run, _) in zip(codes, runs, strict=True))
    occurring = np.flatnonzero(counts)
    place = np.zeros(most, dtype=np.int32)
    place[occurring] = np.arange(len(occurring))
    ranks = np.exp(np.asarray(logs)[occurring] / np.asarray(counts)[occurring])
    strata, strata_of = _shared_strata(runs, coarser)
    cells = [
        _cells(place[own], strata[which].of_query, run.candidates > 1)
        for own, which, (run, _) in zip(codes, strata_of, runs, strict=True)
    ]
    return Histogram(ranks, strata, strata_of, cells)


def _by_batch(run: Ranks, kind: type[np.generic], of: Callable[[Ranks], NDArray[Any]]) -> NDArray[Any]:
    """A function of every query, computed batch by batch: a large run would need many arrays of its length."""
    values, start = np.empty(len(run), dtype=kind), 0
    for batch in run.batches():
        values[start : start + len(batch)] = of(batch)
        start += len(batch)
    return values


def _rank_codes(rank: Floats, coarser: int) -> Ints:
    """Bins of ranks: multiples of one half up to the largest exact rank, then log bins."""
    beyond = 2 * _EXACT_RANKS + np.log(np.maximum(rank / _EXACT_RANKS, 1)) // (_RANK_WIDTH * coarser)
    return np.where(rank <= _EXACT_RANKS, np.rint(2 * rank) - 2, beyond).astype(np.int64)


def _shared_strata(runs: Sequence[Run], coarser: int) -> tuple[list[Strata], list[int]]:
    """The distinct strata, and the index of the strata of each run."""
    made: list[tuple[Run, Strata]] = []
    which = []
    for run, epsilon in runs:
        same = (
            i
            for i, ((other, others), _) in enumerate(made)
            if epsilon == others and run.same_columns(other, ("candidates", *(POPULARITY if epsilon else ())))
        )
        at = next(same, len(made))
        if at == len(made):
            made.append(((run, epsilon), _strata(run, epsilon, coarser)))
        which.append(at)
    return [strata for _, strata in made], which


def _log_popularity(run: Ranks, epsilon: Sequence[float] | None) -> Floats:
    """The log of the base of the weights; 0 where popularity is unknown."""
    factors = {column: (1.0, eps) for column, eps in zip(POPULARITY, epsilon or (), strict=False)}
    # A query with a single candidate may lack its popularity; it is not evaluated.
    columns = {column: np.nan_to_num(run.numbers(column)) for column in factors}
    return 0.0 - log_weight(columns, np.ones(len(run), dtype=bool), factors)


def _strata(run: Ranks, epsilon: Sequence[float] | None, coarser: int) -> Strata:
    def bins(batch: Ranks) -> Floats:
        log_size: Floats = np.log(batch.candidates)
        log_popularity = _log_popularity(batch, epsilon)
        return log_size // (_SIZE_WIDTH * coarser) * _MOST_BINS + log_popularity // (_POPULARITY_WIDTH * coarser)

    (values,), which = distinct([_by_batch(run, np.float64, bins)], len(run))
    count = np.bincount(which, minlength=len(values))
    log_size = sum_by(which, np.log(run.candidates), len(values)) / count
    log_popularity = sum_by(
        which, _by_batch(run, np.float64, lambda batch: _log_popularity(batch, epsilon)), len(values)
    )
    return Strata(which.astype(np.int32), np.exp(log_size), log_popularity / count)


def _cells(rank: NDArray[np.int32], stratum: NDArray[np.int32], counted: NDArray[np.bool_]) -> HistogramCells:
    width = int(rank.max()) + 1
    keys = np.multiply(stratum, width, dtype=np.int64)
    keys += rank
    keys, count = np.unique(keys if counted.all() else keys[counted], return_counts=True)
    return HistogramCells(keys % width, keys // width, count)


HITS = 10  # MRR and Hits@10 count queries with a single candidate too, which the cells leave out
MOST_SAMPLED = 800_000  # ranks of all runs in the sample; the sliders stay responsive
_SMALLER = (1, 4, 16, 64)


def compressed(
    lineup: Lineup, graph: KnowledgeGraph | None, epsilons: Sequence[Sequence[float] | None]
) -> Iterator[Content]:
    """The content of a page with compressed ranks, in versions of decreasing size."""
    weighted = all(epsilon is not None for epsilon in epsilons)
    found = histogram(lineup, epsilons)
    cells, error = cell_content(found), deviation(found, lineup, weighted)
    runs = len(found.cells)
    tables = [run for own in lineup.runs.values() for run in own]
    for smaller in _SMALLER:
        sample = draw_sample(lineup, MOST_SAMPLED // runs // smaller)
        content = query_content(sample.of(lineup), graph, weighted) | Content(
            {
                "exact": False,
                "counted": len(sample.random),
                "compression": _sentence(len(lineup) * runs, len(sample.random), len(sample.different), error),
            },
            {"row": sample.rows},
            frozenset({"row"}),
        )
        for run, own, table in zip(content.header["runs"], cells.header["cells"], tables, strict=True):
            run |= {"cells": own, "metrics": [float(np.mean(1 / table.rank)), float(np.mean(table.rank <= HITS))]}
        yield content | Content(arrays=cells.arrays, steps=cells.steps)


def _sentence(ranks: int, sampled: int, different: int, error: float) -> str:
    return (
        f"The {ranks:,} ranks are compressed: scores are computed from a histogram of ranks, candidate counts and "
        f"popularity (largest error over the paper's grid of alpha and beta: {error:.1g}), intervals and groups from a "
        f"random sample of {sampled:,} queries. The table lists this sample and the {different:,} other queries on "
        f"which the models differ most."
    )
