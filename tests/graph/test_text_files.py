import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe import resources
from kgprobe.bounded_files import read_bounded
from kgprobe.graph import text_files
from kgprobe.graph.text_files import SHOWN, Complaints, Layout, read_dictionary, read_lines, read_text, whole_number
from kgprobe.resources import TooLarge

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


def _no_b(_number: int, fields: list[str]) -> str | None:
    return "has b" if "b" in fields else None


def test_good_fields_and_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffa\tc\r\n\n  \nb\td\n\xff\n".encode("utf-8")[:-3] + b"\xfe\tz\n")
    rows, problems = read_lines(path, lambda line: line.split("\t"), _no_b, header=False)
    assert rows == [["a", "c"]]
    assert problems == [
        "x.txt, line 4: has b: 'b\\td'",
        "x.txt, line 5: not UTF-8 (byte 1 is 0xfe): '\\\\xfe\\tz'",
    ]


def test_unusual_characters_do_not_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("a\u2028\x85\x0bb\n", encoding="utf-8")
    rows, problems = read_lines(path, lambda line: [line], _no_b, header=False)
    assert (rows, problems) == ([["a\u2028\x85\x0bb"]], [])


def test_lines_that_end_with_a_carriage_return_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"a\rb\rc\r")
    rows, problems = read_lines(path, lambda line: [line], _no_b, header=False)
    assert rows == [["a"], ["c"]]
    assert problems == ["x.txt, line 2: has b: 'b'"]


def test_many_complaints_stay_readable() -> None:
    complaints = Complaints("f")
    for number in range(1, 1001):
        complaints.add(number, "bad", "x" * 1000)
    lines = complaints.lines()
    assert len(lines) == SHOWN + 1
    assert max(map(len, lines)) < 120
    assert lines[-1] == "f: 980 more bad lines: 21-1000"


def test_complaints_about_any_number_of_lines_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_LISTED", 100)
    complaints = Complaints("f")
    for number in range(1, 1001):
        complaints.add(number, "bad", "x")
    assert len(complaints.more) == 100
    assert complaints.lines()[-1] == "f: 980 more bad lines: 21-120, and 880 after them"


def test_header_counts_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    for text, expected in {
        "2\na\nc\n": [],
        "0\n": [],
        "3\na\nb\n": [
            "x.txt, line 3: has b: 'b'",
            "x.txt: the first line says that 3 lines follow, but 2 do",
        ],
        "a\nc\n": ["x.txt, line 1: expected the number of lines that follow: 'a'"],
        "": ["x.txt: empty"],
    }.items():
        path.write_text(text)
        assert read_lines(path, str.split, _no_b, header=True)[1] == expected, text


def test_whole_numbers() -> None:
    assert whole_number("007") == 7
    for text in ("", "-1", "1.0", "+1", "1_0", "\u0663", "9" * 19):
        assert whole_number(text) is None


NUMBERED = Layout({"name": False, "number": True}, "name<TAB>number", "\t", lambda line: line.split("\t"))


def _rows(path: Path) -> list[tuple[str, int]] | None:
    problems: list[str] = []
    columns = read_text(path, NUMBERED, None, problems)
    assert (columns is None) == bool(problems)
    if columns is None:
        return None
    return list(zip(columns["name"].to_pylist(), columns["number"].to_pylist(), strict=True))


label = st.text(st.characters(exclude_characters="\t\r\n\ufeff", exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(label, st.integers(0, 10**9)), min_size=1), end=st.sampled_from(["\n", "\r\n"]))
def test_any_labels_are_read_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]], end: str
) -> None:
    path = tmp_path_factory.mktemp("text") / "x.txt"
    path.write_bytes("".join(f"{name}\t{number}{end}" for name, number in rows).encode() + b"\n")
    assert _rows(path) == rows


def test_the_fast_way_is_the_one_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "read_lines", lambda *_, **__: pytest.fail("read line by line"))
    path = tmp_path / "x.txt"
    path.write_bytes(b'NA\t1\r\n"null\t2\r\nnan"\t3\r\n\r\n')
    assert _rows(path) == [("NA", 1), ('"null', 2), ('nan"', 3)]


