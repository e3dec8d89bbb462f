"""A link shows what its sender saw."""

from urllib.parse import parse_qs, urlsplit

import pytest

from browser import Opened

pytestmark = pytest.mark.slow  # browsers start slowly

LINK = (
    "alpha=0.25&beta=0.4&tab=queries&theme=dark&first=sharp&second=seeded&search=Entity-7+relation&sort=-model1&page=2"
)


def given(it: Opened) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(it.page.url).fragment).items()}


def test_a_link_restores_everything(it: Opened) -> None:
    page = it.go(LINK)
    assert (page.input_value("#alpha"), page.input_value("#beta")) == ("0.25", "0.4")
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.get_by_role("tab", selected=True).inner_text() == "Queries"
    assert page.input_value("#search") == "Entity-7 relation"
    assert page.locator("#panel-queries th[aria-sort=descending]").inner_text().strip() == "sharp"
    before, scores = page.inner_text("#panel-queries"), it.scores()
    page.get_by_role("tab", name="Ranks").click()
    it.settled()
    assert [page.locator(f"#{name} option:checked").inner_text() for name in ("first", "second")] == ["sharp", "seeded"]
    page.get_by_role("tab", name="Queries").click()
    it.settled()
    assert (page.inner_text("#panel-queries"), it.scores()) == (before, scores)


def test_what_is_done_is_in_the_link(it: Opened) -> None:
    page = it.page
    page.get_by_role("button", name="Tolerant, rare targets").click()
    page.get_by_role("tab", name="Queries").click()
    page.fill("#search", "relation-2")
    page.get_by_role("button", name="Candidates").click()
    page.select_option("#theme", "light")
    page.wait_for_timeout(500)
    wanted = {
        "alpha": "-1",
        "beta": "0.8",
        "tab": "queries",
        "search": "relation-2",
        "sort": "-candidates",
        "theme": "light",
    }
    assert given(it) == wanted
    before, scores = page.inner_text("#panel-queries"), it.scores()
    page.reload()
    it.settled()
    assert (page.inner_text("#panel-queries"), it.scores()) == (before, scores)


def test_back_and_forward(it: Opened) -> None:
    page = it.page
    start = it.scores()
    page.get_by_role("button", name="Logarithmic").click()
    it.settled()
    there = it.scores()
    page.get_by_role("tab", name="Audit").click()
    page.go_back()
    it.settled()
    assert page.get_by_role("tab", selected=True).inner_text() == "Decision map"
    assert it.scores() == there
    page.go_back()
    it.settled()
    assert it.scores() == start != there
    page.go_forward()
    it.settled()
    assert it.scores() == there


def test_a_drag_is_one_step_back(it: Opened) -> None:
    page = it.at("tab=audit")
    start = it.scores()
    page.focus("#alpha")
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(400)
    assert given(it) == {"tab": "audit", "alpha": "0.7"}
    page.go_back()
    it.settled()
    assert it.scores() == start


@pytest.mark.parametrize(
    "bad",
    [
        "alpha=abc&beta=&tab=nowhere&theme=pink&first=nobody&sort=-nothing&page=-3",
        "alpha=1e9&beta=Infinity&page=1.5&by=colour&groups=modelX&wide=maybe",
        "alpha=NaN&__proto__=1&constructor=2&%E0%A4%A&&&==",
    ],
    ids=["words", "numbers", "nonsense"],
)
def test_bad_values_are_ignored(it: Opened, bad: str) -> None:
    start = it.scores()
    it.at("alpha=0&tab=audit")
    assert it.scores() != start
    page = it.at(bad)
    assert it.scores() == start
    assert page.get_by_role("tab", selected=True).inner_text() == "Decision map"


def test_a_page_beyond_the_last_is_the_last(it: Opened) -> None:
    page = it.at("tab=queries&page=999999")
    assert page.input_value("#panel-queries nav input") == "5"
    assert page.locator("#panel-queries tbody tr").count() == 240 - 4 * 50
