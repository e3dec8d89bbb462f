"""Embedding models: stacked training runs, tables of embeddings, reciprocal relations."""

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
from kgprobe.models.embedding_rows import Projection, in_place, rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.predict.scorers import SIDES, Dot, GroupNorm, RelationEmbeddingScorer, Side, Similarity

Module = TypeVar("Module", bound=nn.Module)


AskedSide: TypeAlias = Literal["head", "tail", "both"]

"""The side that queries ask for; "both" where the first half of them asks for tails, the second half for heads."""


@dataclass(frozen=True)
class Sizes:
    """How large the tables of a model are.

    Attributes:
        entities: Number of entities.
        relations: Number of relations, the reciprocal ones included.
    """

    entities: int
    relations: int


def by_side(ask: Callable[..., Tensor], side: AskedSide, *tensors: Tensor) -> Tensor:
    """What a function of a side and tensors [S, B, ...] gives, where the side may be "both".

    Example:
        >>> by_side(lambda side, own: own if side == "tail" else -own, "both", torch.tensor([[1, 2]])).tolist()
        [[1, -2]]
    """
    if side != "both":
        return ask(side, *tensors)
    halves = zip(*(own.chunk(2, 1) for own in tensors), strict=True)
    return torch.cat([ask(one, *half) for one, half in zip(SIDES, halves, strict=True)], 1)


class EmbeddingModel(nn.Module, ABC):
    """Several independent runs of one model, stacked along the first axis of every parameter.

    The axes of the tensors are S runs, B queries, K answers, N entities, D coordinates.

    Attributes:
        Options: The dataclass of the model's own settings.
        similarity: How the vector of a query is compared with that of an answer.
        entity: What is known of the entities: [S, N, D].
        noise: Where dropout draws from while the model trains; it draws nothing once the model is in `eval` mode.
    """

    Options: ClassVar[type[Any]]
    similarity: Similarity
    entity: nn.Parameter
    noise: RandomStreams

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """The vectors [B, D] of queries to a single run, for the engine that ranks."""
        with torch.no_grad():
            return self.encode(side, self._ids(given), self._ids(relation))[0]

    def candidates(self, side: Side) -> Tensor:
        """The vectors [N, D] of all entities in a single run, for the engine that ranks."""
        return self.entity[0].detach()

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """The scores [B, N] of all entities in a single run as answers to queries."""
        with torch.no_grad():
            return self.score_all(side, self._ids(given), self._ids(relation))[0]

    def one_run(self, run: int) -> Self:
        """One of the stacked runs, which shares its memory with the stack."""
        return _one_run(self, run).eval()

    def _ids(self, ids: AnyInts) -> Tensor:
        return torch.as_tensor(np.array(ids, dtype=np.int64), device=self.entity.device)[None]

    @abstractmethod
    def encode(self, side: Side, given: Tensor, relation: Tensor) -> Tensor:
        """The vectors [S, B, D] of queries that ask for the ``side`` of (given, relation), both [S, B]."""

    def answers(self, side: AskedSide, relation: Tensor, entities: Tensor | None = None) -> Tensor:
        """The vectors of answers on the ``side`` of the relations [S, B].

        Args:
            side: The side that they would be on.
            relation: The relations [S, B] of the queries.
            entities: The answers [S, B, K]; None for all entities.

        Returns:
            [S, B, K, D], or [S, 1, N, D] where all queries see the entities alike.
        """
        return self.entity[:, None] if entities is None else rows(self.entity, entities)

    def projection(self, side: AskedSide, relation: Tensor) -> Projection | None:
        """How the relations [S, B] see the entities on the ``side``; None where all see them as they are."""
        return None

    @abstractmethod
    def factors(self, head: Tensor, relation: Tensor, tail: Tensor) -> tuple[Tensor, ...]:
        """The moduli of what the facts [S, B] are made of, for a regulariser: each [S, B, any]."""

    def score_some(self, side: AskedSide, given: Tensor, relation: Tensor, entities: Tensor) -> Tensor:
        """The scores [S, B, K] of the entities [S, B, K] as answers."""
        queries = by_side(self.encode, side, given, relation)
        scores = in_place(self.similarity, queries)
        if scores is None:
            return compared(self.similarity, queries, self.answers(side, relation, entities))
        return scores(self.similarity, queries, self.entity, entities, self.projection(side, relation))

    def score_all(self, side: AskedSide, given: Tensor, relation: Tensor) -> Tensor:
        """The scores [S, B, N] of all entities as answers."""
        queries = by_side(self.encode, side, given, relation)
        scores = in_place(self.similarity, queries)
        if scores is None or isinstance(self.similarity, Dot):
            return compared(self.similarity, queries, self.answers(side, relation))
        every = torch.arange(self.entity.shape[1], device=queries.device).expand(len(queries), 1, -1)
        return scores(self.similarity, queries, self.entity, every, self.projection(side, relation))


