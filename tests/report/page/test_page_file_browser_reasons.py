"""A query of a page and the rules behind its rank, in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kgprobe as kp
from browser import Opened, opened, write
from kgprobe.comparison import line_up
from kgprobe.models.rules.explanations import Explainer
from kgprobe.report.page.entries import Reasons, explain_queries
from kgprobe.train.trained_models import open_rules
from rule_runs import family, kept_run


def _tables() -> dict[str, kp.Ranks]:
    return {name: kp.read_ranks(kept_run(name).ranks) for name in ("distmult", "rnnlogic")}


@pytest.fixture(scope="module")
def reasons() -> Reasons:
    run = open_rules(kept_run("rnnlogic").run, family())
    lineup = line_up(_tables(), graph=family())
    return explain_queries(lineup, "rnnlogic", run.seed, Explainer(run.scorer, run.graph))


@pytest.fixture(scope="module")
def tab(window: Any, reasons: Reasons, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    some = Reasons(reasons.model, reasons.seed, reasons.rows[5:], reasons.targets[5:], reasons.answers[5:])
    path: Path = write(tmp_path_factory.mktemp("rules") / "rules.html", _tables(), family(), reasons=[some])
    with opened(window, path) as it:
        it.go("tab=queries")
        yield it


def test_a_query_is_linked_to_its_rules(tab: Opened, reasons: Reasons) -> None:
    page = tab.at("tab=queries")
    assert not page.locator(".why").is_visible()
    rows = page.locator("#panel-queries tbody tr")
    assert rows.nth(4).get_by_role("button", name="Why").count() == 0
    rows.nth(7).get_by_role("button", name="Why").click()
    tab.settled()
    assert page.url.endswith("why=8")
    found = reasons.answers[7]
    own = next(answer for answer in found.answers if answer.entity == reasons.targets[7])
    text = page.locator(".why").inner_text()
    assert found.question in text
    assert own.name in text
    assert f"at rank {own.rank:g} of {own.candidates}" in text
    shown = (found.answers[0], own)
    assert all(reason.rule in text and reason.path in text for answer in shown for reason in answer.reasons)
    assert "(seed 3)" in text
    assert page.evaluate("document.activeElement.textContent") == f"Why? {found.question}"


def test_a_link_shows_the_rules_and_closing_them_returns(tab: Opened, reasons: Reasons) -> None:
    page = tab.go("tab=queries&why=8")
    assert reasons.answers[7].question in page.locator(".why").inner_text()
    page.locator(".why").get_by_role("button", name="Close").click()
    tab.settled()
    assert not page.locator(".why").is_visible()
    assert page.evaluate("document.activeElement.id") == "why-8"
    for nothing in ("why=3", "why=100000", "why=x", "why=-1"):
        assert not tab.at(f"tab=queries&{nothing}").locator(".why").is_visible()


def test_queries_with_rules_can_be_put_first(tab: Opened) -> None:
    page = tab.at("tab=queries")
    head = page.locator("#panel-queries thead th").filter(has_text="Rules")
    head.get_by_role("button").click()
    tab.settled()
    assert head.get_attribute("aria-sort") == "descending"
    last = page.locator("#panel-queries tbody tr").evaluate_all(
        "all => all.map(row => Boolean(row.querySelector('button')))"
    )
    assert last[0]
    assert all(last) or last.index(False) == sum(last)


def test_a_page_without_rules_does_not_speak_of_them(it: Opened) -> None:
    page = it.at("tab=queries&why=8&sort=-reasons")
    assert page.locator(".why").count() == 0
    assert page.locator("#panel-queries thead th").filter(has_text="Rules").count() == 0
