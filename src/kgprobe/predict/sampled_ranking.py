"""Ranks among all candidates, estimated from a sample of candidates for each query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np

from kgprobe.arrays import EntityRows, Ints, run_starts, slices, spread
from kgprobe.errors import UsageError, nearest
from kgprobe.predict.engine import count
from kgprobe.predict.queries import KnownFilter, Queries
from kgprobe.predict.random_samples import sample_rows, skipping, states
from kgprobe.predict.scorers import SIDES, AnyScorer, Side
from kgprobe.predict.setting import Setting
from kgprobe.predict.tasks import Columns, Counts, QueryCandidates, RelationCandidates, Task
from kgprobe.ranks import Basis, CandidatesInfo, SampleInfo
from kgprobe.ranks.schema import estimated_rank
from kgprobe.resources import Progress, Resources

RELATION_TYPE = "relation-type"
_BYTES_PER_PAIR = 320
"""Bytes of memory for each sampled candidate of a query, while it is drawn and scored."""


@dataclass(frozen=True)
class Sampling:
    """How candidates are sampled.

    Attributes:
        size: The number of sampled candidates of each query.
        by: "relation-type": all candidates that train has on that side of the relation are counted, and the sample is
            drawn from the others. None: the sample is drawn from all candidates.
        seed: The seed of the draws. Models that are ranked with the same seed are ranked on the same samples.

    Example:
        >>> Sampling(500, by="relation")
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: unknown `by` 'relation'; nearest: relation-type
    """

    size: int
    by: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.by not in (None, RELATION_TYPE):
            raise UsageError(f"unknown `by` {self.by!r}{nearest(str(self.by), [RELATION_TYPE])}")
        least = 0 if self.by else 1
        if self.size < least:
            raise UsageError(f"`sample` must be at least {least}, not {self.size}")

    @classmethod
    def of(cls, sample: int | None, by: str | None, seed: int) -> Sampling | None:
        """The sampling of these arguments of `rank`; None where nothing is sampled."""
        if sample is None and by is not None:
            raise UsageError("`by` is about a sample of candidates", remedy="give `sample`, the size of the sample")
        return None if sample is None else cls(sample, by, seed)

    @property
    def info(self) -> CandidatesInfo:
        """The metadata of the rank table, whose numbers of candidates are those of all that the filter leaves."""
        sample = SampleInfo(self.size, estimates=True, exact=self.by, seed=self.seed)
        return CandidatesInfo(Basis.verified, sample=sample)


def rank_sampled(
    setting: Setting, scorer: AnyScorer, sampling: Sampling, resources: Resources, progress: Progress
) -> dict[str, Any]:
    """The columns of the rank table: estimated ranks, and the counts that they come from.

    The samples of two queries are independent of each other, and do not depend on what else is ranked.
    """
    if setting.sets is not None:
        raise UsageError("`sample` samples all entities", remedy="use `candidates='all'`, perhaps with `by`")
    typed = RelationCandidates.from_train(setting.graph) if sampling.by else None
    ranges = setting.entity_ranges(scorer, replace(resources, device=resources.devices[0]))
    resources = replace(resources, device=resources.devices[0])
    parts = 2 if typed else 1
    found = []
    for side in setting.ranked.sides:
        queries = setting.ranked.queries(side)

        def advance(targets: float) -> None:
            progress(targets / (parts * len(ranges)))

        exact = Counts.zeros(len(queries.target))
        if typed is not None:
            tasks = [Task(setting.graph, queries, setting.known, typed, entities) for entities in ranges]
            exact = reduce(add, (count(scorer, task, resources, advance) for task in tasks))
        sampler = Sampler(setting, queries, typed, sampling)
        pieces = []
        for part in sampler.parts(resources.memory):
            drawn = sampler.draw(part)
            tasks = [drawn.task(setting, entities) for entities in ranges]
            pieces.append((reduce(add, (count(scorer, task, resources, advance) for task in tasks)), drawn.population))
        sampled = Counts(
            *(np.concatenate([getattr(own, name) for own, _ in pieces]) for name in ("greater", "equal", "others"))
        )
        population = np.concatenate([own for _, own in pieces])
        found.append((exact.at(queries.order), sampled.at(queries.order), population[queries.order]))
    return _columns(*map(list, zip(*found, strict=True)))


def _columns(exact: list[Counts], sampled: list[Counts], population: list[Ints]) -> dict[str, Any]:
    """The columns of the rank table from the counts of each side."""

    def joined(counts: list[Counts], name: str) -> Ints:
        return np.concatenate([getattr(own, name) for own in counts])

    drawn_from = np.concatenate(population)
    sample = {
        "exact_greater": joined(exact, "greater"),
        "exact_equal": joined(exact, "equal"),
        "sample_size": joined(sampled, "others"),
        "sampled_from": drawn_from,
        "sampled_greater": joined(sampled, "greater"),
        "sampled_equal": joined(sampled, "equal"),
    }
    greater, equal, size, _, more, same = sample.values()
    import pyarrow as pa

    return {
        "rank": estimated_rank(greater, equal, size, drawn_from, more + same / 2),
        "ties": pa.array(equal + same, mask=size < drawn_from),
        "candidates": 1 + joined(exact, "others") + drawn_from,
        "sample": sample,
    }


@dataclass(frozen=True, eq=False)
class Drawn:
    """The sampled candidates of some targets.

    Attributes:
        queries: The queries of the targets.
        entities: The sampled entities of each target.
        population: How many candidates each sample was drawn from.
    """

    queries: Queries
    entities: EntityRows
    population: Ints

    def task(self, setting: Setting, entities: range) -> Task:
        """The task that counts the sampled candidates in a range of entities."""
        sets = _DrawnCandidates("sample", {}, self.queries.triple, drawn=self.entities)
        return Task(setting.graph, self.queries, setting.known, sets, entities)


@dataclass(frozen=True, eq=False)
class _DrawnCandidates(QueryCandidates):
    """Candidates of each target that are distinct and in ascending order already; the rows are those of targets."""

    filtered: ClassVar[bool] = True

    drawn: EntityRows = field(kw_only=True)

    def ids(self, side: Side, triple_rows: Any) -> EntityRows:
        return self.drawn.take(triple_rows)


class Sampler:
    """Draws the sampled candidates of the queries of one side.

    Args:
        setting: The evaluation setting.
        queries: The queries.
        typed: The candidates that are not sampled, because all of them are counted; None if there are none.
        sampling: How candidates are sampled.
    """

    def __init__(
        self, setting: Setting, queries: Queries, typed: RelationCandidates | None, sampling: Sampling
    ) -> None:
        self.known: KnownFilter = setting.known
        self.num_entities = setting.graph.num_entities
        self.queries, self.typed, self.sampling = queries, typed, sampling

    def parts(self, memory: int) -> Iterator[range]:
        """Ranges of queries whose samples are drawn and scored in this memory."""
        targets = np.bincount(self.queries.query, minlength=len(self.queries))
        pairs = targets * max(1, min(self.sampling.size, self.num_entities))
        for part in slices(pairs, max(1, memory // _BYTES_PER_PAIR)):
            yield range(part.start, part.stop)

    def draw(self, part: range) -> Drawn:
        """The samples of the targets of some queries."""
        queries = self.queries.part(part)
        triple = np.arange(len(queries.target))
        starts = run_starts(queries.relation)[: None if self.typed else 1]
        runs = [range(a, b) for a, b in zip(starts, [*starts[1:], len(queries)], strict=True)]
        rows, population = zip(*(self._drawn(queries.part(run)) for run in runs), strict=True)
        offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(own.offsets) for own in rows]))])
        entities = EntityRows(offsets, np.concatenate([own.entities for own in rows]))
        return Drawn(replace(queries, triple=triple), entities, np.concatenate(population))

    def _drawn(self, queries: Queries) -> tuple[EntityRows, Ints]:
        """The samples of queries with the same population but for what is filtered, and the sizes of populations."""
        columns = self._population(int(queries.relation[0]))
        excluded = self._excluded(queries, columns)
        population = len(columns) - np.diff(excluded.offsets)
        side = np.full(len(queries.target), SIDES.index(queries.side))
        given, relation = queries.given[queries.query], queries.relation[queries.query]
        state = states(self.sampling.seed, side, given, relation, queries.target)
        sample = sample_rows(state, population, self.sampling.size)
        row, _ = spread(np.diff(sample.offsets))
        position = skipping(row, sample.entities.astype(np.int64, copy=False), excluded)
        entities = position if isinstance(columns.entities, range) else columns.entities[position]
        return EntityRows(sample.offsets, entities), population

    def _population(self, relation: int) -> Columns:
        """The entities that are sampled for a relation, before the filter."""
        if self.typed is None:
            return Columns(range(self.num_entities))
        others = np.ones(self.num_entities, dtype=bool)
        others[self.typed.ids(self.queries.side, relation)] = False
        return Columns(np.flatnonzero(others))

    def _excluded(self, queries: Queries, columns: Columns) -> EntityRows:
        """For every target, the columns of what is filtered and of the target itself."""
        known = queries.known_rows(self.known, 0, len(queries)).take(queries.query)
        targets = len(queries.target)
        row = np.concatenate([spread(np.diff(known.offsets))[0], np.arange(targets)])
        column = columns.position(np.concatenate([known.entities, queries.target]))
        keys = np.unique((row * max(len(columns), 1) + column)[column >= 0])
        row, column = np.divmod(keys, max(len(columns), 1))
        return EntityRows(np.searchsorted(row, np.arange(targets + 1)), column)
