"""Save and open PyKEEN models as weights and settings, without unpickling."""

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
STATE_FILES = ("model_state.pt", "state_dict.pt", "model.safetensors")
PICKLE_FILE = "trained_model.pkl"

SAFE_WAY = (
    "in the program that trained the model, call kgprobe.predict.adapters.pykeen_folder.save_for_ranking("
    "result.model, result.training, FOLDER), and rank FOLDER"
)

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

_TRAINING_ONLY = {"loss", "regularizer", "weight_regularizers"}
"""Parts of a model that its scores do not depend on, so that their settings are not needed."""

_READ_OFF: Mapping[str, Callable[[Any], Any]] = {
    "embedding_dim": lambda model: model.entity_representations[0].shape[-1],
    "relation_dim": lambda model: model.relation_representations[0].shape[-1],
    "rank": lambda model: model.entity_representations[0].shape[0],
    "scoring_fct_norm": lambda model: model.interaction.p,
    "power_norm": lambda model: model.interaction.power_norm,
    "apply_batch_normalization": lambda model: model.interaction.head_batch_norm is not None,
}
"""Arguments of PyKEEN's models that can be read from the model."""

_TRIED_TRIPLES = 256


def is_saved_pykeen(directory: str | os.PathLike[str]) -> bool:
    """Whether a folder looks like a saved PyKEEN model."""
    return any((Path(directory) / name).is_file() for name in (PICKLE_FILE, *STATE_FILES))


def open_pykeen(
    directory: str | os.PathLike[str], graph: KnowledgeGraph, *, trust_pickle: bool = False
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Open a saved model for a graph.

    The folder has the weights (``model_state.pt``, ``state_dict.pt`` or ``model.safetensors``), the settings
    (``kgprobe.json``) and optionally, in PyKEEN's folder ``training_triples``, the names of entities and relations.
    `save_for_ranking` writes all of it.

    Args:
        directory: The folder.
        graph: The graph to rank; ids are matched by name if names are known.
        trust_pickle: Load PyKEEN's own ``trained_model.pkl`` if there are no weights. A pickle can run any code.

    Returns:
        The name of the model, its scorer, and its metadata.

    Raises:
        DataError: The folder has no model, or one that cannot be loaded safely, or one that does not fit the graph.

    Example:
        >>> import tempfile
        >>> from pykeen.models import TransE
        >>> from pykeen.triples import KGInfo
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 1, 2]])
        >>> folder = tempfile.mkdtemp()
        >>> save_for_ranking(TransE(triples_factory=KGInfo(3, 2, False), embedding_dim=4, random_seed=1), None, folder)
        >>> name, scorer, settings = open_pykeen(folder, graph)
        >>> name, scorer.candidates("tail").shape, settings["parameters"]
        ('TransE', (3, 4), 20)
    """
    if find_spec("pykeen") is None:
        raise UsageError("a PyKEEN model needs PyKEEN", remedy="pip install 'kgprobe[pykeen]'")
    folder = Path(directory)
    model, metadata = _model(folder, trust_pickle)
    return type(model).__name__, scorer_for(model, graph, read_names(folder)), metadata


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
        arguments = {"model_kwargs": dict(settings.model_kwargs)}
    else:
        model, arguments = _unpickled(folder, trust_pickle), {}
    return model, {
        "library": f"PyKEEN {pykeen.version.get_version()}",
        "parameters": int(model.num_parameters),
        "create_inverse_triples": bool(model.use_inverse_triples),
        **arguments,
    }


def _unpickled(folder: Path, trusted: bool) -> Model:
    import torch

    path = folder / PICKLE_FILE
    if not path.is_file():
        absent = f"none of {', '.join((*STATE_FILES, PICKLE_FILE))} is there"
        raise DataError(f"{folder}: no PyKEEN model", [absent if folder.is_dir() else "no such folder"], SAFE_WAY)
    if not trusted:
        problem = f"{PICKLE_FILE} is a pickle: loading it can run any code that its author put there"
        trust = "or, if you made the file yourself, load it with `trust_pickle=True`"
        raise DataError(f"{folder}: not loaded", [problem], f"{SAFE_WAY}; {trust}")
    try:
        model: Model = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # a pickle can fail in any way
        raise DataError(f"{path}: cannot be loaded", [f"{type(error).__name__}: {error}"], SAFE_WAY) from None
    if not is_pykeen(model):
        raise DataError(f"{path}: not a PyKEEN model", [f"it contains a {type(model).__name__}"])
    return model


def save_for_ranking(
    model: Model,
    triples_factory: CoreTriplesFactory | None,
    directory: str | os.PathLike[str],
    model_kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Save a model's weights, settings and names in a folder that `open_pykeen` reads.

    The model is rebuilt from the saved files and must give the same scores, so a folder that is written can be ranked.

    Args:
        model: A trained model of one of PyKEEN's own classes.
        triples_factory: Its training triples, whose names of entities and relations are saved; None to save none.
        directory: The folder, which is created if necessary.
        model_kwargs: Arguments of the model that cannot be read from it. After PyKEEN's pipeline these are
            ``result.configuration["model_kwargs"]``.

    Raises:
        UsageError: The model cannot be rebuilt from these settings.

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
        temporary.write_text(json.dumps(asdict(settings), indent=2) + "\n", encoding="utf-8")


def _seen(model: Model) -> dict[str, Any]:
    """The arguments of the model's class that can be read from the model."""
    accepted = inspect.signature(type(model)).parameters
    seen: dict[str, Any] = {}
    for name, read in _READ_OFF.items():
        with suppress(AttributeError, IndexError):  # this model does not have it there
            seen |= {name: read(model)} if name in accepted else {}
    return seen


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that JSON can represent; losses, initialisers and the like do not change the scores."""
    plain = {}
    for name, value in arguments.items():
        with suppress(TypeError, ValueError):
            json.dumps(value)
            plain[name] = value
    return plain


def _check(model: Model, settings: ModelSettings, weights: Path) -> None:
    """The rebuilt model must give the same scores."""
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
        raise _not_saved(settings, [f"rebuilt with {json.dumps(settings.model_kwargs)}, its scores differ"])


def _not_saved(settings: ModelSettings, problems: list[str]) -> UsageError:
    return UsageError(
        f"{settings.model}: not saved, because it cannot be rebuilt",
        problems,
        "give the arguments of the model, save_for_ranking(model, factory, folder, model_kwargs={...}); a model that "
        "cannot be rebuilt can be ranked while it is in memory: kgprobe.rank(model, graph)",
    )


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
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problem = "it is missing" if isinstance(error, FileNotFoundError) else f"not readable as JSON: {error}"
            raise _bad_settings(path, [problem]) from None
        if not isinstance(content, dict):
            raise _bad_settings(path, ["not a JSON object"])
        problems = [f"no {name!r}" for name in _NEEDED if name not in content]
        problems += [f"unknown setting {name!r}" for name in content if name not in _KINDS]
        problems += [
            f"{name!r} must be {expected}, found {json.dumps(content[name])}"
            for name, (kind, expected) in _KINDS.items()
            if name in content and (type(content[name]) is not kind or (kind is int and content[name] < 1))
        ]
        if problems:
            raise _bad_settings(path, problems)
        return cls(**content)

    def build(self) -> Model:
        """The model with fresh weights.

        Raises:
            DataError: PyKEEN has no such model, or cannot create it with these settings.
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
            raise DataError("the model cannot be rebuilt", [problem]) from None
        sizes = KGInfo(self.num_entities, self.num_relations, self.create_inverse_triples)
        fixed = {"triples_factory": sizes, "random_seed": NoRandomSeedNecessary}
        try:
            # Fresh weights are random and then replaced: this must not advance the global random generator.
            with torch.random.fork_rng(devices=[]):
                model: Model = kind(**{**self.model_kwargs, **fixed})
        except Exception as error:  # a constructor may raise anything on invalid settings
            arguments = json.dumps(dict(self.model_kwargs))
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise DataError("the model cannot be rebuilt", [f"{kind.__name__} with {arguments}: {reason}"]) from None
        return model


