"""JSON files with a hash: what was written is read, and nothing else."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.errors import DataError
from kgprobe.json_files import content_hash, field_problems, read_json, write_json

CONTENT = {
    "name": "ä \u2028",
    "epochs": 3,
    "score": 0.1 + 0.2,
    "nothing": None,
    "lists": [[1, 2], []],
    "in": {"x": 1e-320},
}

FIELDS = {"name": str, "epochs": int, "score": float, "lists": list, "in": {"x": float}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_json(tmp_path / "deep" / "a.json", CONTENT)
    return tmp_path / "deep" / "a.json"


def test_what_is_written_is_read_back(path: Path) -> None:
    assert read_json(path, FIELDS) == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"]


def test_numbers_that_json_does_not_have_are_kept(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"values": [math.nan, math.inf, -0.0]})
    nan, inf, zero = read_json(tmp_path / "a.json", {})["values"]
    assert (math.isnan(nan), inf, math.copysign(1, zero)) == (True, math.inf, -1)


def test_another_layout_of_the_same_content_is_the_same(path: Path) -> None:
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps(dict(reversed(content.items()))), encoding="utf-8")
    assert read_json(path, FIELDS) == CONTENT


def test_every_flipped_bit_is_refused_or_changes_nothing(path: Path) -> None:
    whole = path.read_bytes()
    same = 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert read_json(path, FIELDS) == CONTENT, bit
            same += 1
        except DataError:
            pass
    assert same < len(whole)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"\xff", "codec can't decode"),
        (b"5", "not an object"),
        (b"null", "not an object"),
        (b"[" * 99_999, "nested too deeply"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "name is missing"),
        (b'{"a": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
        (b'{"name": "\\ud800"}', "surrogates not allowed"),
    ],
)
def test_other_content_is_refused(content: bytes, said: str, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_json(path, FIELDS, "copy it")
    assert said in str(error.value)
    assert error.value.remedy == "copy it"


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    for place in (tmp_path / "none.json", tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            read_json(place, {})


def test_a_file_without_a_hash_is_only_read_where_it_may_lack_one(path: Path) -> None:
    path.write_text(json.dumps(CONTENT), encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_json(path, FIELDS)
    assert error.value.problems == ["sha256 is missing"]
    assert read_json(path, FIELDS, hashless=lambda content: content["epochs"] == 3) == CONTENT


@pytest.mark.parametrize("found", [None, 5, "", [], "0" * 64, {"a": 1}], ids=str)
def test_a_hash_that_is_none(found: Any, path: Path) -> None:
    path.write_text(json.dumps(CONTENT | {"sha256": found}), encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_json(path, FIELDS)
    assert "sha256" in error.value.problems[0]


@pytest.mark.parametrize(
    ("kind", "fitting", "others"),
    [
        (str, ["", "x"], [None, 5, b"x", ["x"]]),
        (int, [0, 2**63 - 1], [-1, 2**63, 10**5000, True, 1.0, "1", None]),
        (float, [0, -1, 0.5, math.nan, math.inf], [True, "0.5", None, 10**400, [0.5]]),
        (list, [[], [1]], [(), {}, "x", None]),
        (dict, [{}, {"a": 1}], [[], None, "x"]),
        ({"a": int}, [{"a": 1}, {"a": 1, "b": 2}], [{}, {"a": None}, [], 5]),
    ],
)
def test_types_of_fields(kind: Any, fitting: list[Any], others: list[Any]) -> None:
    for value in fitting:
        assert list(field_problems({"own": value}, {"own": kind})) == []
    for value in others:
        (problem,) = field_problems({"own": value}, {"own": kind})
        assert problem.startswith("own")
        assert len(problem) < 200


def test_the_hash_depends_on_every_value() -> None:
    rng = np.random.default_rng(0)
    contents = [{"values": rng.integers(0, 2, 8).tolist(), "name": str(i % 3)} for i in range(200)]
    distinct = {json.dumps(content, sort_keys=True) for content in contents}
    assert len({content_hash(content) for content in contents}) == len(distinct)
