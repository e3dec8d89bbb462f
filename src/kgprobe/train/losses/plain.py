"""The losses that the models' own papers use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

_NEVER = float("-inf")


@dataclass(frozen=True)
class SelfAdversarial:
    """Logistic loss in which false answers weigh the more the likelier the model thinks they are (Sun et al. 2019).

    Attributes:
        temperature: How much more; 0 for all alike.

    Example:
        >>> loss = SelfAdversarial(temperature=0.0)
        >>> round(loss(torch.zeros(1, 1), torch.zeros(1, 1, 3), torch.ones(1, 1, 3, dtype=torch.bool)).item(), 4)
        0.6931
    """

    temperature: float
    leaves_out: ClassVar[bool] = True

    def __call__(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Tensor | None = None) -> Tensor:
        """Half the loss of the answer, half the weighted mean loss of the others."""
        likely = others.detach() * self.temperature
        if counted is not None:
            likely = likely.masked_fill(~counted, _NEVER)
        weight = torch.softmax(likely, -1).nan_to_num(0.0)  # where no other is left
        false = (weight * functional.softplus(others)).sum(-1)
        return (functional.softplus(-target) + false) / 2


@dataclass(frozen=True)
class CrossEntropy:
    """How surprised a softmax over the candidates is by the answer.

    Attributes:
        smoothing: Share of the truth that is spread over all candidates.

    Example:
        >>> loss = CrossEntropy(smoothing=0.0)
        >>> round(loss(torch.zeros(1, 1), torch.zeros(1, 1, 4), None).item(), 4)
        1.3863
    """

    smoothing: float
    leaves_out: ClassVar[bool] = False

    def __call__(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Tensor | None = None) -> Tensor:
        """The cross entropy of each query."""
        if counted is None:
            total, mean = torch.logsumexp(others, -1), others.mean(-1)
        else:
            total = torch.logaddexp(target, torch.logsumexp(others.masked_fill(~counted, _NEVER), -1))
            among = counted.sum(-1) + 1
            mean = (target + (others * counted).sum(-1)) / among
        return total - (1 - self.smoothing) * target - self.smoothing * mean if self.smoothing else total - target


@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Every candidate is judged on its own, as true or false.

    Attributes:
        smoothing: Share of the truth that is spread over all candidates.

    Example:
        >>> loss = BinaryCrossEntropy(smoothing=0.0)
        >>> round(loss(torch.zeros(1, 1), torch.zeros(1, 1, 4), None).item(), 4)
        0.6931
    """

    smoothing: float
    leaves_out: ClassVar[bool] = True

    def __call__(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Tensor | None = None) -> Tensor:
        """The mean loss of the answer and the others."""
        every = torch.full_like(target, others.shape[-1])
        among = every if counted is None else counted.sum(-1, dtype=target.dtype) + 1
        low = self.smoothing / among
        false = functional.softplus(others) - low[..., None] * others
        true = functional.softplus(target) - (1 - self.smoothing + low) * target
        if counted is None:
            return (false.sum(-1) + true - (functional.softplus(target) - low * target)) / among
        return ((false * counted).sum(-1) + true) / among


@dataclass(frozen=True)
class LabelBinaryCrossEntropy:
    """Binary cross entropy of all entities against all answers of a query, as in TuckER.

    Attributes:
        smoothing: Share of the truth that is spread over all entities.

    Example:
        >>> loss = LabelBinaryCrossEntropy(smoothing=0.0)
        >>> round(loss(torch.zeros(1, 1, 4), torch.tensor([[[True, False, False, True]]])).item(), 4)
        0.6931
    """

    smoothing: float

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean loss over all entities."""
        truth = labels.to(scores.dtype)
        if self.smoothing:
            truth = truth * (1 - self.smoothing) + 1 / scores.shape[-1]
        return functional.binary_cross_entropy_with_logits(scores, truth, reduction="none").mean(-1)


@dataclass(frozen=True)
class LabelCrossEntropy:
    """Cross entropy of a softmax over all entities against all answers of a query, each as likely.

    Attributes:
        smoothing: Share of the truth that is spread over all entities.

    Example:
        >>> loss = LabelCrossEntropy(smoothing=0.0)
        >>> round(loss(torch.zeros(1, 1, 4), torch.tensor([[[True, False, False, True]]])).item(), 4)
        1.3863
    """

    smoothing: float

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The cross entropy of each query."""
        truth = labels.to(scores.dtype)
        truth = truth / truth.sum(-1, keepdim=True)
        truth = truth * (1 - self.smoothing) + self.smoothing / scores.shape[-1]
        return torch.logsumexp(scores, -1) - (truth * scores).sum(-1)
