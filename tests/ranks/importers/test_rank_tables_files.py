import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgprobe import resources
from kgprobe.errors import DataError, UsageError
from kgprobe.ranks.importers import FORMATS, import_ranks
from kgprobe.ranks.importers.drafts import Draft
from kgprobe.ranks.importers.table_files import format_of, read_table


def _read(path: Path, format: str) -> tuple[dict[str, list[str]] | None, list[str]]:  # noqa: A002
    draft = Draft(path, format)
    table = read_table(draft)
    return None if table is None else table.to_pydict(), draft.problems


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def test_all_text_is_read_as_text(path: Path) -> None:
    path.write_text('h,rank,"a, b"\n007,1.0,"x ""y"" ,\nz"\nNA,,\n')
    assert _read(path, "csv") == ({"h": ["007", "NA"], "rank": ["1.0", ""], "a, b": ['x "y" ,\nz', ""]}, [])


def test_a_quotation_mark_in_tsv_is_a_character(path: Path) -> None:
    path.write_text('h\t"t\n"a\tb"\n')
    assert _read(path, "tsv") == ({"h": ['"a'], '"t': ['b"']}, [])


def test_blank_lines_line_ends_byte_order_marks_and_space_in_the_header_do_not_matter(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf\r\nh, rank\r\n1,2\r\n\r\n3,4\r\n")
    assert _read(path, "csv") == ({"h": ["1", "3"], "rank": ["2", "4"]}, [])
    path.write_bytes(b"\xef\xbb\xbfh,rank\n1,2")
    assert _read(path, "csv") == ({"h": ["1"], "rank": ["2"]}, [])


def test_compressed_files_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("h\n1\n")
    assert _read(tmp_path / "t.csv.gz", "csv") == ({"h": ["1"]}, [])


def test_every_line_with_a_wrong_number_of_fields_is_named(path: Path) -> None:
    lines = ["h,r"] + ["1,2" if i % 3 else "1" for i in range(90)] + ["1,2,3"]
    path.write_text("\n".join(lines) + "\n")
    _, problems = _read(path, "csv")
    assert problems[0] == "line 2: 1 fields, expected 2: '1'"
    assert len(problems) == 21
    assert problems[-1] == "11 more lines have a wrong number of fields"
    path.write_text("h,r\n1,2\n1,2,3\n")
    assert _read(path, "csv")[1] == ["line 3: 3 fields, expected 2: '1,2,3'"]


def test_lines_that_are_no_text_are_named(path: Path) -> None:
    path.write_bytes(b"h,r\n1,2\n\xff,2\n3,4\n\xfe,2\n")
    _, problems = _read(path, "csv")
    assert [problem.split(":")[0] for problem in problems] == ["table.csv, line 3", "table.csv, line 5"]


def test_a_header_that_is_no_text_is_named(path: Path) -> None:
    path.write_bytes(b"h,\xff\n1,2\n")
    assert "line 1: not UTF-8" in _read(path, "csv")[1][0]


@pytest.mark.parametrize(
    ("content", "format", "said"),
    [
        (b"PAR1....", "csv", "it is a Parquet file"),
        (b"\x1f\x8b....", "tsv", "it is a gzip file"),
        (b"h,r\n1,2\n", "parquet", "not a readable Parquet file"),
        (b"\n\n", "csv", "table.csv: empty"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(path: Path, content: bytes, format: str, said: str) -> None:  # noqa: A002
    path.write_bytes(content)
    table, problems = _read(path, format)
    assert table is None
    assert said in problems[0]


def test_a_compressed_file_that_was_cut_off_is_a_problem(tmp_path: Path) -> None:
    whole = gzip.compress(b"h,r\n" + b"1,2\n" * 1000)
    (tmp_path / "t.csv.gz").write_bytes(whole[:-12])
    table, problems = _read(tmp_path / "t.csv.gz", "csv")
    assert table is None
    assert "cannot be read" in problems[0]


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"h": [1], "x": ["a"]}), tmp_path / "t.parquet")
    assert _read(tmp_path / "t.parquet", "parquet") == ({"h": [1], "x": ["a"]}, [])


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.csv", "csv"),
        ("a.CSV.gz", "csv"),
        ("a.tsv", "tsv"),
        ("a.parquet", "parquet"),
        ("a.pq", "parquet"),
        ("a.jsonl.gz", "jsonl"),
        ("a.ndjson", "jsonl"),
    ],
)
def test_the_format_is_in_the_name(name: str, format: str) -> None:  # noqa: A002
    assert format_of(Path(name)) == format


