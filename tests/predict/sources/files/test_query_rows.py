from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.predict.scorer import Side
from kgprobe.predict.sources.files import query_rows
from kgprobe.predict.sources.files.query_rows import QueryRows, RowReader, other_triples

TRIPLES = np.array([[7, 0, 1], [4, 1, 1], [7, 0, 2], [4, 0, 1], [7, 0, 1]])


def _rows(
    values: NDArray[np.float64], side: Side, problems: list[str], triples: NDArray[np.int64] = TRIPLES
) -> QueryRows:
    reader = RowReader(f"{side} scores", values.shape[1], lambda rows: values[rows])
    return QueryRows.of_triples(Path("m.npz"), triples, 2, {side: reader}, problems)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)), min_size=1))
def test_rows_are_those_that_a_dictionary_finds(asked: list[tuple[int, int, int]]) -> None:
    triples = np.array(asked)
    values = {"tail": triples[:, :1] * 10.0 + triples[:, 1:2], "head": triples[:, 2:] * 10.0 + triples[:, 1:2]}
    for side, given_column in (("tail", 0), ("head", 2)):
        problems: list[str] = []
        rows = _rows(values[side], side, problems, triples)  # type: ignore[arg-type]
        assert problems == []
        found = rows.find(side, triples[::-1, given_column], triples[::-1, 1])  # type: ignore[arg-type]
        assert found.tolist() == values[side][::-1].tolist()


def test_rows_of_the_same_query_that_differ_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([[1.0, 2], [3, 4], [1, 2], [5, np.nan], [1, 2.5]])
    for block in (1, 1 << 21):
        monkeypatch.setattr(query_rows, "_BLOCK_NUMBERS", block)
        problems: list[str] = []
        _rows(values, "tail", problems)
        assert problems == ["tail scores: rows of the same query differ (counted from 0): 0 and 4"]
        problems.clear()
        _rows(values, "head", problems)
        assert problems == ["head scores: rows of the same query differ (counted from 0): 0 and 3, 0 and 4"]


def test_many_differing_pairs_are_counted() -> None:
    problems: list[str] = []
    _rows(np.arange(9.0)[:, None], "tail", problems, np.zeros((9, 3), dtype=np.int64))
    assert problems == [
        "tail scores: rows of the same query differ (counted from 0): "
        "0 and 1, 0 and 2, 0 and 3, 0 and 4, 0 and 5 and 3 more pairs"
    ]


def test_nan_is_like_nan() -> None:
    problems: list[str] = []
    _rows(np.full((2, 3), np.nan), "tail", problems, np.zeros((2, 3), dtype=np.int64))
    assert problems == []


def test_a_side_that_is_not_there() -> None:
    with pytest.raises(DataError, match=r"m\.npz: no rows for queries of the head side") as caught:
        _rows(np.zeros((5, 2)), "tail", []).find("head", np.array([1]), np.array([0]))
    assert caught.value.problems == ["there are rows for the tail side"]
    assert caught.value.remedy == "rank the tail side alone, or add the rows"


def test_queries_that_are_not_there() -> None:
    rows = _rows(np.zeros((5, 2)), "tail", [])
    with pytest.raises(DataError, match="no rows for some queries of the tail side") as caught:
        rows.find("tail", np.array([7, 7, 1]), np.array([0, 1, 0]))
    assert caught.value.problems == ["entity 7, relation 1", "entity 1, relation 0"]
    with pytest.raises(DataError) as caught:
        rows.find("tail", np.arange(100, 110), np.zeros(10, dtype=int))
    assert caught.value.problems[-1] == "and 5 more"


def test_no_triples_at_all() -> None:
    problems: list[str] = []
    rows = _rows(np.empty((0, 2)), "tail", problems, np.empty((0, 3), dtype=np.int64))
    assert rows.find("tail", np.empty(0, dtype=int), np.empty(0, dtype=int)).shape == (0, 2)
    assert problems == []


def test_other_triples() -> None:
    assert other_triples(TRIPLES.astype(np.int32), TRIPLES) == []
    swapped = TRIPLES[[0, 2, 1, 3, 4]]
    assert other_triples(swapped, TRIPLES) == ["triples: not those that are ranked in rows 1-2 (counted from 0)"]
