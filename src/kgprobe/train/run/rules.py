"""Runs of models of rules, opened to be read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.metrics import parse
from kgprobe.models.rules.explain import RuleScorer
from kgprobe.train.keep import Facts
from kgprobe.train.resolve import read_settings
from kgprobe.train.run import names
from kgprobe.train.run.checkpoint import checkpoint_problems
from kgprobe.train.run.graph_facts import other_graph
from kgprobe.train.run.opening import checkpoint_of_run, open_checkpoint
from kgprobe.train.run.source import is_trained
from kgprobe.train.run.tensors import read_facts
from kgprobe.train.settings import Settings


@dataclass(frozen=True, eq=False)
class RuleRun:
    """A model of rules that was trained.

    Attributes:
        name: The model.
        seed: The seed of this run of it.
        checkpoint: The file that it comes from.
        scorer: The model itself.
        graph: What it has learned.
    """

    name: str
    seed: int
    checkpoint: Path
    scorer: RuleScorer
    graph: KnowledgeGraph


def open_rules(
    path: str | os.PathLike[str],
    graph: KnowledgeGraph | str | os.PathLike[str] | None = None,
    *,
    select: str | None = None,
    seed: int | None = None,
) -> RuleRun:
    """The rules of a run, or of one of its checkpoints.

    Args:
        path: The directory of a run, or a checkpoint in it.
        graph: What it has learned; None to look for the graph by the name that the run has kept.
        select: Of a run, the metric whose best checkpoint is meant; None for the first.
        seed: Of a run, the seed; None for the first.

    Raises:
        UsageError: It is no run, it has no such checkpoint, or its model has no rules.
        DataError: The run is damaged, or has learned another graph.
    """
    checkpoint = _checkpoint(Path(path), select, seed)
    facts = read_facts(checkpoint)
    if problems := checkpoint_problems(facts):
        raise DataError(f"{checkpoint}: not a checkpoint", problems, "name a run, or a file in its folder 'best'")
    if graph is None:
        known = _by_name(checkpoint, facts["graph"])
    else:
        known = graph if isinstance(graph, KnowledgeGraph) else load_graph(graph)
    model = open_checkpoint(checkpoint, known)
    if not isinstance(model.scorer, RuleScorer):
        raise UsageError(
            f"{path}: {model.name} has no rules",
            ["it compares vectors, which say nothing that can be read"],
            "train a model of rules: kgprobe train rnnlogic, or kgprobe train plogicnet",
        )
    return RuleRun(model.name, int(facts["seed"]), checkpoint, model.scorer, known)


def require_trained(path: Path) -> None:
    """Refuse what is neither a run nor a checkpoint."""
    if not is_trained(path):
        there = "it is something else" if path.exists() else "there is no such file or folder"
        raise UsageError(f"{path}: no run", [there], "name a run of 'kgprobe train', or a checkpoint in it")


def _checkpoint(path: Path, select: str | None, seed: int | None) -> Path:
    require_trained(path)
    if path.is_dir():
        return _of_run(path, read_settings(path / names.SETTINGS), select, seed)
    if select is not None or seed is not None:
        raise UsageError(f"{path}: a checkpoint has one metric and one seed", remedy="leave --select and --seed out")
    return path


def _of_run(run: Path, settings: Settings, select: str | None, seed: int | None) -> Path:
    first = checkpoint_of_run(run)
    target = settings.select[0] if select is None else str(parse(select))
    problems = [] if target in settings.select else [f"nothing was kept by {target}{nearest(target, settings.select)}"]
    if seed is not None and seed not in settings.seeds:
        problems.append(f"it has no seed {seed}; there are: {', '.join(map(str, settings.seeds))}")
    if problems:
        raise UsageError(f"{run}: this run has no such checkpoint", problems)
    return (
        first
        if select is None and seed is None
        else names.best_path(run, target, settings.seeds[0] if seed is None else seed)
    )


def _by_name(checkpoint: Path, learned: Facts) -> KnowledgeGraph:
    name = str(learned["name"])
    try:
        graph = load_graph(name)
    except DataError as error:
        raise DataError(f"{checkpoint}: its graph is not here", [error.title, *error.problems], _NAME_IT) from None
    if problems := other_graph(learned, graph):
        raise DataError(f"{checkpoint}: its graph is not the one that is called {name} here", problems, _NAME_IT)
    return graph


_NAME_IT = "name the graph that it has learned with --graph"
