"""Memory that is short: real requests that no machine can grant, and errors that have nothing to do with it.

Whole trainings in memory: what is kept, when they stop, and how they go on.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.family_tree import family_tree
from kgprobe.metrics import parse
from kgprobe.models.complex import ComplExOptions
from kgprobe.models.embedding_model import ranked_run
from kgprobe.resources import Resources
from kgprobe.train.checkpoints import MemoryStorage
from kgprobe.train.embedding_learner import build_model
from kgprobe.train.settings import Settings
from kgprobe.train.trainer import TrainingProgress, memory_advice, train
from kgprobe.train.validation import Validation
from runs import bits, quick_settings, small_graph
from trainings import (
    CPU,
    StoppedError,
    assert_stopping_changes_nothing,
    learned,
    settings_of,
    snapshot_bits,
    stop_at,
    timeless,
    trained,
)

# Dense enough to be beyond any machine, in all the ways that torch says so.
SIZES = [10**13, 10**15, 2**53]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_too_many_negatives(size: int) -> None:
    with pytest.raises(DataError, match="not enough memory") as error:
        trained(settings_of("complex", "self_adversarial", negatives=size))
    assert error.value.problems == [
        "batch_size is 32",
        f"negatives is {size}",
        "dimension is 4",
        "2 seeds are trained at once",
    ]
    assert re.search("batch_size.*negatives.*dimension", error.value.remedy)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["one", "all_binary"])
def test_too_many_coordinates(size: int, kind: str) -> None:
    with pytest.raises(DataError, match="not enough memory") as error:
        trained(settings_of("complex", kind, dimension=size, seeds=(0,)))
    assert error.value.problems == ["batch_size is 32", f"dimension is {size}"]
    assert "negatives" not in error.value.remedy


@pytest.mark.parametrize(
    "shortage",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.81 TiB."),
        MemoryError(),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: out of memory"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_ways_in_which_a_device_says_it(shortage: Exception) -> None:
    with pytest.raises(DataError, match="not enough memory") as error, memory_advice(quick_settings()):
        raise shortage
    assert error.value.__cause__ is shortage


@pytest.mark.parametrize("other", [RuntimeError("shapes do not match"), TypeError("no"), KeyError("x")], ids=str)
def test_other_errors_are_left_alone(other: Any) -> None:
    with pytest.raises(type(other)) as error, memory_advice(quick_settings()):
        raise other
    assert error.value is other


GRAPH = small_graph()

PERSPECTIVES = ("PROBE(alpha=1,beta=0)", "PROBE(alpha=-1,beta=0.8)", "MR", "Hits@1")


def _without(split: str) -> KnowledgeGraph:
    splits = {name: GRAPH.triples(name) for name in ("train", "valid", "test")}
    splits[split] = splits[split][:0]
    return KnowledgeGraph.from_triples(
        **splits, name="part", num_entities=GRAPH.num_entities, num_relations=GRAPH.num_relations
    )


def _first_best(rows: list[dict[str, Any]], target: str, run: int) -> tuple[int, float]:
    """The epoch and score of the first validation that no other beats."""
    best = max if parse(target).higher_is_better else min
    score = best(row["scores"][target][run] for row in rows)
    return next((row["epoch"], score) for row in rows if row["scores"][target][run] == score)


@pytest.mark.parametrize("model", ["complex", "transe", "tucker"])
def test_every_target_keeps_the_epoch_that_is_best_by_it(model: str) -> None:
    settings = quick_settings(model, select=PERSPECTIVES, epochs=8, validate_every=1)
    found, storage = trained(settings)
    assert [row["epoch"] for row in storage.rows] == list(range(1, 9))
    assert timeless(found.rows) == timeless(storage.rows)
    for target in PERSPECTIVES:
        for run, seed in enumerate(settings.seeds):
            epoch, score = _first_best(storage.rows, target, run)
            _, facts = storage.load_best(target, seed)
            assert facts == {"target": target, "epoch": epoch, "score": score}
            assert (found.best[target][run].epoch, found.best[target][run].score) == (epoch, score)
    kept = {(best.epoch, run) for target in PERSPECTIVES for run, best in enumerate(found.best[target])}
    assert len(kept) > 2, "targets that all choose the same epoch tell nothing"


@pytest.mark.parametrize("reciprocal", [False, True], ids=["plain", "reciprocal"])
def test_the_weights_that_are_kept_have_the_score_that_is_told(reciprocal: bool) -> None:
    settings = quick_settings("house", select=PERSPECTIVES, epochs=6, validate_every=1, reciprocal=reciprocal)
    found, storage = trained(settings)
    for target in PERSPECTIVES:
        validation = Validation(GRAPH, [parse(target)], 0, Resources(threads=1))
        for run, seed in enumerate(settings.seeds):
            alone = replace(settings, seeds=(seed,))
            model = build_model(alone, GRAPH, CPU)
            model.load_state_dict(storage.load_best(target, seed)[0])
            ranked = ranked_run(model.one_run(0), GRAPH.num_relations if reciprocal else None)
            assert validation([ranked]).scores[target] == [found.best[target][run].score]


def test_the_weights_that_are_kept_are_those_of_their_epoch() -> None:
    settings = quick_settings("rotate", select=("MR",), epochs=5, validate_every=1)
    found, storage = trained(settings)
    for run, seed in enumerate(settings.seeds):
        learner, _ = learned(settings, found.best["MR"][run].epoch)
        assert list(bits(storage.load_best("MR", seed)[0])) == list(bits(learner.weights(run)))


@pytest.mark.parametrize(
    ("changes", "epochs"),
    [({"epochs": 5}, [0, 2, 4, 5]), ({"epochs": 4, "validate_every": 3}, [0, 2, 4])],
    ids=["and the last", "the last one is due"],
)
def test_a_snapshot_is_what_has_been_learned_by_then(changes: dict[str, Any], epochs: list[int]) -> None:
    settings = quick_settings("rotate", snapshot_every=2, **changes)
    _, storage = trained(settings)
    assert sorted(storage.snapshots) == [(epoch, seed) for epoch in epochs for seed in settings.seeds]
    for (epoch, seed), (tensors, facts) in storage.snapshots.items():
        learner, _ = learned(settings, epoch)
        assert list(bits(tensors)) == list(bits(learner.weights(settings.seeds.index(seed))))
        assert facts == {"epoch": epoch}


def test_the_end_is_a_snapshot_where_training_stops_early() -> None:
    settings = quick_settings(epochs=100, validate_every=1, patience=2, snapshot_every=97)
    found, storage = trained(settings)
    assert found.epochs < 97
    assert {epoch for epoch, _ in storage.snapshots} == {0, found.epochs}


def test_without_the_setting_there_are_no_snapshots() -> None:
    assert trained(quick_settings())[1].snapshots == {}


def test_a_row_tells_what_a_validation_found() -> None:
    settings = quick_settings(epochs=5, validate_every=2, schedule="cosine", batch_size=30)
    found, storage = trained(settings)
    _, losses = learned(settings, 5)
    assert [row["epoch"] for row in storage.rows] == [2, 4, 5]
    for row in storage.rows:
        assert row["step"] == row["epoch"] * 4
        assert row["loss"] == losses[row["epoch"] - 1]
        assert row["learning_rate"] == pytest.approx(0.025 * (1 + math.cos(math.pi * (row["epoch"] - 1) / 5)))
        assert set(row["scores"]) == set(settings.select)
        assert np.mean([row["sides"]["head"], row["sides"]["tail"]], axis=0) == pytest.approx(
            row["scores"][settings.select[0]]
        )
    seconds = [row["seconds"] for row in storage.rows]
    assert 0 < seconds[0] <= seconds[1] <= seconds[2] <= found.seconds + 0.001  # rows are rounded to that
    assert 0 < found.training_seconds < found.seconds


def test_training_stops_when_no_run_gains_any_more_and_each_keeps_what_it_would_keep_alone() -> None:
    settings = quick_settings(epochs=100, validate_every=1, patience=2, select=("MRR", "MR"), seeds=(0, 1, 2))
    together, kept = trained(settings)
    ends = [max(together.best[target][run].epoch for target in ("MRR", "MR")) + 2 for run in range(3)]
    assert together.epochs == max(ends) < 100
    assert len(set(ends)) > 1, "runs that all end together tell nothing"
    for run, seed in enumerate(settings.seeds):
        alone, own = trained(replace(settings, seeds=(seed,)))
        assert alone.epochs == ends[run]
        for target in ("MRR", "MR"):
            assert together.best[target][run].epoch == alone.best[target][0].epoch
            assert together.best[target][run].score == pytest.approx(alone.best[target][0].score)
            for name, weights in kept.load_best(target, seed)[0].items():
                torch.testing.assert_close(weights, own.load_best(target, seed)[0][name], rtol=1e-3, atol=1e-4)


class _StopsAtSnapshot(MemoryStorage):
    """Is stopped before it has kept the snapshot with this number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.left = number

    def save_snapshot(
        self, epoch: int, seed: int, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]
    ) -> None:
        self.left -= 1
        if self.left == 0:
            raise StoppedError
        super().save_snapshot(epoch, seed, tensors, facts)


