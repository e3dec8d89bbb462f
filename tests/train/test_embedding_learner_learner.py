"""A stack of runs learns as each run alone, and an epoch can be taken up anywhere."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.graph import KnowledgeGraph
from kgprobe.train.checkpoints import copied
from kgprobe.train.embedding_learner import REGULARISERS, EmbeddingLearner, build_model
from runs import bits, small_graph
from slow_models import Tables
from trainings import CPU, MODELS, OBJECTIVES, learned, one_thread, settings_of


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


every_model = pytest.mark.parametrize("model", MODELS)

models_and_objectives = pytest.mark.parametrize(
    ("model", "kind"),
    [
        (model, kind)
        for model in MODELS
        for kind in OBJECTIVES
        if model == "complex" or kind in ("sampled", "all_binary")
    ],
)


@models_and_objectives
def test_a_stack_of_runs_learns_as_each_run_alone(model: str, kind: str) -> None:
    settings = settings_of(model, kind, seeds=(3, 8, 1))
    stacked, losses = learned(settings, 3)
    for run, seed in enumerate(settings.seeds):
        alone, own = learned(replace(settings, seeds=(seed,)), 3)
        assert [epoch[run] for epoch in losses] == pytest.approx([epoch[0] for epoch in own], rel=1e-5)
        for name, weights in stacked.weights(run).items():
            torch.testing.assert_close(weights, alone.weights(0)[name], rtol=1e-3, atol=1e-4)


@every_model
@pytest.mark.parametrize("reciprocal", [False, True], ids=["plain", "reciprocal"])
def test_a_run_begins_as_it_would_alone(model: str, reciprocal: bool) -> None:
    settings = settings_of(model, "one", seeds=(3, 8), reciprocal=reciprocal)
    stacked = build_model(settings, small_graph(), CPU)
    for run, seed in enumerate(settings.seeds):
        alone = build_model(replace(settings, seeds=(seed,)), small_graph(), CPU).state_dict()
        assert list(bits(stacked.one_run(run).state_dict())) == list(bits(alone))


@models_and_objectives
def test_the_loss_falls(model: str, kind: str) -> None:
    _, losses = learned(settings_of(model, kind), 12)
    for run in range(2):
        assert np.mean([epoch[run] for epoch in losses[-4:]]) < losses[0][run]


@every_model
@pytest.mark.parametrize("optimiser", ["adam", "adagrad"])
@pytest.mark.parametrize("kind", ["self_adversarial", "one", "all_binary"])
def test_epochs_taken_up_from_a_state_are_the_same_to_the_bit(model: str, optimiser: str, kind: str) -> None:
    settings = settings_of(model, kind, optimiser=optimiser, schedule="cosine")
    undisturbed, _ = learned(settings, 2)
    state = copied(undisturbed.state())
    wanted = [undisturbed.epoch(epoch, lambda steps, phase: None).tolist() for epoch in (2, 3)]

    other = EmbeddingLearner(settings, small_graph(), CPU)
    other.epoch(7, lambda steps, phase: None)  # whatever was learned before is gone
    other.load(state)
    assert [other.epoch(epoch, lambda steps, phase: None).tolist() for epoch in (2, 3)] == wanted
    assert list(bits(other.state())) == list(bits(undisturbed.state()))


@pytest.mark.parametrize("kind", list(OBJECTIVES))
def test_a_training_is_repeatable_to_the_bit_and_depends_on_its_seed(kind: str) -> None:
    settings = settings_of("complex", kind)
    first, again = (list(bits(learned(settings, 2)[0].state())) for _ in range(2))
    assert first == again
    learner, _ = learned(settings, 2)
    assert list(bits(learner.weights(0))) != list(bits(learner.weights(1)))


def test_the_steps_of_an_epoch_are_told() -> None:
    learner = EmbeddingLearner(settings_of("complex", "one", batch_size=2), small_graph(), CPU)
    told: list[int] = []
    learner.epoch(0, lambda steps, phase: told.append(steps))
    assert sum(told) == learner.steps == 50
    assert len(told) > 1


@pytest.mark.parametrize("batch_size", [1, 7, 32, 1000])
@pytest.mark.parametrize("kind", ["one_binary", "all", "all_binary"])
def test_a_batch_of_any_size_will_do(kind: str, batch_size: int) -> None:
    learner, losses = learned(settings_of("complex", kind, batch_size=batch_size), 2)
    assert all(math.isfinite(loss) for epoch in losses for loss in epoch)
    pairs = [len(queries) for queries in learner.queries]
    each = min(max(1, batch_size // len(pairs)), *pairs)
    assert learner.steps == max(math.ceil(size / each) for size in pairs)


def _more_tails_than_heads() -> KnowledgeGraph:
    """One head with many tails: a pair asks for tails, and as many as there are facts ask for heads."""
    facts = np.array([[0, 0, tail] for tail in range(1, 7)])
    return KnowledgeGraph.from_triples(
        train=facts, valid=facts[:0], test=facts[:0], name="star", num_entities=7, num_relations=1
    )


def test_sides_that_have_different_numbers_of_queries_are_not_confused() -> None:
    """The loss of a whole epoch before the first step, by a loop over all queries of both sides."""
    still = {"label_smoothing": 0.0, "batch_size": 100, "seeds": (3,), "learning_rate": 1e-12, "initial_scale": 1.0}
    settings = settings_of("complex", "all", **still)
    learner, losses = learned(settings, 1, _more_tails_than_heads())
    assert [len(queries) for queries in learner.queries] == [1, 6]
    own = {name: value[0].double().numpy() for name, value in learner.model.state_dict().items()}
    of_tails = _cross_entropy(_scores(own, 0, 1), set(range(1, 7)))
    of_heads = [_cross_entropy(_scores(own, tail, -1), {0}) for tail in range(1, 7)]
    # Six steps: each asks for the tails of the only pair, and for the head of one of six.
    assert losses[0][0] == pytest.approx((of_tails + np.mean(of_heads)) / 2, rel=1e-4)


def _scores(own: Tables, given: int, sign: int) -> list[float]:
    """Of all entities, as ComplEx defines it: as tails, or as heads where the sign is -1."""

    def coordinates(row: Any) -> Any:
        return row[: len(row) // 2] + 1j * row[len(row) // 2 :]

    relation, entities = coordinates(own["relation"][0]), [coordinates(row) for row in own["entity"]]
    ends = [(entities[given], other) if sign == 1 else (other, entities[given]) for other in entities]
    return [float((head * relation * tail.conj()).real.sum()) for head, tail in ends]


def _cross_entropy(scores: list[float], answers: set[int]) -> float:
    total = math.log(sum(math.exp(score) for score in scores))
    return sum(total - scores[answer] for answer in answers) / len(answers)


@pytest.mark.parametrize("regulariser", list(REGULARISERS))
def test_a_regulariser_is_added_with_its_weight(regulariser: str) -> None:
    changes = {"batch_size": 1000, "learning_rate": 1e-12, "initial_scale": 0.5}
    _, plain = learned(settings_of("complex", "one", **changes), 1)
    learner, more = learned(settings_of("complex", "one", **changes, regulariser=regulariser, regularisation=0.7), 1)
    (queries,) = learner.queries
    asked = queries.at(torch.arange(len(queries)).expand(2, -1))
    wanted = 0.7 * REGULARISERS[regulariser](learner.model, asked)
    assert np.subtract(more[0], plain[0]) == pytest.approx(wanted.tolist(), rel=1e-4)
    assert min(wanted.tolist()) > 0


def test_queries_count_by_their_weights() -> None:
    """The mean of losses by weight, from the losses of single queries."""
    still = {"subsampling": True, "batch_size": 1000, "learning_rate": 1e-12, "initial_scale": 1.0}
    learner, losses = learned(settings_of("complex", "one", **still), 1)
    (queries,) = learner.queries
    asked = queries.at(torch.arange(len(queries)).expand(2, -1))
    single = learner.objective(learner.model, asked).detach().double().numpy()
    weight = asked.weight[0].numpy()
    assert len(set(weight.tolist())) > 2
    assert losses[0] == pytest.approx([np.average(run, weights=weight) for run in single], rel=1e-5)


def test_weights_are_copies_of_one_run() -> None:
    learner, _ = learned(settings_of("tucker", "all_binary"), 1)
    kept = learner.weights(1)
    before = list(bits(kept))
    assert set(kept) == set(learner.model.state_dict())
    for name, own in learner.model.state_dict().items():
        assert torch.equal(kept[name], own[1:2])
    learner.epoch(1, lambda steps, phase: None)
    assert list(bits(kept)) == before
