"""Some of the queries, for what a histogram cannot tell: noise, groups, and the queries themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.compare.lineup import Codes, Lineup

_MOST_DIFFERENT = 20_000


@dataclass(frozen=True)
class Sample:
    """Rows of a line-up.

    Attributes:
        random: Rows of triples drawn at random, each triple with all its queries, in their order.
        different: Further rows: those on which the models differ most.
    """

    random: Codes
    different: Codes

    @property
    def rows(self) -> Codes:
        """All of them, the random ones first."""
        return np.concatenate([self.random, self.different])

    def of(self, lineup: Lineup) -> Lineup:
        """The line-up of these rows."""
        runs = {model: tuple(run.take(self.rows) for run in own) for model, own in lineup.runs.items()}
        return Lineup(runs, lineup.left_out)


def draw_sample(lineup: Lineup, size: int, seed: int = 0) -> Sample:
    """About that many rows at random, and beside them up to a fifth as many on which the models differ most.

    Example:
        >>> from kgprobe import Ranks
        >>> from kgprobe.compare import line_up
        >>> def ranks(last):
        ...     return Ranks.from_columns(
        ...         head=range(9), relation=[0] * 9, tail=[0] * 9, side=["tail"] * 9, rank=[1] * 8 + [last],
        ...         candidates=[9] * 9,
        ...     )
        >>> sample = draw_sample(line_up({"one": ranks(1), "other": ranks(9)}), 5, seed=1)
        >>> sample.random.tolist(), sample.different.tolist()
        ([0, 1, 2, 4, 7], [8])
    """
    clusters = lineup.clusters("triple")
    order = np.random.default_rng(seed).permutation(clusters.count)
    queries = np.bincount(clusters.codes, minlength=clusters.count)
    drawn = np.zeros(clusters.count, dtype=bool)
    drawn[order[np.cumsum(queries[order]) <= max(size, int(queries.max()))]] = True
    chosen = drawn[clusters.codes]
    spread = np.where(chosen, -1.0, _spread(lineup))
    most = min(_MOST_DIFFERENT, size // 5, int((~chosen).sum()))
    different = np.sort(np.argpartition(-spread, most - 1)[:most]) if most else np.empty(0, dtype=np.int64)
    return Sample(np.flatnonzero(chosen), different)


def _spread(lineup: Lineup) -> NDArray[np.float64]:
    """By how much the worst and the best log rank of any two models differ, query by query."""
    best, worst = np.full(len(lineup), np.inf), np.full(len(lineup), -np.inf)
    for own in lineup.runs.values():
        log_rank = np.mean([np.log(run.rank) for run in own], axis=0)
        np.minimum(best, log_rank, out=best)
        np.maximum(worst, log_rank, out=worst)
    return np.asarray(worst - best)
