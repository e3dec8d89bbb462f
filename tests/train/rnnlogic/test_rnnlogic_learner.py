"""RNNLogic learns rules, then to reason with them; it can be stopped after any epoch; odd graphs are no trouble."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.rnnlogic_scorer import WeightedSum
from kgprobe.predict import rank
from kgprobe.train.checkpoints import copied
from kgprobe.train.embedding_learner import EmbeddingLearner
from kgprobe.train.rnnlogic.rnnlogic_learner import RNNLogicLearner, open_run
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import Settings, resolve
from runs import bits, small_graph
from trainings import CPU, one_thread, trained

QUICK: dict[str, Any] = {
    "rule_length": 2,
    "epochs": 5,
    "em_iterations": 2,
    "batch_size": 16,
    "learning_rate": 0.02,
    "rules_per_relation": 12,
    "sampled_rules": 15,
    "em_facts": 20,
    "em_steps": 3,
    "generator_dimension": 4,
    "generator_hidden": 6,
    "generator_batch": 16,
    "pretraining_steps": 5,
    "generator_steps": 3,
    "rule_dimension": 3,
    "hidden": 4,
    "dropout": 0.2,
    "validate_every": 1,
    "patience": 0,
}

EMBEDDING: dict[str, Any] = {"embedding_dimension": 3, "embedding_epochs": 2}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def settings_of(**changes: Any) -> Settings:
    return resolve("rnnlogic", [from_values("test", QUICK | {"seeds": (3, 8)} | changes)]).settings


def quiet(steps: int, phase: str) -> None:
    pass


def family() -> KnowledgeGraph:
    """Parents and grandparents: everybody is named by three digits, and the parent of 12x is 12."""
    parent = [[child // 3, 0, child] for child in range(3, 81)]
    grand = [[child // 9, 1, child] for child in range(9, 81)]
    order = np.random.default_rng(0).permutation(len(grand))
    kept, asked = [grand[i] for i in order[:40]], [grand[i] for i in order[40:]]
    return KnowledgeGraph.from_triples(train=parent + kept, valid=asked[:16], test=asked[16:], name="family")


def learned(settings: Settings, epochs: int, graph: KnowledgeGraph | None = None) -> RNNLogicLearner:
    learner = RNNLogicLearner(settings, graph or small_graph(), CPU)
    for epoch in range(epochs):
        learner.epoch(epoch, quiet)
    return learner


@pytest.mark.parametrize(("stop", "embedded"), [(1, False), (3, False), (1, True), (3, True), (6, True)])
def test_epochs_taken_up_from_a_state_are_the_same_to_the_bit(stop: int, embedded: bool) -> None:
    epochs = 7 if embedded else 5
    settings = settings_of(**(EMBEDDING if embedded else {}), epochs=epochs, seeds=(3,), initial_weight=0.5)
    undisturbed = learned(settings, stop)
    state, ready = copied(undisturbed.state()), undisturbed.ready
    wanted = [undisturbed.epoch(epoch, quiet).tolist() for epoch in range(stop, epochs)]

    other = RNNLogicLearner(settings, small_graph(), CPU)
    other.load(state)
    assert other.ready == ready == (stop > (4 if embedded else 2))
    assert list(bits(other.state())) == list(bits(state))
    assert [other.epoch(epoch, quiet).tolist() for epoch in range(stop, epochs)] == wanted
    assert list(bits(other.state())) == list(bits(undisturbed.state()))
    assert list(bits(other.weights(0))) == list(bits(undisturbed.weights(0)))


def test_rules_and_predictor_are_the_same_with_an_embedding_and_without() -> None:
    schedule = {"schedule": "cosine", "seeds": (3,)}
    alone = learned(settings_of(**schedule, epochs=4), 4).weights(0)
    both = learned(settings_of(**schedule, **EMBEDDING, epochs=6), 6).weights(0)
    assert set(both) - set(alone) == {"embedding.entity", "embedding.relation", "embedding_weight"}
    assert list(bits({name: both[name] for name in alone})) == list(bits(alone))


def test_the_embedding_is_a_complex_trained_alone_and_no_longer_than_its_epochs() -> None:
    settings = settings_of(**EMBEDDING, epochs=6, seeds=(8,))
    values = {"reciprocal": True, "regulariser": "n3", "regularisation": 0.05, "learning_rate": 0.1}
    values |= {"optimiser": "adagrad", "batch_size": 512, "dimension": 3, "epochs": 2, "seeds": (8,)}
    alone = EmbeddingLearner(resolve("complex", [from_values("test", values)]).settings, small_graph(), CPU)
    for epoch in range(2):
        alone.epoch(epoch, quiet)
    found = learned(settings, 6).weights(0)
    for name, own in alone.weights(0).items():
        assert torch.equal(found[f"embedding.{name}"], own)


def test_the_weight_of_the_embedding_is_the_one_that_validation_facts_like_best() -> None:
    grid = (0.3, 0.0, 30.0)
    embedding = {"embedding_dimension": 3, "embedding_epochs": 20, "embedding_batch": 16, "embedding_weights": grid}
    learner = learned(settings_of(**embedding, epochs=23, em_iterations=1, seeds=(3,), select=("MRR",)), 23)
    chosen = learner.run(0)
    each = (WeightedSum(chosen.first, chosen.second, weight) for weight in grid)
    ranks = [rank(one, small_graph(), split="valid", filter="train+valid").rank for one in each]
    scores = [(1 / own).mean() for own in ranks]
    assert len(set(scores)) == 3
    assert chosen.weight == grid[int(np.argmax(scores))]
    assert learner.weights(0)["embedding_weight"].item() == chosen.weight


def test_without_validation_facts_the_first_weight_counts() -> None:
    settings = settings_of(**EMBEDDING | {"embedding_weights": (0.7, 1.0)}, epochs=5, seeds=(3,))
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2], [0, 1, 2], [2, 1, 3]])
    assert learned(settings, 5, graph).run(0).weight == 0.7


def test_an_embedding_needs_epochs_of_its_own() -> None:
    with pytest.raises(UsageError) as error:
        settings_of(embedding_dimension=2, embedding_epochs=5)
    assert error.value.problems == ["epochs is 5, and must be more than embedding_epochs, which is 5"]


def test_a_run_learns_the_same_beside_others_and_alone() -> None:
    both = RNNLogicLearner(settings_of(), small_graph(), CPU)
    alone = RNNLogicLearner(settings_of(seeds=(8,)), small_graph(), CPU)
    for epoch in range(4):
        assert both.epoch(epoch, quiet)[1] == alone.epoch(epoch, quiet)[0]
    assert list(bits(both.weights(1))) == list(bits(alone.weights(0)))
    assert list(bits(both.weights(0))) != list(bits(alone.weights(0)))


def test_weights_open_as_the_run_that_they_are_of() -> None:
    graph, settings = small_graph(), settings_of(**EMBEDDING, epochs=6)
    learner = learned(settings, 6)
    given, relation = np.array([0, 5, 11]), np.array([1, 0, 1])
    for run in range(2):
        opened = open_run(settings, graph, copied(learner.weights(run)), CPU)
        for side in ("head", "tail"):
            wanted = learner.run(run).score(side, given, relation)  # type: ignore[arg-type]
            assert torch.equal(opened.score(side, given, relation), wanted)  # type: ignore[arg-type]


def test_weights_of_something_else_are_refused() -> None:
    graph, settings = small_graph(), settings_of(seeds=(0,))
    weights = learned(settings, 3).weights(0)
    with pytest.raises(DataError, match="these are not the rules of a model"):
        open_run(settings, graph, {"entity": torch.zeros(1, 2, 3)}, CPU)
    with pytest.raises(DataError, match="not the weights of RNNLogic"):
        open_run(settings_of(hidden=9), graph, weights, CPU)
    with pytest.raises(DataError, match="not the weights of RNNLogic"):
        open_run(settings_of(**EMBEDDING), graph, weights, CPU)


def test_it_says_what_it_does() -> None:
    phases: list[str] = []
    learner = RNNLogicLearner(settings_of(**EMBEDDING, seeds=(0,)), small_graph(), CPU)
    for epoch in range(5):
        learner.epoch(epoch, lambda steps, phase: phases.append(phase))
    assert {"embedding", "mining", "teaching", "proposing", "grounding", "weighing", "training"} == set(phases)


def test_it_finds_the_rule_that_grandparents_are_parents_of_parents() -> None:
    settings = settings_of(
        epochs=12, seeds=(0,), learning_rate=0.05, pretraining_steps=60, dropout=0.0, bias="none", predictor="linear"
    )
    scorer = learned(settings, 12, family()).run(0)
    own = np.flatnonzero(scorer.rules.head == 1)
    rule = own[(scorer.rules.body[own][:, :2] == [0, 0]).all(1) & (scorer.rules.length[own] == 2)]
    assert scorer.rules.support[rule].tolist() == [40]
    assert scorer.weights[rule].tolist()[0] > 1
    ranks = rank(scorer, family(), sides="head")
    assert (ranks.rank == 1).all()


@pytest.mark.parametrize("em_iterations", [0, 7])
def test_there_are_rules_and_a_predictor_however_few_epochs_there_are(em_iterations: int) -> None:
    for epochs in (1, 2):
        result, storage = trained(settings_of(epochs=epochs, em_iterations=em_iterations, seeds=(0,)))
        assert result.epochs == epochs
        assert storage.rows


GRAPHS: dict[str, dict[str, Any]] = {
    "one fact": {"train": [[0, 0, 1]]},
    "one fact to itself": {"train": [[0, 0, 0]], "num_entities": 3},
    "one relation": {"train": [[0, 0, 1], [1, 0, 2], [2, 0, 0], [3, 0, 1]], "valid": [[0, 0, 2]]},
    "relation without facts": {"train": [[0, 0, 1], [1, 0, 2]], "valid": [[0, 2, 2]], "num_relations": 3},
    "entities without facts": {"train": [[0, 0, 1], [1, 1, 2], [0, 1, 2]], "valid": [[6, 0, 7]], "num_entities": 9},
    "no valid": {"train": [[0, 0, 1], [1, 0, 2], [0, 1, 2], [2, 1, 3]]},
    "nothing to conclude": {"train": [[0, 0, 1], [2, 1, 3]], "valid": [[0, 1, 2]]},
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("embedded", [False, True], ids=["linear-none", "both-answer-embedding"])
def test_odd_graphs_are_no_trouble(name: str, embedded: bool) -> None:
    graph = KnowledgeGraph.from_triples(**GRAPHS[name])
    kind = EMBEDDING if embedded else {"predictor": "linear", "bias": "none"}
    settings = settings_of(**kind, epochs=4, em_iterations=1, seeds=(0,))
    result, storage = trained(settings, graph)
    assert result.epochs == 4
    tensors, _ = storage.load_best(settings.select[0], 0)
    scores = open_run(settings, graph, tensors, CPU).score("tail", np.array([0]), np.array([0]))
    assert scores.shape == (1, graph.num_entities)
    assert torch.isfinite(scores).all()
