import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.predict.readers.names import Names
from kgprobe.predict.sources.files.names import ids_by_name


@given(st.permutations(["a", "b", "", "ä", "3"]))
def test_every_row_goes_to_the_id_of_its_name(rows: list[str]) -> None:
    labels = ["a", "b", "", "ä", "3"]
    ids = ids_by_name("entities", pa.array(rows), Names.build("entity", 5, pa.array(labels)), [])
    assert ids is not None
    assert ids.tolist() == [labels.index(name) for name in rows]


def test_ids_stand_for_names_that_are_not_there() -> None:
    ids = ids_by_name("entities", pa.array(["2", "0", "1"]), Names.build("entity", 3, None), [])
    assert ids is not None
    assert ids.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("rows", "labels", "expected"),
    [
        (
            ["a", "x", "a", "y"],
            ["a", "b", "c"],
            [
                "entities: 2 names that the graph does not have, or has twice: 'x', 'y'",
                "entities: 1 names given more than once: 'a'",
                "entities: 2 names of the graph that are not given: 'b', 'c'",
            ],
        ),
        (["a", "b"], ["a", "a"], ["entities: 2 names that the graph does not have, or has twice: 'a', 'b'"]),
        (
            [],
            [f"e{i}" for i in range(12)],
            [
                "entities: 12 names of the graph that are not given: "
                "'e0', 'e1', 'e2', 'e3', 'e4', 'e5', 'e6', 'e7', 'e8', 'e9' and 2 more"
            ],
        ),
    ],
)
def test_names_that_do_not_match(rows: list[str], labels: list[str], expected: list[str]) -> None:
    problems: list[str] = []
    names = Names.build("entity", len(labels), pa.array(labels))
    assert ids_by_name("entities", pa.array(rows, pa.string()), names, problems) is None
    assert problems == expected
