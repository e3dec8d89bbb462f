import json
import mmap
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe as kp
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, TrainCounts, load_graph

SPLITS = {"train": [[0, 0, 1], [2, 1, 2], [0, 0, 1]], "valid": [[1, 0, 0]], "test": [[2, 0, 1], [0, 1, 2]]}
SIZES = {"num_entities": 3, "num_relations": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, triples in SPLITS.items():
        np.save(tmp_path / f"{split}.npy", np.array(triples, dtype=np.int32))
    (tmp_path / "graph.json").write_text(json.dumps(SIZES))
    return tmp_path


def in_memory(**more: Any) -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(**SPLITS, **SIZES, **more)


def is_mapped(array: np.ndarray) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, memoryview | mmap.mmap)


def problems(folder: Path) -> list[str]:
    with pytest.raises(DataError, match="not a graph in NumPy arrays") as caught:
        load_graph(folder)
    return list(caught.value.problems)


def test_arrays_are_mapped_and_equal_those_in_memory(folder: Path) -> None:
    graph = load_graph(folder)
    assert graph.content_hash == in_memory().content_hash
    assert (graph.num_entities, graph.num_relations, graph.entity_labels) == (3, 2, None)
    for split, triples in SPLITS.items():
        assert graph.triples(split).tolist() == triples
        assert is_mapped(graph.triples(split))
        assert not graph.triples(split).flags.writeable


@pytest.mark.parametrize("kind", ["<i8", ">i4", "u1", "<u8", "i2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_other_integers_and_orders_are_converted(folder: Path, kind: str, order: Any) -> None:
    np.save(folder / "train.npy", np.array(SPLITS["train"], dtype=kind, order=order))
    graph = load_graph(folder)
    assert (graph.triples("train").dtype, graph.content_hash) == (np.int32, in_memory().content_hash)
    assert graph.triples("train").flags.c_contiguous


def test_ids_of_a_very_large_graph_stay_mapped_in_int64(folder: Path) -> None:
    entities = 1 << 40
    (folder / "graph.json").write_text(json.dumps(SIZES | {"num_entities": entities}))
    np.save(folder / "train.npy", np.array([[entities - 1, 1, 0]]))
    graph = load_graph(folder)
    assert is_mapped(graph.triples("train"))
    assert graph.triples("train").tolist() == [[entities - 1, 1, 0]]


def test_empty_splits_are_read(folder: Path) -> None:
    np.save(folder / "train.npy", np.empty((0, 3), dtype=np.int32))
    graph = load_graph(folder)
    assert (graph.triples("train").shape, list(graph.splits)) == ((0, 3), ["train", "valid", "test"])


def test_ranks_of_mapped_and_other_graphs_are_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    def scores(side: str, given: np.ndarray, relation: np.ndarray) -> np.ndarray:
        return np.cos(np.outer(given + relation + 1, np.arange(3) + len(side)))

    for name, graph in {"mapped": load_graph(folder), "memory": in_memory(name=folder.name)}.items():
        kp.rank(scores, graph, name="cos").write(tmp_path / f"{name}.ranks")
    assert (tmp_path / "mapped.ranks").read_bytes() == (tmp_path / "memory.ranks").read_bytes()


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 4)), max_size=8))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]) -> None:
    folder = tmp_path_factory.mktemp("graph")
    train = np.array(rows, dtype=int).reshape(-1, 3)
    graph = KnowledgeGraph.from_triples(train=train, test=[[0, 0, 0]], num_entities=5, num_relations=2)
    graph.write(folder, format="npy")
    assert sorted(path.name for path in folder.iterdir()) == ["graph.json", "test.npy", "train.npy"]
    again = load_graph(folder)
    assert again.content_hash == graph.content_hash
    assert again.triples("train").tolist() == train.tolist()
    assert json.loads((folder / "graph.json").read_text())["content_hash"] == graph.content_hash


def test_labels_and_names_are_beside_the_arrays(folder: Path) -> None:
    labels = {"entity_labels": ["Q1", "Q2", None], "relation_labels": ["P1", "P2"]}
    graph = KnowledgeGraph.from_triples(**SPLITS, **labels).with_names({"Q1": "Ada"})
    graph.write(folder, format="npy")
    again = load_graph(folder)
    assert again.entity_label([0, 2]) == ["Q1", "2"]
    assert again.entity_name([0]) == ["Ada"]
    assert again.relation_label([1]) == ["P2"]


def test_counts_alone_cannot_be_written(tmp_path: Path) -> None:
    counts = TrainCounts.from_triples(np.array([[0, 0, 1]]), 2, 1)
    graph = KnowledgeGraph("g", 2, 1, {"test": np.array([[0, 0, 1]])}, train_counts=counts)
    with pytest.raises(DataError, match="cannot be written as NumPy arrays"):
        graph.write(tmp_path / "g", format="npy")
    assert not (tmp_path / "g").exists()


