"""Which rank files a run has made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks
from kgprobe.train.keep import written
from kgprobe.train.ranking import CHECKPOINTS
from kgprobe.train.resolve import read_settings
from kgprobe.train.run import names
from kgprobe.train.run.rules import RuleRun, open_rules, require_trained
from kgprobe.train.run.tensors import read_facts


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
    open_made = _of_run if path.is_dir() else _of_checkpoint
    for name, table in tables.items():
        if (run := open_made(path, table.info.settings, graph)) is not None:
            yield name, run


def _of_run(path: Path, made: Mapping[str, Any], graph: KnowledgeGraph | None) -> RuleRun | None:
    settings = read_settings(path / names.SETTINGS)
    if made.get("training") != written(settings.flat()) or made.get("selected_by") not in settings.select:
        return None
    return open_rules(path, graph, select=made["selected_by"], seed=made[CHECKPOINTS][0]["seed"])


def _of_checkpoint(path: Path, made: Mapping[str, Any], graph: KnowledgeGraph | None) -> RuleRun | None:
    facts = read_facts(path)
    own = facts.get("seed"), facts.get("facts", {}).get("epoch")
    ranked = [(checkpoint["seed"], checkpoint["epoch"]) for checkpoint in made.get(CHECKPOINTS, ())]
    return open_rules(path, graph) if made.get("training") == facts.get("settings") and own in ranked else None
