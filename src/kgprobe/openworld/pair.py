"""One model in both worlds: its ranks where missing facts count as false, and where they count as true."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kgprobe.errors import DataError, naming
from kgprobe.graph.sorted_keys import Ints
from kgprobe.openworld.codes import Codes
from kgprobe.openworld.natural import natural
from kgprobe.openworld.pair_checks import WORLDS, pair_problems, rows_of
from kgprobe.openworld.task import Task
from kgprobe.openworld.world import OpenWorld
from kgprobe.predict import Model, Opening, Resources, Setting, open_model
from kgprobe.predict.facts import Facts
from kgprobe.predict.filter import KnownFilter
from kgprobe.predict.model import model_of
from kgprobe.predict.rank import Watch, rank_in
from kgprobe.ranks import Ranks, read_ranks

_AGAIN = "rank the model in both worlds: kgprobe openworld evaluate MODEL --world WORLD --force"


@dataclass(frozen=True, eq=False)
class RankPair:
    """The ranks of a model in the open and in the closed world.

    Attributes:
        open: Ranks of the known answers; known facts are filtered, missing answers are candidates.
        closed: Ranks of the known and the missing answers; all true facts are filtered.
        require_answers: Whether every query must have a known answer.

    Raises:
        DataError: The tables are not of the same model and queries; all that is wrong is listed.

    Example:
        >>> def ranks(tail, rank, candidates):
        ...     same = dict(head=[0] * len(tail), relation=[0] * len(tail), side=["tail"] * len(tail))
        ...     return Ranks.from_columns(tail=tail, rank=rank, candidates=candidates, **same)
        >>> pair = RankPair(open=ranks([1], [3], [9]), closed=ranks([2, 1], [1, 2], [8, 8]))
        >>> pair.closed_rows.tolist()
        [1]
    """

    open: Ranks
    closed: Ranks
    require_answers: bool = True

    def __post_init__(self) -> None:
        problems = pair_problems(self.open, self.closed, require_answers=self.require_answers)
        if problems:
            raise DataError("these rank tables are not of one model in two worlds", problems, _AGAIN)

    @cached_property
    def closed_rows(self) -> Codes:
        """For each row of the open table, the row of the closed one that ranks the same answer."""
        return rows_of(self.open, self.closed)

    def write(self, folder: str | os.PathLike[str], name: str) -> None:
        """Write NAME.open.parquet and NAME.closed.parquet."""
        for world, path in pair_paths(folder, name).items():
            getattr(self, world).write(path)

    @classmethod
    def read(cls, folder: str | os.PathLike[str], name: str) -> RankPair:
        """Read what `write` has written.

        Raises:
            DataError: A file is missing or damaged, or the two do not go together.
        """
        paths = pair_paths(folder, name)
        if absent := [f"{path.name} is not there" for path in paths.values() if not path.exists()]:
            raise DataError(f"{Path(folder) / name}: no pair of rank files", absent, _AGAIN)
        tables = {world: read_ranks(path) for world, path in paths.items()}
        task = tables["closed"].info.settings.get("task")
        with naming(Path(folder) / name):
            return cls(**tables, require_answers=not (isinstance(task, dict) and task.get("sides") == "both"))


def pair_paths(folder: str | os.PathLike[str], name: str) -> dict[str, Path]:
    """The files of a pair.

    Example:
        >>> [path.name for path in pair_paths("runs", "final").values()]
        ['final.open.parquet', 'final.closed.parquet']
    """
    return {world: Path(folder) / f"{name}.{world}.parquet" for world in WORLDS}


def read_pairs(folder: str | os.PathLike[str]) -> dict[str, RankPair]:
    """All pairs of a folder by name, in natural order: ``epoch-5`` is before ``epoch-10``.

    Raises:
        DataError: There is none, or something is wrong with some of them; all of it is listed.
    """
    place = Path(folder)
    endings = [f".{world}.parquet" for world in WORLDS]
    found = {path.name.removesuffix(ending) for ending in endings for path in place.glob(f"*{ending}")}
    if not found:
        problem = "no files NAME.open.parquet and NAME.closed.parquet" if place.is_dir() else "no such folder"
        raise DataError(f"{place}: no pairs of rank files", [problem], "make them with: kgprobe openworld evaluate")
    pairs, errors = {}, []
    for name in sorted(found, key=natural):
        try:
            pairs[name] = RankPair.read(place, name)
        except DataError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        lines = [line for error in errors for line in (error.title, *(f"  {problem}" for problem in error.problems))]
        raise DataError(f"{place}: {len(errors)} of {len(found)} pairs cannot be used", lines, errors[0].remedy)
    return pairs


def rank_worlds(
    model: Any,
    world: OpenWorld,
    task: Task,
    *,
    resources: Resources | None = None,
    name: str | None = None,
    watch: Watch | None = None,
) -> RankPair:
    """Rank the known answers in the open world, and all hard answers in the closed one.

    Only the filter differs: known facts in the open world, all true facts in the closed one.

    Args:
        model: What `kgprobe.rank` takes: a model, a scorer, a function, or the name or path of a model.
        world: The world.
        task: What is ranked.
        resources: Device, threads and memory; the ranks do not depend on it.
        name: What reports call the model.
        watch: Called with how many queries have been ranked since the last call; there are ``task.ranked``.

    Example:
        >>> from kgprobe.openworld.task import tail_task
        >>> world = OpenWorld("tiny", 4, 1, train=[[0, 0, 1]], known=[[0, 0, 2]], missing=[[0, 0, 3]])
        >>> largest = lambda side, given, relation: np.tile(np.arange(4), (len(given), 1))
        >>> pair = rank_worlds(largest, world, tail_task(world, least_answers=1))
        >>> pair.open.rank.tolist(), pair.closed.rank.tolist()
        ([2.0], [1.0, 1.0])
    """
    hard = np.concatenate([task.known, task.missing])
    settings = {
        "open": _setting(world, task.known, task.sides, world.open_filter),
        "closed": _setting(world, hard, task.sides, world.closed_filter),
    }
    opened = _opened(model, world, settings["closed"].facts)
    about = world_facts(world, task)
    tables: dict[str, Ranks] = {}
    for which, setting in settings.items():
        ranks = rank_in(setting, opened, resources or Resources(), name, watch)
        tables[which] = ranks.with_info(settings=ranks.info.settings | about | {"world": which})
    return RankPair(**tables, require_answers=task.sides == "tail")


def world_facts(world: OpenWorld, task: Task) -> dict[str, Any]:
    """What a rank file says about the world and the task that it is of.

    Example:
        >>> world = OpenWorld("tiny", 3, 1, train=[[0, 0, 1]], known=[[0, 0, 2]], missing=[], settings={"seed": 0})
        >>> world_facts(world, Task(world.known, world.missing, "tail"))
        {'split': {'seed': 0, 'name': 'tiny'}, 'task': {'sides': 'tail'}}
    """
    return {"split": {**world.settings, "name": world.name}, "task": {**task.settings, "sides": task.sides}}


def _setting(world: OpenWorld, facts: Ints, sides: str, known: KnownFilter) -> Setting:
    return Setting(world.graph, None, Facts.build(world.graph, sides=sides, triples=facts), known, None)


def _opened(model: Any, world: OpenWorld, facts: Facts) -> Model:
    if not isinstance(model, str | os.PathLike):
        return model_of(model, world.graph)
    # One model is ranked in many worlds: those that hide other facts of it, and published ones, which test nothing.
    return open_model(model, Opening(world.graph, facts, other_test=True))
