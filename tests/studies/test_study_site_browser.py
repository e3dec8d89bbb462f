from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Opened
from kgprobe.studies.study_work import StudyResult

_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

_VISIBLE = """rows => rows.filter(row => row.offsetParent !== null).map(row => row.dataset.claim)"""


class _Site(Opened):
    """A page that shows images of its own folder."""

    def _request(self, request: object) -> None:
        url: str = request.url  # type: ignore[attr-defined]
        if not url.startswith((self.file.parent.as_uri(), "data:")):
            self.complaints.append(f"request: {url}")

    def failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # images that are still loading when a link is followed
            self.complaints.append(f"failed: {request.url}")


@pytest.fixture
def site(window: Any, written: Path) -> Iterator[_Site]:
    page = window.new_page()
    page.set_default_timeout(15_000)
    it = _Site(page, written / "index.html")
    page.on("requestfailed", it.failed)
    yield it
    page.close()
    assert it.complaints == []


def test_the_page_shows_every_verdict(site: _Site, result: StudyResult) -> None:
    page = site.go()
    for claim in result.study.claims:
        row = page.locator(f'tr[data-claim="{claim.name}"]')
        wanted = [str(verdict.answer) for verdict in result.verdicts if verdict.claim is claim]
        shown = [text.split(maxsplit=1)[1] for text in row.locator("td .chip").all_inner_texts()]
        assert [" ".join(text.split()) for text in shown] == (wanted[:1] if len(shown) == 1 else wanted)
        assert len(shown) in (1, len(result.sources))
        assert row.locator(".statement").inner_text() == claim.statement


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_window(site: _Site, width: int, theme: Any) -> None:
    site.page.set_viewport_size({"width": width, "height": 900})
    site.page.emulate_media(color_scheme=theme)
    page = site.go()
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate(_WIDE) <= 0
    boxes = page.eval_on_selector_all(
        ".chip, .statement, figure", "them => them.map(it => it.getBoundingClientRect().right)"
    )
    assert max(boxes) <= width


def test_all_images_are_there(site: _Site) -> None:
    page = site.go()
    page.evaluate("document.querySelectorAll('img').forEach(one => { one.loading = 'eager'; })")
    page.evaluate("Promise.all([...document.images].map(one => one.decode()))")
    widths = page.evaluate("[...document.images].map(one => one.naturalWidth)")
    assert len(widths) == 18
    assert min(widths) > 100


def test_verdicts_can_be_filtered(site: _Site, result: StudyResult) -> None:
    page = site.go()
    every = [claim.name for claim in result.study.claims]
    rows = "tr[data-claim]"
    assert page.eval_on_selector_all(rows, _VISIBLE) == every
    page.check("#show-differing")
    assert page.eval_on_selector_all(rows, _VISIBLE) == ["top-ranks", "first"]
    page.check("#show-none")
    assert page.eval_on_selector_all(rows, _VISIBLE) == ["elsewhere", "order"]
    page.check("#show-all")
    assert page.eval_on_selector_all(rows, _VISIBLE) == every


def test_details_open_on_demand(site: _Site) -> None:
    page = site.go()
    row = page.locator('tr[data-claim="first"] + tr')
    assert not row.get_by_text("Filtered").or_(row.get_by_text("Unfiltered")).first.is_visible()
    row.locator("summary").click()
    text = row.inner_text()
    assert "Unfiltered" in text
    assert "P-values" in text
    assert "1st of 3 by PROBE(alpha=1,beta=0)" in text


def test_chips_can_be_read_in_both_themes(site: _Site) -> None:
    """The contrast of the text of every chip with its background is that of WCAG AA."""
    for theme in ("light", "dark"):
        site.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page = site.go()
        contrasts = page.evaluate(_CONTRASTS)
        assert contrasts
        assert min(contrasts.values()) >= 4.5, contrasts


_CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (...colours) => {
    canvas.fillStyle = 'white';
    canvas.fillRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = (colour) => {
    const linear = (x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = [...colour].map((x) => linear(x / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = getComputedStyle(document.querySelector('main > section')).backgroundColor;
  const found = {};
  for (const chip of document.querySelectorAll('.chip')) {
    const { color, backgroundColor } = getComputedStyle(chip);
    const pair = [light(rgb(color)), light(rgb(ground, backgroundColor))].sort((a, b) => b - a);
    found[chip.className] = (pair[0] + 0.05) / (pair[1] + 0.05);
  }
  return found;
}"""


def test_explorer_pages_open(site: _Site) -> None:
    page = site.go()
    links = page.locator("#explorers a")
    assert links.count() == 2
    links.first.click()
    page.wait_for_selector("html[data-drawn=yes]")
    assert page.title() == "made-up: source-0"
