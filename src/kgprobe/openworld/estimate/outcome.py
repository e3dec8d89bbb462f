"""What an estimation finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kgprobe.metrics import Metric
from kgprobe.openworld.estimate.assumptions import Assumptions


@dataclass(frozen=True)
class ClosedEstimate:
    """A metric of a model, as it is and as it would be without missing facts.

    Attributes:
        model: The model.
        metric: The metric.
        open: Its value on the ranks as they are.
        closed: The estimate of its value if no fact were missing.
        low: Where the interval of the estimate begins; over all missing rates, if they are a range.
        high: Where it ends.
        most: Its value if as many answers as may well be missing all stood before every target: the most that they
            explain, as long as the missing ones are ranked no better than others (odds of at least 1).
        queries: How many ranks it rests on.
    """

    model: str
    metric: Metric
    open: float
    closed: float
    low: float
    high: float
    most: float
    queries: int


@dataclass(frozen=True)
class ClosedOrder:
    """Two models, the one that is better in the open world first, and whether it would be so in the closed world.

    Attributes:
        first: The model that is better as the ranks are.
        second: The other one.
        metric: The metric.
        open: By how much the first is better.
        closed: By how much it would be better if no fact were missing, as estimated; negative where it would be worse.
        low: Where the interval of that begins.
        high: Where it ends.
        probability: The probability that the first would be better.
        holds_up_to: The missing rate up to which the first is estimated to be better; None where it was not asked.
        surely_up_to: The missing rate up to which the probability of that is at least the level.
        tried_up_to: The largest missing rate that was tried.
    """

    first: str
    second: str
    metric: Metric
    open: float
    closed: float
    low: float
    high: float
    probability: float
    holds_up_to: float | None = None
    surely_up_to: float | None = None
    tried_up_to: float | None = None

    def __str__(self) -> str:
        if self.holds_up_to is None or self.tried_up_to is None:
            return f"{self.first} beats {self.second} by {self.metric} with probability {self.probability:.0%}"
        least = "at least " if self.holds_up_to >= self.tried_up_to else ""
        return (
            f"{self.first} before {self.second} by {self.metric}: this order holds up to a missing rate of "
            f"{least}{self.holds_up_to:.2f}, surely up to {self.surely_up_to:.2f}"
        )


@dataclass(frozen=True)
class Estimation:
    """All that an estimation finds.

    Attributes:
        estimates: For every model and metric.
        orders: For every pair of models and metric.
        assumptions: What is assumed.
        remarks: What to bear in mind, one sentence each.
    """

    estimates: list[ClosedEstimate]
    orders: list[ClosedOrder]
    assumptions: Assumptions
    remarks: list[str] = field(default_factory=list)

    def estimate_rows(self) -> list[dict[str, Any]]:
        """The estimates as flat rows."""
        return [_row(found) for found in self.estimates]

    def order_rows(self) -> list[dict[str, Any]]:
        """The orders as flat rows."""
        return [_row(found) for found in self.orders]

    def to_rows(self) -> list[dict[str, Any]]:
        """All of it as flat rows of kind ``estimate`` and ``order``, with what is assumed."""
        given = {
            "missing": self.assumptions.rates[0],
            "missing_high": self.assumptions.rates[-1],
            "odds": self.assumptions.odds,
            "held_out": self.assumptions.held_out,
        }
        return [
            {"kind": kind, **row, **given}
            for kind, rows in (("estimate", self.estimate_rows()), ("order", self.order_rows()))
            for row in rows
        ]


def _row(found: ClosedEstimate | ClosedOrder) -> dict[str, Any]:
    values = {name: getattr(found, name) for name in found.__dataclass_fields__}
    return values | {"metric": str(found.metric)}
