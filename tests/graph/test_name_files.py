"""Files of names: every format, real files against plain readers, and files that are refused."""

import csv
import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgprobe.errors import DataError
from kgprobe.graph.name_files import cleaned, read_names, recognised_files


def names_in(path: Path) -> dict[str, str | None]:
    """The first reading of a file."""
    keys, names = read_names(path).readings[0]
    return dict(zip(keys.to_pylist(), cleaned(names).to_pylist(), strict=True))


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


ENGLISH = {"Q1860": "English", "P27": "country of citizenship"}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("names.tsv", "Q1860\tEnglish\nP27\tcountry of citizenship\n"),
        ("names.txt", "id\tname\ttype\r\nQ1860\tEnglish\tlanguage\r\nP27\tcountry of citizenship\t\r\n"),
        ("names.txt", "\ufeffID\tType\tLabel\nQ1860\tlanguage\tEnglish\n\nP27\t\tcountry of citizenship\textra"),
        ("names.csv", "id,label\nQ1860,English\nP27,country of citizenship\n"),
        ("names.csv", 'title,entity\n"English","Q1860"\ncountry of citizenship,P27\n'),
        ("names.del", "Q1860,English\nP27,country of citizenship"),
        ("names.json", '{"Q1860": "English", "P27": {"description": "x", "label": "country of citizenship"}}'),
        ("names.json", '[{"id": "Q1860", "name": "English"}, {"id": "P27", "name": "country of citizenship"}]'),
        ("names.jsonl", '{"id": "Q1860", "text": "English"}\n\n{"id": "P27", "text": "country of citizenship"}\n'),
    ],
)
def test_every_format_gives_the_same_names(tmp_path: Path, file: str, text: str) -> None:
    path = written(tmp_path / file, text)
    assert names_in(path) == ENGLISH
    packed = tmp_path / f"{file}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert names_in(packed) == ENGLISH


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_names_in_parquet(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "names.parquet"
    table = {"note": [1, 2], "id": pa.array(list(ENGLISH)).cast(kind), "name": pa.array(ENGLISH.values()).cast(kind)}
    pq.write_table(pa.table(table), path)
    assert names_in(path) == ENGLISH
    pq.write_table(pa.table({"id": pa.array([0, 7], pa.int32()), "label": ["Ada", None]}), path)
    assert names_in(path) == {"0": "Ada", "7": None}


def test_a_table_of_ids_labels_and_names_can_be_matched_by_both(tmp_path: Path) -> None:
    path = tmp_path / "entities.parquet"
    pq.write_table(pa.table({"id": [0], "label": ["Q1860"], "name": ["English"]}), path)
    assert [[part.to_pylist() for part in reading] for reading in read_names(path).readings] == [
        [["0"], ["English"]],
        [["Q1860"], ["English"]],
    ]


def test_wordnet_definitions_are_cut_from_the_name(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "1\tsea lion -- any of several seals -- large\n2\tx_y -- a -- b\n")
    assert names_in(path) == {"1": "sea lion", "2": "x_y"}
    path = written(
        tmp_path / "wordnet-mlj12-definitions.txt", "03964744\t__sea_lion_NN_1\tany of several\n1\t__go_VB_12\td\n"
    )
    assert names_in(path) == {"03964744": "sea lion", "1": "go"}


def test_a_notation_that_only_some_names_have_is_part_of_the_name(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "1\trock -- paper\n2\tscissors_\n3\t__x_NN_1\n")
    assert names_in(path) == {"1": "rock -- paper", "2": "scissors_", "3": "__x_NN_1"}


def test_underscores_are_spaces_where_no_name_has_a_space(tmp_path: Path) -> None:
    assert names_in(written(tmp_path / "a.txt", "/m/1\tHenry_V\n/m/2\tActor-GB\n")) == {
        "/m/1": "Henry V",
        "/m/2": "Actor-GB",
    }


def test_odd_names_are_kept_as_they_are(tmp_path: Path) -> None:
    odd = {
        "NA": "null",
        '"q"': '"Weird Al" Yankovic',
        "é, ü": "\U0001f642 x",
        "00590383": "1e5",
        "nan": "NaN",
        "#1": "a b",
    }
    path = written(tmp_path / "a.tsv", "".join(f"{key}\t{name}\n" for key, name in odd.items()))
    assert names_in(path) == odd
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "name"), *odd.items(), ("two\nlines", "x,y")])
    assert names_in(path) == odd | {"two\nlines": "x,y"}
    path = written(tmp_path / "a.json", json.dumps(odd))
    assert names_in(path) == odd


def test_an_empty_name_is_no_name(tmp_path: Path) -> None:
    assert names_in(written(tmp_path / "a.tsv", "Q1\t\nQ2\t  \nQ3\tAda\n")) == {"Q1": None, "Q2": None, "Q3": "Ada"}
    assert names_in(written(tmp_path / "a.json", '{"Q1": null, "Q2": "", "Q3": {"label": null}}')) == dict.fromkeys(
        ["Q1", "Q2", "Q3"]
    )


