import numpy as np
import pytest

from kgprobe.compare.audit.rules import broken_rules, unreadable
from kgprobe.errors import DataError
from planting import planted


def test_a_sound_table_breaks_no_rule(on_nations, nations) -> None:
    assert broken_rules("CP", on_nations["CP"], nations) == []


BROKEN = {
    "ranks count from 1, and not from 0": {"rank": np.arange(402) % 2, "ties": None},
    "rank is larger than the number of candidates": {"rank": np.full(402, 99.0), "ties": None},
    "the rank must be the mean over the tie group": {"rank": np.ones(402), "ties": np.full(402, 2)},
    "a share of the degree": {"relation_popularity": np.full(402, 7.0)},
    "a relation id is outside the graph (0..54): 402 rows": {"relation": np.full(402, 55)},
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named_with_a_likely_cause(on_nations, nations, name: str) -> None:
    found = broken_rules("CP", planted(on_nations["CP"], **BROKEN[name]), nations)
    assert {(finding.models, finding.kind, finding.severity) for finding in found} == {(("CP",), "rules", "error")}
    assert any(name in finding.message for finding in found), [finding.message for finding in found]


def test_a_file_that_cannot_be_read_says_why() -> None:
    found = unreadable("mine", DataError("mine: damaged", ["its end is missing", "it is old"]))
    assert [finding.message for finding in found] == ["its end is missing", "it is old"]
    assert [finding.message for finding in unreadable("mine", DataError("mine: no such file"))] == [
        "mine: no such file"
    ]
