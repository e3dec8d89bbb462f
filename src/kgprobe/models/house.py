"""HousE (Li et al. 2022): a relation projects blocks of coordinates, then rotates them by Householder reflections."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from kgprobe.models.embedding_model import AskedSide, EmbeddingModel, Sizes, by_side, group_norms, grouped, uniform
from kgprobe.models.embedding_rows import Projection, rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option
from kgprobe.predict.scorers import GroupNorm, Side


@dataclass(frozen=True)
class HousEOptions:
    dimension: int = option(128, "coordinates of an embedding, all blocks together", least=1)
    block: int = option(4, "coordinates of a block, which are reflected together", least=1)
    reflections: int = option(2, "Householder reflections of a relation; an even number makes a rotation", least=1)
    projections: int = option(1, "projections of a relation on either side, which change norms", least=0)
    threshold: float = option(0.5, "largest share that a projection may remove along its axis", above=0, most=0.99)
    gamma: float = option(6.0, "margin: the score of a triple at distance 0", above=0)

    @property
    def blocks(self) -> int:
        """Number of blocks of an embedding."""
        return self.dimension // self.block

    @property
    def bound(self) -> float:
        """The largest initial coordinate."""
        return (self.gamma + 2) / (self.blocks * math.sqrt(self.block))

    def problems(self) -> Iterator[str]:
        if self.dimension % self.block:
            yield f"dimension is {self.dimension}, and must be a multiple of block, which is {self.block}"


class HousE(EmbeddingModel):
    """score = gamma - sum over blocks of || R P_head(h) - P_tail(t) ||, where R is a product of reflections.

    A projection maps x to x - share (u . x) u. The share has an upper bound only: if it is negative, the block grows
    along u. The tables of projections hold those of all relations for tails, then those for heads.
    """

    Options = HousEOptions

    def __init__(self, sizes: Sizes, options: HousEOptions, streams: RandomStreams) -> None:
        super().__init__()
        self.options, self.streams, self.relations = options, streams, sizes.relations
        self.similarity = GroupNorm(options.block, options.gamma)
        self.entity = uniform(streams, (sizes.entities, options.dimension), options.bound)
        self.reflection = uniform(streams, (sizes.relations, options.reflections * options.dimension), options.bound)
        if options.projections:
            both, count = 2 * sizes.relations, options.projections
            self.axis = uniform(streams, (both, count * options.dimension), options.bound)
            self.scale = uniform(streams, (both, count * options.blocks), 1.0)
            tail = uniform(streams, (sizes.relations, count), 0.01).detach()
            self.direction = nn.Parameter(torch.cat([tail, -tail], 1))

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """R P_head(h) for a tail query; R^T P_tail(t) for a head query: R preserves distances."""
        other: Side = "head" if side == "tail" else "tail"
        blocks = self._projected(rows(self.entity, given[..., None]), self.projection(other, relation))
        axes = _units(rows(self.reflection, relation), self.options.reflections, self.options.block).unbind(2)
        for axis in axes if side == "tail" else reversed(axes):
            blocks = less_along(blocks, axis[:, :, None], 2.0)
        return blocks.flatten(-2)[:, :, 0]

    def answers(self, side: AskedSide, relation: Tensor, entities: Tensor | None = None) -> Tensor:
        """Entity embeddings, projected by the relations."""
        embeddings = super().answers(side, relation, entities)
        return self._projected(embeddings, self.projection(side, relation)).flatten(-2)

    def projection(self, side: AskedSide, relation: Tensor) -> Projection | None:
        """The projections of entities on the ``side`` by the relations [S, B], if the model has any."""
        count = self.options.projections
        if not count:
            return None
        index = by_side(lambda one, own: own if one == "tail" else own + self.relations, side, relation)
        scale = torch.unflatten(rows(self.scale, index).abs(), -1, (count, -1))
        shares = (rows(self.direction, index)[..., None] * scale).clamp(max=self.options.threshold)
        return Projection(_units(rows(self.axis, index), count, self.options.block).flatten(-2), shares)

    def candidates_for(self, side: Side, relation: int) -> Tensor:
        """Embeddings [N, D] of all entities of a single run as candidates on the ``side`` of the relation."""
        with torch.no_grad():
            return self.answers(side, torch.tensor([[relation]], device=self.entity.device))[0, 0]

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The norms of the entities' blocks; relations have none."""
        return tuple(group_norms(rows(self.entity, own), self.options.block) for own in (head, tail))

    def _projected(self, embeddings: Tensor, projection: Projection | None) -> Tensor:
        """Projections of embeddings [S, B or 1, K, D]: [S, B, K, blocks, block]."""
        blocks = grouped(embeddings, self.options.block)
        if projection is None:
            return blocks
        axes = grouped(projection.axes, self.options.block).unbind(2)
        for axis, share in zip(axes, projection.shares.unbind(2), strict=True):
            blocks = less_along(blocks, axis[:, :, None], share[:, :, None, :, None])
        return blocks


def less_along(vectors: Tensor, axis: Tensor, share: Tensor | float) -> Tensor:
    """Remove a share of the component along a unit axis; a share of 2 is a Householder reflection.

    Example:
        >>> less_along(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]), 2.0).tolist()
        [-3.0, 4.0]
    """
    along = (vectors * axis).sum(-1, keepdim=True) * share
    return torch.addcmul(vectors, along, axis, value=-1)


def _units(values: Tensor, count: int, block: int) -> Tensor:
    """Normalise each block of values [S, B, count * D]: [S, B, count, blocks, block]."""
    units: Tensor = functional.normalize(torch.unflatten(values, -1, (count, -1, block)), dim=-1)
    return units
