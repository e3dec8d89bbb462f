import json
import random

import numpy as np
import pytest
import torch

from kgprobe import DataError
from kgprobe.predict.sources.pykeen.settings import EXAMPLE, ModelSettings

GOOD = {"model": "TransE", "num_entities": 4, "num_relations": 2}


def read(folder, content):
    path = folder / "kgprobe.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return ModelSettings.read(path)


def test_round_trip(tmp_path):
    settings = ModelSettings("TuckER", 4, 2, {"embedding_dim": 3}, create_inverse_triples=True)
    assert read(tmp_path, settings.text()) == settings


def test_the_example_of_the_remedy_is_good(tmp_path):
    assert read(tmp_path, EXAMPLE).model_kwargs == {"embedding_dim": 200}


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        ("{", ["not readable as JSON"]),
        ("[]", ["not an object of names and values"]),
        ({}, ["no 'model'", "no 'num_entities'", "no 'num_relations'"]),
        (GOOD | {"num_entities": "4"}, ["'num_entities' must be a whole number, found \"4\""]),
        (GOOD | {"num_entities": True}, ["'num_entities' must be a whole number, found true"]),
        (GOOD | {"num_relations": 0}, ["'num_relations' must be a whole number"]),
        (GOOD | {"model": 3, "model_kwargs": []}, ["'model' must be the name of", "'model_kwargs' must be an object"]),
        (
            GOOD | {"create_inverse_triples": 1, "modle": 1},
            ["unknown setting 'modle'", "must be true or false, found 1"],
        ),
    ],
)
def test_bad_settings(tmp_path, content, problems):
    with pytest.raises(DataError, match=r"kgprobe\.json: the settings") as caught:
        read(tmp_path, content)
    assert len(caught.value.problems) == len(problems)
    assert all(wanted in said for wanted, said in zip(problems, caught.value.problems, strict=True))
    assert EXAMPLE in caught.value.remedy


def test_a_file_that_is_missing_or_not_text(tmp_path):
    with pytest.raises(DataError) as caught:
        ModelSettings.read(tmp_path / "kgprobe.json")
    assert caught.value.problems == ["it is missing"]
    (tmp_path / "kgprobe.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be used"):
        ModelSettings.read(tmp_path / "kgprobe.json")


def test_inverse_relations_are_counted_by_pykeen():
    model = ModelSettings("transe", 4, 2, create_inverse_triples=True).build()
    assert (model.num_entities, model.num_real_relations, model.num_relations) == (4, 2, 4)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (ModelSettings("ComplexE", 4, 2), "PyKEEN has no model 'ComplexE'; nearest: ComplEx"),
        (ModelSettings("", 4, 2), "PyKEEN has no model ''"),
        (ModelSettings("TransE", 4, 2, {"dimension": 3}), 'TransE with {"dimension": 3}: TypeError'),
        (ModelSettings("TransE", 4, 2, {"embedding_dim": -3}), 'TransE with {"embedding_dim": -3}: RuntimeError'),
        (ModelSettings("RGCN", 4, 2), "RGCN with {}: "),
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
