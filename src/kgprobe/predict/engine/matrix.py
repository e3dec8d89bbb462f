"""Counting for scorers that hand out the scores of all entities: those scores are the record."""

from __future__ import annotations

from typing import Any

import numpy as np

from kgprobe.predict.arithmetic import Arithmetic, Bounds
from kgprobe.predict.arrays import as_matrix
from kgprobe.predict.candidate_sets import QueryCandidates
from kgprobe.predict.counts import Counts
from kgprobe.predict.engine.block import Block
from kgprobe.predict.engine.task import Ints, Task, Watch
from kgprobe.predict.resources import Resources
from kgprobe.predict.scorer import Scorer

_BATCH = 512
_BYTES_A_SCORE = 24
"""The scorer's own matrix, a copy to write into, and comparisons."""


def count_matrix(scorer: Scorer, task: Task, arithmetic: Arithmetic, resources: Resources, watch: Watch) -> Counts:
    """The counts of all targets, some queries at a time."""
    counts = Counts.zeros(len(task.queries.query))
    each = getattr(scorer, "bytes_per_query", 0) + _BYTES_A_SCORE * task.graph.num_entities
    batch = resources.queries(each, _BATCH)
    for queries, columns in task.runs():
        for start in range(queries.start, queries.stop, batch):
            block = Block(task, columns, start, min(start + batch, queries.stop))
            counts.put(block.targets, *_count_block(block, _scores(scorer, block, arithmetic), arithmetic))
            watch(len(block.row))
    return counts


def _scores(scorer: Scorer, block: Block, arithmetic: Arithmetic) -> Any:
    """The scores of all entities for the queries of the block, to write into."""
    queries, some = block.task.queries, slice(block.start, block.stop)
    given = scorer.score(queries.side, queries.given[some], queries.relation[some])
    wanted = block.stop - block.start, block.task.graph.num_entities
    remedy = "a scorer gives a row for each query and a column for each entity of the graph"
    scores = arithmetic.adopt(as_matrix(given, *wanted, "scores", remedy))
    broken = arithmetic.not_numbers(scores)
    if len(broken):
        raise block.task.not_a_number(broken + block.start)
    return scores


def _count_block(block: Block, scores: Any, arithmetic: Arithmetic) -> tuple[Ints, Ints, Ints]:
    own = arithmetic.take(scores, block.row, block.target)
    scores = scores[:, block.columns.index]
    if isinstance(block.task.sets, QueryCandidates):
        which, column = block.listed(block.task.sets)
        score = arithmetic.take(scores, block.row[which], column)
        tally = (score > own[which], score == own[which], np.ones(len(which), dtype=bool))
        greater, equal, others = (np.bincount(which[flags], minlength=len(own)) for flags in tally)
        return greater, equal, others
    arithmetic.mask(scores, *block.filtered(0, len(block.columns)))
    above, within = arithmetic.count(scores, Bounds(block.row, own, own))
    return above, within - (block.counts_itself >= 0), block.others
