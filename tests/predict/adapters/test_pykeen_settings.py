import json
import random
from dataclasses import asdict

import numpy as np
import pykeen.models
import pytest
import torch
from pykeen.losses import loss_resolver
from pykeen.nn.init import initializer_resolver
from pykeen.nn.modules import activation_resolver, kg2e_similarity_resolver
from pykeen.nn.representation import constrainer_resolver, normalizer_resolver
from pykeen.regularizers import regularizer_resolver

from kgprobe.errors import DataError
from kgprobe.predict.adapters.pykeen_settings import EXAMPLE, MODELS, ModelSettings

GOOD = {"model": "TransE", "num_entities": 4, "num_relations": 2}


def read(folder, content):
    path = folder / "kgprobe.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return ModelSettings.read(path)


def test_round_trip(tmp_path):
    settings = ModelSettings("TuckER", 4, 2, {"embedding_dim": 3}, create_inverse_triples=True)
    assert read(tmp_path, json.dumps(asdict(settings))) == settings


def test_the_example_of_the_remedy_is_good(tmp_path):
    assert read(tmp_path, EXAMPLE).model_kwargs == {"embedding_dim": 200}


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        ("{", ["not readable as JSON"]),
        ("[]", ["not a JSON object"]),
        ({}, ["no 'model'", "no 'num_entities'", "no 'num_relations'"]),
        (GOOD | {"num_entities": "4"}, ["'num_entities' must be a positive integer, found \"4\""]),
        (GOOD | {"num_entities": True}, ["'num_entities' must be a positive integer, found true"]),
        (GOOD | {"num_relations": 0}, ["'num_relations' must be a positive integer"]),
        (GOOD | {"model": 3, "model_kwargs": []}, ["'model' must be the name of", "'model_kwargs' must be an object"]),
        (
            GOOD | {"create_inverse_triples": 1, "modle": 1},
            ["unknown setting 'modle'", "must be true or false, found 1"],
        ),
    ],
)
def test_bad_settings(tmp_path, content, problems):
    with pytest.raises(DataError, match=r"kgprobe\.json: invalid settings") as caught:
        read(tmp_path, content)
    assert len(caught.value.problems) == len(problems)
    assert all(wanted in said for wanted, said in zip(problems, caught.value.problems, strict=True))
    assert EXAMPLE in caught.value.remedy


def test_a_file_that_is_missing_or_not_text(tmp_path):
    with pytest.raises(DataError) as caught:
        ModelSettings.read(tmp_path / "kgprobe.json")
    assert caught.value.problems == ["it is missing"]
    (tmp_path / "kgprobe.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="invalid settings"):
        ModelSettings.read(tmp_path / "kgprobe.json")


def test_inverse_relations_are_counted_by_pykeen():
    model = ModelSettings("transe", 4, 2, create_inverse_triples=True).build()
    assert (model.num_entities, model.num_real_relations, model.num_relations) == (4, 2, 4)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (ModelSettings("ComplexE", 4, 2), "'ComplexE' is not a supported PyKEEN model; nearest: ComplEx"),
        (ModelSettings("", 4, 2), "'' is not a supported PyKEEN model; there are: AutoSF, BoxE, "),
        (ModelSettings("os:system", 4, 2), "'os:system' is not a supported PyKEEN model"),
        (ModelSettings("TransE", 4, 2, {"dimension": 3}), 'TransE with {"dimension": 3}: TypeError'),
        (ModelSettings("TransE", 4, 2, {"embedding_dim": -3}), 'TransE with {"embedding_dim": -3}: RuntimeError'),
        (ModelSettings("RGCN", 4, 2), "'RGCN' is not a supported PyKEEN model"),
    ],
)
def test_models_that_cannot_be_built(settings, problem):
    with pytest.raises(DataError) as caught:
        settings.build()
    [said] = caught.value.problems
    assert said.startswith(problem)
    assert "\n" not in said


def test_building_disturbs_nobodys_randomness():
    def draw():
        return torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random()  # noqa: NPY002

    def seed():
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)

    seed()
    wanted = draw()
    seed()
    ModelSettings("ComplEx", 4, 2, {"random_seed": 7}).build()
    assert draw() == wanted


@pytest.mark.parametrize("name", MODELS)
def test_supported_models_are_built_with_the_shapes_that_were_announced(name):
    settings = ModelSettings(name, 7, 3, create_inverse_triples=name == "ConvE")
    announced, built = (settings.build(shapes_only=shapes).state_dict() for shapes in (True, False))
    assert {tensor.device.type for tensor in built.values()} == {"cpu"}
    assert type(settings.build()) is getattr(pykeen.models, name)
    assert {key: tensor.shape for key, tensor in announced.items()} == {
        key: tensor.shape for key, tensor in built.items()
    }


def test_shapes_take_no_memory():
    model = ModelSettings("TransE", 10**9, 2, {"embedding_dim": 10**6}).build(shapes_only=True)
    assert model.entity_representations[0].shape == (10**6,)


OTHER_MODULES = {"module", "Module", "nondynamicallyquantizablelinear", "NonDynamicallyQuantizableLinear"}
"""Listed as activations, because they are defined in the same module of torch."""


@pytest.mark.parametrize(
    "resolver",
    [
        initializer_resolver,
        constrainer_resolver,
        normalizer_resolver,
        regularizer_resolver,
        loss_resolver,
        activation_resolver,
        kg2e_similarity_resolver,
    ],
    ids=["initializers", "constrainers", "normalizers", "regularizers", "losses", "activations", "similarities"],
)
def test_all_parts_of_pykeen_can_be_named(tmp_path, resolver):
    """Those that PyKEEN finds by name are supported under the name that it uses, and under that of the class."""
    for key, part in resolver.lookup_dict.items():
        for name in {key, key if resolver is initializer_resolver else part.__name__} - OTHER_MODULES:
            read(tmp_path, GOOD | {"model_kwargs": {"part": name}})


@pytest.mark.parametrize(
    "arguments",
    [
        {"entity_initializer": "os:system"},
        {"entity_representations": ["Text"]},
        {"entity_representations_kwargs": {"initializer": {"class": "pykeen.nn.init.PretrainedInitializer"}}},
        {"loss": "http://example.org"},
    ],
    ids=["path", "representation", "nested", "address"],
)
def test_other_classes_are_refused_with_the_list_of_the_supported(tmp_path, arguments):
    with pytest.raises(DataError, match="invalid settings") as caught:
        read(tmp_path, GOOD | {"model_kwargs": arguments})
    assert next(iter(arguments)) in caught.value.problems[0]
    assert "xavier_uniform" in caught.value.problems[-1]
    with pytest.raises(DataError, match="cannot be rebuilt"):
        ModelSettings("TransE", 4, 2, arguments).build()


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        '{"model": "TransE", "num_relations": 2, "num_entities": ' + "1" * 5000 + "}",
        json.dumps(GOOD | {"num_entities": 10**400}),
        '{"model": "TransE", "model_kwargs": ' + '{"a": ' * 100_000,
        " " * (2 << 20) + json.dumps(GOOD),
    ],
    ids=["deep", "5,000 digits", "10^400", "deep arguments", "long"],
)
def test_json_that_claims_the_impossible(tmp_path, content):
    with pytest.raises(DataError, match=r"kgprobe\.json: invalid settings") as caught:
        read(tmp_path, content)
    assert len(str(caught.value)) < 1000
