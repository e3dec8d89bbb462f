"""Read files of ``torch.save`` without torch: the pickle as data, tensors as arrays that stay in the file.

Since torch 1.6 such a file is a zip archive, with the pickle in ``data.pkl`` and the numbers of each storage in a
member of its own, both without compression. Before, it was a sequence of pickles, followed by the storages.

A TorchScript archive, of ``torch.jit.save`` or of libtorch, has code beside these members, which is not read. The value
in its pickle is a module, whose state has its parameters and its children by name.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kgprobe.predict.array_files import data_offset, verify_member
from kgprobe.predict.pickled_values import Bytes, Made, Named, is_shape, read_pickle, shown, stored_array
from kgprobe.predict.stored_arrays import StoredArray, open_at, reading

_TYPES = {
    "torch.FloatStorage": "float32",
    "torch.DoubleStorage": "float64",
    "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "uint16",
}
"""The NumPy types of storages of floating-point numbers; NumPy has no bfloat16."""

_SIZES = {**{name: np.dtype(kind).itemsize for name, kind in _TYPES.items()}, "torch.LongStorage": 8}
_SIZES |= {"torch.IntStorage": 4, "torch.ShortStorage": 2}
_SIZES |= dict.fromkeys(("torch.CharStorage", "torch.ByteStorage", "torch.BoolStorage"), 1)

_PARAMETER = "torch._utils._rebuild_parameter"
_TENSORS = ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor", _PARAMETER)

TORCH_NAMES = frozenset(
    (*_SIZES, *_TENSORS, "torch.Size", "torch.device", "torch.torch_version.TorchVersion", "collections.OrderedDict")
)
"""The classes and functions that a file of tensors names."""

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_COUNT_BYTES = 8
_ORDERS: Mapping[bytes, Literal["<", ">"]] = {b"little": "<", b"big": ">"}


@dataclass(frozen=True)
class TorchFile:
    """The content of a file of ``torch.save``, or of a TorchScript archive.

    Attributes:
        path: The file.
        value: What was saved; a tensor in it is read by `tensor`.
        names: The classes and functions that the pickle names.
        storages: The place of the numbers of each storage.
        members: The entries of the archive that have their checksums.
        order: The byte order of the numbers.
        verified: The storages that have been compared with their checksums.
    """

    path: Path
    value: Any
    names: frozenset[str]
    storages: Mapping[str, Bytes]
    members: Mapping[str, zipfile.ZipInfo]
    order: Literal["<", ">"]
    verified: set[str] = field(default_factory=set)

    def tensor(self, name: str, value: Any) -> StoredArray:
        """The array of a tensor. Its numbers are compared with their checksum, if the file has one.

        Raises:
            ValueError: It is not a tensor of floating-point numbers in the order of its rows, or it is damaged.
        """
        if isinstance(value, Made) and value.name == _PARAMETER and value.arguments:
            value = value.arguments[0]
        if not _is_tensor(value):
            raise ValueError(f"{name}: {shown(value)}, expected a dense tensor")
        storage, first, shape, strides = value.arguments[:4]
        kind, key, count = _storage(storage)
        if kind not in _TYPES or not is_shape(shape) or not is_shape(strides):
            raise ValueError(f"{name}: a tensor of {kind[:60]}, expected floating-point numbers")
        if type(first) is not int or first < 0 or not _in_row_order(shape, strides):
            raise ValueError(f"{name}: a tensor that is not stored in the order of its rows")
        if key not in self.storages:
            raise ValueError(f"{name}: its numbers are not in the file")
        dtype = np.dtype(_TYPES[kind]).newbyteorder(self.order)
        place, start = self.storages[key], first * dtype.itemsize
        if place.length != count * dtype.itemsize:
            raise ValueError(f"{name}: {place.length:,} bytes, which are not {shown(count)} numbers of {kind[6:]}")
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if start + size > place.length:
            raise ValueError(f"{name}: {place.length:,} bytes, too few for {kind[6:]} of shape {shape}")
        if key in self.members and key not in self.verified:
            self.verified.add(key)
            verify_member(self.path, self.members[key], place.offset)
        return stored_array(self.path, name, dtype, shape, Bytes(place.offset + start, size))


def is_torch_file(path: Path) -> bool:
    """Whether a file is one that ``torch.save`` may have written."""
    with path.open("rb") as file:
        start = file.read(2)
    return start in (b"PK", b"\x80\x02")


def open_torch_file(path: Path) -> TorchFile:
    """Open a file of ``torch.save``, or a TorchScript archive. No code in it is run.

    Raises:
        DataError: The file is missing or damaged.
    """
    with reading(path):
        with path.open("rb") as file:
            start = file.read(2)
        if start == b"PK":
            return _open_archive(path)
        if start == b"\x80\x02":
            return _open_sequence(path)
        raise ValueError(f"not a file of torch: it begins with {start!r}")


def _is_tensor(value: Any) -> bool:
    made = isinstance(value, Made) and value.name in _TENSORS and len(value.arguments) >= 4
    return made and not value.items and not value.members and value.state is None


def _storage(value: Any) -> tuple[str, str, int]:
    """The class of a storage, its key in the file, and how many numbers it has."""
    parts = value.arguments if isinstance(value, Made) and not value.name else ()
    # The last of six parts, which older files have, is for a storage that is a view of another.
    if len(parts) in (5, 6) and parts[5:] in ((), (None,)):
        kind, key, _, count = parts[1:5]
        if isinstance(kind, Named) and isinstance(key, str) and type(count) is int:
            return kind.name, key, count
    return "unknown numbers", "", 0


def _in_row_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    if len(shape) != len(strides):
        return False
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= max(size, 1)
    return True


def _open_archive(path: Path) -> TorchFile:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        pickles = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
        if len(pickles) != 1 or len({entry.filename for entry in entries}) != len(entries):
            raise ValueError("not a file of torch: an archive without one member 'data.pkl'")
        folder = pickles[0].filename.removesuffix("data.pkl")
        members = {entry.filename.removeprefix(folder): entry for entry in entries if entry.filename.startswith(folder)}
        with archive.open(members["byteorder"]) if "byteorder" in members else BytesIO(b"little") as file:
            order = file.read(_COUNT_BYTES)
        if order not in _ORDERS:
            raise ValueError(f"not a file of torch: the byte order is {order!r}")
        read = {name: entry for name, entry in members.items() if name == "data.pkl" or name.startswith("data/")}
        places = {name: Bytes(_start(path, archive, entry), entry.file_size) for name, entry in read.items()}
    verify_member(path, members["data.pkl"], places["data.pkl"].offset)
    pickle = places.pop("data.pkl")
    content = read_pickle(path, pickle.offset, pickle.offset + pickle.length)
    storages = {name.removeprefix("data/"): place for name, place in places.items()}
    checked = {name.removeprefix("data/"): members[name] for name in places}
    return TorchFile(path, content.value, content.names, storages, checked, _ORDERS[order])


def _start(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    archive.open(entry).close()  # compares the header in front of the bytes
    start = data_offset(path, entry)
    if start is None:
        raise ValueError(f"{entry.filename[:60]}: compressed, which torch does not do")
    return start


def _open_sequence(path: Path) -> TorchFile:
    magic = read_pickle(path)
    protocol = read_pickle(path, magic.end)
    if magic.value != _MAGIC or protocol.value != _PROTOCOL:
        raise ValueError("a pickle, but not one of torch.save")
    system = read_pickle(path, protocol.end)
    content = read_pickle(path, system.end)
    keys = read_pickle(path, content.end)
    little = system.value.get("little_endian", True) if isinstance(system.value, dict) else True
    kinds = {key: kind for kind, key, _ in map(_storage, content.references)}
    storages: dict[str, Bytes] = {}
    position, end = keys.end, path.stat().st_size
    for key in keys.value if isinstance(keys.value, list) else []:
        with open_at(path, position) as file:
            count = int.from_bytes(file.read(_COUNT_BYTES), "little" if little else "big")
        position += _COUNT_BYTES
        length = count * _SIZES.get(kinds.get(key, ""), end)
        if position + length > end:
            raise ValueError(
                f"truncated: the numbers of a tensor end at byte {position + length:,}, the file at {end:,}"
            )
        storages[key] = Bytes(position, length)
        position += length
    if position != end:
        raise ValueError(f"the file has {end - position:,} bytes after its last tensor")
    return TorchFile(path, content.value, content.names, storages, {}, "<" if little else ">")
