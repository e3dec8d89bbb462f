"""Small studies in a folder: graphs, rank files of baselines, and study files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kgprobe as kp
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks
from runs import small_graph

BASELINES = {"Chance": "random", "Entities": "entity-frequency", "Relations": "relation-frequency"}

BETTER = """
[[claims]]
name = "better"
kind = "better"
graph = "GRAPH"
model = "Entities"
than = "Chance"
metric = "MRR"
section = "5.1"
statement = "Frequencies are better than chance"
"""


def write_graph(place: Path, name: str, seed: int = 0) -> KnowledgeGraph:
    """A small graph in graphs/NAME."""
    graph = small_graph(seed=seed, name=name)
    graph.write(place / "graphs" / name)
    return graph


def write_ranks(folder: Path, graph: KnowledgeGraph, models: dict[str, str] | None = None, place: str = "") -> None:
    """Rank files GRAPH/MODEL.parquet of baselines."""
    for model, baseline in (BASELINES if models is None else models).items():
        path = folder / (place or graph.name) / f"{model}.parquet"
        kp.rank(baseline, graph).write(path)


def few_ranks(graph: KnowledgeGraph, rows: Sequence[int]) -> Ranks:
    """Some rows of the ranks of a baseline."""
    return kp.rank("random", graph).take(np.array(rows, dtype=np.int64))


def study_text(graphs: Sequence[str], models: dict[str, str] | None = None, claims: str = BETTER, **more: Any) -> str:
    """A study file about graphs in graphs/ and models that are tables of TOML."""
    lines = [f"graphs = {[f'graphs/{name}' for name in graphs]!r}", 'metrics = ["MRR"]']
    lines += [f"{key} = {value!r}" for key, value in more.items()]
    for model, table in (dict.fromkeys(BASELINES, "") if models is None else models).items():
        lines += [f"[models.{model!r}]", table]
    return "\n".join([*lines, ""]) + claims.replace("GRAPH", graphs[0])


def training(model: str = "complex", **changes: Any) -> str:
    """The table of a model that is trained in a moment."""
    settings = {"dimension": 4, "epochs": 2, "validate_every": 1, **changes}
    written = ", ".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    return f"train = {model!r}\nsettings = {{{written}}}"


def write_study(place: Path, text: str, name: str = "study.toml") -> Path:
    path = place / name
    path.write_text(text, encoding="utf-8")
    return path
