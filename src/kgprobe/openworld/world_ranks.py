"""Rank models in the open and in the closed world; pairs of rank tables and the checkpoints they belong to."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Ints, codes_of, natural
from kgprobe.errors import DataError, UsageError, naming
from kgprobe.openworld.world import OpenWorld
from kgprobe.openworld.world_tasks import WorldTask
from kgprobe.predict import Model, Opening, Setting, open_model
from kgprobe.predict.adapters.opening import model_of
from kgprobe.predict.queries import KnownFilter, RankedTriples
from kgprobe.predict.ranking import rank_in
from kgprobe.ranks import RankFile, Ranks, WorldInfo, merge_seeds, read_ranks
from kgprobe.resources import Progress, Resources

WORLDS = ("open", "closed")


def pair_problems(opened: Ranks, closed: Ranks, *, require_answers: bool) -> list[str]:
    """Validate a pair of rank tables; one message per problem.

    Args:
        opened: Ranks of the known answers in the open world.
        closed: Ranks of all hard answers in the closed world.
        require_answers: Whether every query must have a known answer.

    Example:
        >>> columns = dict(head=[0], relation=[0], side=["tail"], rank=[1], candidates=[9])
        >>> one, two = (Ranks.from_columns(tail=[tail], **columns) for tail in (1, 2))
        >>> pair_problems(one, two, require_answers=False)
        ['1 of 1 rows of the open table are not in the closed one, but known answers must be']
    """
    problems = [*_origins(opened, closed)]
    rows = rows_of(opened, closed)
    problems += [] if len(opened) else ["the open table has no rows"]
    if lost := int((rows < 0).sum()):
        which = f"{lost:,} of {len(opened):,} rows of the open table"
        problems.append(f"{which} are not in the closed one, but known answers must be")
    if require_answers:
        problems += _unanswered(opened, closed)
    return [*problems, *_larger(opened, closed, rows)]


def rows_of(opened: Ranks, closed: Ranks) -> Ints:
    """For each row of the open table, the row of the closed one with the same query and target; -1 if there is none."""
    ours, theirs = codes_of([[*_query_columns(table), table.target] for table in (opened, closed)])
    row = np.full(max(ours.max(initial=-1), theirs.max(initial=-1)) + 1, -1, dtype=np.int64)
    row[theirs] = np.arange(len(theirs))
    return row[ours]


def _query_columns(ranks: Ranks) -> list[NDArray[np.int64]]:
    """The query of each row: the given entity, the relation, the side and the training seed."""
    seed = np.zeros(len(ranks), dtype=np.int64) if ranks.seed is None else ranks.seed
    given = np.where(ranks.predicts_tail, ranks.head, ranks.tail)
    return [given, ranks.relation, ranks.predicts_tail.astype(np.int64), seed]


def _origins(opened: Ranks, closed: Ranks) -> Iterator[str]:
    for what in ("model", "graph", "graph_hash"):
        one, other = getattr(opened.info, what), getattr(closed.info, what)
        if one != other:
            yield f"the open table has the {what} {one!r}, the closed one {other!r}"
    for world, table in zip(WORLDS, (opened, closed), strict=True):
        if table.info.world is not None and table.info.world.world != world:
            yield f"the table of the {world} world was ranked in the {table.info.world.world} world"
    for what in ("split", "task"):
        if getattr(opened.info.world, what, None) != getattr(closed.info.world, what, None):
            yield f"the two tables are of different {what}s"
    if (opened.seed is None) != (closed.seed is None):
        yield "only one of the two tables has training seeds"


def _unanswered(opened: Ranks, closed: Ranks) -> Iterator[str]:
    asked, answered = codes_of([_query_columns(closed), _query_columns(opened)])
    if without := len(np.setdiff1d(asked, answered)):
        yield f"{without:,} of {len(np.unique(asked)):,} queries have no known answer"


def _larger(opened: Ranks, closed: Ranks, rows: Ints) -> Iterator[str]:
    """Ranks and candidate counts that are larger in the closed world, although its filter is larger."""
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
        open: Ranks of the known answers; known triples are filtered, missing answers are candidates.
        closed: Ranks of the known and the missing answers; all true triples are filtered.
        require_answers: Whether every query must have a known answer.

    Raises:
        DataError: The tables are not of the same model and queries; the message lists every problem.

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
        """For each row of the open table, the row of the closed one with the same query and target."""
        return rows_of(self.open, self.closed)

    def write(self, folder: str | os.PathLike[str], name: str) -> None:
        """Write NAME.open.parquet and NAME.closed.parquet."""
        for world, path in pair_paths(folder, name).items():
            getattr(self, world).write(path)

    @classmethod
    def read(cls, folder: str | os.PathLike[str], name: str) -> RankPair:
        """Read the files written by `write`.

        Raises:
            DataError: A file is missing or damaged, or the two do not go together.
        """
        paths = pair_paths(folder, name)
        if absent := [f"{path.name} is not there" for path in paths.values() if not path.exists()]:
            raise DataError(f"{Path(folder) / name}: no pair of rank files", absent, _AGAIN)
        tables = {world: read_ranks(path) for world, path in paths.items()}
        world = tables["closed"].info.world
        with naming(Path(folder) / name):
            return cls(**tables, require_answers=world is None or world.sides != "both")


def pair_paths(folder: str | os.PathLike[str], name: str) -> dict[str, Path]:
    """The paths of the two files of a pair: NAME.open.parquet and NAME.closed.parquet."""
    return {world: Path(folder) / f"{name}.{world}.parquet" for world in WORLDS}


def read_pairs(folder: str | os.PathLike[str]) -> dict[str, RankPair]:
    """All pairs of a folder by name, in natural order: ``epoch-5`` is before ``epoch-10``.

    Raises:
        DataError: There is no pair, or some are invalid; the message lists every problem.
    """
    root = Path(folder)
    endings = [f".{world}.parquet" for world in WORLDS]
    names = {path.name.removesuffix(ending) for ending in endings for path in root.glob(f"*{ending}")}
    if not names:
        problem = "no files NAME.open.parquet and NAME.closed.parquet" if root.is_dir() else "no such folder"
        raise DataError(f"{root}: no pairs of rank files", [problem], "make them with: kgprobe openworld evaluate")
    pairs, errors = {}, []
    for name in sorted(names, key=natural):
        try:
            pairs[name] = RankPair.read(root, name)
        except DataError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise joined_error(f"{root}: {len(errors)} of {len(names)} pairs cannot be used", errors)
    return pairs


def joined_error(title: str, errors: Sequence[DataError]) -> DataError:
    """One error that lists the titles and problems of several, with the remedy of the first."""
    lines = [line for error in errors for line in (error.title, *(f"  {problem}" for problem in error.problems))]
    return DataError(title, lines, errors[0].remedy)


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

    Only the filter differs: known triples in the open world, all true triples in the closed one.

    Args:
        model: A model as `kgprobe.rank` takes it: a model, a scorer, a function, or the name or path of a model.
        world: The world.
        task: The triples to rank.
        resources: Device, threads and memory; the ranks do not depend on it.
        name: Name of the model in reports.
        progress: Called with the number of queries ranked since the last call, of ``task.ranked`` in all.

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
    opened = _opened(model, world, settings["closed"].ranked)
    tables: dict[str, Ranks] = {}
    for which, setting in settings.items():
        with naming(model) if isinstance(model, str | os.PathLike) else nullcontext():
            ranks = rank_in(setting, opened, resources or Resources(), name, progress)
        tables[which] = ranks.with_info(world=world_info(world, task, which))
    return RankPair(**tables, require_answers=task.sides == "tail")


def world_info(world: OpenWorld, task: WorldTask, which: str, model_hash: str | None = None) -> WorldInfo:
    """The metadata of a rank file about its world and task.

    Example:
        >>> world = OpenWorld("tiny", 3, 1, train=[[0, 0, 1]], known=[[0, 0, 2]], missing=[], settings={"seed": 0})
        >>> info = world_info(world, WorldTask(world.known, world.missing, "tail"), "open")
        >>> info.split, info.sides
        ({'seed': 0, 'name': 'tiny'}, 'tail')
    """
    return WorldInfo(
        world=which,
        sides=task.sides,
        train_share=world.train_share,
        model_hash=model_hash,
        split={**world.settings, "name": world.name},
        task=dict(task.settings),
    )


def _setting(world: OpenWorld, triples: AnyInts, sides: str, known: KnownFilter) -> Setting:
    return Setting(world.graph, None, RankedTriples.build(world.graph, sides=sides, triples=triples), known, None)


def _opened(model: Any, world: OpenWorld, triples: RankedTriples) -> Model:
    if not isinstance(model, str | os.PathLike):
        return model_of(model, world.graph)
    # One model may be ranked in several worlds with other missing triples, so the test split may differ from its own.
    return open_model(model, Opening(world.graph, triples, other_test=True))


_FIELDS = {"model_hash": "model", "split": "split", "task": "task", "sides": "task"}
"""The fields of `WorldInfo` on which stored ranks must agree, in words."""

FINAL = "final"  # name of the only checkpoint of a model without snapshots
_SNAPSHOTS = "snapshots/*/seed-*.safetensors"
_SEED = re.compile("0|[1-9][0-9]*", re.ASCII)


@dataclass(frozen=True)
class RankedCheckpoint:
    """A checkpoint of a model, and where its ranks in both worlds are stored.

    Attributes:
        model: Name of the model.
        name: Name of the checkpoint.
        runs: For each training seed, the path of the model to rank or the name of a baseline.
        folder: Folder of the rank files.
    """

    model: str
    name: str
    runs: Mapping[int, str]
    folder: Path

    @property
    def path(self) -> Path:
        """Path of the rank files without their endings."""
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
        """Whether both rank files exist for this model, world and task.

        Raises:
            DataError: The rank files are of another model, world or task.
        """
        paths = pair_paths(self.folder, self.name)
        files = {which: RankFile(path) for which, path in paths.items() if path.exists()}
        hashes = {"open": world.open_filter.hash, "closed": world.closed_filter.hash}
        problems = []
        for which, file in files.items():
            expected, found = world_info(world, task, which, self.hash), file.info.world
            differing = list(
                dict.fromkeys(
                    what for name, what in _FIELDS.items() if getattr(found, name, None) != getattr(expected, name)
                )
            )
            differing += ["set of triples"] if file.info.filter_hash != hashes[which] else []
            problems += [f"{file.path} is of another {what}" for what in differing]
        if problems:
            raise DataError(f"{self.path}: there are already ranks of something else", problems)
        return len(files) == len(paths)

    def rank(
        self, world: OpenWorld, task: WorldTask, resources: Resources | None = None, progress: Progress | None = None
    ) -> RankPair:
        """Rank the checkpoint in both worlds, and write the rank files."""
        pairs = {
            seed: rank_worlds(run, world, task, resources=resources, name=self.model, progress=progress)
            for seed, run in self.runs.items()
        }
        tables = {}
        for which in WORLDS:
            runs = {seed: getattr(pair, which) for seed, pair in pairs.items()}
            table = merge_seeds(runs) if len(runs) > 1 else next(iter(runs.values()))
            tables[which] = table.with_info(world=world_info(world, task, which, self.hash))
        pair = RankPair(**tables, require_answers=task.sides == "tail")
        pair.write(self.folder, self.name)
        return pair


def checkpoints_of(models: Sequence[str | os.PathLike[str]], folder: str | os.PathLike[str]) -> list[RankedCheckpoint]:
    """The checkpoints to rank: every snapshot of a training run with snapshots, and any other model as it is.

    Args:
        models: Paths of models or training runs, or names of baselines.
        folder: Parent of the folders of ranks, one for each model.

    Raises:
        UsageError: Two models would have the same folder.

    Example:
        >>> [(found.model, found.name) for found in checkpoints_of(["random"], "evaluated")]
        [('random', 'final')]
    """
    names = [_name(Path(model)) for model in models]
    twice = [name for name, often in Counter(names).items() if often > 1]
    if twice:
        problems = [f"{model} has the name {name}" for model, name in zip(models, names, strict=True) if name in twice]
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
    """The runs of every snapshot by its name, in order; the model itself if it has no snapshots.

    Raises:
        DataError: A snapshot is not named after a seed.
    """
    found: dict[str, dict[int, str]] = {}
    foreign = []
    for path in sorted(Path(model).glob(_SNAPSHOTS)):
        seed = path.stem.removeprefix("seed-")
        if _SEED.fullmatch(seed) and int(seed) < 1 << 53:
            found.setdefault(path.parent.name, {})[int(seed)] = os.fspath(path)
        else:
            foreign.append(f"{path.relative_to(model)} is not named after a seed")
    if foreign:
        raise DataError(f"{model}: invalid snapshots", foreign, "remove files that 'kgprobe train' has not written")
    return found or {FINAL: {0: os.fspath(model)}}
