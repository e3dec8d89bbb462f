"""Trained runs and checkpoints as models that can be ranked and explained."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.metrics import parse
from kgprobe.models.rules.explanations import RuleScorer
from kgprobe.predict import Model, Opening
from kgprobe.predict.adapters.opening import is_trained
from kgprobe.ranks import Ranks
from kgprobe.train import run_directory
from kgprobe.train.checkpoints import Checkpoint, Facts, checkpoint_problems, read_facts, written
from kgprobe.train.fitting import CHECKPOINTS, training_facts
from kgprobe.train.learners import trained_run
from kgprobe.train.run_records import other_graph
from kgprobe.train.settings import Settings, read_settings

if TYPE_CHECKING:
    from kgprobe.models.rules.explanations import Answers


def checkpoint_of_run(run: Path) -> Path:
    """The checkpoint of the first seed that is the best by the first target."""
    settings = read_settings(run / run_directory.SETTINGS)
    path = run_directory.best_path(run, settings.select[0], settings.seeds[0])
    if not path.exists():
        problem = f"{path.relative_to(run)} is not there: nothing has been validated yet"
        raise DataError(f"{run}: this run has no checkpoint", [problem], "go on with it: kgprobe train --resume")
    return path


def open_checkpoint(path: Path, graph: KnowledgeGraph, *, other_test: bool = False) -> Model:
    """The model of a checkpoint, for the graph that it has learned; its test split may be another where that is said.

    Raises:
        DataError: It has learned another graph.
    """
    checkpoint = Checkpoint.read(path)
    if problems := other_graph(checkpoint.graph, graph, other_test=other_test):
        raise DataError(f"{path}: this checkpoint is of another graph", problems, "rank it with its own graph")
    settings = checkpoint.settings
    facts = training_facts(settings, checkpoint.target, {checkpoint.seed: checkpoint.facts})
    return Model(settings.model, trained_run(settings, graph, checkpoint.tensors), facts)


def open_trained(path: Path, opening: Opening) -> Model:
    """The model of a checkpoint; of a run, that of its first seed where it is the best by its first target.

    Raises:
        DataError: The file is damaged, is no checkpoint, or has learned another graph.
    """
    checkpoint = checkpoint_of_run(path) if path.is_dir() else path
    return open_checkpoint(checkpoint, opening.graph, other_test=opening.other_test)


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
        return _of_run(path, read_settings(path / run_directory.SETTINGS), select, seed)
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
        else run_directory.best_path(run, target, settings.seeds[0] if seed is None else seed)
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


def rule_runs(
    paths: Sequence[Path], tables: Mapping[str, Ranks], graph: KnowledgeGraph | None = None
) -> dict[str, RuleRun]:
    """The model of rules behind each rank table that one of these runs has made.

    Args:
        paths: Runs of models of rules, or checkpoints.
        tables: Rank tables by the name of their model.
        graph: What was learned; None to look for it by its name.

    Raises:
        UsageError: A run has made none of the tables, or has no rules.
        DataError: A run is damaged, or has learned another graph.
    """
    found: dict[str, RuleRun] = {}
    strangers = []
    for path in paths:
        require_trained(path)
        own = dict(_opened(path, tables, graph))
        strangers += [] if own else [f"{path} has made none of them"]
        found |= own
    if strangers:
        known = ", ".join(tables)
        raise UsageError(f"rules of a model that is not here; the rank files are of {known}", strangers, _REMEDY)
    return found


_REMEDY = "give the rank files of the runs whose rules you name, such as RUN/ranks.parquet"


def _opened(path: Path, tables: Mapping[str, Ranks], graph: KnowledgeGraph | None) -> Iterator[tuple[str, RuleRun]]:
    open_made = _ranked_by_run if path.is_dir() else _of_checkpoint
    for name, table in tables.items():
        if (run := open_made(path, table.info.settings, graph)) is not None:
            yield name, run


def _ranked_by_run(path: Path, made: Mapping[str, Any], graph: KnowledgeGraph | None) -> RuleRun | None:
    settings = read_settings(path / run_directory.SETTINGS)
    if made.get("training") != written(settings.flat()) or made.get("selected_by") not in settings.select:
        return None
    return open_rules(path, graph, select=made["selected_by"], seed=made[CHECKPOINTS][0]["seed"])


def _of_checkpoint(path: Path, made: Mapping[str, Any], graph: KnowledgeGraph | None) -> RuleRun | None:
    facts = read_facts(path)
    own = facts.get("seed"), facts.get("facts", {}).get("epoch")
    ranked = [(checkpoint["seed"], checkpoint["epoch"]) for checkpoint in made.get(CHECKPOINTS, ())]
    return open_rules(path, graph) if made.get("training") == facts.get("settings") and own in ranked else None


def explain(
    run: str | os.PathLike[str],
    query: str,
    *,
    graph: KnowledgeGraph | str | os.PathLike[str] | None = None,
    select: str | None = None,
    seed: int | None = None,
    candidates: Sequence[str] = (),
    top: int = 5,
    rules: int = 5,
    new: bool = False,
) -> Answers:
    """The best answers of a model of rules to a query, with the rules that put them there.

    Args:
        run: The directory of a run, or a checkpoint in it.
        query: "head, relation, ?" or "?, relation, tail", by names or ids.
        graph: The graph of the run; None to look for it by its name.
        select: The metric whose best checkpoint is meant; None for the first of the run.
        seed: The seed; None for the first of the run.
        candidates: Further answers that are wanted, by names or ids.
        top: How many of the best answers.
        rules: How many rules of each answer, at most.
        new: Whether the best are looked for among answers that are not known.

    Raises:
        UsageError: The run has no rules, the query names what the graph does not know, or torch is not installed.
        DataError: The run is damaged, or has learned another graph.
    """
    try:
        from kgprobe.models.rules.explanations import Explainer
        from kgprobe.models.rules.written_queries import Vocabulary

    except ModuleNotFoundError as error:
        raise UsageError(f"{run}: it needs {error.name}", remedy="pip install 'kgprobe[models]'") from None
    opened = open_rules(run, graph, select=select, seed=seed)
    words = Vocabulary(opened.graph)
    question = words.question(query)
    wanted = words.entities(list(candidates))
    return Explainer(opened.scorer, opened.graph).answers(question, wanted, top=top, rules=rules, new=new)
