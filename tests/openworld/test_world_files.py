import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flipping import outcomes
from kgprobe.errors import DataError
from kgprobe.graph import load_graph
from kgprobe.graph.names import as_labels
from kgprobe.openworld.world import PARTS
from kgprobe.openworld.world_files import read_published, read_world, write_world
from kgprobe.openworld.world_tasks import answers_per_query, tail_task
from worlds import as_set, random_graph, random_world

FIGURES = {
    65: (87_463, 7_598, 2_778, 2_697),
    75: (100_880, 7_075, 3_381, 3_338),
    85: (114_229, 6_616, 4_209, 4_153),
    95: (127_700, 6_097, 5_171, 5_172),
}

"""Training triples, true answers, known ones, and known ones of the correlated variant, by density."""


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
        (answers(in_sparse=[1, 1, 0, 1]), "column 'in_sparse' is int64"),
        (answers(in_sparse=[True, None, True, True]), "column 'in_sparse' is bool with 1 nulls"),
        (answers(tail=[4, 2, 9, 4]), "test_answers.parquet tail: 1 ids outside 0..5"),
        (answers(tail=[4, 2, 1, 4]), "1 triples are in both train and missing"),
        (answers(tail=[4, 2, 2, 4]), "1 triples are in both known and missing"),
        (queries(head=[0, 77]), "test_queries.parquet head: 1 ids outside 0..5"),
        (queries(query=[0, 0]), "the numbers of the queries are not distinct"),
        (queries(head=[0, 0]), "queries: 1 repeated queries"),
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


@pytest.mark.parametrize("valid", [0.0, 0.3])
@pytest.mark.parametrize("queries", [None, [[0, 0], [1, 1]]], ids=["all", "some"])
def test_a_world_is_read_as_it_was_written(tmp_path: Path, valid: float, queries: Any) -> None:
    names = as_labels([f"e{i}" for i in range(12)])
    world = replace(random_world(valid=valid), entity_labels=names, queries=queries)
    write_world(world, tmp_path / "w")
    again = read_world(tmp_path / "w")
    for part in PARTS:
        np.testing.assert_array_equal(getattr(again, part), getattr(world, part))
    assert (again.name, again.settings) == (world.name, world.settings)
    assert (None if again.queries is None else again.queries.tolist()) == queries
    assert again.graph.entity_label([3]) == ["e3"]


def test_the_folder_is_the_graph_that_an_evaluator_sees(tmp_path: Path) -> None:
    world = random_world()
    write_world(world, tmp_path / "w")
    assert load_graph(tmp_path / "w").content_hash == world.graph.content_hash


def test_a_world_replaces_another_whole(tmp_path: Path) -> None:
    write_world(random_world(0, valid=0.3), tmp_path)
    write_world(random_world(1, valid=0), tmp_path)
    assert not (tmp_path / "valid.parquet").exists()
    assert read_world(tmp_path).graph.content_hash == random_world(1, valid=0).graph.content_hash


def test_a_graph_is_never_overwritten(tmp_path: Path) -> None:
    random_graph().write(tmp_path)
    with pytest.raises(DataError, match="cannot hold a world") as caught:
        write_world(random_world(), tmp_path)
    assert caught.value.remedy == "choose an empty folder"
    assert load_graph(tmp_path).content_hash == random_graph().content_hash


def test_a_name_is_looked_up_as_that_of_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_world(random_world(), tmp_path / "graphs" / "mine")
    monkeypatch.setenv("KGPROBE_DATA", str(tmp_path))
    assert read_world("mine").sizes == random_world().sizes


def test_what_is_no_world_is_told_how_to_become_one(tmp_path: Path) -> None:
    random_graph().write(tmp_path)
    with pytest.raises(DataError, match="not a world") as caught:
        read_world(tmp_path)
    assert caught.value.problems == ["openworld.json is not there", "missing.parquet is not there"]
    assert "kgprobe openworld split" in caught.value.remedy


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such world"):
        read_world(tmp_path / "none")


def test_a_name_that_no_folder_can_have() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_world("x" * 5000)


def test_only_published_worlds_have_a_correlated_variant(tmp_path: Path) -> None:
    write_world(random_world(), tmp_path)
    with pytest.raises(DataError, match="only published worlds"):
        read_world(tmp_path, correlated=True)


