"""Graph directories: labelled triples, OpenKE's files, Parquet; open worlds and their ranks."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import re
import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from fuzz.containers import array_bytes, table_bytes
from fuzz.inputs import Files, Kind, require
from fuzz.mutators import SEAL, json_hash
from fuzz.plain import ENTITIES, RELATIONS, TEST, TRAIN, VALID, decimal_id, read_parquet, text_lines, whole_columns
from fuzz.rank_kinds import plain_rank_table
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.graph.triple_sources import column_of
from kgprobe.openworld import OpenWorld
from kgprobe.openworld.world_files import read_world, write_world
from kgprobe.openworld.world_ranks import RankPair
from kgprobe.ranks import Ranks, RanksInfo

SPLITS = ("train", "valid", "test")
TRIPLES = dict(zip(SPLITS, (TRAIN, VALID, TEST), strict=True))


def contents(graph: KnowledgeGraph) -> dict[str, Any]:
    """Everything that was read of a graph."""
    return {
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "entity_labels": _texts(graph.entity_labels),
        "relation_labels": _texts(graph.relation_labels),
        "splits": {split: triples.tolist() for split, triples in graph.splits.items()},
        "negatives": {split: triples.tolist() for split, triples in graph.negative_splits.items()},
        "names": [_texts(graph.entity_names), _texts(graph.relation_names)],
    }


def _texts(labels: Any) -> list[Any] | None:
    return None if labels is None else labels.to_pylist()


def read_graph(folder: Path) -> Any:
    graph = load_graph(folder)
    counts = graph.train_counts
    read = {"degree": counts.degree.tolist(), "pairs": counts.pair_counts.tolist()} if counts else None
    return contents(graph) | {"counts": read}


def _in_words(triples: Sequence[Sequence[int]]) -> str:
    return "".join(f"{ENTITIES[h]}\t{RELATIONS[r]}\t{ENTITIES[t]}\n" for h, r, t in triples)


def _numbered(labels: Sequence[str]) -> bytes:
    return "".join(f"{i}\t{label}\n" for i, label in enumerate(labels)).encode()


def labelled_graphs() -> list[Files]:
    """With and without dictionaries, compressed, in TSV, and of one line."""
    texts = {f"{split}.txt": _in_words(triples).encode() for split, triples in TRIPLES.items()}
    return [
        texts,
        texts | {"entities.dict": _numbered(ENTITIES), "relations.dict": _numbered(RELATIONS)},
        {f"{split}.tsv.gz": gzip.compress(_in_words(triples).encode(), mtime=0) for split, triples in TRIPLES.items()},
        {"train.tsv": b"Ada\tknows\tBob"},
        {
            "train.txt": b'"a\t"\tNA\r\nNA\t"\t"a\r\n',
            "test.txt": '"a\t"\té\n'.encode(),
            "entities.dict": b'1\t"a\n0\tNA\n2\t\xc3\xa9\n',
        },
    ]


def delimited_graphs() -> list[Files]:
    """Separated by commas and by spaces, with header lines, labelled negatives and other dictionaries."""
    rows = [[ENTITIES[h], RELATIONS[r], ENTITIES[t]] for h, r, t in TRAIN]
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([["", "head", "relation", "tail"], *([7, *row] for row in rows)])
    quoted = b'source;target;edge\na;"b;""c""";r\n"b;""c""";a;s\n'
    return [
        {"train.csv": written.getvalue().encode(), "validation.csv": b"Ada,knows,Bob\nBob,knows,Ada\n"},
        {"train.csv": quoted, "test.csv.gz": gzip.compress(b"a,r,b\n", mtime=0)},
        {"train.txt": b"a r b\nb s c\n", "dev.txt": b"a r c 1\na s c -1\n", "test.txt": b"b\tr\tc\t0\n"},
        {"train.tsv": b"h\tr\tt\nt\tr\th\n", "test_negatives.txt": b"head\trelation\ttail\nh\tr\tnew\n"},
        {"train.txt": b"a\tb\tr\nb\ta\tr\n", "entity2id.txt": b"a\t1\nb\t0\n", "relation2id.txt": b"1\nr\t0\n"},
        {"train.txt": b"a r b\n", "entities.txt": b"b\na\nc c\n", "relations.txt": b"r\tlikes\n"},
    ]


