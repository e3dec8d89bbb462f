"""The evaluation setting: which triples are ranked, what is filtered, and which entities are candidates."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.queries import FilterChoice, KnownFilter, Queries, RankedTriples
from kgprobe.predict.scorers import AnyScorer, EmbeddingScorer
from kgprobe.predict.tasks import (
    CandidateSets,
    QueryCandidates,
    RelationCandidates,
    Task,
    limited,
    open_candidates,
    require_fit,
)
from kgprobe.ranks import Basis, CandidatesInfo, Ranks, RanksInfo, SampleInfo
from kgprobe.resources import Resources

_MOST_KEPT = 1 << 22
"""Known triples of a filter that is kept for the next model."""


_RANGE_BYTES = 1 << 30
"""Bytes of embeddings in a range of entities, about, if the embeddings stay in files."""


@dataclass(frozen=True, eq=False)
class Setting:
    """The evaluation setting; ranks are comparable if they were computed in the same setting.

    Attributes:
        graph: The graph.
        split: The ranked split; None if other triples are ranked.
        ranked: The ranked triples.
        known: The filter.
        sets: The candidate sets; None for all entities.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], valid=[[1, 0, 2]], test=[[0, 0, 2]])
        >>> setting = Setting.build(graph, split="valid", sides="tail")
        >>> setting.queries, setting.known.names
        (1, ('train', 'valid'))
    """

    graph: KnowledgeGraph
    split: str | None
    ranked: RankedTriples
    known: KnownFilter
    sets: CandidateSets | None

    @classmethod
    def build(
        cls,
        graph: KnowledgeGraph,
        *,
        split: str = "test",
        sides: str = "both",
        triples: ArrayLike | str | os.PathLike[str] | None = None,
        filter: FilterChoice = None,  # noqa: A002
        candidates: CandidateSets | str | os.PathLike[str] = "all",
    ) -> Setting:
        """The setting of these arguments; see `rank`."""
        ranked = RankedTriples.build(graph, split, sides, triples)
        known = KnownFilter.build(graph, filter, split, ranked)
        sets = open_candidates(candidates, graph, ranked) if isinstance(candidates, str | os.PathLike) else candidates
        if sets is not None:
            require_fit(sets, graph, ranked)
        return cls(graph, split if triples is None else None, ranked, known, sets)

    @classmethod
    def kept(cls, graph: KnowledgeGraph, **choices: Any) -> Setting:
        """The setting of these arguments of `build`, kept with the graph for the next model if it is a usual one.

        Files that are named in the arguments may change, and large filters need much memory: these are built anew.
        """
        key = ("setting", choices["split"], choices["sides"])
        usual = choices["triples"] is None and choices["filter"] is None and choices["candidates"] == "all"
        if usual and key in graph.derived:
            setting: Setting = graph.derived[key]
            return setting
        setting = cls.build(graph, **choices)
        if usual and setting.known.rows <= _MOST_KEPT:
            graph.derived[key] = setting
        return setting

    def limited(self, own: RelationCandidates | None) -> Setting:
        """The same setting with only those candidates that a model has; None for all entities."""
        if own is None:
            return self
        return replace(self, sets=limited(self.sets, own, self.ranked, self.graph.num_entities))

    @property
    def queries(self) -> int:
        """Number of rows of the rank table: one per triple and side."""
        return len(self.ranked.triples) * len(self.ranked.sides)

    def columns(self) -> dict[str, Any]:
        """The query columns of the rank table: all triples for the first side, then for the other."""
        head, relation, tail = np.tile(self.ranked.triples, (len(self.ranked.sides), 1)).T
        code = np.repeat(np.arange(len(self.ranked.sides), dtype=np.int8), len(self.ranked.triples))
        side = pa.DictionaryArray.from_arrays(code, list(self.ranked.sides))  # texts of NumPy take 16 bytes each
        return {"head": head, "relation": relation, "tail": tail, "side": side}

    @cached_property
    def table(self) -> Ranks:
        """The queries and the popularity of their targets, as a rank table in which all ranks are 1."""
        one = np.ones(self.queries, dtype=np.int64)
        ranks = Ranks.from_columns(**self.columns(), rank=one, ties=one - 1, candidates=one)
        return with_popularity(ranks, self.graph)

    def entity_ranges(self, scorer: AnyScorer, resources: Resources) -> list[range]:
        """The ranges of entities that are counted one after the other, or on several devices.

        Embeddings that stay in files are read by ranges that fit into memory.
        """
        # Candidates by relation, and scores, are asked for by one device at a time: a scorer may reuse their memory.
        devices = len(resources.devices) if isinstance(scorer, EmbeddingScorer) else 1
        stored = -(-getattr(scorer, "stored_bytes", 0) // _RANGE_BYTES)
        return resources.ranges(self.graph.num_entities, max(devices, stored))

    def tasks(self, queries: Queries, ranges: list[range]) -> list[Task]:
        """One task for each range of entities. A task of all entities is kept for the next model that is ranked."""
        if len(ranges) > 1:
            return [Task(self.graph, queries, self.known, self.sets, entities) for entities in ranges]
        key = (queries.side, *ranges)
        if key not in self._whole or self._whole[key].queries is not queries:
            self._whole[key] = Task(self.graph, queries, self.known, self.sets, ranges[0])
        return [self._whole[key]]

    @cached_property
    def _whole(self) -> dict[tuple[Any, ...], Task]:
        return {}

    def info(self, model: str, settings: dict[str, Any]) -> RanksInfo:
        """The metadata of the rank table."""
        protocol: dict[str, Any] = {"sides": list(self.ranked.sides)}
        protocol |= {"repeated": self.ranked.repeated} if self.ranked.repeated else {}
        return RanksInfo(
            model=model,
            graph=self.graph.name,
            graph_hash=self.graph.content_hash,
            split=self.split,
            filtered=self.known.names,
            filter_hash=self.known.hash,
            candidates=_candidates(self.sets),
            settings=settings | protocol,
        )


def with_popularity(ranks: Ranks, graph: KnowledgeGraph) -> Ranks:
    """The rank table with the popularity of the targets, if the graph has training triples or their counts."""
    known = graph.train_counts is not None or len(graph.triples("train")) > 0
    return ranks.with_popularity(graph.popularity_of(ranks.target, ranks.relation)) if known else ranks


def _candidates(sets: CandidateSets | None) -> CandidatesInfo:
    if sets is None:
        return CandidatesInfo(Basis.verified)
    if isinstance(sets, QueryCandidates):
        return CandidatesInfo(Basis.given, sets.name, sets.file_hash or sets.hash, sample=SampleInfo(sets.negatives))
    return CandidatesInfo(Basis.given, sets.name, sets.file_hash)
