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


class Module(torch.nn.Module):
    """A module with these parameters, and a child that has one of the same name."""

    def __init__(self, tables: dict[str, torch.Tensor]) -> None:
        super().__init__()
        for name, table in tables.items():
            self.register_parameter(name, torch.nn.Parameter(table))
        self.child = torch.nn.Linear(2, 3)
        self.child.register_parameter("table", torch.nn.Parameter(torch.zeros(9)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.child(x)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_parameters_in_archives_of_torch_script(tmp_path: Path) -> None:
    table = torch.randn(4, 3)
    tables = {"table": table, "rest": table[1:], "precise": table.double(), "short": table.half(), "none": table[:0]}
    torch.jit.save(torch.jit.script(Module(tables)), tmp_path / "a.pt")
    file = open_torch_file(tmp_path / "a.pt")
    for name, expected in tables.items():
        found = file.tensor(name, file.value.state[name]).whole()
        np.testing.assert_array_equal(found, expected.numpy().astype(found.dtype), strict=True)
    with pytest.raises(ValueError, match=r"child: __torch__.*, expected a dense tensor"):
        file.tensor("child", file.value.state["child"])


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("decoder", ["distmult", "complex", "transe"])
def test_parameters_in_archives_of_libtorch(decoder: str) -> None:
    path = Path(__file__).parents[1] / "saved_models" / "marius" / decoder / "model.pt"
    file = open_torch_file(path)
    expected = dict(torch.jit.load(str(path)).named_parameters())
    assert expected.keys() == {name for name in file.value.state if name.endswith("relation_embeddings")}
    for name, table in expected.items():
        found = file.tensor(name, file.value.state[name])
        np.testing.assert_array_equal(found.whole(), table.detach().numpy(), strict=True)
        np.testing.assert_array_equal(found.rows(np.array([2, 0])), table.detach().numpy()[[2, 0]])


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


def test_another_name_in_front_of_the_numbers(tmp_path: Path) -> None:
    raw = _save(tmp_path / "a.pt", {"a": torch.ones(5, 3)}).read_bytes()
    assert raw.index(b"a/data/0") < raw.rindex(b"a/data/0")  # in front of the numbers, and in the directory
    (tmp_path / "a.pt").write_bytes(raw.replace(b"a/data/0", b"a/data/1", 1))
    with pytest.raises(DataError, match="File name in directory"):
        open_torch_file(tmp_path / "a.pt")


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
        ([("a/data.pkl", empty)], zipfile.ZIP_DEFLATED, "compressed, which torch does not do"),
        ([("a/data.pkl", b"")], zipfile.ZIP_STORED, "pickle"),
    ]:
        path = _archive(tmp_path / "a.pt", members, method)
        with pytest.raises(DataError, match=said):
            open_torch_file(path)


def _members(value: Any) -> list[tuple[str, bytes]]:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def test_the_order_of_bytes(tmp_path: Path) -> None:
    members = dict(_members({"a": torch.arange(6.0)}))
    folder = next(iter(members)).split("/")[0]
    members[f"{folder}/byteorder"], members[f"{folder}/data/0"] = b"big", np.arange(6, dtype=">f4").tobytes()
    assert _tensors(open_torch_file(_archive(tmp_path / "a.pt", list(members.items()))))["a"].tolist() == list(range(6))
    members[f"{folder}/byteorder"] = b"middle"
    with pytest.raises(DataError, match="the byte order is b'middle'"):
        open_torch_file(_archive(tmp_path / "a.pt", list(members.items())))


def test_numbers_outside_their_storage(tmp_path: Path) -> None:
    members = _members({"a": torch.ones(5, 3)})
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
