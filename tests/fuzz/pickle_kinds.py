"""Pickles that are read as data, checkpoints of LibKGE and models of GraphVite.

The plain reader is Python's own unpickler, written in Python, whose classes and functions are harmless stand-ins.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fuzz.inputs import Files, Kind, OneOf, only_file, require
from fuzz.model_kinds import SIDES, plain_model, read_embeddings, tables
from fuzz.plain import ENTITIES, RELATIONS, decimal_id, small_graph, text_lines
from graphvite_files import save_graphvite
from kgprobe.predict.adapters.graphvite import convert_graphvite
from kgprobe.predict.adapters.libkge import open_libkge
from kgprobe.predict.pickled_values import read_pickle
from kgprobe.predict.stored_arrays import reading
from libkge_files import SavedModel, save

_EVERY_QUERY = {side: [(e, r) for e in range(len(ENTITIES)) for r in range(len(RELATIONS))] for side in SIDES}
REVERSED = ENTITIES[::-1], RELATIONS[::-1]


class _Stand:
    """Stands for an object of any class."""

    def __new__(cls, *arguments: Any, **_keywords: Any) -> _Stand:
        made = super().__new__(cls)
        made.arguments = arguments
        return made

    def __init__(self, *_arguments: Any, **_keywords: Any) -> None:
        self.arguments: tuple[Any, ...]

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, _value: Any) -> None:
        pass


class _Items(dict[Any, Any]):
    """Stands for a class of dictionaries."""

    def __init__(self, *_arguments: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        pass


class _Unpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """Python's unpickler, which makes only stand-ins."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"OrderedDict": _Items, "defaultdict": _Items, "EasyDict": _Items, "TorchVersion": str}
        return known.get(name) or type(name.rpartition(".")[2] or "empty", (_Stand,), {"module": module})

    def persistent_load(self, reference: Any) -> Any:
        return reference


def _unpickled(stream: Any) -> Any:
    return _Unpickler(stream, encoding="utf-8").load()


def pickles() -> list[Files]:
    """Values of every kind in every protocol."""
    shared = ["a", 1, -2.5, True, None]
    values = [
        {"a": shared, "b": (shared, shared, ()), 3: {"x": "é", "y": 2**70, "z": -(2**40)}},
        [list(range(300)), ["text" * 100, b"", ""], {1: {2: {3: [4]}}}],
        ("a", ["b", {"c": ("d",)}], 0.1),
    ]
    return [{"value.pkl": pickle.dumps(v, protocol=p)} for v in values for p in range(pickle.HIGHEST_PROTOCOL + 1)]


def read_value(folder: Path) -> Any:
    path = only_file(folder)
    with reading(path):
        pickled = read_pickle(path)
    return {"end": pickled.end, "value": repr(pickled.value) if _is_plain(path.read_bytes()[: pickled.end]) else ""}


def plain_value(folder: Path) -> Any:
    raw = only_file(folder).read_bytes()
    end = 1 + max(place for code, _, place in pickletools.genops(raw) if code.name == "STOP")
    if not _is_plain(raw[:end]):
        return {"end": end, "value": ""}
    try:
        return {"end": end, "value": repr(_unpickled(io.BytesIO(raw)))}
    except (pickle.UnpicklingError, ValueError) as error:
        # Frames only say how much to read at once, and Python takes decimal numbers for octal ones.
        require("frame" in str(error) or "base 0" in str(error), str(error))
        return OneOf(())


_OTHER = (
    *("GLOBAL", "STACK_GLOBAL", "INST", "REDUCE", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD", "PERSID", "BINPERSID"),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8", "EMPTY_SET", "ADDITEMS", "FROZENSET"),
)


def _is_plain(raw: bytes) -> bool:
    """Whether a pickle has neither bytes nor names nor references."""
    return not any(code.name in _OTHER for code, _, _ in pickletools.genops(raw))


