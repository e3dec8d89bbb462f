"""Files of models: embeddings, scores, top-k lists, candidate sets, RotatE checkpoints and PyKEEN folders."""

from __future__ import annotations

import gzip
import io
import json
import math
import struct
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from fuzz.containers import array_bytes, table_bytes, zip_bytes
from fuzz.inputs import Files, Kind, only_file, require
from fuzz.plain import ENTITIES, RELATIONS, TEST, decimal_id, known_answers, small_graph, text_lines, whole_columns
from kgprobe.predict import Model, rank
from kgprobe.predict.adapters.embedding_files import open_embeddings, write_embeddings
from kgprobe.predict.adapters.rotate_checkpoint import open_rotate_checkpoint
from kgprobe.predict.adapters.top_k_files import open_top_k
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.tasks import QueryCandidates, open_candidates

SIDES = ("tail", "head")
SIZE, KINDS_OF_RELATION = len(ENTITIES), len(RELATIONS)
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


def _table(arrays: Arrays, name: str, *shape: int) -> Any:
    """An array of finite numbers of this shape (-1: any), in float32."""
    kind, array = arrays.pop(name)
    require(kind in FLOATS and array.ndim == len(shape), f"{name} is no table of numbers")
    require(all(n in (-1, m) for n, m in zip(shape, array.shape, strict=True)), f"{name} has the wrong shape")
    with np.errstate(all="ignore"):
        singles = array.astype(np.float32)
    require(np.isfinite(singles).all(), f"{name} is not finite")
    return singles


_random = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return _random.normal(size=shape).astype(np.float32)


@cache
def embedding_files() -> list[Files]:
    """Every model and both similarities, stored and compressed, in several number types, with names and biases."""
    entity, relation = _normal(SIZE, 4), _normal(KINDS_OF_RELATION, 4)
    named = {"entities": ENTITIES[::-1], "relations": RELATIONS[::-1]}
    queries = {"tail_query": _normal(3, 4)[[0, 0, 1]], "head_query": _normal(3, 4), "triples": np.array(TEST)}
    models: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"model": "DistMult"}, {"entity": entity, "relation": relation, "entity_bias": _normal(SIZE)}),
        ({"model": "TransE", "p": 1, "gamma": 9.0}, {"entity": entity.astype(np.float64), "relation": relation}),
        ({"model": "complex", "name": "é", **named}, {"entity": entity, "relation": relation.astype(np.float16)}),
        ({"model": "RotatE", "gamma": 6}, {"entity": entity, "relation": _normal(KINDS_OF_RELATION, 2)}),
        ({"model": "RESCAL"}, {"entity": entity, "relation": _normal(KINDS_OF_RELATION, 4, 4)}),
        ({"model": "CP"}, {"head_entity": entity, "tail_entity": -entity, "relation": relation}),
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
            files.append({"packed.npz": _archive(members, zipfile.ZIP_DEFLATED)})
    return files


def _archive(arrays: Mapping[str, Any], method: int) -> bytes:
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


_EVERY_QUERY = {side: list(product(range(SIZE), range(KINDS_OF_RELATION))) for side in SIDES}
_TEST_QUERIES = {"tail": [(h, r) for h, r, _ in TEST], "head": [(t, r) for _, r, t in TEST]}


def read_embeddings(folder: Path) -> Any:
    graph = small_graph()
    _, scorer, settings = open_embeddings(only_file(folder), graph, graph.triples("test"))
    return tables(scorer, _EVERY_QUERY if "model" in settings else _queried(scorer))


def _queried(scorer: Any) -> dict[str, Any]:
    return {side: asked for side, asked in _TEST_QUERIES.items() if side in scorer.rows.readers}


