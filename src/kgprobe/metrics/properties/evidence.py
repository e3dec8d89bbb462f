"""Numbers that prove a verdict, with the sentence that tells them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kgprobe.metrics.base import Metric, spelled
from kgprobe.metrics.properties.tables import Table


@dataclass(frozen=True)
class Observation:
    """A metric was evaluated on a table and had this value: anybody can repeat it."""

    metric: Metric
    table: Table
    value: float


@dataclass(frozen=True)
class Evidence:
    """Observations that together settle a question, and how to say so.

    Example:
        >>> from kgprobe.metrics import parse
        >>> from kgprobe.metrics.properties.tables import Query
        >>> hits = parse("Hits@10")
        >>> Evidence.of(hits, *(Observation(hits, (Query(e, e),), v) for e, v in [(10, 1.0), (11, 0.0)])).text
        'rank 10 of 10 scores 1, rank 11 of 11 scores 0'
    """

    text: str
    observations: tuple[Observation, ...] = ()

    @classmethod
    def of(cls, metric: Metric, *observations: Observation) -> Evidence:
        """Observations of a metric or of its family, in words."""
        clauses = []
        told: Table = ()
        for observation, label in zip(observations, labels(metric, [o.metric for o in observations]), strict=True):
            verb, value = (
                ("is", "undefined") if math.isnan(observation.value) else ("scores", f"{observation.value:.6g}")
            )
            clause = value if observation.table == told else f"{_subject(observation.table, verb)} {value}"
            clauses.append(clause + (f" at {label}" if label else ""))
            told = observation.table
        return cls(", ".join(clauses), observations)

    @classmethod
    def joined(cls, parts: Sequence[Evidence]) -> Evidence:
        """Several as one."""
        observations = tuple(observation for part in parts for observation in part.observations)
        return cls("; ".join(part.text for part in parts), observations)


def labels(metric: Metric, members: Sequence[Metric]) -> list[str]:
    """What tells members of a metric's family from each other and from the metric: the parameters that differ.

    Example:
        >>> from kgprobe.metrics import parse
        >>> labels(parse("PROBE"), [parse("PROBE(alpha=1)"), parse("PROBE(alpha=0)")])
        ['alpha=1', 'alpha=0']
    """
    written = [member.parameters for member in members]
    common = {item for item in metric.parameters.items() if all(item in p.items() for p in written)}
    return [
        ",".join(
            f"{key}={_brief(value)}" for key, value in p.items() if value is not None and (key, value) not in common
        )
        for p in written
    ]


def _brief(number: float) -> str:
    exact = spelled(number)
    return exact if len(exact) <= 8 else f"{number:.6g}"


def _subject(table: Table, verb: str) -> str:
    *front, last = map(str, table)
    plural = {"is": "are", "scores": "score"}[verb]
    return f"ranks {', '.join(front)} and {last} {plural}" if front else f"rank {last} {verb}"
