"""Embeddings of candidates and queries as a scorer provides them, with checks; they stay where the scorer has them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.errors import DataError, spans
from kgprobe.predict.scorers import (
    EmbeddingScorer,
    RelationEmbeddingScorer,
    Similarity,
    Singles,
    as_embeddings,
    as_matrix,
    is_tensor,
)
from kgprobe.predict.tasks import Columns, Task

AnyEmbeddingScorer: TypeAlias = EmbeddingScorer | RelationEmbeddingScorer

_ENCODED_AT_ONCE, _MORE_ON_DEVICE = 1 << 18, 4
"""Coordinates of queries that are encoded in one call in the memory of the host, and how many times as many on another
device. These are independent of the resources, so that an encoder whose last bit depends on its batch gives the same
embeddings in every run."""

_PIECE = 1 << 20
"""Coordinates of candidates that a thread reads or checks at a time."""

_ENCODING = threading.Lock()
"""Queries are encoded for one device at a time."""


@dataclass(frozen=True, eq=False)
class SharedCandidates:
    """Queries that share their candidates.

    Attributes:
        queries: The queries.
        columns: The entities that are candidates.
        values: The embeddings of all entities for these queries: an array, or a tensor on any device.
    """

    queries: range
    columns: Columns
    values: Any

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.values.shape[1])


def shared_candidates(scorer: AnyEmbeddingScorer, task: Task) -> Iterator[SharedCandidates]:
    """All queries, or those of one relation after the other where candidates depend on the relation."""
    side = task.queries.side

    def checked(values: object) -> Any:
        matrix = as_matrix(values, task.graph.num_entities, None, _name(task))
        problem = scorer.similarity.problem(matrix.shape[1])
        if problem:
            raise DataError("the model's candidates cannot be compared", [problem])
        return matrix

    if isinstance(scorer, RelationEmbeddingScorer):
        for queries, columns in task.runs(apart=True):
            relation = int(task.queries.relation[queries.start])
            yield SharedCandidates(queries, columns, checked(scorer.candidates_for(side, relation)))
        return
    values = checked(scorer.candidates(side))
    for queries, columns in task.runs():
        yield SharedCandidates(queries, columns, values)


def _name(task: Task) -> str:
    return f"candidates for the {task.queries.side} (the graph has {task.graph.num_entities:,} entities)"


def on_host(values: Any, task: Task) -> Singles:
    """The embeddings of all entities in float32 in the memory of the host."""
    return as_embeddings(values, task.graph.num_entities, _name(task))


def magnitudes(embeddings: Singles, similarity: Similarity, task: Task, pool: ThreadPoolExecutor) -> Floats:
    """The magnitudes of the entities of the task, given the embeddings of all entities.

    Raises:
        DataError: Embeddings contain NaN.
    """
    some = embeddings[task.entities.start : task.entities.stop]
    found = np.concatenate(
        [np.empty(0), *pool.map(lambda piece: similarity.magnitude(some[piece]), _pieces(some.shape))]
    )
    # The magnitude of an embedding is NaN where one of its coordinates is.
    if np.isnan(found).any():
        require_numbers(embeddings, similarity, task)
    return found


def require_numbers(values: Any, similarity: Similarity, task: Task) -> None:
    """Raise a DataError that names the entities whose embeddings contain NaN, if there are any."""
    broken = np.flatnonzero(np.isnan(similarity.magnitude(on_host(values, task))))
    if len(broken):
        names = ", ".join(task.graph.entity_label(broken[:8]))
        raise DataError(
            "scores are NaN, so nothing can be ranked",
            [f"embeddings of {len(broken):,} entities contain NaN: ids {spans(broken.tolist(), 8)} ({names})"],
            "look for the cause in the model: a training that diverged, a table that was not filled",
        )


def read(shared: SharedCandidates, similarity: Similarity, pool: ThreadPoolExecutor) -> tuple[Singles, Floats]:
    """The embeddings of candidates that stay in files, and their magnitudes; pieces are read by all threads."""
    shape = len(shared.columns), shared.dimension
    rows, found = np.empty(shape, dtype=np.float32), np.empty(len(shared.columns))
    ids = shared.columns.entities

    def fill(piece: slice) -> None:
        part = ids[piece]
        rows[piece] = shared.values[slice(part.start, part.stop) if isinstance(part, range) else part]
        found[piece] = similarity.magnitude(rows[piece])

    try:
        deque(pool.map(fill, _pieces(shape)), maxlen=0)
    except DataError:
        shared.values[shared.columns.index]  # names the rows of all pieces
        raise
    return rows, found


def _pieces(shape: tuple[int, ...]) -> list[slice]:
    """Slices of rows that one thread reads or checks at a time."""
    step = max(1, _PIECE // max(shape[1], 1))
    return [slice(start, min(start + step, shape[0])) for start in range(0, shape[0], step)]


def encoded_at_once(dimension: int, *, on_device: bool) -> int:
    """The number of queries that are encoded in one call; on a device, a multiple of that on the host.

    Example:
        >>> encoded_at_once(100, on_device=False), encoded_at_once(100, on_device=True)
        (2621, 10484)
    """
    return max(1, _ENCODED_AT_ONCE // dimension) * (_MORE_ON_DEVICE if on_device else 1)


def encoded(scorer: AnyEmbeddingScorer, task: Task, shared: SharedCandidates) -> Iterator[tuple[int, Any]]:
    """The embeddings of the queries in batches, each with the index of its first query."""
    elsewhere = is_tensor(shared.values) and shared.values.device.type != "cpu"
    step = encoded_at_once(shared.dimension, on_device=elsewhere)
    for start in range(shared.queries.start, shared.queries.stop, step):
        some = slice(start, min(start + step, shared.queries.stop))
        given, relation = task.queries.given[some], task.queries.relation[some]
        with _ENCODING:
            values = as_matrix(
                scorer.encode_queries(task.queries.side, given, relation), len(given), shared.dimension, "queries"
            )
            # A copy, because the encoder may reuse its memory while these are still being compared.
            copied = values.clone() if is_tensor(values) else values.copy()
        yield start, copied
