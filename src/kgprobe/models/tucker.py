"""TuckER (Balazevic et al. 2019): a core tensor, shared by all triples, of relation, head and tail."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kgprobe.models.embedding_model import EmbeddingModel, Sizes, normal, uniform
from kgprobe.models.embedding_rows import rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option
from kgprobe.predict.scorers import Dot, Side

_MOMENTUM = 0.1

_EPSILON = 1e-5


class BatchNorm(nn.Module):
    """Coordinates are brought to mean 0 and variance 1 over the batch, then scaled and moved.

    Once the model is in `eval` mode, running statistics stand for those of the batch.

    Args:
        runs: Number of runs.
        dimension: Number of coordinates.

    Example:
        >>> BatchNorm(1, 1)(torch.tensor([[[1.0], [3.0]]])).tolist()
        [[[-0.99999...], [0.99999...]]]
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, runs: int, dimension: int, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(runs, dimension, device=device))
        self.shift = nn.Parameter(torch.zeros(runs, dimension, device=device))
        self.register_buffer("mean", torch.zeros(runs, dimension, device=device))
        self.register_buffer("variance", torch.ones(runs, dimension, device=device))

    def forward(self, values: Tensor) -> Tensor:
        """The values [S, B, D], normalised."""
        values = values.to(self.scale.dtype)
        mean, variance = self._of_batch(values) if self.training else (self.mean, self.variance)
        scale = self.scale * torch.rsqrt(variance + _EPSILON)
        return torch.addcmul((self.shift - mean * scale)[:, None], values, scale[:, None])

    def _of_batch(self, values: Tensor) -> tuple[Tensor, Tensor]:
        variance, mean = torch.var_mean(values, dim=1, correction=0)
        size = values.shape[1]
        with torch.no_grad():
            self.mean.lerp_(mean, _MOMENTUM)
            # A batch underestimates the variance that all queries have; of a single query nothing is known.
            self.variance.lerp_(variance * (size / max(1, size - 1)), _MOMENTUM)
        return mean, variance


@dataclass(frozen=True)
class TuckEROptions:
    """The settings of TuckER."""

    dimension: int = option(128, "coordinates of an entity", least=1)
    relation_dimension: int = option(64, "coordinates of a relation", least=1)
    dropout_input: float = option(0.2, "share of the given entity left out in a step", least=0, most=0.95)
    dropout_relation: float = option(0.2, "share of the relation's matrix left out in a step", least=0, most=0.95)
    dropout_output: float = option(0.3, "share of a query's coordinates left out in a step", least=0, most=0.95)


class TuckER(EmbeddingModel):
    """score = W x_1 r x_2 h x_3 t, with batch normalisation of the given entity and of the query.

    It is made for reciprocal relations. Without them, heads are asked for through the transposed core, and the queries
    of both sides are normalised alike.
    """

    Options = TuckEROptions
    similarity = Dot()

    def __init__(self, sizes: Sizes, options: TuckEROptions, noise: RandomStreams) -> None:
        super().__init__()
        self.options, self.noise = options, noise
        self.entity = _xavier(noise, sizes.entities, options.dimension)
        self.relation = _xavier(noise, sizes.relations, options.relation_dimension)
        self.core = uniform(noise, (options.relation_dimension, options.dimension, options.dimension), 1.0)
        runs = len(noise.seeds)
        self.input_norm = BatchNorm(runs, options.dimension, noise.device)
        self.output_norm = BatchNorm(runs, options.dimension, noise.device)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """The core times the relation and the given entity."""
        entity = self._dropped(self.input_norm(rows(self.entity, given)), self.options.dropout_input)
        core = self.core if side == "tail" else self.core.transpose(2, 3)
        through = self._by_matrices if self.training and self.options.dropout_relation else _at_once
        product = self.output_norm(through(core, rows(self.relation, relation), entity))
        return self._dropped(product, self.options.dropout_output)

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The absolute values of the coordinates."""
        return rows(self.entity, head).abs(), rows(self.relation, relation).abs(), rows(self.entity, tail).abs()

    def _by_matrices(self, core: Tensor, relation: Tensor, entity: Tensor) -> Tensor:
        """By way of the matrices [S, B, D, D] of the relations, of which a share is left out.

        What stays is scaled up in the product: it is far smaller than the matrices.
        """
        matrices = torch.unflatten(relation @ core.flatten(2), -1, core.shape[2:])
        share = self.options.dropout_relation
        kept = matrices * self.noise.kept(tuple(matrices.shape[1:]), share)
        return (entity[:, :, None] @ kept)[:, :, 0] / (1 - share)

    def _dropped(self, values: Tensor, share: float) -> Tensor:
        return self.noise.dropped(values, share) if self.training else values


def _at_once(core: Tensor, relation: Tensor, entity: Tensor) -> Tensor:
    """The same without the matrices: relation and entity together are one vector, which takes less memory."""
    pairs = (relation[..., :, None] * entity[..., None, :]).flatten(2)
    return pairs @ core.flatten(1, 2)


def _xavier(noise: RandomStreams, size: int, dimension: int) -> torch.nn.Parameter:
    return normal(noise, (size, dimension), math.sqrt(2 / (size + dimension)))
