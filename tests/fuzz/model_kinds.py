"""Models as arrays: embedding files, score files, RotatE checkpoints and PyKEEN folders."""

from __future__ import annotations

import gzip
import io
import json
import math
import struct
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fuzz.containers import array_bytes, seals, zip_bytes
from fuzz.inputs import Files, Kind, only_file, require
from fuzz.plain import ENTITIES, RELATIONS, TEST, decimal_id, known_answers, small_graph, text_lines
from kgprobe.predict import rank
from kgprobe.predict.adapters.embedding_files import open_embeddings, write_embeddings
from kgprobe.predict.adapters.rotate_checkpoint import open_rotate_checkpoint

SIDES = ("tail", "head")
SIZE, RELATION_COUNT = len(ENTITIES), len(RELATIONS)
FLOATS = ("float16", "bfloat16", "float32", "float64")
Arrays = dict[str, tuple[str, Any]]
"""Arrays by name, each with the name of its number type; bfloat16 is already float32."""


def plain_arrays(path: Path) -> tuple[Arrays, str | None]:
    """The arrays of a file and its header text, by the definitions of .npz, .npy and .safetensors."""
    raw = path.read_bytes()
    if raw.startswith(b"PK"):
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        text = arrays.get("header")
        if text is not None and text.shape == () and text.dtype.kind == "U":
            del arrays["header"]
            return _typed(arrays), str(text)
        return _typed(arrays), None
    if raw.startswith(b"\x93NUMPY"):
        return _typed({path.name: np.load(path, allow_pickle=False)}), None
    (length,) = struct.unpack("<Q", raw[:8])
    contents, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    metadata = contents.pop("__metadata__", {})
    header = metadata.get("kgprobe") if isinstance(metadata, dict) else None
    require(all(found == right for found, right in seals(raw)), "a wrong hash")
    return {name: _tensor(entry, data) for name, entry in contents.items()}, header


def _typed(arrays: Mapping[str, Any]) -> Arrays:
    return {name: (array.dtype.name, array) for name, array in arrays.items()}


_CODES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}


def _tensor(entry: Any, data: bytes) -> tuple[str, Any]:
    start, end = entry["data_offsets"]
    require(0 <= start <= end <= len(data), "an array outside the file")
    array = np.frombuffer(data[start:end], _CODES[entry["dtype"]])
    require(array.size == math.prod(entry["shape"]), "an array of the wrong size")
    array = array.reshape(entry["shape"])
    if entry["dtype"] == "BF16":
        return "bfloat16", (array.astype(np.uint32) << 16).view(np.float32)
    return array.dtype.name, array


def finite_table(arrays: Arrays, name: str, *shape: int, exact: bool = False) -> Any:
    """An array of finite numbers of this shape (-1: any), rounded to float32 unless ``exact``."""
    kind, array = arrays.pop(name)
    require(kind in FLOATS and array.ndim == len(shape), f"{name} is no table of numbers")
    require(all(n in (-1, m) for n, m in zip(shape, array.shape, strict=True)), f"{name} has the wrong shape")
    with np.errstate(all="ignore"):
        singles = array.astype(np.float32)
    require(np.isfinite(singles).all(), f"{name} is not finite")
    return array.astype(np.float64) if exact else singles


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


@cache
def embedding_files() -> list[Files]:
    """Every model and both similarities, stored and compressed, in several number types, with names and biases."""
    entity, relation = normal(SIZE, 4), normal(RELATION_COUNT, 4)
    named = {"entities": ENTITIES[::-1], "relations": RELATIONS[::-1]}
    queries = {"tail_query": normal(3, 4)[[0, 0, 1]], "head_query": normal(3, 4, seed=1), "triples": np.array(TEST)}
    models: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"model": "DistMult"}, {"entity": entity, "relation": relation, "entity_bias": normal(SIZE)}),
        ({"model": "TransE", "p": 1, "gamma": 9.0}, {"entity": entity.astype(np.float64), "relation": relation}),
        ({"model": "complex", "name": "é", **named}, {"entity": entity, "relation": relation.astype(np.float16)}),
        ({"model": "RotatE", "gamma": 6}, {"entity": entity, "relation": normal(RELATION_COUNT, 2)}),
        ({"model": "RESCAL"}, {"entity": entity, "relation": normal(RELATION_COUNT, 4, 4)}),
        ({"model": "CP"}, {"head_entity": entity, "tail_entity": -entity, "relation": relation}),
        ({"model": "QuatE"}, {"entity": entity, "relation": relation}),
        ({"similarity": "dot"}, {"entity": entity, **queries}),
        ({"similarity": "group_norm", "group_size": 2}, {"entity": entity, **queries}),
    ]
    files: list[Files] = []
    with TemporaryDirectory() as folder:
        for header, arrays in models:
            for name in ("model.npz", "model.safetensors"):
                write_embeddings(Path(folder) / name, header, arrays)
                files.append({name: (Path(folder) / name).read_bytes()})
            members = {"header": np.array(json.dumps(header)), **arrays}
            files.append({"packed.npz": archive(members, zipfile.ZIP_DEFLATED)})
    return files


