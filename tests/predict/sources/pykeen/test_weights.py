import pytest
import torch
from safetensors.torch import save_file

from kgprobe import DataError, UsageError
from kgprobe.predict.sources.pykeen import weights
from kgprobe.predict.sources.pykeen.weights import STATE_FILES, load_weights


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
    assert "such as PyKEEN's model.save_state writes" in caught.value.problems[0]
    assert "torch.save(model.state_dict()" in caught.value.remedy


def test_a_whole_model_is_not_loaded(tmp_path, make):
    model = make("TransE", embedding_dim=4)
    with pytest.raises(DataError) as caught:
        load_weights(model, written(tmp_path, model))
    assert caught.value.problems == ["it holds Python objects, which are not loaded"]


@pytest.mark.parametrize("state", [{"epoch": 3}, [torch.zeros(1)], torch.zeros(1)], ids=["number", "list", "tensor"])
def test_other_things_than_tensors_by_name(tmp_path, make, state):
    with pytest.raises(DataError) as caught:
        load_weights(make("TransE", embedding_dim=4), written(tmp_path, state))
    assert caught.value.problems == ["it does not hold tensors by name"]


def test_safetensors_that_is_not_installed(tmp_path, make, monkeypatch):
    model = make("TransE", embedding_dim=4)
    path = written(tmp_path, model.state_dict(), "model.safetensors")
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        load_weights(model, path)
    assert caught.value.remedy == "pip install 'kgprobe[models]'"
