"""A metric's family: what it becomes when one of its parameters is changed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from kgprobe.errors import UsageError
from kgprobe.metrics.base import Metric

# Ordinary values first: where any member will do as a witness, it is the one that people would use.
_NUMBERS = (0.5, 1.0, 2.0, 0.0, -0.5, -1.0)
_WHOLE_NUMBERS = (1, 3, 10, 30)


@dataclass(frozen=True)
class Family:
    """A metric and its relatives.

    Attributes:
        metric: The metric itself.
        by_parameter: For each of its parameters and each of its values, the metric that differs in no other
            parameter; itself comes first.
        members: All of them once, the metric itself first.

    Example:
        >>> from kgprobe.metrics import parse
        >>> [str(member) for member in Family.of(parse("Hits@5")).members]
        ['Hits@5', 'Hits@1', 'Hits@3', 'Hits@10', 'Hits@30']
    """

    metric: Metric
    by_parameter: dict[str, dict[float, Metric]]
    members: tuple[Metric, ...]

    @classmethod
    def of(cls, metric: Metric) -> Family:
        """Every parameter in turn set to each value that the metric accepts."""
        by_parameter: dict[str, dict[float, Metric]] = {}
        members = {metric: None}
        for key, present in metric.parameters.items():
            values = _WHOLE_NUMBERS if is_whole(metric, key) else _NUMBERS
            found = {} if present is None else {present: metric}
            found |= {value: member for value in values if value != present and (member := changed(metric, key, value))}
            by_parameter[key] = found
            members |= dict.fromkeys(found.values())
        return cls(metric, by_parameter, tuple(members))


def changed(metric: Metric, key: str, value: Any) -> Metric | None:
    """The metric with another value of a parameter; None where the metric refuses it.

    Example:
        >>> from kgprobe.metrics import parse
        >>> str(changed(parse("pMRR(p=0.5)"), "p", 2.0)), changed(parse("pMRR(p=0.5)"), "p", -1.0)
        ('pMRR(p=2)', None)
    """
    try:
        return type(metric)(**(metric.parameters | {key: value}))
    except (UsageError, ValueError):
        return None


def is_whole(metric: Metric, key: str) -> bool:
    """Whether a parameter counts something, as the k of Hits@k does, and has no values in between.

    Example:
        >>> from kgprobe.metrics import parse
        >>> is_whole(parse("Hits@5"), "k"), is_whole(parse("pMRR"), "p")
        (True, False)
    """
    return metric.cutoff and key == fields(metric)[0].name  # type: ignore[arg-type]
