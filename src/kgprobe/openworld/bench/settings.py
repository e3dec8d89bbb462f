"""What counts as late, and how intervals are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from kgprobe.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """How a bench is made.

    Attributes:
        late: Points with a larger closed-world MRR are late.
        replicates: How often models are drawn for the intervals.
        level: Confidence of the intervals.
        seed: Repeats the same draws.
    """

    late: float = 0.5
    replicates: int = 2000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        problems = {
            f"late must be an MRR from 0 to 1, not {self.late}": 0 <= self.late <= 1,
            f"replicates must be at least 1, not {self.replicates}": self.replicates >= 1,
            f"level must lie between 0 and 1, not {self.level}": 0 < self.level < 1,
            f"seed must be at least 0, not {self.seed}": self.seed >= 0,
        }
        if wrong := [problem for problem, met in problems.items() if not met]:
            raise UsageError("a bench cannot be made like this", wrong)
