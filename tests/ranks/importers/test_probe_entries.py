from pathlib import Path
from typing import Any

import pytest

from kgprobe.ranks.importers import probe_entries
from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.probe_entries import read_entries

GOOD: list[Any] = [[0, 1, 2], "h", 1.5, 0.5, 0.25, 3]


def _read(*entries: Any) -> tuple[dict[str, list[Any]], list[str]]:
    draft = Draft(Path("x.json"))
    found = read_entries(list(entries), draft)
    return {name: column.to_pylist() for name, column in vars(found).items()}, draft.problems


def _with(position: int, value: Any) -> list[Any]:
    return [*GOOD[:position], value, *GOOD[position + 1 :]]


EXPECTED: dict[str, list[Any]] = {
    "head": [0],
    "relation": [1],
    "tail": [2],
    "side": ["head"],
    "rank": [1.5],
    "relation_popularity": [0.5],
    "entity_popularity": [0.25],
    "filtered": [3],
}


def test_fields_become_columns() -> None:
    assert _read(GOOD) == (EXPECTED, [])
    assert _read(GOOD, _with(1, "t"))[0]["side"] == ["head", "tail"]


def test_good_entries_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_entries, "_one_by_one", None)
    assert _read(GOOD, _with(2, 7), _with(3, 0), _with(4, 1))[1] == []


def test_the_slow_way_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_entries, "_whole_columns", lambda _entries: None)
    assert _read(GOOD) == (EXPECTED, [])


def test_whole_numbers_may_be_written_as_floats() -> None:
    assert _read(_with(0, [0.0, 1, 2.0]), _with(5, 3.0)) == ({k: v * 2 for k, v in EXPECTED.items()}, [])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (GOOD[:5], "the entry is not a list of 6 fields"),
        ([*GOOD, 0], "the entry is not a list of 6 fields"),
        ({"head": 0}, "the entry is not a list of 6 fields"),
        ("abcdef", "the entry is not a list of 6 fields"),
        (None, "the entry is not a list of 6 fields"),
        (_with(0, [0, 1]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, [0, 1, "2"]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, [0, 1, True]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, [0, 1, 2.5]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, [0, 1, 2**63]), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(0, "012"), "the triple is not [head, relation, tail] in whole numbers"),
        (_with(1, "head"), 'the side is neither "h" nor "t"'),
        (_with(1, 1), 'the side is neither "h" nor "t"'),
        (_with(1, ["h"]), 'the side is neither "h" nor "t"'),
        (_with(2, "1"), "the rank is not a finite number"),
        (_with(2, None), "the rank is not a finite number"),
        (_with(2, 10**400), "the rank is not a finite number"),
        (_with(3, "x"), "delta(r|e) is not a finite number"),
        (_with(3, float("nan")), "delta(r|e) is not between 0 and 1"),
        (_with(3, 1.5), "delta(r|e) is not between 0 and 1"),
        (_with(4, None), "delta(e) is not a finite number"),
        (_with(4, -0.1), "delta(e) is not between 0 and 1"),
        (_with(5, 1.5), "the number of filtered entities is not a whole number"),
        (_with(5, float("inf")), "the number of filtered entities is not a whole number"),
        (_with(5, "3"), "the number of filtered entities is not a whole number"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said_with_its_number(entry: Any, said: str) -> None:
    found, problems = _read(GOOD, entry, GOOD)
    assert problems == [f"{said}: 1 row (row 2)"]
    for values in found.values():
        assert len(values) == 3
        assert values[0] == values[2] is not None


def test_all_kinds_of_problems_are_said_at_once() -> None:
    entries = [_with(1, "x"), _with(2, "x"), [], _with(0, None), _with(1, None), _with(4, 2), _with(5, None)]
    assert _read(*entries)[1] == [
        "the entry is not a list of 6 fields: 1 row (row 3)",
        "the triple is not [head, relation, tail] in whole numbers: 1 row (row 4)",
        'the side is neither "h" nor "t": 2 rows (rows 1, 5)',
        "the rank is not a finite number: 1 row (row 2)",
        "the number of filtered entities is not a whole number: 1 row (row 7)",
        "delta(e) is not between 0 and 1: 1 row (row 6)",
    ]
