import collections
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.errors import DataError
from kgprobe.predict.torch_files import TORCH_NAMES, TorchFile, is_torch_file, open_torch_file

ZIPPED = pytest.mark.parametrize("zipped", [True, False], ids=["archive", "before torch 1.6"])


def _save(path: Path, value: Any, *, zipped: bool = True) -> Path:
    torch.save(value, path, _use_new_zipfile_serialization=zipped)
    return path


def _tensors(file: TorchFile) -> dict[str, Any]:
    return {name: file.tensor(name, value).rows(slice(None)) for name, value in file.value.items()}


@ZIPPED
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_are_those_of_torch(tmp_path: Path, zipped: bool, kind: torch.dtype) -> None:
    torch.manual_seed(0)
    table = torch.randn(30, 7).to(kind)
    tensors = {
        "table": table,
        "parameter": torch.nn.Parameter(table * 2),
        "a part of it": table[3:9],
        "the same": table,
        "none": table[:0],
        "one column": table[:, :1].contiguous(),
    }
    path = _save(tmp_path / "a.pt", tensors, zipped=zipped)
    assert is_torch_file(path)
    file = open_torch_file(path)
    assert file.names <= TORCH_NAMES
    for name, found in _tensors(file).items():
        np.testing.assert_array_equal(found, tensors[name].detach().float().numpy().astype(found.dtype), strict=True)


@ZIPPED
def test_the_state_of_modules_and_optimisers(tmp_path: Path, zipped: bool) -> None:
    module = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 2))
    optimiser = torch.optim.Adam(module.parameters())
    module(torch.arange(4)).sum().backward()
    optimiser.step()
    value = {"model": module.state_dict(), "optimiser": optimiser.state_dict(), "torch": torch.__version__, "n": 3}
    file = open_torch_file(_save(tmp_path / "a.pt", value, zipped=zipped))
    assert file.names <= TORCH_NAMES
    for name, tensor in module.state_dict().items():
        found = file.tensor(name, file.value["model"].items[name]).rows(slice(None))
        np.testing.assert_array_equal(found, tensor.numpy())
    steps = file.value["optimiser"]["state"][0]["exp_avg"]
    np.testing.assert_array_equal(
        file.tensor("exp_avg", steps).whole(), optimiser.state_dict()["state"][0]["exp_avg"].numpy()
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.ones(2, 3).T, "not stored in the order of its rows"),
        (torch.ones(4)[::2], "not stored in the order of its rows"),
        (torch.ones(2).expand(3, 2), "not stored in the order of its rows"),
        (torch.ones(2, dtype=torch.int64), "a tensor of torch.LongStorage, expected floating-point numbers"),
        (torch.ones(2, dtype=torch.complex64), "a tensor of torch.ComplexFloatStorage, expected"),
        (torch.ones(2, 2).to_sparse(), "expected a dense tensor"),
        ([1.0], "table: a list, expected a dense tensor"),
        (None, "table: None, expected a dense tensor"),
        (collections.OrderedDict(), "table: collections.OrderedDict, expected a dense tensor"),
    ],
)
def test_what_is_no_table(tmp_path: Path, value: Any, said: str) -> None:
    file = open_torch_file(_save(tmp_path / "a.pt", [value]))
    with pytest.raises(ValueError, match=said):
        file.tensor("table", file.value[0])


@ZIPPED
def test_truncated_files(tmp_path: Path, zipped: bool) -> None:
    whole = _save(tmp_path / "a.pt", {"a": torch.ones(5, 3)}, zipped=zipped).read_bytes()
    path = tmp_path / "damaged.pt"
    for length in range(0, len(whole), 29):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError) as caught:
            _tensors(open_torch_file(path))
        assert str(path) in caught.value.title


def test_changed_numbers_are_noticed(tmp_path: Path) -> None:
    path = _save(tmp_path / "a.pt", {"a": torch.ones(50, 30), "b": torch.zeros(2)})
    raw = path.read_bytes()
    place = raw.index(np.ones(40, dtype="<f4").tobytes())
    path.write_bytes(raw[: place + 8] + b"\x01" + raw[place + 9 :])
    file = open_torch_file(path)
    assert file.tensor("b", file.value["b"]).whole().tolist() == [0, 0]  # only what is read is compared
    with pytest.raises(ValueError, match="checksum"):
        file.tensor("a", file.value["a"])


def _archive(path: Path, members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def test_archives_that_are_none_of_torch(tmp_path: Path) -> None:
    empty = pickle.dumps({}, protocol=2)
    for members, method, said in [
        ([("a.npy", b"")], zipfile.ZIP_STORED, "without one member 'data.pkl'"),
        ([("a/data.pkl", empty), ("b/data.pkl", empty)], zipfile.ZIP_STORED, "without one member 'data.pkl'"),
        ([("a/data.pkl", empty)], zipfile.ZIP_DEFLATED, "compressed, which torch.save does not do"),
        ([("a/data.pkl", b"")], zipfile.ZIP_STORED, "pickle"),
    ]:
        path = _archive(tmp_path / "a.pt", members, method)
        with pytest.raises(DataError, match=said):
            open_torch_file(path)


def test_numbers_outside_their_storage(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(5, 3)}, buffer)
    with zipfile.ZipFile(buffer) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    for change, said in [
        (
            lambda name, raw: raw[:-4] if name.endswith("data/0") else raw,
            "a: 56 bytes, which are not 15 numbers of FloatStorage",
        ),
        (lambda name, raw: None if name.endswith("data/0") else raw, "its numbers are not in the file"),
    ]:
        changed = [(name, new) for name, raw in members if (new := change(name, raw)) is not None]
        file = open_torch_file(_archive(tmp_path / "a.pt", changed))
        with pytest.raises(ValueError, match=said):
            file.tensor("a", file.value["a"])


def test_a_tensor_beyond_its_storage(tmp_path: Path) -> None:
    file = open_torch_file(_save(tmp_path / "a.pt", {"a": torch.ones(5, 3)}))
    made = file.value["a"]
    for first, rows in ((1, 5), (0, 6), (-3, 5), (2**62, 1)):
        made.arguments = (made.arguments[0], first, (rows, 3), (3, 1), *made.arguments[4:])
        with pytest.raises(ValueError, match=r"too few for FloatStorage|order of its rows"):
            file.tensor("a", made)


def test_other_pickles(tmp_path: Path) -> None:
    for raw in (pickle.dumps([1], protocol=2), b"\x80\x02", b"text", b"", pickle.dumps(1, protocol=2) * 5):
        (tmp_path / "a.pt").write_bytes(raw)
        with pytest.raises(DataError):
            open_torch_file(tmp_path / "a.pt")
    with pytest.raises(DataError, match="no such file"):
        open_torch_file(tmp_path / "absent.pt")
