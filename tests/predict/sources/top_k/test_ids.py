import pyarrow as pa
import pytest

from kgprobe.predict.readers.names import Names
from kgprobe.predict.sources.top_k.ids import Ids
from kgprobe.predict.sources.top_k.line import LineError


def test_numbers_are_ids_and_texts_are_names() -> None:
    ids = Ids(Names.build("entity", 4, pa.array(["3", "Ada", None, "x"])))
    assert ids.of([3, "3", "Ada", "2", 0]) == [3, 0, 1, 2, 0]


def test_without_labels_a_text_is_an_id() -> None:
    assert Ids(Names.build("entity", 12, None)).of(["11", 11, "0"]) == [11, 11, 0]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ([4], "4 is no entity id (0..3)"),
        ([-1], "-1 is no entity id (0..3)"),
        (["Adda"], "'Adda' is no known entity (nearest: 'Ada')"),
        (["Zzzz"], "'Zzzz' is no known entity"),
        (["Eve"], "'Eve' is the name of more than one entity"),
        (
            [9, "Ada", 8, 7, 6],
            "9 is no entity id (0..3), 8 is no entity id (0..3), 7 is no entity id (0..3) and 1 more",
        ),
    ],
)
def test_what_is_unknown_is_named(names: list[str | int], problem: str) -> None:
    ids = Ids(Names.build("entity", 4, pa.array(["Ada", "Bob", "Eve", "Eve"])))
    with pytest.raises(LineError) as caught:
        ids.of(names)
    assert str(caught.value) == problem


def test_nearest_names_are_not_looked_for_without_end() -> None:
    ids = Ids(Names.build("entity", 2, pa.array(["Ada", "Bob"])))
    said = []
    for _ in range(30):
        with pytest.raises(LineError) as caught:
            ids.of(["Adda"])
        said.append(str(caught.value))
    assert "nearest" in said[0]
    assert "nearest" not in said[-1]
