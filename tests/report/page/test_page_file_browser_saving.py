"""What a reader takes away from a page: images of charts and LaTeX of tables."""

import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import kgprobe as kp
from browser import MINUS, Opened, made_tables, opened, write
from kgprobe.report.latex_tables import latex_text
from pages import made_up

NAMES = ["R&D_50% {x}", "Ärger ß α²", 'quote"s --- ~^\\', "模型 🦉"]


def image(it: Opened, button: str) -> bytes:
    with it.page.expect_download() as download:
        it.page.get_by_role("button", name=button).click()
    return Path(download.value.path()).read_bytes()


def copied(it: Opened, window: Any, button: str) -> str:
    window.grant_permissions(["clipboard-read", "clipboard-write"])
    it.page.get_by_role("button", name=button).click()
    it.page.wait_for_function(
        "() => [...document.querySelectorAll('[role=status]')].some(one => one.textContent === 'Copied.')"
    )
    return str(it.page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.parametrize(
    ("tab", "button", "texts"),
    [
        (
            "map",
            "Save chart as SVG: Map of the best model",
            ["Best model; hatched: lead not significant", "alpha (sharpness)"],
        ),
        ("groups", "Save chart as SVG: Score by group", ["PROBE by group, alpha 1, beta 0", "score"]),
        ("ranks", "Save chart as SVG: Number of queries by rank", ["Number of queries by rank", "101-1,000"]),
    ],
)
def test_a_chart_is_saved_with_its_title_and_legend(it: Opened, tab: str, button: str, texts: list[str]) -> None:
    it.at(f"tab={tab}&hidden=plain")
    it.page.wait_for_selector(f"#panel-{tab} .chart .main-svg")
    root = ElementTree.fromstring(image(it, button))
    assert root.tag.endswith("svg")
    shown = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {*texts, "sharp", "seeded"} <= set(shown)
    assert "plain" not in shown
    assert not [text for text in shown if text.startswith("trace")]


def test_a_chart_is_saved_as_pixels(it: Opened) -> None:
    page = it.at("tab=ranks")
    content = image(it, "Save chart as PNG: Difference")
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    chart = page.locator("#panel-ranks .chart").nth(1)
    assert width == 3 * int(chart.evaluate("chart => chart.clientWidth"))
    assert height > 3 * 220


def test_scores_as_latex(it: Opened, window: Any) -> None:
    page = it.at("alpha=0&hidden=plain&side=head")
    lines = copied(it, window, "Copy LaTeX of the scores").splitlines()
    assert lines[0] == r"\begin{tabular}{llrlrrrrr} % needs \usepackage{booktabs}"
    assert lines[2].split(" & ")[:3] == ["Place", "Model", "PROBE"]
    assert lines[-1] == r"\end{tabular}"
    rows = [line.removesuffix(r" \\").split(" & ") for line in lines[4:-2]]
    shown = it.scores()
    assert [row[1] for row in rows] == list(shown)
    assert [row[2] for row in rows] == [f"{value:.4f}" for value in shown.values()]
    assert rows[0][4] == "best"
    first, second = shown.values()
    assert rows[1][4].startswith(f"{second - first:.4f}".replace("-", "$-$") + r" {\footnotesize ")
    assert page.inner_text("#scores-actions [role=status]") == "Copied."


def test_groups_as_latex(it: Opened, window: Any) -> None:
    it.at("tab=groups&by=relation")
    lines = copied(it, window, "Copy LaTeX of the groups").splitlines()
    sharp = {
        s.group["relation"]: s for s in kp.scores(made_tables()["sharp"], ["PROBE(alpha=1,beta=0)"], by=["relation"])
    }
    rows = {line.split(" & ")[0]: line for line in lines[4:-2]}
    assert set(rows) == {f"relation-{relation}" for relation in sharp}
    for relation, score in sharp.items():
        assert f"{score.value:.4f}" in rows[f"relation-{relation}"]
    assert sum(r"\textbf{" in line for line in rows.values()) == len(rows)


def test_any_name_is_the_latex_of_the_package(window: Any, tmp_path: Path) -> None:
    table = made_up(models=1)["model 0"]
    path = write(tmp_path / "names.html", dict.fromkeys(NAMES, table), None)
    with opened(window, path) as it:
        it.go()
        lines = copied(it, window, "Copy LaTeX of the scores").splitlines()
        assert [line.split(" & ")[1] for line in lines[4:-2]] == [latex_text(name) for name in NAMES]


def test_a_refused_clipboard_shows_the_source(window: Any, made: Path) -> None:
    with opened(window, made) as it:
        page = it.go("tab=queries&search=entity-3")
        page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('denied')); }")
        page.get_by_role("button", name="Copy LaTeX of the shown queries").click()
        source = page.locator("#panel-queries .source")
        source.wait_for()
        assert source.inner_text().startswith(r"\begin{tabular}")
        assert page.evaluate("getSelection().toString()").strip() == source.inner_text().strip()


def test_negative_numbers_have_a_minus_in_both(it: Opened, window: Any) -> None:
    page = it.at("tab=metrics&metric=MRR")
    shown = page.locator("#panel-metrics table").nth(1).locator("tbody tr").first.inner_text()
    lines = copied(it, window, "Copy LaTeX of the differences").splitlines()
    assert (MINUS in shown) == ("$-$" in lines[4])
