"""Counting for models that compare vectors: float32 tiles decide what is clear, scores of record the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

from kgprobe.predict.arithmetic import Arithmetic
from kgprobe.predict.arrays import as_vectors
from kgprobe.predict.counts import Counts
from kgprobe.predict.engine.block import Block
from kgprobe.predict.engine.sweep import Candidates, Sweep
from kgprobe.predict.engine.tables import Table, tables
from kgprobe.predict.engine.task import Ints, Task, Watch
from kgprobe.predict.resources import Resources
from kgprobe.predict.scorer import EmbeddingScorer, RelationEmbeddingScorer
from kgprobe.predict.similarity import Floats

Counted: TypeAlias = tuple[Ints, Ints, Ints]

_ENCODED_AT_ONCE = 1 << 18
"""Coordinates of queries that are encoded in one call. It is the same whatever the resources are, so that an encoder
whose last bit depends on what else it encodes gives the same vectors in every run."""
_AHEAD = 2
"""Blocks that wait for each thread, so that none is idle while queries are encoded."""
_BATCH, _CELLS = 1024, 1 << 20
_DEVICE_BATCH, _DEVICE_CELLS = 1 << 14, 1 << 27
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
    pending: deque[tuple[Block, Future[Counted]]] = deque()

    def collect(most: int) -> None:
        """Wait until not more than so many blocks are under way."""
        while len(pending) > most:
            block, counted = pending.popleft()
            counts.put(block.targets, *counted.result())
            watch(len(block.row))

    with ThreadPoolExecutor(workers) as pool:
        try:
            for table in tables(scorer, task):
                for sweep, block in _blocks(scorer, task, table, arithmetic, _shape(resources, workers, table)):
                    pending.append((block, pool.submit(sweep.count, block)))
                    collect(most=_AHEAD * workers)
                if isinstance(scorer, RelationEmbeddingScorer):
                    collect(most=0)  # the next table may take the place of this one in memory
            collect(most=0)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return counts


def _blocks(
    scorer: EmbeddingScorer | RelationEmbeddingScorer,
    task: Task,
    table: Table,
    arithmetic: Arithmetic,
    shape: tuple[int, int],
) -> Iterator[tuple[Sweep, Block]]:
    """What is to be counted, in pieces that are independent of each other."""
    batch, tile = shape
    candidates = _candidates(table, arithmetic)
    for first, queries in _encoded(scorer, task, table):
        sweep = Sweep(task, scorer.similarity, arithmetic, candidates, queries, first, tile)
        for start in range(first, first + len(queries), batch):
            yield sweep, Block(task, table.columns, start, min(start + batch, first + len(queries)))


def _candidates(table: Table, arithmetic: Arithmetic) -> Candidates:
    chosen = table.columns.index
    return Candidates(table.vectors, arithmetic.place(table.vectors[chosen]), table.extent[chosen])


def _encoded(
    scorer: EmbeddingScorer | RelationEmbeddingScorer, task: Task, table: Table
) -> Iterator[tuple[int, Floats]]:
    """The vectors of the queries, some at a time, each time with the first of them."""
    dimension = table.vectors.shape[1]
    step = max(1, _ENCODED_AT_ONCE // dimension)
    for start in range(table.queries.start, table.queries.stop, step):
        some = slice(start, min(start + step, table.queries.stop))
        given, relation = task.queries.given[some], task.queries.relation[some]
        encoded = scorer.encode_queries(task.queries.side, given, relation)
        # A copy: the encoder may use its memory again while these are still being compared.
        vectors = as_vectors(encoded, len(given), "queries", dimension).copy()
        if np.isnan(vectors).any():
            raise task.not_a_number(np.flatnonzero(np.isnan(vectors).any(axis=1)) + start)
        yield start, vectors


def _shape(resources: Resources, workers: int, table: Table) -> tuple[int, int]:
    """How many queries and how many candidates at a time: a tile that stays in cache, work for every thread."""
    most, cells = (_BATCH, _CELLS) if resources.device == "cpu" else (_DEVICE_BATCH, _DEVICE_CELLS)
    cells = max(1, min(cells, resources.memory // (workers * _BYTES_A_CELL)))
    batch = resources.batch or max(1, min(most, cells // (resources.tile or 1), -(-len(table.queries) // workers)))
    return batch, resources.tile or max(1, cells // batch)
