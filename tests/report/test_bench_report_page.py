"""Benches of the open world in a page: what it carries, and what a browser shows of it."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benches import made_pairs
from browser import Opened, made_graph, made_tables, opened, write
from kgprobe.openworld import Bench
from kgprobe.openworld.benches import BenchSettings, bench
from kgprobe.openworld.consistency import ranking
from kgprobe.report.bench_report import write_bench
from kgprobe.report.page.entries import world_entry
from kgprobe.report.page.payload import unpack

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"

METRICS = ("MRR", "Hits@1", "pMRR(p=0.25)", "PROBE(alpha=1)", "PROBE(alpha=-1)", "MR")

SETTINGS = BenchSettings(replicates=50, late=0.3)


@pytest.fixture(scope="module")
def benches() -> dict[str, Bench]:
    worlds = {"sparse": made_pairs(4, 3, queries=20), EVIL: made_pairs(3, 2, queries=20)}
    return {name: bench(pairs, METRICS, world=name, settings=SETTINGS) for name, pairs in worlds.items()}


@pytest.fixture(scope="module")
def alone(benches: dict[str, Bench], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alone") / "bench.html"
    write_bench(benches, path, title="Mine", command="kgprobe openworld bench it")
    return path


@pytest.fixture(scope="module")
def it(window: Any, alone: Path) -> Iterator[Opened]:
    with opened(window, alone) as page:
        page.go()
        yield page


def _chart(it: Opened, number: int) -> Any:
    plot = "all => all.map(({ data }) => data.map(({ x, y }) => [[...x], [...y]]))"
    return it.page.locator("#panel-openworld .chart").evaluate_all(plot)[number]


def test_the_page_carries_every_point(benches: dict[str, Bench], alone: Path) -> None:
    (text,) = re.findall(r'id="data">([^<]*)</script>', alone.read_text(encoding="utf-8"))
    header, arrays = unpack(base64.b64decode(text))
    assert header["openWorld"] == [world_entry(one) for one in benches.values()]
    assert (header["title"], header["command"], arrays) == ("Mine", "kgprobe openworld bench it", {})
    points = benches["sparse"].points
    for number, metric in enumerate(header["openWorld"][0]["metrics"]):
        assert metric["open"] == pytest.approx(points.open[number].tolist(), abs=1e-6)
        assert metric["closed"] == pytest.approx(points.closed[number].tolist(), abs=1e-6)
        assert metric["best"] == ranking(points, number).point.tolist()


def test_lines_are_models_by_closed_value(it: Opened, benches: dict[str, Bench]) -> None:
    it.at("worldMetric=Hits%401")
    points = benches["sparse"].points
    equal, *lines = _chart(it, 0)
    assert equal[0] == equal[1]
    assert len(lines) == 4
    for code, (x, y) in enumerate(lines):
        own = [i for i in np.argsort(points.closed[1], kind="stable") if points.model[i] == code]
        assert x == pytest.approx(points.closed[1, own].tolist(), abs=1e-6)
        assert y == pytest.approx(points.open[1, own].tolist(), abs=1e-6)


def test_the_order_of_the_models_is_joined_and_its_inversions_counted(it: Opened, benches: dict[str, Bench]) -> None:
    page = it.at("worldMetric=Hits%401")
    found = ranking(benches["sparse"].points, 1)
    places = [[found.by_open.tolist().index(i), found.by_closed.tolist().index(i)] for i in range(4)]
    assert _chart(it, 1) == [[place, [1, 0]] for place in places]
    assert f"{found.inverted} of 6 pairs inverted" in page.inner_text("#panel-openworld")


def test_the_chosen_metric_is_drawn_and_the_link_keeps_it(it: Opened) -> None:
    page = it.at()
    before = _chart(it, 0)
    page.select_option("#worldMetric", label="MR")
    it.settled()
    assert _chart(it, 0) != before
    assert "worldMetric=MR" in page.url
    assert "lower is better" in page.inner_text("#panel-openworld .chart")


def test_the_chosen_world_is_shown_whatever_its_name(it: Opened, benches: dict[str, Bench]) -> None:
    page = it.at()
    assert benches["sparse"].verdict[0] in page.inner_text("#panel-openworld")
    page.select_option("#world", label=EVIL)
    it.settled()
    assert len(_chart(it, 1)) == 3
    shown = page.inner_text("#panel-openworld")
    for sentence in [*benches[EVIL].verdict, *benches[EVIL].notes]:
        assert sentence in shown


def test_the_table_has_every_statistic_and_sorts(it: Opened, benches: dict[str, Bench]) -> None:
    page = it.at("worldSort=-tau")
    rows = page.locator("#panel-openworld table", has_text="Consistency of each metric").locator("tbody tr")
    shown = {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows.all()}
    wanted = {row["metric"]: row for row in benches["sparse"].to_rows()}
    assert list(shown) == sorted(wanted, key=lambda name: -wanted[name]["tau"])
    for name, (tau, rho, discordant, *_, inverted, _, gap) in shown.items():
        row = wanted[name]
        assert [tau, rho, gap] == [f"{row[key]:.4f}".replace("-", "\u2212") for key in ("tau", "rho", "gap")]
        assert [discordant, inverted] == [str(row["discordant"]), str(row["inverted"])]
    page.get_by_role("button", name="Rho").click()
    it.settled()
    assert "worldSort=-rho" in page.url


def test_a_report_shows_the_open_world_beside_its_ranks(window: Any, benches: dict[str, Bench], tmp_path: Path) -> None:
    file = write(tmp_path / "both.html", made_tables(), made_graph(), benches={"sparse": benches["sparse"]})
    with opened(window, file) as it:
        page = it.go()
        page.get_by_role("tab", name="Open world").click()
        it.settled()
        assert "tab=openworld" in page.url
        assert len(_chart(it, 1)) == 4
        assert not page.locator("#world").count()
        assert benches["sparse"].verdict[0] in page.inner_text("#panel-openworld")
        assert it.at("tab=metrics&alpha=0").inner_text("#verdict").startswith("At alpha 0")


def test_a_phone_need_not_scroll_sideways(window: Any, alone: Path) -> None:
    with opened(window, alone, width=360) as it:
        assert it.go().evaluate("document.documentElement.scrollWidth") == 360


def test_a_report_without_it_has_no_such_tab(made: Path) -> None:
    assert 'id="panel-openworld"' not in made.read_text(encoding="utf-8")
