import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgprobe import DataError, load_graph
from kgprobe.graph import write_graph
from kgprobe.graph.labels import as_labels
from kgprobe.openworld.files import read_world, write_world
from kgprobe.openworld.world import PARTS
from worlds import random_graph, random_world


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
    write_graph(random_graph(), tmp_path)
    with pytest.raises(DataError, match="cannot hold a world") as caught:
        write_world(random_world(), tmp_path)
    assert caught.value.remedy == "choose an empty folder"
    assert load_graph(tmp_path).content_hash == random_graph().content_hash


def test_a_name_is_looked_up_as_that_of_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_world(random_world(), tmp_path / "graphs" / "mine")
    monkeypatch.setenv("KGPROBE_DATA", str(tmp_path))
    assert read_world("mine").facts == random_world().facts


def test_what_is_no_world_is_told_how_to_become_one(tmp_path: Path) -> None:
    write_graph(random_graph(), tmp_path)
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
        (lambda about: "{", "cannot be read"),
        (lambda about: "[]", "does not tell its schema"),
        (lambda about: json.dumps(about | {"schema": 99}), "newer kgprobe"),
        (lambda about: json.dumps({key: about[key] for key in about if key != "facts"}), "does not tell its facts"),
    ],
    ids=["damaged", "list", "newer", "incomplete"],
)
def test_a_description_that_cannot_be_used(tmp_path: Path, change: Any, message: str) -> None:
    write_world(random_world(), tmp_path)
    path = tmp_path / "openworld.json"
    path.write_text(change(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    with pytest.raises(DataError, match="not a world") as caught:
        read_world(tmp_path)
    assert message in caught.value.problems[0]


def test_missing_facts_that_are_known(tmp_path: Path) -> None:
    world = random_world()
    write_world(world, tmp_path)
    facts = world.missing.copy()
    facts[0] = world.known[0]
    pq.write_table(
        pa.table(dict(zip(("head", "relation", "tail"), facts.T, strict=True))), tmp_path / "missing.parquet"
    )
    with pytest.raises(DataError, match="not the parts of a world") as caught:
        read_world(tmp_path)
    assert caught.value.title.startswith(str(tmp_path))
    assert "1 facts are in known and in missing" in caught.value.problems[0]
    assert "give every fact once" in caught.value.remedy


def test_missing_facts_without_tails(tmp_path: Path) -> None:
    write_world(random_world(), tmp_path)
    pq.write_table(pa.table({"head": [1], "relation": [0]}), tmp_path / "missing.parquet")
    with pytest.raises(DataError, match="not a world") as caught:
        read_world(tmp_path)
    assert "no single column 'tail'" in caught.value.problems[0]
