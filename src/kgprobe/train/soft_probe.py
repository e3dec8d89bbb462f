"""A differentiable PROBE(alpha, beta): soft ranks, the paper's transformer, popularity weights.

The rank of a target is 1 plus the number of other candidates that score at least as high. Each of them is counted by
a smooth function of its lead over the target, and the transformer is applied to the logarithm of that soft rank, in
which nothing overflows.
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


def _itself(lead: Tensor) -> Tensor:
    return lead


LOG_SURROGATES: Mapping[str, Callable[[Tensor], Tensor]] = {"exponential": _itself, "sigmoid": functional.logsigmoid}

"""The logarithm of what a candidate with a given lead over the target adds to the soft rank."""


@dataclass(frozen=True)
class SoftProbe:
    """1 - f*(soft rank): what each training query lacks of the perfect score.

    With the surrogate ``exponential`` the soft rank is never below the rank, so that the loss bounds 1 - PROBE of the
    training queries from above; it is 1 over the probability that a softmax gives the target, so that alpha 0 is
    the cross entropy. With ``sigmoid`` the soft rank tends to the mean rank of the metric as the temperature falls.

    Attributes:
        alpha: Predictive sharpness of the metric that is trained for.
        temperature: Width of the comparison of two scores.
        surrogate: One of `LOG_SURROGATES`.
        leaves_out: Other true answers of a query must not be among the others.

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
            target: The scores of the targets [S, B].
            others: The scores of other candidates [S, B, C]: all of them, or some drawn evenly.
            counted: Which of them count [S, B, C]: not the target itself, nor another known answer. None for all.
            size: How many candidates a query has in full, its target included: one number, or [S, B]; None where the
                others that count are all that it has. The loss of a query that has no other candidate is 0.

        Returns:
            [S, B]
        """
        # Without another candidate the rank is 1 of whatever size; 1 itself would leave the gradient without a number.
        log_size = (_in_full(size, _counts(others, counted)) + 1).clamp(min=2).to(_wide(target)).log()
        return self._transformed(self.log_rank(target, others, counted, size), log_size)

    def log_rank(self, target: Tensor, others: Tensor, counted: Tensor | None, size: Size = None) -> Tensor:
        """The logarithms [S, B] of the soft ranks; see `__call__` for the arguments.

        Where ``others`` are a sample, the soft rank is an unbiased estimate of the one among all candidates.

        Example:
            >>> loss = SoftProbe(alpha=1.0, temperature=0.01)
            >>> loss.log_rank(torch.zeros(1, 1), torch.tensor([[[-1.0, 0.0]]]), None, size=11).exp()  # 1 + 10 * 1/2
            tensor([[6.]])
        """
        lead = (others.to(_wide(others)) - target.to(_wide(target))[..., None]) / self.temperature
        log_count = LOG_SURROGATES[self.surrogate](lead)
        if counted is not None:  # filled with a finite number: a sum of nothing has no gradient in the logarithm
            log_count = log_count.masked_fill(~counted, torch.finfo(log_count.dtype).min / 2)
        drawn = _counts(others, counted)
        log_scale = (_in_full(size, drawn) / drawn.clamp(min=1)).to(log_count.dtype).log()
        log_others = torch.logsumexp(log_count, -1) + log_scale
        return torch.logaddexp(log_others, torch.zeros_like(log_others))

    def _transformed(self, log_rank: Tensor, log_size: Tensor) -> Tensor:
        """1 - f*, continued in a straight line over log rank where a surrogate exceeds the last rank."""
        if abs(self.alpha) < SO_SMALL_THAT_LINEAR:
            return log_rank / log_size
        inside = torch.minimum(log_rank, log_size)
        beyond = log_rank - inside
        sharpness = abs(self.alpha)
        shape = torch.expm1(-sharpness * inside) / torch.expm1(-sharpness * log_size)
        slope = -sharpness / torch.expm1(-sharpness * log_size)
        if self.alpha < 0:
            return shape * torch.exp(sharpness * (inside - log_size)) + slope * beyond
        return shape + slope * torch.exp(-sharpness * log_size) * beyond


def _wide(scores: Tensor) -> torch.dtype:
    return torch.promote_types(scores.dtype, torch.float32)


def _counts(others: Tensor, counted: Tensor | None) -> Tensor:
    # Filled on the device: a copy from the host could not be part of a CUDA graph.
    return torch.full((), others.shape[-1], device=others.device) if counted is None else counted.sum(-1)


def _in_full(size: Size, drawn: Tensor) -> Tensor:
    """How many other candidates queries have in full."""
    return drawn if size is None else torch.zeros_like(drawn) + size - 1


def query_weights(popularity: Popularity, relation: AnyInts, target: AnyInts, beta: float) -> Floats:
    """How much training queries count: the weights of PROBE with robustness ``beta``, 1 on average over all of them.

    Args:
        popularity: Popularity in the training facts.
        relation: The relations of some training queries; reciprocal ones follow those of the graph in the same order.
        target: The entities that these queries ask for.
        beta: Robustness to the popularity of entities and relations.

    Example:
        >>> train = np.array([[0, 0, 1], [2, 0, 1], [3, 0, 1]])
        >>> popularity = Popularity.from_triples(train, num_entities=4, num_relations=1)
        >>> query_weights(popularity, np.array([0, 0]), np.array([0, 1]), beta=1.0).round(3).tolist()
        [1.333, 0.667]
    """
    counts = popularity.counts
    queries = counts.pair_counts.astype(np.float64)  # asked for with each (entity, relation), on both sides together
    entity, with_relation = np.divmod(counts.pair_keys, counts.num_relations)
    columns = {
        "entity_popularity": popularity.entity(entity),
        "relation_popularity": popularity.relation(with_relation, entity),
    }
    weights = PopularityWeight(beta, beta).weights(columns, queries)
    weights /= np.average(weights, weights=queries)
    asked = pair_keys(target, np.asarray(relation) % counts.num_relations, counts.num_relations)
    return weights[find(counts.pair_keys, asked)]
