import datetime
import math
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.registry import MODELS
from kgprobe.train.defaults import Size, defaults
from kgprobe.train.setting_sources import (
    FOLDER,
    NOT_SETTINGS,
    as_kind,
    from_command_line,
    from_file,
    from_text,
    known_settings,
    packaged,
    read_toml,
    toml_text,
)
from kgprobe.train.settings import resolve

ACCURACY = Path(__file__).parents[2] / "docs" / "accuracy.md"

MEASURED_FILES = [
    file for file in sorted(FOLDER.glob("*/*.toml")) if "test_of_seeds" in read_toml(file).tables.get("measured", {})
]

GRAPH = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], name="FB15k_237")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"epochs = 3\ngamma = " + b"9" * 5000, "line 2: a number of more than 4,300 digits"),
        (b"seeds = [1, " + b"9" * 5000 + b"]", "line 1: a number of more than 4,300 digits"),
        (b"seeds = " + b"[" * 9999, "nested too deeply"),
        (b"seeds = " + b"[" * 9999 + b"]" * 9999, "nested too deeply"),
        (b"seeds = " + b"{a=" * 9999 + b"1" + b"}" * 9999, "nested too deeply"),
        (b"loss = '\xff'", "codec can't decode byte 0xff"),
        (b"epochs = 5\x00", "line 1"),
        (b"a = 1\na = 2\n", "line 2"),
    ],
    ids=["digits", "digits in a list", "open", "deep", "deep tables", "no UTF-8", "zero byte", "twice"],
)
def test_a_file_that_cannot_be_parsed(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(f"{path}: not")) as error:
        read_toml(path)
    assert said in error.value.problems[0]
    assert "one setting per line" in error.value.remedy


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
    assert known.notes == ["settings: configs/rotate/fb15k-237.toml, then defaults for 3 entities and 2 triples"]


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
    assert f"config={file}" in known.notes[0]
    # Who names the file means it.
    meant = known_settings("RotatE", other, config=file, folder=folder)
    assert resolve("rotate", meant.sources).settings.epochs == 33
    assert any("other triples" in note for note in meant.notes)


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
    assert set(found.tables) <= set(NOT_SETTINGS)
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


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [
        (1, "7", 7),
        (1, "-7", -7),
        (1, "7.5", "7.5"),
        (1, "", ""),
        (0.5, "1e-3", 1e-3),
        (0.5, "3", 3.0),
        (0.5, "fast", "fast"),
        (False, "True", True),
        (False, "false", False),
        (False, "1", "1"),
        ("adam", "adagrad", "adagrad"),
        ("adam", "7", "7"),
        ((0,), "3", (3,)),
        ((0,), "0, 1,2", (0, 1, 2)),
        ((0,), "0,x", (0, "x")),
        ((0.5,), "1, 2.5", (1.0, 2.5)),
        ((0.5,), "1,x", (1.0, "x")),
        (("MRR",), "PROBE(alpha=1,beta=0)", ("PROBE(alpha=1,beta=0)",)),
    ],
)
def test_texts_become_values_of_the_setting(default: object, text: str, value: object) -> None:
    found = from_text(default, text)
    assert found == value
    assert type(found) is type(value)


def test_a_setting_given_twice_is_no_value_of_a_single_one() -> None:
    values = from_command_line({"epochs": ["5", "6"], "seeds": ["0", "1,2"], "batch_size": ["64"]}).values
    assert from_text(1, values["epochs"]) == "5 and 6"
    assert from_text((0,), values["seeds"]) == (0, 1, 2)
    assert from_text(1, values["batch_size"]) == 64


@pytest.mark.parametrize(
    ("default", "given", "value"),
    [
        (0.5, 2, 2.0),
        (0.5, True, True),
        (0.5, 10**400, 10**400),
        (1, 2.0, 2.0),
        (1, "2", "2"),
        ((0,), [1, 2], (1, 2)),
        ((0,), 1, (1,)),
        ((0,), [1, 2.0], (1, 2.0)),
        ((0.5,), 10**400, (10**400,)),
        (("MRR",), "MR", ("MR",)),
    ],
)
def test_values_of_files_keep_their_type_unless_no_digit_is_lost(default: object, given: object, value: object) -> None:
    found = as_kind(default, given)
    assert found == value
    assert type(found) is type(value)


def test_a_list_of_numbers_has_numbers_of_one_kind() -> None:
    assert [type(one) for one in as_kind((0.5,), [1, 2.5, True])] == [float, float, bool]
    assert [type(one) for one in from_text((0.5,), ["1", "2,3"])] == [float, float, float]


def test_what_a_file_says_beside_settings_is_no_setting(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('graph_hash = "00"\nepochs = 5\n[measured]\ntest = 0.5\n[other]\nx = 1\n', encoding="utf-8")
    source = from_file(read_toml(path))
    assert dict(source.values) == {"epochs": 5, "other": {"x": 1}}
    assert source.places["other"] == f"{path}, line 5"


SCALARS = (
    st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.dates(min_value=datetime.date(1000, 1, 1))
)

VALUES = SCALARS | st.lists(SCALARS, max_size=4)

KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=3), max_size=5))
def test_what_is_written_is_read_back_the_same(values: dict[str, object]) -> None:
    back = tomllib.loads(toml_text(values))
    assert back == values
    for key, value in values.items():
        assert type(back[key]) is type(value)
        if isinstance(value, float):
            assert math.copysign(1, back[key]) == math.copysign(1, value)


def test_tables_within_tables() -> None:
    values = {"a": 1, "measured": {"x": 0.1, "by metric": {"PROBE(alpha=1,beta=0)": [0.5, 1e-300]}}, "b": 2}
    assert tomllib.loads(toml_text(values)) == values


def test_tables_within_lists() -> None:
    values = {"measured": {"runs": [{"seed": 0, "by metric": {"MRR": [0.5]}}, {}]}}
    assert tomllib.loads(toml_text(values)) == values


def test_comments_stand_behind_their_values() -> None:
    assert toml_text({"a": 1, "b": "x"}, {"b": "by hand"}) == 'a = 1\nb = "x"  # by hand\n'


def test_what_toml_does_not_have() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        toml_text({"a": None})


def test_lines_of_keys_and_tables(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '# epochs = 3\n\nepochs = 5\nselect = [\n  "MRR",\n]\n"quoted" = 1\n  late=2\n'
        "[measured]\nepochs = 7\n[ other.x ]\ny = 1\n",
        encoding="utf-8",
    )
    file = read_toml(path)
    assert file.lines == {"epochs": 3, "select": 4, "quoted": 7, "late": 8, "measured": 9, "other": 11}
    assert file.place("epochs") == f"{path}, line 3"
    assert file.values["epochs"] == 5
    assert file.tables["measured"] == {"epochs": 7}


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"epochs 5\n", "line 1"), (b"epochs = 5\nepochs = 6\n", "line 2"), (b"a = '\xff'\n", "utf-8")],
    ids=["no equals sign", "a key twice", "no text"],
)
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.toml: not TOML") as caught:
        read_toml(path)
    assert said in str(caught.value)
    assert "Remedy" in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError) as missing:
        read_toml(tmp_path / "none.toml")
    assert missing.value.problems == ["No such file or directory"]
    with pytest.raises(DataError) as folder:
        read_toml(tmp_path)
    assert folder.value.problems == ["Is a directory"]
