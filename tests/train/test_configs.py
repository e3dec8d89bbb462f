import re
from pathlib import Path

import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.registry import MODELS
from kgprobe.train.configs import FOLDER, known_settings, packaged
from kgprobe.train.defaults import Size, defaults
from kgprobe.train.resolve import resolve
from kgprobe.train.sources import FACTS, from_file
from kgprobe.train.toml import read_toml

ACCURACY = Path(__file__).parents[2] / "docs" / "accuracy.md"
MEASURED_FILES = [
    file for file in sorted(FOLDER.glob("*/*.toml")) if "test_of_seeds" in read_toml(file).tables.get("measured", {})
]
GRAPH = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], name="FB15k_237")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of settings for RotatE on two graphs."""
    place = tmp_path / "rotate"
    place.mkdir()
    (place / "fb15k-237.toml").write_text('model = "RotatE"\nepochs = 33\n[measured]\ntest = 0.5\n', encoding="utf-8")
    (place / "umls.toml").write_text("epochs = 44\n", encoding="utf-8")
    return tmp_path


def test_a_graph_is_known_by_its_name_however_it_is_written(folder: Path) -> None:
    known = known_settings("RotatE", GRAPH, folder=folder)
    assert resolve("rotate", known.sources).settings.epochs == 33
    assert known.measured == {"test": 0.5}
    assert known.notes == ["settings: configs/rotate/fb15k-237.toml, then defaults for 3 entities and 2 facts"]


def test_other_models_and_other_graphs_have_defaults(folder: Path) -> None:
    other = KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="fb15k-2370")
    for model, graph in (("TransE", GRAPH), ("RotatE", other)):
        known = known_settings(model, graph, folder=folder)
        assert len(known.sources) == 1
        assert known.measured == {}
        assert known.notes[0].startswith("settings: defaults for ")


def test_settings_for_another_graph_of_the_name_are_not_used(folder: Path) -> None:
    file = folder / "rotate" / "fb15k-237.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(f'graph_hash = "{GRAPH.content_hash}"\n{text}', encoding="utf-8")
    assert resolve("rotate", known_settings("RotatE", GRAPH, folder=folder).sources).settings.epochs == 33

    other = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 3]], name="FB15k-237")
    known = known_settings("RotatE", other, folder=folder)
    assert len(known.sources) == 1
    assert "another graph of that name" in known.notes[0]
    assert f"--config {file}" in known.notes[0]
    # Who names the file means it.
    meant = known_settings("RotatE", other, config=file, folder=folder)
    assert resolve("rotate", meant.sources).settings.epochs == 33
    assert any("other content" in note for note in meant.notes)


def test_a_file_goes_before_the_package(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("batch_size = 7\n", encoding="utf-8")
    known = known_settings("RotatE", GRAPH, config=mine, folder=folder)
    found = resolve("rotate", known.sources)
    assert (found.settings.epochs, found.settings.batch_size) == (33, 7)
    assert known.measured == {}
    assert f"settings: {mine}, then configs/rotate/fb15k-237.toml, then defaults" in known.notes[0]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*.toml")), ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_file_of_the_package_can_be_used(file: Path) -> None:
    assert file.parent.name in MODELS
    assert packaged(file.parent.name, file.stem) == file
    found = read_toml(file)
    assert set(found.tables) <= set(FACTS)
    assert resolve(file.parent.name, [from_file(found)]).settings.model.lower() == file.parent.name


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*.toml")), ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_no_file_of_the_package_means_something_else_when_defaults_change(file: Path) -> None:
    named = read_toml(file).values
    unused = set() if named.get("objective") == "negative_sampling" else {"negatives"}
    unused |= set() if named.get("loss") == "self_adversarial" else {"adversarial_temperature"}
    assert set(defaults(file.parent.name, Size(1_000, 10_000, 1_000))) - unused <= set(named)


@pytest.mark.parametrize("file", MEASURED_FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_what_was_measured_with_several_seeds_stands_in_the_documentation(file: Path) -> None:
    test = read_toml(file).tables["measured"]["test"]
    row = f"| {file.stem} | {MODELS[file.parent.name].name} | {test:.4f} |"
    assert f"\n{row}" in ACCURACY.read_text("utf-8"), "paste what 'python benchmarks/accuracy.py table' prints"


def test_the_documentation_has_no_other_results() -> None:
    rows = re.findall(r"^\| [^|]+ \| \w+ \| 0\.\d{4} \|", ACCURACY.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == len(MEASURED_FILES) > 0
