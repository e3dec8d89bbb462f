from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.labels import infer_types


def _inferred(*files: list[str | None]) -> list[list[Any]]:
    drafts = [Draft(Path("x.csv"), columns={"label": pa.array(values, pa.string())}) for values in files]
    infer_types(drafts)
    assert len({str(draft.columns["label"].type) for draft in drafts}) == 1
    return [draft.columns["label"].to_pylist() for draft in drafts]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (["1", "-2", "3.0"], [1, -2, 3]),
        (["1", "2.5", ""], [1.0, 2.5, None]),
        (["1", "NA"], [1, None]),
        (["1", "nan"], [1, None]),
        (["1.5", "NaN"], [1.5, None]),
        (["a", "NA", ""], ["a", "NA", None]),
        (["007", "12"], ["007", "12"]),
        (["0", "0.5"], [0.0, 0.5]),
        (["", ""], [None, None]),
        (["9007199254740993"], [9007199254740992.0]),
    ],
)
def test_text_is_numbers_where_all_of_it_is(text: list[str | None], values: list[Any]) -> None:
    (found,) = _inferred(text)
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


def test_all_files_have_to_agree() -> None:
    assert _inferred(["1", "2"], ["x"]) == [["1", "2"], ["x"]]
    assert _inferred(["1", "2"], ["1.5"]) == [[1.0, 2.0], [1.5]]
    assert _inferred([""], ["3"]) == [[None], [3]]


def test_canonical_columns_are_left_alone() -> None:
    draft = Draft(Path("x.csv"), columns={"side": pa.array(["1"]), "x": pa.array(["1"])})
    infer_types([draft, Draft(Path("y.csv"))])
    assert (draft.columns["side"].to_pylist(), draft.columns["x"].to_pylist()) == (["1"], [1])
