import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kgprobe.errors import DataError
from kgprobe.predict.array_files import open_arrays
from kgprobe.predict.safetensors_files import UNSEALED, check_seal, seal, write_safetensors

ARRAYS: dict[str, Any] = {"entity": np.arange(6.0).reshape(2, 3)}


def _header(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    contents = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    header: dict[str, Any] = json.loads(contents["__metadata__"]["kgprobe"])
    return header


def test_the_hash_is_that_of_the_file_with_zeros_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, {"model": "DistMult"}, ARRAYS)
    found = _header(path)["sha256"]
    zeros = path.read_bytes().replace(found.encode(), b"0" * 64)
    assert found == hashlib.sha256(zeros).hexdigest()
    assert open_arrays(path).header == '{"model": "DistMult"}'


def test_files_that_the_library_wrote_can_be_sealed(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    header = json.dumps({"kind": "ä", **UNSEALED}, sort_keys=True)
    save_file({"entity": torch.ones(3).to(torch.bfloat16)}, path, {"kgprobe": header})
    with pytest.raises(ValueError, match="the checksum does not match"):
        check_seal(path)
    seal(path)
    assert check_seal(path)
    assert json.loads(open_arrays(path).header or "") == {"kind": "ä"}
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="the checksum does not match"):
        open_arrays(path)


def test_a_header_that_quotes_a_hash(tmp_path: Path) -> None:
    """Names are texts of the user, and may look like the hash."""
    path = tmp_path / "m.safetensors"
    quoted = json.dumps(UNSEALED)
    for name in (quoted, json.dumps(quoted), "sha256", quoted.replace('"', '\\"')):
        write_safetensors(path, {"name": name, "entities": [name]}, ARRAYS)
        assert check_seal(path)
        assert json.loads(open_arrays(path).header or "") == {"name": name, "entities": [name]}


@pytest.mark.parametrize("header", ['{"model": "DistMult"}', "text", "[1]", ""])
def test_files_without_a_hash_are_those_of_others_or_of_older_versions(tmp_path: Path, header: str) -> None:
    path = tmp_path / "m.safetensors"
    save_file({"entity": torch.ones(3)}, path, {"kgprobe": header})
    assert not check_seal(path)
    assert open_arrays(path).header == header


@pytest.mark.parametrize("value", [3, None, "0" * 63, "A" * 64, [], {}], ids=str)
def test_a_hash_that_is_none_is_refused(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "m.safetensors"
    save_file({"entity": torch.ones(3)}, path, {"kgprobe": json.dumps({"sha256": value})})
    with pytest.raises(DataError, match="the checksum in its header is not readable"):
        open_arrays(path)
