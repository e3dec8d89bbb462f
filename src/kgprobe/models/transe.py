"""TransE (Bordes et al. 2013): a relation moves the head to the tail."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kgprobe.models.embedding_model import EmbeddingModel, Sizes, uniform
from kgprobe.models.embedding_rows import rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option
from kgprobe.predict.scorers import GroupNorm, Side


@dataclass(frozen=True)
class TransEOptions:
    """The settings of TransE."""

    dimension: int = option(128, "coordinates of a vector", least=1)
    gamma: float = option(9.0, "margin: the score of a fact that fits exactly", above=0)
    norm: int = option(1, "of distances: 1 for the sum of all differences, 2 for a straight line", choices=(1, 2))


class TransE(EmbeddingModel):
    """score = gamma - || h + r - t ||, in the L1 or the L2 norm."""

    Options = TransEOptions

    def __init__(self, sizes: Sizes, options: TransEOptions, noise: RandomStreams) -> None:
        super().__init__()
        self.noise = noise
        self.similarity = GroupNorm(1 if options.norm == 1 else None, options.gamma)
        bound = (options.gamma + 2) / options.dimension
        self.entity = uniform(noise, (sizes.entities, options.dimension), bound)
        self.relation = uniform(noise, (sizes.relations, options.dimension), bound)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """(h + r) for a tail; (t - r) for a head: both are as far from the answer."""
        moved = rows(self.relation, relation)
        return rows(self.entity, given) + (moved if side == "tail" else -moved)

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The absolute values of the coordinates."""
        return rows(self.entity, head).abs(), rows(self.relation, relation).abs(), rows(self.entity, tail).abs()