def plain_labelled(folder: Path) -> Any:
    names = [_plain_ids(folder, *files) for files in (_ENTITY_FILES, _RELATION_FILES)]
    triples: dict[str, list[list[str]]] = {}
    false: dict[str, list[list[str]]] = {}
    for end, (split, stems) in product(("", "_negatives"), _STEMS.items()):
        endings = map("".join, product((".txt", ".tsv", ".csv"), ("", ".gz")))
        files = [file for stem, ending in product(stems, endings) if (file := folder / f"{stem}{end}{ending}").exists()]
        require(len(files) < 2 and (files or end or split != "train"), f"no single file of {split}")
        for file in files:
            rows = plain_rows(file, *names)
            if not end:
                triples[split] = [row[:3] for row in rows if row[3] == "1"]
            false[split] = false.get(split, []) + [row[:3] for row in rows if end or row[3] != "1"]
    every = [row for part in (triples, false) for rows in part.values() for row in rows]
    entities = names[0] or sorted({label for head, _, tail in every for label in (head, tail)}, key=str.encode)
    relations = names[1] or sorted({relation for _, relation, _ in every}, key=str.encode)
    ids = {label: i for i, label in enumerate(entities)}
    kinds = {label: i for i, label in enumerate(relations)}
    numbered, negatives = (
        {split: [[ids[h], kinds[r], ids[t]] for h, r, t in rows] for split, rows in part.items()}
        for part in (triples, false)
    )
    return _graph(entities, relations, numbered) | {"negatives": {s: rows for s, rows in negatives.items() if rows}}


_STEMS = {"train": ("train", "training"), "valid": ("valid", "validation", "dev", "val"), "test": ("test", "testing")}
_ENTITY_FILES = ("entities.dict", "entity2id.txt", "entities.txt")
_RELATION_FILES = ("relations.dict", "relation2id.txt", "relations.txt")


def _cuts(path: Path) -> list[Callable[[str], list[str]]]:
    """How a line may be cut into fields, the usual way first."""

    def quoted(line: str, delimiter: str) -> list[str]:
        if '"' not in line:  # the csv module limits the length of a field
            return line.split(delimiter)
        try:
            (fields,) = csv.reader([line], delimiter=delimiter, strict=True)
        except csv.Error:
            return [line]
        return fields

    csvs = [partial(quoted, delimiter=delimiter) for delimiter in ",;"]
    tabs, spaces = (
        (lambda line: line.split("\t")),
        (lambda line: [line] if "\t" in line else list(filter(None, line.split(" ")))),
    )
    return [*csvs, tabs] if ".csv" in path.suffixes else [tabs, spaces, *csvs]


