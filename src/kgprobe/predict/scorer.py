"""What can be ranked: the protocols that a model keeps, and nothing else is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph.sorted_keys import Ints
from kgprobe.predict.similarity import Similarity

Side: TypeAlias = Literal["head", "tail"]
SIDES: tuple[Side, Side] = ("tail", "head")
Floats: TypeAlias = NDArray[np.float32]
ScoreFunction: TypeAlias = Callable[[Side, Ints, Ints], Any]


@runtime_checkable
class Scorer(Protocol):
    """Scores all entities as the answer of each query; a larger score is better.

    The scores themselves are the record: two candidates tie when theirs are equal.

    Example:
        >>> class Distance:
        ...     def score(self, side, given, relation):
        ...         return -np.abs(np.arange(4) - given[:, None])
        >>> isinstance(Distance(), Scorer)
        True
    """

    def score(self, side: Side, given: Ints, relation: Ints) -> Any:
        """A matrix [queries, entities] (NumPy or torch): query i asks for the ``side`` of (given[i], relation[i])."""
        ...


@runtime_checkable
class EmbeddingScorer(Protocol):
    """Scores by comparing the vector of a query with the vectors of the candidates.

    The vectors are float32. They must depend on the query alone, not on what else is asked in the same call.

    Attributes:
        similarity: How two vectors are compared.
    """

    similarity: Similarity

    def encode_queries(self, side: Side, given: Ints, relation: Ints) -> Any:
        """The vectors [queries, dimension] of the queries that ask for the ``side`` of (given[i], relation[i])."""
        ...

    def candidates(self, side: Side) -> Any:
        """The vectors [entities, dimension] of all entities as answers on the ``side``."""
        ...


@runtime_checkable
class RelationEmbeddingScorer(Protocol):
    """An `EmbeddingScorer` whose candidates look different to every relation; queries are grouped by it."""

    similarity: Similarity

    def encode_queries(self, side: Side, given: Ints, relation: Ints) -> Any:
        """The vectors [queries, dimension] of the queries that ask for the ``side`` of (given[i], relation[i])."""
        ...

    def candidates_for(self, side: Side, relation: int) -> Any:
        """The vectors [entities, dimension] of all entities as answers on the ``side`` of the relation."""
        ...


AnyScorer: TypeAlias = Scorer | EmbeddingScorer | RelationEmbeddingScorer
