"""Losses, and the training objectives: negative sampling, one-vs-all and k-vs-all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from kgprobe.models.embedding_model import EmbeddingModel, by_side
from kgprobe.models.embedding_rows import gathered_gradient, is_gathered, rows
from kgprobe.predict.scorers import Dot
from kgprobe.train.training_queries import TrainingQueries


class TargetLoss(Protocol):
    """A loss of the target against other candidates.

    Attributes:
        leaves_out: Whether other known answers of the query must be filtered.
    """

    leaves_out: ClassVar[bool]

    def __call__(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Tensor | None = None) -> Tensor:
        """The losses [S, B] of queries.

        Args:
            target: Scores of the targets: [S, B].
            others: Scores of other candidates: [S, B, K].
            counted: Which of the others count: [S, B, K]; None where the others are all entities, the target included.
            size: Number of all candidates, the target included, where the others are negative samples: [S, B].
        """
        ...


class LabelLoss(Protocol):
    """A loss over all entities with the known answers of a query as labels."""

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The losses [S, B] from scores and labels of all entities, both [S, B, N]."""
        ...


@dataclass(frozen=True)
class SelfAdversarial:
    """Logistic loss with negative samples weighted by their softmax probability (Sun et al. 2019).

    Attributes:
        temperature: Temperature of the softmax; 0 for equal weights.

    Example:
        >>> loss = SelfAdversarial(temperature=0.0)
        >>> round(loss(torch.zeros(1, 1), torch.zeros(1, 1, 3), torch.ones(1, 1, 3, dtype=torch.bool)).item(), 4)
        0.6931
    """

    temperature: float
    leaves_out: ClassVar[bool] = True

    def __call__(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Tensor | None = None) -> Tensor:
        """Mean of the loss of the target and the weighted mean loss of the others."""
        logits = others.detach() * self.temperature
        if counted is not None:
            logits = logits.masked_fill(~counted, -torch.inf)
        weight = torch.softmax(logits, -1).nan_to_num(0.0)  # where no other is left
        negative = (weight * functional.softplus(others)).sum(-1)
        return (functional.softplus(-target) + negative) / 2


@dataclass(frozen=True)
class CrossEntropy:
    """Cross entropy of a softmax over the candidates.

    Attributes:
        smoothing: Label smoothing: share of the label that is spread over all candidates.

    Example:
        >>> loss = CrossEntropy(smoothing=0.0)
        >>> round(loss(torch.zeros(1, 1), torch.zeros(1, 1, 4), None).item(), 4)
        1.3863
    """

    smoothing: float
    leaves_out: ClassVar[bool] = False

    def __call__(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Tensor | None = None) -> Tensor:
        if counted is None:
            total, mean = torch.logsumexp(others, -1), others.mean(-1)
        else:
            total = torch.logaddexp(target, torch.logsumexp(others.masked_fill(~counted, -torch.inf), -1))
            among = counted.sum(-1) + 1
            mean = (target + (others * counted).sum(-1)) / among
        return total - (1 - self.smoothing) * target - self.smoothing * mean if self.smoothing else total - target


@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Binary cross entropy of every candidate.

    Attributes:
        smoothing: Label smoothing: share of the label that is spread over all candidates.

    Example:
        >>> loss = BinaryCrossEntropy(smoothing=0.0)
        >>> round(loss(torch.zeros(1, 1), torch.zeros(1, 1, 4), None).item(), 4)
        0.6931
    """

    smoothing: float
    leaves_out: ClassVar[bool] = True

    def __call__(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Tensor | None = None) -> Tensor:
        """Mean over the target and the others."""
        every = torch.full_like(target, others.shape[-1])
        among = every if counted is None else counted.sum(-1, dtype=target.dtype) + 1
        low = self.smoothing / among
        negative = functional.softplus(others) - low[..., None] * others
        positive = functional.softplus(target) - (1 - self.smoothing + low) * target
        if counted is None:
            return (negative.sum(-1) + positive - (functional.softplus(target) - low * target)) / among
        return ((negative * counted).sum(-1) + positive) / among


@dataclass(frozen=True)
class LabelBinaryCrossEntropy:
    """Binary cross entropy of all entities with all answers of a query as labels, as in TuckER.

    Attributes:
        smoothing: Label smoothing: share of the labels that is spread over all entities.

    Example:
        >>> loss = LabelBinaryCrossEntropy(smoothing=0.0)
        >>> round(loss(torch.zeros(1, 1, 4), torch.tensor([[[True, False, False, True]]])).item(), 4)
        0.6931
    """

    smoothing: float

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean over all entities."""
        targets = labels.to(scores.dtype)
        if self.smoothing:
            targets = targets * (1 - self.smoothing) + 1 / scores.shape[-1]
        return functional.binary_cross_entropy_with_logits(scores, targets, reduction="none").mean(-1)


