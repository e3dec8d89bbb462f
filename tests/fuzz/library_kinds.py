"""Model folders of large-scale libraries: DGL-KE and Marius."""

from __future__ import annotations

import json
import math
import os
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fuzz.containers import array_bytes
from fuzz.inputs import Files, Kind, require
from fuzz.model_kinds import (
    EVERY_QUERY,
    RELATION_COUNT,
    SIDES,
    SIZE,
    finite_table,
    normal,
    plain_arrays,
    plain_model,
    reordered,
    tables,
)
from fuzz.pickle_kinds import plain_torch_file
from fuzz.plain import ENTITIES, RELATIONS, decimal_id, small_graph, text_lines
from kgprobe.predict.adapters.dgl_ke_folder import open_dgl_ke
from kgprobe.predict.adapters.marius_folder import open_marius
from saved_models.marius.make_marius import write_folder

_DGL_KE = {
    "TransE": "transe",
    "TransE_l1": "transe",
    "TransE_l2": "transe",
    "TransR": "transr",
    "DistMult": "distmult",
    "ComplEx": "complex",
    "RotatE": "rotate",
    "RESCAL": "rescal",
    "SimplE": "simple",
}
"""The formula of each model."""


def dgl_ke_folders() -> list[Files]:
    """Options of both versions, with names and without."""

    def folder(model: str, config: dict[str, Any], *shapes: tuple[int, int]) -> Files:
        endings = ("_entity", "_relation", "projection")
        files = {
            f"d_{model}{ending}.npy": array_bytes(normal(*shape))
            for ending, shape in zip(endings, shapes, strict=False)
        }
        options = {"dataset": "d", "gamma": 9.0, **config}
        names = {
            "entities.tsv": "".join(f"{i}\t{label}\n" for i, label in enumerate(ENTITIES[::-1])).encode(),
            "r.txt": "".join(f"{i}\t{label}\n" for i, label in enumerate(RELATIONS[::-1])).encode(),
        }
        return files | {"config.json": json.dumps(options).encode()} | (names if "rmap_file" in config else {})

    entity, relation = (SIZE, 4), (RELATION_COUNT, 4)
    old = {"emap_file": "entities.tsv", "rmap_file": "r.txt", "double_ent": False}
    new = {"hidden_dim": 2, "double_ent": True, "delimiter": "\t"}
    return [
        folder("TransE_l2", {"model": "TransE_l2", "emb_size": 4, **old}, entity, relation),
        folder("RotatE", {"model_name": "RotatE", **new, "rmap_file": "r.txt"}, entity, (RELATION_COUNT, 2)),
        folder("SimplE", {"model_name": "SimplE", **new, "double_rel": True}, entity, relation),
        folder("RESCAL", {"model": "RESCAL", "emb_size": 4}, entity, (RELATION_COUNT, 16)),
        folder("TransR", {"model": "TransR", "emb_size": 4, **old}, entity, relation, (RELATION_COUNT, 16)),
    ]


def read_dgl_ke(folder: Path) -> Any:
    _, scorer, _ = open_dgl_ke(folder, small_graph())
    if not hasattr(scorer, "candidates_for"):
        return tables(scorer, EVERY_QUERY)
    given, relation = np.array(EVERY_QUERY["tail"]).T
    return {
        side: {
            "candidates": [scorer.candidates_for(side, r).tolist() for r in range(RELATION_COUNT)],
            "queries": scorer.encode_queries(side, given, relation).tolist(),
        }
        for side in SIDES
    }


