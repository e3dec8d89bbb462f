"""Counting for models that compare vectors: float32 tiles decide what is clear, scores of record the rest."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from kgprobe.predict.arithmetic import Arithmetic
from kgprobe.predict.arrays import as_vectors
from kgprobe.predict.counts import Counts
from kgprobe.predict.engine.block import Block
from kgprobe.predict.engine.sweep import Candidates, Sweep
from kgprobe.predict.engine.tables import Table, tables
from kgprobe.predict.engine.task import Task, Watch
from kgprobe.predict.resources import Resources
from kgprobe.predict.scorer import EmbeddingScorer, RelationEmbeddingScorer
from kgprobe.predict.similarity import Floats, Similarity

_ENCODED_AT_ONCE = 1 << 18
"""Coordinates of queries that are encoded in one call. It is the same whatever the resources are, so that an encoder
whose last bit depends on what else it encodes gives the same vectors in every run."""
_ENCODED_TOGETHER = 4
"""Calls whose vectors are kept, so that all threads have work."""
_BATCH, _TILE = 1024, 1024
_DEVICE_BATCH, _DEVICE_TILE = 1 << 14, 1 << 15
_BYTES_A_CELL = 32


def count_embedding(
    scorer: EmbeddingScorer | RelationEmbeddingScorer,
    task: Task,
    arithmetic: Arithmetic,
    resources: Resources,
    watch: Watch,
) -> Counts:
    """The counts of all targets, some queries at a time in every thread."""
    counts = Counts.zeros(len(task.queries.query))
    workers = resources.workers if resources.device == "cpu" else 1
    with ThreadPoolExecutor(workers) as pool:
        try:
            for table in tables(scorer, task):
                candidates = _candidates(table, scorer.similarity, arithmetic)
                batch, tile = _shape(resources, workers, len(table.queries))
                for first, queries in _encoded(scorer, task, table):
                    sweep = Sweep(task, scorer.similarity, arithmetic, candidates, queries, first, tile)
                    last = first + len(queries)
                    blocks = [Block(task, table.columns, s, min(s + batch, last)) for s in range(first, last, batch)]
                    for block, counted in zip(blocks, pool.map(sweep.count, blocks), strict=True):
                        counts.put(block.targets, *counted)
                        watch(len(block.row))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return counts


def _candidates(table: Table, similarity: Similarity, arithmetic: Arithmetic) -> Candidates:
    chosen = table.vectors[table.columns.index]
    return Candidates(table.vectors, arithmetic.place(chosen), similarity.extent(chosen))


def _encoded(
    scorer: EmbeddingScorer | RelationEmbeddingScorer, task: Task, table: Table
) -> Iterator[tuple[int, Floats]]:
    """The vectors of the queries, some at a time, each time with the first of them."""
    step = max(1, _ENCODED_AT_ONCE // table.vectors.shape[1])
    for start in range(table.queries.start, table.queries.stop, step * _ENCODED_TOGETHER):
        stop = min(start + step * _ENCODED_TOGETHER, table.queries.stop)
        vectors = np.empty((stop - start, table.vectors.shape[1]), dtype=np.float32)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            vectors[first - start : last - start] = _encode(scorer, task, table, first, last)
        yield start, vectors


def _encode(
    scorer: EmbeddingScorer | RelationEmbeddingScorer, task: Task, table: Table, start: int, stop: int
) -> Floats:
    given, relation = task.queries.given[start:stop], task.queries.relation[start:stop]
    encoded = scorer.encode_queries(task.queries.side, given, relation)
    vectors = as_vectors(encoded, len(given), "queries", table.vectors.shape[1])
    if np.isnan(vectors).any():
        raise task.not_a_number(np.flatnonzero(np.isnan(vectors).any(axis=1)) + start)
    return vectors


def _shape(resources: Resources, workers: int, queries: int) -> tuple[int, int]:
    """How many queries and how many candidates at a time: a tile that stays in cache, work for every thread."""
    on_cpu = resources.device == "cpu"
    most, wide = (_BATCH, _TILE) if on_cpu else (_DEVICE_BATCH, _DEVICE_TILE)
    tile = resources.tile or wide
    return resources.queries(workers * tile * _BYTES_A_CELL, min(most, -(-queries // workers))), tile
