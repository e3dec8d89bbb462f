"""TuckER (Balazevic et al. 2019): score = W x_1 r x_2 h x_3 t with a core tensor W shared by all triples."""

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

_AT_ONCE = 1 << 24
"""Numbers of the core tensor and of the relations' matrices that are in float64 at a time."""


class BatchNorm(nn.Module):
    """Batch normalisation of stacked runs [S, B, D]; in `eval` mode by running statistics.

    Values in float64 are normalised in float64, whatever the type of the parameters.

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
        values = values.to(torch.promote_types(values.dtype, self.scale.dtype))
        mean, variance = self._of_batch(values) if self.training else (self.mean, self.variance)
        scale = self.scale.to(values.dtype) * torch.rsqrt(variance.to(values.dtype) + _EPSILON)
        return torch.addcmul((self.shift - mean * scale)[:, None], values, scale[:, None])

    def _of_batch(self, values: Tensor) -> tuple[Tensor, Tensor]:
        variance, mean = torch.var_mean(values, dim=1, correction=0)
        size = values.shape[1]
        with torch.no_grad():
            self.mean.lerp_(mean, _MOMENTUM)
            # The unbiased estimate of the variance, as in torch.nn.BatchNorm1d.
            self.variance.lerp_(variance * (size / max(1, size - 1)), _MOMENTUM)
        return mean, variance


@dataclass(frozen=True)
class TuckEROptions:
    dimension: int = option(128, "coordinates of an entity embedding", least=1)
    relation_dimension: int = option(64, "coordinates of a relation embedding", least=1)
    dropout_input: float = option(0.2, "dropout probability of the given entity's coordinates", least=0, most=0.95)
    dropout_relation: float = option(0.2, "dropout probability of the relation's matrix", least=0, most=0.95)
    dropout_output: float = option(0.3, "dropout probability of a query's coordinates", least=0, most=0.95)


class TuckER(EmbeddingModel):
    """TuckER with batch normalisation of the given entity and of the query.

    It is designed for reciprocal relations. Without them, head queries use the transposed core, and the queries of both
    sides share the batch statistics.
    """

    Options = TuckEROptions
    similarity = Dot()

    def __init__(self, sizes: Sizes, options: TuckEROptions, streams: RandomStreams) -> None:
        super().__init__()
        self.options, self.streams = options, streams
        self.entity = _xavier(streams, sizes.entities, options.dimension)
        self.relation = _xavier(streams, sizes.relations, options.relation_dimension)
        self.core = uniform(streams, (options.relation_dimension, options.dimension, options.dimension), 1.0)
        runs = len(streams.seeds)
        self.input_norm = BatchNorm(runs, options.dimension, streams.device)
        self.output_norm = BatchNorm(runs, options.dimension, streams.device)

    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        core = self.core if side == "tail" else self.core.transpose(2, 3)
        if not self.training:
            return self._rounded_once(core, given, relation)
        entity = self._dropout(self.input_norm(rows(self.entity, given)), self.options.dropout_input)
        through = self._by_matrices if self.options.dropout_relation else _at_once
        product = self.output_norm(through(core, rows(self.relation, relation), entity))
        return self._dropout(product, self.options.dropout_output)

    def _rounded_once(self, core: Tensor, given: Tensor, relation: Tensor) -> Tensor:
        """Queries that are computed in float64, and rounded to the type of the embeddings in the end.

        Sums in float32 would depend on the batch, the threads and the device, and so would ranks.
        """
        wide = torch.float32 if given.device.type == "mps" else torch.float64  # MPS has no float64
        entity = self.input_norm(rows(self.entity, given).to(wide))
        runs = zip(core, self.relation, relation, entity, strict=True)
        queries: Tensor = self.output_norm(torch.stack([_by_relation(*run) for run in runs]))
        return queries.to(self.entity.dtype)

    def _by_matrices(self, core: Tensor, relation: Tensor, entity: Tensor) -> Tensor:
        """W x_1 r x_2 h by the relations' matrices [S, B, D, D], with dropout of these.

        The product is scaled up instead of the matrices, which are far larger.
        """
        matrices = torch.unflatten(relation @ core.flatten(2), -1, core.shape[2:])
        share = self.options.dropout_relation
        kept = matrices * self.streams.kept(tuple(matrices.shape[1:]), share)
        return (entity[:, :, None] @ kept)[:, :, 0] / (1 - share)


def _at_once(core: Tensor, relation: Tensor, entity: Tensor) -> Tensor:
    """W x_1 r x_2 h without the relations' matrices, which takes less memory."""
    pairs = (relation[..., :, None] * entity[..., None, :]).flatten(2)
    return pairs @ core.flatten(1, 2)


def _by_relation(core: Tensor, relations: Tensor, relation: Tensor, entity: Tensor) -> Tensor:
    """W x_1 r x_2 h for the queries of one run, by the matrices of their relations.

    Args:
        core: The core tensor [R, D, D].
        relations: The embeddings of all relations [N, R].
        relation: The relations of the queries [B].
        entity: The given entities [B, D], in the type that all is computed in.
    """
    distinct, which = torch.unique(relation, return_inverse=True)
    queries = torch.split_with_sizes(which.argsort(), which.bincount(minlength=len(distinct)).tolist())
    weights, product = relations[distinct].to(entity.dtype), torch.zeros_like(entity)
    step = max(1, _AT_ONCE // ((len(core) + len(distinct)) * core.shape[2]))
    for known, part in zip(torch.split(entity, step, 1), torch.split(core, step, 1), strict=True):
        matrices = torch.unflatten(weights @ part.to(entity.dtype).flatten(1), 1, part.shape[1:])
        for some, matrix in zip(queries, matrices, strict=True):
            product.index_add_(0, some, known[some] @ matrix)
    return product


def _xavier(streams: RandomStreams, size: int, dimension: int) -> nn.Parameter:
    return normal(streams, (size, dimension), math.sqrt(2 / (size + dimension)))
