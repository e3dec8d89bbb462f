"""Everybody can use the page: by keyboard, by ear, on a phone, in the light and in the dark."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from browser import MINUS, Opened, opened

pytestmark = pytest.mark.slow  # browsers start slowly

TABS = ("map", "ranks", "groups", "queries", "metrics", "audit", "protocol")

CONTRAST = """() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return { rgb: [r, g, b], a };
  };
  const light = ({ rgb }) => {
    const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.a === 1) return colour;
    }
    return parse('rgb(255, 255, 255)');
  };
  const words = [...document.querySelectorAll('body *')].filter(element => element.checkVisibility()
    && !element.closest('svg') && !element.matches('[aria-hidden=true], option')
    && [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()));
  return words.map(element => {
    const [x, y] = [light(parse(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
    return [(x + 0.05) / (y + 0.05), element.outerHTML.slice(0, 90)];
  }).filter(([contrast]) => contrast < 4.5);
}"""

UNNAMED = """() => {
  const kinds = 'button, input, select, summary, nav, ' +
    '[role=tab], [role=tabpanel], [role=region], [role=img], [role=group]';
  const nameOf = (element) => {
    const by = element.getAttribute('aria-labelledby');
    const labels = [...(element.labels ?? [])].map(label => label.textContent).join('');
    const own = element.matches('button, summary, [role=tab]') ? element.textContent : '';
    return element.getAttribute('aria-label') || (by && document.getElementById(by)?.textContent) || labels || own;
  };
  return [...document.querySelectorAll(kinds)].filter(element => !nameOf(element).trim())
    .map(element => element.outerHTML.slice(0, 100));
}"""

REPEATED_IDS = """() => {
  const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
  return ids.filter((id, i) => ids.indexOf(id) !== i);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out(it: Opened, theme: str) -> None:
    for tab in TABS:
        page = it.at(f"theme={theme}&tab={tab}&alpha=0")
        assert page.evaluate(CONTRAST) == [], tab


def test_the_system_decides_the_theme_unless_the_reader_does(it: Opened) -> None:
    page = it.page

    def ground() -> str:
        it.settled()
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.emulate_media(color_scheme="light")
    light = ground()
    page.emulate_media(color_scheme="dark")
    dark = ground()
    assert light != dark
    page.select_option("#theme", "light")
    assert ground() == light
    page.emulate_media(color_scheme="light")
    page.select_option("#theme", "dark")
    assert ground() == dark


def test_everything_has_a_name(it: Opened) -> None:
    for tab in TABS:
        assert it.at(f"tab={tab}").evaluate(UNNAMED) == [], tab


def test_landmarks_and_headings(it: Opened) -> None:
    page = it.page
    assert page.locator("h1").count() == page.get_by_role("main").count() == page.get_by_role("banner").count() == 1
    assert page.get_by_role("contentinfo").count() == 1
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.evaluate(REPEATED_IDS) == []


def test_the_skip_link_leads_to_the_scores(it: Opened) -> None:
    page = it.go()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "results"


def test_sliders_by_keyboard_and_by_ear(it: Opened) -> None:
    page = it.page
    page.focus("#alpha")
    page.keyboard.press("ArrowLeft")
    it.settled()
    assert page.get_attribute("#alpha", "aria-valuetext") == "0.99"
    page.keyboard.press("Home")
    it.settled()
    assert page.input_value("#alpha-number") == "-1"
    assert page.get_attribute("#spoken", "aria-live") == "polite"
    page.wait_for_function(
        "start => document.getElementById('spoken').textContent.startsWith(start)", arg=f"At alpha {MINUS}1, beta 0:"
    )
    assert page.inner_text("#verdict") == page.text_content("#spoken")


def test_tabs_by_keyboard(it: Opened) -> None:
    page = it.page
    page.get_by_role("tab", name="Decision map").focus()
    for key, tab in (
        ("ArrowRight", "Ranks"),
        ("ArrowRight", "Groups"),
        ("End", "Protocol"),
        ("ArrowRight", "Decision map"),
        ("ArrowLeft", "Protocol"),
        ("Home", "Decision map"),
    ):
        page.keyboard.press(key)
        it.settled()
        chosen = page.get_by_role("tab", selected=True)
        assert chosen.inner_text() == tab
        assert chosen.evaluate("tab => tab === document.activeElement && tab.tabIndex === 0")
        assert page.locator("[role=tabpanel]:visible").count() == 1


def test_sort_buttons_by_keyboard(it: Opened) -> None:
    page = it.at("tab=queries")
    page.get_by_role("button", name="Relation").focus()
    page.keyboard.press("Space")
    it.settled()
    assert page.locator("#panel-queries [aria-sort=ascending]").inner_text().strip() == "Relation"


def test_focus_can_be_seen(it: Opened) -> None:
    page = it.page
    page.get_by_role("tab", name="Decision map").focus()
    page.keyboard.press("Tab")
    style = page.evaluate(
        "(({ outlineStyle, outlineWidth }) => [outlineStyle, outlineWidth])(getComputedStyle(document.activeElement))"
    )
    assert style == ["solid", "3px"]


def test_the_command_can_be_copied(it: Opened, window: Any) -> None:
    window.grant_permissions(["clipboard-read", "clipboard-write"])
    it.page.get_by_role("button", name="Copy command").click()
    it.page.wait_for_function("() => document.querySelector('.command [role=status]').textContent")
    assert it.page.evaluate("navigator.clipboard.readText()") == "kgprobe report it"


@pytest.mark.parametrize("width", [360, 768])
def test_no_width_makes_the_page_scroll_sideways(window: Any, made: Path, width: int) -> None:
    with opened(window, made, width=width, height=740) as it:
        page = it.go()
        for tab in TABS:
            it.at(f"tab={tab}&by=relation")
            assert page.evaluate("document.documentElement.scrollWidth") == width, tab
            outside = page.locator("main .chart, main table, main button, main select").evaluate_all(
                "(all) => all.filter(one => one.checkVisibility() && !one.closest('.box, .tabs')"
                " && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 90))"
            )
            assert outside == [], tab
        # On a phone the rows of the scores are cards: everything is there without scrolling at all.
        if width == 360:
            assert page.eval_on_selector("#scores", "box => box.scrollWidth <= box.clientWidth")
            assert page.get_by_role("row").count() > 3


def test_paper_has_the_findings_and_no_buttons(it: Opened) -> None:
    page = it.page
    page.emulate_media(media="print")
    try:
        for panel in ("metrics", "audit", "protocol"):
            assert page.is_visible(f"#panel-{panel}")
        assert not page.is_visible("#panel-queries")
        assert not page.is_visible("#presets button")
        assert page.is_visible("#verdict")
    finally:
        page.emulate_media(media="screen")
