"""Read pickles as data: nothing in them is imported or called, and the bytes of arrays stay in the file.

A pickle is a program for a stack machine. `read_pickle` follows it with instructions that only build dictionaries,
lists, tuples, texts and numbers. Where a pickle names a class or a function, or calls it, `Named` and `Made` record the
name and the arguments. So no pickle can run code, and the caller decides by name what it understands.
"""

from __future__ import annotations

import math
import mmap
import pickletools
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from kgprobe.errors import DataError
from kgprobe.predict.stored_arrays import StoredArray, open_at, require_shape

MAPPINGS = ("collections.OrderedDict", "collections.defaultdict", "easydict.EasyDict")
"""Classes whose items are those of a dictionary."""

_LARGEST = 1 << 63
_NEWEST_PROTOCOL = 5
_MOST_SHOWN = 10


@dataclass(frozen=True, eq=False)
class Named:
    """A class or a function that a pickle names; it is not imported."""

    name: str


@dataclass(frozen=True)
class Bytes:
    """Bytes in the file, which are not read: their position and number."""

    offset: int
    length: int


@dataclass(eq=False)
class Made:
    """What a pickle would make by a call, which is not made.

    Attributes:
        name: The name of the class or the function; "" for a reference to something outside the pickle.
        arguments: The arguments of the call.
        state: What would be set on the result.
        items: What would be added to it as keys and values.
        members: What would be appended to it.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)
    members: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Pickled:
    """The content of a pickle.

    Attributes:
        value: Dictionaries, lists, tuples, texts, numbers, `Bytes`, `Named` and `Made`.
        names: The classes and functions that it names.
        references: Its references to something outside of it, each a `Made` without a name.
        end: The position after it.
    """

    value: Any
    names: frozenset[str]
    references: tuple[Made, ...]
    end: int


def read_pickle(path: Path, start: int = 0, end: int | None = None) -> Pickled:
    """Read the pickle at a position of a file, without running anything in it.

    Raises:
        ValueError: It is damaged.

    Example:
        >>> import pickle, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "model.pkl"
        >>> _ = path.write_bytes(pickle.dumps({"names": ["Ada"], "run": print}))
        >>> pickled = read_pickle(path)
        >>> pickled.value["names"], pickled.value["run"], sorted(pickled.names)
        (['Ada'], Named(name='builtins.print'), ['builtins.print'])
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        memory.seek(start)
        return _Reader(memory, len(memory) if end is None else end).read()


def refuse_unknown(path: Path, names: Set[str], library: str) -> None:
    """Raise a DataError if there are names of classes or functions that a library does not save."""
    if not names:
        return
    problems = [f"it names {name[:80]!r}, which {library} does not save" for name in sorted(names)[:_MOST_SHOWN]]
    if len(names) > _MOST_SHOWN:
        problems.append(f"it names {len(names) - _MOST_SHOWN:,} other classes or functions")
    trust = "if you know where the file is from, read it with `trust_pickle=True`: these parts are then left out"
    raise DataError(f"{path}: not read", problems, trust)


def mapping_of(value: Any) -> Mapping[Any, Any] | None:
    """The items of a pickled dictionary; None if it is something else."""
    if isinstance(value, dict):
        return value
    return value.items if isinstance(value, Made) and value.name in MAPPINGS else None


def shown(value: Any) -> str:
    """A value for a message; a pickle can hold values that are too large to be written out.

    Example:
        >>> shown("complex"), shown(1.5), shown([1])
        ("'complex'", '1.5', 'a list')
    """
    if isinstance(value, str):
        return repr(value[:60])
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < _LARGEST):
        return repr(value)
    if isinstance(value, Named | Made):
        return value.name[:60] or "a reference"
    return "a large integer" if isinstance(value, int) else f"a {type(value).__name__}"


def pickled_array(path: Path, name: str, value: Any) -> StoredArray | None:
    """The NumPy array that a pickle would make, read from its place in the file; None for anything else.

    Raises:
        ValueError: It has an impossible shape, or not as many bytes as its shape.
    """
    if not isinstance(value, Made) or value.items or value.members:
        return None
    function = value.name.replace("numpy._core.", "numpy.core.")
    if function == "numpy.core.multiarray._reconstruct" and isinstance(value.state, tuple) and len(value.state) == 5:
        _, shape, kind, by_column, content = value.state
    elif function == "numpy.core.numeric._frombuffer" and len(value.arguments) == 4 and value.state is None:
        content, kind, shape, order = value.arguments
        by_column = {"C": False, "F": True}.get(order) if isinstance(order, str) else None
    else:
        return None
    dtype = _dtype(kind)
    if dtype is None or not is_shape(shape) or not isinstance(content, Bytes) or not isinstance(by_column, bool):
        return None
    return stored_array(path, name, dtype, shape, content, by_column=by_column)


