"""Models and their checkpoints are ranked in both worlds, and what is ranked already is kept."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kgprobe.errors import DataError, UsageError
from kgprobe.openworld.pair import RankPair, pair_paths, rank_worlds, world_facts
from kgprobe.openworld.pair_checks import WORLDS
from kgprobe.openworld.task import Task
from kgprobe.openworld.world import OpenWorld
from kgprobe.predict import Resources
from kgprobe.predict.rank import Watch
from kgprobe.ranks import RankFile, merge_seeds

FINAL = "final"
"""The checkpoint of a model that has no others."""
_HASH = "model_hash"
_SNAPSHOTS = "snapshots/*/seed-*.safetensors"


@dataclass(frozen=True)
class Checkpoint:
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

    def is_ranked(self, world: OpenWorld, task: Task) -> bool:
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
        self, world: OpenWorld, task: Task, resources: Resources | None = None, watch: Watch | None = None
    ) -> RankPair:
        """Rank it in both worlds, and write the rank files."""
        pairs = {
            seed: rank_worlds(run, world, task, resources=resources, name=self.model, watch=watch)
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


def checkpoints_of(models: Sequence[str | os.PathLike[str]], folder: str | os.PathLike[str]) -> list[Checkpoint]:
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
        Checkpoint(name, checkpoint, runs, Path(folder) / name)
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
