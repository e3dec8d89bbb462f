"""Models by name."""

import dataclasses
import importlib.util
import subprocess
import sys

import pytest
import torch

from kgprobe.errors import UsageError
from kgprobe.models.embedding_model import EmbeddingModel, Sizes
from kgprobe.models.random_streams import Noise
from kgprobe.models.registry import MODELS, ModelKind, build, model_kind

EMBEDDINGS = ("transe", "distmult", "complex", "rotate", "house", "tucker")


@pytest.mark.parametrize("kind", MODELS.values(), ids=MODELS)
def test_every_model_has_a_class_and_settings(kind: ModelKind) -> None:
    model = kind.load()
    assert model.__name__.lower() == kind.key
    assert dataclasses.is_dataclass(model.Options())
    assert kind.summary


@pytest.mark.parametrize("kind", [MODELS[key] for key in EMBEDDINGS], ids=EMBEDDINGS)
def test_every_embedding_model_can_be_built(kind: ModelKind) -> None:
    options = kind.load().Options(dimension=8)
    model = build(kind.key.upper(), Sizes(entities=5, relations=2), options, Noise([0, 1, 2], "cpu"))
    assert isinstance(model, EmbeddingModel)
    assert type(model).__name__ == kind.name
    assert model.entity.shape[:2] == (3, 5)
    scores = model.score_all("tail", torch.zeros(3, 4, dtype=torch.int64), torch.ones(3, 4, dtype=torch.int64))
    assert scores.shape == (3, 4, 5)
    assert scores.isfinite().all()


def test_names_in_capitals_or_not() -> None:
    assert model_kind("rotate") is model_kind("RotatE") is MODELS["rotate"]


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match="there is no model 'rotates'; nearest: RotatE"):
        model_kind("rotates")
    with pytest.raises(
        UsageError, match="there are: TransE, DistMult, ComplEx, RotatE, HousE, TuckER, pLogicNet, RNNLogic"
    ):
        model_kind("zzz")


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("kgprobe.models.registry.find_spec", lambda name: None if name == "torch" else found(name))
    with pytest.raises(UsageError) as error:
        model_kind("tucker").load()
    assert str(error.value) == "TuckER needs torch\nRemedy: pip install 'kgprobe[models]'"


def test_names_are_known_before_torch_is_loaded() -> None:
    code = "import sys, kgprobe.models.registry as r; r.model_kind('house'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
