from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgprobe.errors import DataError
from kgprobe.graph import load_graph


def _write(directory: Path, **tables: dict[str, Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), directory / f"{name}.parquet")
    return directory


TRIPLES = {"head": [0, 1], "relation": [0, 0], "tail": [1, 2]}
NAMES: dict[str, dict[str, Any]] = {"entities": {"id": [0, 1, 2]}, "relations": {"id": [0], "label": ["r"]}}


def _problems(directory: Path) -> list[str]:
    with pytest.raises(DataError) as caught:
        load_graph(directory)
    return caught.value.problems


def test_ids_and_names(tmp_path: Path) -> None:
    entities = {
        "id": [0, 1, 2],
        "label": pa.array(["NA", None, "c"]).dictionary_encode(),
        "other": [1.5, None, 2],
    }
    graph = load_graph(_write(tmp_path, train=TRIPLES, entities=entities, relations=NAMES["relations"]))
    assert graph.triples().tolist() == [[0, 0, 1], [1, 0, 2]]
    assert graph.entity_label([0, 1, 2]) == ["NA", "1", "c"]
    assert graph.relation_label([0]) == ["r"]


def test_columns_may_come_in_any_order_and_width(tmp_path: Path) -> None:
    train = {
        "tail": pa.array([2], pa.uint64()),
        "weight": [0.5],
        "relation": pa.array([0], pa.int8()),
        "head": [1],
    }
    assert load_graph(_write(tmp_path, train=train, **NAMES)).triples().tolist() == [[1, 0, 2]]


def test_names_may_lie_one_directory_above(tmp_path: Path) -> None:
    _write(tmp_path, **NAMES)
    graph = load_graph(_write(tmp_path / "dense", train=TRIPLES))
    assert (graph.name, graph.num_entities) == ("dense", 3)


def test_names_of_real_graphs(data: Path) -> None:
    family = load_graph(data / "graphs" / "family_tree" / "density_65")
    assert (family.name, family.num_entities, family.num_relations) == ("density_65", 6004, 23)
    quarter = load_graph(data / "graphs" / "yago3-10_quarter")
    assert quarter.entity_label([0]) == ["0"]
    assert quarter.entity_labels.null_count == 108819


def test_everything_wrong_in_all_files_is_reported(tmp_path: Path) -> None:
    _write(
        tmp_path,
        train={"head": [0, None, 9], "relation": ["x", "y", "z"]},
        valid={"head": [0, 3], "relation": [0, 0], "tail": [-1, 1]},
        entities={"id": [0, 1, 3]},
        relations={"id": [0], "label": [[1]]},
    )
    (tmp_path / "test.parquet").write_text("0\t0\t1\n")
    problems = _problems(tmp_path)
    assert problems[:6] == [
        "entities.parquet: ids must be 0, 1, 2, ... in order, but row 2 (counted from 0) has 3",
        "relations.parquet: column 'label' holds list<element: int64>, expected text",
        "train.parquet: 1 nulls in column 'head', rows 1 (counted from 0)",
        "train.parquet: column 'relation' holds string, expected whole numbers",
        "train.parquet: no single column 'tail'; columns: head, relation",
        "valid.parquet tail: 1 ids below 0 in rows 0 (counted from 0), for example -1",
    ]
    assert problems[6].startswith("test.parquet: not a readable Parquet file")


def test_ids_outside_the_graph(tmp_path: Path) -> None:
    _write(tmp_path, train=TRIPLES | {"tail": [1, 3]}, test=TRIPLES | {"relation": [1, 0]}, **NAMES)
    assert _problems(tmp_path) == [
        "train.parquet tail: 1 ids outside 0..2 in rows 1 (counted from 0), for example 3",
        "test.parquet relation: 1 ids outside 0..0 in rows 0 (counted from 0), for example 1",
    ]


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-10], lambda b: b"", lambda b: b[:4], lambda b: b[:30] + b"x" * 40 + b[70:]],
    ids=["truncated", "empty", "start only", "overwritten"],
)
def test_damaged_files(tmp_path: Path, damage: Any) -> None:
    _write(tmp_path, train=TRIPLES, **NAMES)
    path = tmp_path / "train.parquet"
    path.write_bytes(damage(path.read_bytes()))
    (problem,) = _problems(tmp_path)
    assert problem.startswith("train.parquet: ")
    assert len(problem) < 250


def test_names_are_needed(tmp_path: Path) -> None:
    problems = _problems(_write(tmp_path / "lone", train=TRIPLES))
    assert [problem.split(" here")[0] for problem in problems] == [
        "no entities.parquet",
        "no relations.parquet",
    ]
