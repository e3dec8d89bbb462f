import io
import json
import resource
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib import format as npy
from safetensors.torch import load_file, save_file

from kgprobe.errors import DataError
from kgprobe.predict.array_files import open_arrays, write_arrays
from kgprobe.predict.stored_arrays import StoredArray, reading


def test_arrays_that_are_not_compressed_have_a_place_in_the_file(tmp_path: Path) -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.savez(tmp_path / "m.npz", a=np.arange(5), **{"a name with spaces, ä": table})
    np.savez_compressed(tmp_path / "c.npz", table=table)
    np.save(tmp_path / "m.npy", table)
    _, named = open_arrays(tmp_path / "m.npz").arrays.values()
    assert named.name == "a name with spaces, ä"
    for array in (named, _open(tmp_path / "m.npy")):
        assert array.offset is not None
        assert array.path.read_bytes()[array.offset :][: table.nbytes] == table.tobytes()
    compressed = _open(tmp_path / "c.npz", "table")
    assert compressed.offset is None


def test_members_with_extra_fields_are_found(tmp_path: Path) -> None:
    """Zip archives may pad the header that precedes a member."""
    table = np.arange(6.0)
    content = io.BytesIO()
    np.save(content, table)
    member = zipfile.ZipInfo("table.npy")
    member.extra = b"\xfe\xca\x05\x00hello"
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr(member, content.getvalue())
    array = _open(tmp_path / "m.npz", "table")
    np.testing.assert_array_equal(array.rows(np.arange(6)), table)


def test_versions_of_the_format(tmp_path: Path) -> None:
    path = tmp_path / "m.npy"
    with path.open("wb") as file:
        npy.write_array(file, np.arange(3.0), version=(2, 0))
    np.testing.assert_array_equal(_open(path).whole(), np.arange(3.0))
    with path.open("wb") as file:
        npy.write_array(file, np.arange(3.0), version=(3, 0))
    with pytest.raises(DataError, match=r"version \(3, 0\)"):
        _open(path)


def test_an_array_shorter_than_its_header_says(tmp_path: Path) -> None:
    path = tmp_path / "m.npy"
    np.save(path, np.arange(100.0))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match="truncated: an array of 928 bytes has only 920"):
        _open(path)
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.write(path, "table.npy")
    with pytest.raises(DataError, match="truncated"):
        open_arrays(tmp_path / "m.npz")


def test_kinds(tmp_path: Path) -> None:
    values = {
        "u": np.array("text"),
        "o": np.array([None]),
        "c": np.ones(2, dtype=np.complex64),
        "b": np.ones(1, dtype=bool),
    }
    np.savez(tmp_path / "m.npz", **values)
    assert {name: array.kind for name, array in open_arrays(tmp_path / "m.npz").arrays.items()} == {
        "u": "str128",
        "o": "object",
        "c": "complex64",
        "b": "bool",
    }


def test_objects_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays"):
        write_arrays(tmp_path / "m.npz", {}, {"entity": np.array([None])})


FLOAT = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def _write(path: Path, contents: Any, data: bytes = bytes(8), length: int | None = None) -> Path:
    text = contents if isinstance(contents, bytes) else json.dumps(contents).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize(
    "kind", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
def test_what_the_library_writes_is_read(tmp_path: Path, kind: str) -> None:
    tensor = torch.arange(12).reshape(3, 4).to(getattr(torch, kind))
    save_file(
        {"table": tensor, "other": torch.ones(3)}, tmp_path / "m.safetensors", {"kgprobe": "text", "format": "pt"}
    )
    file = open_arrays(tmp_path / "m.safetensors")
    assert file.header == "text"
    table = file.arrays["table"]
    assert (table.kind, table.shape) == (kind, (3, 4))
    expected = tensor.to(torch.float32) if kind in ("bfloat16", "float16") else tensor
    np.testing.assert_array_equal(table.whole(), expected.numpy(), strict=True)


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    arrays = {
        "odd": np.ones(3, dtype=np.int8),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big": np.arange(4, dtype=">f4"),
        "every second": np.arange(10)[::2],
    }
    write_arrays(tmp_path / "m.safetensors", {}, arrays)
    for name, tensor in load_file(tmp_path / "m.safetensors").items():
        np.testing.assert_array_equal(tensor.numpy(), arrays[name])
    offsets = {name: array.offset for name, array in open_arrays(tmp_path / "m.safetensors").arrays.items()}
    assert all(offset % arrays[name].dtype.itemsize == 0 for name, offset in offsets.items() if offset is not None)


def test_kinds_that_numpy_does_not_have_are_named(tmp_path: Path) -> None:
    save_file({"table": torch.ones(4).to(torch.float8_e4m3fn)}, tmp_path / "m.safetensors")
    file = open_arrays(tmp_path / "m.safetensors")
    assert (file.arrays["table"].kind, file.header) == ("F8_E4M3", None)


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ([1], "it begins with"),
        ({"table": 3}, "invalid entry 'table'"),
        ({"table": {"dtype": "F32", "shape": [2]}}, "invalid entry 'table'"),
        ({"table": FLOAT | {"shape": [-2]}}, "invalid entry 'table'"),
        ({"table": FLOAT | {"shape": [2.0]}}, "invalid entry 'table'"),
        ({"table": FLOAT | {"shape": "2"}}, "invalid entry 'table'"),
        ({"table": FLOAT | {"dtype": 32}}, "invalid entry 'table'"),
        ({"table": FLOAT | {"data_offsets": [0]}}, "invalid entry 'table'"),
        ({"table": FLOAT | {"data_offsets": [8, 0]}}, "which is not the size of float32"),
        ({"table": FLOAT | {"shape": [3]}}, r"8 bytes, which is not the size of float32 of shape \(3,\)"),
        ({"table": FLOAT | {"data_offsets": [8, 16]}}, "truncated: table ends at byte"),
        (b'{"table": ', "Expecting value"),
        (b"{\xff}", "codec can't decode"),
    ],
)
def test_damaged_tables_of_contents(tmp_path: Path, contents: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        open_arrays(_write(tmp_path / "m.safetensors", contents))


def test_a_table_of_contents_longer_than_the_file(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.safetensors", {"table": FLOAT}, length=1 << 60)
    with pytest.raises(DataError, match="truncated: the table of contents alone"):
        open_arrays(path)


def test_metadata_that_is_none(tmp_path: Path) -> None:
    for metadata in (None, [], {"kgprobe": 3}):
        path = _write(tmp_path / "m.safetensors", {"__metadata__": metadata, "table": FLOAT})
        file = open_arrays(path)
        assert (list(file.arrays), file.header) == (["table"], None)


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
