import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from kgprobe.predict.sources.files.safetensors_files import open_safetensors, write_safetensors

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
    arrays, text = open_safetensors(tmp_path / "m.safetensors")
    assert text == "text"
    (table,) = (array for array in arrays if array.name == "table")
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
    write_safetensors(tmp_path / "m.safetensors", "", arrays)
    for name, tensor in load_file(tmp_path / "m.safetensors").items():
        np.testing.assert_array_equal(tensor.numpy(), arrays[name])
    offsets = {array.name: array.offset for array in open_safetensors(tmp_path / "m.safetensors")[0]}
    assert all(offset % arrays[name].dtype.itemsize == 0 for name, offset in offsets.items() if offset is not None)


def test_kinds_that_numpy_does_not_have_are_named(tmp_path: Path) -> None:
    save_file({"table": torch.ones(4).to(torch.float8_e4m3fn)}, tmp_path / "m.safetensors")
    arrays, text = open_safetensors(tmp_path / "m.safetensors")
    assert (arrays[0].kind, text) == ("F8_E4M3", None)


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ([1], "not a JSON object"),
        ({"table": 3}, "no sense at 'table'"),
        ({"table": {"dtype": "F32", "shape": [2]}}, "no sense at 'table'"),
        ({"table": FLOAT | {"shape": [-2]}}, "no sense at 'table'"),
        ({"table": FLOAT | {"shape": [2.0]}}, "no sense at 'table'"),
        ({"table": FLOAT | {"shape": "2"}}, "no sense at 'table'"),
        ({"table": FLOAT | {"dtype": 32}}, "no sense at 'table'"),
        ({"table": FLOAT | {"data_offsets": [0]}}, "no sense at 'table'"),
        ({"table": FLOAT | {"data_offsets": [8, 0]}}, "which is not the size of float32"),
        ({"table": FLOAT | {"shape": [3]}}, r"8 bytes, which is not the size of float32 of shape \(3,\)"),
        ({"table": FLOAT | {"data_offsets": [8, 16]}}, "truncated: table ends at byte"),
        (b'{"table": ', "Expecting value"),
        (b"{\xff}", "codec can't decode"),
    ],
)
def test_damaged_tables_of_contents(tmp_path: Path, contents: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        open_safetensors(_write(tmp_path / "m.safetensors", contents))


def test_a_table_of_contents_longer_than_the_file(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.safetensors", {"table": FLOAT}, length=1 << 60)
    with pytest.raises(ValueError, match="truncated: the table of contents alone"):
        open_safetensors(path)


def test_metadata_that_is_none(tmp_path: Path) -> None:
    for metadata in (None, [], {"kgprobe": 3}):
        path = _write(tmp_path / "m.safetensors", {"__metadata__": metadata, "table": FLOAT})
        arrays, text = open_safetensors(path)
        assert ([array.name for array in arrays], text) == (["table"], None)
