from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgprobe import resources
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph, parquet_graph
from kgprobe.graph.parquet_graph import id_columns, in_order, read_parquet


@pytest.mark.parametrize("labels", [None, ["NA", "", None]], ids=["ids only", "labels"])
def test_what_is_written_is_read_again(tmp_path: Path, labels: list[str | None] | None) -> None:
    graph = KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [2, 1, 2]],
        valid=[],
        test=[[1, 1, 0]],
        num_entities=3,
        entity_labels=labels,
        name="g",
    )
    graph.write(tmp_path / "deep" / "g")
    again = load_graph(tmp_path / "deep" / "g")
    assert (again.name, again.content_hash) == ("g", graph.content_hash)
    assert list(again.splits) == ["train", "valid", "test"]
    assert again.entity_label([0, 1, 2]) == graph.entity_label([0, 1, 2])
    assert (again.entity_labels is None) == (labels is None)


def test_files_have_the_published_layout(tmp_path: Path) -> None:
    KnowledgeGraph.from_triples(train=[[0, 1, 2]], relation_labels=["r", "s"]).write(tmp_path)
    assert pq.read_table(tmp_path / "train.parquet").to_pylist() == [{"head": 0, "relation": 1, "tail": 2}]
    assert pq.read_table(tmp_path / "relations.parquet").to_pylist() == [
        {"id": 0, "label": "r"},
        {"id": 1, "label": "s"},
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "entities.parquet",
        "relations.parquet",
        "train.parquet",
    ]


def test_left_over_splits_are_not_mixed_in(tmp_path: Path) -> None:
    KnowledgeGraph.from_triples(train=[[0, 0, 1]], valid=[[0, 0, 1]]).write(tmp_path)
    smaller = KnowledgeGraph.from_triples(train=[[1, 0, 1]])
    with pytest.raises(DataError) as caught:
        smaller.write(tmp_path)
    assert "valid.parquet" in caught.value.problems[0]
    assert load_graph(tmp_path).triples("train").tolist() == [[0, 0, 1]]


def test_counts_are_written_too(tmp_path: Path, data: Path) -> None:
    graph = load_graph(data / "graphs" / "yago3-10")
    graph.write(tmp_path / "yago")
    again = load_graph(tmp_path / "yago")
    assert again.content_hash == graph.content_hash
    head, relation, _ = graph.triples("test").T
    np.testing.assert_array_equal(again.popularity.relation(relation, head), graph.popularity.relation(relation, head))


PATH = Path("x.parquet")


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    problems: list[str] = []
    assert read_parquet(tmp_path / "x.parquet", problems) is None
    assert problems[0].startswith("x.parquet: not a readable Parquet file")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()])
def test_whole_numbers_of_any_width(kind: pa.DataType) -> None:
    problems: list[str] = []
    columns = id_columns(PATH, pa.table({"a": pa.array([3, 1], kind), "b": ["x", "y"]}), ("a",), problems)
    assert columns is not None
    assert columns[0].tolist() == [3, 1]
    assert columns[0].dtype != np.uint64


def test_all_columns_are_judged() -> None:
    table = pa.table([pa.array([0.5]), pa.array([None], "int32"), [1], [2]], names=["a", "b", "c", "c"])
    problems: list[str] = []
    assert id_columns(PATH, table, ("a", "b", "c"), problems) is None
    assert problems == [
        "x.parquet: column 'a' holds double, expected whole numbers",
        "x.parquet: 1 nulls in column 'b', rows 0 (counted from 0)",
        "x.parquet: no single column 'c'; columns: a, b, c, c",
    ]


def test_order_of_ids() -> None:
    problems: list[str] = []
    assert in_order(PATH, np.array([0, 1]), problems)
    assert not problems
    assert not in_order(PATH, np.array([0, 2, 1]), problems)
    assert problems == ["x.parquet: ids must be 0, 1, 2, ... in order, but row 1 (counted from 0) has 2"]


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


def test_labels_that_occur_twice(tmp_path: Path) -> None:
    _write(tmp_path, train=TRIPLES, **NAMES)
    names = pa.table([pa.array([0, 1, 2]), ["a", "b", "c"], ["x", "y", "z"]], names=["id", "label", "label"])
    pq.write_table(names, tmp_path / "entities.parquet")
    assert _problems(tmp_path) == ["entities.parquet: column 'label' occurs 2 times"]


@pytest.mark.parametrize("store_schema", [True, False], ids=["with Arrow's names", "alone"])
def test_names_of_columns_that_are_not_utf8(tmp_path: Path, store_schema: bool) -> None:
    _write(tmp_path, train=TRIPLES, **NAMES)
    path = tmp_path / "train.parquet"
    pq.write_table(pa.table(TRIPLES | {"a note": [1, 2]}), path, store_schema=store_schema)
    path.write_bytes(path.read_bytes().replace(b"a note", b"a \xff\xfe\xfd\xfc"))
    (problem,) = _problems(tmp_path)
    assert problem == "train.parquet: not a readable Parquet file (the name of a column is not UTF-8)"


