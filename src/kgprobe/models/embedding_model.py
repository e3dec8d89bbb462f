"""Base class of embedding models: stacked training runs, scores of candidates, reciprocal relations."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from kgprobe.arrays import AnyInts
from kgprobe.models.embedding_rows import Projection, fused_scorer, rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.predict.scorers import SIDES, Dot, GroupNorm, RelationEmbeddingScorer, Side, Similarity

# The side that a batch of queries predicts; "both": tails in its first half, heads in its second half.
AskedSide: TypeAlias = Literal["head", "tail", "both"]

_Module = TypeVar("_Module", bound=nn.Module)


@dataclass(frozen=True)
class Sizes:
    """Number of entities, and of relations with the reciprocal ones."""

    entities: int
    relations: int


class EmbeddingModel(nn.Module, ABC):
    """Several independent runs of one model, stacked along the first axis of every parameter.

    The axes of tensors are S runs, B queries, K candidates, N entities, D coordinates.

    Attributes:
        Options: The dataclass of the model's own settings.
        similarity: How the embedding of a query is compared with that of a candidate.
        entity: Entity embeddings [S, N, D].
        relation: Relation embeddings [S, relations, any]; not all models have them.
        streams: Random generators of dropout, which is off in `eval` mode.
    """

    Options: ClassVar[type[Any]]
    similarity: Similarity
    entity: nn.Parameter
    relation: nn.Parameter
    streams: RandomStreams

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """Query embeddings [B, D] of a single run."""
        with torch.no_grad():
            return self.encode(side, self._ids(given), self._ids(relation))[0]

    def candidates(self, side: Side) -> Tensor:
        """Embeddings [N, D] of all entities of a single run."""
        return self.entity[0].detach()

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """Scores [B, N] of all entities, for a single run."""
        with torch.no_grad():
            return self.score_all(side, self._ids(given), self._ids(relation))[0]

    def one_run(self, run: int) -> Self:
        """One of the stacked runs; it shares memory with the stack."""
        return _one_run(self, run).eval()

    def _ids(self, ids: AnyInts) -> Tensor:
        return torch.as_tensor(np.array(ids, dtype=np.int64), device=self.entity.device)[None]

    @abstractmethod
    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """Embeddings [S, B, D] of queries for the ``side`` of (given, relation), both [S, B]."""

    def answers(self, side: AskedSide, relation: Tensor, entities: Tensor | None = None) -> Tensor:
        """Embeddings of candidates on the ``side``.

        Args:
            side: The predicted side.
            relation: The relations [S, B] of the queries.
            entities: The candidates [S, B, K]; None for all entities.

        Returns:
            [S, B, K, D], or [S, 1, N, D] if the embeddings of all entities do not depend on the query.
        """
        return self.entity[:, None] if entities is None else rows(self.entity, entities)

    def projection(self, side: AskedSide, relation: Tensor) -> Projection | None:
        """Projections of candidates on the ``side`` by the relations [S, B]; None if candidates are not projected."""
        return None

    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """Moduli of the embeddings of triples [S, B], for a regulariser: each [S, B, any]."""
        return rows(self.entity, head).abs(), rows(self.relation, relation).abs(), rows(self.entity, tail).abs()

    def score_some(self, side: AskedSide, given: Tensor, relation: Tensor, entities: Tensor) -> Tensor:
        """Scores [S, B, K] of the entities [S, B, K] as candidates."""
        queries = by_side(self.encode, side, given, relation)
        scores = fused_scorer(self.similarity, queries)
        if scores is None:
            return similarity_scores(self.similarity, queries, self.answers(side, relation, entities))
        return scores(self.similarity, queries, self.entity, entities, self.projection(side, relation))

    def score_all(self, side: AskedSide, given: Tensor, relation: Tensor) -> Tensor:
        """Scores [S, B, N] of all entities as candidates."""
        queries = by_side(self.encode, side, given, relation)
        scores = fused_scorer(self.similarity, queries)
        if scores is None or isinstance(self.similarity, Dot):
            return similarity_scores(self.similarity, queries, self.answers(side, relation))
        every = torch.arange(self.entity.shape[1], device=queries.device).expand(len(queries), 1, -1)
        return scores(self.similarity, queries, self.entity, every, self.projection(side, relation))

    def _dropout(self, values: Tensor, share: float) -> Tensor:
        return self.streams.dropped(values, share) if self.training else values


def _one_run(module: _Module, run: int) -> _Module:
    alone = copy.copy(module)
    alone._parameters = {name: nn.Parameter(own[run : run + 1]) for name, own in module.named_parameters(recurse=False)}
    alone._buffers = {name: own[run : run + 1] for name, own in module.named_buffers(recurse=False)}
    alone._modules = {name: _one_run(part, run) for name, part in module.named_children()}
    return alone


def by_side(function: Callable[..., Tensor], side: AskedSide, *tensors: Tensor) -> Tensor:
    """Call a function of a side and tensors [S, B, ...], for "both" once for each half of the queries.

    Example:
        >>> by_side(lambda side, own: own if side == "tail" else -own, "both", torch.tensor([[1, 2]])).tolist()
        [[1, -2]]
    """
    if side != "both":
        return function(side, *tensors)
    halves = zip(*(own.chunk(2, 1) for own in tensors), strict=True)
    return torch.cat([function(one, *half) for one, half in zip(SIDES, halves, strict=True)], 1)


def similarity_scores(similarity: Similarity, queries: Tensor, answers: Tensor) -> Tensor:
    """Scores [S, B, K] of candidates [S, B or 1, K, D] for queries [S, B, D].

    Example:
        >>> similarity_scores(Dot(), torch.ones(1, 1, 2), torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
        [[[3.0, 7.0]]]
        >>> similarity_scores(GroupNorm(2, gamma=6), torch.zeros(1, 1, 2), torch.tensor([[[[3.0, 4.0]]]])).tolist()
        [[[1.0]]]
    """
    if isinstance(similarity, GroupNorm):
        return _distance(similarity.width(queries.shape[-1]), queries, answers).neg() + similarity.gamma
    if answers.shape[1] == 1:
        return queries @ answers[:, 0].transpose(1, 2)
    return torch.einsum("sbd,sbkd->sbk", queries, answers)


def _distance(width: int, queries: Tensor, answers: Tensor) -> Tensor:
    difference = queries[:, :, None] - answers
    return difference.abs().sum(-1) if width == 1 else group_norms(difference, width).sum(-1)


def grouped(values: Tensor, width: int) -> Tensor:
    """Split coordinates into groups of neighbours: [..., D] becomes [..., D / width, width].

    Example:
        >>> grouped(torch.arange(4), 2).tolist()
        [[0, 1], [2, 3]]
    """
    return values.reshape(*values.shape[:-1], -1, width)


def group_norms(values: Tensor, width: int) -> Tensor:
    """The L2 norm of each group of ``width`` coordinates: [..., D] becomes [..., D / width]."""
    norms: Tensor = torch.linalg.vector_norm(grouped(values, width), dim=-1)
    return norms


def uniform(streams: RandomStreams, shape: tuple[int, ...], bound: float) -> nn.Parameter:
    """A parameter [S, *shape], initialised uniformly from -bound to bound."""
    return nn.Parameter(streams.uniform(shape).mul_(2 * bound).sub_(bound))


def normal(streams: RandomStreams, shape: tuple[int, ...], scale: float) -> nn.Parameter:
    """A parameter [S, *shape], initialised from a normal distribution with standard deviation ``scale``."""
    return nn.Parameter(streams.normal(shape).mul_(scale))


class _Reciprocal:
    """Scorer of one run of a model with reciprocal relations: all queries become tail queries.

    Args:
        model: The model; relation r + relations is the reciprocal of r.
        relations: Number of relations of the graph.
    """

    def __init__(self, model: EmbeddingModel, relations: int) -> None:
        self.model, self.relations = model, relations
        self.similarity: Similarity = model.similarity

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        return self.model.encode_queries("tail", given, self._reciprocal(side, relation))

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        return self.model.score("tail", given, self._reciprocal(side, relation))

    def _reciprocal(self, side: Side, relation: AnyInts) -> AnyInts:
        return relation if side == "tail" else np.asarray(relation) + self.relations


class ReciprocalTable(_Reciprocal):
    """`_Reciprocal` for models whose candidate embeddings do not depend on the relation."""

    def candidates(self, side: Side) -> Tensor:
        return self.model.candidates("tail")


class ReciprocalRelations(_Reciprocal):
    """`_Reciprocal` for models whose candidate embeddings depend on the relation."""

    def candidates_for(self, side: Side, relation: int) -> Tensor:
        if not isinstance(self.model, RelationEmbeddingScorer):
            raise TypeError(f"{type(self.model).__name__} has the same candidates for all relations")
        candidates: Tensor = self.model.candidates_for("tail", int(self._reciprocal(side, np.array(relation))))
        return candidates


RankedRun: TypeAlias = EmbeddingModel | ReciprocalTable | ReciprocalRelations


def ranked_run(model: EmbeddingModel, relations: int | None) -> RankedRun:
    """The scorer that ranks a single run of a model.

    Args:
        model: A single run.
        relations: Number of relations of the graph if the model has reciprocal relations, else None.
    """
    if relations is None:
        return model
    by_relation = isinstance(model, RelationEmbeddingScorer)
    return ReciprocalRelations(model, relations) if by_relation else ReciprocalTable(model, relations)
