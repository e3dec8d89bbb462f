"""Rank models in the open and in the closed world, and keep what is ranked."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Ints, codes_of
from kgprobe.errors import DataError, UsageError, naming
from kgprobe.openworld.world import OpenWorld, natural
from kgprobe.openworld.world_tasks import WorldTask
from kgprobe.predict import Model, Opening, Setting, open_model
from kgprobe.predict.adapters.opening import model_of
from kgprobe.predict.filters import KnownFilter
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.ranking import rank_in
from kgprobe.ranks import RankFile, Ranks, merge_seeds, read_ranks
from kgprobe.resources import Progress, Resources

WORLDS = ("open", "closed")


def pair_problems(opened: Ranks, closed: Ranks, *, require_answers: bool) -> list[str]:
    """All that is wrong with a pair of tables, one line each.

    Args:
        opened: Ranks of known answers.
        closed: Ranks of all answers.
        require_answers: Whether a query without a known answer is a problem.

    Example:
        >>> columns = dict(head=[0], relation=[0], side=["tail"], rank=[1], candidates=[9])
        >>> one, two = (Ranks.from_columns(tail=[tail], **columns) for tail in (1, 2))
        >>> pair_problems(one, two, require_answers=False)
        ['1 of 1 rows of the open table are not in the closed one, but what is known must be true']
    """
    problems = [*_origins(opened, closed)]
    rows = rows_of(opened, closed)
    if not len(opened):
        problems.append("the open table has no rows")
    if lost := int((rows < 0).sum()):
        problems.append(
            f"{lost:,} of {len(opened):,} rows of the open table are not in the closed one, "
            "but what is known must be true"
        )
    if require_answers:
        problems += _unanswered(opened, closed)
    return [*problems, *_larger(opened, closed, rows)]


def rows_of(opened: Ranks, closed: Ranks) -> Ints:
    """For each row of the open table, the row of the closed one that ranks the same answer; -1 where there is none."""
    wanted, there = codes_of([[*_asked(table), table.target] for table in (opened, closed)])
    place = np.full(max(wanted.max(initial=-1), there.max(initial=-1)) + 1, -1, dtype=np.int64)
    place[there] = np.arange(len(there))
    return place[wanted]


def _asked(ranks: Ranks) -> list[NDArray[np.int64]]:
    """What each row asks: the given entity, the relation, the side and the training run."""
    seed = np.zeros(len(ranks), dtype=np.int64) if ranks.seed is None else ranks.seed
    given = np.where(ranks.predicts_tail, ranks.head, ranks.tail)
    return [given, ranks.relation, ranks.predicts_tail.astype(np.int64), seed]


def _origins(opened: Ranks, closed: Ranks) -> Iterator[str]:
    for what in ("model", "graph", "graph_hash"):
        one, other = getattr(opened.info, what), getattr(closed.info, what)
        if one != other:
            yield f"the open table has the {what} {one!r}, the closed one {other!r}"
    for world, table in zip(WORLDS, (opened, closed), strict=True):
        said = table.info.settings.get("world", world)
        if said != world:
            yield f"the table of the {world} world says that it is of the {said} world"
    for what in ("split", "task"):
        if opened.info.settings.get(what) != closed.info.settings.get(what):
            yield f"the two tables are of different {what}s"
    if (opened.seed is None) != (closed.seed is None):
        yield "only one of the two tables tells its training runs apart"


def _unanswered(opened: Ranks, closed: Ranks) -> Iterator[str]:
    asked, answered = codes_of([_asked(closed), _asked(opened)])
    if without := len(np.setdiff1d(asked, answered)):
        yield f"{without:,} of {len(np.unique(asked)):,} queries have no known answer"


def _larger(opened: Ranks, closed: Ranks, rows: Ints) -> Iterator[str]:
    """Numbers that a larger filter can only make smaller, and that are larger."""
    both = np.flatnonzero(rows >= 0)
    for what in ("rank", "worst_rank", "candidates"):
        larger = getattr(closed, what)[rows[both]] > getattr(opened, what)[both]
        if larger.any():
            first = f"for example row {both[larger][0]:,} (counted from 0) of the open table"
            yield f"{int(larger.sum()):,} answers have a larger {what} in the closed world, {first}"


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
    def closed_rows(self) -> Ints:
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
    task: WorldTask,
    *,
    resources: Resources | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> RankPair:
    """Rank the known answers in the open world, and all hard answers in the closed one.

    Only the filter differs: known facts in the open world, all true facts in the closed one.

    Args:
        model: What `kgprobe.rank` takes: a model, a scorer, a function, or the name or path of a model.
        world: The world.
        task: What is ranked.
        resources: Device, threads and memory; the ranks do not depend on it.
        name: What reports call the model.
        progress: Called with how many queries have been ranked since the last call; there are ``task.ranked``.

    Example:
        >>> from kgprobe.openworld.world_tasks import tail_task
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
        ranks = rank_in(setting, opened, resources or Resources(), name, progress)
        tables[which] = ranks.with_info(settings=ranks.info.settings | about | {"world": which})
    return RankPair(**tables, require_answers=task.sides == "tail")


