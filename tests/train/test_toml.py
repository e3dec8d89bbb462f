import datetime
import math
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError
from kgprobe.train.toml import read_toml, toml_text

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