@dataclass(frozen=True)
class LabelCrossEntropy:
    """Cross entropy of a softmax over all entities against the uniform distribution over all answers of a query.

    Attributes:
        smoothing: Label smoothing: share of the labels that is spread over all entities.

    Example:
        >>> loss = LabelCrossEntropy(smoothing=0.0)
        >>> round(loss(torch.zeros(1, 1, 4), torch.tensor([[[True, False, False, True]]])).item(), 4)
        1.3863
    """

    smoothing: float

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        targets = labels.to(scores.dtype)
        targets = targets / targets.sum(-1, keepdim=True)
        targets = targets * (1 - self.smoothing) + self.smoothing / scores.shape[-1]
        return torch.logsumexp(scores, -1) - (targets * scores).sum(-1)


_ALIGNED = 8
"""Alignment of the rows of scores in numbers; unaligned rows halve the speed of matrix products on a GPU."""


def product_cross_entropy(queries: Tensor, table: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """`CrossEntropy` over all entities where scores are dot products.

    Only the sum over all entities needs all scores; those of the targets, and the mean of all, are products of single
    embeddings.

    Args:
        queries: Query embeddings: [S, B, D].
        table: Entity embeddings: [S, N, D].
        target: The targets: [S, B].
        smoothing: Label smoothing.

    Returns:
        The losses [S, B].
    """
    log_sum: Callable[..., Tensor] = _LogSumOfProducts.apply
    positive = rows(table, target)
    if smoothing:
        positive = torch.lerp(positive, table.mean(1, keepdim=True), smoothing)
    return log_sum(queries, table) - (queries * positive).sum(-1)


class _LogSumOfProducts(torch.autograd.Function):
    """logsumexp over the products of queries with all rows of a table."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, table: Tensor) -> Tensor:
        scores = _products(queries, table)
        log_shares = torch.log_softmax(scores, -1)
        ctx.table = table
        ctx.save_for_backward(queries, table, log_shares)
        return scores[..., 0] - log_shares[..., 0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        queries, table, log_shares = ctx.saved_tensors
        shares, gradient = log_shares.exp_()[..., : table.shape[1]], gradients[0][..., None]
        of_queries = (shares @ table).mul_(gradient)
        shares, queries = shares.transpose(1, 2), queries * gradient
        if is_gathered(ctx.table):
            gathered_gradient(ctx.table).baddbmm_(shares, queries)
            return of_queries, None
        return of_queries, shares @ queries


def _products(queries: Tensor, table: Tensor) -> Tensor:
    """The products [S, B, N rounded up] in aligned rows; the padding is minus infinity."""
    runs, size, _ = table.shape
    scores = queries.new_empty(runs, queries.shape[1], -(-size // _ALIGNED) * _ALIGNED)
    scores[..., size:] = -torch.inf
    torch.bmm(queries, table.transpose(1, 2), out=scores[..., :size])
    return scores


class Objective(Protocol):
    """A training objective: the losses of a batch of queries.

    Attributes:
        once: Whether every pair is asked once in an epoch, and not once for each of its answers.
    """

    once: ClassVar[bool]

    def __call__(self, model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
        """The losses [S, B] of the queries."""
        ...


@dataclass(frozen=True)
class NegativeSampling:
    """The target against negative samples, from which other known answers are filtered.

    Attributes:
        loss: The loss.
        negatives: Number of negative samples for each query.
        entities: Number of entities.
    """

    loss: TargetLoss
    negatives: int
    entities: int
    once: ClassVar[bool] = False

    def __call__(self, model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
        negatives = model.streams.integers(self.entities, (asked.given.shape[1], self.negatives))
        counted = ~asked.known.contain(asked.pair, negatives)
        candidates = torch.cat([asked.target[..., None], negatives], -1)
        scores = model.score_some(asked.side, asked.given, asked.relation, candidates)
        size = self.entities + 1 - asked.known.count(asked.pair)
        return self.loss(scores[..., 0], scores[..., 1:], counted, size)


@dataclass(frozen=True)
class OneVsAll:
    """The target against all entities."""

    loss: TargetLoss
    once: ClassVar[bool] = False

    def __call__(self, model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
        fused = isinstance(model.similarity, Dot) and not torch.is_autocast_enabled(asked.given.device.type)
        if isinstance(self.loss, CrossEntropy) and fused:
            queries = by_side(model.encode, asked.side, asked.given, asked.relation)
            return product_cross_entropy(queries, model.entity, asked.target, self.loss.smoothing)
        scores = model.score_all(asked.side, asked.given, asked.relation)
        target = scores.gather(-1, asked.target[..., None])[..., 0]
        return self.loss(target, scores, ~asked.known.rows(asked.pair) if self.loss.leaves_out else None)


@dataclass(frozen=True)
class KVsAll:
    """All answers of a query against all entities."""

    loss: LabelLoss
    once: ClassVar[bool] = True

    def __call__(self, model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
        return self.loss(model.score_all(asked.side, asked.given, asked.relation), asked.known.rows(asked.pair))
