"""Trainings that take no time, and what they left, in a form that can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.embedding_model import EmbeddingModel, Sizes
from kgprobe.models.random_streams import RandomStreams
from kgprobe.predict.scorers import Dot, Side
from kgprobe.train.checkpoints import MemoryStorage
from kgprobe.train.embedding_learner import EmbeddingLearner
from kgprobe.train.settings import Settings
from kgprobe.train.trainer import OnProgress, Trained, TrainingProgress, TrainingResources, train
from runs import bits, quick_settings, small_graph

CPU = torch.device("cpu")

ONE_THREAD = TrainingResources(threads=1)

OBJECTIVES: dict[str, dict[str, Any]] = {
    "self_adversarial": {"objective": "negative_sampling", "loss": "self_adversarial", "subsampling": True},
    "sampled": {"objective": "negative_sampling", "loss": "cross_entropy", "label_smoothing": 0.1},
    "one": {"objective": "one_vs_all", "loss": "cross_entropy", "reciprocal": True},
    "one_binary": {"objective": "one_vs_all", "loss": "binary_cross_entropy", "label_smoothing": 0.1},
    "all_binary": {"objective": "k_vs_all", "loss": "binary_cross_entropy", "reciprocal": True},
    "all": {"objective": "k_vs_all", "loss": "cross_entropy", "label_smoothing": 0.1},
    "soft_probe": {"objective": "one_vs_all", "loss": "soft_probe", "loss_beta": 0.5},
    "soft_sampled": {"objective": "negative_sampling", "loss": "soft_probe", "loss_alpha": -0.5},
}

"""Every objective with every loss that it takes."""

MODELS = ("transe", "distmult", "complex", "rotate", "house", "tucker")


class Numbered(EmbeddingModel):
    """Gives every entity its own number as its score, whatever is asked, and counts how often it is asked."""

    similarity = Dot()

    def __init__(self, sizes: Sizes, streams: RandomStreams) -> None:
        super().__init__()
        self.streams = streams
        table = torch.arange(float(sizes.entities))[:, None].expand(len(streams.seeds), -1, 1)
        self.entity = torch.nn.Parameter(table.clone())

    def encode(self, side: Side, given: torch.Tensor, relation: torch.Tensor) -> torch.Tensor:
        return torch.ones(*given.shape, 1)

    def factors(self, head: torch.Tensor, relation: torch.Tensor, tail: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (self.entity[:, :1],)


@contextmanager
def one_thread() -> Iterator[None]:
    """As `ONE_THREAD` for what is not a whole training, so that both add up in the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def settings_of(model: str = "complex", kind: str = "one", **changes: Any) -> Settings:
    """Settings of a training of a moment with an objective of `OBJECTIVES`."""
    return quick_settings(model, **({"negatives": 7} | OBJECTIVES[kind] | changes))


def learned(
    settings: Settings, epochs: int, graph: KnowledgeGraph | None = None
) -> tuple[EmbeddingLearner, list[list[float]]]:
    """A learner after some epochs, and the losses of the runs in each of them."""
    with one_thread():
        learner = EmbeddingLearner(settings, small_graph() if graph is None else graph, CPU)
        return learner, [learner.epoch(epoch, lambda steps, phase: None).tolist() for epoch in range(epochs)]


def trained(
    settings: Settings,
    graph: KnowledgeGraph | None = None,
    keep: MemoryStorage | None = None,
    progress: OnProgress | None = None,
) -> tuple[Trained, MemoryStorage]:
    """What a training gives, and what it keeps."""
    kept = MemoryStorage() if keep is None else keep
    return train(settings, small_graph() if graph is None else graph, kept, ONE_THREAD, progress), kept


class StoppedError(Exception):
    """Somebody pressed a key."""


def stop_at(call: int) -> OnProgress:
    """Stops a training when it tells how far it is for the so manieth time."""
    calls = iter(range(1, 1_000_000))

    def note(progress: TrainingProgress) -> None:
        if next(calls) == call:
            raise StoppedError

    return note


def assert_stopping_changes_nothing(settings: Settings, graph: KnowledgeGraph, stops: int = 4) -> None:
    """A training that is stopped somewhere, and once more on the way, goes on to the same end."""
    calls: list[int] = []
    wanted, undisturbed = trained(settings, graph, progress=lambda progress: calls.append(1))
    for stop in np.linspace(1, len(calls), stops).astype(int).tolist():
        keep = MemoryStorage()
        for again in (stop, 3):
            with suppress(StoppedError):
                trained(settings, graph, keep, stop_at(again))
        found, _ = trained(settings, graph, keep)
        assert timeless(keep.rows) == timeless(undisturbed.rows)
        assert timeless(found.rows) == timeless(wanted.rows)
        assert (found.best, found.epochs) == (wanted.best, wanted.epochs)
        assert snapshot_bits(keep) == snapshot_bits(undisturbed)
        for target in settings.select:
            for seed in settings.seeds:
                own, other = keep.load_best(target, seed), undisturbed.load_best(target, seed)
                assert (list(bits(own[0])), own[1]) == (list(bits(other[0])), other[1])


def snapshot_bits(keep: MemoryStorage) -> dict[tuple[int, int], Any]:
    """All snapshots down to their last bit."""
    return {which: (list(bits(tensors)), facts) for which, (tensors, facts) in keep.snapshots.items()}


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what depends on the machine."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
