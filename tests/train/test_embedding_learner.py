"""Every query once an epoch, in an order that depends on seed and epoch alone.

The names in the settings stand for the parts that they say.

The regularisers against loops over coordinates.

Steps that are captured.
"""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest
import torch

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.embedding_model import EmbeddingModel, Sizes
from kgprobe.models.random_streams import RandomStreams
from kgprobe.train import losses
from kgprobe.train.embedding_learner import (
    Batches,
    EmbeddingLearner,
    Steps,
    l3,
    n3,
    norm,
    objective_of,
    uncollected,
    weigh_of,
)
from kgprobe.train.losses import KVsAll, NegativeSampling, OneVsAll
from kgprobe.train.settings import K_VS_ALL_LOSSES, LOSSES
from kgprobe.train.settings import OBJECTIVES as NAMES
from kgprobe.train.soft_probe import SoftProbe, query_weights
from kgprobe.train.training_queries import TrainingQueries, alike, rarity, training_queries
from runs import quick_settings, small_graph
from slow_models import KINDS, scattered, tables
from trainings import CPU, OBJECTIVES, settings_of


def _epoch(batches: Batches, epoch: int) -> torch.Tensor:
    batches.streams.reseed(epoch)
    batches.shuffle()
    return torch.stack([batches.next() for _ in range(batches.steps)], 1)


@pytest.mark.parametrize(("size", "batch"), [(1, 1), (5, 2), (6, 3), (7, 7), (7, 100), (10, 1), (13, 5)])
def test_every_query_is_taken_once_and_the_last_step_is_filled_up(size: int, batch: int) -> None:
    batches = Batches(size, batch, RandomStreams([4, 9], "cpu"))
    taken = _epoch(batches, 3)
    full = min(size, batch)
    assert taken.shape == (2, -(-size // full), full)
    for run in taken.flatten(1).tolist():
        assert sorted(run[:size]) == list(range(size))
        assert run[size:] == run[: len(run) - size]


def test_after_the_last_step_the_order_starts_again() -> None:
    batches = Batches(5, 2, RandomStreams([0], "cpu"))
    taken = _epoch(batches, 0)
    again = torch.stack([batches.next() for _ in range(batches.steps)], 1)
    assert torch.equal(taken, again)


def test_an_epoch_that_was_broken_off_leaves_no_trace() -> None:
    batches, fresh = Batches(9, 2, RandomStreams([1], "cpu")), Batches(9, 2, RandomStreams([1], "cpu"))
    batches.shuffle()
    batches.next()
    assert torch.equal(_epoch(batches, 6), _epoch(fresh, 6))


def test_every_epoch_and_every_seed_has_an_order_of_its_own() -> None:
    batches = Batches(30, 30, RandomStreams([0, 1], "cpu"))
    orders = {tuple(run) for epoch in range(5) for run in _epoch(batches, epoch).flatten(1).tolist()}
    assert len(orders) == 10


def test_a_run_takes_the_same_queries_alone_and_in_a_stack() -> None:
    stacked = Batches(23, 4, RandomStreams([5, 0, 7], "cpu"))
    for epoch in (0, 3):
        together = _epoch(stacked, epoch)
        for run, seed in enumerate((5, 0, 7)):
            assert torch.equal(_epoch(Batches(23, 4, RandomStreams([seed], "cpu")), epoch)[0], together[run])


GRAPH = small_graph()

COLUMNS = (np.array([0, 0, 3]), np.array([0, 0, 1]), np.array([1, 2, 2]))


def test_every_setting_that_is_allowed_has_its_part() -> None:
    for objective in NAMES:
        for loss in K_VS_ALL_LOSSES if objective == "k_vs_all" else LOSSES:
            found = objective_of(quick_settings(objective=objective, loss=loss), GRAPH)
            assert found.once == (objective == "k_vs_all")
            assert type(found).__name__.lower() == objective.replace("_", "")


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"objective": "negative_sampling", "loss": "self_adversarial", "adversarial_temperature": 0.5},
            NegativeSampling(losses.SelfAdversarial(0.5), 256, GRAPH.num_entities),
        ),
        (
            {"objective": "negative_sampling", "loss": "cross_entropy", "negatives": 3},
            NegativeSampling(losses.CrossEntropy(0.0), 3, GRAPH.num_entities),
        ),
        ({"loss": "cross_entropy", "label_smoothing": 0.2}, OneVsAll(losses.CrossEntropy(0.2))),
        ({"loss": "binary_cross_entropy", "label_smoothing": 0.2}, OneVsAll(losses.BinaryCrossEntropy(0.2))),
        (
            {"loss": "soft_probe", "loss_alpha": -0.5, "loss_temperature": 2.0},
            OneVsAll(SoftProbe(-0.5, 2.0)),
        ),
        (
            {"objective": "k_vs_all", "loss": "cross_entropy", "label_smoothing": 0.2},
            KVsAll(losses.LabelCrossEntropy(0.2)),
        ),
        (
            {"objective": "k_vs_all", "loss": "binary_cross_entropy", "label_smoothing": 0.2},
            KVsAll(losses.LabelBinaryCrossEntropy(0.2)),
        ),
    ],
)
def test_settings_reach_their_part(changes: dict[str, object], wanted: object) -> None:
    assert objective_of(quick_settings(**changes), GRAPH) == wanted


