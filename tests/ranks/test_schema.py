from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks, RanksInfo, validate
from kgprobe.ranks.schema import (
    COLUMNS,
    RULES,
    SAMPLE_RULES,
    Checker,
    conform,
    entity_rules,
    query_hashes,
    table_of,
)


def _table(**changes: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "candidates": [9],
        "rank": [1.5],
        "side": ["tail"],
        "tail": [2],
        "relation": [0],
        "head": [1],
    }
    return pa.table({name: values for name, values in (columns | changes).items() if values is not None})


def test_columns_get_their_types_and_their_order_and_labels_stay() -> None:
    table = _table(
        kind=["easy"],
        head=pa.array([1], pa.int32()),
        relation=pa.array([7]).dictionary_encode(),
        tail=pa.array([2.0]),
        rank=pa.array([3], pa.float32()),
        candidates=pa.array([9.0]),
        seed=pa.array([4], pa.uint8()),
        side=pa.array(["tail"], pa.large_string()),
    )
    result = conform(table)
    assert result.column_names == ["head", "relation", "tail", "side", "rank", "candidates", "seed", "kind"]
    assert {name: result.schema.field(name).type for name in result.column_names[:-1]} == {
        name: COLUMNS[name] for name in result.column_names[:-1]
    }
    assert result.to_pylist() == [
        {"head": 1, "relation": 7, "tail": 2, "side": "tail", "rank": 3.0, "candidates": 9, "seed": 4, "kind": "easy"}
    ]


def test_everything_that_is_wrong_with_the_columns_is_said_at_once() -> None:
    table = _table(side=None, head=["Ada"], rank=[[1]], candidates=[float("nan")], tail=[0.5])
    table = table.append_column("relation", pa.array([0]))
    with pytest.raises(DataError) as caught:
        conform(table)
    starts = [problem.split(",")[0].split(":")[0] for problem in caught.value.problems]
    assert starts == [
        "column 'side' is missing",
        "column 'relation' occurs twice",
        "column 'head' holds string",
        "column 'tail' holds double",
        "column 'rank' holds list<item",
        "column 'candidates' holds double",
    ]
    assert "the columns found are: candidates, rank, tail, relation, head;" in caught.value.remedy


def test_more_sides_than_can_be_counted_are_refused_as_sides() -> None:
    n = 300
    table = _table(
        **{name: [1] * n for name in ("head", "relation", "tail", "rank", "candidates")}, side=map(str, range(n))
    )
    with pytest.raises(DataError, match="not a rank table") as caught:
        conform(table)
    assert caught.value.problems == [
        "column 'side' holds string, expected 'head' or 'tail': it has 300 different values"
    ]


def test_arrays_that_are_no_columns_are_all_named() -> None:
    with pytest.raises(DataError) as caught:
        table_of({"rank": np.ones((2, 2)), "head": [1, "a"], "tail": [1], "side": ["tail"] * 2}, {"seed": [1], "x": 5})
    text = str(caught.value)
    assert "label 'seed' has the name of a column" in text
    for name in ("rank", "head", "x"):
        assert f"column '{name}' is not a list of values" in text
    assert "different lengths: seed 1, tail 1, side 2" in text


def test_nan_means_null_only_where_null_is_allowed() -> None:
    table = table_of({"rank": [np.nan], "ties": np.array([np.nan]), "entity_popularity": [float("nan")]}, {})
    assert table.column("ties").null_count == table.column("entity_popularity").null_count == 1
    assert table.column("rank").null_count == 0


def _problems(table: pa.Table, batch: int = 1 << 20, **rules: Any) -> list[str]:
    tables = [table.slice(start, batch) for start in range(0, len(table), batch)]
    checker = Checker(len(table), **rules)
    for part in tables:
        checker.add(part)
    return checker.problems(lambda: tables)


def _valid(n: int = 3, **changes: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "head": list(range(n)),
        "relation": [0] * n,
        "tail": [1] * n,
        "side": ["tail"] * n,
        "rank": [2.0] * n,
        "candidates": [9] * n,
    }
    return conform(pa.table(columns | changes))


VIOLATIONS: dict[str, dict[str, list[Any]]] = {
    "head is missing": {"head": [0, None, 2]},
    "relation is missing": {"relation": [0, None, 2]},
    "tail is missing": {"tail": [0, None, 2]},
    "side is missing": {"side": ["head", None, "tail"]},
    "rank is missing": {"rank": [1, None, 2]},
    "candidates is missing": {"candidates": [9, None, 9]},
    "seed is missing, though the table has seeds": {"seed": [1, None, 0]},
    "rank is not a number": {"rank": [1.0, float("nan"), 2.0]},
    "rank is below 1": {"rank": [1.0, 0.5, 2.0]},
    "rank is larger than the number of candidates": {"rank": [9.0, 9.5, 2.0]},
    "fewer than 1 candidate": {"candidates": [9, 0, 9], "rank": [1.0, None, 1.0]},
    "side is neither 'head' nor 'tail'": {"side": ["head", "Tail", "tail"]},
    "an id is negative": {"tail": [1, -1, 1]},
    "an id is 2^53 or larger": {"tail": [1, 2**53, 1]},
    "a seed is 2^53 or larger": {"seed": [1, -(2**53), 3]},
    "ties is negative": {"ties": [0, -2, None]},
    "rank and ties place the tie group outside 1..candidates": {"ties": [2, 3, None]},
    "worst_rank is below the rank": {"worst_rank": [2.0, 1.5, None]},
    "worst_rank is larger than the number of candidates": {"worst_rank": [9.0, 9.5, None]},
    "ties is not 0, though the rank is an interval up to worst_rank": {
        "ties": [1, 1, 0],
        "worst_rank": [2.0, 3.0, 9.0],
    },
    "a popularity is outside 0..1": {"relation_popularity": [0.0, 1.01, 1.0]},
}