def _one_run(module: Module, run: int) -> Module:
    alone = copy.copy(module)
    alone._parameters = {name: nn.Parameter(own[run : run + 1]) for name, own in module.named_parameters(recurse=False)}
    alone._buffers = {name: own[run : run + 1] for name, own in module.named_buffers(recurse=False)}
    alone._modules = {name: _one_run(part, run) for name, part in module.named_children()}
    return alone


def compared(similarity: Similarity, queries: Tensor, answers: Tensor) -> Tensor:
    """The scores [S, B, K] of answers [S, B or 1, K, D] to queries [S, B, D].

    Example:
        >>> from kgprobe.predict.scorers import Dot
        >>> compared(Dot(), torch.ones(1, 1, 2), torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
        [[[3.0, 7.0]]]
        >>> compared(GroupNorm(2, gamma=6), torch.zeros(1, 1, 2), torch.tensor([[[[3.0, 4.0]]]])).tolist()
        [[[1.0]]]
    """
    if isinstance(similarity, GroupNorm):
        return _distance(similarity.width(queries.shape[-1]), queries, answers).neg() + similarity.gamma
    if answers.shape[1] == 1:
        return queries @ answers[:, 0].transpose(1, 2)
    return torch.einsum("sbd,sbkd->sbk", queries, answers)


def _distance(width: int, queries: Tensor, answers: Tensor) -> Tensor:
    apart = queries[:, :, None] - answers
    if width == 1:
        return apart.abs().sum(-1)
    lengths: Tensor = torch.linalg.vector_norm(grouped(apart, width), dim=-1)
    return lengths.sum(-1)


def grouped(values: Tensor, width: int) -> Tensor:
    """Neighbouring coordinates put together: [..., D] becomes [..., D / width, width].

    Example:
        >>> grouped(torch.arange(4), 2).tolist()
        [[0, 1], [2, 3]]
    """
    return values.reshape(*values.shape[:-1], -1, width)


def uniform(noise: RandomStreams, shape: tuple[int, ...], bound: float) -> nn.Parameter:
    """A parameter [S, *shape] drawn evenly from -bound to bound."""
    return nn.Parameter(noise.uniform(shape).mul_(2 * bound).sub_(bound))


def normal(noise: RandomStreams, shape: tuple[int, ...], scale: float) -> nn.Parameter:
    """A parameter [S, *shape] of the normal distribution."""
    return nn.Parameter(noise.normal(shape).mul_(scale))


class _Reciprocal:
    """A model of twice as many relations as the graph has.

    Attributes:
        model: The model; relation r + relations is the reverse of r.
        relations: Number of relations of the graph.
        similarity: How vectors are compared.
    """

    def __init__(self, model: EmbeddingModel, relations: int) -> None:
        self.model, self.relations = model, relations
        self.similarity: Similarity = model.similarity

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """The vectors of the queries, all of them asked for tails."""
        return self.model.encode_queries("tail", given, self._asked(side, relation))

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """The scores of all entities as answers to queries, all of them asked for tails."""
        return self.model.score("tail", given, self._asked(side, relation))

    def _asked(self, side: Side, relation: AnyInts) -> AnyInts:
        return relation if side == "tail" else np.asarray(relation) + self.relations


class ReciprocalTable(_Reciprocal):
    """A model whose candidates look alike to all relations."""

    def candidates(self, side: Side) -> Tensor:
        """The vectors of all entities."""
        return self.model.candidates("tail")


class ReciprocalRelations(_Reciprocal):
    """A model whose candidates look different to every relation."""

    def candidates_for(self, side: Side, relation: int) -> Tensor:
        """The vectors of all entities as answers on the ``side`` of the relation."""
        if not isinstance(self.model, RelationEmbeddingScorer):
            raise TypeError(f"{type(self.model).__name__} has the same candidates for all relations")
        candidates: Tensor = self.model.candidates_for("tail", int(self._asked(side, np.array(relation))))
        return candidates


RankedRun: TypeAlias = EmbeddingModel | ReciprocalTable | ReciprocalRelations


def ranked_run(model: EmbeddingModel, relations: int | None) -> RankedRun:
    """What the engine ranks for a single run of a model.

    Args:
        model: A single run.
        relations: The number of relations of the graph where the model has reciprocal ones, else None.
    """
    if relations is None:
        return model
    by_relation = isinstance(model, RelationEmbeddingScorer)
    return ReciprocalRelations(model, relations) if by_relation else ReciprocalTable(model, relations)
