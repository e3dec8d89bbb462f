"""Benches of the open world, as JSON can say them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgprobe.openworld.bench.ranking import ranking

if TYPE_CHECKING:
    from kgprobe.openworld.bench.bench import Bench

_DIGITS = 6


def world_entry(bench: Bench) -> dict[str, Any]:
    """All points of a bench and what was found about them."""
    points = bench.points
    return {
        "name": bench.world,
        "models": list(points.models),
        "model": points.model.tolist(),
        "checkpoints": list(points.checkpoints),
        "queries": points.queries,
        "late": bench.settings.late,
        "metrics": [_metric_entry(bench, number) for number in range(len(points.metrics))],
        "differences": [one.to_row() for one in bench.differences],
        "verdict": bench.verdict,
        "notes": bench.notes,
    }


def _metric_entry(bench: Bench, number: int) -> dict[str, Any]:
    points, found = bench.points, ranking(bench.points, number)
    return {
        "name": str(points.metrics[number]),
        "higherIsBetter": points.metrics[number].higher_is_better,
        "open": points.open[number].round(_DIGITS).tolist(),
        "closed": points.closed[number].round(_DIGITS).tolist(),
        "best": found.point.tolist(),
        "byOpen": found.by_open.tolist(),
        "byClosed": found.by_closed.tolist(),
        "statistics": bench.consistency[number].to_row(),
    }
