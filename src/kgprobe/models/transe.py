"""TransE (Bordes et al. 2013): a relation translates the head to the tail."""

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
    dimension: int = option(128, "coordinates of an embedding", least=1)
    gamma: float = option(9.0, "margin: the score of a triple at distance 0", above=0)
    norm: int = option(1, "norm of the distance: 1 for L1, 2 for L2", choices=(1, 2))


class TransE(EmbeddingModel):
    """score = gamma - || h + r - t ||, in the L1 or the L2 norm."""

    Options = TransEOptions

    def __init__(self, sizes: Sizes, options: TransEOptions, streams: RandomStreams) -> None:
        super().__init__()
        self.streams = streams
        self.similarity = GroupNorm(1 if options.norm == 1 else None, options.gamma)
        bound = (options.gamma + 2) / options.dimension
        self.entity = uniform(streams, (sizes.entities, options.dimension), bound)
        self.relation = uniform(streams, (sizes.relations, options.dimension), bound)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """(h + r) for a tail query, (t - r) for a head query."""
        translation = rows(self.relation, relation)
        return rows(self.entity, given) + (translation if side == "tail" else -translation)
