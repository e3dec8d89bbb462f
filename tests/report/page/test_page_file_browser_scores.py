"""The scores that the page computes are those of the package, wherever the sliders stand."""

import math
from pathlib import Path
from typing import Any

import pytest

import kgprobe as kp
from browser import MINUS, Opened, made_graph, made_tables, opened

POINTS = [(1, 0), (0, 0), (-1, 0.8), (0.37, 0.21), (-0.05, 0.8)]

WIDE = [(5, 0.5), (-5, 2), (2.5, -2)]


def expected(tables: dict[str, kp.Ranks], graph: kp.KnowledgeGraph, alpha: float, beta: float) -> dict[str, float]:
    metric = f"PROBE(alpha={alpha},beta={beta})"
    return {model: kp.evaluate(table, [metric], graph=graph)[metric] for model, table in tables.items()}


def slide(it: Opened, alpha: float, beta: float) -> dict[str, float]:
    for name, value in (("alpha", alpha), ("beta", beta)):
        it.page.eval_on_selector(
            f"#{name}", "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
        )
    it.settled()
    return it.scores()


def test_sliders_give_the_scores_of_evaluate(it: Opened) -> None:
    tables, graph = made_tables(), made_graph()
    it.at("wide=yes")
    for alpha, beta in [*POINTS, *WIDE]:
        want = expected(tables, graph, alpha, beta)
        assert slide(it, alpha, beta) == pytest.approx(want, abs=1e-9, rel=0), (alpha, beta)


def test_published_ranks(window: Any, published: Path, wn18rr: dict[str, kp.Ranks], data: Path) -> None:
    graph = kp.load_graph(data / "graphs" / "wn18rr")
    with opened(window, published) as it:
        page = it.go()
        for alpha, beta in ((0.37, 0.21), (-1, 0.8), (1, 0)):
            want = expected(wn18rr, graph, alpha, beta)
            assert slide(it, alpha, beta) == pytest.approx(want, abs=1e-9, rel=0), (alpha, beta)
            assert list(it.scores()) == sorted(want, key=lambda model: -want[model])
        # As the paper says, HousE rises from the last place to the first.
        assert list(it.scores())[-1] == "HousE"
        page.get_by_role("button", name="Like mean rank").click()
        it.settled()
        assert next(iter(it.scores())) == "HousE"
        assert page.inner_text("#verdict").startswith(
            f"At alpha {MINUS}1, beta 0: HousE has the highest score, but shares "
        )


def test_table_says_place_interval_and_noise(it: Opened) -> None:
    page = it.at("alpha=1&beta=0")
    rows = page.locator(".scores tbody tr")
    assert page.locator(".scores .place").all_inner_texts() == ["1\nfirst", "2", "3"]
    scores = it.scores()
    best = max(scores, key=lambda model: scores[model])
    assert "best" in rows.first.inner_text()
    for i in (1, 2):
        text = rows.nth(i).inner_text()
        assert "significant" in text
        model = list(scores)[i]
        assert f"{scores[model] - scores[best]:.4f}".replace("-", MINUS) in text
        low, high = map(float, rows.nth(i).locator(".range-text").inner_text().split(" to "))
        assert low < scores[model] < high
    deviations = dict(zip(scores, page.locator(".scores td:last-child").all_inner_texts(), strict=True))
    assert deviations["plain"] == "one seed"
    assert math.isclose(
        float(deviations["seeded"]), kp.scores(made_tables()["seeded"], ["PROBE(alpha=1,beta=0)"])[0].std, abs_tol=5e-5
    )


def test_few_effective_queries_are_said(it: Opened) -> None:
    page = it.at("alpha=1&beta=0")
    assert "unreliable" not in page.inner_text("#scores")
    it.at("alpha=1&beta=2")
    assert page.inner_text("#scores").count("unreliable interval") == 3
    assert "are unreliable" in page.inner_text("#scores-remark")