def archive(arrays: Mapping[str, Any], method: int) -> bytes:
    return zip_bytes([(f"{name}.npy", array_bytes(np.asarray(array))) for name, array in arrays.items()], method)


def tables(scorer: Any, pairs: Mapping[str, Sequence[tuple[int, int]]]) -> dict[str, Any]:
    """The embeddings of all candidates and of the queries (given, relation) of a scorer."""
    read: dict[str, Any] = {}
    for side, asked in pairs.items():
        given, relation = np.array(asked).T
        read[side] = {
            "candidates": np.asarray(scorer.candidates(side)).tolist(),
            "queries": np.asarray(scorer.encode_queries(side, given, relation)).tolist(),
        }
    return read


EVERY_QUERY = {side: list(product(range(SIZE), range(RELATION_COUNT))) for side in SIDES}
_TEST_QUERIES = {"tail": [(h, r) for h, r, _ in TEST], "head": [(t, r) for _, r, t in TEST]}


def read_embeddings(folder: Path) -> Any:
    graph = small_graph()
    _, scorer, settings = open_embeddings(only_file(folder), graph, graph.triples("test"))
    return tables(scorer, EVERY_QUERY if "model" in settings else _queried(scorer))


def _queried(scorer: Any) -> dict[str, Any]:
    return {side: asked for side, asked in _TEST_QUERIES.items() if side in scorer.rows.readers}


def plain_embeddings(folder: Path) -> Any:
    arrays, text = plain_arrays(only_file(folder))
    header = json.loads(text or "")
    header.pop("sha256", None)
    if "model" in header:
        return plain_model(arrays, header)
    entity = finite_table(arrays, "entity", SIZE, -1)
    candidates = _biased(entity, arrays.pop("entity_bias", None), header)
    names = {f"{side}_query": side for side in SIDES if f"{side}_query" in arrays}
    queries = {side: finite_table(arrays, name, 3, entity.shape[1]) for name, side in names.items()}
    if "triples" in arrays:
        require(arrays.pop("triples")[1].tolist() == TEST, "other triples")
    require(not arrays and queries, "other arrays")
    for side, rows in queries.items():
        first = [_TEST_QUERIES[side].index(query) for query in _TEST_QUERIES[side]]
        require((rows == rows[first]).all(), "rows of one query differ")
    return {
        side: {"candidates": candidates.tolist(), "queries": _ones(rows, candidates)} for side, rows in queries.items()
    }


def _ones(rows: Any, candidates: Any) -> list[list[float]]:
    """Queries with a 1 for the bias of the candidates, where these have one."""
    spare = candidates.shape[1] - rows.shape[1]
    return [[*row, *[1.0] * spare] for row in rows.tolist()]


def _biased(table: Any, bias: Any, header: Mapping[str, Any]) -> Any:
    """The candidates in the order of the graph's ids, with their bias as a last column if they have one."""
    if bias is not None:
        table = np.column_stack([table, finite_table({"entity_bias": bias}, "entity_bias", SIZE)])
    return reordered(table, header.get("entities"), ENTITIES)


def reordered(table: Any, given: Sequence[str] | None, labels: Sequence[str]) -> Any:
    """Rows in the order of the graph's ids, if the file names them in another order."""
    if given is None:
        return table
    require(sorted(given) == sorted(labels), "other names")
    return table[[given.index(label) for label in labels]]


