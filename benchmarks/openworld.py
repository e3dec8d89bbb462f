"""Train the PROBE paper's ten open-world configurations, and rank in both worlds what they have learned so far.

    python benchmarks/openworld.py train -o pairs --device cuda [--density 75] [--only RotatE1] [--world built-in]
    python benchmarks/openworld.py pack pairs
    python benchmarks/openworld.py table

`train` writes pairs/DENSITY/MODEL/epoch-NNNNN.{open,closed}.parquet, which `kgprobe openworld bench pairs/75` reads:
ranks of the untrained model (epoch 0), of the last epoch, and of epochs between the two that are closest together at
the start, where most is learned. The world is the published family tree at that density, or the one that comes with
the package, split in the same way; or the published one whose missing answers are those that a model ranked lowest
(correlated). A model that has all its pairs is left alone, so that the same command goes on where it was stopped; one
that has not is trained from the start, for trainings on a GPU are not the same to the last bit. `--dimension` and
`--epochs` make trainings smaller, to try it on a CPU. `pack` writes pairs/DENSITY.tar.xz; `table` prints the
configurations beside the paper's, in Markdown.
"""

from __future__ import annotations

import argparse
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import kgprobe as kp
from kgprobe.graph.family_tree import family_tree
from kgprobe.openworld.splits import split_world
from kgprobe.openworld.world import OpenWorld
from kgprobe.openworld.world_files import read_world
from kgprobe.openworld.world_ranks import RankPair, pair_paths, rank_worlds
from kgprobe.openworld.world_tasks import WorldTask, tail_task
from kgprobe.predict import Model
from kgprobe.resources import Resources
from kgprobe.train.checkpoints import MemoryStorage
from kgprobe.train.learners import trained_run
from kgprobe.train.settings import Settings
from kgprobe.train.trainer import TrainingResources, train
from openworld_models import CONFIGURATIONS, Configuration, Scaled

DENSITIES = (65, 75, 85, 95)


def _published(density: int) -> OpenWorld:
    return read_world(f"family_tree/density_{density}")


def _correlated(density: int) -> OpenWorld:
    return read_world(f"family_tree/density_{density}", correlated=True)


def _built_in(density: int) -> OpenWorld:
    return split_world(family_tree(), density=density / 100)


WORLDS: Mapping[str, Callable[[int], OpenWorld]] = {
    "published": _published,
    "correlated": _correlated,
    "built-in": _built_in,
}


class PairKeep(MemoryStorage):
    """Ranks snapshots in both worlds, and keeps the ranks instead of the weights.

    Attributes:
        seconds: How long ranking has taken.
        last: What was ranked last.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        world: OpenWorld,
        task: WorldTask,
        folder: Path,
        wanted: set[int],
        device: str,
    ) -> None:
        super().__init__()
        self.name, self.settings, self.world, self.task = name, settings, world, task
        self.folder, self.wanted, self.device = folder, wanted, device
        self.seconds = 0.0
        self.last: RankPair | None = None

    def save_snapshot(self, epoch: int, seed: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Rank the weights, if the epoch is one of those that are wanted."""
        if epoch not in self.wanted:
            return
        start = time.monotonic()
        model = Model(self.name, trained_run(self.settings, self.world.graph, tensors, self.device), dict(facts))
        self.last = rank_worlds(model, self.world, self.task, resources=Resources(device=self.device), name=self.name)
        self.last.write(self.folder, pair_name(epoch))
        self.seconds += time.monotonic() - start


def pair_name(epoch: int) -> str:
    """What the pair of an epoch is called, as a snapshot is."""
    return f"epoch-{epoch:05d}"


def snapshot_epochs(epochs: int, number: int) -> list[int]:
    """So many epochs from 0 to the last one, the closer together the earlier; all of them, where there are not as many.

    Example:
        >>> snapshot_epochs(60, 12)
        [0, 1, 2, 3, 4, 5, 8, 12, 18, 26, 40, 60]
    """
    number = min(number, epochs + 1)
    wanted = np.geomspace(epochs, 1, number - 1)[::-1].round().astype(int)
    places = np.arange(number - 1)
    return [0, *(np.maximum.accumulate(wanted - places) + places).tolist()]


