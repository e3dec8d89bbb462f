"""Files of a checkpoint that are missing, damaged or contradict each other are refused, with all problems at once."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import rank, stored_arrays
from kgprobe.predict.adapters.pbg_checkpoint import open_pbg_checkpoint
from pbg_models import Plain, configuration, write_checkpoint

NAMES, RELATIONS = ["Ada", "Bob", "Çelik", "\U0001f642", "#x", "NA", "a/b"], ["knows", "likes"]
PARTS = [f"embeddings_all_{part}.v7.h5" for part in range(3)]
NOT_FINITE = "hold NaN, infinity or numbers beyond float32"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "model", configuration("dot"), {"all": NAMES}, RELATIONS)
    return tmp_path / "model"


def graph_of(folder: Path) -> KnowledgeGraph:
    return Plain(folder).graph()


def problems(folder: Path, graph: KnowledgeGraph) -> list[str]:
    with pytest.raises(DataError) as caught:
        open_pbg_checkpoint(folder, graph, graph.triples("test"))
    assert caught.value.title.startswith(str(folder))
    assert caught.value.remedy
    return caught.value.problems


def configure(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


def replace(path: Path, name: str, values: Any, **options: Any) -> None:
    with h5py.File(path, "a") as file:
        del file[name]
        file.create_dataset(name, data=values, **options)


def test_all_problems_are_named_at_once(folder: Path) -> None:
    graph = graph_of(folder)
    (folder / PARTS[0]).unlink()
    (folder / PARTS[1]).write_bytes((folder / PARTS[1]).read_bytes()[:-40])
    with h5py.File(folder / PARTS[2], "a") as file:
        file.attrs["format_version"] = 2
    (folder / "entity_names_all_0.json").unlink()
    (folder / "entity_names_all_1.json").write_text('["Çelik", 5]')
    (folder / "entity_count_all_2.txt").write_text("9\n")
    (folder / "dynamic_rel_count.txt").write_text("two")
    replace(folder / "model.v7.h5", "model/relations/0/operator/lhs/translations", np.zeros((2, 5), "f4"))
    found = problems(folder, graph)
    assert found[0] == f"{PARTS[0]}: no such file"
    assert found[1].startswith(f"{PARTS[1]}: Unable to")
    assert "truncated" in found[1]
    assert found[2] == f"{PARTS[2]}: format_version is 2, expected 1"
    assert found[3].startswith(f"entity_names_all_0.json: no such file in {folder}")
    assert found[4:] == [
        "entity_names_all_1.json: expected a JSON list of names",
        "entity_count_all_2.txt: '9', but entity_names_all_2.json has 2 names",
        "dynamic_rel_count.txt: 'two', but dynamic_rel_names.json has 2 names",
        "model.v7.h5: relations/0/operator/lhs/translations has shape (2, 5), expected (2, 4)",
    ]


def _without_version(folder: Path) -> None:
    (folder / "checkpoint_version.txt").unlink()


def _version(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "checkpoint_version.txt").write_text(text) and None


def _no_model(folder: Path) -> None:
    (folder / "model.v7.h5").rename(folder / "model.v6.h5")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_without_version, ["checkpoint_version.txt: no such file"]),
        (_version(""), ["checkpoint_version.txt: '', expected the number of a version, from 1 on"]),
        (_version("0"), ["checkpoint_version.txt: '0', expected the number of a version, from 1 on"]),
        (_version("v7"), ["checkpoint_version.txt: 'v7', expected the number of a version, from 1 on"]),
        (_version("8"), ["model.v8.h5: no such file, but checkpoint_version.txt has version 8; there is model.v7.h5"]),
        (_no_model, ["model.v7.h5: no such file, but checkpoint_version.txt has version 7; there is model.v6.h5"]),
    ],
)
def test_versions(folder: Path, change: Callable[[Path], None], expected: list[str]) -> None:
    graph = graph_of(folder)
    change(folder)
    assert problems(folder, graph) == expected


def test_an_older_partition_is_not_taken(folder: Path) -> None:
    graph = graph_of(folder)
    (folder / PARTS[1]).rename(folder / "embeddings_all_1.v6.h5")
    assert problems(folder, graph) == [f"{PARTS[1]}: no such file"]


def test_a_configuration_that_is_not_the_one_of_training(folder: Path) -> None:
    graph = graph_of(folder)
    text = (folder / "config.json").read_text()
    with h5py.File(folder / "model.v7.h5", "a") as file:
        file.attrs["config/json"] = text
    open_pbg_checkpoint(folder, graph, graph.triples("test"))
    configure(folder, comparator="cos", margin=3.0)
    assert problems(folder, graph) == [
        "config.json: differs from the copy with which model.v7.h5 was written, in: comparator"
    ]
    (folder / "config.json").unlink()
    _, _, settings, _ = open_pbg_checkpoint(folder, graph, graph.triples("test"))
    assert settings["comparator"] == "dot"


def test_no_configuration_at_all(folder: Path) -> None:
    graph = graph_of(folder)
    (folder / "config.json").unlink()
    assert problems(folder, graph) == ["config.json: no such file, and model.v7.h5 has no copy of it"]


@pytest.mark.parametrize(
    ("operator", "global_emb", "expected"),
    [
        ("none", False, "2 parameters that config.json has no use for: 'relations/0/operator/lhs/translations'"),
        ("diagonal", False, "no parameter 'relations/0/operator/lhs/diagonals'"),
        ("affine", False, "no parameter 'relations/0/operator/lhs/linear_transformations'"),
    ],
)
def test_parameters_of_another_operator(folder: Path, operator: str, global_emb: bool, expected: str) -> None:
    graph = graph_of(folder)
    configure(folder, relations=[{"name": "all", "lhs": "all", "rhs": "all", "operator": operator}])
    assert problems(folder, graph)[0].startswith(f"model.v7.h5: {expected}")


def test_global_embeddings_that_are_not_wanted_or_not_there(tmp_path: Path) -> None:
    config = configuration("dot", dynamic=False)
    for wanted in (True, False):
        place = tmp_path / str(wanted)
        write_checkpoint(place, config | {"global_emb": wanted}, {"people": NAMES, "things": NAMES}, [])
        graph = graph_of(place)
        configure(place, global_emb=not wanted)
        found = problems(place, graph)
        names = [f"entities/{kind}/global_embedding" for kind in ("people", "things")]
        if wanted:
            listed = ", ".join(map(repr, names))
            assert found == [f"model.v7.h5: 2 parameters that config.json has no use for: {listed}"]
        else:
            assert found == [f"model.v7.h5: no parameter {name!r}" for name in names]


def test_counts_of_rows_and_names(folder: Path) -> None:
    graph = graph_of(folder)
    replace(folder / PARTS[0], "embeddings", np.zeros((2, 4), "f4"))
    replace(folder / PARTS[1], "embeddings", np.zeros((2, 5), "f4"))
    replace(folder / PARTS[2], "embeddings", np.zeros((2, 4), "i4"))
    assert problems(folder, graph) == [
        f"{PARTS[1]}: one row has shape (5,), expected (4,)",
        f"{PARTS[2]}: holds int32, expected float16, float32 or float64",
        f"entity_names_all_0.json: 3 names, but {PARTS[0]} has 2 rows",
    ]


def test_numbers_that_are_not_finite(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(folder)
    values = np.zeros((3, 4), "f8")
    values[1, 2], values[2, 0] = np.nan, 1e300
    replace(folder / PARTS[0], "embeddings", values)
    assert problems(folder, graph) == [f"{PARTS[0]}: 2 rows {NOT_FINITE}: 1-2 (counted from 0)"]
    monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 0)  # rows in files are checked when they are read
    with pytest.raises(DataError) as caught:
        rank(folder, graph)
    assert caught.value.problems[0].startswith(f"embeddings of 'all' in the order of the graph: 2 rows {NOT_FINITE}")
    replace(folder / "model.v7.h5", "model/relations/0/operator/lhs/translations", np.full((2, 4), np.inf, "f4"))
    assert problems(folder, graph) == [
        f"model.v7.h5: relations/0/operator/lhs/translations {NOT_FINITE.replace('hold', 'holds')}"
    ]


@pytest.mark.parametrize("large", [False, True])
def test_a_row_of_zeros_has_no_cosine(folder: Path, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(folder)
    configure(folder, comparator="cos")
    replace(folder / PARTS[0], "embeddings", np.zeros((3, 4), "f4"))
    monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 0 if large else 1 << 31)
    with pytest.raises(DataError) as caught:
        rank(folder, graph)
    assert f"3 rows {NOT_FINITE}" in caught.value.problems[0]


def test_names_that_do_not_match_the_graph(folder: Path) -> None:
    graph = graph_of(folder)
    (folder / "entity_names_all_0.json").write_text('["Ada", "Ada", "Zoe"]')
    (folder / "dynamic_rel_names.json").write_text('["knows", "hates"]')
    assert problems(folder, graph) == [
        "entities: 1 names that the graph does not have, or has more than once: 'Zoe'",
        "entities: 1 names given more than once: 'Ada'",
        "entities: 2 names of the graph that are not given: 'Çelik', 'Bob'",
        "relations: 1 names that the graph does not have, or has more than once: 'hates'",
        "relations: 1 names of the graph that are not given: 'likes'",
    ]


def test_entities_of_no_type(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, configuration("dot", dynamic=False), {"people": NAMES[:4], "things": NAMES[3:]}, [])
    graph = graph_of(tmp_path)
    (tmp_path / "entity_names_people_0.json").write_text('["a/b", "#x"]')
    assert problems(tmp_path, graph) == ["entities: 2 names of the graph that no type has: 'Bob', 'Ada'"]


def test_links_to_other_files_are_not_followed(folder: Path) -> None:
    graph = graph_of(folder)
    shutil.copy(folder / PARTS[0], folder / "other.h5")
    np.zeros((3, 4), "f4").tofile(folder / "raw")
    with h5py.File(folder / PARTS[0], "a") as file:
        del file["embeddings"]
        file["embeddings"] = h5py.ExternalLink(str(folder / "other.h5"), "embeddings")
    with h5py.File(folder / PARTS[1], "a") as file:
        del file["embeddings"]
        file.create_dataset("embeddings", (2, 4), "f4", external=[(str(folder / "raw"), 0, 32)])
    with h5py.File(folder / PARTS[2], "a") as file:
        del file["embeddings"]
        layout = h5py.VirtualLayout((2, 4), "f4")
        layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "embeddings", (3, 4))[:2]
        file.create_virtual_dataset("embeddings", layout)
    assert problems(folder, graph) == [f"{part}: no dataset 'embeddings' in the file itself" for part in PARTS]
    with h5py.File(folder / "model.v7.h5", "a") as file:
        del file["model"]
        file["model"] = h5py.ExternalLink("other.h5", "/")
    found = problems(folder, graph)
    assert found[3:] == [
        f"model.v7.h5: no parameter 'relations/0/operator/{end}/translations'" for end in ("lhs", "rhs")
    ]


def test_pickles_in_the_files_are_never_loaded(folder: Path) -> None:
    graph = graph_of(folder)

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(folder / "touched"),)

    import pickle

    for path in folder.glob("*.h5"):
        with h5py.File(path, "a") as file:
            file.pop("optimizer", None)
            file.create_dataset("optimizer/state_dict", data=np.frombuffer(pickle.dumps(Evil()), dtype="V1"))
    rank(folder, graph)
    assert not (folder / "touched").exists()


def test_without_h5py_there_is_a_command_to_install_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(folder)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UsageError) as caught:
        rank(folder, graph)
    assert caught.value.remedy == "pip install 'kgprobe[pbg]'"


def test_what_is_no_file(folder: Path) -> None:
    graph = graph_of(folder)
    (folder / PARTS[0]).unlink()
    (folder / PARTS[0]).mkdir()
    (folder / PARTS[1]).unlink()
    os.mkfifo(folder / PARTS[1])
    (folder / PARTS[2]).write_text("no HDF5")
    found = problems(folder, graph)
    assert found[:2] == [f"{PARTS[0]}: no such file", f"{PARTS[1]}: no such file"]
    assert found[2].startswith(f"{PARTS[2]}: ")


def test_names_are_looked_for_where_training_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "runs/model"
    write_checkpoint(place, configuration("dot"), {"all": NAMES}, RELATIONS)
    graph = graph_of(place)
    expected = rank(place, graph).rank.tolist()
    names = [*place.glob("entity_*"), *place.glob("dynamic_*")]
    for there in (tmp_path / "runs/graph", tmp_path / "cwd/graph"):
        there.mkdir(parents=True)
        for path in names:
            shutil.move(path, there)
        names = list(there.iterdir())
        if "cwd" in str(there):
            assert len(problems(place, graph)) == 4
            monkeypatch.chdir(tmp_path / "cwd")
        assert rank(place, graph).rank.tolist() == expected