def plain_model(arrays: Arrays, header: dict[str, Any]) -> Any:
    """The candidates and every query of a model, by the formula of its paper."""
    model = header["model"].lower()
    names = ("head_entity", "tail_entity") if model == "cp" else ("entity", "entity")
    read = {name: finite_table(arrays, name, SIZE, -1) for name in dict.fromkeys(names)}
    size = read[names[0]].shape[1]
    shape = {"rotate": (size // 2,), "rescal": (size, size)}.get(model, (size,))
    require(all(table.shape[1] == size for table in read.values()), "tables of different widths")
    exact = model in ("rotate", "quate")  # what is computed of angles and lengths is rounded afterwards
    stored = finite_table(arrays, "relation", RELATION_COUNT, *shape, exact=exact)
    relation = reordered(stored, header.get("relations"), RELATIONS)
    paired = model in ("complex", "rotate")
    require(not (paired and size % 2), "an odd number of coordinates")
    require(not (model == "quate" and size % 4), "coordinates that are no quaternions")
    bias = arrays.pop("entity_bias", None)
    heads, tails = (_biased(_interleaved(read[n]) if paired else read[n], bias, header) for n in names)
    require(not arrays, "other arrays")
    answer: dict[str, Any] = {}
    for side in SIDES:
        table, candidates = (heads, tails) if side == "tail" else (tails, heads)
        rows = np.array(
            [_composed(model, side, table[e, :size].tolist(), relation[r].tolist()) for e, r in EVERY_QUERY[side]]
        )
        with np.errstate(over="ignore"):
            queries = rows.astype(np.float32)
        answer[side] = {"candidates": candidates.tolist(), "queries": _ones(queries, candidates)}
    return answer


def _interleaved(table: Any) -> Any:
    """Real and imaginary parts side by side; the file has all real parts before all imaginary ones."""
    half = table.shape[1] // 2
    return table[:, [i // 2 + half * (i % 2) for i in range(2 * half)]]


def _composed(model: str, side: str, entity: list[float], relation: list[Any]) -> list[float]:
    if model == "transe":
        return [e + r if side == "tail" else e - r for e, r in zip(entity, relation, strict=True)]
    if model in ("distmult", "cp"):
        return [e * r for e, r in zip(entity, relation, strict=True)]
    if model == "rescal":
        rows = relation if side == "head" else list(zip(*relation, strict=True))
        return [sum(e * r for e, r in zip(entity, row, strict=True)) for row in rows]
    if model == "quate":
        return _quaternions(side, entity, relation)
    half = len(entity) // 2
    if model == "complex":
        factors = [complex(relation[i], relation[half + i]) for i in range(half)]
    else:
        factors = [complex(np.float32(math.cos(angle)), np.float32(math.sin(angle))) for angle in relation]
    numbers = [complex(*entity[2 * i : 2 * i + 2]) for i in range(half)]
    turned = [n * (f if side == "tail" else f.conjugate()) for n, f in zip(numbers, factors, strict=True)]
    return [part for number in turned for part in (number.real, number.imag)]


def _quaternions(side: str, entity: list[float], relation: list[float]) -> list[float]:
    """The Hamilton products of entities and unit relations, whose parts are a quarter each."""
    count = len(entity) // 4
    turned = np.zeros((4, count))
    for at in range(count):
        (a, b, c, d), parts = entity[at::count], relation[at::count]
        length = math.sqrt(sum(part * part for part in parts)) + 1e-15
        e, f, g, h = (float(np.float32(part / length)) for part in parts)
        if side == "head":
            f, g, h = -f, -g, -h
        turned[:, at] = (
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        )
    return list(turned.ravel().tolist())


def score_files() -> list[Files]:
    tail, head = normal(3, SIZE)[[0, 0, 1]], normal(3, SIZE, seed=1)
    tail[2, 1:4] = np.inf, -np.inf, 0.5
    head[:, 2:] = np.round(head[:, 2:])
    arrays: dict[str, Any] = {"tail": tail, "head": head.astype(np.float64), "triples": np.array(TEST)}
    folder = {f"{name}.npy": array_bytes(array) for name, array in arrays.items()}
    contents: dict[str, Any] = {}
    data = b""
    for name, code in (("tail", "F32"), ("head", "F64"), ("triples", "I64")):
        contents[name] = {
            "dtype": code,
            "shape": arrays[name].shape,
            "data_offsets": [len(data), len(data) + arrays[name].nbytes],
        }
        data += np.ascontiguousarray(arrays[name]).tobytes()
    text = json.dumps(contents).encode()
    return [
        {"scores.npz": archive(arrays, zipfile.ZIP_STORED)},
        {"scores.npz": archive({"tail": tail.astype(np.float16), "head": head}, zipfile.ZIP_DEFLATED)},
        {"scores.safetensors": struct.pack("<Q", len(text)) + text + data},
        folder,
    ]


def read_scores(folder: Path) -> Any:
    files = list(folder.iterdir())
    single = len(files) == 1 and files[0].suffix != ".npy"
    ranks = rank(files[0] if single else folder, small_graph())
    return {
        name: ranks.column(name).to_pylist()
        for name in ("head", "relation", "tail", "side", "rank", "ties", "candidates")
    }


def plain_scores(folder: Path) -> Any:
    files = sorted(folder.iterdir())
    if len(files) == 1 and files[0].suffix != ".npy":
        arrays, _ = plain_arrays(files[0])
    else:
        names = ("tail", "head", "triples")
        arrays = {
            name: plain_arrays(folder / f"{name}.npy")[0][f"{name}.npy"]
            for name in names
            if (folder / f"{name}.npy").exists()
        }
    if "triples" in arrays:
        require(arrays.pop("triples")[1].tolist() == TEST, "other triples")
    rows: dict[str, list[Any]] = {
        name: [] for name in ("head", "relation", "tail", "side", "rank", "ties", "candidates")
    }
    for side in SIDES:
        kind, scores = arrays.pop(side)
        require(kind in FLOATS and scores.shape == (3, SIZE), "not the scores of all entities")
        for row, (head, relation, tail) in enumerate(TEST):
            given, target = (head, tail) if side == "tail" else (tail, head)
            first = _TEST_QUERIES[side].index((given, relation))
            require(scores[row].tolist() == scores[first].tolist(), "rows of one query differ")
            others = set(range(SIZE)) - known_answers()[side, given, relation] - {target}
            own = float(scores[row, target])
            require(not math.isnan(own), "a score is not a number")
            better = sum(float(scores[row, entity]) > own for entity in others)
            equal = sum(float(scores[row, entity]) == own for entity in others)
            for name, value in zip(
                rows, (head, relation, tail, side, 1 + better + equal / 2, equal, 1 + len(others)), strict=True
            ):
                rows[name].append(value)
    require(not arrays, "other arrays")
    return rows


def rotate_folders() -> list[Files]:
    def folder(config: dict[str, Any], entity: Any, relation: Any, *, named: bool) -> Files:
        files = {
            "config.json": json.dumps(config).encode(),
            "entity_embedding.npy": array_bytes(entity),
            "relation_embedding.npy": array_bytes(relation),
        }
        entities = "".join(f"{i}\t{label}\n" for i, label in enumerate(ENTITIES[::-1])).encode()
        relations = "".join(f"{i}\t{label}\n" for i, label in enumerate(RELATIONS[::-1])).encode()
        return files | ({"entities.dict": entities, "relations.dict": relations} if named else {})

    config = {
        "model": "RotatE",
        "gamma": 9.0,
        "hidden_dim": 2,
        "double_entity_embedding": True,
        "init_checkpoint": None,
    }
    return [
        folder(config, normal(SIZE, 4), normal(2, 2), named=True),
        folder(
            config | {"model": "TransE", "hidden_dim": 4, "double_entity_embedding": False},
            normal(SIZE, 4),
            normal(2, 4),
            named=False,
        ),
        folder(
            config | {"model": "ComplEx", "double_relation_embedding": True},
            normal(SIZE, 4),
            normal(2, 4),
            named=False,
        ),
    ]


def read_rotate(folder: Path) -> Any:
    _, scorer, _ = open_rotate_checkpoint(folder, small_graph())
    return tables(scorer, EVERY_QUERY)


def plain_rotate(folder: Path) -> Any:
    config = json.loads((folder / "config.json").read_bytes())
    require(config["model"] in ("TransE", "DistMult", "ComplEx", "RotatE"), "an unknown model")
    gamma, hidden = config["gamma"], config["hidden_dim"]
    require(type(gamma) in (int, float) and math.isfinite(gamma) and type(hidden) is int and hidden > 0, "a setting")
    files = {"entity": "entity_embedding.npy", "relation": "relation_embedding.npy"}
    arrays = {name: plain_arrays(folder / file)[0][file] for name, file in files.items()}
    width = hidden * (2 if config.get("double_entity_embedding") else 1)
    require(arrays["entity"][1].shape[1:] == (width,), "another dimension")
    header: dict[str, Any] = {"model": config["model"]}
    for kind in ("entities", "relations"):
        if (folder / f"{kind}.dict").exists():
            pairs = sorted(
                (decimal_id(n), label)
                for n, label in (line.split("\t") for _, line in text_lines(folder / f"{kind}.dict"))
            )
            require([number for number, _ in pairs] == list(range(len(pairs))), "ids are not 0, 1, 2, ...")
            header[kind] = [label for _, label in pairs]
    if config["model"] == "RotatE":
        finite_table(dict(arrays), "relation", RELATION_COUNT, hidden)
        reach = np.float32((float(np.float32(gamma)) + 2.0) / hidden)
        # The code base stores the range in float32 and divides by this pi.
        arrays["relation"] = (
            "float64",
            arrays["relation"][1].astype(np.float64) / (float(reach) / 3.14159262358979323846),
        )
    return plain_model(arrays, header)


@cache
def pykeen_folders() -> list[Files]:
    """Two models with weights of torch and of safetensors, one with names in another order."""
    from pykeen.models import DistMult, TransE
    from pykeen.triples import KGInfo
    from safetensors.torch import save

    from kgprobe.predict.adapters.pykeen_folder import save_for_ranking

    def names(labels: Sequence[str]) -> bytes:
        lines = "".join(f"{i}\t{label}\n" for i, label in enumerate(labels))
        return gzip.compress(f"id\tlabel\n{lines}".encode(), mtime=0)

    files: list[Files] = []
    for model in (TransE, DistMult):
        built = model(triples_factory=KGInfo(SIZE, RELATION_COUNT, False), embedding_dim=3, random_seed=1)
        with TemporaryDirectory() as place:
            save_for_ranking(built, None, place)
            folder = {path.name: path.read_bytes() for path in sorted(Path(place).iterdir())}
        weights = {
            name: tensor.contiguous() for name, tensor in built.state_dict().items() if "regularizer" not in name
        }
        files += [folder, {"kgprobe.json": folder["kgprobe.json"], "model.safetensors": save(weights)}]
    named = {
        "training_triples/entity_to_id.tsv.gz": names(ENTITIES[::-1]),
        "training_triples/relation_to_id.tsv.gz": names(RELATIONS[::-1]),
    }
    return [*files, files[1] | named]


def read_pykeen(folder: Path) -> Any:
    from kgprobe.predict.adapters.pykeen_folder import open_pykeen
    from kgprobe.predict.adapters.pykeen_scorer import PykeenScores

    _, scorer, _ = open_pykeen(folder, small_graph())
    rank(folder, small_graph())  # weights that are not numbers are found here
    if isinstance(scorer, PykeenScores):
        table = scorer.model.entity_representations[0]().detach().numpy()
        return {"candidates": (table if scorer.ids is None else table[scorer.ids[0]]).tolist()}
    return {"candidates": np.asarray(scorer.candidates("tail")).tolist()}


def plain_pykeen(folder: Path) -> Any:
    import torch

    settings = json.loads((folder / "kgprobe.json").read_bytes())
    require(settings["num_entities"] == SIZE and settings["num_relations"] == RELATION_COUNT, "other sizes")
    weight = "entity_representations.0._embeddings.weight"
    if (folder / "model.safetensors").exists():
        table = plain_arrays(folder / "model.safetensors")[0][weight][1]
    else:
        table = torch.load(io.BytesIO((folder / "model_state.pt").read_bytes()), weights_only=True)[weight].numpy()
    path = folder / "training_triples" / "entity_to_id.tsv.gz"
    if not path.exists():
        return {"candidates": table.astype(np.float32).tolist()}
    pairs = sorted((decimal_id(n), label) for n, label in (line.split("\t") for _, line in text_lines(path)[1:]))
    return {"candidates": reordered(table, [label for _, label in pairs], ENTITIES).astype(np.float32).tolist()}


KINDS = (
    Kind("embeddings", embedding_files, read_embeddings, plain_embeddings, tolerance=1e-6),
    Kind("scores", score_files, read_scores, plain_scores),
    Kind("rotate-folder", rotate_folders, read_rotate, plain_rotate, tolerance=1e-6),
    *([Kind("pykeen-folder", pykeen_folders, read_pykeen, plain_pykeen)] if find_spec("pykeen") else []),
)
