"""The verdict on one property of one metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgprobe.metrics.base import Metric
from kgprobe.metrics.properties.definitions import Property
from kgprobe.metrics.properties.evidence import Evidence, labels
from kgprobe.metrics.properties.paper import claim, reason


@dataclass(frozen=True)
class PropertyResult:
    """What the search found.

    Attributes:
        metric: The metric.
        about: The property, in the sense of its definition in `Property`.
        searched: How many comparisons were made.
        counterexample: What refutes the property; None where it holds.
        witness: What shows that it holds, where an example can: that popularity does change the value.
        literal: A counterexample to the paper's sentence taken literally, where only that fails.
        exceptions: Members of the metric's family for which the verdict is the opposite.
        alone: It fails, but not for queries that are alone in their table.
        reversed: Every comparison came out the other way round: the metric is consistent, but lower is better.
    """

    metric: Metric
    about: Property
    searched: int
    counterexample: Evidence | None = None
    witness: Evidence | None = None
    literal: Evidence | None = None
    exceptions: tuple[Metric, ...] = ()
    alone: bool = False
    reversed: bool = False

    @property
    def holds(self) -> bool:
        """Whether no counterexample was found."""
        return self.counterexample is None

    @property
    def paper(self) -> bool | None:
        """What the paper's table says; None where it does not have the metric."""
        return claim(self.metric, self.about)

    @property
    def agrees(self) -> bool | None:
        """Whether the paper's table says the same; None where it says nothing."""
        return None if self.paper is None else self.paper == self.holds

    @property
    def reason(self) -> str:
        """Why the paper's table is not right here; empty where it is, or says nothing."""
        return reason(self.metric, self.about) if self.agrees is False else ""

    @property
    def note(self) -> str:
        """What else there is to know: an example, the literal reading, exceptions in the family."""
        remarks = []
        if self.witness and self.witness != self.literal:
            remarks.append(f"for example, {self.witness.text}")
        if self.literal:
            remarks.append(f"taken literally, {self.about.literally}, it fails: {self.literal.text}")
        if self.alone:
            remarks.append("it holds for a query that is alone in its table")
        if self.exceptions:
            remarks.append(f"otherwise at {', '.join(labels(self.metric, self.exceptions))}")
        if self.reversed:
            remarks.append("always the other way round: here lower is better")
        return "; ".join(remarks)

    def row(self) -> dict[str, Any]:
        """The result as a flat row.

        Example:
            >>> from kgprobe.metrics import parse
            >>> PropertyResult(parse("MRR"), Property.anti_monotone, searched=9).row()["agrees"]
            True
        """
        return {
            "metric": str(self.metric),
            "property": str(self.about),
            "holds": self.holds,
            "searched": self.searched,
            "counterexample": self.counterexample.text if self.counterexample else None,
            "paper": self.paper,
            "agrees": self.agrees,
            "reason": self.reason or None,
            "note": self.note or None,
        }
