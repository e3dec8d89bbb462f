import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kgprobe.predict.sources.arrays import open_arrays
from kgprobe.predict.sources.files import stored
from kgprobe.predict.sources.files.stored import StoredArray
from kgprobe.predict.sources.files.tables import read_table
from kgprobe.predict.sources.interactions import neighbours, unit_circle


def _stored(folder: Path, values: NDArray[Any]) -> StoredArray:
    np.savez(folder / "m.npz", table=values)
    return open_arrays(folder / "m.npz").arrays["table"]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_table_is_rounded_to_float32(tmp_path: Path, kind: type[Any]) -> None:
    values = np.random.default_rng(0).normal(size=(9, 4)).astype(kind)
    problems: list[str] = []
    table = read_table(_stored(tmp_path, values), problems)
    np.testing.assert_array_equal(table, values.astype(np.float32), strict=True)
    assert problems == []


def test_order_layout_and_spare_columns(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    ids = np.array([2, 0, 1])
    table = read_table(_stored(tmp_path, values), [], ids=ids, arrange=neighbours, spare=2)
    assert table.tolist() == [[4, 6, 5, 7, 0, 0], [8, 10, 9, 11, 0, 0], [0, 2, 1, 3, 0, 0]]
    assert read_table(_stored(tmp_path, values[:, :1]), [], arrange=unit_circle).shape == (3, 2)
    cube = np.arange(24.0).reshape(2, 3, 4)
    assert read_table(_stored(tmp_path, cube), [], ids=np.array([1, 0])).tolist() == cube[::-1].tolist()


def test_phases_keep_their_precision_until_they_are_angles(tmp_path: Path) -> None:
    phases = np.array([[1e6 + 1 / 3]])
    (turned,) = read_table(_stored(tmp_path, phases), [], arrange=unit_circle).tolist()
    assert turned == pytest.approx([np.cos(1e6 + 1 / 3), np.sin(1e6 + 1 / 3)], abs=1e-7)


def test_rows_that_are_not_finite_are_named_as_they_are_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored.StoredArray.blocks, "__defaults__", (32,))
    values = np.ones((9, 2))
    values[2, 1], values[5, 0], values[6, 0], values[8, 1] = np.nan, np.inf, -np.inf, 1e39
    problems: list[str] = []
    read_table(_stored(tmp_path, values), problems, ids=np.arange(9)[::-1])
    assert problems == [
        "table: 4 rows hold NaN, infinity or what float32 cannot hold: 2, 5-6, 8 (counted from 0)",
    ]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "compressed"])
def test_no_more_memory_than_the_table_and_a_little(tmp_path: Path, save: Any) -> None:
    values = np.repeat(np.arange(1 << 10), 1 << 13).reshape(-1, 8) + np.arange(8.0)
    save(tmp_path / "m.npz", table=values)
    array = open_arrays(tmp_path / "m.npz").arrays["table"]
    ids = np.random.default_rng(1).permutation(len(values))
    tracemalloc.start()
    table = read_table(array, [], ids=ids, arrange=neighbours)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(table[ids[:100]], neighbours(values[:100]))
    assert peak < table.nbytes + (48 << 20) < table.nbytes + values.nbytes
