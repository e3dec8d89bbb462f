"""A run as it lies on disk: its settings and surroundings, or everything that keeps it from going on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kgprobe.errors import DataError, KgprobeError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.train.keep import Facts, written
from kgprobe.train.resolve import read_settings
from kgprobe.train.run import names
from kgprobe.train.run.checkpoint import checkpoint_problems
from kgprobe.train.run.environment import GRAPH
from kgprobe.train.run.graph_facts import other_graph
from kgprobe.train.run.state import state_problems
from kgprobe.train.run.tensors import read_facts
from kgprobe.train.settings import Settings

_Read = TypeVar("_Read")


def read_environment(path: Path) -> Facts:
    """Where and with what a run was begun.

    Raises:
        DataError: The file is missing or damaged.
    """
    try:
        found = json.loads(path.read_bytes())
        missing = [name for name in ("name", "content_hash", "entities", "relations") if name not in found[GRAPH]]
    except OSError as error:
        raise DataError(f"{path}: cannot be read", [error.strerror or str(error)], _ANEW) from None
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{path}: cannot be read", ["it is not the JSON that kgprobe writes"], _ANEW) from None
    if missing:
        raise DataError(f"{path}: cannot be read", [f"its graph has no {', '.join(missing)}"], _ANEW)
    environment: Facts = found
    return environment


def read_run(run: Path, graph: KnowledgeGraph, given: Mapping[str, Any]) -> tuple[Settings, Facts]:
    """The settings and the surroundings of a run that goes on.

    Args:
        run: Its directory.
        graph: The graph, which must be the same as before.
        given: Settings that are given once more, which must be the same as before.

    Raises:
        DataError: The run is damaged, or the graph is another; with all that is wrong.
        UsageError: Nothing but settings that are given differ.
    """
    problems: list[str] = []
    settings = _attempt(lambda: read_settings(run / names.SETTINGS), problems)
    environment = _attempt(lambda: read_environment(run / names.ENVIRONMENT), problems)
    problems += [] if environment is None else other_graph(environment[GRAPH], graph)
    problems += _damages(run)
    differing = [] if settings is None else list(_differences(settings, given))
    if settings is None or environment is None or problems:
        raise DataError(f"{run}: this run cannot go on", [*problems, *differing], _ANEW)
    if differing:
        raise UsageError(
            f"{run}: this run has other settings", differing, "leave them out to go on, or train anew with --force"
        )
    return settings, environment


_ANEW = "put right what is wrong, or train anew with --force"


def _attempt(read: Callable[[], _Read], problems: list[str]) -> _Read | None:
    try:
        return read()
    except KgprobeError as error:
        problems += [f"{error.title}: {problem}" for problem in error.problems] or [error.title]
        return None


def _damages(run: Path) -> list[str]:
    """What is wrong with the files of tensors, as far as it shows without reading them through."""
    problems: list[str] = []
    state, checkpoints = run / names.STATE, sorted((run / names.BEST).glob("*/seed-*.safetensors"))
    for path, find in ((state, state_problems), *((path, checkpoint_problems) for path in checkpoints)):
        facts = _attempt(lambda path=path: read_facts(path), problems) if path.exists() else None  # type: ignore[misc]
        problems += [] if facts is None else [f"{path}: {problem}" for problem in find(facts)]
    return problems


def _differences(settings: Settings, given: Mapping[str, Any]) -> Iterator[str]:
    kept, wanted = written(settings.flat()), written(given)
    for name, value in wanted.items():
        if name not in kept:
            yield f"{name} is {value!r}, and the run has no such setting"
        elif kept[name] != value:
            yield f"{name} is {value!r}, and was {kept[name]!r}"
