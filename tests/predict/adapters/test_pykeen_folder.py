import json
import pickle
import zipfile

import numpy as np
import pytest
import torch
from pykeen.models import TransE
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory
from safetensors.torch import save_file

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters import pykeen_folder
from kgprobe.predict.adapters.pykeen_folder import (
    STATE_FILES,
    is_saved_pykeen,
    load_weights,
    open_pykeen,
    save_for_ranking,
)
from kgprobe.predict.adapters.pykeen_scorer import PykeenEmbeddings, scorer_of

TRIPLES = np.array([["b", "likes", "a"], ["a", "knows", "c"], ["c", "knows", "b"]])

GRAPH = KnowledgeGraph.from_triples(
    train=[[0, 0, 1], [1, 1, 2], [2, 1, 0]], entity_labels=["c", "b", "a"], relation_labels=["likes", "knows"]
)

GIVEN, RELATION = np.array([0, 1, 2, 0]), np.array([0, 1, 0, 1])


def scores(scorer, side):
    if hasattr(scorer, "score"):
        return scorer.score(side, GIVEN, RELATION).numpy()
    return scorer.similarity.canonical(
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
    found, scorer, metadata = open_pykeen(tmp_path, GRAPH)
    assert found == name
    assert metadata["create_inverse_triples"] is inverse
    assert json.loads(json.dumps(metadata)) == metadata
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
    _, scorer, metadata = open_pykeen(tmp_path / "with", GRAPH)
    assert metadata["model_kwargs"]["embedding_dim"] == 5
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
    assert "its scores differ" in caught.value.problems[0]
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
    assert isinstance(scorer_of(model), PykeenEmbeddings)


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
def saved_folder(result, tmp_path):
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


def test_a_pickled_model_is_refused_and_the_safe_way_named(saved_folder):
    error = refusal(saved_folder)
    assert "trained_model.pkl is a pickle" in error.problems[0]
    assert "save_for_ranking(result.model, result.training, FOLDER)" in error.remedy
    assert "trust_pickle=True" in error.remedy


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


def test_a_trusted_pickle(saved_folder, result):
    name, scorer, metadata = open_pykeen(saved_folder, GRAPH, trust_pickle=True)
    assert name == "ComplEx"
    assert same_vectors(scorer, result.model)
    assert metadata["parameters"] == result.model.num_parameters
    assert json.loads(json.dumps(metadata)) == metadata


def test_the_safe_way_into_the_same_folder(saved_folder, result):
    save_for_ranking(result.model, result.training, saved_folder)
    name, scorer, metadata = open_pykeen(saved_folder, GRAPH)
    assert (name, metadata["model_kwargs"]) == ("ComplEx", {"embedding_dim": 4})
    assert same_vectors(scorer, result.model)


def test_weights_come_before_the_pickle_even_if_it_is_trusted(saved_folder, result):
    save_for_ranking(result.model, None, saved_folder)
    (saved_folder / "trained_model.pkl").write_bytes(b"not a pickle at all")
    assert same_vectors(open_pykeen(saved_folder, GRAPH, trust_pickle=True)[1], result.model)


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


def test_several_weights(saved_folder, result):
    save_for_ranking(result.model, None, saved_folder)
    torch.save(result.model.state_dict(), saved_folder / "state_dict.pt")
    assert refusal(saved_folder).problems == ["weights in model_state.pt, state_dict.pt"]


@pytest.mark.parametrize("made", [False, True], ids=["no folder", "empty"])
def test_no_model(tmp_path, made):
    place = tmp_path / "place"
    if made:
        place.mkdir()
    error = refusal(place)
    assert ("none of" in error.problems[0]) if made else (error.problems == ["no such folder"])
    assert not is_saved_pykeen(place)


def test_what_looks_like_a_saved_model(saved_folder):
    assert is_saved_pykeen(saved_folder)
    assert not is_saved_pykeen(saved_folder / "training_triples")


@pytest.mark.parametrize("kept", [0, 100, -100])
def test_a_trusted_pickle_that_is_truncated(saved_folder, kept):
    path = saved_folder / "trained_model.pkl"
    path.write_bytes(path.read_bytes()[:kept])
    assert "cannot be loaded" in refusal(saved_folder, trust_pickle=True).title


def test_a_trusted_pickle_of_something_else(saved_folder):
    torch.save({"a": 1}, saved_folder / "trained_model.pkl")
    assert refusal(saved_folder, trust_pickle=True).problems == ["it contains a dict"]


def test_another_graph(saved_folder, result):
    save_for_ranking(result.model, result.training, saved_folder)
    other = KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [1, 1, 2]], entity_labels=["a", "b", "d"], relation_labels=["likes", "knows"]
    )
    with pytest.raises(DataError, match="do not fit") as caught:
        open_pykeen(saved_folder, other)
    assert caught.value.problems == [
        "1 entities that only the graph has: 'd'",
        "1 entities that only the model has: 'c'",
    ]


