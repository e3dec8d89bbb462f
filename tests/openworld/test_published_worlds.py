from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgprobe import DataError, load_graph
from kgprobe.openworld.published import read_published
from kgprobe.openworld.task import answers_per_query, tail_task
from worlds import as_set

FIGURES = {
    65: (87_463, 7_598, 2_778, 2_697),
    75: (100_880, 7_075, 3_381, 3_338),
    85: (114_229, 6_616, 4_209, 4_153),
    95: (127_700, 6_097, 5_171, 5_172),
}
"""Training facts, true answers, known ones, and known ones of the correlated variant, by density."""


@pytest.mark.parametrize("density", FIGURES)
@pytest.mark.parametrize("correlated", [False, True])
def test_the_published_graph_is_read_as_described(data: Path, density: int, correlated: bool) -> None:
    world = read_published(data / "graphs" / "family_tree" / f"density_{density}", correlated)
    train, true, known, known_correlated = FIGURES[density]
    assert (world.num_entities, world.num_relations) == (6_004, 23)
    assert (len(world.train), len(world.hard)) == (train, true)
    assert len(world.known) == (known_correlated if correlated else known)
    assert world.queries is not None
    assert len(world.queries) == 500
    answers = answers_per_query(world, tail_task(world))
    assert (answers["queries"], answers["known"] + answers["missing"]) == (500, pytest.approx(true / 500))
    assert world.settings["density"] == density / 100
    assert world.settings["correlated"] is correlated


def test_both_variants_have_the_same_true_answers(data: Path) -> None:
    one, other = (read_published(data / "graphs" / "family_tree" / "density_75", kind) for kind in (False, True))
    assert as_set(one.hard) == as_set(other.hard)
    assert as_set(one.known) != as_set(other.known)
    assert one.name != other.name


def test_a_published_folder_is_a_graph_to_train_on(data: Path) -> None:
    graph = load_graph(data / "graphs" / "family_tree" / "density_75")
    world = read_published(data / "graphs" / "family_tree" / "density_75")
    assert list(graph.splits) == ["train"]
    assert graph.content_hash == world.learned.content_hash


Columns = dict[str, dict[str, Any]]


def folder_of(place: Path, change: Callable[[Columns], None] = lambda files: None) -> Path:
    """A small world as published, with something changed."""
    files: Columns = {
        "entities": {"id": range(6)},
        "relations": {"id": range(2)},
        "density_80/train": {"head": [0, 0, 5], "relation": [0, 1, 0], "tail": [1, 1, 0]},
        "density_80/test_queries": {"query": [0, 1], "head": [0, 5], "relation": [0, 0]},
        "density_80/test_answers": {
            "query": [1, 0, 0, 0],
            "tail": [4, 2, 3, 4],
            "in_sparse": [True, True, False, True],
            "in_sparse_correlated": [True, False, True, False],
        },
    }
    change(files)
    (place / "density_80").mkdir(parents=True, exist_ok=True)
    for name, columns in files.items():
        pq.write_table(pa.table({key: pa.array(values) for key, values in columns.items()}), place / f"{name}.parquet")
    return place / "density_80"


def test_known_and_missing_answers_are_told_apart(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    world, correlated = read_published(folder), read_published(folder, correlated=True)
    assert (as_set(world.known), as_set(world.missing)) == ({(5, 0, 4), (0, 0, 2), (0, 0, 4)}, {(0, 0, 3)})
    assert (as_set(correlated.known), as_set(correlated.missing)) == ({(5, 0, 4), (0, 0, 3)}, {(0, 0, 2), (0, 0, 4)})
    assert world.settings["density"] == 0.8


def answers(**changes: list[Any]) -> Callable[[Columns], None]:
    return lambda files: files["density_80/test_answers"].update(changes)


def queries(**changes: list[Any]) -> Callable[[Columns], None]:
    return lambda files: files["density_80/test_queries"].update(changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (answers(in_sparse=[True, False, False, False]), "by in_sparse, queries 0 have no known answer"),
        (answers(query=[1, 0, 7, 0]), "rows 2 (counted from 0) are of no query"),
        (answers(in_sparse=[1, 1, 0, 1]), "column 'in_sparse' holds int64"),
        (answers(in_sparse=[True, None, True, True]), "column 'in_sparse' holds bool with 1 nulls"),
        (answers(tail=[4, 2, 9, 4]), "test_answers.parquet tail: 1 ids outside 0..5"),
        (answers(tail=[4, 2, 1, 4]), "1 facts are in train and in missing"),
        (answers(tail=[4, 2, 2, 4]), "1 facts are in known and in missing"),
        (queries(head=[0, 77]), "test_queries.parquet head: 1 ids outside 0..5"),
        (queries(query=[0, 0]), "the numbers of the queries are not distinct"),
        (queries(head=[0, 0]), "queries: 1 are given more than once"),
        (lambda files: files["density_80/test_queries"].pop("head"), "no single column 'head'"),
        (lambda files: files["density_80/test_answers"].pop("in_sparse"), "column 'in_sparse' is not there"),
    ],
    ids=[
        "no-known-answer",
        "answer-of-no-query",
        "numbers-for-flags",
        "unknown-flags",
        "unknown-tail",
        "missing-in-train",
        "known-and-missing",
        "unknown-head",
        "number-twice",
        "query-twice",
        "no-heads",
        "no-flags",
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: Callable[[Columns], Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_published(folder_of(tmp_path, change))
    assert message in str(caught.value)
    assert str(tmp_path) in caught.value.title
    assert caught.value.remedy


def test_a_folder_without_queries(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "test_queries.parquet").unlink()
    with pytest.raises(DataError, match="not a world as published") as caught:
        read_published(folder)
    assert "test_queries.parquet: not a readable Parquet file" in caught.value.problems[0]
