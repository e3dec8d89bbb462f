from pathlib import Path

import numpy as np
import pyarrow as pa

from kgprobe.ranks.checks import entity_rules
from kgprobe.ranks.importers.draft import Draft


def _draft() -> Draft:
    columns = {
        "head": pa.array([0, 9, 2]),
        "relation": pa.array([0, 0, 0]),
        "tail": pa.array([1, 1, 1]),
        "side": pa.array(["head", "tail", None]),
        "rank": pa.array([1.0, None, 3.0]),
        "candidates": pa.array([9, 9, 2]),
    }
    return Draft(Path("x.csv"), rows=3, columns=columns)


def test_what_breaks_the_rules_of_a_rank_table_is_found() -> None:
    assert _draft().judge(entity_rules(9)) == [
        "side is missing: 1 row (row 3)",
        "rank is missing: 1 row (row 2)",
        "rank is larger than the number of candidates: 1 row (row 3)",
        "an entity id is outside the graph (0..8): 1 row (row 2)",
    ]


def test_what_could_not_be_read_is_not_also_missing() -> None:
    draft = _draft()
    draft.refuse("rank", "rank is odd", np.array([False, True, False]))
    assert draft.judge(()) == [
        "rank is odd: 1 row (row 2)",
        "side is missing: 1 row (row 3)",
        "rank is larger than the number of candidates: 1 row (row 3)",
    ]


def test_nothing_refused_is_nothing_said() -> None:
    draft = _draft()
    draft.refuse("rank", "rank is odd", np.zeros(3, dtype=bool))
    assert (draft.problems, draft.malformed) == ([], set())


def test_a_column_that_needs_something_is_null_and_not_missing() -> None:
    draft = _draft()
    del draft.columns["candidates"]
    draft.require("candidates", "say how many")
    assert draft.table().column("candidates").null_count == 3
    assert not any("candidates" in problem for problem in draft.judge(()))
    assert draft.needs == ["say how many"]


def test_a_file_that_could_not_be_read_has_no_other_fault() -> None:
    assert Draft(Path("x.csv"), problems=["it is empty"]).judge(()) == ["it is empty"]


def test_labels_are_the_columns_beyond_the_canonical_ones() -> None:
    draft = _draft()
    draft.columns["kind"] = pa.array(["a", "b", "c"])
    assert draft.label_columns == ["kind"]
