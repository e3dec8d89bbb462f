"""The maps over the (alpha, beta) plane, and the rank histogram."""

from typing import Any

import numpy as np

import kgprobe as kp
from browser import MINUS, Opened, made_graph, made_tables


def finished(it: Opened) -> None:
    it.page.wait_for_function(
        "() => document.querySelector('#panel-map .chart')?.data"
        " && !document.querySelector('#panel-map > [role=status]').textContent"
    )


def marked(it: Opened) -> Any:
    """The current point as each of the two maps shows it."""
    anchors = "all => all.map(({ layout: { shapes: [point] } }) => [point.xanchor, point.yanchor])"
    return it.page.locator("#panel-map .chart").evaluate_all(anchors)


def test_the_map_names_the_winner_everywhere(it: Opened) -> None:
    finished(it)
    plot = it.page.evaluate("(({ x, y, z }) => ({ x, y, z }))(document.querySelector('#panel-map .chart').data[0])")
    metrics = {(a, b): f"PROBE(alpha={a},beta={b})" for a in (-1, -0.35, 0, 1) for b in (0, 0.25, 0.8)}
    scores = [kp.evaluate(table, metrics.values(), graph=made_graph()) for table in made_tables().values()]
    for (alpha, beta), metric in metrics.items():
        code = plot["z"][plot["y"].index(beta)][plot["x"].index(alpha)]
        assert int(code) // 2 == np.argmax([score[metric] for score in scores]), (alpha, beta)


def test_a_click_goes_there(it: Opened) -> None:
    finished(it)
    page = it.page
    area = page.locator("#panel-map .chart").first.locator(".nsewdrag")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.wait_for_selector("#panel-map .hoverlayer text")
    page.mouse.click(*middle)
    it.settled()
    assert (page.input_value("#alpha"), page.input_value("#beta")) == ("0", "0.4")
    assert marked(it) == [[0, 0.4], [0, 0.4]]


def test_the_marked_point_follows_the_sliders(it: Opened) -> None:
    finished(it)
    it.page.get_by_role("button", name="Tolerant, rare targets").click()
    it.settled()
    assert marked(it) == [[-1, 0.8], [-1, 0.8]]


def test_the_table_beside_the_map_says_the_same(it: Opened) -> None:
    finished(it)
    page = it.page
    page.get_by_text("The map as a table").click()
    cell = page.get_by_role("button", name=f"at alpha {MINUS}0.5, beta 0.6")
    metric = "PROBE(alpha=-0.5,beta=0.6)"
    scores = {model: kp.evaluate(table, [metric], graph=made_graph())[metric] for model, table in made_tables().items()}
    assert cell.inner_text().startswith(max(scores, key=lambda model: scores[model]))
    cell.press("Enter")
    it.settled()
    assert (page.input_value("#alpha"), page.input_value("#beta")) == ("-0.5", "0.6")


def test_the_heat_map_puts_models_between_worst_and_best(it: Opened) -> None:
    it.at("heat=seeded")
    finished(it)
    plot = it.page.evaluate(
        "(({ x, y, z }) => ({ x, y, z }))(document.querySelectorAll('#panel-map .chart')[1].data[0])"
    )
    metric = "PROBE(alpha=0.5,beta=0.3)"
    scores = {model: kp.evaluate(table, [metric], graph=made_graph())[metric] for model, table in made_tables().items()}
    low, high = min(scores.values()), max(scores.values())
    shown = plot["z"][plot["y"].index(0.3)][plot["x"].index(0.5)]
    assert abs(shown - (scores["seeded"] - low) / (high - low)) < 1e-9


def test_histogram_counts_ranks(it: Opened) -> None:
    page = it.at("tab=ranks&first=sharp&second=plain")
    bars = page.evaluate("document.querySelector('#panel-ranks .chart').data.map(trace => trace.y)")
    edges = [0, 1, 2, 10, 100, 1000, np.inf]
    want = [
        np.histogram(-made_tables()[model].rank, bins=-np.array(edges[::-1]))[0][::-1] for model in ("sharp", "plain")
    ]
    assert np.array_equal(bars, want)
    page.get_by_text("The numbers").click()
    rows = page.locator("#panel-ranks tbody tr").all()
    assert [float(row.locator("td").first.inner_text()) for row in rows] == want[0].tolist()
    page.select_option("#second", label="seeded")
    it.settled()
    assert "sharp minus seeded" in page.inner_text("#panel-ranks")
