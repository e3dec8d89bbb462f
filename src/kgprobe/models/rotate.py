"""RotatE (Sun et al. 2019): a relation turns every complex coordinate of the head by an angle of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kgprobe.models.embedding_model import EmbeddingModel, Sizes, grouped, uniform
from kgprobe.models.embedding_rows import rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option
from kgprobe.predict.scorers import GroupNorm, Side


@dataclass(frozen=True)
class RotatEOptions:
    """The settings of RotatE."""

    dimension: int = option(128, "complex coordinates of a vector", least=1)
    gamma: float = option(9.0, "margin: the score of a fact that fits exactly", above=0)


class RotatE(EmbeddingModel):
    """score = gamma - sum_i |h_i e^(i theta_i) - t_i|; real and imaginary part of a coordinate are neighbours."""

    Options = RotatEOptions

    def __init__(self, sizes: Sizes, options: RotatEOptions, noise: RandomStreams) -> None:
        super().__init__()
        self.noise = noise
        self.similarity = GroupNorm(2, options.gamma)
        bound = (options.gamma + 2) / options.dimension
        self.angle_of_one = math.pi / bound
        self.entity = uniform(noise, (sizes.entities, 2 * options.dimension), bound)
        self.relation = uniform(noise, (sizes.relations, options.dimension), bound)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """The head turned forward for a tail, the tail turned back for a head: both are as far from the answer."""
        angle = rows(self.relation, relation) * self.angle_of_one
        cosine, sine = torch.cos(angle), torch.sin(angle)
        if side == "head":
            sine = -sine
        real, imaginary = grouped(rows(self.entity, given), 2).unbind(-1)
        turned = torch.stack([real * cosine - imaginary * sine, real * sine + imaginary * cosine], -1)
        return turned.flatten(-2)

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The moduli of the entities' complex coordinates; those of relations are 1."""
        vectors = rows(self.entity, head), rows(self.entity, tail)
        return tuple(torch.linalg.vector_norm(grouped(vector, 2), dim=-1) for vector in vectors)