def test_a_library_that_is_not_installed(saved_folder, monkeypatch):
    monkeypatch.setattr(pykeen_folder, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        open_pykeen(saved_folder, GRAPH)
    assert caught.value.remedy == "pip install 'kgprobe[pykeen]'"


def written(folder, state, name=STATE_FILES[0]):
    path = folder / name
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)
    return path


@pytest.mark.parametrize("name", STATE_FILES)
def test_weights_come_back(tmp_path, make, name):
    model, other = make("ComplEx", embedding_dim=4), make("ComplEx", embedding_dim=4)
    for parameter in other.parameters():
        parameter.data.zero_()
    load_weights(other, written(tmp_path, model.state_dict(), name))
    assert all(torch.equal(tensor, other.state_dict()[key]) for key, tensor in model.state_dict().items())


def test_what_only_training_needs_may_differ(tmp_path, make):
    """A state dict has the numbers of the regulariser, which need not be known to score."""
    plain, regularised = make("ComplEx", embedding_dim=4, regularizer=None), make("ComplEx", embedding_dim=4)
    for source, target in ((regularised, plain), (plain, regularised)):
        for parameter in target.parameters():
            parameter.data.zero_()
        load_weights(target, written(tmp_path, source.state_dict()))
        assert all(map(torch.equal, source.parameters(), target.parameters()))
        assert any(parameter.any() for parameter in target.parameters())


def test_every_difference_is_named(tmp_path, make):
    state = make("TransE", embedding_dim=4).state_dict()
    state["extra"] = torch.zeros(1)
    path = written(tmp_path, state)
    with pytest.raises(DataError, match="not the weights of this TuckER model") as caught:
        load_weights(make("TuckER", embedding_dim=5, apply_batch_normalization=False), path)
    assert caught.value.problems == [
        "interaction.core_tensor is missing",
        "extra is not part of such a model",
        "entity_representations.0._embeddings.weight has the shape [23, 4], expected [23, 5]",
        "relation_representations.0._embeddings.weight has the shape [5, 4], expected [5, 5]",
    ]


@pytest.mark.parametrize("name", STATE_FILES)
@pytest.mark.parametrize("kept", [0, 10, 300, -40])
def test_truncated(tmp_path, make, name, kept):
    path = written(tmp_path, make("TransE", embedding_dim=4).state_dict(), name)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match="not the weights of a model") as caught:
        load_weights(make("TransE", embedding_dim=4), path)
    [problem] = caught.value.problems
    assert problem
    assert "weights_only" not in problem
    assert "torch.save(model.state_dict()" in caught.value.remedy


def test_pykeens_own_state_files_are_a_kind_of_pickle_that_is_not_safe_to_load(tmp_path, make):
    model = make("TransE", embedding_dim=4)
    model.save_state(tmp_path / "model_state.pt")
    with pytest.raises(DataError) as caught:
        load_weights(model, tmp_path / "model_state.pt")
    assert "such as those that PyKEEN's model.save_state writes" in caught.value.problems[0]
    assert "torch.save(model.state_dict()" in caught.value.remedy


def test_a_whole_model_is_not_loaded(tmp_path, make):
    model = make("TransE", embedding_dim=4)
    with pytest.raises(DataError) as caught:
        load_weights(model, written(tmp_path, model))
    assert caught.value.problems == ["it contains Python objects, which are not loaded"]


@pytest.mark.parametrize("state", [{"epoch": 3}, [torch.zeros(1)], torch.zeros(1)], ids=["number", "list", "tensor"])
def test_other_things_than_tensors_by_name(tmp_path, make, state):
    with pytest.raises(DataError) as caught:
        load_weights(make("TransE", embedding_dim=4), written(tmp_path, state))
    assert caught.value.problems == ["it is not a dictionary of tensors"]


def test_safetensors_that_is_not_installed(tmp_path, make, monkeypatch):
    model = make("TransE", embedding_dim=4)
    path = written(tmp_path, model.state_dict(), "model.safetensors")
    monkeypatch.setattr(pykeen_folder, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        load_weights(model, path)
    assert caught.value.remedy == "pip install 'kgprobe[models]'"


def saved(folder, make, model="TransE", **changes):
    """A sound folder with some of its settings changed."""
    save_for_ranking(make(model, entities=3, relations=2, embedding_dim=4), None, folder)
    path = folder / "kgprobe.json"
    content = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({name: value for name, value in content.items() if name != "sha256"}), encoding="utf-8")
    return folder