def test_the_slow_way_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    path.write_text("NA\t1\n\nb\t2\nNA\t3")
    fast = _rows(path)
    monkeypatch.setattr(text_files, "_read_fast", lambda *_: None)
    assert _rows(path) == fast == [("NA", 1), ("b", 2), ("NA", 3)]


def test_long_files_have_one_dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of several blocks, whose blocks have different labels."""
    rows = [(f"name {i // 2}" * 20, i) for i in range(200_000)]
    path = tmp_path / "x.txt"
    path.write_text("".join(f"{name}\t{number}\n" for name, number in rows))
    assert path.stat().st_size > 2 * (1 << 24)
    monkeypatch.setattr(text_files, "read_lines", lambda *_, **__: pytest.fail("read line by line"))
    assert _rows(path) == rows


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("x.txt", b"", "x.txt: empty"),
        ("x.txt", b"\n\r\n", "x.txt: empty"),
        ("x.txt", b"a\t1\nb\n", "x.txt, line 2: 1 field, expected name<TAB>number: 'b'"),
        ("x.txt", b"a\t1\nb\t2\t3\n", "x.txt, line 2: 3 fields"),
        ("x.txt", b"a\t1\n\n\t2\n", "x.txt, line 3: empty name"),
        ("x.txt", b"a\t-1\n", "x.txt, line 1: '-1' is not an id"),
        ("x.txt", b"a\t1\nb\tNA\n", "x.txt, line 2: 'NA' is not an id"),
        ("x.txt", b"a\t99999999999999999999\n", "x.txt, line 1: '99999999999999999999' is not an id"),
        ("x.txt", b"a\xff\t1\n", "x.txt, line 1: not UTF-8 (byte 2 is 0xff)"),
        ("x.txt", gzip.compress(b"a\t1\n", mtime=0), "x.txt: is a gzip file, expected lines of name<TAB>number"),
        ("x.txt", b"PAR1\x00\x00", "x.txt: is a Parquet file"),
        ("x.txt.gz", b"a\t1\n", "x.txt.gz: cannot be read (Not a gzipped file"),
        (
            "x.txt.gz",
            gzip.compress(b"a\t1\n" * 1000, mtime=0)[:-12],
            "x.txt.gz: cannot be read (Compressed file ended",
        ),
        ("x.txt.gz", gzip.compress(b"a\tb\n", mtime=0), "x.txt.gz, line 1: 'b' is not an id"),
    ],
)
def test_what_is_wrong_in_a_text_file_is_said(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    problems: list[str] = []
    assert read_text(tmp_path / name, NUMBERED, None, problems) is None
    assert len(problems) == 1
    assert problems[0].startswith(complaint)


def test_a_directory_in_place_of_a_file(tmp_path: Path) -> None:
    problems: list[str] = []
    assert read_text(tmp_path, NUMBERED, None, problems) is None
    assert "cannot be read" in problems[0]


def test_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "x.txt.gz").write_bytes(gzip.compress(b"a\t1\n") + gzip.compress(b"b\t2\n"))
    assert _rows(tmp_path / "x.txt.gz") == [("a", 1), ("b", 2)]


def _bomb(path: Path, block: bytes, number: int) -> Path:
    with gzip.open(path, "wb") as file:
        for _ in range(number):
            file.write(block)
    assert path.stat().st_size < 1 << 20
    return path


@pytest.mark.parametrize("counted", [False, True], ids=["plain", "with a number of lines"])
def test_one_line_of_any_length_is_refused_while_it_is_read(tmp_path: Path, counted: bool) -> None:
    path = _bomb(tmp_path / "x.txt.gz", bytes(1 << 20), 40)
    layout = Layout(LAYOUT.columns, LAYOUT.described, "\t", LAYOUT.split, counted=counted)
    problems: list[str] = []
    assert read_text(path, layout, None, problems) is None
    (problem,) = problems
    assert "line 1 is longer than 16.0 MiB, the longest line that is read" in problem


def test_a_file_that_unpacks_beyond_the_limit_is_refused_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _bomb(tmp_path / "x.dict.gz", b"0\tlabel\n" * 10_000, 100)
    monkeypatch.setattr(resources, "machine_memory", lambda: 2 << 20)
    problems: list[str] = []
    assert read_text(path, LAYOUT, None, problems) is None
    assert "x.dict.gz: cannot be read (the compressed file unpacks to" in problems[0]
    assert "more than the limit of 1.0 MiB" in problems[0]
    assert "--memory" in problems[0]
    with pytest.raises(TooLarge, match="more than the limit"):
        read_bounded(path)
    with pytest.raises(TooLarge, match=r"longer than 9\.8 KiB"):
        read_bounded(path, 10_000)
    monkeypatch.setattr(resources, "machine_memory", lambda: 20 << 20)
    assert len(read_bounded(path)) == 8_000_000


IDS = Layout({"a": True, "b": True}, "two ids", " \t", str.split, counted=True)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("blank", ["", " ", "   ", "\t", " \t "], ids=repr)
@pytest.mark.parametrize("layout", [LAYOUT, IDS], ids=["labels", "ids"])
def test_blank_lines_are_skipped_without_reading_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout, blank: str, end: str
) -> None:
    monkeypatch.setattr(text_files, "read_lines", _not_called)
    rows, second = (["0\tx", "1\ty z"], ["x", "y z"]) if layout is LAYOUT else (["0 5", "1 7"], [5, 7])
    first = ["2"] if layout.counted else []
    for lines in ([*rows, blank], [rows[0], blank, blank, rows[1]], [blank, *rows, blank, blank]):
        for last in ("", end):
            path = tmp_path / "x.txt"
            path.write_bytes((end.join([*first, *lines]) + last).encode())
            columns = read_text(path, layout, None, [])
            assert columns is not None
            assert [column.to_pylist() for column in columns.values()] == [[0, 1], second]


def _not_called(*_arguments: Any, **_options: Any) -> None:
    raise AssertionError("the file was read line by line")


def test_blank_lines_at_the_ends_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "read_lines", _not_called)
    path = tmp_path / "x.txt"
    path.write_bytes(b"".join(b"%d\tx%d\n%s\n" % (i, i, b" " * (i % 3)) for i in range(300)))
    for block in (7, 64, 501):
        monkeypatch.setattr(text_files, "BLOCK", block)
        columns = read_text(path, LAYOUT, None, [])
        assert columns is not None
        assert columns["id"].to_pylist() == list(range(300))


def test_a_line_of_blank_fields_is_a_blank_line(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    layout = Layout({"a": False, "b": False}, "a<TAB>b", "\t", lambda line: line.split("\t"))
    path.write_text(" \t \nx\ty\n")
    columns = read_text(path, layout, None, [])
    assert columns is not None
    assert columns["a"].to_pylist() == ["x"]


@pytest.mark.parametrize("number", ["0x1", "0X1", "-0x1", "-0", "+1"])
def test_a_number_with_a_sign_or_in_hexadecimal_is_no_id(tmp_path: Path, number: str) -> None:
    (tmp_path / "entities.dict").write_text(f"0\ta\n{number}\tb\n", encoding="utf-8")
    problems: list[str] = []
    assert read_dictionary(tmp_path / "entities.dict", LAYOUT, problems) is None
    assert problems == [f"entities.dict, line 2: '{number}' is not an id: '{number}\\tb'"]


def test_a_label_may_look_like_a_hexadecimal_number(tmp_path: Path) -> None:
    (tmp_path / "entities.dict").write_text("0\t0x1\n1\tb 0x2\n", encoding="utf-8")
    assert read_dictionary(tmp_path / "entities.dict", LAYOUT, []).to_pylist() == ["0x1", "b 0x2"]


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "entities.dict")
    problems: list[str] = []
    assert read_dictionary(tmp_path / "entities.dict", LAYOUT, problems) is None
    assert "a pipe or a device" in problems[0]
