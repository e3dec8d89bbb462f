import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from kgprobe.predict.sources.files.numpy_files import open_npy, open_npz, write_npz


def test_arrays_that_are_not_compressed_have_a_place_in_the_file(tmp_path: Path) -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.savez(tmp_path / "m.npz", a=np.arange(5), **{"a name with spaces, ä": table})
    np.savez_compressed(tmp_path / "c.npz", table=table)
    np.save(tmp_path / "m.npy", table)
    _, named = open_npz(tmp_path / "m.npz")
    assert named.name == "a name with spaces, ä"
    for array in (named, open_npy(tmp_path / "m.npy")):
        assert array.offset is not None
        assert array.path.read_bytes()[array.offset :][: table.nbytes] == table.tobytes()
    (compressed,) = open_npz(tmp_path / "c.npz")
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
    (array,) = open_npz(tmp_path / "m.npz")
    np.testing.assert_array_equal(array.rows(np.arange(6)), table)


def test_versions_of_the_format(tmp_path: Path) -> None:
    path = tmp_path / "m.npy"
    with path.open("wb") as file:
        npy.write_array(file, np.arange(3.0), version=(2, 0))
    np.testing.assert_array_equal(open_npy(path).whole(), np.arange(3.0))
    with path.open("wb") as file:
        npy.write_array(file, np.arange(3.0), version=(3, 0))
    with pytest.raises(ValueError, match=r"version \(3, 0\)"):
        open_npy(path)


def test_an_array_shorter_than_its_header_says(tmp_path: Path) -> None:
    path = tmp_path / "m.npy"
    np.save(path, np.arange(100.0))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="truncated: an array of 928 bytes has only 920"):
        open_npy(path)
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.write(path, "table.npy")
    with pytest.raises(ValueError, match="truncated"):
        open_npz(tmp_path / "m.npz")


def test_kinds(tmp_path: Path) -> None:
    values = {
        "u": np.array("text"),
        "o": np.array([None]),
        "c": np.ones(2, dtype=np.complex64),
        "b": np.ones(1, dtype=bool),
    }
    np.savez(tmp_path / "m.npz", **values)
    assert {array.name: array.kind for array in open_npz(tmp_path / "m.npz")} == {
        "u": "str128",
        "o": "object",
        "c": "complex64",
        "b": "bool",
    }


def test_objects_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays"):
        write_npz(tmp_path / "m.npz", "", {"entity": np.array([None])})
