"""Files of names for people: TSV, CSV, JSON, JSON Lines, Parquet, and the notations of WordNet and Freebase."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from fuzz.containers import table_bytes
from fuzz.inputs import Files, Kind, only_file, require
from fuzz.plain import ENTITIES, content, read_parquet, text_lines
from kgprobe.graph.name_files import cleaned, read_names

NAMES = ["Ada Lovelace", "Bob", "Çelik, M.", '"Bond"', "x -- y", "\U0001f642"]
PAIRS = list(zip(ENTITIES, NAMES, strict=True))

_IDS = ("id", "entity", "relation", "entity_id", "relation_id", "mid", "qid", "key")
_NAMES = ("name", "title", "label", "text")


def name_texts() -> list[Files]:
    """With and without a header, more columns than two, ids alone, and the notations of other programs."""
    lines = "".join(f"{own}\t{name}\n" for own, name in PAIRS)
    quoted = "".join(f'"{own}","{name.replace(chr(34), chr(34) * 2)}"\r\n' for own, name in PAIRS)
    return [
        {"names.tsv": lines.encode()},
        {"names.txt.gz": gzip.compress(lines.encode(), mtime=0)},
        {"all_entity_info.txt": b"id\tname\ttype\nAda\tAda Lovelace\tauthor\nBob\t\tpaper\n"},
        {"all_relation_info.txt": b"id\nknows\nlikes\n"},
        {"names.csv": b"id,label\r\n" + quoted.encode()},
        {"names.csv": b'title,entity\n"a\nb",Ada\n'},
        {"mid2name.txt": b"Ada\tAda_Lovelace\nBob\tBob\n"},
        {"definitions.txt": b"007\t__sea_lion_NN_1\tany of several\nBob\t__go_VB_12\tmove\n"},
        {"entity2text.txt": b"007\tsea lion -- any of several seals\nBob\tgo -- move -- away\n"},
    ]


def name_json() -> list[Files]:
    codex = {own: {"label": name, "description": "..."} for own, name in PAIRS}
    records = [{"id": own, "name": name} for own, name in PAIRS] + [{"id": 3, "name": None}]
    return [
        {"entities.json": json.dumps(codex).encode()},
        {"names.json": json.dumps(dict(PAIRS)).encode()},
        {"names.json.gz": gzip.compress(json.dumps(records).encode(), mtime=0)},
        {"names.jsonl": "".join(json.dumps(record) + "\n" for record in records).encode()},
    ]


def name_tables() -> list[Files]:
    ids = pa.array(range(6), pa.int32())
    return [
        {"names.parquet": table_bytes(pa.table({"id": ENTITIES, "name": NAMES}))},
        {"names.parquet": table_bytes(pa.table({"id": ids, "label": ENTITIES, "name": [*NAMES[:5], None]}))},
    ]


def read_readings(folder: Path) -> Any:
    readings = read_names(only_file(folder)).readings
    return [[keys.to_pylist(), cleaned(names).to_pylist()] for keys, names in readings]


def _pairs(titles: Sequence[str]) -> list[tuple[int, int]] | None:
    """The columns of ids and of names by their titles; None if these are no titles."""
    lower = [title.strip().lower() for title in titles]
    name = next((lower.index(title) for title in _NAMES if title in lower), None)
    if name is None:
        return [] if len(lower) == 1 and lower[0] in _IDS else None
    return [(lower.index(t), name) for t in (*_IDS, "label") if t in lower and lower.index(t) != name] or None


def _reading(rows: Sequence[tuple[Any, Any]]) -> list[list[Any]]:
    names = [name.strip() or None if name is not None else None for _, name in rows]
    given = [name for name in names if name is not None]
    if given and all(" -- " in name for name in given):
        names = [name and name.split(" -- ")[0] for name in names]
    synset = re.compile(r"__([^\n]+)_[A-Z]+_[0-9]+")
    if given and all(synset.fullmatch(name) for name in names if name is not None):
        names = [name and re.sub(r"^__(.+)_[A-Z]+_[0-9]+$", r"\1", name) for name in names]
    if not any(" " in name for name in names if name is not None):
        names = [name and name.replace("_", " ") for name in names]
    return [[None if key is None else key.strip() for key, _ in rows], names]


def plain_text(folder: Path) -> Any:
    lines = [line for _, line in text_lines(only_file(folder))]
    require(lines, "empty")
    in_csv = "\t" not in lines[0] and "," in lines[0]
    rows = list(csv.reader([f"{line}\n" for line in lines], strict=True)) if in_csv else [x.split("\t") for x in lines]
    pairs = _pairs(rows[0])
    needed = min(len(rows[0]), 2) if pairs is None else 1 + max((max(pair) for pair in pairs), default=0)
    rows = rows if pairs is None else rows[1:]
    require(all(len(row) >= needed and row[0].strip() for row in rows), "a bad line")
    if needed == 1:
        return [_reading([(row[0], None) for row in rows])]
    return [_reading([(row[own], row[name]) for row in rows]) for own, name in pairs or [(0, 1), (1, 0)]]


def plain_json(folder: Path) -> Any:
    path = only_file(folder)
    text = content(path).decode("utf-8-sig")
    text.encode()
    if path.name.endswith(".jsonl"):
        value: Any = [json.loads(line) for _, line in text_lines(path)]
    else:
        value = json.loads(text)
    json.dumps(value, ensure_ascii=False).encode()
    if isinstance(value, dict):
        return [_reading([(own, _named(name)) for own, name in value.items()])]
    require(all(isinstance(record, dict) for record in value) and value, "no records")
    titles = list(value[0])
    pairs = _pairs(titles)
    require(pairs, "no columns of ids and names")
    readings = []
    for own, name in pairs or []:
        rows = [(_key(record.get(titles[own])), record.get(titles[name])) for record in value]
        require(all(text is None or isinstance(text, str) for _, text in rows), "no name")
        readings.append(_reading(rows))
    return readings


def _key(value: Any) -> str:
    require(isinstance(value, str | int) and not isinstance(value, bool), "no id")
    require(value.strip() if isinstance(value, str) else 0 <= value < 2**63, "no id")
    return str(value)


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {title.lower(): own for title, own in value.items()}
        require(any(title in fields for title in _NAMES), "no name")
        return next((own for title in _NAMES if isinstance(own := fields.get(title), str) and own), None)
    require(value is None or isinstance(value, str), "no name")
    return value


def plain_table(folder: Path) -> Any:
    table = read_parquet(only_file(folder))
    pairs = _pairs(table.column_names)
    require(pairs, "no columns of ids and names")
    readings = []
    for own, name in pairs or []:
        require(all(table.column_names.count(table.column_names[i]) == 1 for i in (own, name)), "a column twice")
        keys, names = table.column(own).to_pylist(), table.column(name).to_pylist()
        require(all(isinstance(key, str | int | None) for key in keys), "no ids")
        require(all(isinstance(text, str | None) for text in names), "no names")
        readings.append(_reading([(None if k is None else str(k), text) for k, text in zip(keys, names, strict=True)]))
    return readings


KINDS = (
    Kind("name-text", name_texts, read_readings, plain_text),
    Kind("name-json", name_json, read_readings, plain_json),
    Kind("name-parquet", name_tables, read_readings, plain_table),
)