def test_weights_follow_the_settings() -> None:
    assert weigh_of(quick_settings(), GRAPH)(COLUMNS).tolist() == [1, 1, 1]
    assert weigh_of(quick_settings(subsampling=True), GRAPH)(COLUMNS).tolist() == rarity(COLUMNS).tolist()
    assert weigh_of(quick_settings(loss="cross_entropy", loss_beta=0.5), GRAPH)(COLUMNS).tolist() == [1, 1, 1]


def _lacks_a_relation() -> KnowledgeGraph:
    """Relation 2 has no training facts, so that the numbers of relations in training are not those of the graph."""
    facts = np.array([[0, 0, 1], [2, 0, 1], [3, 1, 1], [1, 1, 0], [4, 1, 0]])
    return KnowledgeGraph.from_triples(
        train=facts, valid=np.array([[0, 2, 1]]), test=facts[:0], name="lacks", num_entities=5, num_relations=3
    )


@pytest.mark.parametrize("reciprocal", [False, True], ids=["plain", "reciprocal"])
@pytest.mark.parametrize("subsampling", [False, True], ids=["alike", "rare"])
def test_unpopular_answers_weigh_more_where_soft_probe_asks_for_it(reciprocal: bool, subsampling: bool) -> None:
    graph = _lacks_a_relation()
    settings = quick_settings(loss="soft_probe", loss_beta=0.7, subsampling=subsampling, reciprocal=reciprocal)
    learner = EmbeddingLearner(settings, graph, CPU)
    rare = training_queries(graph.triples("train"), 5, 3 if reciprocal else None, rarity, CPU)
    for queries, plainly in zip(learner.queries, rare, strict=True):
        relation = queries.relation.numpy() % 3
        wanted = query_weights(graph.popularity, relation, queries.target.numpy(), 0.7)
        assert len(set(wanted.round(6))) > 1
        wanted = wanted * (plainly.weight.numpy() if subsampling else 1)
        np.testing.assert_allclose(queries.weight.numpy(), wanted, rtol=1e-6)


def test_the_kinds_that_are_tested_cover_all_settings() -> None:
    kinds = {(kind["objective"], kind["loss"]) for kind in OBJECTIVES.values()}
    assert {objective for objective, _ in kinds} == set(NAMES)
    assert {loss for _, loss in kinds} == set(LOSSES)
    assert all(settings_of("complex", kind) for kind in OBJECTIVES)


SIDES = training_queries(GRAPH.triples("train"), GRAPH.num_entities, None, alike, CPU)


def _made(kind: str) -> EmbeddingModel:
    return scattered(kind, Sizes(GRAPH.num_entities, 2), runs=2)


def _asked(side: int) -> TrainingQueries:
    return SIDES[side].at(torch.tensor([[0, 4, 9], [7, 4, 30]]))


