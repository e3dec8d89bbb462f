"""Settings that say what they mean and which values make sense.

Models by name.
"""

import dataclasses
import importlib.util
import math
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kgprobe.errors import UsageError
from kgprobe.models.embedding_model import EmbeddingModel, Sizes
from kgprobe.models.house import HousEOptions
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import MODELS, ModelKind, build, model_kind, option, problems


@dataclasses.dataclass(frozen=True)
class Options:
    count: int = option(3, "a count", least=1, most=9)
    rate: float = option(0.5, "a rate", above=0)
    kind: str = option("plain", "a kind", choices=("plain", "odd"))
    both: bool = option(False, "a switch")
    names: tuple[str, ...] = option(("one",), "names")
    rates: tuple[float, ...] = option((0.5, 1.0), "rates", least=0)
    unchecked: Any = None

    def problems(self) -> Iterator[str]:
        if self.count == 4 and self.both:
            yield "both makes no sense for 4"


WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "too small": ({"count": 0}, ["count is 0, and must be at least 1"]),
    "too large": ({"count": 10}, ["count is 10, and must be at most 9"]),
    "not above": ({"rate": 0.0}, ["rate is 0.0, and must be above 0"]),
    "no number": ({"rate": math.nan}, ["rate is nan, and must be a number"]),
    "infinite": ({"rate": math.inf}, ["rate is inf, and must be a number"]),
    "a fraction": ({"count": 2.5}, ["count is 2.5, and must be a whole number"]),
    "a switch for a count": ({"count": True}, ["count is True, and must be a whole number"]),
    "a switch for a rate": ({"rate": True}, ["rate is True, and must be a number"]),
    "a count for a switch": ({"both": 1}, ["both is 1, and must be true or false"]),
    "a text for a list": ({"names": "one"}, ["names is 'one', and must be a list"]),
    "no text": ({"kind": 3}, ["kind is 3, and must be a text"]),
    "no choice": ({"kind": "even"}, ["kind is 'even', and must be one of plain, odd"]),
    "no texts in a list": ({"names": ("one", 2)}, ["a value of names is 2, and must be a text"]),
    "an empty list": ({"rates": ()}, ["rates is empty, and must have one value or more"]),
    "too small in a list": (
        {"rates": (-1.0, 2, -3.0)},
        ["a value of rates is -1.0, and must be", "a value of rates is -3.0"],
    ),
    "no number in a list": ({"rates": (0.5, "x")}, ["a value of rates is 'x', and must be a number"]),
    "all at once": ({"count": 0, "rate": -1, "kind": ""}, ["count is 0", "rate is -1", "kind is ''"]),
    "together": ({"count": 4, "both": True}, ["both makes no sense for 4"]),
    "first by itself": ({"count": 4, "both": True, "rate": 0}, ["rate is 0, and must be above 0"]),
}


@pytest.mark.parametrize(("values", "expected"), WRONG.values(), ids=WRONG)
def test_all_that_is_wrong_is_said(values: dict[str, Any], expected: list[str]) -> None:
    found = list(problems(Options(**values)))
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    "values",
    [{}, {"count": 1}, {"count": 9}, {"rate": 2}, {"kind": "odd"}, {"both": True}, {"rates": (0, 3.5)}],
    ids=str,
)
def test_what_makes_sense_is_no_problem(values: dict[str, Any]) -> None:
    assert list(problems(Options(**values))) == []


@pytest.mark.parametrize("kind", MODELS.values(), ids=MODELS)
def test_the_defaults_of_a_model_make_sense(kind: Any) -> None:
    defaults = kind.load().Options()
    assert list(problems(defaults)) == []
    assert all(field.metadata["meaning"] for field in dataclasses.fields(defaults))
    counts = [field.name for field in dataclasses.fields(defaults) if field.metadata["least"] == 1]
    assert counts, "a model has at least one number that cannot be 0"
    nothing = {name: 0 for name in counts if type(getattr(defaults, name)) is int}
    wrong = [f"{name} is 0, and must be at least 1" for name in nothing]
    assert list(problems(dataclasses.replace(defaults, **nothing))) == wrong


def test_blocks_must_fill_a_vector() -> None:
    found = list(problems(HousEOptions(dimension=10, block=4)))
    assert found == ["dimension is 10, and must be a multiple of block, which is 4"]
    assert list(problems(HousEOptions(dimension=10, block=0))) == ["block is 0, and must be at least 1"]


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
    model = build(kind.key.upper(), Sizes(entities=5, relations=2), options, RandomStreams([0, 1, 2], "cpu"))
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
