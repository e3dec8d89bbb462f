import resource
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kgprobe.errors import DataError
from kgprobe.predict.sources.arrays import open_arrays
from kgprobe.predict.sources.files.stored import StoredArray, reading


def _open(path: Path, name: str | None = None) -> StoredArray:
    return open_arrays(path).arrays[name or path.name]


TABLE = np.random.default_rng(0).normal(size=(50, 3))


@pytest.fixture(params=["npz", "compressed", "npy", "columns", "compressed columns", "big-endian", "safetensors"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> StoredArray:
    """The same table in every way in which it can be stored."""
    archive, single, tensors = (tmp_path / f"m.{ending}" for ending in ("npz", "npy", "safetensors"))
    np.savez(archive, first=np.ones(5, dtype=np.int8), table=TABLE)
    np.savez_compressed(tmp_path / "compressed.npz", table=TABLE)
    np.savez_compressed(tmp_path / "columns.npz", table=np.asfortranarray(TABLE))
    np.save(single, TABLE)
    np.save(tmp_path / "columns.npy", np.asfortranarray(TABLE))
    np.save(tmp_path / "big.npy", TABLE.astype(">f8"))
    save_file({"first": torch.ones(5, dtype=torch.int8), "table": torch.from_numpy(TABLE)}, tensors)
    return {
        "npz": lambda: _open(archive, "table"),
        "compressed": lambda: _open(tmp_path / "compressed.npz", "table"),
        "npy": lambda: _open(single),
        "columns": lambda: _open(tmp_path / "columns.npy"),
        "compressed columns": lambda: _open(tmp_path / "columns.npz", "table"),
        "big-endian": lambda: _open(tmp_path / "big.npy"),
        "safetensors": lambda: _open(tensors, "table"),
    }[request.param]()


def test_blocks_rows_and_the_whole_are_the_same_numbers(stored: StoredArray) -> None:
    assert (stored.shape, stored.kind, stored.nbytes) == ((50, 3), "float64", 1200)
    np.testing.assert_array_equal(stored.whole(), TABLE)
    wanted = np.array([7, 0, 7, 49])
    for _ in range(2):
        np.testing.assert_array_equal(stored.rows(wanted), TABLE[wanted])
    assert stored.rows(np.empty(0, dtype=np.int64)).shape == (0, 3)
    for size in (1, 24, 100, 1 << 20):
        parts = list(stored.blocks(block_bytes=size))
        assert [part.start for part, _ in parts] == list(range(0, 50, max(1, size // 24)))
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in parts]), TABLE)
        assert all(rows.dtype == np.float64 for _, rows in parts)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_numbers_of_16_bits_are_widened_exactly(tmp_path: Path, kind: str) -> None:
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(getattr(torch, kind)).reshape(256, 256)
    save_file({"table": every}, tmp_path / "m.safetensors")
    table = _open(tmp_path / "m.safetensors", "table")
    expected = every.to(torch.float32).numpy()
    assert table.kind == kind
    np.testing.assert_array_equal(table.whole(), expected, strict=True)
    np.testing.assert_array_equal(table.rows(np.array([255, 3])), expected[[255, 3]], strict=True)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "compressed"])
def test_blocks_take_little_memory(tmp_path: Path, save: object) -> None:
    table = np.repeat(np.arange(1 << 10, dtype=np.float32), 1 << 13).reshape(-1, 8)
    save(tmp_path / "m.npz", table=table)  # type: ignore[operator]
    stored = _open(tmp_path / "m.npz", "table")
    tracemalloc.start()
    for part, rows in stored.blocks(block_bytes=1 << 20):
        assert (rows == table[part]).all()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20 < stored.nbytes


@pytest.mark.skipif(sys.platform != "linux", reason="how much memory is resident is read from /proc")
def test_rows_that_were_read_do_not_stay_in_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.ones((1 << 10, 1 << 14), dtype=np.float32))
    stored = _open(tmp_path / "m.npy")

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize()

    before = resident()
    total = sum(float(stored.rows(np.arange(start, start + 16)).sum()) for start in range(0, 1 << 10, 16))
    assert total == 1 << 24
    assert resident() - before < stored.nbytes / 2


def test_a_file_that_shrinks_after_it_was_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", TABLE)
    stored = _open(tmp_path / "m.npy")
    (tmp_path / "m.npy").write_bytes((tmp_path / "m.npy").read_bytes()[:-1])
    with pytest.raises(DataError) as caught:
        stored.whole()
    assert caught.value.problems == ["the file ends before its last number"]


def test_an_error_of_reading_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"m\.npz: cannot be read") as caught, reading(tmp_path / "m.npz"):
        raise EOFError
    assert caught.value.problems == ["EOFError"]
