"""Saved PyKEEN models: weights and settings without unpickling."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.errors import DataError, KgprobeError, UsageError
from kgprobe.files import replacing
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.predict.adapters.pykeen_names import ModelNames, read_names, scorer_for, write_names
from kgprobe.predict.adapters.pykeen_scorer import evaluating, is_pykeen
from kgprobe.predict.scorers import AnyScorer

if TYPE_CHECKING:
    from pykeen.models import Model
    from pykeen.triples import CoreTriplesFactory
    from torch import Tensor


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


STATE_FILES = ("model_state.pt", "state_dict.pt", "model.safetensors")

_TRAINING_ONLY = {"loss", "regularizer", "weight_regularizers"}

"""Parts of a model that take no part in its scores, so that their settings need not be known."""


def scoring_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a state dict that scores depend on.

    Example:
        >>> list(scoring_state({"entity_representations.0.regularizer.weight": 0, "interaction.core_tensor": 1}))
        ['interaction.core_tensor']
    """
    return {name: tensor for name, tensor in state.items() if not _TRAINING_ONLY & set(name.split("."))}


def read_state(path: Path) -> dict[str, Tensor]:
    """The state dict in a file.

    Raises:
        DataError: The file is truncated, or holds anything but tensors by name.
    """
    import torch

    if path.suffix == ".safetensors" and find_spec("safetensors") is None:
        raise UsageError(f"{path.name} needs safetensors", remedy="pip install 'kgprobe[models]'")
    try:
        state: Any = _load_safetensors(path) if path.suffix == ".safetensors" else _load_tensors(path)
    except Exception as error:  # torch and safetensors have no common error for a damaged file
        raise _bad_weights(path, [_said(error)]) from None
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise _bad_weights(path, ["it does not hold tensors by name"])
    return state


def load_weights(model: Model, path: Path) -> None:
    """Put the weights in a file into a model.

    Raises:
        DataError: They are not the weights of such a model; every difference is named.
    """
    wanted, found = scoring_state(model.state_dict()), scoring_state(read_state(path))
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [f"{name} is not part of such a model" for name in found if name not in wanted]
    problems += [
        f"{name} has the shape {list(found[name].shape)}, expected {list(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in found and found[name].shape != tensor.shape
    ]
    if problems:
        title = f"{path}: not the weights of this {type(model).__name__} model"
        raise DataError(title, problems, "the settings must be those with which the model was made")
    model.load_state_dict(found, strict=False)


def _load_tensors(path: Path) -> Any:
    import torch

    with warnings.catch_warnings(action="ignore"):  # about files that are then refused with a better reason
        return torch.load(path, map_location="cpu", weights_only=True)


def _load_safetensors(path: Path) -> Any:
    from safetensors.torch import load_file

    return load_file(path)


def _said(error: Exception) -> str:
    text = str(error)
    if "Unsupported operand" in text:
        return "it is a kind of pickle that cannot be loaded safely, such as PyKEEN's model.save_state writes"
    if "weights_only" in text:
        return "it holds Python objects, which are not loaded"
    return (text.splitlines() or [type(error).__name__])[0]


def _bad_weights(path: Path, problems: list[str]) -> DataError:
    return DataError(
        f"{path}: not the weights of a model",
        problems,
        f"save them by torch.save(model.state_dict(), '{STATE_FILES[0]}')",
    )


_READ_OFF: Mapping[str, Callable[[Any], Any]] = {
    "embedding_dim": lambda model: model.entity_representations[0].shape[-1],
    "relation_dim": lambda model: model.relation_representations[0].shape[-1],
    "rank": lambda model: model.entity_representations[0].shape[0],
    "scoring_fct_norm": lambda model: model.interaction.p,
    "power_norm": lambda model: model.interaction.power_norm,
    "apply_batch_normalization": lambda model: model.interaction.head_batch_norm is not None,
}

"""Arguments of PyKEEN's models that can be seen on the model."""

_TRIED_TRIPLES = 256