@cache
def checkpoints() -> list[Files]:
    """Packages and checkpoints in both formats of torch."""
    made: list[Files] = []
    with TemporaryDirectory() as place:
        path = Path(place) / "model.pt"
        for name, options, names, zipped in [
            ("complex", {"reciprocal": True}, REVERSED, True),
            ("transe l_norm 2", {}, REVERSED, True),
            ("rotate", {"table": "embeddings"}, None, False),
            ("distmult", {"reciprocal": True}, None, True),
        ]:
            model = SavedModel(name, len(ENTITIES), len(RELATIONS), dimension=4, **options)
            save(path, model, names, zipped=zipped)
            made.append({"model.pt": path.read_bytes()})
    ids = {
        f"{kind}_ids.del": "".join(f"{i}\t{name}\n" for i, name in enumerate(names)).encode()
        for kind, names in zip(("entity", "relation"), REVERSED, strict=True)
    }
    return [*made, made[-1] | ids]


def read_checkpoint(folder: Path) -> Any:
    _, scorer, settings = open_libkge(folder / "model.pt", small_graph())
    return {"scores": tables(scorer, _EVERY_QUERY), "norm": float(settings.get("l_norm", 0))}


def plain_checkpoint(folder: Path) -> Any:
    saved, tensor = plain_torch_file((folder / "model.pt").read_bytes())
    weights, options = saved["model"][0], saved["config"].state["options"]
    name, key = options["model"], options["model"]
    reciprocal = name in ("reciprocal_relations_model", "inverse_relations_model")
    if reciprocal:
        key = f"{name}.base_model"
        name = _default(options, f"{key}.type")
    arrays: dict[str, Any] = {}
    for kind in ("entity", "relation"):
        prefix = f"{'_base_model.' * reciprocal}_{kind}_embedder"
        array = tensor(weights.get(f"{prefix}._embeddings.weight", weights.get(f"{prefix}.embeddings.weight")))
        arrays[kind] = array.dtype.name, array
    header: dict[str, Any] = {"model": name}
    for kind, plural in (("entity", "entities"), ("relation", "relations")):
        names = saved.get("dataset", {}).get("meta", {}).get(f"{kind}_ids")
        file = folder / f"{kind}_ids.del"
        if names is None and file.exists():
            pairs = sorted((decimal_id(i), n) for i, n in (line.split("\t", 1) for _, line in text_lines(file)))
            require([i for i, _ in pairs] == list(range(len(pairs))), "ids are not 0, 1, 2, ...")
            names = [n for _, n in pairs]
        header |= {plural: names} if names is not None else {}
    norm = _default(options, f"{key}.l_norm") if name in ("transe", "rotate") else 0
    require(norm in (0, 1, 2), "another norm")
    kinds, relations = arrays.pop("relation")
    if not reciprocal:
        return {"scores": plain_model(arrays | {"relation": (kinds, relations)}, header), "norm": float(norm)}
    forward, inverse = (
        plain_model(arrays | {"relation": (kinds, half)}, header)["tail"] for half in np.split(relations, 2)
    )
    return {"scores": {"tail": forward, "head": inverse}, "norm": float(norm)}


def _default(options: Any, key: str) -> Any:
    """LibKGE's Config.get_default."""

    def get(key: str) -> Any:
        value = options
        for part in key.split("."):
            value = value[part]
        return value

    try:
        return get(key)
    except (KeyError, TypeError):
        parent, _, option = key.rpartition(".")
    while parent:
        try:
            parent, _, option = f"{get(f'{parent}.type')}.{option}".rpartition(".")
        except (KeyError, TypeError):
            parent, _, last = parent.rpartition(".")
            option = f"{last}.{option}"
            continue
        try:
            return get(f"{parent}.{option}")
        except (KeyError, TypeError):
            continue
    raise KeyError(key)


