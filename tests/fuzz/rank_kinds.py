"""Rank files, and rank tables of other programs: CSV, TSV, Parquet and PROBE's JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.containers import table_bytes
from fuzz.inputs import Files, Kind, only_file, require
from fuzz.plain import (
    COUNTS,
    ENTITIES,
    RELATIONS,
    TRAIN,
    check_ranks,
    content,
    defined,
    known_answers,
    number,
    read_parquet,
    small_graph,
    whole,
)
from kgprobe.ranks import Basis, CandidatesInfo, Ranks, RanksInfo, SampleInfo, read_ranks
from kgprobe.ranks.importers import import_ranks

WHOLE = ("head", "relation", "tail", "candidates", "ties", "seed", *COUNTS)
REAL = ("rank", "worst_rank", "entity_popularity", "relation_popularity")
CANONICAL = (*WHOLE, *REAL, "side")
INFO = ("model", "graph", "graph_hash", "split", "filtered", "filter_hash")

ROWS: dict[str, Any] = {
    "head": [0, 0, 2, 2, 7, 3],
    "relation": [0, 0, 1, 1, 0, 1],
    "tail": [3, 3, 5, 5, 9, 3],
    "side": ["tail", "head", "tail", "head", "tail", "head"],
    "rank": [1.0, 2.5, 3.0, 1.0, 12.0, 4.0],
    "candidates": [4, 5, 9, 3, 40, 4],
}


ESTIMATED: dict[str, Any] = {"rank": [5.5, 1, 7.5, 4, 3, 8.5], "candidates": [40] * 6}
SAMPLED: dict[str, Any] = {
    "exact_greater": [2, 0, 1, 0, 2, 0],
    "exact_equal": [1, 0, 0, 0, 0, 0],
    "sample_size": [5, 5, 0, 4, 5, 4],
    "sampled_from": [10, 10, 11, 4, 30, 10],
    "sampled_greater": [1, 0, 0, 3, 0, 3],
    "sampled_equal": [0, 0, 0, 0, 0, 0],
}
DRAWN = CandidatesInfo(Basis.verified, sample=SampleInfo(5, estimates=True, exact="relation-type", seed=0))


def rank_files() -> list[Files]:
    """Rank files as kgprobe writes them: few and many columns, one row, no row."""
    popularity = {"entity_popularity": [0.25, 0.5, 0.1, 0.0, 1.0, None], "relation_popularity": [0.5] * 6}
    known: dict[str, Any] = {"filtered": ("train", "valid"), "filter_hash": "1e", "settings": {"seed": 1}}
    info = RanksInfo(model="RotatE", graph="small", graph_hash="0f", split="test", **known)
    tables = [
        Ranks.from_columns(**ROWS, ties=[0, 1, 0, 0, None, 0], **popularity, info=info),
        Ranks.from_columns(**ROWS, worst_rank=[1, 4, 3, 1, 40, 4], ties=[0] * 6, info=info),
        Ranks.from_columns(**ROWS, seed=[1, 1, 1, 2, 2, 2], labels={"kind": ["é", "", None, "x", "y", "z"]}),
        Ranks.from_columns(**{name: column[:1] for name, column in ROWS.items()}, labels={"weight": [0.5]}),
        Ranks.from_columns(**{name: column[:0] for name, column in ROWS.items()}),
        Ranks.from_columns(**ROWS | ESTIMATED, sample=SAMPLED, info=replace(info, candidates=DRAWN)),
    ]
    return [{name: _written(table, name)} for name, table in zip(_NAMES, tables, strict=True)]


_NAMES = ("ranks.parquet", "a b.parquet", "größe.parquet", "one.row.parquet", "none.parquet", "sampled.parquet")


def _written(table: Ranks, name: str) -> bytes:
    with TemporaryDirectory() as folder:
        table.write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def read_rank_file(folder: Path) -> Any:
    ranks = read_ranks(only_file(folder))
    columns = {name: defined(ranks.column(name).to_pylist()) for name in ranks.column_names}
    return {"columns": columns, "info": {name: _listed(getattr(ranks.info, name)) for name in INFO}}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def plain_rank_file(folder: Path) -> Any:
    return plain_rank_table(only_file(folder))


def plain_rank_table(path: Path) -> Any:
    table = read_parquet(path)
    names = table.column_names
    require(len(set(names)) == len(names), "a column occurs twice")
    columns = {name: defined(_converted(name, table.column(name))) for name in names}
    for name in ("entity_popularity", "relation_popularity", "worst_rank"):
        columns |= {name: defined(columns[name])} if name in columns else {}
    check_ranks({name: columns[name] for name in CANONICAL if name in columns})
    own = json.loads((pq.ParquetFile(path).schema_arrow.metadata or {}).get(b"kgprobe", b"{}"))
    info = {name: own.get(name) for name in INFO}
    require(
        all(value is None or isinstance(value, str) for name, value in info.items() if name != "filtered"), "metadata"
    )
    filtered = info["filtered"]
    require(filtered is None or (isinstance(filtered, list) and all(isinstance(s, str) for s in filtered)), "metadata")
    return {"columns": columns, "info": info | {"model": info["model"] or path.stem}}


def _converted(name: str, column: pa.ChunkedArray) -> list[Any]:
    if name in CANONICAL:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        require(not pa.types.is_temporal(kind) and not pa.types.is_nested(kind), f"{name} holds {kind}")
    values = column.to_pylist()
    if name in WHOLE:
        return [whole(value) for value in values]
    if name == "side":
        return [value.decode() if isinstance(value, bytes) else value for value in values]
    return [number(value) for value in values] if name in REAL else values


SYNONYMS = {
    "head": "h subject subj s head_id head_label",
    "relation": "r rel predicate pred p relation_id relation_label",
    "tail": "t object obj o tail_id tail_label",
    "side": "predicted predicted_side direction target_side mode",
    "rank": "mean_rank realistic_rank realistic filtered_rank",
    "ties": "num_ties n_ties",
    "worst_rank": "",
    "candidates": "num_candidates n_candidates number_of_candidates number_of_options",
    "entity_popularity": "delta_e",
    "relation_popularity": "delta_r_e delta_r",
    "seed": "random_seed",
    "optimistic": "optimistic_rank best_rank",
    "pessimistic": "pessimistic_rank",
    "greater": "num_greater better num_better",
    "equal": "num_equal",
    "filtered": "num_filtered n_filtered number_of_filtered",
}
"""The names of columns in other programs, as docs/guide.md lists them."""

SIDES = dict.fromkeys(("head", "h", "s", "subject", "lhs", "head-batch", "head_batch"), "head") | dict.fromkeys(
    ("tail", "t", "o", "object", "rhs", "tail-batch", "tail_batch"), "tail"
)
BLANK = ("", "NA", "N/A", "null", "NULL", "None")
NUM_ENTITIES = 1000


def foreign_tables(delimiter: str, ending: str) -> list[Files]:
    """Tables with ranks, with bounds and with counts; ids or, in TSV, labels; and of one row."""
    tables: list[dict[str, Sequence[Any]]] = [
        {"head": [0, 0, 2], "relation": [0, 0, 1], "tail": [3, 3, 5], "side": ["tail", "head", "t"]},
        {"h": [0, 1, 2], "r": [0, 1, 1], "t": [3, 4, 5], "Predicted Side": ["tail", "lhs", "o"]},
    ]
    if ending == "tsv":
        tables.append({"subject": ["Ada", "x y"], "predicate": ["knows", "likes"], "object": ["007", "Çelik"]})
        tables[2] |= {"direction": ["tail", "head"]}
    endings: list[dict[str, Sequence[Any]]] = [
        {"rank": [1, 2.5, 3], "ties": [0, 1, ""], "candidates": [5, 6, 4], "kind": ["easy", "é", "a b"]},
        {"optimistic": [1, 2, 1], "pessimistic": [1, 3, 2], "num_filtered": [2, 1, 0], "code": ["007", "1", "x"]},
        {"greater": [0, 1, 2], "equal": [0, 1, 0], "candidates": [5, 6, 5], "seed": [1, 1, 2], "delta_e": [0.5, "", 1]},
    ]
    whole_tables = [table | more for table in tables for more in endings]
    texts = [_written_text(table, delimiter, rows) for table in whole_tables for rows in (3, 1)]
    return [{f"ranks.{ending}": text.encode()} for text in texts]


def _written_text(table: Mapping[str, Sequence[Any]], delimiter: str, rows: int) -> str:
    lines = [delimiter.join(table), *(delimiter.join(map(str, row)) for row in zip(*table.values(), strict=False))]
    return "".join(f"{line}\n" for line in lines[: 1 + rows])


def foreign_parquet() -> list[Files]:
    texts = [files["ranks.csv"].decode() for files in foreign_tables(",", "csv")]
    tables = [list(csv.reader(io.StringIO(text))) for text in texts]
    typed = [{name: typed_column(values) for name, *values in zip(*table, strict=True)} for table in tables]
    return [{"ranks.parquet": table_bytes(pa.table(columns))} for columns in typed]


def typed_column(values: Sequence[str]) -> Any:
    if all(re.fullmatch(r"[0-9]+", value) for value in values) and "007" not in values:
        return pa.array(map(int, values))
    if all(re.fullmatch(r"[0-9.]*", value) for value in values) and "007" not in values:
        return pa.array([float(value) if value else None for value in values])
    return pa.array(values)


def read_foreign(folder: Path, **options: Any) -> Any:
    ranks = import_ranks(only_file(folder), **options)
    known = {name: ranks.column(name).to_pylist() for name in CANONICAL if name in ranks.column_names}
    return {name: defined(column) for name, column in known.items()}


def plain_text_table(path: Path, delimiter: str, quoted: bool) -> dict[str, list[Any]]:
    """The columns of a text table; a column without a name is left out."""
    text = content(path).removeprefix(b"\xef\xbb\xbf").decode()
    if quoted and '"' in text:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    else:
        rows = [line.split(delimiter) for line in re.split(r"\r\n|\r|\n", text) if line]
    while not "".join(rows[0]).strip():
        del rows[0]
    names = [name.strip() for name in rows[0]]
    require(all(len(row) == len(names) for row in rows), "rows of different lengths")
    columns = dict(zip(names, zip(*rows[1:], strict=True), strict=True)) if rows[1:] else {}
    require(sorted(columns) == sorted(set(names)) and len(names) == len(columns), "a column occurs twice")
    return {name: [text.strip() for text in column] for name, column in columns.items() if name}


def plain_parquet_table(path: Path) -> dict[str, list[Any]]:
    table = read_parquet(path)
    require(len(set(table.column_names)) == len(table.column_names), "a column occurs twice")
    columns = {name: table.column(name).to_pylist() for name in table.column_names if name}
    return {name: [_stripped(value) for value in column] for name, column in columns.items()}


def _stripped(value: Any) -> Any:
    value = value.decode() if isinstance(value, bytes) else value
    return value.strip() if isinstance(value, str) else value


def plain_foreign(columns: Mapping[str, list[Any]], *, labelled: bool, num_entities: int) -> dict[str, list[Any]]:
    """The rank table of the columns of another program."""
    found = _meanings(columns)
    entities = _ids([found["head"], found["tail"]], ENTITIES if labelled else None)
    relations = _ids([found["relation"]], RELATIONS if labelled else None)
    rows: dict[str, list[Any]] = {"head": entities[0], "relation": relations[0], "tail": entities[1]}
    rows["side"] = [SIDES[side.lower()] for side in found["side"]]
    rows |= _rank_and_ties(found)
    if "candidates" in found:
        rows["candidates"] = [whole(_filled(value)) for value in found["candidates"]]
    elif "filtered" in found:
        rows["candidates"] = [num_entities - (whole(_filled(value)) or 0) for value in found["filtered"]]
    else:
        rows["candidates"] = [num_entities - _others(row) for row in _rows_of(rows)]
    for name in ("entity_popularity", "relation_popularity", "worst_rank"):
        rows |= {name: [_real(value) for value in found[name]]} if name in found else {}
    rows |= {"seed": [whole(_filled(value)) for value in found["seed"]]} if "seed" in found else {}
    if labelled:
        rows |= _popularity(rows)
    check_ranks(rows)
    require(max((*rows["head"], *rows["tail"])) < num_entities, "an entity is outside the graph")
    require(max(rows["candidates"]) <= num_entities, "more candidates than entities")
    require(not labelled or max(rows["relation"]) < len(RELATIONS), "a relation is outside the graph")
    return rows


def _meanings(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The columns by what they hold: by their own name, else by a synonym."""
    plain = {name: re.sub("[- ]", "_", name.lower()) for name in columns}
    found = {}
    for meaning, synonyms in SYNONYMS.items():
        own = [name for name, text in plain.items() if text == meaning]
        usual = own or [name for name, text in plain.items() if text in synonyms.split()]
        require(len(usual) < 2, f"several columns for {meaning}")
        found |= {meaning: columns[usual[0]]} if usual else {}
    return found