def plain_rows(path: Path, entities: list[str] | None, relations: list[str] | None) -> list[list[str]]:
    """Head, relation, tail and label (1 for true) of every line."""
    lines = [line for _, line in text_lines(path)]
    cut = max(_cuts(path), key=lambda cut: sum(len(cut(line)) >= 3 for line in lines[:100]))
    rows = [cut(line) for line in lines]
    require(rows, "empty")
    kinds = [column_of(text) for text in rows[0]]
    own = [text.lower() == kind for text, kind in zip(rows[0], kinds, strict=True)]
    for kind in {kind for kind, mine in zip(kinds, own, strict=True) if mine}:
        kinds = [None if found == kind and not mine else found for found, mine in zip(kinds, own, strict=True)]
    counts = [kinds.count(kind) for kind in ("head", "relation", "tail", "label", "split")]
    other = [text for text, kind in zip(rows[0], kinds, strict=True) if kind is None]
    if counts[:3] == [1, 1, 1] and max(counts) == 1 and not {"1", "-1", "0"} & set(other):
        order = [kinds.index(kind) for kind in ("head", "relation", "tail")]
        words = [rows[0][i] for i in order]
        below = [[row[i] for i in order] for row in rows[1:] if len(row) == len(kinds)]
        ends = {label for head, _, tail in below for label in (head, tail)}
        known = [entities is None or {words[0], words[2]} <= set(entities), relations is None or words[1] in relations]
        occurs = bool({words[0], words[2]} & ends) or words[1] in {relation for _, relation, _ in below}
        is_triple = all(known) if entities is not None or relations is not None else occurs
        if len(kinds) > 3 or not is_triple:
            require(len(below) == len(rows) - 1 and below, "a line with another number of fields, or no line")
            labels = [row[kinds.index("label")] if "label" in kinds else "1" for row in rows[1:]]
            return _checked([[*row, label] for row, label in zip(below, labels, strict=True)], entities, relations)
    width = 4 if 2 * sum(len(row) == 4 for row in rows[:100]) > len(rows[:100]) else 3
    require(all(len(row) == width for row in rows), "a line with another number of fields")
    rows = [row if width == 4 else [*row, "1"] for row in rows]
    try:
        return _checked(rows, entities, relations)
    except ValueError:
        require(entities is not None and relations is not None, "not triples")
        return _checked([[head, relation, tail, label] for head, tail, relation, label in rows], entities, relations)


def _checked(rows: list[list[str]], entities: list[str] | None, relations: list[str] | None) -> list[list[str]]:
    for head, relation, tail, label in rows:
        require(head and relation and tail and label in ("1", "-1", "0"), "an empty field, or a strange label")
        require(entities is None or (head in entities and tail in entities), "an unknown entity")
        require(relations is None or relation in relations, "an unknown relation")
    return rows


def _plain_ids(folder: Path, *files: str) -> list[str] | None:
    """The labels in the order of their ids, by the first of these files that is a dictionary."""
    for path in (folder / file for file in files if (folder / file).exists()):
        weak = path.name == files[-1]  # it may also be a file of something else, in any encoding
        lines = text_lines(path, errors="backslashreplace" if weak else "strict")
        if weak and not lines:
            continue
        require(lines, "empty")
        fields = [line.rsplit("\t" if "\t" in line else None, 1) for _, line in lines[:2]]
        digits = [re.fullmatch(r"[0-9]{1,18}", text) is not None for text in fields[-1]]
        counted = len(fields) == 2 and len(fields[0]) == 1 and len(fields[1]) == 2
        counted = counted and re.fullmatch(r"[0-9]{1,18}", lines[0][1]) is not None
        if weak and not (len(digits) == 2 and any(digits)):
            if len(digits) == 2:
                continue
            labels = [line for _, line in text_lines(path)]
            require(len(set(labels)) == len(labels), "a label occurs twice")
            return labels
        id_first = path.suffix == ".dict" if len(digits) != 2 or all(digits) or not any(digits) else digits[0]
        return _dictionary(path, id_first=id_first, counted=counted)
    return None


def _graph(entities: Any, relations: Any, splits: dict[str, Any], counts: Any = None) -> dict[str, Any]:
    """What must be read of a graph; labels, or a number of ids without labels."""
    named = [None if isinstance(labels, int) else list(labels) for labels in (entities, relations)]
    sizes = [labels if isinstance(labels, int) else len(labels) for labels in (entities, relations)]
    for triples in splits.values():
        for head, relation, tail in triples:
            require(0 <= head < sizes[0] and 0 <= tail < sizes[0] and 0 <= relation < sizes[1], "an id is outside")
    return {
        "entities": sizes[0],
        "relations": sizes[1],
        "entity_labels": named[0],
        "relation_labels": named[1],
        "splits": splits,
        "negatives": {},
        "names": [None, None],
        "counts": counts,
    }