@pytest.mark.parametrize("side", [0, 1], ids=["tail", "head"])
def test_n3_takes_the_moduli_of_complex_coordinates(side: int) -> None:
    model, asked = _made("ComplEx"), _asked(side)
    found = n3(model, asked)
    for run in range(2):
        own, total = tables(model, run), 0.0
        size = own["entity"].shape[1] // 2
        for query in range(3):
            ends = (asked.given[run, query], asked.target[run, query])
            rows = [own["entity"][int(end)] for end in ends] + [own["relation"][int(asked.relation[run, query])]]
            total += sum(abs(complex(row[i], row[i + size])) ** 3 for row in rows for i in range(size))
        assert found[run].item() == pytest.approx(total / 3)


def test_n3_takes_absolute_values_of_real_coordinates() -> None:
    model, asked = _made("DistMult"), _asked(0)
    found = n3(model, asked)
    for run in range(2):
        own, total = tables(model, run), 0.0
        for query in range(3):
            total += sum(abs(own["entity"][int(asked.given[run, query])]) ** 3)
            total += sum(abs(own["entity"][int(asked.target[run, query])]) ** 3)
            total += sum(abs(own["relation"][int(asked.relation[run, query])]) ** 3)
        assert found[run].item() == pytest.approx(total / 3)


@pytest.mark.parametrize("kind", list(KINDS))
def test_l3_takes_every_coordinate_of_every_table(kind: str) -> None:
    model = _made(kind)
    learned = {name for name, _ in model.named_parameters()}
    found = l3(model, _asked(0))
    for run in range(2):
        own = tables(model, run)
        total = sum(abs(value) ** 3 for name in learned for value in own[name].flatten().tolist())
        assert found[run].item() == pytest.approx(total)


@pytest.mark.parametrize("kind", list(KINDS))
def test_norm_is_the_mean_length_of_entities(kind: str) -> None:
    model = _made(kind)
    found = norm(model, _asked(0))
    for run in range(2):
        lengths = [math.sqrt(sum(value**2 for value in row)) for row in tables(model, run)["entity"].tolist()]
        assert found[run].item() == pytest.approx(sum(lengths) / len(lengths))


@pytest.mark.parametrize("regulariser", [n3, l3, norm])
@pytest.mark.parametrize("kind", list(KINDS))
def test_runs_do_not_pull_at_each_other(regulariser: object, kind: str) -> None:
    model = _made(kind)
    slopes = torch.autograd.grad(
        regulariser(model, _asked(0))[0],  # type: ignore[operator]
        list(model.parameters()),
        allow_unused=True,
        materialize_grads=True,
    )
    assert any((slope[0] != 0).any() for slope in slopes)
    assert all((slope[1] == 0).all() and slope.isfinite().all() for slope in slopes)


class _Ring:
    """Something that only a collection can free."""

    def __init__(self) -> None:
        self.itself = self


def test_what_earlier_trainings_left_is_freed_before_a_capture_and_nothing_within() -> None:
    before = _Ring()
    earlier = weakref.ref(before)
    del before
    with uncollected():
        assert earlier() is None
        later = weakref.ref(_Ring())
        for _ in range(5_000):
            _Ring()
        assert later() is not None
    gc.collect()
    assert later() is None


@pytest.mark.parametrize("enabled", [True, False])
def test_collection_is_left_as_it_was_found_after_an_error_too(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    try:
        with pytest.raises(RuntimeError, match="capture"), uncollected():
            raise RuntimeError("capture")
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_captured_step_that_waits_to_be_collected_does_not_break_the_next_capture() -> None:
    device = torch.device("cuda")
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(3):
            assert _counted(device) == 10
    finally:
        gc.set_threshold(*threshold)


def _counted(device: torch.device) -> float:
    """What ten steps that each add one make; their captured step is left to the collector."""
    total = torch.zeros((), device=device)

    def take() -> None:
        for _ in range(100):
            _Ring()
        total.add_(1)

    steps = Steps(take, RandomStreams([0], device))
    ring = _Ring()
    ring.steps = steps  # type: ignore[attr-defined]
    steps.run(10)
    return total.item()
