"""ComplEx (Trouillon et al. 2016): score = Re<h, r, conj t> over complex embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kgprobe.models.distmult import DistMultOptions
from kgprobe.models.embedding_model import EmbeddingModel, Sizes, normal
from kgprobe.models.embedding_rows import rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option
from kgprobe.predict.scorers import Dot, Side


@dataclass(frozen=True)
class ComplExOptions(DistMultOptions):
    dimension: int = option(128, "complex coordinates of an embedding", least=1)


class ComplEx(EmbeddingModel):
    """Embeddings hold all real parts, then all imaginary parts."""

    Options = ComplExOptions
    similarity = Dot()

    def __init__(self, sizes: Sizes, options: ComplExOptions, streams: RandomStreams) -> None:
        super().__init__()
        self.options, self.streams = options, streams
        self.entity = normal(streams, (sizes.entities, 2 * options.dimension), options.initial_scale)
        self.relation = normal(streams, (sizes.relations, 2 * options.dimension), options.initial_scale)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """(h * r) for a tail query, (t * conj r) for a head query: its dot product with a candidate is the score."""
        real, imaginary = rows(self.entity, given).chunk(2, -1)
        relation_real, relation_imaginary = rows(self.relation, relation).chunk(2, -1)
        if side == "head":
            relation_imaginary = -relation_imaginary
        product = (
            real * relation_real - imaginary * relation_imaginary,
            real * relation_imaginary + imaginary * relation_real,
        )
        return self._dropout(torch.cat(product, -1), self.options.dropout)

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The moduli of the complex coordinates."""
        embeddings = rows(self.entity, head), rows(self.relation, relation), rows(self.entity, tail)
        return tuple(torch.linalg.vector_norm(torch.stack(own.chunk(2, -1)), dim=0) for own in embeddings)
