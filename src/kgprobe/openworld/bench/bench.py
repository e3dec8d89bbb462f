"""The bench: which metrics keep the order of models when facts are missing, and at what price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgprobe.metrics import Metric
from kgprobe.openworld.bench.consistency import Consistency, consistency
from kgprobe.openworld.bench.points import Points
from kgprobe.openworld.bench.settings import Settings
from kgprobe.openworld.bench.uncertainty import TauDifference, sentences, tau_differences
from kgprobe.openworld.metrics import OPEN_WORLD_METRICS

if TYPE_CHECKING:
    from kgprobe.openworld.pair import RankPair

FEW_LATE, FEW_MODELS = 10, 5
"""Fewer late points or models than this call for a remark."""


@dataclass(frozen=True, eq=False)
class Bench:
    """Models and checkpoints in an open and in a closed world, metric by metric.

    Attributes:
        world: The name of the world.
        points: All values.
        consistency: The statistics of every metric.
        differences: PROBE against pMRR: differences of Kendall's tau with intervals.
        settings: How it was made.
    """

    world: str
    points: Points
    consistency: tuple[Consistency, ...]
    differences: tuple[TauDifference, ...]
    settings: Settings

    @classmethod
    def of(cls, points: Points, world: str = "", settings: Settings | None = None) -> Bench:
        """All statistics of points."""
        chosen = settings or Settings()
        return cls(
            world=world,
            points=points,
            consistency=tuple(consistency(points, i, chosen.late) for i in range(len(points.metrics))),
            differences=tuple(one for late in (False, True) for one in tau_differences(points, chosen, late=late)),
            settings=chosen,
        )

    @property
    def verdict(self) -> list[str]:
        """At which alpha PROBE is more consistent than pMRR, and at which it is not."""
        return sentences(self.differences)

    @property
    def notes(self) -> list[str]:
        """What limits the statistics, one sentence each."""
        models, points = len(self.points.models), len(self.points)
        late = int((self.points.mrr > self.settings.late).sum())
        above = f"have a closed-world MRR above {self.settings.late:g}"
        remarks = {
            "There is one model only: its checkpoints are compared, and there are no intervals.": models == 1,
            f"Intervals over {models} models are rough: every one of them counts much.": 1 < models < FEW_MODELS,
            f"No point is late: none of the {points:,} {above}.": late == 0,
            f"Only {late} of {points:,} points are late ({above}): their statistics say little.": 0 < late < FEW_LATE,
            "No model has two late checkpoints, so that there is no spread at equal closed-world value.": late > 0
            and len(set(self.points.model[self.points.mrr > self.settings.late].tolist())) == late,
        }
        return [remark for remark, holds in remarks.items() if holds]

    def to_rows(self) -> list[dict[str, Any]]:
        """One flat row for each metric."""
        return [{"world": self.world} | one.to_row() for one in self.consistency]

    def __repr__(self) -> str:
        points = self.points
        return f"Bench({len(points.models)} models, {len(points)} points, {len(points.metrics)} metrics)"


def bench(
    pairs: Mapping[str, Mapping[str, RankPair]],
    metrics: Iterable[str | Metric] = OPEN_WORLD_METRICS,
    *,
    world: str = "",
    settings: Settings | None = None,
) -> Bench:
    """Compare how metrics order models and checkpoints in the open and in the closed world.

    Args:
        pairs: Model to checkpoint, in the order of training, to its rank tables of both worlds.
        metrics: The metrics; every one is a mean over all queries of a table, ties by their mean rank.
        world: A name.
        settings: What counts as late, and how intervals are drawn.
    """
    return Bench.of(Points.of(pairs, metrics), world, settings)
