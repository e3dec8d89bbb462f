"""Settings of a PyKEEN model in a file: read, checked against the classes that are supported, and built."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.bounded_files import parse_json, read_bounded
from kgprobe.errors import DataError, nearest
from kgprobe.json_files import HASH, content_hash

if TYPE_CHECKING:
    from pykeen.models import Model

SETTINGS_FILE = "kgprobe.json"

MODELS = (
    *("AutoSF", "BoxE", "CP", "ComplEx", "ConvE", "ConvKB", "CrossE", "DistMA", "DistMult", "ERMLP", "ERMLPE", "HolE"),
    *("KG2E", "MuRE", "NTN", "PairRE", "ProjE", "QuatE", "RESCAL", "RotatE", "SE", "SimplE", "TorusE", "TransD"),
    *("TransE", "TransF", "TransH", "TransR", "TuckER", "UM"),
)
"""The PyKEEN models that are built from a file. Those that need triples, literals or text are not."""

_PARTS = {
    "initializer": (
        *("constant", "dirac", "eye", "init_phases", "init_quaternions", "kaiming_normal", "kaiming_uniform", "normal"),
        *("normal_norm", "ones", "orthogonal", "sparse", "trunc_normal", "uniform", "uniform_norm", "xavier_normal"),
        *("xavier_normal_norm", "xavier_uniform", "xavier_uniform_norm", "zeros"),
    ),
    "constrainer or normalizer": ("clamp", "clamp_norm", "complex_normalize", "normalize", "softmax"),
    "regularizer": ("combined", "lp", "no", "norm_limit", "orthogonality", "power_sum"),
    "loss": (
        *("adversarial_bce_with_logits", "bce_after_sigmoid", "bce_with_logits", "cross_entropy", "double_margin"),
        *("focal", "info_nce", "margin_ranking", "mse", "nssa", "pairwise_logistic", "pointwise_hinge"),
        *("soft_margin_ranking", "soft_pointwise_hinge", "softplus"),
    ),
    "activation": (
        *("celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu"),
        *(
            "log_sigmoid",
            "log_softmax",
            "mish",
            "prelu",
            "relu",
            "relu6",
            "rrelu",
            "selu",
            "sigmoid",
            "silu",
            "softmax",
        ),
        *("softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold"),
    ),
    "similarity of KG2E": ("EL", "KL", "expected_likelihood", "negative_kullback_leibler_divergence"),
}
"""The names that a text in the arguments of a model may have. No class is imported by a path from a file."""

_ENDINGS = re.compile(r"(initializer|constrainer|normalizer|regularizer|loss|kg2esimilarity)$")

_MOST_BYTES = 1 << 20
_LARGEST = (1 << 31) - 1

EXAMPLE = '{"model": "ComplEx", "model_kwargs": {"embedding_dim": 200}, "num_entities": 14541, "num_relations": 237}'
"""The required settings; a model with inverse relations also has "create_inverse_triples": true."""

_KINDS: Mapping[str, tuple[type, str]] = {
    "model": (str, "the name of a PyKEEN model"),
    "model_kwargs": (dict, "an object"),
    "num_entities": (int, "a positive integer"),
    "num_relations": (int, "a positive integer"),
    "create_inverse_triples": (bool, "true or false"),
}

_NEEDED = ("model", "num_entities", "num_relations")


@dataclass(frozen=True)
class ModelSettings:
    """The arguments with which a model was created.

    Attributes:
        model: Name of its class.
        num_entities: Number of entities.
        num_relations: Number of relations, not counting inverses.
        model_kwargs: Other arguments of the class.
        create_inverse_triples: Whether the model has inverse relations.

    Example:
        >>> type(ModelSettings("transe", num_entities=9, num_relations=2).build()).__name__
        'TransE'
    """

    model: str
    num_entities: int
    num_relations: int
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)
    create_inverse_triples: bool = False

    @classmethod
    def read(cls, path: Path) -> ModelSettings:
        """Read settings from a file.

        Raises:
            DataError: The file is missing, or a setting is missing, unknown or of the wrong type.
        """
        try:
            content = parse_json(read_bounded(path, _MOST_BYTES))
        except (OSError, ValueError) as error:
            problem = "it is missing" if isinstance(error, FileNotFoundError) else f"not readable as JSON: {error}"
            raise _bad_settings(path, [problem]) from None
        if not isinstance(content, dict):
            raise _bad_settings(path, ["not a JSON object"])
        written = content.pop(HASH, None)  # a file that was written by hand has none
        changed = written is not None and written != content_hash(content)
        problems = [f"it has changed since it was written; if you edited it, remove {HASH!r}"] if changed else []
        problems += [f"no {name!r}" for name in _NEEDED if name not in content]
        problems += [f"unknown setting {name!r}" for name in content if name not in _KINDS]
        problems += [
            f"{name!r} must be {expected}, found {json.dumps(content[name])[:60]}"
            for name, (kind, expected) in _KINDS.items()
            if name in content
            and (type(content[name]) is not kind or (kind is int and not 1 <= content[name] <= _LARGEST))
        ]
        if not problems:
            problems = _class_problems(content["model"], content.get("model_kwargs", {}))
        if problems:
            raise _bad_settings(path, problems)
        return cls(**content)

    def build(self, *, shapes_only: bool = False) -> Model:
        """The model with fresh weights, or with weights that have a shape but take no memory.

        Raises:
            DataError: The model or a part of it is not supported, or cannot be created with these settings.
        """
        import pykeen.models
        import torch
        from pykeen.nn.quaternion import multiplication_table
        from pykeen.triples import KGInfo
        from pykeen.utils import NoRandomSeedNecessary

        if problems := _class_problems(self.model, self.model_kwargs):
            raise DataError("the model cannot be rebuilt", problems)
        kind: type[Model] = getattr(pykeen.models, _MODELS_BY_KEY[_key(self.model)])
        sizes = KGInfo(self.num_entities, self.num_relations, self.create_inverse_triples)
        multiplication_table()  # PyKEEN caches this tensor of QuatE, which must not be one without memory
        fixed = {"triples_factory": sizes, "random_seed": NoRandomSeedNecessary}
        try:
            # Fresh weights are random and then replaced: this must not advance the global random generator.
            with torch.random.fork_rng(devices=[]), torch.device("meta") if shapes_only else nullcontext():
                return kind(**{**self.model_kwargs, **fixed})
        except Exception as error:  # a constructor may raise anything on invalid settings
            raise self.failure("the model cannot be rebuilt", error) from None

    def failure(self, title: str, error: Exception) -> DataError:
        """The error for an exception that PyKEEN raised on these settings."""
        arguments = json.dumps(dict(self.model_kwargs))
        shown = arguments if len(arguments) <= 200 else f"{arguments[:200]}..."
        reason = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
        return DataError(title, [f"{_MODELS_BY_KEY[_key(self.model)]} with {shown}: {reason[:200]}"])


def _bad_settings(path: Path, problems: list[str]) -> DataError:
    return DataError(
        f"{path}: invalid settings of the model",
        problems,
        f"write {SETTINGS_FILE} beside the weights, for instance {EXAMPLE}",
    )


def _key(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).lower()


_MODELS_BY_KEY = {_key(name): name for name in MODELS}
_PART_KEYS = {_key(name) for names in _PARTS.values() for name in names}


def _class_problems(model: str, arguments: Mapping[str, Any]) -> list[str]:
    """The names that are none of the supported ones: of the model, and all texts in its arguments."""
    problems = []
    if _key(model) not in _MODELS_BY_KEY:
        near = nearest(model[:60], MODELS)
        supported = "" if "there are" in near else f"; supported: {', '.join(MODELS)}"
        problems.append(f"{model[:60]!r} is not a supported PyKEEN model{near}{supported}")
    wrong = [
        f"the argument {name[:60]!r} names {text[:60]!r}, which is not supported"
        for name, value in arguments.items()
        for text in _texts(value)
        if _ENDINGS.sub("", _key(text)) not in _PART_KEYS
    ]
    if wrong:
        wrong.append("supported: " + "; ".join(f"{kind}: {', '.join(names)}" for kind, names in _PARTS.items()))
    return problems + wrong


def _texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value, except the names of its entries."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
