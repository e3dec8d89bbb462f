"""What a decision says: the models in order, which of them are within noise of the best, and how far it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kgprobe.compare.decision.reach import Reach
from kgprobe.compare.interval import Interval
from kgprobe.compare.outcome import Difference, Estimate, Settings


@dataclass(frozen=True)
class Standing:
    """A model at the point.

    Attributes:
        place: 1 for the best; equal models share the better place.
        estimate: Its score with an interval.
        behind: How far the winner is ahead of it, with an interval and p values; None for the winner.
        within_noise: Whether it might be as good as the winner, or is the winner: the p value of the difference, by
            Holm over all pairs of models, is above 1 - level.
    """

    place: int
    estimate: Estimate
    behind: Difference | None
    within_noise: bool

    @property
    def model(self) -> str:
        """Its name."""
        return self.estimate.model

    @property
    def distance(self) -> str:
        """How far it is behind the winner, in words."""
        return "equal" if self.place == 1 or self.behind is None else f"{self.behind.value:.4f} behind"

    @property
    def doubt(self) -> str | None:
        """Why the lead of the winner cannot be trusted, where it is called beyond noise; None where it can."""
        return None if self.behind is None or self.within_noise else self.behind.interval.remark


@dataclass(frozen=True)
class Decision:
    """Which model to pick for one alpha and beta.

    Attributes:
        alpha: Predictive sharpness.
        beta: Popularity-bias robustness.
        standings: The models, best first.
        reaches: How far alpha and beta can move before another model is ahead; none for a single model.
        settings: How noise was reckoned.
    """

    alpha: float
    beta: float
    standings: tuple[Standing, ...]
    reaches: tuple[Reach, ...]
    settings: Settings

    @property
    def winner(self) -> str:
        """The model with the highest score."""
        return self.standings[0].model

    @property
    def choices(self) -> tuple[str, ...]:
        """The winner and all models that are within noise of it, best first."""
        return tuple(standing.model for standing in self.standings if standing.within_noise)

    @property
    def beyond_noise(self) -> bool:
        """Whether the winner leads every other model beyond noise; not, if there is no other."""
        return len(self.choices) == 1 < len(self.standings)

    @property
    def effective(self) -> float:
        """The effective number of queries on which the score of the winner rests."""
        return self.standings[0].estimate.effective

    @property
    def remark(self) -> str | None:
        """What cannot be trusted, and why: the interval of the winner, or a lead that is called beyond noise."""
        if reason := self.standings[0].estimate.interval.remark:
            return f"the intervals cannot be trusted: {reason}"
        doubted = [standing for standing in self.standings if standing.doubt]
        if not doubted:
            return None
        over = _listed([standing.model for standing in doubted], "and")
        return f"the lead over {over} cannot be trusted: {doubted[0].doubt}"

    def __str__(self) -> str:
        sentences = [self._answer()]
        if self.reaches:
            sentences.append(f"{self.winner} is ahead for {' and for '.join(map(str, self.reaches))}.")
        if self.remark:
            sentences.append(f"But {self.remark}.")
        return " ".join(sentences)

    def _answer(self) -> str:
        point = f"For alpha {self.alpha:g} and beta {self.beta:g}"
        first = self.standings[0].estimate
        score = f"PROBE {first.value:.4f}"
        if len(self.standings) == 1:
            return f"{point}, {self.winner} has {score}{_between(first.interval)}; there is no other model to pick."
        close = [standing for standing in self.standings[1:] if standing.within_noise]
        if len(close) == len(self.standings) - 1 > 1:
            return (
                f"{point}, every model might be the best: {self.winner} has the highest score, {score}, "
                f"but all {len(close)} others are within noise of it."
            )
        if close:
            behind = _listed([f"{s.model} ({s.distance})" for s in close], "and")
            verb = "is" if len(close) == 1 else "are"
            return (
                f"{point}, pick {_listed(self.choices, 'or')}: {self.winner} has the highest score, {score}, "
                f"but {behind} {verb} within noise of it."
            )
        lead = self.standings[1].behind
        assert lead is not None
        return (
            f"{point}, pick {self.winner}: its {score} is beyond noise above every other model; "
            f"{lead.second} comes next, {lead.value:.4f} behind{_between(lead.interval)}."
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """A flat row for every model, best first; ``lead`` is that of the winner over the model."""
        rows = []
        for standing in self.standings:
            estimate, behind = standing.estimate, standing.behind
            rows.append(
                {
                    "place": standing.place,
                    "model": standing.model,
                    "alpha": self.alpha,
                    "beta": self.beta,
                    "value": estimate.value,
                    "low": estimate.interval.low,
                    "high": estimate.interval.high,
                    "std": estimate.std,
                    "seeds": estimate.seeds,
                    "lead": behind and behind.value,
                    "lead_low": behind and behind.interval.low,
                    "lead_high": behind and behind.interval.high,
                    "p": behind and behind.p,
                    "holm": behind and behind.holm,
                    "within_noise": standing.within_noise,
                    "queries": estimate.queries,
                    "effective": estimate.effective,
                    "trusted": estimate.interval.trusted and standing.doubt is None,
                }
            )
        return rows


def _between(interval: Interval) -> str:
    return f" ({100 * interval.level:.4g} % interval {interval.low:.4f} to {interval.high:.4f})"


def _listed(names: Sequence[str], conjunction: str) -> str:
    *others, last = names
    return f"{', '.join(others)} {conjunction} {last}" if others else last