def test_ids_alone_are_no_error(tmp_path: Path) -> None:
    assert names_in(written(tmp_path / "all_relation_info.txt", "id\nauthor_in_affiliation\npaper_cite_paper\n")) == {
        "author_in_affiliation": None,
        "paper_cite_paper": None,
    }


def test_the_name_may_come_first(tmp_path: Path) -> None:
    readings = read_names(written(tmp_path / "a.tsv", "English\tQ1860\n")).readings
    assert [part.to_pylist() for part in readings[1]] == [["Q1860"], ["English"]]


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("a.tsv", b"", "a.tsv: empty"),
        ("a.tsv", b"\n \n", "a.tsv: empty"),
        ("a.tsv", b"Q1\tAda\n\nQ2\nQ3\tBob\nQ4\n", "a.tsv, line 3: 1 field, expected at least 2: 'Q2'"),
        ("a.tsv", b"Q1\tAda\n\nQ2\nQ3\tBob\nQ4\n", "a.tsv, line 5: 1 field, expected at least 2: 'Q4'"),
        ("a.tsv", b"Q1\tAda\n\tBob\n", "a.tsv, line 2: no id: '\\tBob'"),
        ("a.tsv", b"Q1\tAda\nQ2\t\xff\n", "a.tsv, line 2: not UTF-8 (byte 4 is 0xff)"),
        ("a.csv", b'id,name\nQ1,"Ada\n', "a.csv, line 2: not CSV (unexpected end of data)"),
        ("a.csv", b"id,name,type\nQ1,Ada\nQ2\n", "a.csv, line 3: 1 field, expected at least 2: 'Q2'"),
        ("a.json", b"{", "a.json: not JSON ("),
        ("a.json", b'"x"', "a.json: 'x', expected an object or a list"),
        ("a.json", b'{"Q1": ["Q2"]}', "a.json, 'Q1': a list (of types?), expected a name"),
        ("a.json", b'{"Q1": 5}', "a.json, 'Q1': 5 is no name"),
        ("a.json", b'{"Q1": {"wiki": "x"}}', "a.json, 'Q1': no name or title or label or text among ['wiki']"),
        ("a.json", b'[{"id": "Q1", "name": "Ada"}, {"id": "Q2", "name": 5}]', "a.json, record 2: ['Q2', 5] is no id"),
        ("a.json", b'["Ada"]', "a.json, record 1: 'Ada' is no id with a name"),
        ("a.jsonl", b'{"id": "Q1", "name": "Ada"}\n{\n', "a.jsonl, line 2: not JSON"),
        ("a.parquet", b"PAR1", "a.parquet"),
        ("a.tsv", b"PAR1....PAR1", "it is a Parquet file"),
    ],
)
def test_bad_files_are_refused_with_their_lines(tmp_path: Path, file: str, content: bytes, problem: str) -> None:
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_names(path)
    assert error.value.title.startswith(str(path))
    assert any(problem in line for line in [*error.value.problems, error.value.title]), error.value.problems


def test_a_table_without_a_column_of_names_says_which_columns_there_are(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "degree": [5]}), path)
    with pytest.raises(DataError) as error:
        read_names(path)
    assert "columns: id, degree" in error.value.problems[0]
    pq.write_table(pa.table({"id": [1.5], "name": [5]}), path)
    with pytest.raises(DataError) as error:
        read_names(path)
    assert error.value.problems == [
        "a.parquet: column 'id' holds double, expected labels or whole numbers",
        "a.parquet: column 'name' holds int64, expected text",
    ]


def test_a_missing_file_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.tsv: cannot be read"):
        read_names(tmp_path / "none.tsv")
    os.mkfifo(tmp_path / "pipe.tsv")
    with pytest.raises(DataError, match=r"pipe\.tsv: cannot be read"):
        read_names(tmp_path / "pipe.tsv")


def test_files_are_recognised_by_their_names(tmp_path: Path) -> None:
    recognised = ["names.csv", "entities.json", "FB15k_mid2name.txt", "wn-entity2text-new.txt", "all_entity_info.txt"]
    others = ["entities.parquet", "types.json", "entity2types.json", "entity2id.txt", "entity2textlong.txt", "names.py"]
    for file in [*recognised, *others, "train.txt", "entities.dict"]:
        (tmp_path / file).write_text("x")
    assert [path.name for path in recognised_files(tmp_path)] == recognised


def test_real_files_are_read_as_plain_readers_read_them(data: Path) -> None:
    path = data / "names/fb15k-237/FB15k_mid2name.txt"
    plain = dict(line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    assert names_in(path) == {key: name.replace("_", " ") for key, name in plain.items()}
    path = data / "names/wn18rr/wn-entity2text-new.txt"
    plain = dict(line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line)
    assert names_in(path) == {key: text.split(" -- ")[0].strip() for key, text in plain.items()}
    path = data / "names/codex-s/relations.json"
    assert names_in(path) == {key: own["label"] for key, own in json.loads(path.read_text()).items()}