def _dictionary(path: Path, *, id_first: bool, counted: bool) -> list[str] | None:
    """The labels in the order of their ids, which run from 0 without gaps; None without a file."""
    if not path.exists():
        return None
    lines = text_lines(path)
    if counted:
        require(lines and lines[0][0] == 1 and decimal_id(lines[0][1]) == len(lines) - 1, "a wrong number of lines")
        lines = lines[1:]
    if id_first:
        pairs = [(fields[0], fields[1:]) for _, line in lines if (fields := line.split("\t"))]
    else:
        split = [line.rsplit("\t" if "\t" in line else None, 1) for _, line in lines]
        pairs = [(fields[-1], fields[:-1]) for fields in split]
    require(all(len(label) == 1 and label[0] for _, label in pairs), "not an id and a label")
    labels = {decimal_id(number): label for number, (label,) in pairs}
    require(sorted(labels) == list(range(len(pairs))), "ids are not 0, 1, 2, ...")
    require(len(set(labels.values())) == len(pairs), "a label occurs twice")
    return [labels[i] for i in range(len(labels))]


def openke_graphs() -> list[Files]:
    def triples(rows: Sequence[Sequence[int]], gap: str) -> bytes:
        return f"{len(rows)}\n{''.join(f'{h}{gap}{t}{gap}{r}' + chr(10) for h, r, t in rows)}".encode()

    def names(labels: Sequence[str]) -> bytes:
        return f"{len(labels)}\n{''.join(f'{label}{chr(9)}{i}' + chr(10) for i, label in enumerate(labels))}".encode()

    labels = {"entity2id.txt": names(ENTITIES), "relation2id.txt": names(RELATIONS)}
    whole = {f"{split}2id.txt": triples(rows, " ") for split, rows in TRIPLES.items()} | labels
    tabs = {f"{split}2id.txt": triples(rows, "\t") for split, rows in TRIPLES.items()} | labels
    one = {"train2id.txt": b"1\n0 1 0", "entity2id.txt": b"2\na 0\nb c\t1", "relation2id.txt": b"1\nr 0"}
    return [whole, tabs, one]


def plain_openke(folder: Path) -> Any:
    entities = _dictionary(folder / "entity2id.txt", id_first=False, counted=True)
    relations = _dictionary(folder / "relation2id.txt", id_first=False, counted=True)
    require(entities is not None and relations is not None and (folder / "train2id.txt").exists(), "a missing file")
    splits = {}
    for split in SPLITS:
        path = folder / f"{split}2id.txt"
        if path.exists():
            (first, count), *lines = text_lines(path)
            require(first == 1 and decimal_id(count) == len(lines), "a wrong number of lines")
            rows = [[decimal_id(text) for text in line.split()] for _, line in lines]
            splits[split] = [[head, relation, tail] for head, tail, relation in rows]
    return _graph(entities, relations, splits)


def _columns(rows: Sequence[Sequence[int]], *names: str) -> bytes:
    return table_bytes(pa.table({name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate(names)}))


def _named(labels: Sequence[str | None] | int, names: Sequence[str | None] | None = None) -> bytes:
    size = labels if isinstance(labels, int) else len(labels)
    columns = {"id": pa.array(range(size), pa.int64())}
    columns |= {} if isinstance(labels, int) else {"label": pa.array(labels, pa.string())}
    return table_bytes(pa.table(columns | ({} if names is None else {"name": pa.array(names, pa.string())})))


def parquet_graphs() -> list[Files]:
    """With and without labels, of one split, and with counts in place of the training triples."""
    splits = {f"{split}.parquet": _columns(rows, "head", "relation", "tail") for split, rows in TRIPLES.items()}
    labels: list[str | None] = [*ENTITIES[:-1], None]
    named = {"entities.parquet": _named(labels, names=labels), "relations.parquet": _named(RELATIONS)}
    false = {f"{split}_negatives.parquet": _columns([[5, 1, 5]], "head", "relation", "tail") for split in SPLITS[1:]}
    bare = {"entities.parquet": _named(6), "relations.parquet": _named(2)}
    counts = {
        "test.parquet": splits["test.parquet"],
        "entity_train_degree.parquet": _columns(list(enumerate((3, 2, 3, 2, 1, 1))), "id", "train_degree"),
        "test_entity_relation_train_count.parquet": _columns(
            [(0, 0, 2), (2, 1, 1), (3, 0, 0), (4, 0, 1), (5, 1, 0)], "entity", "relation", "train_count"
        ),
        "relation_train_count.parquet": _columns([(0, 4), (1, 2)], "id", "train_count"),
    }
    return [splits | named | false, splits | bare, counts | bare, {"train.parquet": splits["train.parquet"]} | bare]


