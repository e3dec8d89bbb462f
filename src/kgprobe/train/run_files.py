"""Files of a run directory: their names, and reading them with all damage and contradictions named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from kgprobe.errors import DataError, KgprobeError, UsageError, shown
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import parse
from kgprobe.train.checkpoints import (
    Checkpoint,
    Metadata,
    as_json,
    checkpoint_problems,
    read_metadata,
    state_problems,
)
from kgprobe.train.run_records import (
    GRAPH,
    LOG_HASH,
    RESTORE,
    SETTINGS_ENTRY,
    RunLog,
    other_graph,
    read_environment,
    read_result,
)
from kgprobe.train.settings import Settings, read_settings

_Read = TypeVar("_Read")

SETTINGS = "settings.toml"
ENVIRONMENT = "environment.json"
STATE = "state.safetensors"
LOG = "log.jsonl"
CURVE = "curve.csv"
BEST = "best"
SNAPSHOTS = "snapshots"
RANKS = "ranks.parquet"
RESULT = "result.json"

_SIGNS = {"-": "minus", "+": "plus"}


def slug(target: str) -> str:
    """A metric as a part of file names, different for different metrics.

    Example:
        >>> slug("PROBE(alpha=1,beta=0)"), slug("PROBE(alpha=-1,beta=0.8)"), slug("Hits@10")
        ('probe-alpha-1-beta-0', 'probe-alpha-minus1-beta-0.8', 'hits-10')
    """
    plain = re.sub(r"[-+]", lambda sign: _SIGNS[sign[0]], str(parse(target)))
    return re.sub(r"[^a-z0-9._]+", "-", plain.lower()).strip("-")


def best_path(run: Path, target: str, seed: int) -> Path:
    """File of the best checkpoint of a seed for a selection metric."""
    return run / BEST / slug(target) / f"seed-{seed}.safetensors"


def snapshot_path(run: Path, epoch: int, seed: int) -> Path:
    """File of the snapshot of a seed after an epoch."""
    return run / SNAPSHOTS / f"epoch-{epoch:05d}" / f"seed-{seed}.safetensors"


def ranks_path(run: Path, target: str, *, first: bool) -> Path:
    """File of the test ranks for a selection metric; those of the first metric are `RANKS`."""
    return run / (RANKS if first else f"ranks-{slug(target)}.parquet")


def read_run(run: Path) -> tuple[Settings, Metadata]:
    """The settings of a run and its environment.

    Raises:
        DataError: The run is damaged, or its settings file has changed since the run began; with all problems.
    """
    problems: list[str] = []
    settings, environment = _read_records(run, problems)
    if settings is None or environment is None or problems:
        raise DataError(f"{run}: this run cannot be used", problems, RESTORE)
    return settings, environment


def read_best(run: Path, settings: Settings, target: str, seed: int) -> Checkpoint:
    """The best checkpoint of a seed for a selection metric.

    Raises:
        DataError: The file is missing or damaged, or is a checkpoint of something else.
    """
    path = best_path(run, target, seed)
    checkpoint = Checkpoint.read(path)
    facts = {"settings": checkpoint.settings.flat(), "target": checkpoint.target, "seed": checkpoint.seed}
    if problems := list(_other_origin(facts, settings, target, seed)):
        raise DataError(f"{path}: not a checkpoint of this run", problems, RESTORE)
    return checkpoint


def _read_records(run: Path, problems: list[str]) -> tuple[Settings | None, Metadata | None]:
    settings = _attempt(lambda: read_settings(run / SETTINGS), problems)
    environment = _attempt(lambda: read_environment(run / ENVIRONMENT), problems)
    if settings is not None and environment is not None and SETTINGS_ENTRY in environment:
        changed = _differences(environment[SETTINGS_ENTRY], settings.flat(), "was {} when the run began")
        problems += [f"{run / SETTINGS}: {text}" for text in changed]
    return settings, environment


def read_resumable(run: Path, graph: KnowledgeGraph, given: Mapping[str, Any]) -> tuple[Settings, Metadata]:
    """Read settings and environment of a run that is resumed.

    Raises:
        DataError: The run is damaged, or its graph is another; with all problems.
        UsageError: Only given settings differ.
    """
    problems: list[str] = []
    settings, environment = _read_records(run, problems)
    problems += [] if environment is None else other_graph(environment[GRAPH], graph)
    problems += [] if settings is None else _damages(run, settings)
    differing = [] if settings is None else list(_differences(settings.flat(), given, "was {}"))
    if settings is None or environment is None or problems:
        remedy = f"{RESTORE}; a result is computed again if {RESULT} is removed"
        raise DataError(f"{run}: this run cannot be resumed", [*problems, *differing], remedy)
    if differing:
        remedy = "resume without them, or replace the run with `force=True`; only device and threads may differ"
        raise UsageError(f"{run}: this run has other settings", differing, remedy)
    return settings, environment


def _attempt(read: Callable[[], _Read], problems: list[str]) -> _Read | None:
    try:
        return read()
    except KgprobeError as error:
        problems += [f"{error.title}: {problem}" for problem in error.problems] or [error.title]
        return None


def _damages(run: Path, settings: Settings) -> list[str]:
    """Problems of the state, the log, the checkpoints and the result of a run."""
    problems: list[str] = []
    state, log = run / STATE, RunLog(run / LOG)
    if state.exists() and (header := _attempt(partial(read_metadata, state), problems)) is not None:
        wrong = state_problems(header)
        problems += [f"{state}: {problem}" for problem in wrong or _other_settings(header, settings)]
        logged = None if wrong or LOG_HASH not in header else _attempt(partial(log.hash, header["logged"]), problems)
        if logged is not None and logged != header[LOG_HASH]:
            problems.append(f"{log.path}: it has changed since the state of the run was saved")
    for target, seed in product(settings.select, settings.seeds):
        path = best_path(run, target, seed)
        if path.exists() and (header := _attempt(partial(read_metadata, path), problems)) is not None:
            wrong = checkpoint_problems(header) or list(_other_origin(header, settings, target, seed))
            problems += [f"{path}: {problem}" for problem in wrong]
    if (run / RESULT).exists():
        result = _attempt(lambda: read_result(run / RESULT, settings), problems) or {}
        logged = _attempt(log.hash, problems) if LOG_HASH in result else None
        if logged is not None and logged != result[LOG_HASH]:
            problems.append(f"{log.path}: it has changed since the run was finished")
    return problems


def _other_origin(header: Metadata, settings: Settings, target: str, seed: int) -> Iterator[str]:
    """Differences between the metadata of a checkpoint and those of the checkpoint that is expected."""
    yield from _other_settings(header, settings)
    for name, expected in (("target", target), ("seed", seed)):
        if header[name] != expected:
            yield f"its {name} is {shown(header[name])}, and must be {expected!r} in this place"


def _other_settings(header: Metadata, settings: Settings) -> list[str]:
    """Differences between the settings that a file records, if any, and those of the run."""
    recorded = header["settings"] if "settings" in header else settings.flat()
    different = _differences(settings.flat(), recorded, "{} in the run")
    return [f"it was trained with other settings: {text}" for text in different]


def _differences(before: Mapping[str, Any], given: Mapping[str, Any], told: str) -> Iterator[str]:
    """One line for each given setting that differs; ``told`` says what the value before was."""
    known = as_json(before)
    for name, value in as_json(given).items():
        if name not in known:
            yield f"{name} is {shown(value)}, and the run has no such setting"
        elif known[name] != value:
            yield f"{name} is {shown(value)}, and {told.format(shown(known[name]))}"