@pytest.mark.parametrize(
    ("content", "format"),
    [
        (b"h,r,t\n", "csv"),
        (b"h;r;t\n", "csv"),
        (b"h\tr\tt\n", "tsv"),
        (b"\xef\xbb\xbf [\n [[0, 0, 1]", "probe-json"),
        (b'[{"h": 0}]', "json"),
        (b'{"h": {"0": 1}}', "json"),
        (b"PAR1", "parquet"),
    ],
)
def test_the_content_tells_where_the_name_does_not(tmp_path: Path, content: bytes, format: str) -> None:  # noqa: A002
    for name in ("ranks.txt", "ranks", "ranks.dat"):
        (tmp_path / name).write_bytes(content)
        assert format_of(tmp_path / name) == format
    if format.endswith("json"):
        (tmp_path / "ranks.json.gz").write_bytes(gzip.compress(content))
        assert format_of(tmp_path / "ranks.json.gz") == format


def test_unknown_formats_get_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown format 'cssv'; nearest: csv, tsv") as caught:
        import_ranks(tmp_path / "ranks.csv", "cssv")
    assert all(name in caught.value.problems[0] for name in FORMATS)


def test_all_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "good.csv").write_text("x")
    files = [tmp_path / "none.csv", tmp_path, tmp_path / "empty.csv", tmp_path / "good.csv", Path("/dev/null")]
    with pytest.raises(DataError) as caught:
        import_ranks(files, "csv")
    assert [problem.split(": ")[1].split(";")[0] for problem in caught.value.problems] == [
        "no such file",
        "this is a folder, not a file",
        "the file is empty",
        "this is a pipe or a device",
    ]