def plain_embeddings(folder: Path) -> Any:
    arrays, text = plain_arrays(only_file(folder))
    header = json.loads(text or "")
    if "model" in header:
        return plain_model(arrays, header)
    candidates = _biased(_table(arrays, "entity", SIZE, -1), arrays, header)
    names = {f"{side}_query": side for side in SIDES if f"{side}_query" in arrays}
    queries = {side: _table(arrays, name, 3, candidates.shape[1] - bool(_bias(header, 1))) for name, side in names.items()}
    if "triples" in arrays:
        require(arrays.pop("triples")[1].tolist() == TEST, "other triples")
    require(not arrays and queries, "other arrays")
    for side, rows in queries.items():
        first = [_TEST_QUERIES[side].index(query) for query in _TEST_QUERIES[side]]
        require((rows == rows[first]).all(), "rows of one query differ")
    return {side: {"candidates": candidates.tolist(), "queries": _ones(rows, candidates)} for side, rows in queries.items()}


def _bias(header: dict[str, Any], given: Any = None) -> Any:
    """Remember whether the candidates have a bias column, between the functions that add and use it."""
    return header.get("@bias", 0)


def _ones(rows: Any, candidates: Any) -> list[list[float]]:
    """Queries with a 1 for the bias of the candidates, where these have one."""
    spare = candidates.shape[1] - rows.shape[1]
    return [[*row, *[1.0] * spare] for row in rows.tolist()]


def _biased(table: Any, arrays: Arrays, header: dict[str, Any]) -> Any:
    if "entity_bias" not in arrays:
        return _reordered(table, header.get("entities"), ENTITIES)
    header["@bias"] = 1
    bias = _table(arrays, "entity_bias", SIZE)
    return _reordered(np.column_stack([table, bias]), header.get("entities"), ENTITIES)


def _reordered(table: Any, given: Sequence[str] | None, labels: Sequence[str]) -> Any:
    """Rows in the order of the graph's ids, if the file names them in another order."""
    if given is None:
        return table
    require(sorted(given) == sorted(labels), "other names")
    return table[[given.index(label) for label in labels]]


