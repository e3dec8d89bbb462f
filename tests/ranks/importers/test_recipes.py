from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.ranks.importers.columns import Naming
from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.recipes import Recipe, agrees, apply_recipe, choose_recipe


def _choose(*columns: str, chosen: frozenset[str] = frozenset()) -> Recipe | None:
    return choose_recipe(Naming({name: name for name in columns}, chosen))


def _read(**columns: list[Any]) -> tuple[dict[str, list[Any]], Draft]:
    recipe = _choose(*columns)
    assert recipe is not None
    draft = Draft(Path("x.csv"))
    found = apply_recipe(draft, {name: pa.array(values) for name, values in columns.items()}, recipe)
    return {name: column.to_pylist() for name, column in found.items()}, draft


@given(st.lists(st.lists(st.integers(0, 5), min_size=1), min_size=1))
def test_all_recipes_say_what_counting_says(scores: list[list[int]]) -> None:
    better = [sum(s > row[0] for s in row[1:]) for row in scores]
    equal = [sum(s == row[0] for s in row[1:]) for row in scores]
    # The mean place of the target over all orders of those that tie with it.
    rank = [float(np.mean([b + 1 + place for place in range(e + 1)])) for b, e in zip(better, equal, strict=True)]
    best, worst = [b + 1 for b in better], [b + 1 + e for b, e in zip(better, equal, strict=True)]
    expected = {"rank": rank, "ties": equal}
    assert _read(greater=better, equal=equal)[0] == expected
    assert _read(greater=better, ties=equal)[0] == expected
    assert _read(optimistic=best, pessimistic=worst)[0] == expected
    assert _read(optimistic=list(map(str, best)), pessimistic=list(map(str, worst)))[0] == expected
    assert _read(rank=rank, ties=equal)[0] == expected
    assert _read(rank=rank)[0] == {"rank": rank}


def test_more_information_is_preferred_unless_the_user_names_a_column() -> None:
    everything = ("rank", "ties", "optimistic", "pessimistic", "greater", "equal")
    assert getattr(_choose(*everything), "sources", None) == ("optimistic", "pessimistic")
    assert getattr(_choose(*everything, chosen=frozenset({"rank"})), "sources", None) == ("rank", "ties")
    assert getattr(_choose(*everything, chosen=frozenset({"greater"})), "sources", None) == ("greater", "equal")
    assert getattr(_choose("rank", "optimistic"), "sources", None) == ("rank",)


@pytest.mark.parametrize("columns", [(), ("ties",), ("greater",), ("equal",), ("optimistic",), ("pessimistic", "ties")])
def test_half_a_recipe_is_none(columns: tuple[str, ...]) -> None:
    assert _choose(*columns) is None


def test_missing_and_nan_ranks_stay_apart() -> None:
    found, draft = _read(rank=["", "nan", "1"])
    assert found["rank"][0] is None
    assert np.isnan(found["rank"][1])
    assert draft.problems == []


def test_unreadable_columns_make_the_rank_unreadable() -> None:
    found, draft = _read(optimistic=["x", "1"], pessimistic=["2", "2"])
    assert found["rank"] == [None, 1.5]
    assert draft.problems == ["optimistic is not a number, for example 'x': 1 row (row 1)"]
    assert "rank" in draft.malformed


def test_ties_that_are_not_whole_are_refused() -> None:
    found, draft = _read(optimistic=[1.0, 1.0], pessimistic=[2.5, 2.0])
    assert found["ties"] == [None, 1]
    assert draft.problems == ["optimistic and pessimistic give no whole number of ties: 1 row (row 1)"]


def test_ties_need_not_be_recorded_in_every_row() -> None:
    assert _read(rank=[1, 2], ties=[None, 2])[0] == {"rank": [1, 2], "ties": [None, 2]}


def test_a_count_that_seems_to_include_the_target_is_remarked() -> None:
    assert _read(greater=[0, 1], equal=[1, 2])[1].notes == [
        "equal is at least 1 in every row: it must not count the target itself"
    ]
    assert _read(greater=[0, 1], equal=[0, 2])[1].notes == []


def test_a_superfluous_column_either_agrees_or_is_remarked() -> None:
    draft = Draft(Path("x.csv"))
    derived = pa.array([1.5, 2.0, 3.0])
    assert agrees(draft, "rank", pa.array(["1.5", "2", "3.0"]), derived)
    assert draft.notes == []
    assert not agrees(draft, "rank", pa.array(["1.5", "2.5", "x"]), derived)
    assert draft.notes == ["column 'rank' says otherwise in 2 rows; kept as 'source_rank'"]
    assert draft.problems == []
    assert not agrees(draft, "ties", pa.array([0, 0, 0]), None)