def world_facts(world: OpenWorld, task: WorldTask) -> dict[str, Any]:
    """What a rank file says about the world and the task that it is of.

    Example:
        >>> world = OpenWorld("tiny", 3, 1, train=[[0, 0, 1]], known=[[0, 0, 2]], missing=[], settings={"seed": 0})
        >>> world_facts(world, WorldTask(world.known, world.missing, "tail"))
        {'split': {'seed': 0, 'name': 'tiny'}, 'task': {'sides': 'tail'}}
    """
    return {"split": {**world.settings, "name": world.name}, "task": {**task.settings, "sides": task.sides}}


def _setting(world: OpenWorld, facts: AnyInts, sides: str, known: KnownFilter) -> Setting:
    return Setting(world.graph, None, RankedTriples.build(world.graph, sides=sides, triples=facts), known, None)


def _opened(model: Any, world: OpenWorld, facts: RankedTriples) -> Model:
    if not isinstance(model, str | os.PathLike):
        return model_of(model, world.graph)
    # One model is ranked in many worlds: those that hide other facts of it, and published ones, which test nothing.
    return open_model(model, Opening(world.graph, facts, other_test=True))


FINAL = "final"  # the checkpoint of a model that has no others

_HASH = "model_hash"
_SNAPSHOTS = "snapshots/*/seed-*.safetensors"


@dataclass(frozen=True)
class RankedCheckpoint:
    """A model at one time of its training.

    Attributes:
        model: The name of the model.
        name: The name of the checkpoint.
        runs: What is ranked, a path or the name of a baseline, for the seed of each training run.
        folder: Where its ranks are kept.
    """

    model: str
    name: str
    runs: Mapping[int, str]
    folder: Path

    @property
    def path(self) -> Path:
        """Its rank files without their endings."""
        return self.folder / self.name

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the names and contents of its files."""
        digest = hashlib.sha256()
        for path in map(Path, self.runs.values()):
            inside = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
            digest.update(path.name.encode())
            for file in [path] if path.is_file() else inside:
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()

    def is_ranked(self, world: OpenWorld, task: WorldTask) -> bool:
        """Whether both rank files are there, of this model, world and task.

        Raises:
            DataError: There are rank files of something else.
        """
        paths = pair_paths(self.folder, self.name)
        files = {which: RankFile(path) for which, path in paths.items() if path.exists()}
        hashes = {"open": world.open_filter.hash, "closed": world.closed_filter.hash}
        wanted = world_facts(world, task) | {_HASH: self.hash}
        problems = []
        for which, file in files.items():
            differing = [what.removesuffix("_hash") for what in wanted if file.info.settings.get(what) != wanted[what]]
            differing += ["set of facts"] if file.info.filter_hash != hashes[which] else []
            problems += [f"{file.path} is of another {what}" for what in differing]
        if problems:
            raise DataError(f"{self.path}: the ranks of something else are there", problems)
        return len(files) == len(paths)

    def rank(
        self, world: OpenWorld, task: WorldTask, resources: Resources | None = None, progress: Progress | None = None
    ) -> RankPair:
        """Rank it in both worlds, and write the rank files."""
        pairs = {
            seed: rank_worlds(run, world, task, resources=resources, name=self.model, progress=progress)
            for seed, run in self.runs.items()
        }
        tables = {}
        for which in WORLDS:
            runs = {seed: getattr(pair, which) for seed, pair in pairs.items()}
            table = merge_seeds(runs) if len(runs) > 1 else next(iter(runs.values()))
            tables[which] = table.with_info(settings=table.info.settings | {_HASH: self.hash})
        pair = RankPair(**tables, require_answers=task.sides == "tail")
        pair.write(self.folder, self.name)
        return pair


def checkpoints_of(models: Sequence[str | os.PathLike[str]], folder: str | os.PathLike[str]) -> list[RankedCheckpoint]:
    """What is to be ranked: every snapshot of a training that has some, and any other model as it is.

    Args:
        models: Paths of models or training runs, or names of baselines.
        folder: Ranks are kept in a folder in it for each model.

    Raises:
        UsageError: Two models would have the same folder.

    Example:
        >>> [(found.model, found.name) for found in checkpoints_of(["random"], "evaluated")]
        [('random', 'final')]
    """
    names = [_name(Path(model)) for model in models]
    twice = [name for name, often in Counter(names).items() if often > 1]
    if twice:
        problems = [
            f"{model} would be kept as {name}" for model, name in zip(models, names, strict=True) if name in twice
        ]
        raise UsageError("two models have the same name", problems, "evaluate them into different folders")
    return [
        RankedCheckpoint(name, checkpoint, runs, Path(folder) / name)
        for name, model in zip(names, models, strict=True)
        for checkpoint, runs in _snapshots(model).items()
    ]


def _name(model: Path) -> str:
    path = Path(os.path.abspath(model))
    return path.name.split(".jsonl")[0].removesuffix(".safetensors").removesuffix(".npz")


def _snapshots(model: str | os.PathLike[str]) -> dict[str, dict[int, str]]:
    """The runs of every snapshot by its name, in order; the model itself where there is none."""
    found: dict[str, dict[int, str]] = {}
    for path in sorted(Path(model).glob(_SNAPSHOTS)):
        found.setdefault(path.parent.name, {})[int(path.stem.removeprefix("seed-"))] = os.fspath(path)
    return found or {FINAL: {0: os.fspath(model)}}
