import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kgprobe.errors import DataError
from kgprobe.ranks.schema import COLUMNS, SCHEMA_VERSION, RanksInfo, conform, package_version, table_of


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


def test_metadata_come_back_as_they_were() -> None:
    info = RanksInfo(
        model="RotatE",
        graph="umls",
        graph_hash="ab",
        split="test",
        filtered=("train", "valid"),
        filter_hash="cd",
        settings={"source": ["a.json"], "größe": 1.5},
    )
    assert RanksInfo.from_metadata(info.to_metadata()) == info
    assert info.kgprobe == package_version()


def test_other_metadata_say_nothing() -> None:
    for metadata in (None, {}, {b"pandas": b"{}"}):
        assert RanksInfo.from_metadata(metadata) == RanksInfo(kgprobe="")


def test_a_newer_schema_is_refused() -> None:
    newer = RanksInfo(schema=SCHEMA_VERSION + 1).to_metadata()
    with pytest.raises(DataError, match="newer") as caught:
        RanksInfo.from_metadata(newer)
    assert f"schema {SCHEMA_VERSION + 1}" in str(caught.value)
    assert "upgrade" in caught.value.remedy


def test_what_a_later_version_adds_to_the_same_schema_is_passed_over() -> None:
    entry = json.loads(RanksInfo(model="m").to_metadata()[b"kgprobe"]) | {"later": 1}
    assert RanksInfo.from_metadata({b"kgprobe": json.dumps(entry).encode()}).model == "m"


@pytest.mark.parametrize("entry", [b"{", b"[]", b"{}", b'{"schema": "x"}', b'{"schema": null}', b"\xff"])
def test_unreadable_metadata_are_refused(entry: bytes) -> None:
    with pytest.raises(DataError, match="metadata"):
        RanksInfo.from_metadata({b"kgprobe": entry})


def test_columns_get_their_types_and_their_order_and_labels_stay() -> None:
    table = _table(
        kind=["easy"],
        head=pa.array([1], pa.int32()),
        relation=pa.array([7]).dictionary_encode(),
        tail=pa.array(["2"]),
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
    assert "the columns found are: candidates, rank, tail, relation, head, relation" in caught.value.remedy


def test_more_sides_than_can_be_counted_are_refused_as_sides() -> None:
    n = 300
    table = _table(
        **{name: [1] * n for name in ("head", "relation", "tail", "rank", "candidates")}, side=map(str, range(n))
    )
    with pytest.raises(DataError, match="not a rank table") as caught:
        conform(table)
    assert caught.value.problems == [
        "column 'side' holds string, which does not read as 'head' or 'tail': it has 300 different values"
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
