"""Lists of names are read in blocks, and as JSON defines them."""

import json
from pathlib import Path

import pytest

from kgprobe.predict.adapters.pbg_tables import read_names


def test_lists_of_names(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    for names in (["a"], [], ["a,\n", "b", '",\n"', "\U0001f642", "]"], [f"n{i}" for i in range(100_000)]):
        for indent in (None, 0, 4):
            path.write_text(json.dumps(names, indent=indent))
            assert read_names(path).to_pylist() == names
    for text in (
        '["a",\n]',
        '[,\n"a"]',
        '["a",\n"b"',
        '{"a": 1}',
        '["a",\n["b"]]',
        "[1]",
        '["a",\n1]',
        "",
        '["\\ud800"]',
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"."):
            read_names(path)
