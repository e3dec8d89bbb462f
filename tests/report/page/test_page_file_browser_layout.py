"""Six models with long names fit every screen, in the colours of the figures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Opened, made_graph, made_ranks, opened, write
from kgprobe.comparison import line_up
from kgprobe.report.figures.style import looks
from kgprobe.report.page.page_file import write_page
from kgprobe.report.page.payload import About

pytestmark = pytest.mark.slow  # browsers start slowly

NAMES = [f"ComplEx-N3_reciprocal_dim{2 ** (7 + i)}_lr0.05-batch-1024" for i in range(5)] + ["W" * 60]

TABS = ("map", "ranks", "groups", "queries", "metrics", "audit", "protocol")

HIDDEN = """(width) => [...document.querySelectorAll('main :is(.chart, table, button, select, th, td, .model)')].filter(
  (one) => one.checkVisibility() && !one.closest('.tabs, .unseen, thead.plain, .as-table')
    && (one.getBoundingClientRect().right > width + 1 || one.getBoundingClientRect().left < -1)
).map((one) => one.outerHTML.slice(0, 90))"""

BEYOND_BOX = """(titles) => [...document.querySelectorAll('[role=tabpanel]:not([hidden]) .box th, .scores th')]
  .filter((head) => head.checkVisibility() && titles.some((title) => head.textContent.startsWith(title)))
  .filter((head) => head.getBoundingClientRect().right > head.closest('.box').getBoundingClientRect().right + 1)
  .map((head) => head.textContent)"""

SMALL_TARGETS = """() => [...document.querySelectorAll('button, select, summary, label.check')].filter((one) => {
  const { height, width } = one.getBoundingClientRect();
  return one.checkVisibility() && height > 0 && (height < 24 || width < 24);
}).map((one) => one.outerHTML.slice(0, 90))"""


@pytest.fixture(scope="module")
def six(window: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    graph = made_graph()
    tables = {name: made_ranks(graph, skill=1 + i / 2, seed=i + 1) for i, name in enumerate(NAMES)}
    path = write(tmp_path_factory.mktemp("six") / "six.html", tables, graph)
    with opened(window, path) as it:
        it.go()
        yield it


@pytest.mark.parametrize("width", [390, 1024, 1400])
def test_all_models_are_visible(six: Opened, width: int) -> None:
    page = six.page
    page.set_viewport_size({"width": width, "height": 900})
    for tab in TABS:
        six.at(f"tab={tab}")
        assert page.evaluate("document.documentElement.scrollWidth") == width, tab
        if tab != "queries":
            assert page.evaluate(HIDDEN, width) == [], tab
        if width == 1400 or tab != "queries":
            assert page.evaluate(BEYOND_BOX, NAMES) == [], tab
        assert page.evaluate(SMALL_TARGETS) == [], tab
    assert page.locator(".scores .score:visible").count() == 6


def test_on_a_phone_every_cell_names_its_model(six: Opened) -> None:
    page = six.page
    page.set_viewport_size({"width": 390, "height": 900})
    for tab in ("groups", "queries"):
        six.at(f"tab={tab}")
        row = page.locator(f"#panel-{tab} tbody tr").first
        titles = row.locator("td").evaluate_all(
            "cells => cells.map(cell => getComputedStyle(cell, '::before').content)"
        )
        assert {f'"{name}"' for name in NAMES} <= set(titles)
        assert page.locator(f"#panel-{tab} thead .sort").first.is_visible()
    page.set_viewport_size({"width": 1280, "height": 900})


def rgb(colour: str) -> str:
    return "rgb({}, {}, {})".format(*(int(colour[at : at + 2], 16) for at in (1, 3, 5)))


def test_colours_are_those_of_the_figures(six: Opened) -> None:
    page = six.at("theme=light&tab=groups")
    wanted = {name: rgb(look.colour) for name, look in looks(NAMES).items()}
    rows = page.locator(".scores tbody tr")
    swatches = rows.locator(".swatch").evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    assert dict(zip(six.scores(), swatches, strict=True)) == wanted
    drawn = page.evaluate("document.querySelector('#panel-groups .chart').data.map(({ marker }) => marker.color)")
    assert [rgb(colour) for colour in drawn] == list(wanted.values())


def test_black_is_seen_on_a_dark_ground(window: Any, tmp_path: Path) -> None:
    graph = made_graph()
    tables = {f"model {i}": made_ranks(graph, skill=1 + i / 8, seed=i + 1) for i in range(10)}
    write_page(tmp_path / "ten.html", line_up(tables), About())
    with opened(window, tmp_path / "ten.html") as it:
        page = it.go("theme=dark")
        colours = page.locator(".models .swatch").evaluate_all(
            "all => all.map(one => getComputedStyle(one).backgroundColor)"
        )
        assert len(set(colours)) == 10
        assert min(max(map(int, colour[4:-1].split(","))) for colour in colours) > 100
        it.at("theme=light")
        light = page.locator(".models .swatch").evaluate_all(
            "all => all.map(one => getComputedStyle(one).backgroundColor)"
        )
        assert light == [rgb(look.colour) for look in looks(list(tables)).values()]
        assert light[6] == "rgb(0, 0, 0)"
