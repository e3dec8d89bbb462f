"""Rank a model on a graph: the evaluation setting, counts of candidates, and the rank table."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.errors import UsageError, naming
from kgprobe.graph import GraphLike, as_graph
from kgprobe.predict.adapters.list_matching import ListOptions
from kgprobe.predict.adapters.opening import Model, Opening, model_of, open_model, with_list_options
from kgprobe.predict.adapters.top_k import TopKLists, rank_lists
from kgprobe.predict.backends.backend import backend_for
from kgprobe.predict.blocks.block_counting import ByBlocks, Executor, Recipe, ThisProcess
from kgprobe.predict.blocks.ranking_directory import RankingDirectory
from kgprobe.predict.engine import count
from kgprobe.predict.queries import FilterChoice
from kgprobe.predict.sampled_ranking import Sampling, rank_sampled
from kgprobe.predict.scorers import AnyScorer, EmbeddingScorer
from kgprobe.predict.setting import Setting, with_popularity
from kgprobe.predict.tasks import CandidateSets, Counts, Task
from kgprobe.ranks import Ranks, RanksInfo
from kgprobe.resources import Progress, Resources


def rank(
    model: Any,
    graph: GraphLike,
    *,
    split: str = "test",
    sides: str = "both",
    triples: ArrayLike | str | os.PathLike[str] | None = None,
    filter: FilterChoice = None,  # noqa: A002
    candidates: CandidateSets | str | os.PathLike[str] = "all",
    unlisted: str = "unknown",
    unknown: str = "error",
    duplicates: str = "error",
    nearest: float | None = None,
    sample: int | None = None,
    by: str | None = None,
    seed: int = 0,
    resources: Resources | None = None,
    name: str | None = None,
    blocks: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Ranks:
    """Rank the target of every query against all candidates.

    For an embedding model, a candidate beats the target if its canonical score is larger, and ties with it if they are
    equal. Canonical scores are computed in float64 in a fixed order and rounded to float32, so a rank does not depend
    on the device, the number of threads, or the batches. The scores of any other scorer are compared as they are.

    Args:
        model: A kgprobe model; a PyKEEN model; a `Scorer` or an `EmbeddingScorer`; a function of (side, given,
            relation) that returns a score for every entity; top-k lists, also as one dictionary per query; the name of
            a baseline; or the path of a model (see `kgprobe rank --help`).
        graph: The graph.
        split: The split whose triples are ranked.
        sides: "both", "head" ("subject") or "tail" ("object"): what is predicted.
        triples: Other triples instead: an array [n, 3] or a file.
        filter: The known triples: splits and files joined by "+", "none" or "all"; None for train and valid if valid
            is ranked, and all splits if test is.
        candidates: "all" entities, those that occur in "train" on that side of the relation, candidate sets, or a file
            of them or of entity types (entity2types.json).
        unlisted: How candidates outside a top-k list are ranked: "unknown" (rank intervals) or "tied".
        unknown: What becomes of answers of top-k lists that match no entity, or several: "error", "drop" (later answers
            move up) or "keep-as-wrong" (they keep their place).
        duplicates: What becomes of answers that a top-k list has twice: "error" or "first" (the first one counts).
        nearest: Match answers that are unknown otherwise to the nearest name, if its similarity is at least this.
        sample: Estimate the ranks from a sample of so many candidates for each query; metrics then have intervals.
        by: "relation-type": count all candidates that train has on that side of the relation, and sample the others.
        seed: The seed of the samples.
        resources: Device, threads and memory; the ranks do not depend on them.
        name: The model's name in reports.
        blocks: Rank by blocks, whose counts are kept in this directory, so that a ranking that was interrupted goes on.
        executor: What counts the blocks, such as `Ray` (by default this process).
        progress: Called with the number of queries ranked since the last call.

    Example:
        >>> from kgprobe.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [2, 0, 3]], test=[[0, 0, 2]])
        >>> near = rank(lambda side, given, relation: -abs(np.arange(4) - given[:, None]), graph)
        >>> near.column("side").to_pylist(), near.rank.tolist(), near.ties.tolist(), near.candidates.tolist()
        (['tail', 'head'], [2.0, 4.0], [0.0, 0.0], [3.0, 4.0])
    """
    choices = {"split": split, "sides": sides, "triples": triples, "filter": filter, "candidates": candidates}
    lists, resources = ListOptions.of(unlisted, unknown, duplicates, nearest), resources or Resources()
    sampling, by_blocks = Sampling.of(sample, by, seed), blocks is not None or executor is not None
    if sampling is not None and by_blocks:
        raise UsageError("samples are not ranked by blocks", remedy="leave out `sample`, or `blocks` and `executor`")
    recipe = Recipe(os.fspath(model), graph, choices) if isinstance(model, str | os.PathLike) else None
    with ExitStack() as stack:
        if by_blocks:
            # A session begins first: graph and model are opened while it starts.
            session = stack.enter_context((executor or ThisProcess()).session(recipe, resources.device))
        knowledge = as_graph(graph)
        setting = Setting.kept(knowledge, **choices)
        if recipe is not None:
            opened = open_model(recipe.model, Opening(knowledge, setting.ranked, lists=lists))
            stack.enter_context(naming(recipe.model))
        else:
            opened = with_list_options(model_of(model, knowledge, lists), lists)
        if not by_blocks:
            return rank_in(setting, opened, resources, name, progress, sampling)
        folder = stack.enter_context(TemporaryDirectory()) if blocks is None else blocks
        return count_blocks(setting, opened, ByBlocks(Path(folder), session), resources, name, progress).merged()


def rank_in(
    setting: Setting,
    model: Model,
    resources: Resources,
    name: str | None = None,
    progress: Progress | None = None,
    sampling: Sampling | None = None,
) -> Ranks:
    """Rank a model in a setting; see `rank`."""
    setting = setting.limited(model.sets)
    info = info_of(setting, model, name)
    if sampling is not None:
        if isinstance(model.scorer, TopKLists):
            raise UsageError("top-k lists have no scores of sampled candidates", remedy="rank them without `sample`")
        columns = rank_sampled(setting, model.scorer, sampling, resources, progress or (lambda queries: None))
        return setting.table.with_ranks(**columns, info=replace(info, candidates=sampling.info))
    if isinstance(model.scorer, TopKLists):
        columns = _rank_lists(setting, model.scorer)
        ranks = Ranks.from_columns(**setting.columns(), **columns, info=replace(info, lists=model.scorer.info))
        return with_popularity(ranks, setting.graph)
    columns = _rank_scores(setting, model.scorer, resources, progress or (lambda queries: None))
    return setting.table.with_ranks(**columns, info=info)


def info_of(setting: Setting, model: Model, name: str | None = None) -> RanksInfo:
    """The metadata of the rank table of a model."""
    return replace(setting.info(name or model.name, model.settings), training=model.training)


def count_blocks(
    setting: Setting,
    model: Model,
    blocks: ByBlocks,
    resources: Resources,
    name: str | None = None,
    progress: Progress | None = None,
) -> RankingDirectory:
    """Count the missing blocks of a ranking; `RankingDirectory.merged` is its rank table."""
    setting = setting.limited(model.sets)
    return blocks.count(setting, model, info_of(setting, model, name), resources, progress or (lambda queries: None))


def _rank_scores(setting: Setting, scorer: AnyScorer, resources: Resources, progress: Progress) -> dict[str, Any]:
    # Candidates by relation, and scores, are asked for by one device at a time: a scorer may reuse their memory.
    devices = resources.devices if isinstance(scorer, EmbeddingScorer) else resources.devices[:1]
    for device in resources.devices[1:]:
        backend_for(device)  # refuses a device that cannot be used, also where it would not be used
    ranges = setting.entity_ranges(scorer, resources)
    free: SimpleQueue[str] = SimpleQueue()
    for device in devices:
        free.put(device)

    def counted(task: Task) -> Counts:
        device = free.get()
        try:
            return count(
                scorer, task, replace(resources, device=device), lambda targets: progress(targets / len(ranges))
            )
        finally:
            free.put(device)

    parts = []
    for side in setting.ranked.sides:
        queries = setting.ranked.queries(side)
        tasks = setting.tasks(queries, ranges)
        if len(devices) > 1:
            with ThreadPoolExecutor(len(devices)) as pool:
                counts = reduce(add, pool.map(counted, tasks))
        else:
            counts = reduce(add, map(counted, tasks))
        parts.append(counts.at(queries.order))
    return {
        "rank": np.concatenate([part.rank for part in parts]),
        "ties": np.concatenate([part.equal for part in parts]),
        "candidates": np.concatenate([part.candidates for part in parts]),
    }


def _rank_lists(setting: Setting, lists: TopKLists) -> dict[str, Any]:
    if setting.sets is not None:
        raise UsageError("top-k lists are ranked against all entities", remedy="use `candidates='all'`")
    found = rank_lists(lists, setting.ranked.triples, setting.ranked.sides, setting.known.known)
    return {name: getattr(found, name) for name in ("rank", "ties", "candidates", "worst_rank")}
