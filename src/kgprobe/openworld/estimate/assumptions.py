"""What an estimate takes for granted, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

from kgprobe.errors import UsageError
from kgprobe.openworld.estimate.answers import HeldOut
from kgprobe.openworld.estimate.completion import Completion
from kgprobe.openworld.estimate.missing import check_rate
from kgprobe.openworld.estimate.selection import check_odds
from kgprobe.ranks import Ranks

_FEW_KNOWN = 0.25
_FEW_TOGETHER = 0.2
_FEW_ROWS = 300


@dataclass(frozen=True)
class Assumptions:
    """What is assumed about missing facts.

    Attributes:
        rates: The share of all true facts that is missing, or the lowest, a middle and the highest that it may be.
        odds: How much likelier the last of a query's answers is missing than the first.
        held_out: The share of the known facts that is held out, where it tells how many answers are missing.
    """

    rates: tuple[float, ...]
    odds: float = 1.0
    held_out: float | None = None

    @classmethod
    def of(cls, ranks: Ranks, rates: tuple[float, ...], odds: float, held_out: float | None) -> Assumptions:
        """Check them, and read off a rank table what is not given.

        Raises:
            UsageError: A number is impossible.
        """
        for rate in rates:
            check_rate(rate)
        if list(rates) != sorted(rates):
            raise UsageError(f"missing rates from {rates[0]} to {rates[-1]}", remedy="give the lowest first")
        check_odds(odds)
        if held_out is not None and not 0 < held_out <= 1:
            raise UsageError(
                f"the held-out share is {held_out}", remedy="it is a share of the known facts: above 0, at most 1"
            )
        return cls(rates, odds, _held_out(ranks) if held_out is None else held_out)

    @property
    def _how(self) -> str:
        if self.odds == 1:
            return "whatever a model says of it"
        return f"but the odds of the answer that a model ranks last are {self.odds:g} times those of its first"

    def remarks(self, answers: HeldOut) -> list[str]:
        """What to bear in mind, one sentence each."""
        middle = Completion(answers, self.rates[len(self.rates) // 2], self.odds, self.held_out)
        known = 1 - middle.missing_share
        together = float((answers.held_out > 1).mean())
        said = [
            f"each true fact is missing with probability {_span(self.rates)}, {self._how}",
            f"so {middle.missing_share:.0%} of the answers that training has not seen are missing, "
            f"{middle.counts.mean.mean():.1f} for a target",
        ]
        if middle.laws == 1:
            said.append("a model is taken to rank answers of queries with many and with few answers equally well")
        if known < _FEW_KNOWN:
            said.append(
                "few of the unseen answers are known: the estimate rests more on its assumptions than on the ranks"
            )
        if len(answers.ranks) < _FEW_ROWS and middle.missing_share:
            said.append(
                f"{len(answers.ranks)} ranks are few to learn from: the estimate is rough, and so is its interval"
            )
        if together < _FEW_TOGETHER and middle.missing_share:
            said.append(
                f"only {together:.0%} of the targets have another held-out answer beside them, "
                "which tells where a model puts missing ones"
            )
        return said


def _held_out(ranks: Ranks) -> float | None:
    """The share of known facts that is held out, where queries were chosen for how many of their answers are."""
    settings = ranks.info.settings
    task, split = settings.get("task"), settings.get("split")
    if not isinstance(task, dict) or not isinstance(split, dict) or task.get("kind") != "tail":
        return None
    share = split.get("train_share")
    return 1 - share if isinstance(share, float) and 0 < share < 1 else None


def _span(rates: tuple[float, ...]) -> str:
    return f"{rates[0]:g}" if len(rates) == 1 else f"{rates[0]:g} to {rates[-1]:g}"
