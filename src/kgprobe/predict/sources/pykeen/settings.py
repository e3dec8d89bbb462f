"""What it takes to build a PyKEEN model again, before its weights are put back."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.errors import DataError

if TYPE_CHECKING:
    from pykeen.models import Model

SETTINGS_FILE = "kgprobe.json"
EXAMPLE = '{"model": "ComplEx", "model_kwargs": {"embedding_dim": 200}, "num_entities": 14541, "num_relations": 237}'
"""All that must be in the file; "create_inverse_triples": true is added for a model with inverse relations."""

_KINDS: Mapping[str, tuple[type, str]] = {
    "model": (str, "the name of a PyKEEN model"),
    "model_kwargs": (dict, "an object"),
    "num_entities": (int, "a whole number"),
    "num_relations": (int, "a whole number"),
    "create_inverse_triples": (bool, "true or false"),
}
_NEEDED = ("model", "num_entities", "num_relations")


@dataclass(frozen=True)
class ModelSettings:
    """How a model was made.

    Attributes:
        model: Name of its class.
        num_entities: Number of entities.
        num_relations: Number of relations, not counting inverses.
        model_kwargs: What else the class was given.
        create_inverse_triples: Whether it has an inverse of every relation.

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
        """The settings in a file.

        Raises:
            DataError: There is no such file, or it lacks something, or has something of the wrong kind.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problem = "it is missing" if isinstance(error, FileNotFoundError) else f"not readable as JSON: {error}"
            raise _bad_settings(path, [problem]) from None
        if not isinstance(found, dict):
            raise _bad_settings(path, ["not an object of names and values"])
        problems = [f"no {name!r}" for name in _NEEDED if name not in found]
        problems += [f"unknown setting {name!r}" for name in found if name not in _KINDS]
        problems += [
            f"{name!r} must be {wanted}, found {json.dumps(found[name])}"
            for name, (kind, wanted) in _KINDS.items()
            if name in found and (type(found[name]) is not kind or (kind is int and found[name] < 1))
        ]
        if problems:
            raise _bad_settings(path, problems)
        return cls(**found)

    def text(self) -> str:
        """The settings as they are written to a file."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def build(self) -> Model:
        """The model with fresh weights.

        Raises:
            DataError: PyKEEN has no such model, or cannot make one with these settings.
        """
        import torch
        from pykeen.models import model_resolver
        from pykeen.triples import KGInfo
        from pykeen.utils import NoRandomSeedNecessary

        try:
            kind = model_resolver.lookup(self.model)
        except KeyError:
            known = {cls.__name__.lower(): cls.__name__ for cls in model_resolver}
            near = [known[name] for name in difflib.get_close_matches(self.model.lower(), known, n=3)]
            problem = f"PyKEEN has no model {self.model!r}" + (f"; nearest: {', '.join(near)}" if near else "")
            raise DataError("the model cannot be built again", [problem]) from None
        facts = KGInfo(self.num_entities, self.num_relations, self.create_inverse_triples)
        fixed = {"triples_factory": facts, "random_seed": NoRandomSeedNecessary}
        try:
            # Fresh weights are drawn at random and then replaced: that must not disturb anybody else's randomness.
            with torch.random.fork_rng(devices=[]):
                model: Model = kind(**{**self.model_kwargs, **fixed})
        except Exception as error:  # whatever a constructor makes of settings that are not its own
            given = json.dumps(dict(self.model_kwargs))
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            raise DataError("the model cannot be built again", [f"{kind.__name__} with {given}: {said}"]) from None
        return model


def _bad_settings(path: Path, problems: list[str]) -> DataError:
    return DataError(
        f"{path}: the settings of the model cannot be used",
        problems,
        f"write {SETTINGS_FILE} beside the weights, for instance {EXAMPLE}",
    )
