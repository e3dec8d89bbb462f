"""How a ranking is divided into blocks: ranges of queries against ranges of entities."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kgprobe.arrays import Ints, run_starts, spread
from kgprobe.errors import UsageError
from kgprobe.predict.encoding import encoded_at_once
from kgprobe.predict.engine import matrix_batch
from kgprobe.predict.queries import Queries
from kgprobe.predict.scorers import (
    SIDES,
    AnyScorer,
    EmbeddingScorer,
    GroupNorm,
    RelationEmbeddingScorer,
    Side,
    is_tensor,
)
from kgprobe.predict.setting import Setting
from kgprobe.predict.tasks import RelationCandidates
from kgprobe.resources import Resources

_PRODUCTS, _PRODUCTS_ON_GPU = 1 << 40, 1 << 46
"""Products of coordinates in a block, about: some seconds of work, for each thread or on a large GPU."""

_SLOWER = 4
"""How much longer a norm takes than a product, about."""

_LEAST_QUERIES = 1 << 14
"""Distinct queries in a block, if there are so many: the embeddings of a range are prepared once for each block."""

_SCORES = 1 << 27
"""Scores in a block of a model that returns score matrices, about."""

_MOST_BLOCKS = 1 << 14
"""Blocks of a ranking, about: each has a file of its own."""


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
            >>> block.id("one")
            '13d4b7e8e84f649ea951b0d6740cd186'
        """
        ends = [self.queries.start, self.queries.stop, self.entities.start, self.entities.stop]
        return hashlib.sha256(json.dumps([ranking, self.side, *ends]).encode()).hexdigest()[:32]

    @property
    def pairs(self) -> int:
        """Pairs of a distinct query and an entity."""
        return len(self.queries) * len(self.entities)

    def __str__(self) -> str:
        queries, entities = (f"{some.start:,} to {some.stop - 1:,}" for some in (self.queries, self.entities))
        return f"{self.side} queries {queries}, entities {entities}"