def plain_parquet_graph(folder: Path) -> Any:
    names = [_plain_names(folder / f"{kind}.parquet") for kind in ("entities", "relations")]
    sizes = [labels if isinstance(labels, int) else len(labels) for labels in names]
    splits, negatives = (
        {
            split: [list(row) for row in zip(*whole_columns(path, "head", "relation", "tail"), strict=True)]
            for split in SPLITS
            if (path := folder / f"{split}{end}.parquet").exists()
        }
        for end in ("", "_negatives")
    )
    _graph(*names, negatives)
    counts = None
    if not (folder / "train.parquet").exists() and (folder / "entity_train_degree.parquet").exists():
        ids, degree = whole_columns(folder / "entity_train_degree.parquet", "id", "train_degree")
        require(ids == list(range(sizes[0])) and min(degree, default=0) >= 0, "degrees")
        pairs_file = folder / "test_entity_relation_train_count.parquet"
        pairs = sorted(zip(*whole_columns(pairs_file, "entity", "relation", "train_count"), strict=True))
        require(len({pair[:2] for pair in pairs}) == len(pairs) and sum(degree) % 2 == 0, "counts")
        require(all(0 <= e < sizes[0] and 0 <= r < sizes[1] and 0 <= n <= degree[e] for e, r, n in pairs), "counts")
        totals = folder / "relation_train_count.parquet"
        require(not totals.exists() or 2 * sum(whole_columns(totals, "id", "train_count")[1]) == sum(degree), "total")
        counts = {"degree": degree, "pairs": [count for _, _, count in pairs]}
    people = [_plain_names(folder / f"{kind}.parquet", "name") for kind in ("entities", "relations")]
    shown = [None if isinstance(own, int) else own for own in people]
    return _graph(*names, splits, counts) | {"negatives": negatives, "names": shown}


def _plain_names(path: Path, column: str = "label") -> Any:
    """The labels, or the number of ids without labels."""
    (ids,) = whole_columns(path, "id")
    require(ids == list(range(len(ids))), "ids are not 0, 1, 2, ...")
    table = read_parquet(path)
    require(table.column_names.count(column) < 2, "two columns of one name")
    return table.column(column).cast(pa.string()).to_pylist() if column in table.column_names else len(ids)


def array_graphs() -> list[Files]:
    """With labels and the hash of the content, with the sizes alone, in other types of integers, and of one split."""

    def arrays(kind: str) -> Files:
        return {f"{split}.npy": array_bytes(np.array(rows, dtype=kind)) for split, rows in TRIPLES.items()}

    sizes = {"num_entities": 6, "num_relations": 2}
    bare = {"graph.json": json.dumps(sizes).encode()}
    sealed = {"graph.json": json.dumps(sizes | {"content_hash": _content_hash(sizes, TRIPLES)}).encode()}
    named = {"entities.parquet": _named(ENTITIES, names=ENTITIES), "relations.parquet": _named(RELATIONS)}
    false = {"test_negatives.npy": array_bytes(np.array([[5, 1, 5]]))}
    one = {"train.npy": array_bytes(np.asfortranarray(np.array(TRAIN, dtype=np.int32)))}
    return [arrays("<i4") | sealed | named, arrays("<i8") | bare | false, arrays(">u2") | bare, one | bare]


