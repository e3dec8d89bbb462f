"""Lists of entities and triples beside a model: top-k lists, candidate sets, files of triples."""

from __future__ import annotations

import gzip
import json
import math
import re
import unicodedata
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fuzz.containers import table_bytes
from fuzz.graph_kinds import plain_rows
from fuzz.inputs import Files, Kind, only_file, require
from fuzz.model_kinds import archive
from fuzz.plain import ENTITIES, RELATIONS, TEST, TRAIN, content, decimal_id, small_graph, text_lines, whole_columns
from kgprobe.predict.adapters.top_k_files import open_top_k
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.tasks import QueryCandidates, open_candidates


def top_k_files() -> list[Files]:
    lines: list[dict[str, Any]] = [
        {"head": "Ada", "relation": "knows", "predictions": ["007", "x y", "Bob"]},
        {"tail": "007", "relation": "knows", "predictions": [["Ada", 2.5], ["Bob", 1], ["Çelik", 1]]},
        {"head": 2, "relation": 1, "tail": 5, "side": "tail", "predictions": [{"entity": 5, "score": 1e308}]},
        {"gold_head": "Ada", "gold_predicate": "knows", "gold_tail": "x y", "predict": "h", "predictions": []},
        {"subject": "bob", "predicate": "likes", "answers": ["X_Y", "1. ada", "c\u0327elik"]},
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
    "head": ("head", "subject", "gold_head"),
    "relation": ("relation", "predicate", "gold_relation", "gold_predicate"),
    "tail": ("tail", "object", "gold_tail"),
    "side": ("side", "predict"),
    "predictions": ("predictions", "answers"),
}
_SIDE_NAMES = {"h": "head", "s": "head", "subject": "head", "lhs": "head", "head-batch": "head", "head_batch": "head"}
_SIDE_NAMES |= {"t": "tail", "o": "tail", "object": "tail", "rhs": "tail", "tail-batch": "tail", "tail_batch": "tail"}
_SIDE_NAMES |= {"head": "head", "tail": "tail"}


def plain_top_k(folder: Path) -> Any:
    lists: dict[str, Any] = {}
    for _, line in text_lines(only_file(folder)):
        entry = json.loads(line)
        found = {name: [entry[n] for n in names if entry.get(n) is not None] for name, names in _FIELDS.items()}
        require(all(len(values) < 2 for values in found.values()), "a field is given twice")
        fields = {name: values[0] for name, values in found.items() if values}
        side = _SIDE_NAMES[fields["side"].lower()] if "side" in fields else ("head" if "head" not in fields else "tail")
        require("side" in fields or ("head" in fields) != ("tail" in fields), "no single side")
        given = _entity(fields["head" if side == "tail" else "tail"], ENTITIES)
        key = f"{side} {given * len(RELATIONS) + _entity(fields['relation'], RELATIONS)}"
        read = _predictions(fields["predictions"])
        require(lists.setdefault(key, read) == read, "two lists of one query")
    require(lists, "no list")
    return lists


def _entity(name: Any, labels: Sequence[str]) -> int:
    require(type(name) in (int, str), "not a name")
    if isinstance(name, str):
        return labels.index(name) if name in labels else _folded_entity(_folded(name), labels)
    require(0 <= name < len(labels), "an id outside the graph")
    return int(name)


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(plain.replace("_", " ").split())


def _folded_entity(text: str, labels: Sequence[str]) -> int:
    """The only label that is the folded text, or the text without one mark of a list after the other."""
    folded = [_folded(label) for label in labels]
    while folded.count(text) != 1:
        rest = re.sub(r"^(?:[0-9]{1,3}\s?[.):]|[-*\u2022\u2013])\s+", "", text)
        if rest == text and text[:1] and text[0] in _QUOTES:
            rest = text[1:]
        elif rest == text and text[-1:] and text[-1] in _QUOTES + ".,;":
            rest = text[:-1]
        require(rest.strip() != text, "no entity")
        text = rest.strip()
    return folded.index(text)


_QUOTES = "\"'`*\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb"


def _predictions(values: Any) -> dict[str, list[int]]:
    require(isinstance(values, list), "no list")
    pairs = [
        (v["entity"], v.get("score")) if isinstance(v, dict) else tuple(v) if isinstance(v, list) else (v, None)
        for v in values
    ]
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
        {"negatives.npz": archive(lists | triples, zipfile.ZIP_STORED)},
        {"negatives.npz": archive({"head": lists["head_neg"], "tail": lists["tail_neg"]}, zipfile.ZIP_DEFLATED)},
        {"types.tsv": pairs},
        {"types.tsv.gz": gzip.compress(pairs, mtime=0)},
        {"type_constrain.txt": b"2\n0\t2\t0\t4\n0\t1\t3\n1\t0\n1\t3\t5\t4\t0\n"},
        {"sides.txt": pairs.replace(b"tail", b"object").replace(b"head", b"subject")},
    ]


