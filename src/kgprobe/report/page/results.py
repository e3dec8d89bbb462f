"""What the audit and the comparison found, as JSON can say it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgprobe.compare.audit import Finding
    from kgprobe.compare.interval import Interval
    from kgprobe.compare.outcome import Difference, Estimate


def finding_entry(finding: Finding) -> dict[str, Any]:
    """A finding of the audit.

    Example:
        >>> from kgprobe.compare.audit import Finding
        >>> finding_entry(Finding(("mine",), "seeds", "seeds 1 and 2 are copies", "warning"))
        {'models': ['mine'], 'kind': 'seeds', 'severity': 'warning', 'message': 'seeds 1 and 2 are copies'}
    """
    return {
        "models": list(finding.models),
        "kind": finding.kind,
        "severity": str(finding.severity),
        "message": finding.message,
    }


def estimate_entry(estimate: Estimate) -> dict[str, Any]:
    """The value of a metric for a model; null where it is no finite number."""
    return {
        "model": estimate.model,
        "metric": str(estimate.metric),
        "group": dict(estimate.group),
        "value": _finite(estimate.value),
        "std": _finite(estimate.std),
        "seeds": estimate.seeds,
        "queries": estimate.queries,
        "effective": _finite(estimate.effective),
        **_interval_entry(estimate.interval),
    }


def difference_entry(difference: Difference) -> dict[str, Any]:
    """The difference of two models, with its p values."""
    return {
        "first": difference.first,
        "second": difference.second,
        "metric": str(difference.metric),
        "group": dict(difference.group),
        "value": _finite(difference.value),
        "p": _finite(difference.p),
        "holm": _finite(difference.holm),
        "bh": _finite(difference.bh),
        **_interval_entry(difference.interval),
    }


def _interval_entry(interval: Interval) -> dict[str, Any]:
    return {
        "low": _finite(interval.low),
        "high": _finite(interval.high),
        "trusted": interval.trusted,
        "remark": interval.remark,
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
