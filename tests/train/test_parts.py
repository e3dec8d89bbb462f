"""The names in the settings stand for the parts that they say."""

import numpy as np
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.train.embedding import EmbeddingLearner
from kgprobe.train.losses import plain
from kgprobe.train.losses.soft_probe import SoftProbe, query_weights
from kgprobe.train.objectives import KVsAll, NegativeSampling, OneVsAll
from kgprobe.train.parts import objective_of, weigh_of
from kgprobe.train.queries import rarity, training_queries
from kgprobe.train.settings import LOSSES, MANY_ANSWERS
from kgprobe.train.settings import OBJECTIVES as NAMES
from runs import quick_settings, small_graph
from trainings import CPU, OBJECTIVES, settings_of

GRAPH = small_graph()
COLUMNS = (np.array([0, 0, 3]), np.array([0, 0, 1]), np.array([1, 2, 2]))


def test_every_setting_that_is_allowed_has_its_part() -> None:
    for objective in NAMES:
        for loss in MANY_ANSWERS if objective == "k_vs_all" else LOSSES:
            found = objective_of(quick_settings(objective=objective, loss=loss), GRAPH)
            assert found.once == (objective == "k_vs_all")
            assert type(found).__name__.lower() == objective.replace("_", "")


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"objective": "negative_sampling", "loss": "self_adversarial", "adversarial_temperature": 0.5},
            NegativeSampling(plain.SelfAdversarial(0.5), 256, GRAPH.num_entities),
        ),
        (
            {"objective": "negative_sampling", "loss": "cross_entropy", "negatives": 3},
            NegativeSampling(plain.CrossEntropy(0.0), 3, GRAPH.num_entities),
        ),
        ({"loss": "cross_entropy", "label_smoothing": 0.2}, OneVsAll(plain.CrossEntropy(0.2))),
        ({"loss": "binary_cross_entropy", "label_smoothing": 0.2}, OneVsAll(plain.BinaryCrossEntropy(0.2))),
        (
            {"loss": "soft_probe", "loss_alpha": -0.5, "loss_temperature": 2.0},
            OneVsAll(SoftProbe(-0.5, 2.0)),
        ),
        (
            {"objective": "k_vs_all", "loss": "cross_entropy", "label_smoothing": 0.2},
            KVsAll(plain.LabelCrossEntropy(0.2)),
        ),
        (
            {"objective": "k_vs_all", "loss": "binary_cross_entropy", "label_smoothing": 0.2},
            KVsAll(plain.LabelBinaryCrossEntropy(0.2)),
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