def stored_array(
    path: Path, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], content: Bytes, *, by_column: bool = False
) -> StoredArray:
    """The array of these bytes of a file; numbers of uint16 are those of bfloat16.

    Raises:
        ValueError: They are not as many as its shape needs.
    """
    require_shape(name, shape, dtype)
    if content.length != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: {content.length:,} bytes, which is not the size of {dtype.name} of shape {shape}")
    kind = "bfloat16" if dtype.name == "uint16" else dtype.name
    stream = partial(open_at, path, content.offset)
    return StoredArray(path, name, kind, dtype, shape, stream, content.offset, by_column and len(shape) > 1)


def is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(size) is int and 0 <= size < _LARGEST for size in value)


_FLOATS = ("f2", "f4", "f8")


def _dtype(value: Any) -> np.dtype[Any] | None:
    """The type of floating-point numbers that a pickle would make; None for any other."""
    if not isinstance(value, Made) or value.name != "numpy.dtype" or not value.arguments:
        return None
    order = value.state[1] if isinstance(value.state, tuple) and len(value.state) > 1 else None
    if value.arguments[0] not in _FLOATS or order not in ("<", ">", "="):
        return None
    dtype: np.dtype[Any] = np.dtype(value.arguments[0]).newbyteorder(order)
    return dtype


def _require_protocol(_reader: _Reader, protocol: int) -> None:
    if protocol > _NEWEST_PROTOCOL:
        raise ValueError(f"protocol {protocol}, which is not known")


