"""Which candidates the queries have: the same for all of them, or others for each relation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kgprobe.errors import DataError, spans
from kgprobe.predict.arrays import as_vectors
from kgprobe.predict.engine.task import Columns, Task
from kgprobe.predict.scorer import EmbeddingScorer, RelationEmbeddingScorer
from kgprobe.predict.similarity import Doubles, Floats, Similarity


@dataclass(frozen=True, eq=False)
class Table:
    """Queries that have their candidates in common.

    Attributes:
        queries: The queries.
        vectors: The vectors of all entities, as these queries see them.
        extent: Their extents.
        columns: The entities that are candidates.
    """

    queries: range
    vectors: Floats
    extent: Doubles
    columns: Columns


def tables(scorer: EmbeddingScorer | RelationEmbeddingScorer, task: Task) -> Iterator[Table]:
    """All queries at once, or one relation after the other where relations differ in their candidates."""
    vectors_of = _vectors_of(scorer, task)
    for queries, columns in task.runs(apart=isinstance(scorer, RelationEmbeddingScorer)):
        yield Table(queries, *vectors_of(int(task.queries.relation[queries.start])), columns)


def _vectors_of(
    scorer: EmbeddingScorer | RelationEmbeddingScorer, task: Task
) -> Callable[[int], tuple[Floats, Doubles]]:
    """The vectors of all entities, as queries of a relation see them, with their extents."""
    side, entities = task.queries.side, task.graph.num_entities

    def checked(values: object) -> tuple[Floats, Doubles]:
        vectors = as_vectors(values, entities, f"candidates for the {side} (the graph has {entities:,} entities)")
        return vectors, _checked_extent(vectors, scorer.similarity, task)

    if isinstance(scorer, RelationEmbeddingScorer):
        return lambda relation: checked(scorer.candidates_for(side, relation))
    shared = checked(scorer.candidates(side))
    return lambda relation: shared


def _checked_extent(vectors: Floats, similarity: Similarity, task: Task) -> Doubles:
    problem = similarity.problem(vectors.shape[1])
    if problem:
        raise DataError("the model's candidates cannot be compared", [problem])
    extent = similarity.extent(vectors)
    # The extent of a vector is NaN where one of its coordinates is.
    broken = np.flatnonzero(np.isnan(extent))
    if len(broken):
        names = ", ".join(task.graph.entity_label(broken[:8]))
        raise DataError(
            "scores are NaN, so nothing can be ranked",
            [f"vectors of {len(broken):,} entities hold NaN: ids {spans(broken.tolist(), 8)} ({names})"],
            "look for the cause in the model: a training that diverged, a table that was not filled",
        )
    return extent
