from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from kgprobe.report.render.grid import grid_of
from kgprobe.report.render.html import html
from kgprobe.report.render.text import one_line
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