def test_a_path_may_be_text(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("head,relation,tail,side,rank,candidates\n0,0,3,tail,1.5,4\n")
    assert len(import_ranks(tmp_path / "good.csv")) == len(import_ranks(str(tmp_path / "good.csv"))) == 1


def test_no_file_and_the_same_file_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        import_ranks([], "csv")
    with pytest.raises(UsageError, match="twice"):
        import_ranks([tmp_path / "a.csv", tmp_path / "a.csv"])


HEADING = "head,relation,tail,side,rank,candidates"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("blank", ["", "END", "ENDEND"], ids=["none", "one", "two"])
def test_lines_may_end_in_every_usual_way(path: Path, end: str, blank: str) -> None:
    lines = [blank.replace("END", end) + HEADING, "0,0,1,tail,1,9", "", "1,0,2,head,2.5,9"]
    path.write_bytes(end.join(lines).encode() + blank.replace("END", end).encode())
    assert import_ranks(path, "csv").rank.tolist() == [1, 2.5]


ABSURD = {
    "a long heading": ("x" * 200_000 + f",{HEADING}\n0,0,0,1,tail,1,9\n", "a name of 200,000 characters"),
    "many columns": (",".join(map(str, range(20_000))) + "\n", "it has 20,000 columns; at most 10,000 are read"),
    "an open quotation mark in the heading": ('"head,relation\n0,0\n', "CSV parse error"),
    "the largest whole number": (
        "head,relation,tail,side,greater,equal,candidates\n0,0,1,tail,9223372036854775807,9223372036854775807,9\n",
        "greater and equal give more ties than any graph has entities: 1 row (row 1)",
    ),
    "a pessimistic rank of 1e308": (
        "head,relation,tail,side,optimistic,pessimistic,candidates\n0,0,1,tail,1,1e308,9\n",
        "optimistic and pessimistic give more ties than any graph has entities: 1 row (row 1)",
    ),
    "a sum that overflows": (
        "head,relation,tail,side,optimistic,pessimistic,candidates\n0,0,1,tail,1.5e308,1.5e308,9\n",
        "rank is larger than the number of candidates: 1 row (row 1)",
    ),
    "a rank of 5,000 digits": (f"{HEADING}\n0,0,1,tail,{'9' * 5000},9\n", "rank is larger than the number"),
    "an id beyond int64": (f"{HEADING}\n{2**64},0,1,tail,1,9\n", f"head is not a whole number, for example '{2**64}'"),
    "a hexadecimal id": (f"{HEADING}\n0x1,0,1,tail,1,9\n", "labels in head and tail, for example '0x1'"),
    "a hexadecimal rank": (f"{HEADING}\n0,0,1,tail,0x1,9\n", "rank is not a number, for example '0x1': 1 row (row 1)"),
    "a hexadecimal number of candidates": (f"{HEADING}\n0,0,1,tail,1,0X9\n", "candidates is not a whole number"),
}


@pytest.mark.parametrize("name", ABSURD)
@pytest.mark.filterwarnings("error")
def test_absurd_text_is_refused_with_its_reason(path: Path, name: str) -> None:
    text, problem = ABSURD[name]
    path.write_text(text, encoding="utf-8")
    with pytest.raises((DataError, UsageError)) as caught:
        import_ranks(path, "csv")
    assert any(problem in line for line in caught.value.problems), caught.value.problems


def test_a_line_of_wrong_length_that_is_no_text_leaves_no_traceback(path: Path, capfd: pytest.CaptureFixture) -> None:
    path.write_bytes(HEADING.encode() + b"\n0,0,1,tail,1,9\n\xff\xfe,1\n")
    with pytest.raises(DataError) as caught:
        import_ranks(path, "csv")
    assert "line 3: not UTF-8" in caught.value.problems[0]
    assert capfd.readouterr() == ("", "")


TYPES = {
    "a list as the side": ({"side": [["tail"]]}, "side holds list"),
    "an object as the side": ({"side": [{"a": 1}]}, "side holds struct"),
    "bytes as the side": ({"side": [b"tail"]}, "side holds binary, expected text or whole numbers"),
    "a list as the head": ({"head": [[0]]}, "head holds list"),
    "a truth value as the tail": ({"tail": [True]}, "tail holds bool"),
    "a list as the rank": ({"rank": [[1]]}, "rank holds list"),
    "a date as the rank": ({"rank": pa.array([1], pa.date32())}, "rank holds date32"),
    "text that is not UTF-8": ({"kind": pa.array([b"\xff"]).view(pa.string())}, "UTF8"),
}


@pytest.mark.parametrize("name", TYPES)
def test_columns_of_other_types_are_refused(tmp_path: Path, name: str) -> None:
    columns = {"head": [0], "relation": [0], "tail": [1], "side": ["tail"], "rank": [1.0], "candidates": [9]}
    changed, problem = TYPES[name]
    pq.write_table(pa.table(columns | changed), tmp_path / "odd.parquet")
    with pytest.raises(DataError) as caught:
        import_ranks(tmp_path / "odd.parquet")
    assert any(problem in line for line in caught.value.problems), caught.value.problems


def test_large_json_is_refused_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "machine_memory", lambda: 20 << 20)
    with gzip.open(tmp_path / "bomb.json.gz", "wb") as file:
        file.write(b"[" + b" " * (30 << 20))
    with pytest.raises(DataError) as caught:
        import_ranks(tmp_path / "bomb.json.gz", num_entities=9)
    assert "it is longer than 1.0 MiB" in caught.value.problems[0]
