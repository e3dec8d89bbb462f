"""The parameters of a TorchScript archive, such as libtorch writes from C++, read without unpickling anything.

The archive is a zip file. Its data.pkl says which bytes belong to which parameter. It is a pickle: unpickling would
import and call what it names, and `torch.jit.load` would compile the code that the archive has beside it, and may run
it. Here its operations are listed with `pickletools`, which runs nothing, and the few that describe tensors are
followed.
"""

from __future__ import annotations

import math
import pickletools
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kgprobe.predict.array_files import data_offset, verify_member
from kgprobe.predict.stored_arrays import ArrayFile, StoredArray, open_at, reading, require_shape
from kgprobe.resources import require_unpackable

_MOST_BYTES = 1 << 22
"""The largest data.pkl; it has about two hundred bytes for each parameter."""

_NUMBERS = {"torch FloatStorage": "f4", "torch DoubleStorage": "f8", "torch HalfStorage": "f2"}
_TENSOR = "torch._utils _rebuild_tensor_v2"
_MARK = object()


def open_torch_archive(path: Path) -> ArrayFile:
    """Open the parameters of the module in a TorchScript archive by name, without those of its children.

    Raises:
        DataError: The file is missing, damaged, or not such an archive.
    """
    with reading(path), zipfile.ZipFile(path) as archive:
        members = {member.filename: member for member in archive.infolist()}
        place = next((name.removesuffix("data.pkl") for name in members if name.endswith("/data.pkl")), None)
        if place is None or place.count("/") != 1:
            raise ValueError("it is not a TorchScript archive: it has no data.pkl in its folder")
        order = _small(archive, members, f"{place}byteorder") if f"{place}byteorder" in members else b"little"
        module = _Operations().result(_small(archive, members, f"{place}data.pkl"))
        if not isinstance(module, _Made) or not isinstance(module.state, dict):
            raise ValueError("data.pkl describes no module")
        arrays = {}
        for name, tensor in module.state.items():
            if isinstance(tensor, _Made) and tensor.by == _TENSOR:
                arrays[str(name)] = _array(archive, members, place, str(name), tensor, order)
    return ArrayFile(path, arrays)


def _small(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str) -> bytes:
    size = members[name].file_size
    if size > _MOST_BYTES:
        raise ValueError(f"{name}: {size:,} bytes are too many")
    require_unpackable(size)
    return archive.read(name)


@dataclass(eq=False)
class _Named:
    """A class or function that a pickle names."""

    name: str


@dataclass(eq=False)
class _Made:
    """What a class or function would make of its arguments, and the state that it would get."""

    by: str
    arguments: Any
    state: Any = None


@dataclass(eq=False)
class _Operations:
    """Follows the operations of a pickle as far as they describe a module; nothing is imported or called."""

    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def result(self, content: bytes) -> Any:
        """The object that a pickle describes.

        Raises:
            ValueError: It is damaged, or has operations that do not describe a module.
        """
        try:
            for operation, argument, _ in pickletools.genops(content):
                if operation.name == "STOP":
                    return self.stack.pop()
                self._follow(operation.name, argument)
        except (IndexError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"data.pkl is damaged ({type(error).__name__}: {error})") from None
        raise ValueError("data.pkl has no end")

    def _follow(self, name: str, argument: Any) -> None:
        if name in ("PROTO", "FRAME"):
            return
        if name in _VALUES:
            self.stack.append(_VALUES[name](argument))
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name == "TUPLE":
            self.stack.append(tuple(self._since_mark()))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            self.stack.append(tuple(self._last(int(name[-1]))))
        elif name == "SETITEMS":
            items = self._since_mark()
            self.stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif name == "SETITEM":
            key, value = self._last(2)
            self.stack[-1].update({key: value})
        elif name == "APPENDS":
            items = self._since_mark()
            self.stack[-1].extend(items)
        elif name in ("NEWOBJ", "REDUCE"):
            maker, arguments = self._last(2)
            self.stack.append(_Made(maker.name if isinstance(maker, _Named) else "", arguments))
        elif name == "BINPERSID":
            self.stack.append(_Made("storage", self.stack.pop()))
        elif name == "BUILD":
            state = self.stack.pop()
            if isinstance(self.stack[-1], _Made):
                self.stack[-1].state = state
        else:
            raise ValueError(f"data.pkl has an operation that describes no module: {name}")

    def _last(self, count: int) -> list[Any]:
        items = [self.stack.pop() for _ in range(count)]
        return items[::-1]

    def _since_mark(self) -> list[Any]:
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]


def _itself(argument: Any) -> Any:
    return argument


_VALUES: dict[str, Callable[[Any], Any]] = {
    "MARK": lambda _: _MARK,
    "GLOBAL": _Named,
    "EMPTY_TUPLE": lambda _: (),
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"), _itself),
}
"""The value that each of these operations puts on the stack, for its argument."""


def _array(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], place: str, name: str, tensor: _Made, order: bytes
) -> StoredArray:
    """The array of a tensor, whose bytes are a member of the archive.

    Raises:
        ValueError: The tensor is not described as libtorch describes it, or its bytes are not there.
    """
    try:
        storage, first, shape, strides, *_ = tensor.arguments
        _, kind, key, _, count = storage.arguments
        dtype = np.dtype(("<" if order.strip() == b"little" else ">") + _NUMBERS[kind.name])
        member = members[f"{place}data/{key}"]
        whole = [count, first, *shape, *strides]
    except (KeyError, AttributeError, TypeError, ValueError):
        raise ValueError(f"{name}: its numbers are not described as expected") from None
    if any(type(number) is not int or number < 0 for number in whole):
        raise ValueError(f"{name}: its shape is not of whole numbers")
    require_shape(name, tuple(shape), dtype)
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    by_row = len(strides) == len(shape) and all(
        stride == step for stride, step, size in zip(strides, steps, shape, strict=True) if size > 1
    )
    if math.prod(shape) and not by_row:
        raise ValueError(f"{name}: its numbers are not stored by rows")
    if count * dtype.itemsize != member.file_size:
        raise ValueError(f"{name}: {member.file_size:,} bytes, expected {count:,} numbers of {dtype.name}")
    if first + math.prod(shape) > count:
        raise ValueError(f"{name}: {count:,} numbers are too few for the shape {tuple(shape)} from number {first:,} on")
    archive.open(member).close()  # compares the header in front of the bytes
    path = Path(archive.filename or "")
    start = data_offset(path, member)
    if start is None:
        raise ValueError(f"{name}: its bytes are compressed")
    verify_member(path, member, start)
    offset = start + first * dtype.itemsize
    return StoredArray(path, name, dtype.name, dtype, tuple(shape), partial(open_at, path, offset), offset)
