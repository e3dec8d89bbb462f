import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import safe_open

from kgprobe.errors import DataError, UsageError
from kgprobe.predict.array_files import array_names, open_arrays, write_arrays

ARRAYS: dict[str, NDArray[Any]] = {
    "entity": np.arange(24, dtype=np.float32).reshape(6, 4) / 7,
    "ids": np.array([[1, 2, 3]], dtype=np.int64),
    "wide": np.array([[1e300], [-0.0]]),
    "narrow": np.array([1.5, 65504], dtype=np.float16),
    "none": np.empty((0, 3), dtype=np.float32),
    "number": np.array(7, dtype=np.int8),
}
HEADER = {"model": 'ä "quoted" text', "sizes": [1, None]}


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_what_is_written_is_read_again(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "deep" / f"model.{ending}"
    write_arrays(path, HEADER, ARRAYS)
    file = open_arrays(path)
    assert (file.path, json.loads(file.header or "")) == (path, HEADER)
    assert file.shapes == {name: (array.shape, array.dtype.name) for name, array in ARRAYS.items()}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(file.arrays[name].whole(), array, strict=name != "narrow")
    assert os.listdir(path.parent) == [path.name]


def test_other_libraries_read_what_is_written(tmp_path: Path) -> None:
    write_arrays(tmp_path / "m.npz", HEADER, ARRAYS)
    with np.load(tmp_path / "m.npz", allow_pickle=False) as loaded:
        assert json.loads(loaded["header"].item()) == HEADER
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(loaded[name], array, strict=True)
    write_arrays(tmp_path / "m.safetensors", HEADER, ARRAYS)
    with safe_open(tmp_path / "m.safetensors", framework="np") as opened:
        assert list(opened.metadata()) == ["kgprobe"]
        assert json.loads(opened.metadata()["kgprobe"]).items() >= HEADER.items()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(opened.get_tensor(name), array, strict=True)


def test_the_ending_says_the_format_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown format") as caught:
        write_arrays(tmp_path / "model.pt", {}, ARRAYS)
    assert caught.value.remedy == "let the name end in .npz or .safetensors"
    assert not list(tmp_path.iterdir())


def test_the_content_says_the_format_to_read(tmp_path: Path) -> None:
    write_arrays(tmp_path / "m.npz", HEADER, ARRAYS)
    (tmp_path / "m.npz").rename(tmp_path / "m.safetensors")
    assert set(open_arrays(tmp_path / "m.safetensors").arrays) == set(ARRAYS)


def test_a_header_that_is_no_single_text_stays_an_array(tmp_path: Path) -> None:
    for header in (np.array(["a", "b"]), np.array(3.0), np.array(b"bytes")):
        np.savez(tmp_path / "m.npz", header=header)
        file = open_arrays(tmp_path / "m.npz")
        assert file.header is None
        assert list(file.arrays) == ["header"]


def _write(path: Path, form: str) -> Path:
    arrays = {"entity": np.arange(400, dtype=np.float32).reshape(100, 4), "relation": np.ones((3, 4))}
    {
        "npz": lambda: np.savez(path, **arrays),
        "compressed": lambda: np.savez_compressed(path, **arrays),
        "npy": lambda: np.save(path, arrays["entity"]),
        "safetensors": lambda: write_arrays(path, {}, arrays),
    }[form]()
    return path


FORMS = {"npz": ".npz", "compressed": ".npz", "npy": ".npy", "safetensors": ".safetensors"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kept", [0, 5, 8, 9, 40, 0.3, 0.9, -1], ids=str)
def test_truncated_files(tmp_path: Path, form: str, kept: float) -> None:
    path = _write(tmp_path / f"m{FORMS[form]}", form)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if 0 < kept < 1 else int(kept)])
    with pytest.raises(DataError) as caught:
        open_arrays(path)
    assert str(path) in caught.value.title
    assert len(caught.value.problems) == 1
    assert array_names(path) == set()


@pytest.mark.parametrize("form", ["npz", "compressed"])
def test_numbers_that_were_changed_are_noticed_where_the_format_has_a_checksum(tmp_path: Path, form: str) -> None:
    path = tmp_path / "m.npz"
    {"npz": np.savez, "compressed": np.savez_compressed}[form](path, entity=np.random.default_rng(0).random((500, 400)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        list(open_arrays(path).arrays["entity"].blocks(block_bytes=1 << 16))
    with pytest.raises(DataError, match="cannot be read"):
        open_arrays(path).arrays["entity"].rows(np.array([0]))


def test_pickles_are_refused(tmp_path: Path) -> None:
    class Danger:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    plain, torch_file, objects = tmp_path / "m.npz", tmp_path / "m.pt", tmp_path / "o.npz"
    plain.write_bytes(pickle.dumps(Danger()))
    torch.save({"entity": torch.ones(2), "danger": Danger()}, torch_file)
    np.savez(objects, entity=np.array([Danger()], dtype=object))
    for path, said in ((plain, "it is a pickle"), (torch_file, "data.pkl")):
        with pytest.raises(DataError, match="not a file of arrays") as caught:
            open_arrays(path)
        assert said in caught.value.problems[0]
        assert "numpy.savez" in caught.value.remedy
        assert "safetensors" in caught.value.remedy
    assert open_arrays(objects).arrays["entity"].kind == "object"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"entity,1.0,2.0\n", b"\x89PNG\r\n\x1a\n" + bytes(30), b"PK\x03\x04" + bytes(40), b"\x93NUMPY\x09\x00"],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.npz"
    path.write_bytes(content)
    with pytest.raises(DataError):
        open_arrays(path)


def test_archives_of_something_else_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("readme.txt", "no arrays")
        archive.writestr("entity.npy", "no array")
    with pytest.raises(DataError) as caught:
        open_arrays(tmp_path / "m.npz")
    assert caught.value.problems == ["it contains readme.txt, which is not an array"]


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "none.npz", tmp_path):
        with pytest.raises(DataError, match="cannot be read") as caught:
            open_arrays(path)
        assert len(caught.value.problems) == 1
        assert array_names(path) == set()
