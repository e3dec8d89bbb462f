"""How a ranking is divided into blocks: ranges of queries against ranges of entities."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kgprobe.arrays import Ints, run_starts, spread
from kgprobe.errors import UsageError
from kgprobe.predict.encoding import encoded_at_once
from kgprobe.predict.engine import matrix_batch
from kgprobe.predict.queries import Queries
from kgprobe.predict.scorers import AnyScorer, EmbeddingScorer, RelationEmbeddingScorer, Side
from kgprobe.predict.setting import Setting
from kgprobe.predict.tasks import RelationCandidates
from kgprobe.resources import Resources

_PRODUCTS, _PRODUCTS_ON_GPU = 1 << 40, 1 << 46
"""Products of coordinates in a block, about: some seconds of work on two cores, or on a large GPU."""

_LEAST_QUERIES = 1 << 13
"""Distinct queries in a block, if there are so many: the embeddings of a range are prepared once for each block."""

_SCORES = 1 << 27
"""Scores in a block of a model that returns score matrices, about."""


@dataclass(frozen=True)
class Block:
    """The queries of a range, on one side, against the entities of a range."""

    side: Side
    queries: range
    entities: range

    def id(self, ranking: str) -> str:
        """The name of this block of the ranking with this hash: a hash of everything that its counts depend on.

        Example:
            >>> block = Block("tail", range(0, 5), range(0, 9))
            >>> block.id("one"), block.id("other")
            ('...', '...')
        """
        ends = [self.queries.start, self.queries.stop, self.entities.start, self.entities.stop]
        return hashlib.sha256(json.dumps([ranking, self.side, *ends]).encode()).hexdigest()[:32]

    def __str__(self) -> str:
        queries, entities = (f"{some.start:,} to {some.stop - 1:,}" for some in (self.queries, self.entities))
        return f"{self.side} queries {queries}, entities {entities}"


@dataclass(frozen=True)
class Plan:
    """The blocks of a ranking.

    Attributes:
        queries: For each side, where the ranges of its distinct queries begin, and where the last one ends.
        entities: The same for the ranges of entities.

    Example:
        >>> plan = Plan({"tail": (0, 3, 5), "head": (0, 4)}, entities=(0, 10, 20))
        >>> len(plan.blocks), str(plan.blocks[1])
        (6, 'tail queries 3 to 4, entities 0 to 9')
        >>> [block.side for block in plan.part(2, 3)]
        ['head', 'tail']
    """

    queries: Mapping[Side, tuple[int, ...]]
    entities: tuple[int, ...]

    @classmethod
    def build(cls, setting: Setting, scorer: AnyScorer, resources: Resources) -> Plan:
        """A plan whose blocks take some seconds each.

        A range of queries ends where a batch ends that is encoded at once, so that all embeddings are those of a
        ranking without blocks, to the last bit.
        """
        ranges = setting.entity_ranges(scorer, resources)
        most = max(map(len, ranges), default=1)
        cuts = {}
        for side in setting.ranked.sides:
            queries = setting.ranked.queries(side)
            step, each = _grid(setting, scorer, side, queries, most, resources)
            cuts[side] = _cuts(queries, step, each, apart=_by_relation(setting, scorer))
        return cls(cuts, (0, *(some.stop for some in ranges)))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks, those of one range of entities after those of another."""
        return tuple(
            Block(side, range(*queries), range(*entities))
            for entities in pairwise(self.entities)
            for side, cuts in self.queries.items()
            for queries in pairwise(cuts)
        )

    def part(self, number: int, of: int) -> tuple[Block, ...]:
        """One of so many even parts of the blocks, counted from 1."""
        first, last = ((number - step) * len(self.blocks) // of for step in (1, 0))
        return self.blocks[first:last]


def parse_part(text: str) -> tuple[int, int]:
    """A part such as "2/8": its number, counted from 1, and the number of parts.

    Example:
        >>> parse_part("2/8")
        (2, 8)
        >>> parse_part("0/8")
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: '0/8' is not a part
        Remedy: write 1/8 for the first of eight, up to 8/8 for the last
    """
    match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of:
        raise UsageError(f"{text!r} is not a part", remedy="write 1/8 for the first of eight, up to 8/8 for the last")
    return number, of


def _by_relation(setting: Setting, scorer: AnyScorer) -> bool:
    """Whether the queries of different relations have candidates of their own."""
    return isinstance(setting.sets, RelationCandidates) or isinstance(scorer, RelationEmbeddingScorer)


def _grid(
    setting: Setting, scorer: AnyScorer, side: Side, queries: Queries, entities: int, resources: Resources
) -> tuple[int, int]:
    """The number of queries that are encoded at once, and the number of a block."""
    if isinstance(scorer, EmbeddingScorer):
        dimension = _width(scorer.candidates(side))
    elif isinstance(scorer, RelationEmbeddingScorer):
        dimension = _width(scorer.candidates_for(side, int(queries.relation[0]))) if len(queries) else 1
    else:
        step = matrix_batch(scorer, setting.graph, resources)
        return step, max(step, _SCORES // max(setting.graph.num_entities, 1))
    products = _PRODUCTS if resources.device == "cpu" else _PRODUCTS_ON_GPU
    return encoded_at_once(dimension, on_device=True), max(_LEAST_QUERIES, products // max(entities * dimension, 1))


def _width(table: Any) -> int:
    """The number of coordinates; a table that has none is refused when it is ranked."""
    shape: tuple[int, ...] = getattr(table, "shape", ())
    return max(1, int(shape[1])) if len(shape) == 2 else 1


def _cuts(queries: Queries, step: int, each: int, *, apart: bool) -> tuple[int, ...]:
    """Where ranges of about ``each`` queries begin: at multiples of ``step``, for each relation if ``apart``."""
    total = len(queries)
    starts = run_starts(queries.relation.astype(np.int64)) if apart else np.zeros(min(total, 1), dtype=np.int64)
    run, number = spread(-(-np.diff(starts, append=total) // step))
    allowed: Ints = starts[run] + number * step
    wanted = np.arange(each, total, each)
    chosen = allowed[np.minimum(np.searchsorted(allowed, wanted), len(allowed) - 1)] if len(wanted) else wanted
    return (*np.unique([0, *chosen]).tolist(), total) if total else (0,)
