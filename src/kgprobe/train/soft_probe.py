"""A differentiable PROBE(alpha, beta) as a loss: soft ranks, the paper's transformer, popularity weights.

The soft rank of a target is 1 plus the sum over the other candidates of a smooth function of their score minus that of
the target. The transformer is applied to its logarithm, which cannot overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from kgprobe.aggregate.weights import PopularityWeight
from kgprobe.arrays import AnyInts, Floats, find, pair_keys
from kgprobe.graph.popularity import Popularity
from kgprobe.transform import SO_SMALL_THAT_LINEAR

Size: TypeAlias = Tensor | int | None


LOG_SURROGATES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "exponential": lambda lead: lead,
    "sigmoid": functional.logsigmoid,
}
"""Logarithm of the contribution of a candidate to the soft rank, from its score minus that of the target."""


@dataclass(frozen=True)
class SoftProbe:
    """The loss 1 - f*(soft rank) of each training query.

    With the surrogate ``exponential`` the soft rank is at least the rank, so that the loss bounds 1 - PROBE on the
    training queries from above; it is 1 over the softmax probability of the target: alpha 0 is the cross entropy. With
    ``sigmoid`` the soft rank tends to the mean rank of the metric as the temperature goes to 0.

    Attributes:
        alpha: Sharpness of the metric.
        temperature: Temperature of the comparison of two scores.
        surrogate: One of `LOG_SURROGATES`.
        leaves_out: Whether other known answers must be filtered: they must.

    Example:
        >>> loss = SoftProbe(alpha=1.0, temperature=0.01, surrogate="sigmoid")
        >>> target, others = torch.tensor([[1.0]]), torch.tensor([[[3.0, 0.0, 0.5, 2.0]]])
        >>> loss(target, others, counted=None, size=5)  # rank 3 of 5: 1 - (1/3 - 1/5) / (1 - 1/5)
        tensor([[0.8333]])
    """

    leaves_out: ClassVar[bool] = True
    alpha: float
    temperature: float = 1.0
    surrogate: str = "exponential"

    def __call__(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Size = None) -> Tensor:
        """The losses of queries.

        Args:
            target: Scores of the targets [S, B].
            others: Scores of other candidates [S, B, C]: all of them, or a uniform sample.
            counted: Which of them count [S, B, C]: neither the target nor another known answer. None for all.
            size: Number of candidates of a query with its target: one number, or [S, B]; None if ``others`` are not a
                sample. The loss of a query without other candidates is 0.

        Returns:
            [S, B]
        """
        # Without other candidates the rank is 1, for every size; size 1 would make the gradient NaN.
        log_size = (_all_others(size, _counts(others, counted)) + 1).clamp(min=2).to(_wide(target)).log()
        return self._transformed(self.log_rank(target, others, counted, size), log_size)

    def log_rank(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Size = None) -> Tensor:
        """The logarithms [S, B] of the soft ranks; see `__call__` for the arguments.

        If ``others`` are a sample, the soft rank is an unbiased estimate of that among all candidates.

        Example:
            >>> loss = SoftProbe(alpha=1.0, temperature=0.01)
            >>> loss.log_rank(torch.zeros(1, 1), torch.tensor([[[-1.0, 0.0]]]), None, size=11).exp()  # 1 + 10 * 1/2
            tensor([[6.]])
        """
        lead = (others.to(_wide(others)) - target.to(_wide(target))[..., None]) / self.temperature
        log_count = LOG_SURROGATES[self.surrogate](lead)
        if counted is not None:  # finite: the gradient of logsumexp is NaN if all are -inf
            log_count = log_count.masked_fill(~counted, torch.finfo(log_count.dtype).min / 2)
        sampled = _counts(others, counted)
        log_scale = (_all_others(size, sampled) / sampled.clamp(min=1)).to(log_count.dtype).log()
        log_others = torch.logsumexp(log_count, -1) + log_scale
        return torch.logaddexp(log_others, torch.zeros_like(log_others))

    def _transformed(self, log_rank: Tensor, log_size: Tensor) -> Tensor:
        """1 - f*, extended linearly in the log rank where the soft rank exceeds the number of candidates."""
        if abs(self.alpha) < SO_SMALL_THAT_LINEAR:
            return log_rank / log_size
        inside = torch.minimum(log_rank, log_size)
        beyond = log_rank - inside
        sharpness = abs(self.alpha)
        shape = torch.expm1(-sharpness * inside) / torch.expm1(-sharpness * log_size)
        derivative = -sharpness / torch.expm1(-sharpness * log_size)
        if self.alpha < 0:
            return shape * torch.exp(sharpness * (inside - log_size)) + derivative * beyond
        return shape + derivative * torch.exp(-sharpness * log_size) * beyond


def _wide(scores: Tensor) -> torch.dtype:
    return torch.promote_types(scores.dtype, torch.float32)


def _counts(others: Tensor, counted: Tensor | None) -> Tensor:
    # torch.full, because a copy from the host cannot be part of a CUDA graph.
    return torch.full((), others.shape[-1], device=others.device) if counted is None else counted.sum(-1)


def _all_others(size: Size, sampled: Tensor) -> Tensor:
    """Number of other candidates of the queries."""
    return sampled if size is None else torch.zeros_like(sampled) + size - 1


def query_weights(popularity: Popularity, relation: AnyInts, target: AnyInts, beta: float) -> Floats:
    """PROBE weights of training queries with robustness ``beta``, normalised to mean 1 over all training queries.

    Args:
        popularity: Popularity in the training triples.
        relation: Relations of some training queries; reciprocal relations follow those of the graph in the same order.
        target: Target entities of these queries.
        beta: Robustness to the popularity of entities and relations.

    Example:
        >>> train = np.array([[0, 0, 1], [2, 0, 1], [3, 0, 1]])
        >>> popularity = Popularity.from_triples(train, num_entities=4, num_relations=1)
        >>> query_weights(popularity, np.array([0, 0]), np.array([0, 1]), beta=1.0).round(3).tolist()
        [1.333, 0.667]
    """
    counts = popularity.counts
    queries = counts.pair_counts.astype(np.float64)  # queries with each (target, relation), on both sides
    entity, with_relation = np.divmod(counts.pair_keys, counts.num_relations)
    columns = {
        "entity_popularity": popularity.entity(entity),
        "relation_popularity": popularity.relation(with_relation, entity),
    }
    weights = PopularityWeight(beta, beta).weights(columns, queries)
    weights /= np.average(weights, weights=queries)
    asked = pair_keys(target, np.asarray(relation) % counts.num_relations, counts.num_relations)
    return weights[find(counts.pair_keys, asked)]
