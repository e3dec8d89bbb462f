"""Convert models of GraphVite (a pickled EasyDict) to embedding files, without running the pickle."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.adapters.interactions import Arrange, is_number, unchanged
from kgprobe.predict.pickled_values import Pickled, mapping_of, pickled_array, read_pickle, refuse_unknown, shown
from kgprobe.predict.stored_arrays import StoredArray, reading

KNOWN_NAMES = frozenset(
    {
        *("easydict.EasyDict", "collections.OrderedDict", "numpy.ndarray", "numpy.dtype", "_codecs.encode"),
        *(f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
        *(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core")),
    }
)
"""The classes and functions that a model names. None is called, but others say that a file is something else."""


def _sections(parts: int) -> Arrange:
    """From numbers whose parts stand side by side, to sections: all first parts, then all second parts, and so on."""

    def arrange(rows: NDArray[Any]) -> NDArray[Any]:
        return rows.reshape(len(rows), rows.shape[1] // parts, parts).swapaxes(1, 2).reshape(rows.shape)

    return arrange


def _pairs_swapped(rows: NDArray[Any]) -> NDArray[Any]:
    return rows.reshape(len(rows), rows.shape[1] // 2, 2)[:, :, ::-1].reshape(rows.shape)


def _first_half(rows: NDArray[Any]) -> NDArray[Any]:
    return rows[:, : rows.shape[1] // 2]


@dataclass(frozen=True)
class _Form:
    """How a model of GraphVite is written to an embedding file.

    Attributes:
        header: The header of the file.
        parts: Parts of a number, which stand side by side.
        entity: Arranges the entities.
        relation: Arranges the relations.
        has_margin: Whether its score is a margin minus a distance.
        tail: Arranges the entities as tails, if they have a table of their own.
    """

    header: Mapping[str, Any]
    parts: int = 1
    entity: Arrange = unchanged
    relation: Arrange = unchanged
    has_margin: bool = False
    tail: Arrange | None = None


_FORMS: Mapping[str, _Form] = {
    "TransE": _Form({"model": "TransE", "p": 1}, has_margin=True),
    "DistMult": _Form({"model": "DistMult"}),
    "ComplEx": _Form({"model": "ComplEx"}, 2, _sections(2), _sections(2)),
    "SimplE": _Form({"model": "CP", "name": "SimplE"}, 2, tail=_pairs_swapped),
    "RotatE": _Form({"model": "RotatE"}, 2, _sections(2), _first_half, has_margin=True),
    "QuatE": _Form({"model": "QuatE"}, 4, _sections(4), _sections(4)),
}


def convert_graphvite(
    path: str | PathLike[str],
    output: str | PathLike[str],
    *,
    model: str | None = None,
    margin: float | None = None,
    trust_pickle: bool = False,
) -> None:
    """Convert a file that GraphVite's ``save_model`` wrote to an embedding file, which has the names of its rows.

    The arrays are read from their place in the file, and arranged on disk where their layout differs. So the model may
    be larger than memory.

    Args:
        path: The file of GraphVite.
        output: The embedding file, .npz or .safetensors.
        model: TransE, DistMult, ComplEx, SimplE, RotatE or QuatE. GraphVite saves it only with its hyperparameters.
        margin: The margin of TransE and RotatE, likewise; 0 by default. It changes no order.
        trust_pickle: Read a file that names classes which GraphVite does not save. These parts of it are left out:
            nothing in the file is ever run.

    Raises:
        DataError: The file is damaged, or not a model of GraphVite.
        UsageError: The model is not known.

    Example:
        >>> import pickle
        >>> from kgprobe.graph import KnowledgeGraph
        >>> from kgprobe.predict import rank
        >>> folder = Path(tempfile.mkdtemp())
        >>> graph = KnowledgeGraph.from_triples(
        ...     test=[[0, 0, 1]], entity_labels=["Ada", "Bob"], relation_labels=["knows"]
        ... )
        >>> saved = {
        ...     "graph": {"id2entity": ["Bob", "Ada"], "id2relation": ["knows"]},
        ...     "solver": {"entity_embeddings": np.eye(2, dtype="f4"), "relation_embeddings": np.ones((1, 2), "f4")},
        ... }
        >>> _ = (folder / "model.pkl").write_bytes(pickle.dumps(saved))
        >>> convert_graphvite(folder / "model.pkl", folder / "model.npz", model="DistMult")
        >>> rank(folder / "model.npz", graph).column("rank").to_pylist()
        [2.0, 2.0]
    """
    place = Path(path)
    with reading(place):
        pickled = read_pickle(place)
    problems: list[str] = []
    if not trust_pickle:
        refuse_unknown(place, pickled.names - KNOWN_NAMES, "GraphVite")
    saved = _read(place, pickled, problems)
    if saved is None:
        raise DataError(f"{place}: not a model of GraphVite", problems, "it needs a file of GraphVite's save_model")
    name = _chosen(place, saved, model)
    form, margin = _FORMS[name], saved.margin if margin is None else margin
    _require_layout(place, saved, name, form.parts)
    header = {**form.header, "entities": saved.names["entity"], "relations": saved.names["relation"]}
    header |= {"gamma": float(margin or 0)} if form.has_margin else {}
    with tempfile.TemporaryDirectory(dir=Path(output).absolute().parent, prefix=".arranging-") as folder:
        entity = {"entity": form.entity} if form.tail is None else {"head_entity": unchanged, "tail_entity": form.tail}
        tables = {key: (saved.tables["entity"], arrange) for key, arrange in entity.items()}
        tables["relation"] = saved.tables["relation"], form.relation
        arrays = {key: _arranged(Path(folder) / key, *table) for key, table in tables.items()}
        write_embeddings(output, header, arrays)


@dataclass(frozen=True)
class _Saved:
    """What a file holds: tables and names of the entities and relations, and hyperparameters, if they were saved."""

    tables: Mapping[str, StoredArray]
    names: Mapping[str, list[str]]
    model: Any
    margin: float | None


def _read(path: Path, pickled: Pickled, problems: list[str]) -> _Saved | None:
    """The content of a file; or None, with all problems appended to ``problems``."""
    content = mapping_of(pickled.value) or {}
    graph, solver = mapping_of(content.get("graph")) or {}, mapping_of(content.get("solver")) or {}
    tables, names = {}, {}
    for kind in ("entity", "relation"):
        key = f"{kind}_embeddings"
        try:
            array = pickled_array(path, key, solver.get(key))
            if array is None or len(array.shape) != 2 or 0 in array.shape:
                raise ValueError(f"'solver.{key}' is {shown(solver.get(key))}, expected a matrix of numbers")
            tables[kind] = array
        except ValueError as error:
            problems.append(str(error))
        names[kind] = _names(graph, kind, problems)
        if kind in tables and names[kind] and len(names[kind]) != tables[kind].shape[0]:
            problems.append(f"{len(names[kind]):,} names, but {tables[kind].shape[0]:,} rows in 'solver.{key}'")
    margin = solver.get("margin")
    if margin is not None and not is_number(margin):
        problems.append(f"'solver.margin' is {shown(margin)}, expected a number")
    return None if problems else _Saved(tables, names, solver.get("model"), margin)


def _names(graph: Mapping[Any, Any], kind: str, problems: list[str]) -> list[str]:
    """The names in the order of the rows; empty, with a problem, if there are none."""
    names, ids = graph.get(f"id2{kind}"), mapping_of(graph.get(f"{kind}2id"))
    if names is None and ids is not None and all(type(row) is int for row in ids.values()):
        names = sorted(ids, key=ids.__getitem__)
    if not isinstance(names, list) or not names or {type(name) for name in names} != {str}:
        problems.append(f"'graph.id2{kind}' is {shown(names)}, expected a list of names")
        return []
    if ids is not None and ids != dict(zip(names, range(len(names)), strict=True)):
        problems.append(f"'graph.id2{kind}' and 'graph.{kind}2id' contradict each other")
    return names


def _chosen(path: Path, saved: _Saved, model: str | None) -> str:
    """The name of the model, from the argument or from the file."""
    given = saved.model if model is None else model
    if given is None:
        problem = "the file does not name its model: GraphVite saves it only with the hyperparameters"
        raise UsageError(f"{path}: not converted", [problem], f"give `model`: {', '.join(_FORMS)}")
    name = next((name for name in _FORMS if isinstance(given, str) and name.lower() == given.lower()), None)
    if name is None:
        raise UsageError(
            f"{path}: not converted", [f"no model is called {shown(given)}{nearest(str(given)[:60], _FORMS)}"]
        )
    if model is not None and saved.model not in (None, name):
        raise UsageError(f"{path}: not converted", [f"`model` is {model!r}, but the file says {shown(saved.model)}"])
    return name


def _require_layout(path: Path, saved: _Saved, name: str, parts: int) -> None:
    entity, relation = (saved.tables[kind].shape[1] for kind in ("entity", "relation"))
    if entity % parts or relation != entity:
        problem = f"{entity} coordinates of an entity and {relation} of a relation"
        remedy = f"{name} has as many of both" + (f", a multiple of {parts}" if parts > 1 else "")
        raise DataError(f"{path}: not a model {name} of GraphVite", [problem], remedy)


def _arranged(path: Path, stored: StoredArray, arrange: Arrange) -> NDArray[Any]:
    """The rows of an array as they are written, in a file of their own if they must be arranged."""
    width = arrange(np.empty((0, stored.shape[1]))).shape[1]
    table = np.lib.format.open_memmap(path, "w+", dtype=stored.dtype.newbyteorder("="), shape=(stored.shape[0], width))
    for part, rows in stored.blocks():
        table[part] = arrange(rows)
    return table
