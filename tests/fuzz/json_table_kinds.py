"""Rank tables of other programs in JSON and JSON Lines, with one row per query or with the ranks of both sides."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fuzz.inputs import Files, Kind, only_file, require
from fuzz.plain import content
from fuzz.rank_kinds import NUM_ENTITIES, SIDES, SYNONYMS, by_size, foreign_tables, plain_foreign, typed_column


def json_tables(ending: str) -> list[Files]:
    """Records, objects of columns and lines, with one row per query and with the ranks of both sides."""
    tables = [_columns_of(files["ranks.csv"].decode()) for files in foreign_tables(",", "csv")]
    wide = {"h": [0, 2], "r": [0, 1], "t": [3, 5], "head_rank": [1, 2.5], "rank_tail": [3, 1]}
    tables.append(wide | {"lhs_candidates": [5, 6], "candidates_rhs": [4, 4], "kind": ["é", None]})
    records = [[dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)] for table in tables]
    if ending == "jsonl":
        texts = ["".join(f"{json.dumps(record)}\n" for record in rows) for rows in records]
    else:
        texts = [json.dumps(form) for table, rows in zip(tables, records, strict=True) for form in (rows, table)]
        texts += [json.dumps({name: dict(enumerate(column)) for name, column in table.items()}) for table in tables]
    return [{f"ranks.{ending}": text.encode()} for text in texts]


def _columns_of(text: str) -> dict[str, list[Any]]:
    rows = list(csv.reader(io.StringIO(text)))
    return {name: typed_column(values).to_pylist() for name, *values in zip(*rows, strict=True)}


def plain_json(folder: Path) -> Any:
    """The rank table of a JSON file whose records or columns are read with json alone."""
    path = only_file(folder)
    text = content(path).removeprefix(b"\xef\xbb\xbf").decode()
    value = (
        [json.loads(line) for line in re.split(r"\r\n|\r|\n", text) if line.strip()]
        if path.suffix == ".jsonl"
        else None
    )
    value = json.loads(text) if value is None else value
    if isinstance(value, dict) and all(isinstance(column, dict) for column in value.values()):
        index = dict.fromkeys(row for column in value.values() for row in column)
        columns = {name: [column.get(row) for row in index] for name, column in value.items()}
    elif isinstance(value, dict):
        columns = value
    else:
        names = dict.fromkeys(name for record in value for name in record)
        columns = {name: [record.get(name) for record in value] for name in names}
    require(len({len(column) for column in columns.values()}) == 1, "columns of different lengths")
    require(len({name.strip() for name in columns}) == len(columns), "a column occurs twice")
    plain = {name.strip(): _as_column(column) for name, column in columns.items() if name.strip()}
    return plain_foreign(_unfolded(plain), labelled=False, num_entities=NUM_ENTITIES)


def _as_column(values: Sequence[Any]) -> list[Any]:
    """The values of a JSON column: numbers if all are, truth values if all are, else texts."""
    require(not isinstance(values, str), "no list")
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, float} or kinds == {bool}:
        return list(values)
    return [
        value.strip() if isinstance(value, str) else value if value is None else json.dumps(value) for value in values
    ]


_WORDS = {side: [word.replace("-", "_") for word, meant in SIDES.items() if meant == side] for side in ("head", "tail")}


def _unfolded(columns: Mapping[str, list[Any]]) -> Mapping[str, list[Any]]:
    """A table with one query per row: a table without sides whose columns are those of one side."""
    plain = {name: re.sub("[- ]", "_", name.lower()) for name in columns}
    if any(text in ("side", *SYNONYMS["side"].split()) for text in plain.values()):
        return columns
    own: dict[str, dict[str, list[Any]]] = {}
    used = set()
    for meaning in (
        "rank",
        "ties",
        "worst_rank",
        "candidates",
        "optimistic",
        "pessimistic",
        "greater",
        "equal",
        "filtered",
    ):
        for side, words in _WORDS.items():
            names = (meaning, *SYNONYMS[meaning].split())
            usual = {f"{w}_{n}" for w in words for n in names} | {f"{n}_{w}" for w in words for n in names}
            found = [name for name, text in plain.items() if text in usual]
            if found:
                own.setdefault(side, {})[meaning] = columns[found[0]]
                used.add(found[0])
    require(own, "no sides")
    meanings = dict.fromkeys(meaning for quantities in own.values() for meaning in quantities)
    rows = len(next(iter(columns.values())))
    nothing: list[Any] = [None] * rows
    pairs = [[(side, row) for side in ("head", "tail") if side in own] for row in range(rows)]
    order = [place for pair in pairs for place in pair]
    shared = {f"source {n}" if plain[n] in meanings else n: c for n, c in columns.items() if n not in used}
    long = {name: [column[row] for _, row in order] for name, column in shared.items()}
    long |= {meaning: [own[side].get(meaning, nothing)[row] for side, row in order] for meaning in meanings}
    return long | {"side": [side for side, _ in order]}


KINDS = (
    Kind("import-json", partial(json_tables, "json"), partial(by_size, format="json"), plain_json),
    Kind("import-jsonl", partial(json_tables, "jsonl"), by_size, plain_json),
)