def run(given: argparse.Namespace) -> None:
    """Train every configuration at every density."""
    print(f"torch {torch.__version__}, {_device_name(given.device)}", flush=True)
    for density in given.density or DENSITIES:
        world = WORLDS[given.world](density)
        task = tail_task(world)
        for name in given.only or CONFIGURATIONS:
            _train(_chosen(CONFIGURATIONS[name], given), world, task, given.output / str(density) / name, given)


def _chosen(configuration: Configuration, given: argparse.Namespace) -> Configuration:
    sized = configuration.resized(given.dimension) if given.dimension else configuration
    return replace(sized, epochs=given.epochs or sized.epochs)


def _train(
    configuration: Configuration, world: OpenWorld, task: WorldTask, folder: Path, given: argparse.Namespace
) -> None:
    settings = configuration.settings()
    wanted = set(snapshot_epochs(settings.epochs, given.snapshots))
    if all(_is_there(folder, epoch) for epoch in wanted):
        print(f"{folder}: all pairs are there", flush=True)
        return
    storage = PairKeep(configuration.name, settings, world, task, folder, wanted, given.device)
    trained = train(settings, world.graph, storage, TrainingResources(given.device, given.threads))
    print(
        f"{folder}: {len(wanted)} pairs, MRR of the last {_mrr(storage.last)}; "
        f"{trained.training_seconds:.1f} s training, {storage.seconds:.1f} s ranking",
        flush=True,
    )


def _mrr(pair: RankPair | None) -> str:
    tables = {} if pair is None else {"closed": pair.closed, "open": pair.open}
    return ", ".join(f"{kp.evaluate(ranks, ['MRR'])['MRR']:.3f} {world}" for world, ranks in tables.items())


def _is_there(folder: Path, epoch: int) -> bool:
    return all(path.exists() for path in pair_paths(folder, pair_name(epoch)).values())


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def pack(given: argparse.Namespace) -> None:
    """Write one archive for each density; the ranked facts are the same in all files, and packed once."""
    for folder in sorted(path for path in given.folder.iterdir() if path.is_dir()):
        archive = given.folder / f"{folder.name}.tar.xz"
        with tarfile.open(archive, "w:xz") as file:
            file.add(folder, folder.name)
        print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB", flush=True)


def table(given: argparse.Namespace) -> None:
    """Print the configurations, the paper's values in brackets where they are others."""
    columns = ("batch_size", "negatives", "dimension", "gamma", "temperature", "learning_rate", "l3", "epochs")
    print(f"| model | {' | '.join(column.replace('_', ' ') for column in columns)} |")
    print(f"| --- |{' ---: |' * len(columns)}")
    for name, configuration in CONFIGURATIONS.items():
        print(f"| {name} | {' | '.join(_cells(getattr(configuration, column) for column in columns))} |")


def _cells(values: Iterable[float | Scaled]) -> Iterable[str]:
    for value in values:
        paper, ours = value if isinstance(value, Scaled) else (value, value)
        yield f"{ours:g}" if ours == paper else f"{ours:g} ({paper:g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train", help="train and rank")
    training.set_defaults(run=run)
    training.add_argument("-o", "--output", type=Path, required=True)
    training.add_argument("--density", type=int, nargs="+", choices=DENSITIES, help="all four where none is given")
    training.add_argument("--only", nargs="+", choices=CONFIGURATIONS, metavar="MODEL", help="all ten by default")
    training.add_argument("--world", choices=WORLDS, default="published")
    training.add_argument("--snapshots", type=int, default=20, help="how many pairs of each training")
    training.add_argument("--device", default="cpu")
    training.add_argument("--threads", type=int, help="on the CPU; all cores by default")
    training.add_argument("--dimension", type=int, help="of all models, to try it")
    training.add_argument("--epochs", type=int, help="of all trainings, to try it")
    packing = commands.add_parser("pack", help="one archive for each density")
    packing.set_defaults(run=pack)
    packing.add_argument("folder", type=Path)
    commands.add_parser("table", help="the configurations").set_defaults(run=table)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