def test_labels_that_are_not_utf8(tmp_path: Path) -> None:
    _write(tmp_path, train=TRIPLES, **NAMES)
    path = tmp_path / "relations.parquet"
    pq.write_table(pa.table({"id": [0], "label": ["my label"]}), path, compression="none", write_statistics=False)
    path.write_bytes(path.read_bytes().replace(b"my label", b"my \xff\xfe\xfd\xfc\xfb"))
    (problem,) = _problems(tmp_path)
    assert "relations.parquet: not a readable Parquet file" in problem
    assert "UTF8" in problem


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.uint64()], ids=str)
def test_triples_are_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType) -> None:
    monkeypatch.setattr(parquet_graph, "_BATCH", 3)
    rows = np.random.default_rng(0).integers(0, 9, (10, 3))
    columns = {name: pa.array(ids, kind) for name, ids in zip(("head", "relation", "tail"), rows.T, strict=True)}
    KnowledgeGraph.from_triples(test=rows, num_entities=9, num_relations=9).write(tmp_path)
    pq.write_table(pa.table(columns | {"weight": pa.array(["x"] * 10)}), tmp_path / "train.parquet", row_group_size=4)
    graph = load_graph(tmp_path)
    assert graph.triples("train").tolist() == graph.triples("test").tolist() == rows.tolist()
    assert graph.triples("train").dtype == np.int32


def test_problems_of_all_batches_are_listed_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_graph, "_BATCH", 2)
    KnowledgeGraph.from_triples(test=[[0, 0, 1]]).write(tmp_path)
    head, relation, tail = [0, None, 0, 0, None], [0, 0, 0, 0, 1 << 40], [0, 0, 0, -1, 0]
    pq.write_table(pa.table({"head": head, "relation": relation, "tail": tail}), tmp_path / "train.parquet")
    pq.write_table(pa.table({"head": relation, "relation": relation, "tail": tail}), tmp_path / "valid.parquet")
    assert _problems(tmp_path) == [
        "train.parquet: 2 nulls in column 'head', rows 1, 4 (counted from 0)",
        "valid.parquet head: 1 ids outside 0..1 in rows 4 (counted from 0), for example 1099511627776",
        "valid.parquet relation: 1 ids outside 0..0 in rows 4 (counted from 0), for example 1099511627776",
        "valid.parquet tail: 1 ids outside 0..1 in rows 3 (counted from 0), for example -1",
    ]


def test_a_graph_that_unpacks_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = np.zeros(100_000, dtype=np.int64)
    graph = KnowledgeGraph.from_triples(train=np.column_stack([zeros, zeros, zeros]))
    graph.write(tmp_path)
    assert (tmp_path / "train.parquet").stat().st_size < 10_000
    monkeypatch.setattr(resources, "machine_memory", lambda: 2_000_000)
    (problem,) = _problems(tmp_path)
    assert problem.startswith("train.parquet: not a readable Parquet file (it unpacks to 1.1 MiB, more than the limit")
    monkeypatch.setattr(resources, "_allowed", 3_000_000)
    assert len(load_graph(tmp_path).triples("train")) == 100_000


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


COUNTS: dict[str, dict[str, Any]] = {
    "entity_train_degree": {"id": [0, 1, 2], "train_degree": [3, 1, 0]},
    "test_entity_relation_train_count": {"entity": [1, 0], "relation": [0, 0], "train_count": [1, 2]},
    "relation_train_count": {"id": [0], "train_count": [2]},
}


def test_counts_stand_in_for_absent_training_triples(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, test=TRIPLES, **NAMES, **COUNTS))
    assert graph.train_counts is not None
    assert graph.train_counts.num_triples == 2
    assert graph.popularity.entity([0, 1, 2]).tolist() == [0.75, 0.25, 0]
    assert graph.popularity.relation([0, 0, 0], [0, 1, 2]).tolist() == [2 / 3, 1, 0]


def test_training_triples_make_counts_superfluous(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, train=TRIPLES, **NAMES, **COUNTS))
    assert graph.train_counts is None
    assert graph.popularity.entity([1]).tolist() == [0.5]


@pytest.mark.parametrize(
    ("file", "columns", "complaint"),
    [
        ("entity_train_degree", {"id": [0, 1], "train_degree": [3, 1]}, "2 rows for 3 entities"),
        ("entity_train_degree", {"id": [0, 2, 1], "train_degree": [3, 1, 0]}, "ids must be 0, 1, 2"),
        ("entity_train_degree", {"id": [0, 1, 2], "train_degree": [3, 3, -2]}, "a negative degree"),
        ("entity_train_degree", {"id": [0, 1, 2], "train_degree": [3, 2, 0]}, "odd number"),
        ("entity_train_degree", {"id": [0, 1, 2]}, "no single column 'train_degree'"),
        (
            "test_entity_relation_train_count",
            {"entity": [3], "relation": [0], "train_count": [1]},
            "outside 0..2",
        ),
        (
            "test_entity_relation_train_count",
            {"entity": [1, 1], "relation": [0, 0], "train_count": [1, 1]},
            "occurs twice",
        ),
        (
            "test_entity_relation_train_count",
            {"entity": [1], "relation": [0], "train_count": [2]},
            "above the degree",
        ),
        ("relation_train_count", {"id": [0], "train_count": [5]}, "5 triples, but the degrees"),
    ],
)
def test_counts_that_no_triples_could_give(tmp_path: Path, file: str, columns: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError) as caught:
        load_graph(_write(tmp_path, test=TRIPLES, **NAMES, **(COUNTS | {file: columns})))
    (problem,) = caught.value.problems
    assert file in problem
    assert complaint in problem


def test_yago_counts(data: Path) -> None:
    counts = load_graph(data / "graphs" / "yago3-10").train_counts
    assert counts is not None
    assert counts.num_triples == 1079040
    assert int((counts.degree == 0).sum()) == 39
    assert np.all(np.diff(counts.pair_keys) > 0)
