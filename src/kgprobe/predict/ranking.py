"""Rank a model on a graph: evaluation setting, scores to counts, counts to ranks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters.opening import Model, Opening, model_of, open_model
from kgprobe.predict.adapters.top_k import TopKLists, rank_lists
from kgprobe.predict.candidates import CandidateSets, open_candidates, require_fit
from kgprobe.predict.engine import count
from kgprobe.predict.filters import KnownFilter, Wanted
from kgprobe.predict.queries import Queries, RankedTriples
from kgprobe.predict.scorers import AnyScorer
from kgprobe.predict.tasks import Task
from kgprobe.ranks import Ranks, RanksInfo
from kgprobe.resources import Progress, Resources


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
    facts: RankedTriples
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
        facts = RankedTriples.build(graph, split, sides, triples)
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


"""Called with how many queries have been ranked since the last call."""


def rank(
    model: Any,
    graph: KnowledgeGraph,
    *,
    split: str = "test",
    sides: str = "both",
    triples: ArrayLike | str | os.PathLike[str] | None = None,
    filter: Wanted = None,  # noqa: A002
    candidates: CandidateSets | str | os.PathLike[str] = "all",
    resources: Resources | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Ranks:
    """Rank the true answer of every query against all candidates.

    For a model that compares vectors, a candidate beats the target when its score of record is larger and ties with
    it when they are equal: computed in float64 in a fixed order, rounded to float32. So a rank does not depend on the
    device, the number of threads, or how the work is divided. For any other scorer, its scores are the record.

    Args:
        model: A kgprobe model; a PyKEEN model; a `Scorer` or an `EmbeddingScorer`; a function of (side, given,
            relation) that gives a score for every entity; top-k lists; the name of a baseline; or the path of a model
            (see `kgprobe rank --help`).
        graph: The graph.
        split: The split whose facts are ranked.
        sides: "both", "head" or "tail": what is predicted.
        triples: Other facts instead: an array [n, 3] or a file.
        filter: Whose facts are no candidates: splits and files joined by "+", "none" or "all"; None for train and
            valid where valid is ranked, and all splits where test is.
        candidates: "all" entities, those seen in "train" on that side of the relation, a file, or candidate sets.
        resources: Device, threads and memory; the ranks do not depend on it.
        name: What reports call the model.
        progress: Called with how many queries have been ranked since the last call.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [2, 0, 3]], test=[[0, 0, 2]])
        >>> near = rank(lambda side, given, relation: -abs(np.arange(4) - given[:, None]), graph)
        >>> near.column("side").to_pylist(), near.rank.tolist(), near.ties.tolist(), near.candidates.tolist()
        (['tail', 'head'], [2.0, 4.0], [0.0, 0.0], [3.0, 4.0])
    """
    setting = Setting.build(graph, split=split, sides=sides, triples=triples, filter=filter, candidates=candidates)
    by_name = isinstance(model, str | os.PathLike)
    opened = open_model(model, Opening(graph, setting.facts)) if by_name else model_of(model, graph)
    return rank_in(setting, opened, resources or Resources(), name, progress)


def rank_in(
    setting: Setting,
    model: Model,
    resources: Resources,
    name: str | None = None,
    progress: Progress | None = None,
) -> Ranks:
    """Rank a model in a setting; see `rank`."""
    if isinstance(model.scorer, TopKLists):
        answers = _by_lists(setting, model.scorer)
    else:
        answers = _by_scores(setting, model.scorer, resources, progress or (lambda queries: None))
    ranks = Ranks.from_columns(**setting.columns(), **answers, info=setting.info(name or model.name, model.settings))
    graph = setting.graph
    has_popularity = graph.train_counts is not None or len(graph.triples("train"))
    return ranks.with_popularity(graph.popularity) if has_popularity else ranks


def _by_scores(setting: Setting, scorer: AnyScorer, resources: Resources, progress: Progress) -> dict[str, Any]:
    ranges = resources.ranges(setting.graph.num_entities)
    parts = []
    for side in setting.facts.sides:
        queries = setting.facts.queries(side)
        counted = (
            count(scorer, task, resources, lambda targets: progress(targets / len(ranges)))
            for task in setting.tasks(queries, ranges)
        )
        parts.append(reduce(add, counted).at(np.argsort(queries.fact)))
    return {
        "rank": np.concatenate([part.rank for part in parts]),
        "ties": np.concatenate([part.equal for part in parts]),
        "candidates": np.concatenate([part.candidates for part in parts]),
    }


def _by_lists(setting: Setting, lists: TopKLists) -> dict[str, Any]:
    if setting.sets is not None:
        raise UsageError("top-k lists are ranked against all entities", remedy="leave the candidates out")
    found = rank_lists(lists, setting.facts.triples, setting.facts.sides, setting.known.known)
    return {
        "rank": found.rank,
        "ties": found.ties,
        "candidates": found.candidates,
        "worst_rank": found.worst_rank,
    }