class _Reader:
    """Follows the instructions of a pickle. Between a mark and its use, ``stack`` holds the values since the mark."""

    def __init__(self, memory: mmap.mmap, end: int) -> None:
        self.memory, self.end = memory, end
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.names: set[str] = set()
        self.references: list[Made] = []

    def read(self) -> Pickled:
        try:
            while (code := self.memory.read(1)) != b".":
                _ACTIONS[code](self)
            (value,) = self.stack
        except KeyError as error:
            code = error.args[0]
            what = _DESCRIBED.get(code, repr(code)) if isinstance(code, bytes) else f"no value {code}"
            raise ValueError(f"not a pickle that can be read: {what} at byte {self.memory.tell():,}") from None
        except (IndexError, TypeError, AttributeError, UnicodeError, ValueError) as error:
            raise ValueError(f"the pickle is damaged: {error} at byte {self.memory.tell():,}") from None
        if self.memory.tell() > self.end:
            raise ValueError("the pickle is longer than its place in the file")
        return Pickled(value, frozenset(self.names), tuple(self.references), self.memory.tell())

    def since_mark(self) -> list[Any]:
        values, self.stack = self.stack, self.below.pop()
        return values

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.since_mark()

    def duplicate(self) -> None:
        self.stack.append(self.stack[-1])

    def remember(self, index: int | None = None) -> None:
        self.memo[len(self.memo) if index is None else index] = self.stack[-1]

    def recall(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def skip_bytes(self, length_bytes: int) -> None:
        """Step over bytes that follow their number."""
        length = int.from_bytes(self.memory.read(length_bytes), "little")
        if length > self.end - self.memory.tell():
            raise ValueError(f"{length:,} bytes beyond its end")
        self.stack.append(Bytes(self.memory.tell(), length))
        self.memory.seek(length, 1)

    def make_tuple(self, size: int) -> None:
        if len(self.stack) < size:
            raise IndexError("a tuple of absent values")
        values = tuple(self.stack[len(self.stack) - size :])
        del self.stack[len(self.stack) - size :]
        self.stack.append(values)

    def marked_tuple(self) -> None:
        values = self.since_mark()
        self.stack.append(tuple(values))

    def marked_list(self) -> None:
        values = self.since_mark()
        self.stack.append(values)

    def marked_dict(self) -> None:
        values = self.since_mark()
        self.stack.append({})
        self._set(values)

    def set_items(self) -> None:
        self._set(self.since_mark())

    def set_item(self) -> None:
        self.make_tuple(2)
        self._set(list(self.stack.pop()))

    def _set(self, values: list[Any]) -> None:
        target = self.stack[-1]
        items = target if isinstance(target, dict) else target.items
        keys = values[0::2]
        for key in keys:
            _require_key(key)
        items.update(zip(keys, values[1::2], strict=True))

    def append(self) -> None:
        value = self.stack.pop()
        self._extend([value])

    def append_all(self) -> None:
        self._extend(self.since_mark())

    def _extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        (target if isinstance(target, list) else target.members).extend(values)

    def frozen_set(self) -> None:
        values = self.since_mark()
        self.stack.append(Made("builtins.frozenset", members=values))

    def name(self, text: str) -> None:
        self.names.add(text)
        self.stack.append(Named(text))

    def named(self, text: str) -> None:
        self.name(".".join(text.split(" ")))

    def named_on_stack(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError("a class without a name")
        self.name(f"{module}.{name}")

    def call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        self._make(function, arguments)

    def call_with_keywords(self) -> None:
        keywords, arguments, function = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self._make(function, (*arguments, keywords))

    def marked_call(self) -> None:
        function, *arguments = self.since_mark()
        self._make(function, tuple(arguments))

    def named_call(self, text: str) -> None:
        arguments = self.since_mark()
        self.named(text)
        self._make(self.stack.pop(), tuple(arguments))

    def _make(self, function: Any, arguments: Any) -> None:
        if not isinstance(function, Named) or not isinstance(arguments, tuple):
            raise TypeError(f"a call of {shown(function)}")
        self.stack.append(Made(function.name, arguments))

    def refer(self) -> None:
        value = self.stack.pop()
        self.references.append(Made("", value if isinstance(value, tuple) else (value,)))
        self.stack.append(self.references[-1])

    def set_state(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if not isinstance(target, Made):
            raise TypeError(f"a state for {shown(target)}")
        target.state = state


def _require_key(key: Any) -> None:
    """The hash of nested tuples can take exponential time."""
    flat = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, tuple | list | dict) for part in flat):
        raise TypeError("a key that is not a text or a number")


_Action = Callable[[_Reader], Any]


def _with_argument(opcode: pickletools.OpcodeInfo, action: Callable[[_Reader, Any], Any]) -> _Action:
    read: Callable[[Any], Any] = opcode.arg.reader  # type: ignore[union-attr]
    return lambda reader: action(reader, read(reader.memory))


def _pushing(make: Callable[[], Any]) -> _Action:
    return lambda reader: reader.stack.append(make())


_NUMBERS_AND_TEXTS = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
)
_PLAIN: Mapping[str, _Action] = {
    **{f"TUPLE{size}": methodcaller("make_tuple", size) for size in (1, 2, 3)},
    **{
        name: methodcaller("skip_bytes", size)
        for name, size in {"SHORT_BINBYTES": 1, "BINBYTES": 4, "BINBYTES8": 8, "BYTEARRAY8": 8}.items()
    },
    "NONE": _pushing(lambda: None),
    "NEWTRUE": _pushing(lambda: True),
    "NEWFALSE": _pushing(lambda: False),
    "EMPTY_TUPLE": _pushing(tuple),
    "EMPTY_LIST": _pushing(list),
    "EMPTY_DICT": _pushing(dict),
    "EMPTY_SET": _pushing(lambda: Made("builtins.set")),
    "MARK": _Reader.mark,
    "POP": _Reader.pop,
    "POP_MARK": _Reader.since_mark,
    "DUP": _Reader.duplicate,
    "MEMOIZE": _Reader.remember,
    "TUPLE": _Reader.marked_tuple,
    "LIST": _Reader.marked_list,
    "DICT": _Reader.marked_dict,
    "APPEND": _Reader.append,
    "APPENDS": _Reader.append_all,
    "ADDITEMS": _Reader.append_all,
    "SETITEM": _Reader.set_item,
    "SETITEMS": _Reader.set_items,
    "FROZENSET": _Reader.frozen_set,
    "STACK_GLOBAL": _Reader.named_on_stack,
    "REDUCE": _Reader.call,
    "NEWOBJ": _Reader.call,
    "NEWOBJ_EX": _Reader.call_with_keywords,
    "OBJ": _Reader.marked_call,
    "BUILD": _Reader.set_state,
    "BINPERSID": _Reader.refer,
}
_ARGUED: Mapping[str, Callable[[_Reader, Any], Any]] = {
    **{name: lambda reader, value: reader.stack.append(value) for name in _NUMBERS_AND_TEXTS},
    "PROTO": _require_protocol,
    "FRAME": lambda reader, size: None,  # how much to read at once
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _Reader.remember),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Reader.recall),
    "GLOBAL": _Reader.named,
    "INST": _Reader.named_call,
}
_DESCRIBED = {opcode.code.encode("latin-1"): opcode.name for opcode in pickletools.opcodes} | {b"": "it ends"}
_ACTIONS: dict[bytes, _Action] = {
    opcode.code.encode("latin-1"): _PLAIN.get(opcode.name) or _with_argument(opcode, _ARGUED[opcode.name])
    for opcode in pickletools.opcodes
    if opcode.name in _PLAIN or opcode.name in _ARGUED
}
