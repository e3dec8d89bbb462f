from pathlib import Path

from kgprobe.graph.readers.lines import SHOWN, Complaints, read_lines, whole_number


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
