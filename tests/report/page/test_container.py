import gzip
import json

import numpy as np
import pytest

from kgprobe.report.page.container import pack, unpack


@pytest.mark.parametrize(
    ("largest", "kind"), [(0, "u1"), (255, "u1"), (256, "u2"), (65535, "u2"), (65536, "u4"), (2**32 - 1, "u4")]
)
def test_whole_numbers_take_as_few_bytes_as_they_need(largest: int, kind: str) -> None:
    packed = pack({}, {"numbers": np.array([0, largest])})
    content = gzip.decompress(packed)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["arrays"]["numbers"] == [kind, 0, 2, False]
    assert unpack(packed)[1]["numbers"].tolist() == [0, largest]


def test_doubles_keep_every_bit() -> None:
    numbers = np.random.default_rng(0).random(100) * 10.0 ** np.arange(-50, 50)
    assert unpack(pack({}, {"numbers": numbers}))[1]["numbers"].tobytes() == numbers.tobytes()


def test_every_array_begins_where_its_numbers_may() -> None:
    arrays = {name: np.arange(length) for name, length in (("one", 1), ("three", 3), ("many", 300), ("none", 0))}
    arrays["doubles"] = np.array([0.5])
    packed = pack({"text": "odd"}, arrays)
    content = gzip.decompress(packed)
    start = 8 + int.from_bytes(content[:8], "little")
    places = json.loads(content[8:start])["arrays"]
    assert start % 8 == 0
    assert all(offset % 8 == 0 for _, offset, _, _ in places.values())
    assert {name: array.tolist() for name, array in unpack(packed)[1].items()} == {
        name: array.tolist() for name, array in arrays.items()
    }


def test_steps_come_back_as_the_values_and_cost_nothing_where_they_repeat() -> None:
    sides = np.tile(np.arange(100_000), 2)
    packed = pack({}, {"triple": sides}, frozenset({"triple"}))
    assert np.array_equal(unpack(packed)[1]["triple"], sides)
    assert len(packed) < 2_000 < 100_000 < len(pack({}, {"triple": sides}))


def test_the_same_content_is_the_same_bytes() -> None:
    packed = pack({"a": 1}, {"b": np.arange(5)})
    assert packed == pack({"a": 1}, {"b": np.arange(5)})
    assert packed[4:8] == bytes(4), "the time of writing must not be in it"


def test_text_that_is_no_text_does_not_stop_it() -> None:
    assert unpack(pack({"file": "caf\udce9.parquet"}, {}))[0] == {"file": "caf?.parquet"}


def test_no_number_is_refused_rather_than_written_as_invalid_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        pack({"value": float("nan")}, {})
