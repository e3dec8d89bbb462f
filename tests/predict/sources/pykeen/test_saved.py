import json
import pickle

import numpy as np
import pytest
import torch
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory

from kgprobe import DataError, KnowledgeGraph, UsageError
from kgprobe.predict.sources.pykeen import open_pykeen, save_for_ranking, saved, scorer_of
from kgprobe.predict.sources.pykeen.saved import is_saved_pykeen

TRIPLES = np.array([["b", "likes", "a"], ["a", "knows", "c"], ["c", "knows", "b"]])
GRAPH = KnowledgeGraph.from_triples(
    train=[[0, 0, 1], [1, 1, 2], [2, 1, 0]], entity_labels=["c", "b", "a"], relation_labels=["likes", "knows"]
)


@pytest.fixture(scope="module")
def result():
    triples = TriplesFactory.from_labeled_triples(TRIPLES)
    return pipeline(
        training=triples,
        testing=triples,
        model="ComplEx",
        model_kwargs={"embedding_dim": 4},
        training_kwargs={"num_epochs": 1, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=1,
        device="cpu",
    )


@pytest.fixture
def folder(result, tmp_path):
    """What PyKEEN saves."""
    result.save_to_directory(tmp_path / "saved")
    return tmp_path / "saved"


def refusal(folder, **settings):
    with pytest.raises(DataError) as caught:
        open_pykeen(folder, GRAPH, **settings)
    return caught.value


def same_vectors(scorer, model):
    """The graph numbers the entities c, b, a and PyKEEN a, b, c; relations are the other way round, too."""
    plain = scorer_of(model)
    given, relation = np.array([0, 2]), np.array([0, 1])
    return np.array_equal(scorer.candidates("tail"), plain.candidates("tail")[::-1]) and np.array_equal(
        scorer.encode_queries("head", given, relation), plain.encode_queries("head", 2 - given, 1 - relation)
    )


def test_a_pickled_model_is_refused_and_the_safe_way_named(folder):
    error = refusal(folder)
    assert "trained_model.pkl is a pickle" in error.problems[0]
    assert "save_for_ranking(result.model, result.training, FOLDER)" in error.remedy
    assert "--trust-pickle" in error.remedy


def test_nothing_of_a_pickle_runs_unless_it_is_trusted(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    for name in ("trained_model.pkl", "model_state.pt"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kgprobe.json").write_text(
            json.dumps({"model": "TransE", "num_entities": 3, "num_relations": 2}), encoding="utf-8"
        )
        torch.save({"weight": Trap()}, folder / name)
        refusal(folder)
        (folder / name).write_bytes(pickle.dumps(Trap()))
        refusal(folder)
    assert not (tmp_path / "sprung").exists()


def test_a_trusted_pickle(folder, result):
    name, scorer, facts = open_pykeen(folder, GRAPH, trust_pickle=True)
    assert name == "ComplEx"
    assert same_vectors(scorer, result.model)
    assert facts["parameters"] == result.model.num_parameters
    assert json.loads(json.dumps(facts)) == facts


def test_the_safe_way_into_the_same_folder(folder, result):
    save_for_ranking(result.model, result.training, folder)
    name, scorer, facts = open_pykeen(folder, GRAPH)
    assert (name, facts["model_kwargs"]) == ("ComplEx", {"embedding_dim": 4})
    assert same_vectors(scorer, result.model)


def test_weights_come_before_the_pickle_even_if_it_is_trusted(folder, result):
    save_for_ranking(result.model, None, folder)
    (folder / "trained_model.pkl").write_bytes(b"not a pickle at all")
    assert same_vectors(open_pykeen(folder, GRAPH, trust_pickle=True)[1], result.model)


@pytest.mark.parametrize("name", ["model_state.pt", "state_dict.pt"])
def test_weights_and_settings_by_hand(tmp_path, result, name):
    torch.save(result.model.state_dict(), tmp_path / name)
    settings = {"model": "complex", "model_kwargs": {"embedding_dim": 4}, "num_entities": 3, "num_relations": 2}
    (tmp_path / "kgprobe.json").write_text(json.dumps(settings), encoding="utf-8")
    _, scorer, _ = open_pykeen(tmp_path, GRAPH)
    assert np.array_equal(scorer.candidates("tail"), scorer_of(result.model).candidates("tail"))


def test_weights_without_settings(tmp_path, result):
    torch.save(result.model.state_dict(), tmp_path / "model_state.pt")
    error = refusal(tmp_path)
    assert error.problems == ["it is missing"]
    assert '"model": "ComplEx"' in error.remedy


def test_several_weights(folder, result):
    save_for_ranking(result.model, None, folder)
    torch.save(result.model.state_dict(), folder / "state_dict.pt")
    assert refusal(folder).problems == ["weights in model_state.pt, state_dict.pt"]


@pytest.mark.parametrize("made", [False, True], ids=["no folder", "empty"])
def test_no_model(tmp_path, made):
    place = tmp_path / "place"
    if made:
        place.mkdir()
    error = refusal(place)
    assert ("none of" in error.problems[0]) if made else (error.problems == ["no such folder"])
    assert not is_saved_pykeen(place)


def test_what_looks_like_a_saved_model(folder):
    assert is_saved_pykeen(folder)
    assert not is_saved_pykeen(folder / "training_triples")


@pytest.mark.parametrize("kept", [0, 100, -100])
def test_a_trusted_pickle_that_is_truncated(folder, kept):
    path = folder / "trained_model.pkl"
    path.write_bytes(path.read_bytes()[:kept])
    assert "cannot be loaded" in refusal(folder, trust_pickle=True).title


def test_a_trusted_pickle_of_something_else(folder):
    torch.save({"a": 1}, folder / "trained_model.pkl")
    assert refusal(folder, trust_pickle=True).problems == ["it holds a dict"]


def test_another_graph(folder, result):
    save_for_ranking(result.model, result.training, folder)
    other = KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [1, 1, 2]], entity_labels=["a", "b", "d"], relation_labels=["likes", "knows"]
    )
    with pytest.raises(DataError, match="do not fit") as caught:
        open_pykeen(folder, other)
    assert caught.value.problems == [
        "1 entities that only the graph has: 'd'",
        "1 entities that only the model has: 'c'",
    ]


def test_a_library_that_is_not_installed(folder, monkeypatch):
    monkeypatch.setattr(saved, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        open_pykeen(folder, GRAPH)
    assert caught.value.remedy == "pip install 'kgprobe[pykeen]'"
