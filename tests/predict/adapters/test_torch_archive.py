"""TorchScript archives: those that libtorch and torch.jit write, and files that only resemble them."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from kgprobe.errors import DataError
from kgprobe.predict.adapters.torch_archive import open_torch_archive

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

SAVED = Path(__file__).parents[2] / "saved_models" / "marius"


class Module(nn.Module):
    """A module with these parameters, and a child with one of its own."""

    def __init__(self, tables: dict[str, torch.Tensor]) -> None:
        super().__init__()
        for name, table in tables.items():
            self.register_parameter(name, nn.Parameter(table, requires_grad=table.is_floating_point()))
        self.child = nn.Linear(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.child(x)


def save(path: Path, **tables: Any) -> Path:
    torch.jit.save(torch.jit.script(Module({name: torch.as_tensor(table) for name, table in tables.items()})), path)
    return path


def rewritten(path: Path, changes: dict[str, bytes | None], method: int = zipfile.ZIP_STORED) -> Path:
    """The archive with other members, or without them; None removes one."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    place = next(iter(members)).split("/")[0]
    members |= {f"{place}/{name}": content for name, content in changes.items()}  # type: ignore[misc]
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            if content is not None:
                archive.writestr(name, content)
    return path


@pytest.mark.parametrize("decoder", ["distmult", "complex", "transe"])
def test_archives_of_libtorch(decoder: str) -> None:
    path = SAVED / decoder / "model.pt"
    arrays = open_torch_archive(path).arrays
    expected = dict(torch.jit.load(str(path)).named_parameters())
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert array.kind == "float32"
        assert np.array_equal(array.whole(), expected[name].detach().numpy())
        assert np.array_equal(array.rows(np.array([2, 0])), expected[name].detach().numpy()[[2, 0]])


def test_parameters_of_torch_script(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tables = {
        "wide": rng.normal(size=(3, 4)).astype(np.float32),
        "precise": rng.normal(size=(2, 5)),
        "short": rng.normal(size=7).astype(np.float16),
        "empty": np.empty((0, 4), np.float32),
    }
    arrays = open_torch_archive(save(tmp_path / "model.pt", **tables)).arrays
    assert arrays.keys() == tables.keys()
    for name, table in tables.items():
        assert np.array_equal(arrays[name].whole(), table.astype(np.float32) if name == "short" else table)


def test_parameters_that_share_a_storage(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(4, 3)
    arrays = open_torch_archive(save(tmp_path / "model.pt", first=whole[:1], rest=whole[1:])).arrays
    assert arrays["rest"].whole().tolist() == whole[1:].tolist()


class Trap:
    """What unpickling would run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_nothing_is_run(tmp_path: Path) -> None:
    path = save(tmp_path / "model.pt", table=np.eye(2, dtype=np.float32))
    ran = tmp_path / "ran"
    for protocol in range(6):
        rewritten(path, {"data.pkl": pickle.dumps(Trap(ran), protocol)})
        with pytest.raises(DataError):
            open_torch_archive(path)
        assert not ran.exists()
    pickle.loads(pickle.dumps(Trap(ran), 2))
    assert ran.exists()


def problem(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        open_torch_archive(path)
    assert str(path) in caught.value.title
    (only,) = caught.value.problems
    return only


def test_other_files(tmp_path: Path) -> None:
    assert problem(tmp_path / "absent.pt") == "no such file"
    (tmp_path / "a.pt").write_bytes(b"\x80\x04N.")
    assert problem(tmp_path / "a.pt") == "File is not a zip file"
    with zipfile.ZipFile(tmp_path / "b.pt", "w") as archive:
        archive.writestr("text", "text")
    assert problem(tmp_path / "b.pt") == "it is not a TorchScript archive: it has no data.pkl in its folder"
    torch.save({"table": torch.eye(2)}, tmp_path / "c.pt")
    assert problem(tmp_path / "c.pt") == "data.pkl describes no module"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "pickle exhausted before seeing STOP"),
        (b"\x80\x02.", "data.pkl is damaged (IndexError: pop from empty list)"),
        (b"\x80\x02h\x05.", "data.pkl is damaged (KeyError: 5)"),
        (b"\x80\x02}u.", "data.pkl is damaged (IndexError: pop from empty list)"),
        (b"\x80\x02}(}Nu.", "data.pkl is damaged (TypeError: unhashable type: 'dict')"),
        (b"\x80\x02N.", "data.pkl describes no module"),
        (b"I5\n.", "data.pkl has an operation that describes no module: INT"),
    ],
)
def test_damaged_descriptions(content: bytes, said: str, tmp_path: Path) -> None:
    path = rewritten(save(tmp_path / "model.pt", table=np.eye(2, dtype=np.float32)), {"data.pkl": content})
    assert said in problem(path)


def test_numbers_that_are_not_there(tmp_path: Path) -> None:
    path = save(tmp_path / "model.pt", table=np.ones((2, 3), dtype=np.float32))
    with zipfile.ZipFile(path) as archive:
        numbers = archive.read("model/data/0")
        text = archive.read("model/data.pkl")
    rewritten(path, {"data/0": numbers[:-1]})
    assert problem(path) == "table: 23 bytes, expected 6 numbers of float32"
    rewritten(path, {"data/0": numbers + b"\0" * 4})
    assert problem(path) == "table: 28 bytes, expected 6 numbers of float32"
    rewritten(path, {"data/0": numbers, "data.pkl": text.replace(b"K\x02K\x03t", b"K\x04K\x03t")})
    assert problem(path) == "table: 6 numbers are too few for the shape (4, 3) from number 0 on"
    rewritten(path, {"data.pkl": text})
    rewritten(path, {"data/0": None})
    assert problem(path) == "table: its numbers are not described as expected"
    rewritten(path, {"data/0": numbers}, zipfile.ZIP_DEFLATED)
    assert problem(path) == "table: its bytes are compressed"
    strides = bytes([ord("K"), 3, ord("K"), 1, ord("t")])
    assert text.count(strides) == 1
    rewritten(path, {"data.pkl": text.replace(strides, bytes([ord("K"), 1, ord("K"), 2, ord("t")]))})
    assert problem(path) == "table: its numbers are not stored by rows"


def test_flipped_bits_of_the_numbers(tmp_path: Path) -> None:
    path = save(tmp_path / "model.pt", table=np.full((2, 3), 0.3, dtype=np.float32))
    raw = bytearray(path.read_bytes())
    raw[raw.index(np.float32(0.3).tobytes())] ^= 1
    path.write_bytes(raw)
    assert "the checksum does not match" in problem(path)
