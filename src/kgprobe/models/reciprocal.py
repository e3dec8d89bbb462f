"""Reciprocal relations: who is asked for a head is asked for the tail of the reverse relation instead."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from torch import Tensor

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.base import EmbeddingModel
from kgprobe.predict.scorer import RelationEmbeddingScorer, Side
from kgprobe.predict.similarity import Similarity


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

    def encode_queries(self, side: Side, given: Ints, relation: Ints) -> Tensor:
        """The vectors of the queries, all of them asked for tails."""
        return self.model.encode_queries("tail", given, self._asked(side, relation))

    def score(self, side: Side, given: Ints, relation: Ints) -> Tensor:
        """The scores of all entities as answers to queries, all of them asked for tails."""
        return self.model.score("tail", given, self._asked(side, relation))

    def _asked(self, side: Side, relation: Ints) -> Ints:
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
