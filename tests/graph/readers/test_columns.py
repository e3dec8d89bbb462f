from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kgprobe.graph.readers.columns import id_columns, in_order, read_parquet

PATH = Path("x.parquet")


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    problems: list[str] = []
    assert read_parquet(tmp_path / "x.parquet", problems) is None
    assert problems[0].startswith("x.parquet: not a readable Parquet file")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()])
def test_whole_numbers_of_any_width(kind: pa.DataType) -> None:
    problems: list[str] = []
    columns = id_columns(PATH, pa.table({"a": pa.array([3, 1], kind), "b": ["x", "y"]}), ("a",), problems)
    assert columns is not None
    assert columns[0].tolist() == [3, 1]
    assert columns[0].dtype != np.uint64


def test_all_columns_are_judged() -> None:
    table = pa.table([pa.array([0.5]), pa.array([None], "int32"), [1], [2]], names=["a", "b", "c", "c"])
    problems: list[str] = []
    assert id_columns(PATH, table, ("a", "b", "c"), problems) is None
    assert problems == [
        "x.parquet: column 'a' holds double, expected whole numbers",
        "x.parquet: 1 nulls in column 'b', rows 0 (counted from 0)",
        "x.parquet: no single column 'c'; columns: a, b, c, c",
    ]


def test_order_of_ids() -> None:
    problems: list[str] = []
    assert in_order(PATH, np.array([0, 1]), problems)
    assert not problems
    assert not in_order(PATH, np.array([0, 2, 1]), problems)
    assert problems == ["x.parquet: ids must be 0, 1, 2, ... in order, but row 1 (counted from 0) has 2"]