def test_a_training_that_was_stopped_at_a_snapshot_does_not_lose_it() -> None:
    settings = quick_settings(epochs=5, validate_every=1, snapshot_every=2)
    _, undisturbed = trained(settings)
    for number in range(1, len(undisturbed.snapshots) + 1):
        storage = _StopsAtSnapshot(number)
        with pytest.raises(StoppedError):
            trained(settings, storage=storage)
        trained(settings, storage=storage)
        assert snapshot_bits(storage) == snapshot_bits(undisturbed)


@pytest.mark.parametrize(
    ("model", "kind", "patience"), [("complex", "one", 1), ("tucker", "all_binary", 0), ("rotate", "sampled", 0)]
)
def test_a_training_that_was_stopped_anywhere_goes_on_to_the_same_end(model: str, kind: str, patience: int) -> None:
    settings = settings_of(model, kind, epochs=5, validate_every=2, patience=patience, snapshot_every=3)
    assert_stopping_changes_nothing(settings, GRAPH)


class _OldKeep(MemoryStorage):
    """Its states do not tell how many steps were taken."""

    def save_state(self, tensors: Mapping[str, torch.Tensor], progress: Mapping[str, Any]) -> None:
        super().save_state(tensors, {key: value for key, value in progress.items() if key != "steps"})