def test_presets_set_both_sliders(it: Opened) -> None:
    page = it.page
    for name, alpha, beta in (("Logarithmic", "0", "0"), ("Sharp, rare targets", "1", "0.8"), ("Like MRR", "1", "0")):
        preset = page.get_by_role("button", name=name, exact=True)
        preset.click()
        it.settled()
        assert (page.input_value("#alpha"), page.input_value("#beta")) == (alpha, beta)
        assert preset.get_attribute("aria-pressed") == "true"
    assert page.locator("#presets [aria-pressed=true]").count() == 1


def test_numbers_may_be_typed_and_widen_the_ranges(it: Opened) -> None:
    tables, graph = made_tables(), made_graph()
    page = it.page
    page.fill("#alpha-number", "0.123456")
    page.press("#alpha-number", "Enter")
    it.settled()
    assert it.scores() == pytest.approx(expected(tables, graph, 0.123456, 0), abs=1e-9, rel=0)
    assert not page.is_checked("#wide")
    page.fill("#alpha-number", "-99")
    page.press("#alpha-number", "Tab")
    it.settled()
    assert page.is_checked("#wide")
    assert page.input_value("#alpha-number") == "-5"
    assert it.scores() == pytest.approx(expected(tables, graph, -5, 0), abs=1e-9, rel=0)
    page.fill("#alpha-number", "")
    page.press("#alpha-number", "Tab")
    assert page.input_value("#alpha-number") == "-5"
    page.uncheck("#wide")
    it.settled()
    assert page.input_value("#alpha") == "-1"
    assert it.scores() == pytest.approx(expected(tables, graph, -1, 0), abs=1e-9, rel=0)


def test_compared_metrics_are_shown(it: Opened) -> None:
    page = it.at("tab=metrics")
    estimates, tested = page.locator("#panel-metrics table").all()
    names, *rows = [row.locator("th, td").all_inner_texts() for row in estimates.locator("tr").all()]
    assert names == ["Metric", "plain", "sharp", "seeded"]
    assert [row[0] for row in rows] == ["MRR", "Hits@3"]
    for name, *cells in rows:
        for model, cell in zip(names[1:], cells, strict=True):
            lines = cell.split("\n")
            assert float(lines[0]) == pytest.approx(kp.evaluate(made_tables()[model], [name])[name], abs=5.1e-5)
            assert lines[1].startswith("± ") == (model == "seeded")
            low, high = map(float, lines[-1].split(" to "))
            assert low < float(lines[0]) < high
    page.select_option("#metric", "Hits@3")
    it.settled()
    differences = [row.locator("th, td").all_inner_texts() for row in tested.locator("tbody tr").all()]
    assert len(differences) == 3
    hits = {model: kp.evaluate(table, ["Hits@3"])["Hits@3"] for model, table in made_tables().items()}
    for first, second, value, *ps in differences:
        shown = float(value.split("\n")[0].replace(MINUS, "-"))
        assert shown == pytest.approx(hits[first] - hits[second], abs=5.1e-5)
        assert all(0 < float(p) <= 1 for p in ps)
    assert "[object" not in page.inner_text("main")


def test_the_verdict_says_what_the_table_says(it: Opened) -> None:
    seen = set()
    for point in ("alpha=1", "alpha=0&beta=0.3", "alpha=-1&beta=0.2", "alpha=1&beta=2"):
        page = it.at(point)
        rows = page.locator(".scores tbody tr").all_inner_texts()
        best, *others = it.scores()
        close = [model for model, row in zip(others, rows[1:], strict=True) if "not significant" in row]
        shared = f" has the highest score, but shares the first place with {' and '.join(close)}: its lead over "
        lead = shared + f"{'it' if len(close) == 1 else 'them'} is not significant."
        said = lead if close else " is best; its lead over both others is significant."
        assert page.inner_text("#verdict").endswith(f": {best}{said}"), point
        places = dict(zip(it.scores(), page.locator(".scores .place").all_inner_texts(), strict=True))
        first = [model for model, place in places.items() if "first" in place]
        assert first == [best, *close], point
        assert {places[model].replace("\n", " ") for model in first} == {"1 shared first" if close else "1 first"}, (
            point
        )
        assert page.locator(".scores .gold").count() == (not close), point
        seen.add(len(close))
    assert {0, 2} <= seen