def plain_model(arrays: Arrays, header: dict[str, Any]) -> Any:
    """The candidates and every query of a model, by the formula of its paper."""
    model = header["model"].lower()
    names = ("head_entity", "tail_entity") if model == "cp" else ("entity", "entity")
    read = {name: _table(arrays, name, SIZE, -1) for name in dict.fromkeys(names)}
    size = read[names[0]].shape[1]
    shape = {"rotate": (size // 2,), "rescal": (size, size)}.get(model, (size,))
    require(all(table.shape[1] == size for table in read.values()), "tables of different widths")
    relation = _reordered(_table(arrays, "relation", KINDS_OF_RELATION, *shape), header.get("relations"), RELATIONS)
    paired = model in ("complex", "rotate")
    require(not (paired and size % 2), "an odd number of coordinates")
    bias = arrays.get("entity_bias")
    heads, tails = (_biased(_interleaved(read[n]) if paired else read[n], _copy(arrays, bias), header) for n in names)
    arrays.pop("entity_bias", None)
    require(not arrays, "other arrays")
    answer: dict[str, Any] = {}
    for side in SIDES:
        table, candidates = (heads, tails) if side == "tail" else (tails, heads)
        rows = np.array([_composed(model, side, table[e, :size].tolist(), relation[r].tolist()) for e, r in _EVERY_QUERY[side]])
        with np.errstate(over="ignore"):
            queries = rows.astype(np.float32)
        answer[side] = {"candidates": candidates.tolist(), "queries": _ones(queries, candidates)}
    return answer


def _copy(arrays: Arrays, bias: Any) -> Arrays:
    return {} if bias is None else {"entity_bias": bias}


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
    half = len(entity) // 2
    if model == "complex":
        factors = [complex(relation[i], relation[half + i]) for i in range(half)]
    else:
        factors = [complex(np.float32(math.cos(angle)), np.float32(math.sin(angle))) for angle in relation]
    numbers = [complex(*entity[2 * i : 2 * i + 2]) for i in range(half)]
    turned = [n * (f if side == "tail" else f.conjugate()) for n, f in zip(numbers, factors, strict=True)]
    return [part for number in turned for part in (number.real, number.imag)]


def score_files() -> list[Files]:
    tail, head = _normal(3, SIZE)[[0, 0, 1]], _normal(3, SIZE)
    tail[2, 1:4] = np.inf, -np.inf, 0.5
    head[:, 2:] = np.round(head[:, 2:])
    arrays: dict[str, Any] = {"tail": tail, "head": head.astype(np.float64), "triples": np.array(TEST)}
    folder = {f"{name}.npy": array_bytes(array) for name, array in arrays.items()}
    contents: dict[str, Any] = {}
    data = b""
    for name, code in (("tail", "F32"), ("head", "F64"), ("triples", "I64")):
        contents[name] = {"dtype": code, "shape": arrays[name].shape, "data_offsets": [len(data), len(data) + arrays[name].nbytes]}
        data += np.ascontiguousarray(arrays[name]).tobytes()
    text = json.dumps(contents).encode()
    return [
        {"scores.npz": _archive(arrays, zipfile.ZIP_STORED)},
        {"scores.npz": _archive({"tail": tail.astype(np.float16), "head": head}, zipfile.ZIP_DEFLATED)},
        {"scores.safetensors": struct.pack("<Q", len(text)) + text + data},
        folder,
    ]


def read_scores(folder: Path) -> Any:
    files = list(folder.iterdir())
    single = len(files) == 1 and files[0].suffix != ".npy"
    ranks = rank(files[0] if single else folder, small_graph())
    return {name: ranks.column(name).to_pylist() for name in ("head", "relation", "tail", "side", "rank", "ties", "candidates")}


def plain_scores(folder: Path) -> Any:
    files = sorted(folder.iterdir())
    if len(files) == 1 and files[0].suffix != ".npy":
        arrays, _ = plain_arrays(files[0])
    else:
        names = ("tail", "head", "triples")
        arrays = {name: plain_arrays(folder / f"{name}.npy")[0][f"{name}.npy"] for name in names if (folder / f"{name}.npy").exists()}
    if "triples" in arrays:
        require(arrays.pop("triples")[1].tolist() == TEST, "other triples")
    rows: dict[str, list[Any]] = {name: [] for name in ("head", "relation", "tail", "side", "rank", "ties", "candidates")}
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
            for name, value in zip(rows, (head, relation, tail, side, 1 + better + equal / 2, equal, 1 + len(others)), strict=True):
                rows[name].append(value)
    require(not arrays, "other arrays")
    return rows


def top_k_files() -> list[Files]:
    lines: list[dict[str, Any]] = [
        {"head": "Ada", "relation": "knows", "predictions": ["007", "x y", "Bob"]},
        {"tail": "007", "relation": "knows", "predictions": [["Ada", 2.5], ["Bob", 1], ["Çelik", 1]]},
        {"head": 2, "relation": 1, "tail": 5, "side": "tail", "predictions": [{"entity": 5, "score": 1e308}]},
        {"gold_head": "Ada", "gold_predicate": "knows", "gold_tail": "x y", "predict": "h", "predictions": []},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return [{"lists.jsonl": text}, {"lists.jsonl.gz": gzip.compress(text, mtime=0)}, {"a.jsonl": text.split(b"\n")[0]}]


def read_top_k(folder: Path) -> Any:
    read = {}
    for side, lists in open_top_k(only_file(folder), small_graph()).sides.items():
        starts = set(lists.ties.tolist())
        for i, key in enumerate(lists.keys.tolist()):
            start, stop = lists.offsets[i], lists.offsets[i + 1]
            level = np.cumsum([place in starts for place in range(start, stop)]).tolist()
            read[f"{side} {key}"] = {"entities": lists.entities[start:stop].tolist(), "level": level}
    return read


_FIELDS = {
    "head": ("head", "gold_head"),
    "relation": ("relation", "gold_relation", "gold_predicate"),
    "tail": ("tail", "gold_tail"),
    "side": ("side", "predict"),
    "predictions": ("predictions",),
}
_SIDE_NAMES = {"h": "head", "s": "head", "subject": "head", "lhs": "head", "head-batch": "head", "head_batch": "head"}
_SIDE_NAMES |= {"t": "tail", "o": "tail", "object": "tail", "rhs": "tail", "tail-batch": "tail", "tail_batch": "tail"}
_SIDE_NAMES |= {"head": "head", "tail": "tail"}


def plain_top_k(folder: Path) -> Any:
    path = only_file(folder)
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lists: dict[str, Any] = {}
    for number, line in enumerate(raw.split(b"\n")):
        if not line.strip():
            continue
        entry = json.loads(line.decode("utf-8-sig" if number == 0 else "utf-8"))
        found = {name: [entry[n] for n in names if entry.get(n) is not None] for name, names in _FIELDS.items()}
        require(all(len(values) < 2 for values in found.values()), "a field is given twice")
        fields = {name: values[0] for name, values in found.items() if values}
        side = _SIDE_NAMES[fields["side"].lower()] if "side" in fields else ("head" if "head" not in fields else "tail")
        require("side" in fields or ("head" in fields) != ("tail" in fields), "no single side")
        given = _entity(fields["head" if side == "tail" else "tail"], ENTITIES)
        key = f"{side} {given * KINDS_OF_RELATION + _entity(fields['relation'], RELATIONS)}"
        read = _predictions(fields["predictions"])
        require(lists.setdefault(key, read) == read, "two lists of one query")
    require(lists, "no list")
    return lists


def _entity(name: Any, labels: Sequence[str]) -> int:
    require(type(name) in (int, str), "not a name")
    if isinstance(name, str):
        return labels.index(name)
    require(0 <= name < len(labels), "an id outside the graph")
    return int(name)


def _predictions(values: Any) -> dict[str, list[int]]:
    require(isinstance(values, list), "no list")
    pairs = [(v["entity"], v.get("score")) if isinstance(v, dict) else tuple(v) if isinstance(v, list) else (v, None) for v in values]
    ids = [_entity(name, ENTITIES) for name, _ in pairs]
    require(len(set(ids)) == len(ids), "predicted twice")
    scores = [score for _, score in pairs]
    if all(score is None for score in scores):
        return {"entities": ids, "level": list(range(1, len(ids) + 1))}
    require(all(type(score) in (int, float) and not math.isnan(score) for score in scores), "not a score")
    numbers = [float(score) for score in scores]
    require(numbers == sorted(numbers, reverse=True), "the score rises")
    order = sorted(set(numbers), reverse=True)
    return {"entities": ids, "level": [order.index(score) + 1 for score in numbers]}


def candidate_files() -> list[Files]:
    lists = {"head_neg": np.array([[1, 2], [3, 3], [0, 5]]), "tail_neg": np.array([[1, 2, 0], [3, 3, 1], [0, 5, 2]])}
    triples = dict(zip(("head", "relation", "tail"), np.array(TEST).T, strict=True))
    pairs = "knows\thead\tAda\nknows\ttail\t007\nlikes\ttail\tx y\nlikes\thead\tÇelik\n".encode()
    return [
        {"negatives.npz": _archive(lists | triples, zipfile.ZIP_STORED)},
        {"negatives.npz": _archive({"head": lists["head_neg"], "tail": lists["tail_neg"]}, zipfile.ZIP_DEFLATED)},
        {"types.tsv": pairs},
        {"types.tsv.gz": gzip.compress(pairs, mtime=0)},
        {"type_constrain.txt": b"2\n0\t2\t0\t4\n0\t1\t3\n1\t0\n1\t3\t5\t4\t0\n"},
    ]


def read_candidates(folder: Path) -> Any:
    graph = small_graph()
    sets = open_candidates(only_file(folder), graph, RankedTriples.build(graph))
    if isinstance(sets, QueryCandidates):
        rows = {side: sets.ids(side, np.arange(3)) for side in ("head", "tail")}
        return {f"{side} {i}": e[o[i] : o[i + 1]].tolist() for side, (o, e) in rows.items() for i in range(3)}
    require(sets is not None, "no candidates")
    return {f"{side} {r}": sets.ids(side, r).tolist() for side in ("head", "tail") for r in range(KINDS_OF_RELATION)}


def plain_candidates(folder: Path) -> Any:
    path = only_file(folder)
    found: dict[str, set[int]] = {f"{side} {r}": set() for side in ("head", "tail") for r in range(KINDS_OF_RELATION)}
    if path.suffix == ".npz":
        return _plain_negatives(path)
    if path.name.startswith("type_constrain"):
        (number, count), *lines = text_lines(path)
        rows = [line.split() for _, line in lines]
        require(number == 1 and len(rows) == 2 * decimal_id(count), "a wrong number of lines")
        require(len({decimal_id(row[0]) for row in rows}) == len(rows) // 2, "a relation is repeated")
        for i, (relation, size, *entities) in enumerate(rows):
            require(len(entities) == decimal_id(size) and relation == rows[i - i % 2][0], "a wrong line")
            ids = [decimal_id(text) for text in entities]
            require(all(entity < SIZE for entity in ids), "an unknown entity")
            found[f"{'tail' if i % 2 else 'head'} {decimal_id(relation)}"] |= set(ids)
    else:
        lines = text_lines(path)
        require(lines, "no line")
        for _, line in lines:
            relation, side, entity = line.split("\t")
            found[f"{side} {RELATIONS.index(relation)}"].add(ENTITIES.index(entity))
    return {name: sorted(ids) for name, ids in found.items()}


def _plain_negatives(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if all(name in arrays and arrays[name].ndim == 1 for name in ("head", "relation", "tail")):
        require(np.array_equal(np.stack([arrays[n] for n in ("head", "relation", "tail")], 1), TEST), "other triples")
    lists = {}
    for side in ("head", "tail"):
        array = arrays.get(f"{side}_neg", arrays.get(side))
        require(array is not None and array.dtype.kind in "iu" and array.ndim == 2 and len(array) == 3, "no lists")
        require(all(0 <= e < SIZE for row in array.tolist() for e in row), "an unknown entity")
        lists |= {f"{side} {i}": sorted(set(row)) for i, row in enumerate(array.tolist())}
    return lists


def triple_files() -> list[Files]:
    labelled = "".join(f"{ENTITIES[h]}\t{RELATIONS[r]}\t{ENTITIES[t]}\n" for h, r, t in TEST).encode()
    columns = {name: [row[i] for row in TEST] for i, name in enumerate(("head", "relation", "tail"))}
    return [
        {"more.tsv": labelled},
        {"more.txt.gz": gzip.compress(labelled, mtime=0)},
        {"more2id.txt": b"3\n0 3 0\n0 4 0\n2 5 1\n"},
        {"more.parquet": table_bytes(pa.table(columns))},
    ]


def read_triple_file(folder: Path) -> Any:
    return RankedTriples.build(small_graph(), triples=only_file(folder)).given.tolist()


def plain_triple_file(folder: Path) -> Any:
    path = only_file(folder)
    if path.suffix == ".parquet":
        rows = [list(row) for row in zip(*whole_columns(path, "head", "relation", "tail"), strict=True)]
    elif path.name.endswith(("2id.txt", "2id.txt.gz")):
        (number, count), *lines = text_lines(path)
        require(number == 1 and decimal_id(count) == len(lines), "a wrong number of lines")
        rows = [[decimal_id(h), decimal_id(r), decimal_id(t)] for h, t, r in (line.split() for _, line in lines)]
    else:
        fields = [line.split("\t") for _, line in text_lines(path)]
        require(fields, "no line")
        rows = [[ENTITIES.index(h), RELATIONS.index(r), ENTITIES.index(t)] for h, r, t in fields]
    require(all(h < SIZE and t < SIZE and r < KINDS_OF_RELATION and min(h, r, t) >= 0 for h, r, t in rows), "an id")
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

    config = {"model": "RotatE", "gamma": 9.0, "hidden_dim": 2, "double_entity_embedding": True, "init_checkpoint": None}
    return [
        folder(config, _normal(SIZE, 4), _normal(2, 2), named=True),
        folder(config | {"model": "TransE", "hidden_dim": 4, "double_entity_embedding": False}, _normal(SIZE, 4), _normal(2, 4), named=False),
        folder(config | {"model": "ComplEx", "double_relation_embedding": True}, _normal(SIZE, 4), _normal(2, 4), named=False),
    ]


def read_rotate(folder: Path) -> Any:
    _, scorer, _ = open_rotate_checkpoint(folder, small_graph())
    return tables(scorer, _EVERY_QUERY)


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
            pairs = sorted((decimal_id(n), label) for n, label in (line.split("\t") for _, line in text_lines(folder / f"{kind}.dict")))
            require([number for number, _ in pairs] == list(range(len(pairs))), "ids are not 0, 1, 2, ...")
            header[kind] = [label for _, label in pairs]
    if config["model"] == "RotatE":
        _table(dict(arrays), "relation", KINDS_OF_RELATION, hidden)
        reach = np.float32((float(np.float32(gamma)) + 2.0) / hidden)
        # The code base stores the range in float32 and divides by this pi.
        arrays["relation"] = "float64", arrays["relation"][1].astype(np.float64) / (float(reach) / 3.14159262358979323846)
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
        built = model(triples_factory=KGInfo(SIZE, KINDS_OF_RELATION, False), embedding_dim=3, random_seed=1)
        with TemporaryDirectory() as place:
            save_for_ranking(built, None, place)
            folder = {path.name: path.read_bytes() for path in sorted(Path(place).iterdir())}
        weights = {name: tensor.contiguous() for name, tensor in built.state_dict().items() if "regularizer" not in name}
        files += [folder, {"kgprobe.json": folder["kgprobe.json"], "model.safetensors": save(weights)}]
    named = {
        "training_triples/entity_to_id.tsv.gz": names(ENTITIES[::-1]),
        "training_triples/relation_to_id.tsv.gz": names(RELATIONS[::-1]),
    }
    return [*files, files[1] | named]


def read_pykeen(folder: Path) -> Any:
    from kgprobe.predict.adapters.pykeen_folder import open_pykeen
    from kgprobe.predict.adapters.pykeen_scorer import PykeenScores

    name, scorer, settings = open_pykeen(folder, small_graph())
    rank(Model(name, scorer), small_graph())  # weights that are not numbers are found here
    if isinstance(scorer, PykeenScores):
        table = scorer.model.entity_representations[0]().detach().numpy()
        return {"candidates": (table if scorer.ids is None else table[scorer.ids[0]]).tolist()}
    return {"candidates": np.asarray(scorer.candidates("tail")).tolist()}


def plain_pykeen(folder: Path) -> Any:
    import torch

    settings = json.loads((folder / "kgprobe.json").read_bytes())
    require(settings["num_entities"] == SIZE and settings["num_relations"] == KINDS_OF_RELATION, "other sizes")
    weight = "entity_representations.0._embeddings.weight"
    if (folder / "model.safetensors").exists():
        table = plain_arrays(folder / "model.safetensors")[0][weight][1]
    else:
        table = torch.load(io.BytesIO((folder / "model_state.pt").read_bytes()), weights_only=True)[weight].numpy()
    path = folder / "training_triples" / "entity_to_id.tsv.gz"
    if not path.exists():
        return {"candidates": table.astype(np.float32).tolist()}
    pairs = sorted((decimal_id(n), label) for n, label in (line.split("\t") for _, line in text_lines(path)[1:]))
    return {"candidates": _reordered(table, [label for _, label in pairs], ENTITIES).astype(np.float32).tolist()}


KINDS = (
    Kind("embeddings", embedding_files, read_embeddings, plain_embeddings, tolerance=1e-6),
    Kind("scores", score_files, read_scores, plain_scores),
    Kind("top-k", top_k_files, read_top_k, plain_top_k),
    Kind("candidates", candidate_files, read_candidates, plain_candidates),
    Kind("triples", triple_files, read_triple_file, plain_triple_file),
    Kind("rotate-folder", rotate_folders, read_rotate, plain_rotate, tolerance=1e-6),
    Kind("pykeen-folder", pykeen_folders, read_pykeen, plain_pykeen),
)
