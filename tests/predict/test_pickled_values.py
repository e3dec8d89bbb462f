import collections
import io
import os
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.predict.pickled_values import Bytes, Made, Named, mapping_of, pickled_array, read_pickle, shown

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()

VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


def _write(folder: Path, raw: bytes, name: str = "value.pkl") -> Path:
    path = folder / name
    path.write_bytes(raw)
    return path


@given(VALUES, st.sampled_from(PROTOCOLS))
def test_values_are_those_of_pickle(tmp_path_factory: pytest.TempPathFactory, value: Any, protocol: int) -> None:
    raw = pickle.dumps(value, protocol=protocol)
    path = _write(tmp_path_factory.getbasetemp(), b"before" + raw + b"after")
    pickled = read_pickle(path, 6)
    assert (pickled.value, pickled.names, pickled.end) == (value, frozenset(), 6 + len(raw))


def test_shared_values_are_shared(tmp_path: Path) -> None:
    inner: list[Any] = [1]
    value: list[Any] = [inner, inner]
    value.append(value)
    for protocol in PROTOCOLS:
        found = read_pickle(_write(tmp_path, pickle.dumps(value, protocol=protocol))).value
        assert found[0] is found[1]
        assert found[2] is found


def test_values_are_recalled_by_any_index(tmp_path: Path) -> None:
    raw = b"\x80\x02(K\x01q\x07K\x02r\x03\x00\x01\x00h\x07j\x03\x00\x01\x00K\x05q\x07h\x07t."
    assert read_pickle(_write(tmp_path, raw)).value == (1, 2, 1, 2, 5, 5) == pickle.loads(raw)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_containers_of_classes(tmp_path: Path, protocol: int) -> None:
    ordered = collections.OrderedDict(a=1, b=[2])
    counts = collections.defaultdict(list, {"x": [1]})
    value = [ordered, counts, {1, 2}, frozenset({3}), np.float64(0.5), Named("nobody")]
    found = read_pickle(_write(tmp_path, pickle.dumps(value, protocol=protocol)))
    assert [mapping_of(one) for one in found.value[:2]] == [{"a": 1, "b": [2]}, {"x": [1]}]
    assert mapping_of(found.value[4]) is None
    assert {"collections.OrderedDict", "collections.defaultdict", "builtins.list"} <= {
        name.replace("__builtin__", "builtins") for name in found.names
    }
    assert all(isinstance(one, Made) for one in found.value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_called(tmp_path: Path, protocol: int) -> None:
    harm = tmp_path / "harm"

    class Harmful:
        def __reduce__(self) -> Any:
            return os.system, (f"touch '{harm}'",)

    found = read_pickle(_write(tmp_path, pickle.dumps([Harmful()], protocol=protocol)))
    (made,) = found.value
    assert (made.name, made.arguments) == (f"{os.system.__module__}.system", (f"touch '{harm}'",))
    assert found.names == {made.name}
    assert not harm.exists()


class Referring(pickle.Pickler):
    """Refers to bytes by their number."""

    def persistent_id(self, value: Any) -> Any:
        return ("storage", len(value)) if isinstance(value, bytes) else None


def test_references(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Referring(buffer, protocol=2).dump([b"abc", b""])
    found = read_pickle(_write(tmp_path, buffer.getvalue()))
    assert [one.arguments for one in found.references] == [("storage", 3), ("storage", 0)]
    assert list(found.references) == found.value


ARRAYS = {
    "two dimensions": np.arange(6, dtype=np.float32).reshape(2, 3),
    "by column": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "a view": np.arange(24, dtype=np.float32).reshape(4, 6)[::2, 1::2],
    "big-endian": np.arange(6, dtype=">f4").reshape(3, 2),
    "half precision": np.arange(6, dtype=np.float16).reshape(3, 2),
    "empty": np.empty((0, 3), dtype=np.float32),
    "read-only": np.broadcast_to(np.float32(1), (2, 2)),
    "large": np.random.default_rng(0).normal(size=(3000, 10)),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_arrays_stay_in_the_file(tmp_path: Path, name: str, protocol: int) -> None:
    array = ARRAYS[name]
    path = _write(tmp_path, pickle.dumps({"before": "text", "table": array}, protocol=protocol))
    stored = pickled_array(path, "table", read_pickle(path).value["table"])
    assert stored is not None
    assert stored.name == "table"
    np.testing.assert_array_equal(stored.rows(slice(None)), array)


@pytest.mark.parametrize(
    "value", [None, [1.0], {"a": 1}, np.ones(3, dtype=np.int32), np.array(["a"]), np.array([None]), np.float32(1)]
)
def test_what_is_no_array_of_floats(tmp_path: Path, value: Any) -> None:
    path = _write(tmp_path, pickle.dumps(value, protocol=4))
    assert pickled_array(path, "table", read_pickle(path).value) is None


def test_an_array_of_another_size(tmp_path: Path) -> None:
    path = _write(tmp_path, b"")
    kind = Made("numpy.dtype", ("f4", False, True), (3, "<", None))
    for shape, length, said in [((2, 3), 23, "23 bytes"), ((2**40, 2**40), 4, "impossible shape")]:
        made = Made("numpy.core.multiarray._reconstruct", state=(1, shape, kind, False, Bytes(0, length)))
        with pytest.raises(ValueError, match=said):
            pickled_array(path, "table", made)


DAMAGED = {
    "nothing": b"",
    "no end": b"\x80\x04]",
    "two values": b"\x80\x04]].",
    "an unknown instruction": b"\xff.",
    "an extension": b"\x80\x02\x82\x01.",
    "a buffer elsewhere": b"\x80\x05\x97.",
    "text of Python 2": b"U\x01a.",
    "no mark": b"\x80\x02u.",
    "an absent value": b"h\x05.",
    "a state for a list": b"\x80\x02]}b.",
    "a key that is a list": b"\x80\x02}]K\x01s.",
    "a key that is a tuple of tuples": b"\x80\x02}))\x86K\x01s.",
    "a call of a text": b"\x80\x02X\x01\x00\x00\x00a)R.",
    "a call without arguments": b"\x80\x02cos\nsystem\n]R.",
    "a class without a name": b"\x80\x04]]\x93.",
    "odd items": b"\x80\x02}(K\x01u.",
    "an empty tuple of two": b"\x80\x02\x86.",
    "text that is not UTF-8": b"\x80\x02X\x01\x00\x00\x00\xff.",
    "many bytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b".",
    "many bytes of an array": b"\x80\x05\x96" + struct.pack("<Q", (1 << 64) - 1) + b".",
    "a long text": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"a.",
    "a negative length": b"\x80\x02\x8b" + struct.pack("<i", -5) + b".",
    "no number": b"Iabc\n.",
    "a decimal number of many digits": b"I" + b"9" * 5000 + b"\n.",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_pickles(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path, DAMAGED[name])
    with pytest.raises(ValueError, match=r"pickle|empty file"):
        read_pickle(path)


def test_an_index_does_not_take_memory(tmp_path: Path) -> None:
    """The unpickler of Python makes room for every smaller index."""
    path = _write(tmp_path, b"\x80\x02]r\xff\xff\xff\xff.")
    tracemalloc.start()
    assert read_pickle(path).value == []
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_pickle_ends_in_its_place(tmp_path: Path) -> None:
    path = _write(tmp_path, pickle.dumps("a text") + b"more")
    with pytest.raises(ValueError, match="longer than its place"):
        read_pickle(path, 0, 8)


def test_deep_and_shared_values_are_read_and_shown(tmp_path: Path) -> None:
    deep = b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."
    assert isinstance(read_pickle(_write(tmp_path, deep)).value, list)
    doubling: list[Any] = []
    for _ in range(100):
        doubling = [doubling, doubling]
    assert shown(read_pickle(_write(tmp_path, pickle.dumps(doubling))).value) == "a list"
    assert shown(read_pickle(_write(tmp_path, pickle.dumps(1 << 100_000))).value) == "a large integer"
