"""What a loss is given."""

from __future__ import annotations

from typing import ClassVar, Protocol

from torch import Tensor


class TargetLoss(Protocol):
    """A loss of one answer against others.

    Attributes:
        leaves_out: Whether other true answers of the query must not be among the others.
    """

    leaves_out: ClassVar[bool]

    def __call__(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Tensor | None = None) -> Tensor:
        """The losses [S, B] of queries.

        Args:
            target: Scores of the answers: [S, B].
            others: Scores of others: [S, B, K].
            counted: Which of the others count: [S, B, K]; None where the others are all entities, the answer included.
            size: How many candidates there are in full, the answer included, where the others were drawn: [S, B].
        """
        ...


class LabelLoss(Protocol):
    """A loss of all answers of a query at once."""

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The losses [S, B] from the scores of all entities and whether they are answers, both [S, B, N]."""
        ...
