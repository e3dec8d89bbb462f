"""Losses, and the objectives that choose against which answers a triple is trained."""

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


_ALIGNED = 8

"""Rows of scores begin at multiples of so many numbers, without which a GPU multiplies matrices at half its speed."""


def product_cross_entropy(queries: Tensor, table: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """How surprised a softmax over all entities is by the answers, where scores are dot products.

    It is the cross entropy of `kgprobe.train.losses`. Only the sum over all entities needs their scores; those
    of the answers, and the mean of all, are products of single vectors.

    Args:
        queries: The vectors of the queries: [S, B, D].
        table: The vectors of the entities: [S, N, D].
        target: The answers: [S, B].
        smoothing: Share of the truth that is spread over all entities.

    Returns:
        The losses [S, B].

    Example:
        >>> queries, table = torch.zeros(1, 1, 2), torch.ones(1, 4, 2)
        >>> round(product_cross_entropy(queries, table, torch.tensor([[3]]), 0.0).item(), 4)
        1.3863
    """
    log_sum: Callable[..., Tensor] = _LogSumOfProducts.apply
    truth = rows(table, target)
    if smoothing:
        truth = torch.lerp(truth, table.mean(1, keepdim=True), smoothing)
    return log_sum(queries, table) - (queries * truth).sum(-1)


class _LogSumOfProducts(torch.autograd.Function):
    """The logarithm of the sum over a table of the exponentials of products."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, table: Tensor) -> Tensor:
        scores = _products(queries, table)
        logarithms = torch.log_softmax(scores, -1)
        ctx.table = table
        ctx.save_for_backward(queries, table, logarithms)
        return scores[..., 0] - logarithms[..., 0]

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> tuple[Tensor | None, ...]:
        queries, table, logarithms = ctx.saved_tensors
        shares, slope = logarithms.exp_()[..., : table.shape[1]], slopes[0][..., None]
        of_queries = (shares @ table).mul_(slope)
        shares, queries = shares.transpose(1, 2), queries * slope
        if is_gathered(ctx.table):
            gathered_gradient(ctx.table).baddbmm_(shares, queries)
            return of_queries, None
        return of_queries, shares @ queries


def _products(queries: Tensor, table: Tensor) -> Tensor:
    """The products [S, B, N and more], in memory whose rows are aligned; those beyond the table are minus infinity."""
    runs, size, _ = table.shape
    room = queries.new_empty(runs, queries.shape[1], -(-size // _ALIGNED) * _ALIGNED)
    room[..., size:] = float("-inf")
    torch.bmm(queries, table.transpose(1, 2), out=room[..., :size])
    return room


class Objective(Protocol):
    """What a step makes of some queries.

    Attributes:
        once: Whether every pair is asked once an epoch, and not once for each of its answers.
    """

    once: ClassVar[bool]

    def __call__(self, model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
        """The losses [S, B] of the queries."""
        ...


@dataclass(frozen=True)
class NegativeSampling:
    """An answer against some entities that are drawn; those that are true answers too do not count.

    Attributes:
        loss: The loss.
        negatives: How many are drawn for each query.
        entities: Number of entities.
    """

    loss: TargetLoss
    negatives: int
    entities: int
    once: ClassVar[bool] = False

    def __call__(self, model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
        """The losses of the queries against fresh draws."""
        drawn = model.streams.integers(self.entities, (asked.given.shape[1], self.negatives))
        counted = ~asked.known.contain(asked.pair, drawn)
        candidates = torch.cat([asked.target[..., None], drawn], -1)
        scores = model.score_some(asked.side, asked.given, asked.relation, candidates)
        size = self.entities + 1 - asked.known.count(asked.pair)
        return self.loss(scores[..., 0], scores[..., 1:], counted, size)


@dataclass(frozen=True)
class OneVsAll:
    """An answer against all entities.

    Attributes:
        loss: The loss.
    """

    loss: TargetLoss
    once: ClassVar[bool] = False

    def __call__(self, model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
        """The losses of the queries."""
        in_one_piece = isinstance(model.similarity, Dot) and not torch.is_autocast_enabled(asked.given.device.type)
        if isinstance(self.loss, CrossEntropy) and in_one_piece:
            queries = by_side(model.encode, asked.side, asked.given, asked.relation)
            return product_cross_entropy(queries, model.entity, asked.target, self.loss.smoothing)
        scores = model.score_all(asked.side, asked.given, asked.relation)
        target = scores.gather(-1, asked.target[..., None])[..., 0]
        return self.loss(target, scores, ~asked.known.rows(asked.pair) if self.loss.leaves_out else None)


@dataclass(frozen=True)
class KVsAll:
    """All answers of a query against all entities.

    Attributes:
        loss: The loss.
    """

    loss: LabelLoss
    once: ClassVar[bool] = True

    def __call__(self, model: EmbeddingModel, asked: TrainingQueries) -> Tensor:
        """The losses of the queries."""
        return self.loss(model.score_all(asked.side, asked.given, asked.relation), asked.known.rows(asked.pair))