def _content_hash(sizes: dict[str, int], splits: dict[str, Any]) -> str:
    digest = hashlib.sha256(f"{sizes['num_entities']} {sizes['num_relations']}\n".encode())
    for split in SPLITS:
        rows = [number for row in splits.get(split, []) for number in row]
        digest.update(f"{split} {len(rows) // 3}\n".encode() + struct.pack(f"<{len(rows)}q", *rows))
    return digest.hexdigest()


def plain_array_graph(folder: Path) -> Any:
    about = json.loads((folder / "graph.json").read_bytes())
    seal = about.pop(SEAL, None)
    require(seal is None or seal == json_hash(about), "a wrong hash")
    sizes = [about[name] for name in ("num_entities", "num_relations")]
    require(all(type(size) is int for size in sizes), "a size that is no number")
    splits, negatives = (
        {split: _plain_array(folder / f"{split}{end}.npy") for split in SPLITS} for end in ("", "_negatives")
    )
    splits, negatives = (
        {split: rows for split, rows in part.items() if rows is not None} for part in (splits, negatives)
    )
    require(about.get("content_hash", "") in ("", _content_hash(about, splits)), "other triples")
    labels, people = [], []
    for kind, size in zip(("entities", "relations"), sizes, strict=True):
        path = folder / f"{kind}.parquet"
        own = [_plain_names(path, column) if path.exists() else size for column in ("label", "name")]
        require(all((own if isinstance(own, int) else len(own)) == size for own in own), "another number of names")
        labels.append(own[0])
        people.append(None if isinstance(own[1], int) else own[1])
    _graph(*labels, negatives)
    return _graph(*labels, splits) | {"negatives": negatives, "names": people}


def _plain_array(path: Path) -> list[list[int]] | None:
    if not path.exists():
        return None
    array = np.load(path, allow_pickle=False)
    require(array.dtype.kind in "iu" and array.ndim == 2 and array.shape[1] == 3, "not triples")
    rows: list[list[int]] = array.tolist()
    return rows


def worlds() -> list[Files]:
    """Worlds as kgprobe writes them, and one in the published form."""
    made = [
        OpenWorld("small", 6, 2, train=TRAIN, known=TEST[:2], missing=TEST[2:], valid=VALID, settings={"seed": 1}),
        OpenWorld("é", 6, 2, train=TRAIN, known=TEST[:1], missing=TEST[1:2], queries=[[0, 0]]),
    ]
    published = {
        "train.parquet": _columns(TRAIN, "head", "relation", "tail"),
        "entities.parquet": _named(ENTITIES),
        "relations.parquet": _named(RELATIONS),
        "test_queries.parquet": _columns([[7, 0, 0], [8, 2, 1]], "query", "head", "relation"),
        "test_answers.parquet": table_bytes(
            pa.table(
                {
                    "query": [7, 7, 8],
                    "tail": [3, 4, 5],
                    "in_sparse": [True, False, True],
                    "in_sparse_correlated": [False, True, True],
                }
            )
        ),
    }
    return [*map(_world_files, made), published]


def _world_files(world: OpenWorld) -> Files:
    with TemporaryDirectory() as scratch:
        write_world(world, Path(scratch) / "world")
        return {path.name: path.read_bytes() for path in sorted((Path(scratch) / "world").iterdir())}


def read_open_world(folder: Path) -> Any:
    world = read_world(folder)
    parts = {part: getattr(world, part).tolist() for part in ("train", "valid", "known", "missing")}
    queries = None if world.queries is None else world.queries.tolist()
    labels = {"entity_labels": _texts(world.entity_labels), "relation_labels": _texts(world.relation_labels)}
    return parts | labels | {"queries": queries, "sizes": [world.num_entities, world.num_relations]}