def _filled(value: Any) -> Any:
    require(value is not None and value not in BLANK, "a value is missing")
    return value


def _real(value: Any) -> float | None:
    nothing = value is None or (isinstance(value, str) and (value in BLANK or value.lower() == "nan"))
    return None if nothing else (defined([number(value)])[0])


def _ids(columns: Sequence[Sequence[Any]], labels: Sequence[str] | None) -> list[list[int]]:
    """Ids; or, if any text is no whole number, labels of the graph."""
    texts = [value for column in columns for value in column if isinstance(value, str)]
    if all(re.fullmatch(r"-?(0|[1-9][0-9]*)(\.0+)?", text) for text in texts):
        return [[whole(_filled(value)) or 0 for value in column] for column in columns]
    require(labels is not None, "labels without a graph")
    return [[(labels or []).index(str(value)) for value in column] for column in columns]


_PAIRS = (("optimistic", "pessimistic"), ("greater", "equal"), ("greater", "ties"), ("optimistic", "worst_rank"))
"""Columns that give the rank and the ties, in order of preference before rank itself."""


def _rank_and_ties(found: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    def pairs(one: str, other: str) -> list[tuple[float, float]]:
        values = ([number(_filled(value)) for value in found[name]] for name in (one, other))
        return [(a, b) for a, b in zip(*values, strict=True) if a is not None and b is not None]

    for one, other in _PAIRS:
        if one in found and other in found:
            both = pairs(one, other)
            if one == "greater":
                return {"rank": [1 + a + b / 2 for a, b in both], "ties": [whole(b) for _, b in both]}
            return {"rank": [(a + b) / 2 for a, b in both], "ties": [whole(b - a) for a, b in both]}
    if "rank" not in found:
        one, sign = ("optimistic", 1) if "optimistic" in found else ("pessimistic", -1)
        other = "ties" if "ties" in found else "equal"
        ends = [number(_filled(value)) for value in found[one]]
        ties = [_whole_or_blank(value) if other == "ties" else whole(_filled(value)) for value in found[other]]
        return {"rank": [end + sign * (tie or 0) / 2 for end, tie in zip(ends, ties, strict=True)], "ties": ties}
    rows: dict[str, list[Any]] = {"rank": [number(_filled(value)) for value in found["rank"]]}
    return rows | ({"ties": [_whole_or_blank(value) for value in found["ties"]]} if "ties" in found else {})


def _whole_or_blank(value: Any) -> int | None:
    return None if _real(value) is None else whole(value)


def _rows_of(rows: Mapping[str, list[Any]]) -> list[tuple[int, int, int, str]]:
    return list(zip(rows["head"], rows["relation"], rows["tail"], rows["side"], strict=True))


def _others(row: tuple[int, int, int, str]) -> int:
    """The number of known answers of a query besides its target."""
    head, relation, tail, side = row
    given, target = (head, tail) if side == "tail" else (tail, head)
    return len(known_answers().get((side, given, relation), set()) - {target})


def _popularity(rows: Mapping[str, list[Any]]) -> dict[str, list[float]]:
    targets = [tail if side == "tail" else head for head, _, tail, side in _rows_of(rows)]
    ends = [(entity, relation) for head, relation, tail in TRAIN for entity in (head, tail)]
    times = {entity: sum(entity == other for other, _ in ends) for entity in targets}
    share = [
        ends.count((entity, relation)) / times[entity] if times[entity] else 0.0
        for entity, relation in zip(targets, rows["relation"], strict=True)
    ]
    return {"entity_popularity": [times[e] / len(ends) for e in targets], "relation_popularity": share}


def plain_csv(folder: Path) -> Any:
    columns = plain_text_table(only_file(folder), ",", quoted=True)
    return plain_foreign(columns, labelled=False, num_entities=NUM_ENTITIES)


def plain_tsv(folder: Path) -> Any:
    columns = plain_text_table(only_file(folder), "\t", quoted=False)
    return plain_foreign(columns, labelled=True, num_entities=len(ENTITIES))


def plain_parquet(folder: Path) -> Any:
    return plain_foreign(plain_parquet_table(only_file(folder)), labelled=False, num_entities=NUM_ENTITIES)


def probe_json_files() -> list[Files]:
    entries = [
        [[0, 0, 3], "t", 1, 0.5, 0.25, 2],
        [[0, 0, 3], "h", 2.5, 0.1, 0.5, 0],
        [[2, 1, 5], "t", 3.0, 0.0, 1, 7],
    ]
    return [{f"RotatE_umls_{n}.json": json.dumps(entries[:n]).encode()} for n in (3, 2, 1)]


def plain_probe_json(folder: Path) -> Any:
    entries = json.loads(content(only_file(folder)).decode("utf-8-sig"))
    require(isinstance(entries, list) and entries, "no list of entries")
    given: dict[tuple[Any, ...], tuple[Any, Any]] = {}
    for entry in entries:
        (head, relation, tail), side, rank, relation_share, entity_share, filtered = entry
        numbers = (head, relation, tail, rank, relation_share, entity_share, filtered)
        require(all(type(value) in (int, float) for value in numbers), "not a number")
        require(0 <= relation_share <= 1 and 0 <= entity_share <= 1, "a popularity is outside 0..1")
        given[head, relation, tail, side] = entity_share, relation_share
    rows: dict[str, list[Any]] = {name: [whole(entry[0][i]) for entry in entries] for i, name in enumerate(WHOLE[:3])}
    rows["side"] = [{"h": "head", "t": "tail"}[entry[1]] for entry in entries]
    rows["rank"] = [float(entry[2]) for entry in entries]
    rows["candidates"] = [NUM_ENTITIES - (whole(entry[5]) or 0) for entry in entries]
    # The popularity in an entry is that of the entity that was given, so the target's is in the other side's entry.
    other = [given.get((*entry[0], "h" if entry[1] == "t" else "t"), (None, None)) for entry in entries]
    rows |= {"entity_popularity": [e for e, _ in other], "relation_popularity": [r for _, r in other]}
    check_ranks(rows)
    require(max((*rows["head"], *rows["tail"])) < NUM_ENTITIES, "an entity is outside the graph")
    require(max(rows["candidates"]) <= NUM_ENTITIES, "more candidates than entities")
    return rows


by_size = partial(read_foreign, num_entities=NUM_ENTITIES)

KINDS = (
    Kind("rank-file", rank_files, read_rank_file, plain_rank_file),
    Kind("import-csv", partial(foreign_tables, ",", "csv"), by_size, plain_csv),
    Kind("import-tsv", partial(foreign_tables, "\t", "tsv"), lambda f: read_foreign(f, graph=small_graph()), plain_tsv),
    Kind("import-parquet", foreign_parquet, by_size, plain_parquet),
    Kind("probe-json", probe_json_files, by_size, plain_probe_json),
)
