from pathlib import Path

import pytest

from kgprobe.graph.readers.dictionary import read_dictionary
from kgprobe.graph.readers.text import Layout

LAYOUT = Layout({"id": True, "label": False}, "id<TAB>label", "\t", lambda line: line.split("\t"))


def _read(tmp_path: Path, content: str) -> tuple[list[str] | None, list[str]]:
    (tmp_path / "x.dict").write_text(content)
    problems: list[str] = []
    labels = read_dictionary(tmp_path / "x.dict", LAYOUT, problems)
    return (None if labels is None else labels.to_pylist()), problems


def test_labels_come_in_id_order(tmp_path: Path) -> None:
    assert _read(tmp_path, "2\tc\n0\tnull\n1\tb b\n") == (["null", "b b", "c"], [])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("0\ta\n0\tb\n", "x.dict, line 2: id '0' is already on line 1: '0\\tb'"),
        ("0\ta\n\n1\ta\n", "x.dict, line 3: label 'a' is already on line 1: '1\\ta'"),
        ("0\ta\n2\tb\n5\tc\n", "x.dict: ids must run from 0 to 2 without gaps; missing: 1"),
        ("a\t0\n", "x.dict, line 1: 'a' is not an id: 'a\\t0'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: str, complaint: str) -> None:
    assert _read(tmp_path, content) == (None, [complaint])
