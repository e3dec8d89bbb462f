"""Saved PyKEEN models: weights and settings, or a pickled model where the user trusts it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.errors import DataError, UsageError
from kgprobe.graph.graph import KnowledgeGraph
from kgprobe.predict.scorer import AnyScorer
from kgprobe.predict.sources.pykeen.adapter import is_pykeen
from kgprobe.predict.sources.pykeen.fit import scorer_for
from kgprobe.predict.sources.pykeen.names import read_names
from kgprobe.predict.sources.pykeen.settings import SETTINGS_FILE, ModelSettings
from kgprobe.predict.sources.pykeen.weights import STATE_FILES, load_weights

if TYPE_CHECKING:
    from pykeen.models import Model

PICKLE_FILE = "trained_model.pkl"
SAFE_WAY = (
    "in the program that trained the model, call kgprobe.predict.sources.pykeen.save_for_ranking("
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
        >>> from kgprobe.predict.sources.pykeen import save_for_ranking
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
