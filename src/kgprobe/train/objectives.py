"""Against which answers a fact is trained: drawn ones, all entities, or all entities with all answers at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from kgprobe.models.base import EmbeddingModel, by_side
from kgprobe.predict.similarity import Dot
from kgprobe.train.losses.base import LabelLoss, TargetLoss
from kgprobe.train.losses.plain import CrossEntropy
from kgprobe.train.losses.products import product_cross_entropy
from kgprobe.train.queries import Queries


class Objective(Protocol):
    """What a step makes of some queries.

    Attributes:
        once: Whether every pair is asked once an epoch, and not once for each of its answers.
    """

    once: ClassVar[bool]

    def __call__(self, model: EmbeddingModel, asked: Queries) -> Tensor:
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

    def __call__(self, model: EmbeddingModel, asked: Queries) -> Tensor:
        """The losses of the queries against fresh draws."""
        drawn = model.noise.integers(self.entities, (asked.given.shape[1], self.negatives))
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

    def __call__(self, model: EmbeddingModel, asked: Queries) -> Tensor:
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

    def __call__(self, model: EmbeddingModel, asked: Queries) -> Tensor:
        """The losses of the queries."""
        return self.loss(model.score_all(asked.side, asked.given, asked.relation), asked.known.rows(asked.pair))
