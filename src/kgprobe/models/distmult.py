"""DistMult (Yang et al. 2015): <h, r, t> over real vectors. It cannot tell a fact from its reverse."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kgprobe.models.embedding_model import EmbeddingModel, Sizes, normal
from kgprobe.models.embedding_rows import rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option
from kgprobe.predict.scorers import Dot, Side


@dataclass(frozen=True)
class DistMultOptions:
    """The settings of DistMult."""

    dimension: int = option(128, "coordinates of a vector", least=1)
    initial_scale: float = option(1e-3, "standard deviation of the initial coordinates", above=0)
    dropout: float = option(0.0, "share of a query's coordinates left out in a step", least=0, most=0.95)


class DistMult(EmbeddingModel):
    """score = sum_i h_i r_i t_i."""

    Options = DistMultOptions
    similarity = Dot()

    def __init__(self, sizes: Sizes, options: DistMultOptions, noise: RandomStreams) -> None:
        super().__init__()
        self.options, self.noise = options, noise
        self.entity = normal(noise, (sizes.entities, options.dimension), options.initial_scale)
        self.relation = normal(noise, (sizes.relations, options.dimension), options.initial_scale)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """The product of the given entity and the relation, whichever side is asked for."""
        product = rows(self.entity, given) * rows(self.relation, relation)
        return self.noise.dropped(product, self.options.dropout) if self.training else product

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The absolute values of the coordinates."""
        return rows(self.entity, head).abs(), rows(self.relation, relation).abs(), rows(self.entity, tail).abs()
