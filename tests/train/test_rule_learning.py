"""Whole trainings of the models of rules: what is kept, how they go on, and what they make of odd graphs."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import parse
from kgprobe.models.registry import MODELS
from kgprobe.predict.scorers import Scorer
from kgprobe.resources import Resources
from kgprobe.train.checkpoints import MemoryStorage
from kgprobe.train.fitting import rank_best
from kgprobe.train.learners import learner_of, trained_run
from kgprobe.train.trainer import TrainingProgress, memory_advice
from kgprobe.train.validation import Validation
from rule_trainings import LITTLE, QUICK, family, quick_rules
from runs import bits
from trainings import CPU, StoppedError, assert_stopping_changes_nothing, one_thread, trained

GRAPH = family()

every_model = pytest.mark.parametrize("model", QUICK)


@every_model
def test_a_training_that_was_stopped_anywhere_goes_on_to_the_same_end(model: str) -> None:
    assert_stopping_changes_nothing(quick_rules(model, snapshot_every=4), GRAPH)


@every_model
def test_every_seed_learns_what_it_would_learn_alone(model: str) -> None:
    settings = quick_rules(model, epochs=4, validate_every=1)
    _, together = trained(settings, GRAPH)
    for seed in settings.seeds:
        _, alone = trained(replace(settings, seeds=(seed,)), GRAPH)
        for target in settings.select:
            own, other = together.load_best(target, seed), alone.load_best(target, seed)
            assert (list(bits(own[0])), own[1]) == (list(bits(other[0])), other[1])
    first, second = (list(bits(together.load_best(settings.select[0], seed)[0])) for seed in settings.seeds)
    assert first != second


@every_model
def test_the_weights_that_are_kept_have_the_score_that_is_told(model: str) -> None:
    settings = quick_rules(model, validate_every=1)
    found, storage = trained(settings, GRAPH)
    for target in settings.select:
        validation = Validation(GRAPH, [parse(target)], 0, Resources(threads=1))
        for run, seed in enumerate(settings.seeds):
            again = trained_run(settings, GRAPH, storage.load_best(target, seed)[0])
            assert validation([again]).scores[target] == [found.best[target][run].score]


@every_model
def test_what_is_not_ready_is_neither_validated_nor_kept(model: str) -> None:
    settings = quick_rules(model, validate_every=1, snapshot_every=1)
    with one_thread():
        learner, ready = learner_of(settings, GRAPH, CPU), [learner_of(settings, GRAPH, CPU).ready]
        for epoch in range(settings.epochs):
            learner.epoch(epoch, lambda steps, phase: None)
            ready.append(learner.ready)
    assert ready[-1]
    assert ready == sorted(ready), "what is ready stays so"
    _, storage = trained(settings, GRAPH)
    assert [row["epoch"] for row in storage.rows] == [epoch for epoch in range(1, len(ready)) if ready[epoch]]
    assert {epoch for epoch, _ in storage.snapshots} == {epoch for epoch, now in enumerate(ready) if now}


def test_the_search_for_rules_is_not_begun_again_by_a_training_that_goes_on() -> None:
    settings, storage = quick_rules("rnnlogic", epochs=6, validate_every=6), MemoryStorage()

    def note(progress: TrainingProgress) -> None:
        if progress.epoch == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        trained(settings, GRAPH, storage, note)
    state = storage.load_state()
    assert state is not None
    assert state[1]["epoch"] == 1
    phases: list[str] = []
    trained(settings, GRAPH, storage, lambda progress: phases.append(progress.phase))
    assert "mining" not in phases


@every_model
def test_the_phases_are_told(model: str) -> None:
    phases: list[str] = []
    steps: list[int] = []

    def note(progress: TrainingProgress) -> None:
        phases.append(progress.phase)
        steps.append(progress.step)

    trained(quick_rules(model), GRAPH, progress=note)
    assert {"mining", "training", "validating"} <= set(phases)
    assert max(steps) > 0


@every_model
@pytest.mark.parametrize("graph", LITTLE.values(), ids=LITTLE)
def test_graphs_that_lack_something_are_learned_and_ranked(model: str, graph: KnowledgeGraph) -> None:
    settings = quick_rules(model)
    found, storage = trained(settings, graph)
    assert found.epochs == settings.epochs
    for target in settings.select:
        assert all(math.isnan(best.score) == (not len(graph.triples("valid"))) for best in found.best[target])
        if len(graph.triples("test")):
            ranks = rank_best(storage, settings, graph, target, Resources(threads=1))
            assert len(ranks) == 2 * len(settings.seeds) * len(graph.triples("test"))
            assert np.isfinite(ranks.rank).all()


@every_model
def test_without_validation_facts_the_last_epoch_is_kept(model: str) -> None:
    settings = quick_rules(model)
    graph = LITTLE["no validation facts"]
    _, storage = trained(settings, graph)
    with one_thread():
        learner = learner_of(settings, graph, CPU)
        for epoch in range(settings.epochs):
            learner.epoch(epoch, lambda steps, phase: None)
    for run, seed in enumerate(settings.seeds):
        tensors, facts = storage.load_best(settings.select[0], seed)
        assert facts == {"target": settings.select[0], "epoch": settings.epochs, "score": None}
        assert list(bits(tensors)) == list(bits({name: own.cpu() for name, own in learner.weights(run).items()}))


@every_model
def test_a_training_that_diverges_says_what_to_lower(model: str) -> None:
    with pytest.raises(DataError, match=r"training diverged: the \w+ (is|are) not finite in epoch") as error:
        trained(quick_rules(model, learning_rate=1e30, validate_every=1), GRAPH)
    assert "learning_rate (it is 1e+30)" in error.value.remedy
    named = set(error.value.remedy.replace(",", "").split()) & {"learning_rate", "regularisation", "negatives"}
    assert named <= set(quick_rules(model).flat())


@every_model
def test_memory_that_is_short_names_settings_of_the_model(model: str) -> None:
    settings = quick_rules(model)
    with pytest.raises(DataError, match="not enough memory") as error, memory_advice(settings):
        raise MemoryError
    *values, seeds = error.value.problems
    assert seeds == "2 seeds are trained at once"
    assert "batch_size is 32" in values
    assert all(settings.flat()[name] == int(value) for name, value in (text.split(" is ") for text in values))


def test_fewer_epochs_than_iterations_are_refused() -> None:
    with pytest.raises(UsageError) as error:
        quick_rules("plogicnet", epochs=2, iterations=3)
    assert error.value.problems == ["epochs is 2, and must be at least iterations, which is 3"]


@every_model
def test_weights_that_lack_any_part_are_refused(model: str) -> None:
    settings = quick_rules(model, seeds=(0,))
    _, storage = trained(settings, GRAPH)
    tensors, _ = storage.load_best(settings.select[0], 0)
    assert isinstance(trained_run(settings, GRAPH, tensors), Scorer)
    for lost in tensors:
        with pytest.raises(DataError, match=r"these are not the (weights|rules) of"):
            trained_run(settings, GRAPH, {name: own for name, own in tensors.items() if name != lost})


@every_model
def test_a_model_is_fitted_in_one_call_and_ranked_from_its_folder(model: str, tmp_path: Any) -> None:
    changes = QUICK[model] | {"seeds": [0], "select": ["MRR"], "batch_size": 32}
    fitted = kp.fit(model, GRAPH, tmp_path / "run", threads=1, **changes)
    again = kp.rank(tmp_path / "run", GRAPH, resources=Resources(threads=1))
    assert again.rank.tolist() == fitted.ranks["MRR"].rank.tolist()
    assert fitted.ranks["MRR"].info.model == MODELS[model].name


def test_every_model_has_a_learner() -> None:
    """Those of rules are trained here, all others where embeddings are."""
    assert set(QUICK) == {key for key, kind in MODELS.items() if "Logic" in kind.name}
