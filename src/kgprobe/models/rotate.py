"""RotatE (Sun et al. 2019): a relation rotates each complex coordinate of the head by an angle of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kgprobe.models.embedding_model import EmbeddingModel, Sizes, group_norms, grouped, uniform
from kgprobe.models.embedding_rows import rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option
from kgprobe.predict.scorers import GroupNorm, Side


@dataclass(frozen=True)
class RotatEOptions:
    dimension: int = option(128, "complex coordinates of an embedding", least=1)
    gamma: float = option(9.0, "margin: the score of a triple at distance 0", above=0)


class RotatE(EmbeddingModel):
    """score = gamma - sum_i |h_i e^(i theta_i) - t_i|; real and imaginary part of a coordinate are neighbours."""

    Options = RotatEOptions

    def __init__(self, sizes: Sizes, options: RotatEOptions, streams: RandomStreams) -> None:
        super().__init__()
        self.streams = streams
        self.similarity = GroupNorm(2, options.gamma)
        bound = (options.gamma + 2) / options.dimension
        self.angle_of_one = math.pi / bound
        self.entity = uniform(streams, (sizes.entities, 2 * options.dimension), bound)
        self.relation = uniform(streams, (sizes.relations, options.dimension), bound)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """The head rotated by the angle, or the tail rotated by minus the angle; both have the same distance."""
        angle = rows(self.relation, relation) * self.angle_of_one
        cosine, sine = torch.cos(angle), torch.sin(angle)
        if side == "head":
            sine = -sine
        real, imaginary = grouped(rows(self.entity, given), 2).unbind(-1)
        return torch.stack([real * cosine - imaginary * sine, real * sine + imaginary * cosine], -1).flatten(-2)

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The moduli of the entities' complex coordinates; those of relations are 1."""
        return group_norms(rows(self.entity, head), 2), group_norms(rows(self.entity, tail), 2)
