import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.report.grid import Cell, Column, Grid, GridRow, grid_of, one_line
from kgprobe.report.latex_tables import latex, latex_table, latex_text
from reporting import HOSTILE, NAMES, compiled, numbers_grid


def _documents() -> dict[str, Grid]:
    return {
        "hostile": numbers_grid(HOSTILE),
        "one model": numbers_grid(["only"], columns=1),
        "40 models": numbers_grid([f"model {i}" for i in range(40)]),
        "many metrics": numbers_grid(["one", "other"], columns=40),
        "rows": grid_of([{"name": name, "value": 0.5, "more_or less": None} for name in HOSTILE]),
        "nothing": Grid((Column(("model",)),), ()),
    }


@pytest.mark.parametrize("name", _documents())
def test_documents_compile(name: str, tmp_path: Path) -> None:
    compiled(latex_table(_documents()[name], caption="All of them.", label="tab:all", standalone=True), tmp_path)


def test_no_rows_are_no_table() -> None:
    assert latex(grid_of([])) == ""


def test_a_table_compiles_with_the_packages_that_it_names(tmp_path: Path) -> None:
    table = latex_table(numbers_grid(HOSTILE[:4]))
    packages = re.match(r"% needs (.*)", table)[1]
    compiled(f"\\documentclass{{article}}\n{packages}\n\\begin{{document}}\n{table}\\end{{document}}\n", tmp_path)


def test_a_wide_table_is_no_wider_than_the_line(tmp_path: Path) -> None:
    log = compiled(latex_table(numbers_grid(["one", "other"], columns=40), standalone=True), tmp_path)
    assert "Overfull \\hbox" not in log


def test_rows_have_a_cell_for_every_column_and_headings_span_theirs() -> None:
    text = latex(numbers_grid(["one", "other", "third"], columns=6))
    for line in text.splitlines():
        if line.endswith(r" \\"):
            spanned = sum(int(width) - 1 for width in re.findall(r"\\multicolumn\{(\d+)\}", line))
            assert line.count(" & ") + spanned == 6, line
    assert r"\multicolumn{2}{c}{PROBE($\beta$=0)}" in text
    assert r"\cmidrule(lr){3-4}\cmidrule(lr){6-7}" in text


def test_blocks_of_rows_are_ruled_off() -> None:
    lines = latex(numbers_grid(["one", "other", "third", "fourth"], columns=1)).splitlines()
    assert [i for i, line in enumerate(lines) if line == r"\midrule"] == [4, 7]


def test_places_are_seen_without_colour_and_explained() -> None:
    text = latex_table(numbers_grid(["one", "other", "third", "last"], columns=1))
    assert r"\cellcolor[HTML]{F8A602}\textbf{0.0000}" in text
    assert r"\cellcolor[HTML]{A5A5B1}\underline{$-$0.1429}" in text
    assert r"\cellcolor[HTML]{D36A49}\textit{$-$0.2857}" in text
    assert text.count("cellcolor") == 3
    assert "gold and bold, the best; silver and underlined, the second; bronze and italic, the third" in text


def test_marks_take_the_same_room_in_every_row() -> None:
    cells = [Cell("0.1", marks="†"), Cell("0.2"), Cell("0.3", marks="abc")]
    grid = Grid((Column(("x",), numeric=True),), tuple(GridRow((cell,)) for cell in cells))
    widest = r"\textsuperscript{abc}"
    assert latex(grid).splitlines()[4:7] == [
        rf"0.1\rlap{{\textsuperscript{{\textdagger{{}}}}}}\hphantom{{{widest}}} \\",
        rf"0.2\hphantom{{{widest}}} \\",
        rf"0.3{widest} \\",
    ]


def test_everything_is_ascii() -> None:
    assert latex_table(numbers_grid(HOSTILE), standalone=True).isascii()


# ruff: noqa: RUF001 (letters that look like others are what is tested)

_COMMANDS = r"\\[a-zA-Z]+\{\}|\\texttt\{U\+[0-9A-F]+\}|\\[&%$#_{}]|\\.\{|\$[^$]*\$"


@given(NAMES)
def test_any_text_is_ascii_without_a_special_character_left(name: str) -> None:
    text = latex_text(one_line(name))
    assert text.isascii()
    left = re.sub(_COMMANDS, "", text)
    assert not set("&%$#_^\\<>|") & set(left), (text, left)


@given(NAMES, NAMES)
def test_different_names_stay_different(one: str, other: str) -> None:
    # What is written alike looks alike: quotation marks, dashes and spaces of several kinds, and the signs of micro.
    def seen(name: str) -> str:
        alike = str.maketrans({"“": "``", "”": '"', "’": "'", "‘": "`", "–": "--", "—": "---", "µ": "μ", "−": "-"})
        return unicodedata.normalize("NFC", one_line(name).translate(alike)).replace("''", '"')

    if seen(one) != seen(other):
        assert latex_text(one_line(one)) != latex_text(one_line(other))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FB15k-237", "FB15k-237"),
        ("a--b", "a-{}-b"),
        ("*starred [1em]", "{*}starred {[}1em{]}"),
        ("'quoted''", "'quoted'{}'"),
        ("e\u0301", r"\'{e}"),
        ("Erdős Čapek", r"Erd\H{o}s \v{C}apek"),
        ("ấ", r"\'{\^{a}}"),
        ("ά", r"\texttt{U+03AC}"),
        ("ΑΓΛ", r"$\mathrm{A}$$\Gamma$$\Lambda$"),
        ("x²", r"x$^{\mathrm{2}}$"),
        ("H₂", r"H$_{\mathrm{2}}$"),
        ("", ""),
    ],
)
def test_letters(text: str, expected: str) -> None:
    assert latex_text(text) == expected


def test_every_letter_that_is_not_written_as_its_code_point_compiles(tmp_path: Path) -> None:
    letters = [chr(code) for code in range(0x20, 0x2FFF) if unicodedata.category(chr(code)) != "Cn"]
    written = [text for text in map(latex_text, letters) if "U+" not in text]
    assert len(written) > 400
    body = "\n\n".join(f"{{}}{text}{{}}" for text in [*written, *map(latex_text, map(one_line, HOSTILE))])
    compiled(f"\\documentclass{{article}}\n\\begin{{document}}\n{body}\n\\end{{document}}\n", tmp_path)


@given(st.characters(min_codepoint=0x3000, exclude_categories=["Cs"]))
def test_other_scripts_are_code_points(letter: str) -> None:
    composed = unicodedata.normalize("NFC", letter)
    assert latex_text(letter) == "".join(f"\\texttt{{U+{ord(c):04X}}}" for c in composed)