def plain_dgl_ke(folder: Path) -> Any:
    config = json.loads((folder / "config.json").read_bytes())

    def first(*keys: str) -> Any:
        return next((config[key] for key in keys if config.get(key) is not None), None)

    name, dataset, gamma = first("model_name", "model"), config["dataset"], config["gamma"]
    hidden, doubled, delimiter = first("hidden_dim", "emb_size"), config.get("double_ent"), config.get("delimiter")
    require(type(gamma) in (int, float) and -2 < gamma <= float(np.finfo(np.float32).max), "a margin")
    require(type(hidden) is int and hidden > 0 and doubled in (None, False, True), "a dimension")
    require(dataset not in ("", ".", "..") and not set(dataset) & set("/\\\0"), "a dataset")
    require(delimiter is None or (len(delimiter) == 1 and delimiter.isascii() and delimiter not in '\r\n\0"'), "a gap")
    model = _DGL_KE[name]
    endings = {"entity": "_entity", "relation": "_relation"} | (
        {"projection": "projection"} if model == "transr" else {}
    )
    files = {array: f"{dataset}_{name}{ending}.npy" for array, ending in endings.items()}
    arrays = {array: plain_arrays(folder / file)[0][file] for array, file in files.items()}
    require(arrays["entity"][1].shape[1:] == (hidden * (2 if doubled else 1),), "another dimension")
    header: dict[str, Any] = {"model": model}
    for kind, given in (("entities", first("emp_file", "emap_file")), ("relations", config.get("rmap_file"))):
        named = [Path(given).name] if isinstance(given, str) else [f"{kind}.tsv", f"{kind}.dict"]
        for path in [folder / file for file in named if os.path.isfile(folder / file)][:1]:
            header[kind] = _labels([tuple(line.split(delimiter or "\t")) for _, line in text_lines(path)])
    size = arrays["entity"][1].shape[1]
    if model == "rotate":
        finite_table(dict(arrays), "relation", RELATION_COUNT, size // 2)
        arrays["relation"] = ("float64", arrays["relation"][1].astype(np.float64) / ((gamma + 2) / hidden / math.pi))
    if model == "rescal":
        finite_table(dict(arrays), "relation", RELATION_COUNT, size * size)
        kind, matrices = arrays["relation"]
        arrays["relation"] = (kind, matrices.reshape(RELATION_COUNT, size, size))
    if model in ("simple", "transr"):
        return _other_model(model, arrays, header)
    return plain_model(arrays, header)


def _labels(pairs: list[tuple[str, ...]]) -> list[str]:
    """The labels of (id, label) in the order of the ids."""
    require(all(len(pair) == 2 for pair in pairs), "other columns")
    ordered = sorted((decimal_id(number), label) for number, label in pairs)
    require([number for number, _ in ordered] == list(range(len(ordered))), "ids are not 0, 1, 2, ...")
    return [label for _, label in ordered]


def _other_model(model: str, arrays: dict[str, Any], header: dict[str, Any]) -> Any:
    """The candidates and every query of SimplE and TransR."""
    entity = reordered(finite_table(arrays, "entity", SIZE, -1), header.get("entities"), ENTITIES)
    relation = reordered(finite_table(arrays, "relation", RELATION_COUNT, -1), header.get("relations"), RELATIONS)
    size, width = entity.shape[1], relation.shape[1]
    answer: dict[str, Any] = {}
    if model == "transr":
        stored = finite_table(arrays, "projection", RELATION_COUNT, size * width)
        matrices = reordered(stored, header.get("relations"), RELATIONS).reshape(RELATION_COUNT, size, width)
        moved = [[[math.fsum(column) for column in (e[:, None] * m).T.tolist()] for e in entity.astype(float)]
                 for m in matrices.astype(float)]  # fmt: skip
    else:
        require(size == width and not size % 2, "another dimension")
    for side in SIDES:
        sign, half, rows = (1 if side == "tail" else -1), size // 2, []
        for e, r in EVERY_QUERY[side]:
            if model == "transr":
                rows.append([a + sign * b for a, b in zip(moved[r][e], relation[r].tolist(), strict=True)])
                continue
            given, (x, y) = entity[e].tolist(), (relation[r, :half].tolist(), relation[r, half:].tolist())
            parts = (y, x) if side == "tail" else (x, y)  # what multiplies the second half of the given, and the first
            rows.append([a * b / 2 for a, b in zip(given[half:] + given[:half], parts[0] + parts[1], strict=True)])
        candidates = np.array(moved if model == "transr" else entity, np.float32)
        answer[side] = {"candidates": candidates.tolist(), "queries": np.array(rows, np.float32).tolist()}
    return answer


@cache
def marius_folders() -> list[Files]:
    """A folder for each decoder; the last one without names."""
    import torch

    class Parameters(torch.nn.Module):
        def __init__(self, given: dict[str, Any]) -> None:
            super().__init__()
            for name, values in given.items():
                self.register_parameter(name, torch.nn.Parameter(torch.from_numpy(values)))

        def forward(self) -> int:
            return 0

    def archive(path: Path, given: dict[str, Any]) -> None:
        with warnings.catch_warnings(action="ignore"):  # that torch.jit is old
            torch.jit.save(torch.jit.script(Parameters(given)), path)

    files: list[Files] = []
    for number, decoder in enumerate(("TRANSE", "COMPLEX", "DISTMULT")):
        shapes = {"entity": (SIZE, 4), "relation": (RELATION_COUNT, 4), "inverse": (RELATION_COUNT, 4)}
        made = {name: normal(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
        with TemporaryDirectory() as place:
            write_folder(Path(place), decoder, made, (ENTITIES, RELATIONS) if number < 2 else None, archive)
            files.append({path.name: path.read_bytes() for path in sorted(Path(place).iterdir())})
    return files


def read_marius(folder: Path) -> Any:
    _, scorer, _ = open_marius(folder, small_graph(), SIDES)  # type: ignore[arg-type]
    return tables(scorer, EVERY_QUERY)


def plain_marius(folder: Path) -> Any:
    import yaml

    config = yaml.load((folder / "full_config.yaml").read_bytes(), yaml.BaseLoader)
    decoder = config["model"]["decoder"]
    model = {"DISTMULT": "distmult", "COMPLEX": "complex", "TRANSE": "transe"}[str(decoder["type"]).upper()]
    ((layer,),) = config["model"]["encoder"]["layers"]
    require(str(layer["type"]).upper() == "EMBEDDING" and layer.get("bias", "false") == "false", "another encoder")
    require(str(layer.get("activation", "none")).upper() == "NONE", "an activation")
    options = decoder.get("options")
    require((options.get("inverse_edges", "true") if isinstance(options, dict) else "true") == "true", "no inverse")
    storage = config["storage"]
    embeddings = storage.get("embeddings")
    kinds = embeddings.get("options") if isinstance(embeddings, dict) else None
    require((kinds.get("dtype", "float") if isinstance(kinds, dict) else "float") in ("float", "float32"), "a type")
    numbers = (storage["dataset"]["num_nodes"], storage["dataset"]["num_relations"], layer["output_dim"])
    require(all(text.isascii() and text.isdigit() and len(text) < 16 for text in numbers), "a number")
    nodes, relations, size = map(int, numbers)
    require(nodes == SIZE and relations > 1 and size > 0, "another size")
    entity = np.frombuffer((folder / "embeddings.bin").read_bytes(), "<f4").reshape(nodes, size)
    header: dict[str, Any] = {"model": model}
    for kind, file in (("entities", "node_mapping.txt"), ("relations", "relation_mapping.txt")):
        if (folder / file).exists():
            lines = [line.rsplit(",", 1) for _, line in text_lines(folder / file)]
            header[kind] = _labels([tuple(fields[::-1]) for fields in lines])
    module, tensor = plain_torch_file((folder / "model.pt").read_bytes())
    answer = {}
    for side, name in zip(SIDES, ("relation_embeddings", "inverse_relation_embeddings"), strict=True):
        relation = tensor(module.state[name])
        arrays = {"entity": ("float32", entity), "relation": (relation.dtype.name, relation)}
        answer[side] = plain_model(arrays, header)["tail"]
    return answer


KINDS = (
    Kind("dgl-ke-folder", dgl_ke_folders, read_dgl_ke, plain_dgl_ke, tolerance=1e-6),
    *(
        [Kind("marius-folder", marius_folders, read_marius, plain_marius, tolerance=1e-6)]
        if find_spec("torch") and find_spec("yaml")
        else []
    ),
)