def plain_torch_file(raw: bytes) -> tuple[Any, Callable[[Any], Any]]:
    """The content of a file of torch.save, and a function that makes an array of a tensor."""
    sizes = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "LongStorage": "<i8"}
    storages: dict[str, Callable[[], bytes]] = {}
    if raw.startswith(b"PK"):
        archive = zipfile.ZipFile(io.BytesIO(raw))
        (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = name.removesuffix("data.pkl")
        saved = _unpickled(io.BytesIO(archive.read(name)))
        storages = {i.filename.removeprefix(f"{folder}data/"): partial(archive.read, i) for i in archive.infolist()}
        if f"{folder}byteorder" in archive.namelist():
            require(archive.read(f"{folder}byteorder") == b"little", "another byte order")
    else:
        stream = io.BytesIO(raw)
        for _ in range(3):
            _unpickled(stream)
        reader = _Unpickler(stream, encoding="utf-8")
        kinds: dict[str, Any] = {}
        reader.persistent_load = lambda reference: kinds.setdefault(reference[2], reference)
        saved = reader.load()
        for key in _unpickled(stream):
            count = int.from_bytes(stream.read(8), "little")
            storages[key] = stream.read(count * np.dtype(sizes[kinds[key][1].__name__]).itemsize).__bytes__

    def tensor(value: Any) -> Any:
        if type(value).__name__ == "_rebuild_parameter":
            value = value.arguments[0]
        (_, kind, key, *_), first, shape, *_ = value.arguments
        flat = np.frombuffer(storages[key](), sizes[kind.__name__])
        return flat[first : first + int(np.prod(shape))].reshape(shape)

    return saved, tensor


@cache
def graphvite_models() -> list[Files]:
    draw = np.random.default_rng(0)
    made: list[Files] = []
    with TemporaryDirectory() as place:
        for model, protocol in (("ComplEx", 4), ("RotatE", 5), ("QuatE", 5)):
            drawn = [draw.normal(size=(rows, 4)).astype(np.float32) for rows in (len(ENTITIES), len(RELATIONS))]
            path = save_graphvite(Path(place) / "model.pkl", *drawn, REVERSED, protocol, model=model)
            made.append({"model.pkl": path.read_bytes()})
    return made


def read_graphvite(folder: Path) -> Any:
    with TemporaryDirectory() as place:
        convert_graphvite(folder / "model.pkl", Path(place) / "model.pkl.npz")
        return read_embeddings(Path(place))


def plain_graphvite(folder: Path) -> Any:
    saved = _unpickled(io.BytesIO((folder / "model.pkl").read_bytes()))
    solver, graph = saved["solver"], saved["graph"]
    model = {"complex": "ComplEx", "rotate": "RotatE", "quate": "QuatE"}.get(solver["model"].lower(), solver["model"])
    entity, relation = (_array(solver[f"{kind}_embeddings"]) for kind in ("entity", "relation"))
    parts = {"ComplEx": 2, "RotatE": 2, "QuatE": 4}.get(model, 1)
    require(entity.shape[1] == relation.shape[1], "other widths")

    def arranged(rows: Any) -> Any:
        return np.concatenate([rows[:, part::parts] for part in range(parts)], axis=1)

    relation = relation[:, : relation.shape[1] // 2] if model == "RotatE" else arranged(relation)
    arrays = {"entity": ("float32", arranged(entity)), "relation": ("float32", relation)}
    names = {
        plural: graph[f"id2{kind}"]
        if f"id2{kind}" in graph
        else sorted(graph[f"{kind}2id"], key=graph[f"{kind}2id"].get)
        for kind, plural in (("entity", "entities"), ("relation", "relations"))
    }
    return plain_model(arrays, {"model": model, **names})


def _array(value: Any) -> Any:
    if type(value).__name__ == "_frombuffer":
        content, kind, shape, order = value.arguments
    else:
        _, shape, kind, by_column, content = value.state
        order = "F" if by_column else "C"
    return np.frombuffer(content, np.dtype(kind.arguments[0]).newbyteorder(kind.state[1])).reshape(shape, order=order)


KINDS = (
    Kind("pickle", pickles, read_value, plain_value),
    Kind("libkge", checkpoints, read_checkpoint, plain_checkpoint, tolerance=1e-6),
    Kind("graphvite", graphvite_models, read_graphvite, plain_graphvite, tolerance=1e-6),
)