def test_a_state_of_an_older_version_goes_on_to_the_same_end() -> None:
    settings = quick_settings(epochs=5, validate_every=2)
    _, undisturbed = trained(settings)
    storage = _OldKeep()
    with pytest.raises(StoppedError):
        trained(settings, storage=storage, progress=stop_at(12))
    assert storage.rows
    trained(settings, storage=storage)
    assert timeless(storage.rows) == timeless(undisturbed.rows)


def test_a_finished_training_is_not_trained_again() -> None:
    settings = quick_settings()
    wanted, storage = trained(settings)
    told: list[TrainingProgress] = []
    found, _ = trained(settings, storage=storage, progress=told.append)
    assert told == []
    assert (found.best, found.epochs, timeless(found.rows)) == (wanted.best, wanted.epochs, timeless(wanted.rows))


@pytest.mark.parametrize("model", ["complex", "rotate", "house", "tucker", "distmult"])
@pytest.mark.parametrize("batch_size", [10, 1000])
def test_a_training_that_diverges_says_what_to_lower(model: str, batch_size: int) -> None:
    settings = quick_settings(model, learning_rate=1e30, batch_size=batch_size, validate_every=1)
    storage = MemoryStorage()
    with pytest.raises(DataError, match=r"training diverged: the \w+ (is|are) not finite in epoch") as error:
        trained(settings, storage=storage)
    assert "learning_rate (it is 1e+30)" in error.value.remedy
    assert error.value.problems
    last = f"up to epoch {storage.rows[-1]['epoch']} are kept" if storage.rows else "no checkpoint was kept"
    assert last in error.value.remedy


def test_what_was_kept_before_a_training_diverged_is_not_lost() -> None:
    settings = quick_settings("rotate", learning_rate=1e30, batch_size=1000, validate_every=1)
    storage = MemoryStorage()
    with pytest.raises(DataError, match="the loss is not finite in epoch 2") as error:
        trained(settings, storage=storage)
    assert error.value.problems == ["seed 3: loss nan", "seed 8: loss nan"]
    assert "checkpoints up to epoch 1 are kept" in error.value.remedy
    assert [row["epoch"] for row in storage.rows] == [1]
    state = storage.load_state()
    assert state is not None
    assert state[1]["epoch"] == 1
    for target in settings.select:
        for seed in settings.seeds:
            tensors, facts = storage.load_best(target, seed)
            assert facts["epoch"] == 1
            assert all(own.isfinite().all() for own in tensors.values())


def test_a_graph_without_validation_facts_keeps_the_last_epoch() -> None:
    settings = quick_settings(epochs=5, validate_every=2, patience=1)
    found, storage = trained(settings, _without("valid"))
    learner, _ = learned(settings, 5, _without("valid"))
    assert storage.rows == []
    assert found.epochs == 5
    for target in settings.select:
        for run, seed in enumerate(settings.seeds):
            tensors, facts = storage.load_best(target, seed)
            assert facts == {"target": target, "epoch": 5, "score": None}
            assert list(bits(tensors)) == list(bits(learner.weights(run)))
            assert found.best[target][run].epoch == 5
            assert math.isnan(found.best[target][run].score)


