"""Read and write open worlds as folders; read the published family-tree worlds."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, id_problems
from kgprobe.errors import DataError, naming, shown, spans
from kgprobe.graph import SPLITS, load_graph
from kgprobe.graph.load import find_reader, places
from kgprobe.graph.parquet_graph import id_columns, read_parquet
from kgprobe.json_files import field_problems, read_json, write_json
from kgprobe.openworld.world import PARTS, OpenWorld
from kgprobe.parquet_files import write_parquet

if TYPE_CHECKING:
    import pyarrow as pa


ABOUT = "openworld.json"
MISSING = "missing.parquet"
QUERIES = "test_queries.parquet"
ANSWERS = "test_answers.parquet"
_SCHEMA = 2
_UNHASHED_SCHEMA = 1
_FIELDS = {"name": str, "facts": dict.fromkeys(PARTS, int), "settings": dict}
_MAKE = "make a world with: kgprobe openworld split GRAPH -o FOLDER"
_PUBLISHED_COLUMNS = (
    f"{QUERIES} needs integer columns query, head, relation; {ANSWERS} integer columns query, tail and boolean columns "
    "in_sparse, in_sparse_correlated"
)


def read_published(directory: str | os.PathLike[str], correlated: bool = False) -> OpenWorld:
    """Read one density of the published family-tree worlds.

    Args:
        directory: Contains train, test_queries and test_answers.parquet; entities and relations.parquet are beside them
            or one directory above.
        correlated: Whether the missing answers are those that a trained model ranked lowest, instead of random ones.

    Raises:
        DataError: The files are not those of a world; the message lists every problem.
    """
    folder = Path(directory)
    graph = load_graph(folder)
    problems: list[str] = []
    queries = _columns(folder / QUERIES, ("query", "head", "relation"), problems)
    answers = _columns(folder / ANSWERS, ("query", "tail"), problems)
    flag = "in_sparse_correlated" if correlated else "in_sparse"
    known = _flags(folder / ANSWERS, flag, problems)
    if queries is not None:
        problems += id_problems(f"{QUERIES} head", queries[:, 1], graph.num_entities)
        problems += id_problems(f"{QUERIES} relation", queries[:, 2], graph.num_relations)
    if queries is not None and answers is not None and known is not None and not problems:
        problems += id_problems(f"{ANSWERS} tail", answers[:, 1], graph.num_entities)
        problems += _mismatches(queries, answers, known, flag)
    if problems or queries is None or answers is None or known is None:
        raise DataError(f"{folder}: not a world as published", problems, _PUBLISHED_COLUMNS)
    asked = queries[np.argsort(queries[:, 0])]
    hard = np.column_stack([asked[np.searchsorted(asked[:, 0], answers[:, 0]), 1:], answers[:, 1]])
    path = Path(os.path.abspath(folder))
    density = re.fullmatch(r"density_(\d+)", path.name)
    with naming(folder):
        return OpenWorld(
            f"{path.parent.name}-{path.name}" + ("-correlated" if correlated else ""),
            graph.num_entities,
            graph.num_relations,
            train=graph.triples("train"),
            known=hard[known],
            missing=hard[~known],
            queries=queries[:, 1:],
            entity_labels=graph.entity_labels,
            relation_labels=graph.relation_labels,
            entity_names=graph.entity_names,
            relation_names=graph.relation_names,
            settings={"source": "published", "correlated": correlated}
            | ({"density": int(density[1]) / 100, "train_share": 0.7} if density else {}),
        )


def _columns(path: Path, names: tuple[str, ...], problems: list[str]) -> AnyInts | None:
    table = read_parquet(path, problems)
    columns = None if table is None else id_columns(path, table, names, problems)
    return None if columns is None else np.column_stack(columns).astype(np.int64)


def _flags(path: Path, name: str, problems: list[str]) -> NDArray[np.bool_] | None:
    import pyarrow as pa

    table = read_parquet(path, [])  # reading the other columns reports an unreadable file
    if table is None:
        return None
    times = table.column_names.count(name)
    column: pa.ChunkedArray | None = table.column(name) if times == 1 else None
    if column is None or not pa.types.is_boolean(column.type) or column.null_count:
        absent = f"occurs {times} times" if times else "is not there"
        found = absent if column is None else f"is {column.type} with {column.null_count:,} nulls"
        problems.append(f"{path.name}: column {name!r} {found}, expected a boolean in every row")
        return None
    return np.asarray(column.to_numpy())


def _mismatches(queries: AnyInts, answers: AnyInts, known: NDArray[np.bool_], flag: str) -> list[str]:
    """Inconsistencies between queries and answers."""
    numbers = queries[:, 0]
    distinct = len(np.unique(numbers)) == len(numbers)
    problems = [] if distinct else [f"{QUERIES}: the numbers of the queries are not distinct"]
    foreign = np.flatnonzero(~np.isin(answers[:, 0], numbers))
    if len(foreign):
        problems.append(f"{ANSWERS}: rows {spans(foreign.tolist(), most=10)} (counted from 0) are of no query")
    without = np.setdiff1d(numbers, answers[known, 0])
    if len(without):
        problems.append(f"{ANSWERS}: by {flag}, queries {spans(without.tolist(), most=10)} have no known answer")
    return problems


def write_world(world: OpenWorld, folder: str | os.PathLike[str]) -> None:
    """Write a world to a folder; `load_graph` reads that folder as the graph of the open world.

    Raises:
        DataError: The folder holds another graph, or cannot be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "tiny"
        >>> world = OpenWorld("tiny", 4, 1, train=[[0, 0, 1]], known=[[0, 0, 2]], missing=[[0, 0, 3]])
        >>> write_world(world, folder)
        >>> load_graph(folder).triples("test").tolist(), read_world(folder).missing.tolist()
        ([[0, 0, 2]], [[0, 0, 3]])
    """
    import pyarrow as pa

    target = Path(folder)
    require_free(target)
    about: dict[str, Any] = {
        "schema": _SCHEMA,
        "name": world.name,
        "facts": world.sizes,
        "settings": dict(world.settings),
        "queries": None if world.queries is None else world.queries.tolist(),
    }
    # First, so that a partly written folder is recognised by its numbers of triples.
    write_json(target / ABOUT, about)
    for split in SPLITS:
        (target / f"{split}.parquet").unlink(missing_ok=True)
    world.graph.write(target)
    columns = dict(zip(("head", "relation", "tail"), world.missing.T.copy(), strict=True))
    write_parquet(pa.table(columns), target / MISSING)


def require_free(folder: Path) -> None:
    """Raise a DataError if the folder holds a graph that is not a world."""
    if folder.is_dir() and not (folder / ABOUT).exists() and find_reader(folder) is not None:
        problem = "it holds a graph that would be overwritten"
        raise DataError(f"{folder}: cannot hold a world", [problem], "choose an empty folder")


def read_world(source: str | os.PathLike[str], correlated: bool = False) -> OpenWorld:
    """Read a world written by `write_world`, or one density of the published family-tree worlds.

    Args:
        source: A folder, or its name, looked up as `load_graph` looks up graphs.
        correlated: For published worlds, the variant whose missing answers are those that a model ranked lowest.

    Raises:
        DataError: There is no world, or it is invalid; the message lists every problem.
    """
    try:
        tried = places(source)
        folder = next((place for place in tried if place.is_dir()), None)
        if folder is None:
            raise DataError(f"{source}: no such world", [f"no directory {place}" for place in tried], _MAKE)
        if (folder / ANSWERS).exists():
            return read_published(folder, correlated)
        if correlated:
            raise DataError(f"{source}: only published worlds have a correlated variant", remedy=_MAKE)
        return _read(folder)
    except OSError as error:  # missing permissions, or an invalid file name
        raise DataError(f"{source}: cannot be read", [str(error)], "give a folder that you may read") from None


def _read(folder: Path) -> OpenWorld:
    problems: list[str] = []
    about = _read_about(folder / ABOUT, problems)
    if (folder / MISSING).exists():
        missing = _columns(folder / MISSING, ("head", "relation", "tail"), problems)
    else:
        problems.append(f"{MISSING} is not there")
        missing = None
    if about is None or missing is None:
        raise DataError(f"{folder}: not a world", problems, _MAKE)
    graph = load_graph(folder)
    splits = {"train": "train", "valid": "valid", "known": "test"}
    parts = {part: graph.triples(split) for part, split in splits.items()} | {"missing": missing}
    problems = [
        f"{part}: {len(triples):,} triples, but {ABOUT} records {about['facts'][part]:,}"
        for part, triples in parts.items()
        if len(triples) != about["facts"][part]
    ]
    if problems:
        raise DataError(f"{folder}: the files of this world do not go together", problems, "write the world again")
    with naming(folder):
        return OpenWorld(
            about["name"],
            graph.num_entities,
            graph.num_relations,
            **parts,
            queries=about.get("queries"),
            entity_labels=graph.entity_labels,
            relation_labels=graph.relation_labels,
            entity_names=graph.entity_names,
            relation_names=graph.relation_names,
            settings=about["settings"],
        )


def _read_about(path: Path, problems: list[str]) -> dict[str, Any] | None:
    if not path.exists():
        problems.append(f"{path.name} is not there")
        return None
    try:
        about = read_json(path, {"schema": int}, hashless=lambda about: about.get("schema") == _UNHASHED_SCHEMA)
    except DataError as error:
        problems += [f"{path.name}: {problem}" for problem in error.problems]
        return None
    if about["schema"] > _SCHEMA:
        problems.append(f"{path.name} was written by a newer kgprobe (schema {about['schema']})")
        return None
    problems += [f"{path.name}: {problem}" for problem in field_problems(about, _FIELDS)]
    queries = about.get("queries")
    if queries is not None and not _are_queries(queries):
        problems.append(f"{path.name}: queries is {shown(queries)}, and must be a list of pairs of ids")
    return about if not problems else None


def _are_queries(value: Any) -> bool:
    pairs = isinstance(value, list) and all(isinstance(query, list) and len(query) == 2 for query in value)
    return pairs and all(type(number) is int and 0 <= number < 1 << 63 for query in value for number in query)
