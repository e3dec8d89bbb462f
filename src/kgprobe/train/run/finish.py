"""The end of a run: its best checkpoints are ranked on the test facts, and the result is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import evaluate
from kgprobe.predict import Resources
from kgprobe.ranks import Ranks, read_ranks
from kgprobe.train.keep import Facts
from kgprobe.train.memory import peak_memory
from kgprobe.train.ranking import CHECKPOINTS, rank_best, training_facts
from kgprobe.train.run import names
from kgprobe.train.run.directory import RunDirectory
from kgprobe.train.settings import Settings


def finish(
    run: RunDirectory,
    graph: KnowledgeGraph,
    resources: Resources | None = None,
    watch: Callable[[float], None] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Ranks]:
    """Rank the test facts by the best checkpoints of every target, and write what came out.

    What has been ranked already, before the run was interrupted, is not ranked again. A graph without test facts
    leaves nothing to rank.

    Args:
        run: The run, trained to its end.
        graph: The graph.
        resources: Device, threads and memory; the ranks do not depend on it.
        watch: Called with how many queries have been ranked since the last call, of `ranking_queries` in all.
        facts: What else is to be remembered of the run, such as how long it took.

    Returns:
        For every target the ranks of all seeds.
    """
    has_test = len(graph.triples("test")) > 0
    checkpoints: dict[tuple[int, int], Ranks] = {}
    rank_target = partial(rank_best, run, run.settings, graph, resources=resources, watch=watch, ranked=checkpoints)
    ranked = {target: _ranked(run, target, rank_target) for target in run.settings.select if has_test}
    result = {target: _result(run, target, ranks) for target, ranks in ranked.items()}
    run.save_result({**(facts or {}), "peak_memory": peak_memory(), "targets": result})
    return ranked


def ranking_queries(settings: Settings, graph: KnowledgeGraph) -> int:
    """How many queries are ranked at the end of a run."""
    return 2 * len(graph.triples("test")) * len(settings.seeds) * len(settings.select)


def _ranked(run: RunDirectory, target: str, rank_target: Callable[[str], Ranks]) -> Ranks:
    path = _ranks_path(run, target)
    checkpoints = {seed: run.load_best(target, seed)[1] for seed in run.settings.seeds}
    wanted = training_facts(run.settings, target, checkpoints)[CHECKPOINTS]
    if (kept := _kept(path, wanted)) is not None:
        return kept
    ranks = rank_target(target)
    ranks.write(path)
    return ranks


def _kept(path: Path, checkpoints: list[Facts]) -> Ranks | None:
    """The ranks of these checkpoints, if they have been written."""
    try:
        ranks = read_ranks(path) if path.exists() else None
    except DataError:  # a disk that failed; they can be computed again
        return None
    return ranks if ranks is not None and ranks.info.settings.get(CHECKPOINTS) == checkpoints else None


def _result(run: RunDirectory, target: str, ranks: Ranks) -> Facts:
    sides = {"both": ranks, "head": ranks.filter(~ranks.predicts_tail), "tail": ranks.filter(ranks.predicts_tail)}
    return {
        "ranks": _ranks_path(run, target).name,
        CHECKPOINTS: ranks.info.settings[CHECKPOINTS],
        "test": {side: _by_seed(rows, run.settings) for side, rows in sides.items()},
    }


def _by_seed(ranks: Ranks, settings: Settings) -> dict[str, list[float]]:
    """The value of each target, seed by seed."""
    if ranks.seed is None:
        raise TypeError("ranks of a training without a seed")
    found = [evaluate(ranks.filter(ranks.seed == seed), settings.select) for seed in settings.seeds]
    return {name: [values[name] for values in found] for name in found[0]}


def _ranks_path(run: RunDirectory, target: str) -> Path:
    return names.ranks_path(run.path, target, first=target == run.settings.select[0])