def save_for_ranking(
    model: Model,
    triples_factory: CoreTriplesFactory | None,
    directory: str | os.PathLike[str],
    model_kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Save a model's weights, settings and names in a folder that `open_pykeen` reads.

    The model is built again from what was saved and must score as before, so a folder that is written can be ranked.

    Args:
        model: One of PyKEEN's own models, trained.
        triples_factory: Its training triples, whose names of entities and relations are kept; None to keep none.
        directory: The folder, which is made if need be.
        model_kwargs: What the model was made with, where that cannot be seen on the model. After PyKEEN's pipeline this
            is ``result.configuration["model_kwargs"]``.

    Raises:
        UsageError: The model cannot be built again from these settings.

    Example:
        >>> import tempfile
        >>> from pykeen.models import RotatE
        >>> from pykeen.triples import KGInfo
        >>> folder = Path(tempfile.mkdtemp())
        >>> save_for_ranking(RotatE(triples_factory=KGInfo(3, 2, False), embedding_dim=4, random_seed=1), None, folder)
        >>> sorted(path.name for path in folder.iterdir())
        ['kgprobe.json', 'model_state.pt']
    """
    import torch
    from pykeen.triples import TriplesFactory

    settings = ModelSettings(
        model=type(model).__name__,
        num_entities=model.num_entities,
        num_relations=model.num_real_relations,
        model_kwargs={**_seen(model), **_plain(model_kwargs or {})},
        create_inverse_triples=model.use_inverse_triples,
    )
    folder = Path(directory)
    with replacing(folder / STATE_FILES[0]) as temporary:
        torch.save({name: tensor.cpu() for name, tensor in scoring_state(model.state_dict()).items()}, temporary)
        _check(model, settings, temporary)
    if isinstance(triples_factory, TriplesFactory):
        write_names(folder, ModelNames.of(triples_factory))
    with replacing(folder / SETTINGS_FILE) as temporary:
        temporary.write_text(settings.text(), encoding="utf-8")


def _seen(model: Model) -> dict[str, Any]:
    """The arguments of the model's class that can be seen on the model."""
    accepted = inspect.signature(type(model)).parameters
    seen: dict[str, Any] = {}
    for name, read in _READ_OFF.items():
        with suppress(AttributeError, IndexError):  # a model that keeps it elsewhere, or not at all
            seen |= {name: read(model)} if name in accepted else {}
    return seen


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that JSON has; losses, initialisers and the like take no part in scoring."""

    def has(value: Any) -> bool:
        try:
            return bool(json.dumps(value))
        except (TypeError, ValueError):
            return False

    return {name: value for name, value in arguments.items() if has(value)}


def _check(model: Model, settings: ModelSettings, weights: Path) -> None:
    """The model built again must score as this one does."""
    import torch

    try:
        again = settings.build()
        load_weights(again, weights)
        again = again.to(model.device)
    except KgprobeError as error:
        raise _not_saved(settings, error.problems) from None
    draw = torch.Generator().manual_seed(0)
    sizes = (model.num_entities, model.num_relations, model.num_entities)
    triples = [torch.randint(size, (_TRIED_TRIPLES,), generator=draw) for size in sizes]
    batch = torch.stack(triples, dim=1).to(model.device)
    with evaluating(model), evaluating(again):
        same = torch.allclose(model.score_hrt(batch), again.score_hrt(batch), rtol=1e-4, atol=1e-6, equal_nan=True)
    if not same:
        raise _not_saved(settings, [f"with {json.dumps(settings.model_kwargs)} its scores are not those of the model"])


def _not_saved(settings: ModelSettings, problems: list[str]) -> UsageError:
    return UsageError(
        f"{settings.model}: not saved, since it could not be built again",
        problems,
        "give what the model was made with, save_for_ranking(model, factory, folder, model_kwargs={...}); a model that "
        "cannot be built from such settings can be ranked while it is in memory: kgprobe.rank(model, graph)",
    )


PICKLE_FILE = "trained_model.pkl"

SAFE_WAY = (
    "in the program that trained the model, call kgprobe.predict.adapters.pykeen_folder.save_for_ranking("
    "result.model, result.training, FOLDER), and rank FOLDER"
)


def is_saved_pykeen(directory: str | os.PathLike[str]) -> bool:
    """Whether a folder looks like a saved PyKEEN model.

    Example:
        >>> is_saved_pykeen("no such folder")
        False
    """
    return any((Path(directory) / name).is_file() for name in (PICKLE_FILE, *STATE_FILES))


def open_pykeen(
    directory: str | os.PathLike[str], graph: KnowledgeGraph, *, trust_pickle: bool = False
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """A saved model as a scorer for a graph, with its name and facts about it.

    The folder has the weights (``model_state.pt``, ``state_dict.pt`` or ``model.safetensors``), the settings
    (``kgprobe.json``) and, in the folder ``training_triples`` as PyKEEN writes it, the names of entities and relations,
    if they are known. `save_for_ranking` writes all of it.

    Args:
        directory: The folder.
        graph: The graph to rank; where names are known, they say which id is which.
        trust_pickle: Load PyKEEN's own ``trained_model.pkl`` where there are no weights. A pickle can run any program.

    Raises:
        DataError: The folder holds no model, or one that cannot be loaded safely, or one that does not fit the graph.

    Example:
        >>> import tempfile
        >>> from pykeen.models import TransE
        >>> from pykeen.triples import KGInfo
        >>> from kgprobe.predict.adapters.pykeen_folder import save_for_ranking
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 1, 2]])
        >>> folder = tempfile.mkdtemp()
        >>> save_for_ranking(TransE(triples_factory=KGInfo(3, 2, False), embedding_dim=4, random_seed=1), None, folder)
        >>> name, scorer, facts = open_pykeen(folder, graph)
        >>> name, scorer.candidates("tail").shape, facts["parameters"]
        ('TransE', (3, 4), 20)
    """
    if find_spec("pykeen") is None:
        raise UsageError("a PyKEEN model needs PyKEEN", remedy="pip install 'kgprobe[pykeen]'")
    folder = Path(directory)
    model, facts = _model(folder, trust_pickle)
    return type(model).__name__, scorer_for(model, graph, read_names(folder)), facts


def _model(folder: Path, trust_pickle: bool) -> tuple[Model, dict[str, Any]]:
    import pykeen.version

    states = [folder / name for name in STATE_FILES if (folder / name).is_file()]
    if len(states) > 1:
        names = ", ".join(path.name for path in states)
        raise DataError(f"{folder}: several models", [f"weights in {names}"], "keep one of these files")
    if states:
        settings = ModelSettings.read(folder / SETTINGS_FILE)
        model = settings.build()
        load_weights(model, states[0])
        kept = dict(settings.model_kwargs)
    else:
        model, kept = _unpickled(folder, trust_pickle), None
    facts = {
        "library": f"PyKEEN {pykeen.version.get_version()}",
        "parameters": int(model.num_parameters),
        "create_inverse_triples": bool(model.use_inverse_triples),
    }
    return model, facts if kept is None else facts | {"model_kwargs": kept}


def _unpickled(folder: Path, trusted: bool) -> Model:
    import torch

    path = folder / PICKLE_FILE
    if not path.is_file():
        where = (
            "no such folder" if not folder.is_dir() else f"none of {', '.join((*STATE_FILES, PICKLE_FILE))} is there"
        )
        raise DataError(f"{folder}: no PyKEEN model", [where], SAFE_WAY)
    if not trusted:
        problem = f"{PICKLE_FILE} is a pickle: loading it can run any program that its author put there"
        trust = "or, if you made the file yourself, say that you trust it: --trust-pickle (trust_pickle=True)"
        raise DataError(f"{folder}: not loaded", [problem], f"{SAFE_WAY}; {trust}")
    try:
        model: Model = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # a pickle can fail in any way
        raise DataError(f"{path}: cannot be loaded", [f"{type(error).__name__}: {error}"], SAFE_WAY) from None
    if not is_pykeen(model):
        raise DataError(f"{path}: not a PyKEEN model", [f"it holds a {type(model).__name__}"])
    return model