def plain_world(folder: Path) -> Any:
    graph = plain_parquet_graph(folder)
    splits = {split: graph["splits"].get(split, []) for split in SPLITS}
    if (folder / "test_answers.parquet").exists():
        asked = {
            q: [h, r]
            for q, h, r in zip(
                *whole_columns(folder / "test_queries.parquet", "query", "head", "relation"), strict=True
            )
        }
        answers = zip(*whole_columns(folder / "test_answers.parquet", "query", "tail"), strict=True)
        table = read_parquet(folder / "test_answers.parquet")
        require(table.column_names.count("in_sparse") == 1, "no single column in_sparse")
        flags = table.column("in_sparse").to_pylist()
        require(all(isinstance(flag, bool) for flag in flags), "in_sparse is not a boolean")
        hard = [([*asked[query], tail], flag) for (query, tail), flag in zip(answers, flags, strict=True)]
        known, missing = ([triple for triple, flag in hard if flag is wanted] for wanted in (True, False))
        parts = {"train": splits["train"], "valid": [], "known": known, "missing": missing}
        queries: Any = list(asked.values())
    else:
        about = json.loads((folder / "openworld.json").read_bytes())
        seal = about.pop(SEAL, None)
        require(seal is None or seal == json_hash(about), "a wrong hash")
        missing = [
            list(row)
            for row in zip(*whole_columns(folder / "missing.parquet", "head", "relation", "tail"), strict=True)
        ]
        parts = {"train": splits["train"], "valid": splits["valid"], "known": splits["test"], "missing": missing}
        require(all(about["facts"].get(part, 0) == len(rows) for part, rows in parts.items()), "parts that do not fit")
        queries = about.get("queries")
    every = [tuple(triple) for rows in parts.values() for triple in rows]
    require(len(set(every)) == len(every), "a triple occurs twice")
    _graph(graph["entities"], graph["relations"], parts | {"queries": [[h, r, 0] for h, r in queries or []]})
    labels = {name: graph[name] for name in ("entity_labels", "relation_labels")}
    return parts | labels | {"queries": queries, "sizes": [graph["entities"], graph["relations"]]}


def world_ranks() -> list[Files]:
    """The ranks of a model in an open and in a closed world."""
    query: dict[str, Any] = {"head": [0, 0, 2], "relation": [0, 0, 1], "side": ["tail"] * 3, "tail": [3, 4, 5]}
    info = RanksInfo(model="RotatE")
    known = {name: column[::2] for name, column in query.items()}
    opened = Ranks.from_columns(**known, rank=[2.0, 3.5], ties=[0, 1], candidates=[6, 5], info=info)
    closed = Ranks.from_columns(**query, rank=[1.0, 1.0, 3.0], ties=[0, 0, 0], candidates=[5, 5, 5], info=info)
    with TemporaryDirectory() as folder:
        RankPair(opened, closed).write(folder, "final")
        return [{path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}]


def read_world_ranks(folder: Path) -> Any:
    pair = RankPair.read(folder, "final")
    return {"open": pair.open.rank.tolist(), "closed": pair.closed.rank.tolist(), "rows": pair.closed_rows.tolist()}


def plain_world_ranks(folder: Path) -> Any:
    tables = [plain_rank_table(folder / f"final.{world}.parquet")["columns"] for world in ("open", "closed")]
    keys = ("head", "relation", "tail", "side", "seed")
    queries = [list(zip(*(table[key] for key in keys if key in table), strict=True)) for table in tables]
    rows = [queries[1].index(query) for query in queries[0]]
    for name in ("rank", "candidates"):
        require(all(tables[1][name][r] <= n for r, n in zip(rows, tables[0][name], strict=True)), f"a larger {name}")
    return {"open": tables[0]["rank"], "closed": tables[1]["rank"], "rows": rows}


KINDS = (
    Kind("labelled-graph", labelled_graphs, read_graph, plain_labelled),
    Kind("delimited-graph", delimited_graphs, read_graph, plain_labelled),
    Kind("openke-graph", openke_graphs, read_graph, plain_openke),
    Kind("parquet-graph", parquet_graphs, read_graph, plain_parquet_graph),
    Kind("array-graph", array_graphs, read_graph, plain_array_graph),
    Kind("open-world", worlds, read_open_world, plain_world),
    Kind("world-ranks", world_ranks, read_world_ranks, plain_world_ranks),
)