def test_all_problems_are_listed_at_once(folder: Path) -> None:
    np.save(folder / "train.npy", np.array([[0, 0, 3], [0, -1, 0]]))
    np.save(folder / "valid.npy", np.array([[0.0, 1.0, 2.0]]))
    np.save(folder / "test.npy", np.array([0, 1, 2]))
    np.save(folder / "valid_negatives.npy", np.array([[0, 0, 1]], dtype="m8[s]"))
    (folder / "test_negatives.npy").write_bytes(pickle.dumps([[0, 0, 1]]))
    magic = str(pickle.dumps([[0, 0, 1]])[:6])
    pq.write_table(pa.table({"id": [0, 1]}), folder / "entities.parquet")
    assert problems(folder) == [
        "train.npy relation: 1 ids outside 0..1 in rows 1 (counted from 0), for example -1",
        "train.npy tail: 1 ids outside 0..2 in rows 0 (counted from 0), for example 3",
        "valid.npy: float64 values, expected whole numbers",
        "test.npy: shape (3,), expected [n, 3] (head, relation, tail)",
        "valid_negatives.npy: timedelta64[s] values, expected whole numbers",
        "test_negatives.npy: not a readable array (the magic string is not correct; "
        f"expected b'\\x93NUMPY', got {magic})",
        "entities.parquet: 2 rows, but graph.json says 3 entities",
    ]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda raw: raw[:-1], "truncated: an array of 164 bytes has only 163"),
        (lambda raw: raw + b"\0", "1 bytes follow an array of 164 bytes"),
        (lambda raw: raw[:20], "header"),
        (lambda raw: b"", "EOF"),
        (lambda raw: raw.replace(b"<i4", b"|O "), "header"),
        (lambda raw: raw.replace(b"(3, 3)", b"(9,-3)"), "impossible shape"),
        (lambda raw: raw.replace(b"(3, 3)", b"(1<<9"), "invalid .npy header"),
    ],
    ids=["short", "long", "header", "empty", "dtype", "shape", "code"],
)
def test_damaged_arrays_are_refused(folder: Path, damage: Callable[[bytes], bytes], problem: str) -> None:
    path = folder / "train.npy"
    path.write_bytes(damage(path.read_bytes()))
    (found,) = problems(folder)
    assert found.startswith("train.npy: not a readable array")
    assert problem in found


def test_python_objects_are_never_unpickled(folder: Path) -> None:
    np.save(folder / "train.npy", np.array([[0, 0, 1]], dtype=object), allow_pickle=True)
    assert problems(folder) == ["train.npy: not a readable array (it holds Python objects, which are not unpickled)"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "no graph.json, so the numbers of entities and relations are unknown"),
        ("[3, 2]", "graph.json: it is not an object"),
        ('{"num_entities": 3}', "graph.json: num_relations is missing"),
        (
            '{"num_entities": -3, "num_relations": 2}',
            "graph.json: num_entities is -3, and must be a whole number from 0 on",
        ),
        (
            '{"num_entities": 3, "num_relations": 2, "content_hash": 5}',
            "graph.json: content_hash is 5, and must be a text",
        ),
        (
            '{"num_entities": 3, "num_relations": 2, "sha256": "00"}',
            "graph.json: it has changed since it was written (sha256)",
        ),
    ],
)
def test_the_sizes_are_required(folder: Path, text: str | None, problem: str) -> None:
    (folder / "graph.json").unlink() if text is None else (folder / "graph.json").write_text(text)
    np.save(folder / "valid.npy", np.array([[0, 0, -1]]))
    assert problems(folder) == [problem, *(found for found in problems(folder) if found.startswith("valid.npy"))]
    assert len(problems(folder)) == 2


def test_changed_triples_are_noticed_by_their_hash(folder: Path) -> None:
    in_memory().write(folder, format="npy")
    load_graph(folder)
    np.save(folder / "valid.npy", np.array([[1, 0, 1]], dtype=np.int32))
    with pytest.raises(DataError, match="damaged") as caught:
        load_graph(folder)
    assert caught.value.problems == ["the triples are not those whose content_hash graph.json records"]


def test_parquet_is_preferred_to_arrays_and_arrays_to_text(folder: Path) -> None:
    (folder / "train.txt").write_text("a\tr\tb\n")
    assert load_graph(folder).num_entities == 3
    KnowledgeGraph.from_triples(train=[[0, 0, 8]]).write(folder)
    assert load_graph(folder).num_entities == 9
