"""A kept checkpoint becomes a model that can be ranked with its graph."""

from __future__ import annotations

from pathlib import Path

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Model
from kgprobe.train.learners import trained_run
from kgprobe.train.ranking import training_facts
from kgprobe.train.resolve import read_settings
from kgprobe.train.run import names
from kgprobe.train.run.checkpoint import Checkpoint
from kgprobe.train.run.graph_facts import other_graph


def checkpoint_of_run(run: Path) -> Path:
    """The checkpoint of the first seed that is the best by the first target."""
    settings = read_settings(run / names.SETTINGS)
    path = names.best_path(run, settings.select[0], settings.seeds[0])
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
