# ruff: noqa: RUF001 (letters that look like others are what is tested)
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.report.render.latex_text import latex_text
from kgprobe.report.render.text import one_line
from reporting import HOSTILE, NAMES, compiled

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