@pytest.mark.parametrize("part", PARTS)
def test_files_that_do_not_go_together_are_found(tmp_path: Path, part: str) -> None:
    write_world(random_world(), tmp_path)
    path = tmp_path / f"{'test' if part == 'known' else part}.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(DataError, match="do not go together") as caught:
        read_world(tmp_path)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [part]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about: "{", "openworld.json: Expecting property name"),
        (lambda about: "", "openworld.json: Expecting value"),
        (lambda about: "[]", "openworld.json: it is not an object"),
        (lambda about: "[" * 99_999, "openworld.json: it is nested too deeply"),
        (lambda about: '{"schema": %s}' % ("9" * 5000), "openworld.json: Exceeds the limit"),
        (lambda about: json.dumps(about)[:-100], "openworld.json: "),
        (lambda about: json.dumps(about | {"name": "other"}), "it has changed since it was written (sha256)"),
        (lambda about: json.dumps({key: about[key] for key in about if key != "sha256"}), "sha256 is missing"),
        (lambda about: _hashed(about, schema=99), "newer kgprobe"),
        (lambda about: _hashed(about, schema="2"), "schema is '2', and must be a whole number"),
        (lambda about: _hashed(about, facts=None), "facts is None, and must be an object"),
        (lambda about: _hashed(about, facts={}), "facts.train is missing"),
        (lambda about: _hashed(about, facts=about["facts"] | {"known": "5"}), "facts.known is '5'"),
        (lambda about: _hashed(about, name=["a"]), "name is ['a'], and must be a text"),
        (lambda about: _hashed(about, settings=5), "settings is 5, and must be an object"),
        (lambda about: _hashed(about, queries=5), "queries is 5, and must be a list"),
    ],
)
def test_a_description_that_cannot_be_used(tmp_path: Path, change: Any, message: str) -> None:
    write_world(random_world(), tmp_path)
    path = tmp_path / "openworld.json"
    path.write_text(change(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    with pytest.raises(DataError, match="not a world") as caught:
        read_world(tmp_path)
    assert message in caught.value.problems[0]


def _hashed(about: dict[str, Any], **changes: Any) -> str:
    """A description with a hash that fits."""
    content = {key: value for key, value in about.items() if key != "sha256"} | changes
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps(content | {"sha256": digest})


@pytest.mark.parametrize(
    "queries",
    [[[0, 0], [1]], [["a", "b"]], [[0, 0, 0]], [[10**30, 0]], [[0.5, 0]], [[-1, 0]], [{}], [[0, 0], [0, 0]]],
)
def test_queries_that_are_none(tmp_path: Path, queries: Any) -> None:
    write_world(random_world(), tmp_path)
    path = tmp_path / "openworld.json"
    path.write_text(_hashed(json.loads(path.read_text(encoding="utf-8")), queries=queries), encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(str(tmp_path))) as caught:
        read_world(tmp_path)
    assert caught.value.problems


def test_a_world_of_the_first_version_is_read_without_a_hash(tmp_path: Path) -> None:
    write_world(random_world(), tmp_path)
    path = tmp_path / "openworld.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    del about["sha256"]
    path.write_text(json.dumps(about | {"schema": 1}), encoding="utf-8")
    assert read_world(tmp_path).sizes == random_world().sizes


def test_a_flipped_bit_of_the_description_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    first = random_world()
    world = replace(first, queries=np.unique(first.known[:, :2], axis=0))
    write_world(world, tmp_path)
    path = tmp_path / "openworld.json"
    content, refused = path.read_bytes(), 0
    for bit in np.random.default_rng(0).integers(0, 8 * len(content), 300).tolist():
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = read_world(tmp_path)
        except DataError:
            refused += 1
        else:
            assert (found.name, found.settings) == (world.name, world.settings)
            np.testing.assert_array_equal(found.queries, world.queries)
    assert refused > 200


def test_missing_triples_that_are_known(tmp_path: Path) -> None:
    world = random_world()
    write_world(world, tmp_path)
    triples = world.missing.copy()
    triples[0] = world.known[0]
    pq.write_table(
        pa.table(dict(zip(("head", "relation", "tail"), triples.T, strict=True))), tmp_path / "missing.parquet"
    )
    with pytest.raises(DataError, match="invalid parts of a world") as caught:
        read_world(tmp_path)
    assert caught.value.title.startswith(str(tmp_path))
    assert "1 triples are in both known and missing" in caught.value.problems[0]
    assert "give every triple once" in caught.value.remedy


def test_missing_triples_without_tails(tmp_path: Path) -> None:
    write_world(random_world(), tmp_path)
    pq.write_table(pa.table({"head": [1], "relation": [0]}), tmp_path / "missing.parquet")
    with pytest.raises(DataError, match="not a world") as caught:
        read_world(tmp_path)
    assert "no single column 'tail'" in caught.value.problems[0]


def test_flags_that_occur_twice(tmp_path: Path) -> None:
    path = folder_of(tmp_path) / "test_answers.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("in_sparse", table.column("in_sparse")), path)
    with pytest.raises(DataError) as caught:
        read_published(path.parent)
    assert "column 'in_sparse' occurs 2 times" in str(caught.value)


@pytest.mark.parametrize("file", ["openworld.json", "missing.parquet", "train.parquet", "test.parquet"])
def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path, file: str) -> None:
    world = random_world()
    settings = {"share": 0.25, "seed": 7, "source": "umls"}
    write_world(replace(world, queries=np.unique(world.hard[:, :2], axis=0), settings=settings), tmp_path)

    def read() -> object:
        world = read_world(tmp_path)
        parts = {part: getattr(world, part).tolist() for part in PARTS}
        return parts, world.name, world.num_entities, world.queries.tolist(), world.settings

    assert outcomes(tmp_path / file, 60, 3, read)["other"] == 0
