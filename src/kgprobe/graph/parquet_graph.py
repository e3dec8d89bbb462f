"""Read graph directories of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgprobe.arrays import AnyInts, id_problems, triple_problems
from kgprobe.errors import DataError, spans
from kgprobe.graph.graph_directory import DEGREES, NEGATIVES, PAIRS, RELATIONS
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.graph.names import Labels, as_labels
from kgprobe.graph.popularity import TrainCounts
from kgprobe.graph.triple_sources import SPLITS, TRIPLE
from kgprobe.parquet_files import ParquetTable, open_parquet, require_room

_BATCH = 1 << 18
"""Rows of triples that are read at a time."""


def is_parquet_graph(directory: Path) -> bool:
    """Whether a directory has triples in Parquet."""
    return any((directory / f"{split}.parquet").exists() for split in SPLITS)


def read_parquet_graph(directory: Path, name: str) -> KnowledgeGraph:
    """Read train, valid and test.parquet (integers head, relation, tail), or those of them that exist.

    entities.parquet and relations.parquet (id from 0 in order, optionally label and name) are in the same directory or,
    shared by several graphs, in its parent. If train.parquet is missing, counts of the training triples may replace it.
    valid_negatives.parquet and test_negatives.parquet hold triples that are known to be false.
    """
    problems: list[str] = []
    num_entities, entity_labels, entity_names = _find_names(directory, "entities", problems)
    num_relations, relation_labels, relation_names = _find_names(directory, "relations", problems)
    triples: dict[str, dict[str, AnyInts]] = {"": {}, NEGATIVES: {}}
    for (end, found), split in product(triples.items(), SPLITS):
        path = directory / f"{split}{end}.parquet"
        read = _triples(path, num_entities, num_relations, problems) if path.exists() else None
        if read is not None:
            found[split] = read
            problems += triple_problems(path.name, read, num_entities, num_relations)
    counts = None
    has_counts = (directory / DEGREES).exists() and not (directory / "train.parquet").exists()
    if num_entities is not None and num_relations is not None and has_counts:
        counts = read_counts(directory, num_entities, num_relations, problems)
    if problems or num_entities is None or num_relations is None:
        raise DataError(
            f"{directory}: not a graph in Parquet",
            problems,
            "triples need integer columns head, relation, tail; entities and relations an integer id "
            "(0, 1, 2, ... in order) and optionally a label and a name",
        )
    return KnowledgeGraph(
        name=name,
        num_entities=num_entities,
        num_relations=num_relations,
        splits=triples[""],
        entity_labels=entity_labels,
        relation_labels=relation_labels,
        train_counts=counts,
        entity_names=entity_names,
        relation_names=relation_names,
        negative_splits=triples[NEGATIVES],
    )


def _find_names(directory: Path, kind: str, problems: list[str]) -> tuple[int | None, Labels | None, Labels | None]:
    """The number of entities or relations, their labels and their names if they have any; None if unknown."""
    paths = (directory / f"{kind}.parquet", directory.parent / f"{kind}.parquet")
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        problems.append(f"no {kind}.parquet here or in the parent directory, so the number of {kind} is unknown")
        return None, None, None
    return read_names(path, problems)


def read_names(path: Path, problems: list[str]) -> tuple[int | None, Labels | None, Labels | None]:
    """The number of entities or relations in a file, their labels and their names; None for what it has not."""
    table = read_parquet(path, problems)
    columns = None if table is None else id_columns(path, table, ("id",), problems)
    if table is None or columns is None or not in_order(path, columns[0], problems):
        return None, None, None
    return len(columns[0]), _texts(path, table, "label", problems), _texts(path, table, "name", problems)


def _texts(path: Path, table: pa.Table, name: str, problems: list[str]) -> Labels | None:
    """A column of texts, if there is one."""
    count = table.column_names.count(name)
    if count > 1:
        problems.append(f"{path.name}: column {name!r} occurs {count} times")
    if count != 1:
        return None
    column = table.column(name)
    try:
        return as_labels(column)
    except pa.ArrowException:
        problems.append(f"{path.name}: column {name!r} holds {column.type}, expected text")
        return None


def _triples(path: Path, num_entities: int | None, num_relations: int | None, problems: list[str]) -> AnyInts | None:
    """The columns head, relation and tail as one array; or None, with every problem added to ``problems``.

    The file is read in batches, into int32 if the ids fit.
    """
    sizes = num_entities, num_relations
    narrow = all(size is not None and size <= 2**31 for size in sizes)
    with _reading(path, problems):
        file = _open(path)
        try:
            return _filled(file, np.int32 if narrow else np.int64, problems)
        except OverflowError:  # ids that are not in the graph
            return _filled(file, np.int64, problems)
    return None


def _filled(file: ParquetTable, kind: type, problems: list[str]) -> AnyInts | None:
    """The triples of a file as an array of a type.

    Raises:
        OverflowError: The type does not hold an id.
    """
    require_room(file.path, len(file) * len(TRIPLE) * np.dtype(kind).itemsize)
    wrong = {name: _column_problem(file.path, file.schema, name) for name in TRIPLE}
    nulls: dict[str, list[AnyInts]] = {name: [] for name in TRIPLE}
    triples: AnyInts = np.empty((len(file), len(TRIPLE)), dtype=kind)
    limits, row = np.iinfo(kind), 0
    for table in file.batches(_BATCH):
        for i, name in enumerate(TRIPLE):
            column = None if wrong[name] else table.column(name)
            if column is None or column.null_count:
                nulls[name] += [] if column is None else [np.flatnonzero(column.is_null().to_numpy()) + row]
                continue
            ids = _as_signed(column.to_numpy())
            if len(ids) and (ids.min() < limits.min or ids.max() > limits.max):
                raise OverflowError
            triples[row : row + len(ids), i] = ids
        row += len(table)
    wrong |= {name: _null_problem(file.path, name, np.concatenate(rows)) for name, rows in nulls.items() if rows}
    found = [problem for problem in wrong.values() if problem]
    problems += found
    return None if found else triples


def _columns(path: Path, names: tuple[str, ...], problems: list[str]) -> list[AnyInts] | None:
    table = read_parquet(path, problems)
    return None if table is None else id_columns(path, table, names, problems)


def read_parquet(path: Path, problems: list[str]) -> pa.Table | None:
    """The table in a Parquet file; or None, with the problem added to ``problems``."""
    with _reading(path, problems):
        return _open(path).read()
    return None


def _open(path: Path) -> ParquetTable:
    if not path.stat().st_size:
        raise DataError(f"{path}: empty file")
    return open_parquet(path)


@contextmanager
def _reading(path: Path, problems: list[str]) -> Iterator[None]:
    """A context that ends where a file cannot be read, with the problem added to ``problems``."""
    try:
        yield
        return
    except DataError as error:
        reason = "; ".join(error.problems) or error.title.removeprefix(f"{path}: ")
    except OSError as error:
        reason = str(error)
    empty = reason == "empty file"
    problems.append(f"{path.name}: {reason if empty else f'not a readable Parquet file ({reason})'}")


def id_columns(path: Path, table: pa.Table, names: tuple[str, ...], problems: list[str]) -> list[AnyInts] | None:
    """Integer columns by name; or None, with every problem added to ``problems``."""
    columns = [_integers(path, table, name, problems) for name in names]
    complete = [column for column in columns if column is not None]
    return complete if len(complete) == len(names) else None


def _integers(path: Path, table: pa.Table, name: str, problems: list[str]) -> AnyInts | None:
    if problem := _column_problem(path, table.schema, name):
        problems.append(problem)
        return None
    column = table.column(name)
    if column.null_count:
        problems.append(_null_problem(path, name, np.flatnonzero(column.is_null().to_numpy())))
        return None
    return _as_signed(column.to_numpy())


def _column_problem(path: Path, schema: pa.Schema, name: str) -> str | None:
    """Why a table has no column of integers of this name; None if it has."""
    if schema.names.count(name) != 1:
        return f"{path.name}: no single column {name!r}; columns: {', '.join(schema.names) or 'none'}"
    kind = schema.field(name).type
    return None if pa.types.is_integer(kind) else f"{path.name}: column {name!r} holds {kind}, expected whole numbers"


def _null_problem(path: Path, name: str, rows: AnyInts) -> str:
    listed = spans(rows.tolist(), most=10)
    return f"{path.name}: {len(rows):,} nulls in column {name!r}, rows {listed} (counted from 0)"


def _as_signed(values: AnyInts) -> AnyInts:
    # NumPy turns uint64 and int64 together into floats. Values beyond int64 become negative here and are refused.
    return values.astype(np.int64) if values.dtype == np.uint64 else values


def in_order(path: Path, ids: AnyInts, problems: list[str]) -> bool:
    """Whether ids are 0, 1, 2, ... in the order of the rows; if not, the problem is added to ``problems``."""
    rows = np.flatnonzero(ids != np.arange(len(ids)))
    if len(rows):
        row = int(rows[0])
        problems.append(
            f"{path.name}: ids must be 0, 1, 2, ... in order, but row {row} (counted from 0) has {ids[row]}"
        )
    return not len(rows)


def read_counts(directory: Path, num_entities: int, num_relations: int, problems: list[str]) -> TrainCounts | None:
    """Counts of the training triples; or None, with every problem added to ``problems``.

    Required are the degree of every entity (id, train_degree) and the counts of (entity, relation) pairs
    (entity, relation, train_count). Counts of the relations (id, train_count) are optional and must agree.
    """
    degrees = _columns(directory / DEGREES, ("id", "train_degree"), problems)
    pairs = _columns(directory / PAIRS, ("entity", "relation", "train_count"), problems)
    if degrees is None or pairs is None:
        return None
    ids, degree = degrees
    entity, relation, count = pairs
    wrong = id_problems(f"{PAIRS} entity", entity, num_entities)
    wrong += id_problems(f"{PAIRS} relation", relation, num_relations)
    in_order(directory / DEGREES, ids, wrong)
    if len(ids) != num_entities:
        wrong.append(f"{DEGREES}: {len(ids):,} rows for {num_entities:,} entities")
    if not wrong:
        counts = TrainCounts.from_pairs(degree, entity, relation, count, num_relations=num_relations)
        wrong = _contradictions(counts) + _total_problems(directory / RELATIONS, counts.num_triples)
    problems += wrong
    return None if wrong else counts


def _contradictions(counts: TrainCounts) -> list[str]:
    """Counts that no training triples could have."""
    of_pairs = counts.degree[counts.pair_keys // max(counts.num_relations, 1)]
    checks = {
        f"{DEGREES}: a negative degree": (counts.degree < 0).any(),
        f"{DEGREES}: the degrees add up to an odd number, but every triple adds two": counts.degree.sum() % 2,
        f"{PAIRS}: an (entity, relation) pair occurs twice": (np.diff(counts.pair_keys) == 0).any(),
        f"{PAIRS}: a count below 0 or above the degree of its entity": (
            (counts.pair_counts < 0) | (counts.pair_counts > of_pairs)
        ).any(),
    }
    return [problem for problem, wrong in checks.items() if wrong]


def _total_problems(path: Path, num_triples: int) -> list[str]:
    problems: list[str] = []
    columns = _columns(path, ("id", "train_count"), problems) if path.exists() else None
    if columns is not None and columns[1].sum() != num_triples:
        problems.append(f"{path.name}: {columns[1].sum():,} triples, but the degrees in {DEGREES} give {num_triples:,}")
    return problems