def type_files() -> list[Files]:
    types = {
        "Ada": ["person"],
        "Bob": ["person", "poet"],
        "x y": [7],
        "Zed": ["person"],
        "\U0001f642": [],
        "007": "agent",
    }
    lines = "Ada\tperson\nBob\tperson\tpoet\nAda\tpoet\n007\tagent\n\U0001f642\tpoet\nZed\tpoet\n".encode()
    return [
        {"entity2types.json": json.dumps(types).encode()},
        {"entity2types.json.gz": gzip.compress(json.dumps(types).encode(), mtime=0)},
        {"entity2type.tsv": lines},
        {"entity_types.txt": b"Ada\tperson\tpoet\n"},
    ]


def plain_types(folder: Path) -> Any:
    """Entities that share a type with one that train has on the side of the relation, or that have no type."""
    path = only_file(folder)
    types: dict[str, set[str]] = {}
    if ".json" in path.suffixes:
        for label, kinds in json.loads(content(path).decode("utf-8-sig")).items():
            kinds = [kinds] if isinstance(kinds, str) else kinds
            require(isinstance(kinds, list) and all(type(kind) in (str, int) for kind in kinds), "not a list of types")
            types[label] = set(map(str, kinds))
    else:
        for _, line in text_lines(path):
            label, *kinds = line.rstrip("\t").split("\t")
            require(label and kinds and all(kinds), "no type")
            types.setdefault(label, set()).update(kinds)
    own = [types.get(label, set()) for label in ENTITIES]
    require(any(own), "no known entity")
    found = {}
    for place, side in ((0, "head"), (2, "tail")):
        for r in range(len(RELATIONS)):
            seen = {triple[place] for triple in TRAIN if triple[1] == r}
            shared = set().union(*(own[e] for e in seen))
            found[f"{side} {r}"] = [e for e in range(len(ENTITIES)) if e in seen or not own[e] or own[e] & shared]
    return found


def read_candidates(folder: Path) -> Any:
    graph = small_graph()
    sets = open_candidates(only_file(folder), graph, RankedTriples.build(graph))
    if isinstance(sets, QueryCandidates):
        rows = {side: sets.ids(side, np.arange(3)) for side in ("head", "tail")}
        return {f"{side} {i}": e[o[i] : o[i + 1]].tolist() for side, (o, e) in rows.items() for i in range(3)}
    require(sets is not None, "no candidates")
    return {f"{side} {r}": sets.ids(side, r).tolist() for side in ("head", "tail") for r in range(len(RELATIONS))}


def plain_candidates(folder: Path) -> Any:
    path = only_file(folder)
    found: dict[str, set[int]] = {f"{side} {r}": set() for side in ("head", "tail") for r in range(len(RELATIONS))}
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
            require(all(entity < len(ENTITIES) for entity in ids), "an unknown entity")
            found[f"{'tail' if i % 2 else 'head'} {decimal_id(relation)}"] |= set(ids)
    else:
        lines = text_lines(path)
        require(lines, "no line")
        for _, line in lines:
            relation, side, entity = line.split("\t")
            found[f"{_SIDE_NAMES[side]} {RELATIONS.index(relation)}"].add(ENTITIES.index(entity))
    return {name: sorted(ids) for name, ids in found.items()}


def _plain_negatives(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: np.asarray(file[name]) for name in file.files}
    if all(name in arrays and arrays[name].ndim == 1 for name in ("head", "relation", "tail")):
        require(np.array_equal(np.stack([arrays[n] for n in ("head", "relation", "tail")], 1), TEST), "other triples")
    lists = {}
    for side in ("head", "tail"):
        array = arrays.get(f"{side}_neg", arrays.get(side))
        require(array is not None and array.dtype.kind in "iu" and array.ndim == 2 and len(array) == 3, "no lists")
        require(all(0 <= e < len(ENTITIES) for row in array.tolist() for e in row), "an unknown entity")
        lists |= {f"{side} {i}": sorted(set(row)) for i, row in enumerate(array.tolist())}
    return lists


def triple_files() -> list[Files]:
    labelled = "".join(f"{ENTITIES[h]}\t{RELATIONS[r]}\t{ENTITIES[t]}\n" for h, r, t in TEST).encode()
    columns = {name: [row[i] for row in TEST] for i, name in enumerate(("head", "relation", "tail"))}
    return [
        {"more.tsv": labelled},
        {"more.txt.gz": gzip.compress(labelled, mtime=0)},
        {"more.csv": b"source,target,edge\nAda,Bob,knows\n"},
        {"more.txt": b"Ada knows Bob 1\n007 likes Ada -1\n"},
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
        fields = plain_rows(path, ENTITIES, RELATIONS)
        rows = [[ENTITIES.index(h), RELATIONS.index(r), ENTITIES.index(t)] for h, r, t, label in fields if label == "1"]
    require(
        all(h < len(ENTITIES) and t < len(ENTITIES) and r < len(RELATIONS) and min(h, r, t) >= 0 for h, r, t in rows),
        "an id",
    )
    return rows


KINDS = (
    Kind("top-k", top_k_files, read_top_k, plain_top_k),
    Kind("candidates", candidate_files, read_candidates, plain_candidates),
    Kind("entity-types", type_files, read_candidates, plain_types),
    Kind("triples", triple_files, read_triple_file, plain_triple_file),
)
