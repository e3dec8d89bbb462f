"""DistMult (Yang et al. 2015): score = <h, r, t> = sum_i h_i r_i t_i over real embeddings; symmetric in h and t."""

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
    dimension: int = option(128, "coordinates of an embedding", least=1)
    initial_scale: float = option(1e-3, "standard deviation of the initial embeddings", above=0)
    dropout: float = option(0.0, "dropout probability of a query's coordinates", least=0, most=0.95)


class DistMult(EmbeddingModel):
    Options = DistMultOptions
    similarity = Dot()

    def __init__(self, sizes: Sizes, options: DistMultOptions, streams: RandomStreams) -> None:
        super().__init__()
        self.options, self.streams = options, streams
        self.entity = normal(streams, (sizes.entities, options.dimension), options.initial_scale)
        self.relation = normal(streams, (sizes.relations, options.dimension), options.initial_scale)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """The product of the given entity and the relation, for either side."""
        return self._dropout(rows(self.entity, given) * rows(self.relation, relation), self.options.dropout)