@dataclass(frozen=True)
class Plan:
    """The blocks of a ranking.

    Attributes:
        queries: For each side, where the ranges of its distinct queries begin, and where the last one ends.
        entities: The same for the ranges of entities.
        batch: Queries whose scores are asked for in one call, for a model that returns score matrices.

    Example:
        >>> plan = Plan({"tail": (0, 3, 5), "head": (0, 4)}, entities=(0, 10, 20))
        >>> len(plan.blocks), str(plan.blocks[1])
        (6, 'tail queries 3 to 4, entities 0 to 9')
        >>> [block.side for block in plan.part(2, 3)]
        ['head', 'tail']
    """

    queries: Mapping[Side, tuple[int, ...]]
    entities: tuple[int, ...]
    batch: int | None = None

    @classmethod
    def build(cls, setting: Setting, scorer: AnyScorer, resources: Resources, least: int = 1) -> Plan:
        """A plan of blocks that take some seconds each; of at least so many, about, if there is work for them.

        A range of queries ends where a batch ends that is encoded at once, so that all embeddings are those of a
        ranking without blocks, to the last bit.
        """
        ranges = setting.entity_ranges(scorer, resources)
        cuts, batch = _query_cuts(setting, scorer, resources, ranges, least)
        blocks = sum(len(some) - 1 for some in cuts.values())
        if isinstance(scorer, EmbeddingScorer) and len(ranges) * blocks < least:
            ranges = resources.ranges(setting.graph.num_entities, -(-least // max(blocks, 1)))
        return cls(cuts, (0, *(some.stop for some in ranges)), batch)

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

    def resources(self, resources: Resources) -> Resources:
        """The resources with the batch of this plan: the scores of some models depend on the batch in the last bit."""
        return resources if self.batch is None else replace(resources, batch=self.batch)

    def as_json(self) -> dict[str, Any]:
        """The plan for a JSON file."""
        return {"queries": dict(self.queries), "entities": self.entities, "batch": self.batch or 0}

    @classmethod
    def of_json(cls, entry: Mapping[str, Any]) -> Plan:
        """The plan of an entry that `as_json` has made; a ValueError if it is not one.

        Example:
            >>> plan = Plan({"head": (0, 4)}, entities=(0, 10, 20))
            >>> Plan.of_json(plan.as_json()) == plan
            True
        """
        cuts = {side: _valid(entry["queries"][side], side) for side in SIDES if side in entry["queries"]}
        if len(cuts) != len(entry["queries"]):
            raise ValueError(f"sides {', '.join(map(str, entry['queries']))}")
        return cls(cuts, _valid(entry["entities"], "entities"), entry["batch"] or None)


def _valid(cuts: Sequence[Any], what: str) -> tuple[int, ...]:
    if any(type(cut) is not int for cut in cuts) or list(cuts[:1]) != [0] or any(a >= b for a, b in pairwise(cuts)):
        raise ValueError(f"the ranges of {what} do not begin at 0 and ascend")
    return tuple(cuts)


@dataclass(frozen=True)
class Part:
    """A share of the blocks, counted from 1.

    Example:
        >>> print(Part.parse("2/8"))
        2/8
        >>> Part.parse("0/8")
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: '0/8' is not a part
        Remedy: write 1/8 for the first of eight, up to 8/8 for the last
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Part:
        match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text, re.ASCII)
        part = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= part.number <= part.of:
            raise UsageError(
                f"{text!r} is not a part", remedy="write 1/8 for the first of eight, up to 8/8 for the last"
            )
        return part

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def _query_cuts(
    setting: Setting, scorer: AnyScorer, resources: Resources, ranges: Sequence[range], least: int
) -> tuple[dict[Side, tuple[int, ...]], int | None]:
    """Where the ranges of queries begin, for each side; and the batch of a model that returns score matrices."""
    sides = {side: setting.ranked.queries(side) for side in setting.ranked.sides}
    # So many blocks of queries, over both sides, would be too many, or enough.
    total, most = sum(map(len, sides.values())), _MOST_BLOCKS // max(len(ranges), 1)
    limits = -(-total // max(most, 1)), -(-total * len(ranges) // max(least, 1))
    apart = isinstance(setting.sets, RelationCandidates) or isinstance(scorer, RelationEmbeddingScorer)
    cuts, batch = {}, None
    for side, queries in sides.items():
        if isinstance(scorer, EmbeddingScorer | RelationEmbeddingScorer):
            step, each = _embedding_grid(scorer, side, queries, max(map(len, ranges), default=1), resources)
        else:
            step = batch = matrix_batch(scorer, setting.graph, resources)
            each = max(step, _SCORES // max(setting.graph.num_entities, 1))
        cuts[side] = _cuts(queries, step, max(1, min(each, limits[1]), limits[0]), apart=apart)
    return cuts, batch


def _embedding_grid(
    scorer: EmbeddingScorer | RelationEmbeddingScorer, side: Side, queries: Queries, entities: int, resources: Resources
) -> tuple[int, int]:
    """The number of queries that are encoded at once, and the number of a block."""
    table: Any = None
    if isinstance(scorer, EmbeddingScorer):
        table = scorer.candidates(side)
    elif len(queries):
        table = scorer.candidates_for(side, int(queries.relation[0]))
    shape: tuple[int, ...] = getattr(table, "shape", ())
    dimension = max(1, int(shape[1])) if len(shape) == 2 else 1  # others are refused when they are ranked
    products = _PRODUCTS * resources.workers if resources.device == "cpu" else _PRODUCTS_ON_GPU
    products //= _SLOWER if isinstance(scorer.similarity, GroupNorm) else 1
    on_device = is_tensor(table) and table.device.type != "cpu"
    each = max(_LEAST_QUERIES, products // max(entities * dimension, 1))
    return encoded_at_once(dimension, on_device=on_device), each


def _cuts(queries: Queries, step: int, each: int, *, apart: bool) -> tuple[int, ...]:
    """Where even ranges of about ``each`` queries begin: at multiples of ``step``, for each relation if ``apart``."""
    total = len(queries)
    starts = run_starts(queries.relation.astype(np.int64)) if apart else np.zeros(min(total, 1), dtype=np.int64)
    run, number = spread(-(-np.diff(starts, append=total) // step))
    allowed: Ints = starts[run] + number * step
    count = -(-total // each)
    wanted = np.arange(1, count) * total // count
    chosen = allowed[np.minimum(np.searchsorted(allowed, wanted), len(allowed) - 1)] if len(wanted) else wanted
    return (*np.unique([0, *chosen]).tolist(), total) if total else (0,)
