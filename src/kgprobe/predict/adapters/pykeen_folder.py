"""Save and open PyKEEN models as weights and settings, without unpickling."""

from __future__ import annotations

import inspect
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.errors import DataError, KgprobeError, UsageError, naming
from kgprobe.files import replacing
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.json_files import write_json
from kgprobe.predict.adapters.pykeen_names import ModelNames, model_ids, read_names, scorer_for, write_names
from kgprobe.predict.adapters.pykeen_scorer import Ids, evaluating, is_pykeen, scorer_of
from kgprobe.predict.adapters.pykeen_settings import SETTINGS_FILE, ModelSettings
from kgprobe.predict.scorers import AnyScorer
from kgprobe.predict.stored_arrays import BLOCK_BYTES
from kgprobe.resources import require_unpackable

if TYPE_CHECKING:
    from pykeen.models import Model
    from pykeen.triples import CoreTriplesFactory
    from torch import Tensor


STATE_FILES = ("model_state.pt", "state_dict.pt", "model.safetensors")
PICKLE_FILE = "trained_model.pkl"

SAFE_WAY = (
    "in the program that trained the model, call kgprobe.predict.adapters.pykeen_folder.save_for_ranking("
    "result.model, result.training, FOLDER), and rank FOLDER"
)

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
    states = [folder / name for name in STATE_FILES if (folder / name).is_file()]
    if len(states) > 1:
        found = ", ".join(path.name for path in states)
        raise DataError(f"{folder}: several models", [f"weights in {found}"], "keep one of these files")
    if not states:
        model = _unpickled(folder, trust_pickle)
        return type(model).__name__, scorer_for(model, graph, read_names(folder)), _metadata(model)
    settings = ModelSettings.read(folder / SETTINGS_FILE)
    # Before the model is built, which can take long and much memory.
    with naming(folder):
        ids = model_ids(settings.model, settings.num_entities, settings.num_relations, graph, read_names(folder))
    with naming(folder / SETTINGS_FILE):
        shapes = settings.build(shapes_only=True)
    weights = require_weights(shapes, states[0])
    with naming(folder / SETTINGS_FILE):
        model = settings.build()
        model.load_state_dict(weights, strict=False)
        scorer = _scorer(model, settings, ids)
    return type(model).__name__, scorer, _metadata(model) | {"model_kwargs": dict(settings.model_kwargs)}


def _metadata(model: Model) -> dict[str, Any]:
    import pykeen.version

    return {
        "library": f"PyKEEN {pykeen.version.get_version()}",
        "parameters": int(model.num_parameters),
        "create_inverse_triples": bool(model.use_inverse_triples),
    }


def _scorer(model: Model, settings: ModelSettings, ids: Ids | None) -> AnyScorer:
    """The scorer of a model that can score a triple: PyKEEN looks at some of its settings only then."""
    import torch

    try:
        with evaluating(model):
            model.score_hrt(torch.zeros((1, 3), dtype=torch.int64))
        return scorer_of(model, ids)
    except Exception as error:  # PyKEEN may raise anything on invalid settings
        raise settings.failure("the model cannot score", error) from None


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
    write_json(folder / SETTINGS_FILE, asdict(settings))


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


def load_weights(model: Model, path: Path) -> None:
    """Load the weights in a file into a model.

    Raises:
        DataError: They are not the weights of such a model; every difference is named.
    """
    model.load_state_dict(require_weights(model, path), strict=False)


def require_weights(model: Model, path: Path) -> dict[str, Tensor]:
    """The weights in a file, which have the names and the shapes of those of the model.

    Raises:
        DataError: They have others; every difference is named.
    """
    expected, found = scoring_state(model.state_dict()), scoring_state(read_state(path))
    problems = [f"{name} is missing" for name in expected if name not in found]
    problems += [f"{name} is not part of such a model" for name in found if name not in expected]
    problems += [
        f"{name} has the shape {list(found[name].shape)}, expected {list(tensor.shape)}"
        for name, tensor in expected.items()
        if name in found and found[name].shape != tensor.shape
    ]
    problems += [
        f"{name} holds {found[name].dtype}, expected {tensor.dtype}"
        for name, tensor in expected.items()
        if name in found and found[name].is_complex() != tensor.is_complex()
    ]
    if problems:
        title = f"{path}: not the weights of this {type(model).__name__} model"
        raise DataError(title, problems, "the settings must be those with which the model was created")
    return found


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
            _verify_archive(path)
            with warnings.catch_warnings(action="ignore"):  # files that torch warns about are refused below
                state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors raise different exceptions for a damaged file
        raise _bad_weights(path, [_reason(error)]) from None
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in state.items()
    ):
        raise _bad_weights(path, ["it is not a dictionary of tensors"])
    odd = [
        f"{name[:60]} is not a dense tensor of numbers on the CPU"
        for name, tensor in state.items()
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type != "cpu"
    ]
    if odd:
        raise _bad_weights(path, odd)
    return state


def _verify_archive(path: Path) -> None:
    """Compare a zip archive with its checksums, which torch does not do."""
    if not zipfile.is_zipfile(path):
        return  # the older format of torch, which has no checksums
    with zipfile.ZipFile(path) as archive:
        require_unpackable(sum(member.file_size for member in archive.infolist()))
        for member in archive.infolist():
            with archive.open(member) as file:
                while file.read(BLOCK_BYTES):
                    pass


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