def _bad_settings(path: Path, problems: list[str]) -> DataError:
    return DataError(
        f"{path}: invalid settings of the model",
        problems,
        f"write {SETTINGS_FILE} beside the weights, for instance {EXAMPLE}",
    )


def load_weights(model: Model, path: Path) -> None:
    """Load the weights in a file into a model.

    Raises:
        DataError: They are not the weights of such a model; every difference is named.
    """
    expected, found = scoring_state(model.state_dict()), scoring_state(read_state(path))
    problems = [f"{name} is missing" for name in expected if name not in found]
    problems += [f"{name} is not part of such a model" for name in found if name not in expected]
    problems += [
        f"{name} has the shape {list(found[name].shape)}, expected {list(tensor.shape)}"
        for name, tensor in expected.items()
        if name in found and found[name].shape != tensor.shape
    ]
    if problems:
        title = f"{path}: not the weights of this {type(model).__name__} model"
        raise DataError(title, problems, "the settings must be those with which the model was created")
    model.load_state_dict(found, strict=False)


def scoring_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a state dict that the scores depend on."""
    return {name: tensor for name, tensor in state.items() if not _TRAINING_ONLY & set(name.split("."))}


def read_state(path: Path) -> dict[str, Tensor]:
    """Read a state dict.

    Raises:
        DataError: The file is truncated, or has anything but named tensors.
    """
    import torch

    if path.suffix == ".safetensors" and find_spec("safetensors") is None:
        raise UsageError(f"{path.name} needs safetensors", remedy="pip install 'kgprobe[models]'")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            with warnings.catch_warnings(action="ignore"):  # files that torch warns about are refused below
                state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors raise different exceptions for a damaged file
        raise _bad_weights(path, [_reason(error)]) from None
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise _bad_weights(path, ["it is not a dictionary of tensors"])
    return state


def _reason(error: Exception) -> str:
    text = str(error)
    if "Unsupported operand" in text:
        return "it is a pickle that cannot be loaded safely, such as those that PyKEEN's model.save_state writes"
    if "weights_only" in text:
        return "it contains Python objects, which are not loaded"
    return (text.splitlines() or [type(error).__name__])[0]


def _bad_weights(path: Path, problems: list[str]) -> DataError:
    return DataError(
        f"{path}: not the weights of a model",
        problems,
        f"save them with torch.save(model.state_dict(), '{STATE_FILES[0]}')",
    )
