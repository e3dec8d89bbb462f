"""Columns of Parquet files, with everything that is wrong with them collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgprobe.errors import spans

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from kgprobe.graph.sorted_keys import Ints


def read_parquet(path: Path, problems: list[str]) -> pa.Table | None:
    """The table in a Parquet file; or None, with what is wrong added to ``problems``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if not path.stat().st_size:
            problems.append(f"{path.name}: empty file")
            return None
        with pq.ParquetFile(path) as file:
            return file.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        problems.append(f"{path.name}: not a readable Parquet file ({first[:150]})")
        return None


def id_columns(path: Path, table: pa.Table, names: tuple[str, ...], problems: list[str]) -> list[Ints] | None:
    """Integer columns by name; or None, with all that is wrong added to ``problems``."""
    found = [_whole_numbers(path, table, name, problems) for name in names]
    complete = [column for column in found if column is not None]
    return complete if len(complete) == len(names) else None


def _whole_numbers(path: Path, table: pa.Table, name: str, problems: list[str]) -> Ints | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if table.column_names.count(name) != 1:
        there = ", ".join(table.column_names) or "none"
        problems.append(f"{path.name}: no single column {name!r}; columns: {there}")
        return None
    column = table.column(name)
    if not pa.types.is_integer(column.type):
        problems.append(f"{path.name}: column {name!r} holds {column.type}, expected whole numbers")
        return None
    if column.null_count:
        rows = np.flatnonzero(pc.is_null(column).to_numpy())
        listed = spans(rows.tolist(), most=10)
        problems.append(f"{path.name}: {len(rows):,} nulls in column {name!r}, rows {listed} (counted from 0)")
        return None
    values: Ints = column.to_numpy()
    # Beside int64, NumPy would make floats of uint64. What int64 cannot hold turns negative, and is refused.
    return values.astype(np.int64) if values.dtype == np.uint64 else values


def in_order(path: Path, ids: Ints, problems: list[str]) -> bool:
    """Whether ids are 0, 1, 2, ... in the order of the rows; if not, that is added to ``problems``."""
    rows = np.flatnonzero(ids != np.arange(len(ids)))
    if len(rows):
        row = int(rows[0])
        problems.append(
            f"{path.name}: ids must be 0, 1, 2, ... in order, but row {row} (counted from 0) has {ids[row]}"
        )
    return not len(rows)
