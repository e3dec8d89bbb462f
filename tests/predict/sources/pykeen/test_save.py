import json

import numpy as np
import pytest
import torch
from pykeen.models import TransE
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory

from kgprobe import KnowledgeGraph, UsageError
from kgprobe.predict.sources.pykeen import open_pykeen, save_for_ranking, scorer_of
from kgprobe.predict.sources.pykeen.adapter import PykeenVectors

TRIPLES = np.array([["b", "likes", "a"], ["a", "knows", "c"], ["c", "knows", "b"]])
GRAPH = KnowledgeGraph.from_triples(
    train=[[0, 0, 1], [1, 1, 2], [2, 1, 0]], entity_labels=["c", "b", "a"], relation_labels=["likes", "knows"]
)
GIVEN, RELATION = np.array([0, 1, 2, 0]), np.array([0, 1, 0, 1])


def scores(scorer, side):
    if hasattr(scorer, "score"):
        return scorer.score(side, GIVEN, RELATION).numpy()
    return scorer.similarity.record(
        scorer.encode_queries(side, GIVEN, RELATION).repeat(3, axis=0), np.tile(scorer.candidates(side), (4, 1))
    ).reshape(4, 3)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("CP", {"embedding_dim": 4, "rank": 3}),
        ("ComplEx", {"embedding_dim": 4, "regularizer": None}),
        ("ConvE", {"embedding_dim": 200}),
        ("DistMult", {"embedding_dim": 4}),
        ("RESCAL", {"embedding_dim": 4}),
        ("RotatE", {"embedding_dim": 4}),
        ("SimplE", {"embedding_dim": 4}),
        ("TransE", {"embedding_dim": 4, "scoring_fct_norm": 2}),
        ("TransE", {"embedding_dim": 4, "scoring_fct_norm": 2, "power_norm": True}),
        ("TransH", {"embedding_dim": 4}),
        ("TuckER", {"embedding_dim": 4, "relation_dim": 3}),
        ("TuckER", {"embedding_dim": 4, "apply_batch_normalization": False}),
    ],
)
@pytest.mark.parametrize("inverse", [False, True], ids=["", "inverse"])
def test_one_line_is_enough(tmp_path, make, name, settings, inverse):
    model = make(name, inverse=inverse, entities=3, relations=2, **settings)
    save_for_ranking(model, None, tmp_path)
    found, scorer, facts = open_pykeen(tmp_path, GRAPH)
    assert found == name
    assert facts["create_inverse_triples"] is inverse
    assert json.loads(json.dumps(facts)) == facts
    for side in ("head", "tail"):
        assert np.array_equal(scores(scorer, side), scores(scorer_of(model), side))


def test_after_the_pipeline(tmp_path):
    """Its configuration has losses and functions, which no JSON has and no score needs."""
    triples = TriplesFactory.from_labeled_triples(TRIPLES)
    result = pipeline(
        training=triples,
        testing=triples,
        model="QuatE",
        model_kwargs={"embedding_dim": 5},
        training_kwargs={"num_epochs": 1, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=1,
        device="cpu",
    )
    with pytest.raises(UsageError, match="QuatE: not saved") as caught:
        save_for_ranking(result.model, result.training, tmp_path / "without")
    assert "model_kwargs" in caught.value.remedy
    assert not list((tmp_path / "without").iterdir())
    save_for_ranking(result.model, result.training, tmp_path / "with", result.configuration["model_kwargs"])
    _, scorer, facts = open_pykeen(tmp_path / "with", GRAPH)
    assert facts["model_kwargs"]["embedding_dim"] == 5
    backwards = np.array([2, 1, 0])  # PyKEEN numbers a, b, c; the graph c, b, a
    wanted = scorer_of(result.model).score("tail", backwards[GIVEN], 1 - RELATION)[:, backwards.tolist()]
    assert torch.equal(scorer.score("tail", GIVEN, RELATION), wanted)


def test_names_are_kept(tmp_path):
    factory = TriplesFactory.from_labeled_triples(TRIPLES, create_inverse_triples=True)
    model = TransE(triples_factory=factory, embedding_dim=4, random_seed=0)
    save_for_ranking(model, factory, tmp_path)
    _, scorer, _ = open_pykeen(tmp_path, GRAPH)
    assert np.array_equal(scorer.candidates("tail"), scorer_of(model).candidates("tail")[::-1])


def test_settings_that_cannot_be_seen_must_be_right(tmp_path, make):
    model = make("DistMult", entities=3, relations=2, embedding_dim=4)
    with pytest.raises(UsageError) as caught:
        save_for_ranking(model, None, tmp_path, {"embedding_dim": 5})
    assert "has the shape [3, 4], expected [3, 5]" in caught.value.problems[0]
    model = make("TransE", entities=3, relations=2, embedding_dim=4)
    with pytest.raises(UsageError) as caught:
        save_for_ranking(model, None, tmp_path, {"scoring_fct_norm": 2})
    assert "its scores are not those of the model" in caught.value.problems[0]
    assert not list(tmp_path.iterdir())


def test_a_failure_keeps_what_was_saved_before(tmp_path, make):
    model = make("TransE", entities=3, relations=2, embedding_dim=4)
    save_for_ranking(model, None, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError):
        save_for_ranking(model, None, tmp_path, {"scoring_fct_norm": 2})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


class OwnModel(TransE):
    pass


def test_a_model_that_is_not_of_the_library(tmp_path):
    model = OwnModel(triples_factory=TriplesFactory.from_labeled_triples(TRIPLES), embedding_dim=4, random_seed=0)
    with pytest.raises(UsageError) as caught:
        save_for_ranking(model, None, tmp_path)
    assert "kgprobe.rank(model, graph)" in caught.value.remedy


def test_the_model_is_left_as_it_was(tmp_path, make):
    model = make("TuckER", entities=3, relations=2, embedding_dim=4)
    model.train()
    save_for_ranking(model, None, tmp_path)
    assert all(module.training for module in model.modules())
    assert isinstance(scorer_of(model), PykeenVectors)
