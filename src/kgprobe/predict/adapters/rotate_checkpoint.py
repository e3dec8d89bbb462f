"""Checkpoint folders of the RotatE code base (DeepGraphLearning/KnowledgeGraphEmbedding), and of OGB's examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Floats
from kgprobe.bounded_files import parse_json, read_bounded
from kgprobe.errors import DataError, nearest
from kgprobe.graph.text_files import Layout, read_dictionary
from kgprobe.predict.adapters.embedding_files import ENTITY, RELATION, read_model
from kgprobe.predict.adapters.interactions import INTERACTIONS, Header, is_number, unit_circle
from kgprobe.predict.array_files import open_arrays
from kgprobe.predict.scorers import AnyScorer
from kgprobe.predict.stored_arrays import ArrayFile, StoredArray, reading

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


CONFIG = "config.json"
FILES = {ENTITY: "entity_embedding.npy", RELATION: "relation_embedding.npy"}
MODELS = ("TransE", "DistMult", "ComplEx", "RotatE")
_MOST_BYTES = 1 << 20
EPSILON = 2.0
_PI = 3.14159262358979323846  # the code base has this wrong digit, and its models were trained with it
_DICTIONARY = Layout({"id": True, "label": False}, "id<TAB>label", "\t", lambda line: line.split("\t"))


def is_rotate_checkpoint(folder: str | PathLike[str]) -> bool:
    """Whether a folder has an array file of the RotatE code base."""
    return any((Path(folder) / file).exists() for file in FILES.values())


def open_rotate_checkpoint(folder: str | PathLike[str], graph: KnowledgeGraph) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Open entity_embedding.npy, relation_embedding.npy and config.json.

    Their rows are in the order of the entities.dict and relations.dict of the training data. A graph that was read from
    there has the same ids; for any other graph, copy these two files into the folder, and rows are matched by name.
    The example models of OGB (examples/linkproppred/wikikg2) are saved in the same way, in the order of OGB's ids.

    Returns:
        The name of the model, its scorer, and its metadata.

    Raises:
        DataError: Files are missing or damaged, the model is unknown, or it does not fit the graph.

    Example:
        >>> import json, tempfile
        >>> from kgprobe.graph import KnowledgeGraph
        >>> folder = Path(tempfile.mkdtemp())
        >>> np.save(folder / "entity_embedding", np.ones((2, 4), dtype=np.float32))
        >>> np.save(folder / "relation_embedding", np.zeros((1, 2), dtype=np.float32))
        >>> config = {"model": "RotatE", "gamma": 9.0, "hidden_dim": 2, "double_entity_embedding": True}
        >>> _ = (folder / "config.json").write_text(json.dumps(config))
        >>> name, scorer, settings = open_rotate_checkpoint(folder, KnowledgeGraph.from_triples(train=[[0, 0, 1]]))
        >>> name, scorer.similarity
        ('RotatE', GroupNorm(size=2, gamma=9.0))
    """
    place = Path(folder)
    problems: list[str] = []
    arrays = open_files({name: place / file for name, file in FILES.items()}, problems)
    config = _read_config(place / CONFIG, problems)
    entities, relations = (
        read_dictionary(path, _DICTIONARY, problems) if path.exists() else None
        for path in (place / "entities.dict", place / "relations.dict")
    )
    if config is not None and ENTITY in arrays:
        problems += width_problems(arrays[ENTITY], config["hidden_dim"], config.get("double_entity_embedding"))
    if config is None or problems:
        remedy = f"the folder needs {', '.join(FILES.values())} and {CONFIG}, all of one model"
        raise DataError(f"{place}: not a checkpoint of the RotatE code base", problems, remedy)
    header = replace(_header(config), entities=entities, relations=relations)
    return read_model(ArrayFile(place, arrays), header, graph, np.empty((0, 3), dtype=np.int64))


def open_files(paths: Mapping[str, Path], problems: list[str]) -> dict[str, StoredArray]:
    """The arrays of .npy files by name, without those that cannot be opened, whose problems are appended."""
    arrays = {}
    for name, path in paths.items():
        try:
            arrays[name] = open_arrays(path).arrays[path.name]
        except KeyError:
            problems.append(f"{path.name}: not a .npy file")
        except DataError as error:
            problems += [f"{path.name}: {problem}" for problem in error.problems]
    return arrays


def read_options(path: Path, problems: list[str]) -> Mapping[str, Any] | None:
    """The training options in a JSON file; or None, with the problem appended to ``problems``."""
    try:
        with reading(path):
            options = parse_json(read_bounded(path, _MOST_BYTES))
    except DataError as error:
        problems += [f"{path.name}: {problem}" for problem in error.problems]
        return None
    if not isinstance(options, dict):
        problems.append(f"{path.name}: JSON of type {type(options).__name__}, expected an object")
        return None
    return options


def _read_config(path: Path, problems: list[str]) -> Mapping[str, Any] | None:
    """The training options of the model; or None, with all problems appended to ``problems``."""
    config = read_options(path, problems)
    if config is None:
        return None
    wrong = [
        f"{path.name}: {option!r} is {repr(config.get(option))[:60]}, expected {expected}"
        for option, (fits, expected) in OPTIONS.items()
        if not fits(config.get(option))
    ]
    if config.get("model") == "pRotatE":
        wrong.append(
            f"{path.name}: pRotatE is not supported: it compares angles, and its modulus is not saved in these arrays"
        )
    elif config.get("model") not in MODELS:
        model = str(config.get("model"))
        wrong.append(f"{path.name}: no model is called {model[:60]!r}{nearest(model, MODELS)}")
    problems += wrong
    return None if wrong else config


OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "gamma": (lambda value: is_number(value) and value > -EPSILON, f"a number above {-EPSILON:g}"),
    "hidden_dim": (lambda value: type(value) is int and value > 0, "a positive integer"),
}


def width_problems(entities: StoredArray, hidden: int, doubled: Any) -> list[str]:
    """The array must have been trained with these options, because phases depend on the hidden dimension."""
    width = hidden * (2 if doubled else 1)
    if entities.shape[1:] == (width,):
        return []
    return [f"{entities.name}: one row has shape {entities.shape[1:]}, expected {(width,)} by {CONFIG}"]


def _header(config: Mapping[str, Any]) -> Header:
    interaction = INTERACTIONS[config["model"]]
    gamma, hidden = float(config["gamma"]), config["hidden_dim"]
    if interaction.name == "RotatE":
        # The code base stores both numbers in float32.
        reach = float(np.float32((float(np.float32(gamma)) + EPSILON) / hidden))
        pi = (
            math.pi if "dataset" in config else _PI
        )  # OGB's copy of the code names the dataset, and has the right digit
        interaction = replace(interaction, arrange_relation=partial(rotations, unit=reach / pi))
    settings = {"model": interaction.name, "gamma": gamma, "hidden_dim": hidden}
    settings |= {"p": 1} if "p" in interaction.needs else {}
    if config.get("init_checkpoint"):
        settings["notes"] = [f"a resumed run: {CONFIG} has the gamma of its own options, not that of the run before"]
    return Header(interaction, interaction.similarity(settings), settings)


def rotations(rows: NDArray[Any], unit: float) -> Floats:
    """Stored relation parameters as complex numbers of modulus 1."""
    return unit_circle(rows.astype(np.float64) / unit)
