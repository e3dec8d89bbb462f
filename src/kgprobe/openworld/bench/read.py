"""Folders of rank tables become benches, one for each world."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from kgprobe.errors import DataError
from kgprobe.metrics import Metric
from kgprobe.openworld.bench.bench import Bench
from kgprobe.openworld.bench.points import Collector
from kgprobe.openworld.bench.settings import Settings
from kgprobe.openworld.metrics import OPEN_WORLD_METRICS
from kgprobe.openworld.natural import natural
from kgprobe.openworld.pair import RankPair

_OPEN, _CLOSED = ".open.parquet", ".closed.parquet"


@dataclass(frozen=True)
class Found:
    """A pair of rank tables on disk: one checkpoint of the model that its folder is named after."""

    folder: Path
    checkpoint: str

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.folder.resolve().name

    def read(self) -> RankPair:
        """Both tables."""
        return RankPair.read(self.folder, self.checkpoint)


def find_pairs(folders: Iterable[str | PathLike[str]]) -> list[Found]:
    """All pairs of rank tables below the folders, by folder and in the order of training.

    Example:
        >>> find_pairs(["nowhere"])
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: there is nothing to compare
          - nowhere: there is no such folder
        Remedy: give folders that 'kgprobe openworld evaluate' wrote
    """
    found, problems = [], []
    for root in dict.fromkeys(map(Path, folders)):
        names = {ending: _names(root, ending) for ending in (_OPEN, _CLOSED)}
        if not root.is_dir():
            problems.append(f"{root}: there is no such folder")
        elif not any(names.values()):
            problems.append(f"{root}: no rank tables named NAME{_OPEN} and NAME{_CLOSED} in it")
        for own, other in ((_OPEN, _CLOSED), (_CLOSED, _OPEN)):
            lonely = sorted(names[own] - names[other], key=_place)
            problems += [f"{one.folder / one.checkpoint}{own}: its {other} is missing" for one in lonely]
        found += sorted(names[_OPEN] & names[_CLOSED], key=_place)
    if problems:
        remedy = "give folders that 'kgprobe openworld evaluate' wrote"
        raise DataError(
            "there is nothing to compare" if not found else "some rank tables are missing", problems, remedy
        )
    return list(dict.fromkeys(found))


def _names(root: Path, ending: str) -> set[Found]:
    return {Found(path.parent, path.name.removesuffix(ending)) for path in root.rglob(f"*{ending}")}


def _place(one: Found) -> tuple[Any, Any]:
    return natural(str(one.folder)), natural(one.checkpoint)


def read_bench(
    folders: Iterable[str | PathLike[str]],
    metrics: Iterable[str | Metric] = OPEN_WORLD_METRICS,
    *,
    settings: Settings | None = None,
    watch: Callable[[float], None] | None = None,
) -> dict[str, Bench]:
    """A bench for each world: rank tables of other splits or tasks are never compared with each other.

    Args:
        folders: Each holds the rank tables of one model, or folders that do, however deep.
        metrics: The metrics.
        settings: What counts as late, and how intervals are drawn.
        watch: Is told how many more pairs have been read.
    """
    wanted = list(metrics)
    collectors: dict[str, Collector] = {}
    worlds: dict[str, dict[str, Any]] = {}
    errors: list[DataError] = []
    for one in find_pairs(folders):
        try:
            pair = one.read()
        except DataError as error:
            errors.append(error)
            continue
        world = _world(pair)
        key = json.dumps(world, sort_keys=True)
        worlds[key] = world
        collectors.setdefault(key, Collector(wanted)).add(one.model, one.checkpoint, pair)
        if watch:
            watch(1)
    if errors:
        lines = [line for error in errors for line in (error.title, *(f"  {problem}" for problem in error.problems))]
        raise DataError("some rank tables cannot be used", lines, errors[0].remedy)
    names = world_names(list(worlds.values()))
    return {
        name: Bench.of(collector.points(), name, settings)
        for name, collector in zip(names, collectors.values(), strict=True)
    }


def _world(pair: RankPair) -> dict[str, Any]:
    """What must be equal for two rank tables to be of the same world."""
    info = pair.open.info
    split = {"name": info.graph or "world", **_section(info.settings, "split")}
    return split | {f"task {key}": value for key, value in _section(info.settings, "task").items()}


def _section(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = settings.get(name, {})
    return dict(section) if isinstance(section, Mapping) else {name: section}


def world_names(worlds: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each world; those of equal names have a setting behind it that tells them apart, or all that do.

    Example:
        >>> world_names([{"name": "tree", "seed": 0, "density": 0.65}, {"name": "tree", "seed": 0, "density": 0.75}])
        ['tree (density=0.65)', 'tree (density=0.75)']
    """
    names = []
    for world in worlds:
        alike = [other for other in worlds if other["name"] == world["name"]]
        written = {key: [json.dumps(other.get(key)) for other in alike] for key in world}
        differing = [key for key, values in written.items() if len(set(values)) > 1]
        telling = [key for key in differing if len(set(written[key])) == len(alike) and "null" not in written[key]]
        inside = ", ".join(f"{key}={world[key]}" for key in telling[:1] or differing)
        names.append(f"{world['name']} ({inside})" if inside else str(world["name"]))
    return names
