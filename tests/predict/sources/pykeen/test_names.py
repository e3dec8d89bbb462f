import gzip
import re

import numpy as np
import pytest
from pykeen.triples import TriplesFactory

from kgprobe import DataError
from kgprobe.predict.sources.pykeen.fit import ModelNames
from kgprobe.predict.sources.pykeen.names import FOLDER, read_names, write_names

ODD = ["", "NA", "a\tb", 'say "hi"', "line\nbreak", "naïve", "\u2028"]


def put(folder, kind, text):
    (folder / FOLDER).mkdir(exist_ok=True)
    with gzip.open(folder / FOLDER / f"{kind}_to_id.tsv.gz", "wt", encoding="utf-8", newline="") as file:
        file.write(text)


def test_what_pykeen_writes_is_read(tmp_path):
    factory = TriplesFactory.from_labeled_triples(
        np.array([[one, "r", other] for one, other in zip(ODD, reversed(ODD), strict=True)]),
        create_inverse_triples=True,
    )
    factory.to_path_binary(tmp_path / FOLDER)
    names = read_names(tmp_path)
    assert dict(zip(names.entities, range(len(ODD)), strict=True)) == factory.entity_to_id
    assert names.relations == ["r"]


def test_what_is_written_is_read(tmp_path):
    names = ModelNames(ODD, ["r"])
    write_names(tmp_path, names)
    assert read_names(tmp_path) == names
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == [
        "entity_to_id.tsv.gz",
        "relation_to_id.tsv.gz",
    ]


def test_no_names(tmp_path):
    assert read_names(tmp_path) is None
    (tmp_path / FOLDER).mkdir()
    assert read_names(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("label\tid\n", r"line 1: expected the words id and label"),
        ("", r"line 1: expected the words id and label"),
        ("id\tlabel\n0\ta\n0\tb\n", r"line 3: the id was there before: '0\\tb'"),
        ("id\tlabel\n0\ta\n1\ta\n", r"line 3: the label was there before: '1\\ta'"),
        ("id\tlabel\n0\ta\nx\tb\n", r"line 3: the id is no whole number: 'x\\tb'"),
        ("id\tlabel\n0\ta\t1\n", r"line 2: 3 fields, expected 2"),
        ("id\tlabel\n0\ta\n2\tb\n", r"entity_to_id.tsv.gz: 2 names, but no id 1"),
    ],
)
def test_bad_lines(tmp_path, text, problem):
    put(tmp_path, "entity", text)
    put(tmp_path, "relation", "id\tlabel\n0\tr\n")
    with pytest.raises(DataError) as caught:
        read_names(tmp_path)
    [said] = caught.value.problems
    assert re.search(problem, said)


def test_all_problems_of_both_files(tmp_path):
    put(tmp_path, "entity", "id\tlabel\n0\ta\n-1\tb\n0\tc\n")
    with pytest.raises(DataError) as caught:
        read_names(tmp_path)
    assert [said.split(":")[0] for said in caught.value.problems] == [
        "entity_to_id.tsv.gz, line 3",
        "entity_to_id.tsv.gz, line 4",
        "relation_to_id.tsv.gz",
    ]


@pytest.mark.parametrize(
    "content", [b"id\tlabel\n", gzip.compress(b"id\tlabel\n" + b"0\ta\n" * 99)[:-20]], ids=["plain", "cut"]
)
def test_files_that_are_no_gzip_or_end_early(tmp_path, content):
    put(tmp_path, "relation", "id\tlabel\n0\tr\n")
    (tmp_path / FOLDER / "entity_to_id.tsv.gz").write_bytes(content)
    with pytest.raises(DataError, match="cannot be used") as caught:
        read_names(tmp_path)
    assert "entity_to_id.tsv.gz: cannot be read" in caught.value.problems[0]


def test_text_that_is_not_utf_8(tmp_path):
    put(tmp_path, "relation", "id\tlabel\n0\tr\n")
    (tmp_path / FOLDER / "entity_to_id.tsv.gz").write_bytes(gzip.compress(b"id\tlabel\n0\t\xff\n"))
    with pytest.raises(DataError) as caught:
        read_names(tmp_path)
    assert "cannot be read" in caught.value.problems[0]
