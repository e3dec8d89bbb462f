"""Pages in a real browser: made-up pages, a headless Chromium, and what a page must never do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import kgprobe as kp
from kgprobe.comparison import line_up
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.report.page.page_file import write_page
from kgprobe.report.page.payload import About

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page


MINUS = "\u2212"

"""The sign that the page writes before a negative number."""

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[BrowserContext]:
    """A window of a headless Chromium; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("KGPROBE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium on the PATH; KGPROBE_CHROMIUM may name one")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser.new_context(accept_downloads=True)
        browser.close()


_GO = """hash => new Promise((resolve) => {
  if (location.hash.replace('#', '') === hash) return resolve();
  addEventListener('popstate', resolve, { once: true });
  location.hash = hash;
})"""


class Opened:
    """A page that was opened from a file, and everything about it that should not have happened."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page, self.file = page, file
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._request)
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def _request(self, request: object) -> None:
        url: str = request.url  # type: ignore[attr-defined]
        own = url.partition("#")[0] == self.file.as_uri()
        if not own and not url.startswith(("data:", "blob:")):
            self.complaints.append(f"request: {url}")

    def go(self, hash_: str = "") -> Page:
        """Open it at a state, as a pasted link does: from nothing."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.file.as_uri()}{'#' * bool(hash_)}{hash_}")
        self.page.wait_for_selector("html[data-drawn=yes]")
        return self.page

    def at(self, hash_: str = "") -> Page:
        """Go to another state of the page that is open, which is much faster than to open it again."""
        self.page.evaluate(_GO, hash_)
        return self.settled()

    def scores(self) -> dict[str, float]:
        """Every model's score in full precision, as the page shows it."""
        shown = self.page.eval_on_selector_all(
            ".score", "cells => cells.map(cell => [cell.dataset.model, cell.dataset.value])"
        )
        return {model: float(value) for model, value in shown}

    def settled(self) -> Page:
        """The page once it shows what was asked of it."""
        self.page.wait_for_timeout(20)
        self.page.wait_for_selector("html[data-drawn=yes]")
        return self.page


@contextmanager
def opened(window: BrowserContext, file: Path, *, width: int = 1280, height: int = 900) -> Iterator[Opened]:
    """A page in its own tab; it must not have complained or asked for anything when it is closed."""
    page = window.new_page()
    try:
        page.set_default_timeout(15_000)
        page.set_viewport_size({"width": width, "height": height})
        it = Opened(page, file)
        yield it
        assert it.complaints == []
    finally:
        page.close()


ENTITIES = 40


def made_graph(relations: int = 6, entity: str = "entity-{}", relation: str = "relation-{}") -> kp.KnowledgeGraph:
    """A graph of random facts, with a label for everything."""
    rng = np.random.default_rng(5)
    # Squares make some entities much more popular than others.
    ends = np.floor(ENTITIES * rng.random((2, 400)) ** 2).astype(int)
    triples = np.unique(np.stack([ends[0], rng.integers(0, relations, 400), ends[1]], axis=1), axis=0)
    mixed = rng.permutation(triples)
    return kp.KnowledgeGraph(
        "made-up",
        ENTITIES,
        relations,
        {"train": mixed[:-120], "test": mixed[-120:]},
        pa.array([entity.format(i) for i in range(ENTITIES)]),
        pa.array([relation.format(i) for i in range(relations)]),
    )


def made_ranks(graph: kp.KnowledgeGraph, *, skill: float, seed: int, rows: int | None = None) -> kp.Ranks:
    """Random ranks of both sides of the test facts; a skilful model has more small ones."""
    rng = np.random.default_rng(seed)
    head, relation, tail = np.repeat(graph.triples("test"), 2, axis=0)[:rows].T
    size = rng.integers(20, ENTITIES, len(head)) if seed == 0 else np.full(len(head), ENTITIES)
    return kp.Ranks.from_columns(
        head=head,
        relation=relation,
        tail=tail,
        side=np.tile(["head", "tail"], len(head) // 2 + 1)[: len(head)],
        rank=1 + np.floor(size * rng.random(len(head)) ** skill),
        candidates=size,
    )


def made_tables(graph: kp.KnowledgeGraph | None = None) -> dict[str, kp.Ranks]:
    """Three models, the last of them in two seeds."""
    where = graph or made_graph()
    runs = {seed: made_ranks(where, skill=3, seed=seed) for seed in (2, 3)}
    return {
        "plain": made_ranks(where, skill=2, seed=0),
        "sharp": made_ranks(where, skill=4, seed=1),
        "seeded": kp.merge_seeds(runs),
    }


def write(path: Path, tables: dict[str, kp.Ranks], graph: kp.KnowledgeGraph | None, **about: Any) -> Path:
    """A page of these tables, with a few metrics compared."""
    lineup = line_up(tables, graph=graph)
    allowed = {"allow_different_candidates": about.pop("allow_different_candidates", True)}
    compared = compare_models(lineup, ["MRR", "Hits@3"], replicates=200, permutations=200, **allowed)
    write_page(path, lineup, About(graph=graph, comparison=compared, **allowed, **about))
    return path
