"""The published family tree: training facts at a density, and the true answers of some tail queries."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError, naming, spans
from kgprobe.graph import load_graph
from kgprobe.graph.check import id_problems
from kgprobe.graph.readers.columns import id_columns, read_parquet
from kgprobe.graph.sorted_keys import Ints
from kgprobe.openworld.world import OpenWorld

if TYPE_CHECKING:
    import pyarrow as pa

QUERIES = "test_queries.parquet"
ANSWERS = "test_answers.parquet"
_HOW = (
    f"{QUERIES} needs whole numbers query, head, relation; {ANSWERS} whole numbers query, tail and booleans "
    "in_sparse, in_sparse_correlated"
)


def is_published(directory: Path) -> bool:
    """Whether a directory has true answers of tail queries as published."""
    return (directory / ANSWERS).exists()


def read_published(directory: str | os.PathLike[str], correlated: bool = False) -> OpenWorld:
    """Read a density of the published family tree.

    Args:
        directory: It has train, test_queries and test_answers.parquet; entities and relations.parquet lie beside them
            or one directory above.
        correlated: Whether the answers that a trained model ranked lowest are missing, instead of random ones.

    Raises:
        DataError: The files are not those of a world; all that is wrong is listed.
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
        raise DataError(f"{folder}: not a world as published", problems, _HOW)
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
            settings={"source": "published", "correlated": correlated}
            | ({"density": int(density[1]) / 100, "train_share": 0.7} if density else {}),
        )


def _columns(path: Path, names: tuple[str, ...], problems: list[str]) -> Ints | None:
    table = read_parquet(path, problems)
    columns = None if table is None else id_columns(path, table, names, problems)
    return None if columns is None else np.column_stack(columns).astype(np.int64)


def _flags(path: Path, name: str, problems: list[str]) -> NDArray[np.bool_] | None:
    import pyarrow as pa

    table = read_parquet(path, [])  # what is wrong with the file is said by its other columns
    if table is None:
        return None
    column: pa.ChunkedArray | None = table.column(name) if name in table.column_names else None
    if column is None or not pa.types.is_boolean(column.type) or column.null_count:
        found = "is not there" if column is None else f"holds {column.type} with {column.null_count:,} nulls"
        problems.append(f"{path.name}: column {name!r} {found}, expected true or false in every row")
        return None
    flags: NDArray[np.bool_] = column.to_numpy()
    return flags


def _mismatches(queries: Ints, answers: Ints, known: NDArray[np.bool_], flag: str) -> list[str]:
    """What does not fit between queries and answers."""
    numbers = queries[:, 0]
    problems = (
        [f"{QUERIES}: the numbers of the queries are not distinct"] if len(np.unique(numbers)) < len(numbers) else []
    )
    strange = np.flatnonzero(~np.isin(answers[:, 0], numbers))
    if len(strange):
        problems.append(f"{ANSWERS}: rows {spans(strange.tolist(), most=10)} (counted from 0) are of no query")
    without = np.setdiff1d(numbers, answers[known, 0])
    if len(without):
        problems.append(f"{ANSWERS}: by {flag}, queries {spans(without.tolist(), most=10)} have no known answer")
    return problems
