"""HousE (Li et al. 2022): a relation turns blocks of coordinates by Householder reflections, after projections."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from kgprobe.models.embedding_model import AskedSide, EmbeddingModel, Sizes, by_side, grouped, uniform
from kgprobe.models.embedding_rows import Projection, rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option
from kgprobe.predict.scorers import GroupNorm, Side


@dataclass(frozen=True)
class HousEOptions:
    """The settings of HousE."""

    dimension: int = option(128, "coordinates of a vector, all blocks together", least=1)
    block: int = option(4, "coordinates in a block, which are reflected together", least=1)
    reflections: int = option(2, "reflections of a relation; an even number makes a rotation", least=1)
    projections: int = option(1, "projections of a relation on either side, which make it change lengths", least=0)
    threshold: float = option(0.5, "largest share that a projection may take away along its axis", above=0, most=0.99)
    gamma: float = option(6.0, "margin: the score of a fact that fits exactly", above=0)

    @property
    def blocks(self) -> int:
        """Number of blocks of a vector."""
        return self.dimension // self.block

    @property
    def bound(self) -> float:
        """The largest initial coordinate."""
        return (self.gamma + 2) / (self.blocks * math.sqrt(self.block))

    def problems(self) -> Iterator[str]:
        """What is wrong with the settings taken together."""
        if self.dimension % self.block:
            yield f"dimension is {self.dimension}, and must be a multiple of block, which is {self.block}"


class HousE(EmbeddingModel):
    """score = gamma - sum over blocks of || R P_head(h) - P_tail(t) ||, where R is a product of reflections.

    A projection takes x to x - share (u . x) u. The share is bounded above only: where it is negative, the block grows
    along u. The tables of projections hold those of all relations for tails, then those for heads.
    """

    Options = HousEOptions

    def __init__(self, sizes: Sizes, options: HousEOptions, noise: RandomStreams) -> None:
        super().__init__()
        self.options, self.noise, self.relations = options, noise, sizes.relations
        self.similarity = GroupNorm(options.block, options.gamma)
        self.entity = uniform(noise, (sizes.entities, options.dimension), options.bound)
        self.reflection = uniform(noise, (sizes.relations, options.reflections * options.dimension), options.bound)
        if options.projections:
            both, count = 2 * sizes.relations, options.projections
            self.axis = uniform(noise, (both, count * options.dimension), options.bound)
            self.scale = uniform(noise, (both, count * options.blocks), 1.0)
            tail = uniform(noise, (sizes.relations, count), 0.01).detach()
            self.direction = nn.Parameter(torch.cat([tail, -tail], 1))

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """R P_head(h) for a tail; R^T P_tail(t) for a head, as far from the answer since R keeps distances."""
        other: Side = "head" if side == "tail" else "tail"
        vectors = self._seen(rows(self.entity, given[..., None]), self.projection(other, relation))
        axes = _units(rows(self.reflection, relation), self.options.reflections, self.options.block).unbind(2)
        for axis in axes if side == "tail" else reversed(axes):
            vectors = less_along(vectors, axis[:, :, None], 2.0)
        return vectors.flatten(-2)[:, :, 0]

    def answers(self, side: AskedSide, relation: Tensor, entities: Tensor | None = None) -> Tensor:
        """The entities, projected by the relations."""
        vectors = super().answers(side, relation, entities)
        return self._seen(vectors, self.projection(side, relation)).flatten(-2)

    def projection(self, side: AskedSide, relation: Tensor) -> Projection | None:
        """What the relations [S, B] do to the entities on the side, where they do anything."""
        count = self.options.projections
        if not count:
            return None
        place = by_side(lambda one, own: own if one == "tail" else own + self.relations, side, relation)
        scale = torch.unflatten(rows(self.scale, place).abs(), -1, (count, -1))
        shares = (rows(self.direction, place)[..., None] * scale).clamp(max=self.options.threshold)
        return Projection(_units(rows(self.axis, place), count, self.options.block).flatten(-2), shares)

    def candidates_for(self, side: Side, relation: int) -> Tensor:
        """The vectors [N, D] of all entities in a single run as answers on the ``side`` of the relation."""
        with torch.no_grad():
            return self.answers(side, torch.tensor([[relation]], device=self.entity.device))[0, 0]

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The lengths of the entities' blocks; relations have none."""
        vectors = rows(self.entity, head), rows(self.entity, tail)
        return tuple(torch.linalg.vector_norm(grouped(vector, self.options.block), dim=-1) for vector in vectors)

    def _seen(self, vectors: Tensor, projection: Projection | None) -> Tensor:
        """The vectors [S, B or 1, K, D] as the projection shows them: [S, B, K, blocks, block]."""
        blocks = grouped(vectors, self.options.block)
        if projection is None:
            return blocks
        axes = grouped(projection.axes, self.options.block).unbind(2)
        for axis, share in zip(axes, projection.shares.unbind(2), strict=True):
            blocks = less_along(blocks, axis[:, :, None], share[:, :, None, :, None])
        return blocks


def less_along(vectors: Tensor, axis: Tensor, share: Tensor | float) -> Tensor:
    """The vectors without a share of their part along the axis; twice that part makes a reflection.

    Example:
        >>> less_along(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]), 2.0).tolist()
        [-3.0, 4.0]
    """
    along = (vectors * axis).sum(-1, keepdim=True) * share
    return torch.addcmul(vectors, along, axis, value=-1)


def _units(values: Tensor, count: int, block: int) -> Tensor:
    """Values [S, B, count * D] as unit vectors of blocks: [S, B, count, blocks, block]."""
    units: Tensor = functional.normalize(torch.unflatten(values, -1, (count, -1, block)), dim=-1)
    return units
