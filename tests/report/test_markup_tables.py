from html.parser import HTMLParser
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kgprobe.report.grid import grid_of, one_line
from kgprobe.report.markup_tables import html, markdown
from reporting import HOSTILE, NAMES, numbers_grid

_KNOWN = {"div", "table", "thead", "tbody", "tr", "th", "td", "bdi", "small", "sup", "ul", "li"}


class _Reader(HTMLParser):
    """Tags, attributes and the texts of names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.names: list[str] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "bdi":
            self.names.append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "bdi"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.names[-1] += data


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_any_name_is_text(names: list[str]) -> None:
    read = _Reader(html(grid_of([{"name": name} for name in names])))
    assert set(read.tags) <= _KNOWN
    assert read.attributes <= {"style", "scope", "colspan"}
    assert read.names == ["name", *map(one_line, names)]


@given(NAMES)
def test_any_heading_is_text(name: str) -> None:
    read = _Reader(html(grid_of([{name: 0.5}])))
    assert set(read.tags) <= _KNOWN
    assert read.names == [one_line(name), "0.5000"]


def test_nothing_is_loaded_and_nothing_runs() -> None:
    text = html(numbers_grid(HOSTILE))
    read = _Reader(text)
    assert set(read.tags) <= _KNOWN
    assert "script" not in read.tags
    assert "url(" not in text
    assert len([tag for tag in read.tags if tag == "td"]) == 4 * len(HOSTILE)


def test_places_are_seen_with_and_without_colour() -> None:
    text = html(numbers_grid(["one", "other", "third", "last"], columns=1))
    for colour, place in (("F8A602", "1st"), ("A5A5B1", "2nd"), ("D36A49", "3rd")):
        assert text.count(f"background:#{colour};color:#111") == 1
        assert text.count(place) == 1


def test_headings_span_their_columns() -> None:
    assert html(numbers_grid(["one"], columns=6)).count('scope="colgroup" colspan="2"') == 2


def test_an_empty_table_is_a_table() -> None:
    assert "<tbody>\n</tbody>" in html(grid_of([]))


# ruff: noqa: RUF001 (headings are Greek)

_READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def _shown(token: Token) -> str:
    """The text of a cell as a reader sees it."""
    kept = {"text": lambda t: t.content, "text_special": lambda t: t.content, "html_inline": lambda t: t.content}
    return "".join(kept.get(child.type, lambda t: f"<{t.tag}>")(child) for child in token.children or [])


def _table(text: str) -> list[list[str]]:
    rows: list[list[str]] = []
    tokens = _READER.parse(text)
    for before, token in pairwise(tokens):
        if before.type == "tr_open":
            rows.append([])
        if before.type in ("td_open", "th_open"):
            rows[-1].append(_shown(token))
    return rows


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_any_name_is_shown_as_it_is_in_a_cell_of_its_own(names: list[str]) -> None:
    rows = _table(markdown(grid_of([{"name": name, "value": 0.5} for name in names])))
    assert rows[0] == ["name", "value"]
    assert [_words(row[0]) for row in rows[1:]] == [_words(one_line(name)) for name in names]
    assert [row[1] for row in rows[1:]] == ["0.5000"] * len(names)


def _words(text: str) -> list[str]:
    """Markdown trims cells by its own idea of white space."""
    return text.split()


@given(NAMES)
def test_any_name_may_be_a_heading(name: str) -> None:
    rows = _table(markdown(grid_of([{name: 1, name + "x": 2}])))
    assert [len(row) for row in rows] == [2, 2]
    assert _words(rows[0][0]) == _words(one_line(name))


def test_places_are_bold_or_written_and_marks_raised() -> None:
    rows = _table(markdown(numbers_grid(["one", "other", "third", "fourth", "fifth", "sixth"], columns=2)))
    assert {len(row) for row in rows} == {3}
    assert [row[1] for row in rows[1:5]] == [
        "<strong>0.0000<strong> (1st)",
        "-0.1429 ±0.0123 (2nd) <sup>†</sup>",
        "-0.2857 (3rd) <sup>†‡</sup>",
        "-0.4286 ±0.0123 <sup>abc</sup>",
    ]
    assert rows[0] == ["model", "α=−0", "PROBE(β=0) α=−1"]


def test_formulas_are_not_begun() -> None:
    assert r"| costs \$5 or \$6 |" in markdown(grid_of([{"name": "costs $5 or $6"}]))


def test_notes_are_a_list_below() -> None:
    text = markdown(numbers_grid(["one"]))
    assert text.endswith(
        "\n\n- † not significantly worse, p > 5 %.\n- ‡ \\<not\\> trusted & so_on\n".replace("p >", "p \\>")
    )