def test_sizes_are_compared_before_the_model_is_built(tmp_path, make):
    """Its embeddings would take more memory than any machine has."""
    folder = saved(tmp_path, make, num_entities=2 * 10**9, model_kwargs={"embedding_dim": 10**6})
    error = refusal(folder)
    assert "do not fit" in error.title
    assert error.problems == ["the model has 2,000,000,000 entities, the graph 3"]


def test_weights_are_compared_before_the_model_is_built(tmp_path, make):
    error = refusal(saved(tmp_path, make, model_kwargs={"embedding_dim": 10**14}))
    assert "not the weights of this TransE model" in error.title
    assert error.problems[0].endswith("has the shape [3, 4], expected [3, 100000000000000]")


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        ("TransE", {"scoring_fct_norm": {"p": 1}}),
        ("TransE", {"scoring_fct_norm": [1, 2]}),
        ("TransE", {"scoring_fct_norm": 10**400}),
        ("TransE", {"power_norm": {}, "scoring_fct_norm": {}}),
        ("TransH", {"scoring_fct_norm": {"p": 1}}),
        ("TransE", {"embedding_dim": 4.5}),
        ("TransE", {"embedding_dim": 10**400}),
        ("DistMult", {"entity_initializer": {"a": 1}}),
    ],
    ids=["dict", "list", "10^400", "dicts", "TransH", "fraction", "dimension 10^400", "initializer"],
)
def test_arguments_of_the_wrong_type(tmp_path, make, model, arguments):
    error = refusal(saved(tmp_path, make, model, model_kwargs={"embedding_dim": 4} | arguments))
    assert "kgprobe.json" in error.title
    assert len(str(error)) < 1000


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({3: torch.zeros(1)}, "not a dictionary of tensors"),
        ({"a": torch.zeros(2, 2).to_sparse()}, "a is not a dense tensor"),
        ({"a": torch.zeros(2, device="meta")}, "a is not a dense tensor"),
    ],
    ids=["number as name", "sparse", "meta"],
)
def test_odd_tensors_are_refused(tmp_path, make, state, problem):
    with pytest.raises(DataError) as caught:
        load_weights(make("TransE", embedding_dim=4), written(tmp_path, state))
    assert problem in caught.value.problems[0]


def test_complex_weights_of_a_real_model(tmp_path, make):
    """torch would drop their imaginary parts."""
    state = make("TransE", embedding_dim=4).state_dict()
    name = "entity_representations.0._embeddings.weight"
    state[name] = state[name].to(torch.complex64)
    with pytest.raises(DataError) as caught:
        load_weights(make("TransE", embedding_dim=4), written(tmp_path, state))
    assert caught.value.problems == [f"{name} holds torch.complex64, expected torch.float32"]


@pytest.mark.parametrize("name", [STATE_FILES[0], "kgprobe.json"])
def test_flipped_bits_are_refused_or_change_nothing(tmp_path, make, name):
    folder = tmp_path
    save_for_ranking(make("TransE", entities=3, relations=2, embedding_dim=4), None, folder)
    path = folder / name
    sound, expected = path.read_bytes(), scores(open_pykeen(folder, GRAPH)[1], "tail")
    refused = 0
    for bit in np.random.default_rng(0).choice(8 * len(sound), 150, replace=False).tolist():
        content = bytearray(sound)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        try:
            found = scores(open_pykeen(folder, GRAPH)[1], "tail")
        except DataError:
            refused += 1
            continue
        assert found.tobytes() == expected.tobytes(), f"bit {bit % 8} of byte {bit // 8}"
    assert refused


def test_weights_that_unpack_beyond_the_limit(tmp_path, make):
    path = written(tmp_path, make("TransE", embedding_dim=4).state_dict())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/data/9", b"0")
        archive.infolist()[-1].file_size = 1 << 50
    with pytest.raises(DataError) as caught:
        load_weights(make("TransE", embedding_dim=4), path)
    assert "more than the limit" in caught.value.problems[0]


def test_settings_that_were_changed_after_they_were_written(tmp_path, make):
    save_for_ranking(make("TransE", entities=3, relations=2, embedding_dim=4), None, tmp_path)
    path = tmp_path / "kgprobe.json"
    text = path.read_text(encoding="utf-8")
    assert '"scoring_fct_norm": 1' in text
    path.write_text(text.replace('"scoring_fct_norm": 1', '"scoring_fct_norm": 3'), encoding="utf-8")
    assert refusal(tmp_path).problems == ["it has changed since it was written; if you edited it, remove 'sha256'"]
