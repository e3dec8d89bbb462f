"""Estimates and differences as flat rows for programs, every digit kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kgprobe.report.standing import Question, Standing, question

if TYPE_CHECKING:
    from kgprobe.compare.interval import Interval
    from kgprobe.compare.outcome import Difference, Estimate

Row = dict[str, Any]


def estimate_row(
    estimate: Estimate, standings: Mapping[Question, Mapping[str, Standing]], files: Mapping[str, str]
) -> Row:
    """A value of a model with its interval and its standing among the models."""
    standing = standings[question(estimate)][estimate.model]
    return {
        "kind": "estimate",
        "ranks": files.get(estimate.model),
        "model": estimate.model,
        **estimate.group,
        "metric": str(estimate.metric),
        "value": estimate.value,
        **_limits(estimate.interval),
        "std": estimate.std,
        "seeds": estimate.seeds,
        "queries": estimate.queries,
        "clusters": estimate.clusters,
        "effective": estimate.effective,
        "place": standing.place,
        "within_noise": standing.within_noise,
        "beats": ", ".join(standing.beats),
    }


def difference_row(difference: Difference) -> Row:
    """How much a model is above another, with interval and p values."""
    return {
        "kind": "difference",
        "first": difference.first,
        "second": difference.second,
        **difference.group,
        "metric": str(difference.metric),
        "value": difference.value,
        **_limits(difference.interval),
        "p": difference.p,
        "p_holm": difference.holm,
        "p_bh": difference.bh,
    }


def _limits(interval: Interval) -> Row:
    return {
        "low": interval.low,
        "high": interval.high,
        "level": interval.level,
        "method": interval.method,
        "trusted": interval.trusted,
        "remark": interval.remark,
    }