def test_a_graph_without_training_facts_is_refused() -> None:
    with pytest.raises(DataError, match="no training triples"):
        trained(quick_settings(), _without("train"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"loss": "self_adversarial"}, ("loss", "self_adversarial")),
        ({"loss": "soft_probe"}, ("loss", "soft_probe")),
        ({"regulariser": "n3", "regularisation": 0.1}, ("regulariser", "n3")),
        ({"subsampling": True}, ("subsampling",)),
    ],
    ids=["self_adversarial", "soft_probe", "n3", "subsampling"],
)
def test_settings_that_do_not_fit_together_are_refused(changes: dict[str, Any], named: tuple[str, ...]) -> None:
    settings = Settings("ComplEx", ComplExOptions(dimension=2), objective="k_vs_all", epochs=1)
    train(settings, GRAPH, MemoryStorage())
    with pytest.raises(UsageError, match="ComplEx cannot be trained") as error:
        train(replace(settings, **changes), GRAPH, MemoryStorage())
    (problem,) = error.value.problems
    assert all(word in problem for word in (*named, "objective", "k_vs_all"))
    with pytest.raises(UsageError) as resolved:
        quick_settings(**({"objective": "k_vs_all", "loss": "cross_entropy"} | changes))
    assert resolved.value.problems == [problem]


def test_all_values_out_of_range_are_named_at_once() -> None:
    settings = Settings("ComplEx", ComplExOptions(dimension=0), epochs=0, learning_rate=-1.0)
    with pytest.raises(UsageError) as error:
        train(settings, GRAPH, MemoryStorage())
    assert [problem.split()[0] for problem in error.value.problems] == ["dimension", "epochs", "learning_rate"]


def test_progress_is_told_step_by_step() -> None:
    settings = quick_settings(batch_size=2, epochs=3, validate_every=2)
    told: list[tuple[str, int, int]] = []
    last: list[TrainingProgress] = []

    def note(progress: TrainingProgress) -> None:
        told.append((progress.phase, progress.epoch, progress.step))
        last[:] = [progress]

    found, _ = trained(settings, progress=note)
    steps = last[0].steps_an_epoch
    assert steps == 50
    wanted: list[tuple[str, int, int]] = []
    for epoch in range(3):
        wanted += [("training", epoch, 32), ("training", epoch, 50), ("training", epoch + 1, 50)]
        wanted += [("validating", epoch + 1, 50)] * (2 if epoch else 0)
    assert told == wanted
    assert last[0].epochs == 3
    assert last[0].steps_a_second > 0
    assert last[0].last == found.rows[-1]["scores"]
    assert {name: list(runs) for name, runs in last[0].best.items()} == found.best


def test_threads_are_those_that_are_asked_for_and_given_back() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    torch.set_num_threads(3)
    try:
        trained(quick_settings(epochs=1), progress=lambda progress: seen.append(torch.get_num_threads()))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {1}


def _by_frequency(graph: KnowledgeGraph) -> float:
    """MRR on the validation facts of who ranks entities by how often they are an answer with the relation."""
    known = {tuple(fact) for split in ("train", "valid") for fact in graph.triples(split).tolist()}
    train_ = graph.triples("train")
    values = []
    for head, relation, tail in graph.triples("valid").tolist():
        own = train_[train_[:, 1] == relation]
        for column, target in ((0, head), (2, tail)):
            counts = np.bincount(own[:, column], minlength=graph.num_entities)
            others = [
                counts[entity]
                for entity in range(graph.num_entities)
                if ((entity, relation, tail) if column == 0 else (head, relation, entity)) not in known
            ]
            above, equal = sum(o > counts[target] for o in others), sum(o == counts[target] for o in others)
            values.append(1 / (1 + above + equal / 2))
    return float(np.mean(values))


def test_a_few_epochs_are_better_than_counting() -> None:
    graph = family_tree(trees=1, people_per_tree=60)
    settings = quick_settings(
        "complex", dimension=32, reciprocal=True, optimiser="adagrad", learning_rate=0.3, epochs=30, validate_every=10
    )
    settings = replace(settings, select=("MRR",), seeds=(0,), batch_size=256)
    found, _ = trained(settings, graph)
    assert found.best["MRR"][0].score > 1.5 * _by_frequency(graph)