def test_a_good_table_breaks_no_rule() -> None:
    assert _problems(_valid()) == []
    assert _problems(_valid(0)) == []


def test_every_rule_has_a_table_that_breaks_it() -> None:
    assert VIOLATIONS.keys() == {name for name, _ in RULES} - {name for name, _ in SAMPLE_RULES}


@pytest.mark.parametrize("rule", VIOLATIONS)
def test_each_violation_is_found_where_it_is(rule: str) -> None:
    problems = _problems(_valid(3, **VIOLATIONS[rule]))
    assert f"{rule}: 1 row (row 2)" in problems
    # A missing or impossible number of candidates is the only one that is wrong in two ways.
    assert len(problems) <= 1 + (rule == "fewer than 1 candidate")


@pytest.mark.parametrize("infinite", [float("inf"), float("-inf")])
def test_infinite_ranks_are_refused(infinite: float) -> None:
    assert _problems(_valid(1, rank=[infinite])) != []


def test_limits_belong_to_what_is_allowed() -> None:
    table = _valid(
        rank=[1.0, 9.0, 5.0], ties=[0, 0, 8], entity_popularity=[0.0, 1.0, None], candidates=[1, 9, 9], head=[0, 5, 4]
    )
    assert _problems(table) == []
    assert _problems(table, further=entity_rules(9)) == []


def test_all_violations_are_said_at_once_and_rows_are_counted_from_one() -> None:
    with pytest.raises(DataError) as caught:
        Ranks.from_columns(
            head=[-1, 0, 0],
            relation=[0] * 3,
            tail=[1] * 3,
            side=["up", "tail", "tail"],
            rank=[0, 99, 1],
            candidates=[9] * 3,
        )
    assert caught.value.problems == [
        "rank is below 1: 1 row (row 1)",
        "rank is larger than the number of candidates: 1 row (row 2)",
        "side is neither 'head' nor 'tail': 1 row (row 1)",
        "an id is negative: 1 row (row 1)",
        "the same query (and seed) occurs again: 1 row (row 3)",
    ]


def test_the_model_is_named_if_it_has_a_name(make: Callable[..., Ranks]) -> None:
    for info, title in ((RanksInfo(model="RotatE"), "RotatE: not usable"), (RanksInfo(), "ranks: not usable")):
        with pytest.raises(DataError) as caught:
            make(rank=[0] * 4, info=info)
        assert caught.value.title == title


def test_of_many_rows_the_first_are_named_whatever_the_batches() -> None:
    table = _valid(30, rank=[0.0 if i % 3 else 1.0 for i in range(30)])
    expected = ["rank is below 1: 20 rows (rows 2-3, 5-6, 8-9, 11-12, ...)"]
    assert _problems(table) == _problems(table, batch=4) == expected


def test_a_graph_adds_its_rules(graph: KnowledgeGraph, make: Callable[..., Ranks]) -> None:
    ranks = make(head=[0, 0, 1, 4], relation=[0, 0, 2, 1], candidates=[4, 4, 4, 5])
    validate(ranks)
    with pytest.raises(DataError) as caught:
        validate(ranks, graph)
    assert caught.value.problems == [
        "an entity id is outside the graph (0..3): 1 row (row 4)",
        "more candidates than the graph has entities (4): 1 row (row 4)",
        "a relation id is outside the graph (0..1): 1 row (row 3)",
    ]


IDS = st.integers(0, 2)

QUERIES = st.lists(
    st.tuples(IDS, IDS, IDS, st.sampled_from(["head", "tail"]), st.integers(-1, 1)), min_size=1, max_size=40
)


@given(QUERIES, st.integers(1, 41), st.booleans())
def test_duplicates_are_those_that_a_set_finds(
    queries: list[tuple[int, int, int, str, int]], batch: int, seeds: bool
) -> None:
    head, relation, tail, side, seed = map(list, zip(*queries, strict=True))
    n = len(queries)
    table = _valid(n, head=head, relation=relation, tail=tail, side=side, **({"seed": seed} if seeds else {}))
    seen: set[tuple[Any, ...]] = set()
    again = []
    for row, query in enumerate(queries, 1):
        key = query if seeds else query[:4]
        if key in seen:
            again.append(row)
        seen.add(key)
    problems = _problems(table, batch)
    assert bool(problems) == bool(again)
    if again:
        (problem,) = problems
        assert f": {len(again)} row" in problem
        first = problem.split("(row")[-1].removeprefix("s").strip(" )")
        named = [n for part in first.removesuffix(", ...").split(", ") for n in _expand(part)]
        assert named == again[:8]


def _expand(part: str) -> range:
    low, _, high = part.partition("-")
    return range(int(low), int(high or low) + 1)


def test_rows_that_do_not_say_their_query_repeat_no_other() -> None:
    table = _valid(4, head=[None, None, 1, 1], side=["tail", "tail", "up", "down"])
    for batch in (1, 2, 4):
        assert not any("occurs again" in problem for problem in _problems(table, batch))


def test_fingerprints_tell_the_columns_apart() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 30, (20_000, 3))
    table = _valid(
        len(ids), head=ids[:, 0], relation=ids[:, 1], tail=ids[:, 2], side=rng.choice(["head", "tail"], len(ids))
    )
    rows = zip(*(table.column(name).to_pylist() for name in ("head", "relation", "tail", "side")), strict=True)
    assert len(np.unique(query_hashes(table))) == len(set(rows))
