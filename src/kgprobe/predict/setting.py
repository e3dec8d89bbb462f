"""The setting of an evaluation: which facts are ranked, against which candidates, and what is filtered."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.candidate_sets import CandidateSets, open_candidates, require_fit
from kgprobe.predict.engine import Task
from kgprobe.predict.facts import Facts, Queries
from kgprobe.predict.filter import KnownFilter, Wanted
from kgprobe.ranks import RanksInfo


@dataclass(frozen=True, eq=False)
class Setting:
    """What makes ranks comparable; two models are compared in the same setting.

    Attributes:
        graph: The graph.
        split: The split that is ranked; None where other facts are.
        facts: The facts that are ranked.
        known: The filter.
        sets: The candidates, where they are not all entities.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], valid=[[1, 0, 2]], test=[[0, 0, 2]])
        >>> setting = Setting.build(graph, split="valid", sides="tail")
        >>> setting.queries, setting.known.names
        (1, ('train', 'valid'))
    """

    graph: KnowledgeGraph
    split: str | None
    facts: Facts
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
        filter: Wanted = None,  # noqa: A002
        candidates: CandidateSets | str | os.PathLike[str] = "all",
    ) -> Setting:
        """The setting that is asked for; see `rank` for the arguments."""
        facts = Facts.build(graph, split, sides, triples)
        known = KnownFilter.build(graph, filter, split)
        sets = open_candidates(candidates, graph, facts) if isinstance(candidates, str | os.PathLike) else candidates
        if sets is not None:
            require_fit(sets, graph, facts)
        return cls(graph, split if triples is None else None, facts, known, sets)

    @property
    def queries(self) -> int:
        """How many queries are ranked, each with one target."""
        return len(self.facts.triples) * len(self.facts.sides)

    def columns(self) -> dict[str, Any]:
        """The columns of a rank table that say what was asked: all facts for the first side, then for the other."""
        head, relation, tail = np.tile(self.facts.triples, (len(self.facts.sides), 1)).T
        side = np.repeat(np.array(self.facts.sides), len(self.facts.triples))
        return {"head": head, "relation": relation, "tail": tail, "side": side}

    def tasks(self, queries: Queries, ranges: list[range]) -> list[Task]:
        """What is to be counted for the queries of a side, over each range of entities."""
        return [Task(self.graph, queries, self.known, self.sets, entities) for entities in ranges]

    def info(self, model: str, settings: dict[str, Any]) -> RanksInfo:
        """What a rank file says about itself."""
        protocol: dict[str, Any] = {"sides": list(self.facts.sides)}
        protocol |= {} if self.sets is None else self.sets.description
        protocol |= {"repeated": self.facts.repeated} if self.facts.repeated else {}
        return RanksInfo(
            model=model,
            graph=self.graph.name,
            graph_hash=self.graph.content_hash,
            split=self.split,
            filtered=self.known.names,
            filter_hash=self.known.hash,
            settings=settings | protocol,
        )
