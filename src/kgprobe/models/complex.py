"""ComplEx (Trouillon et al. 2016): Re<h, r, conj t> over complex vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kgprobe.models.embedding_model import EmbeddingModel, Sizes, normal
from kgprobe.models.embedding_rows import rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option
from kgprobe.predict.scorers import Dot, Side


@dataclass(frozen=True)
class ComplExOptions:
    """The settings of ComplEx."""

    dimension: int = option(128, "complex coordinates of a vector", least=1)
    initial_scale: float = option(1e-3, "standard deviation of the initial coordinates", above=0)
    dropout: float = option(0.0, "share of a query's coordinates left out in a step", least=0, most=0.95)


class ComplEx(EmbeddingModel):
    """Vectors hold all real parts, then all imaginary parts."""

    Options = ComplExOptions
    similarity = Dot()

    def __init__(self, sizes: Sizes, options: ComplExOptions, noise: RandomStreams) -> None:
        super().__init__()
        self.options, self.noise = options, noise
        self.entity = normal(noise, (sizes.entities, 2 * options.dimension), options.initial_scale)
        self.relation = normal(noise, (sizes.relations, 2 * options.dimension), options.initial_scale)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """(h * r) for a tail; (t * conj r) for a head: what its product with the answer's own vector sums up."""
        real, imaginary = rows(self.entity, given).chunk(2, -1)
        relation_real, relation_imaginary = rows(self.relation, relation).chunk(2, -1)
        if side == "head":
            relation_imaginary = -relation_imaginary
        product = torch.cat(
            [
                real * relation_real - imaginary * relation_imaginary,
                real * relation_imaginary + imaginary * relation_real,
            ],
            -1,
        )
        return self.noise.dropped(product, self.options.dropout) if self.training else product

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The moduli of the complex coordinates."""
        vectors = rows(self.entity, head), rows(self.relation, relation), rows(self.entity, tail)
        return tuple(torch.linalg.vector_norm(torch.stack(vector.chunk(2, -1)), dim=0) for vector in vectors)
