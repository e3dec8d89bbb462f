"""Pages of unusual data: hostile labels, little data, many groups."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kgprobe as kp
from browser import ENTITIES, made_graph, made_ranks, made_tables, opened, write
from kgprobe.audit import Finding
from kgprobe.comparison import line_up
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.report.page.page_file import write_page
from kgprobe.report.page.payload import About
from pages import made_up
from support import with_columns

pytestmark = pytest.mark.slow  # browsers start slowly

HOSTILE = [
    "<img src=x onerror=\"window.__pwned='img'\">",
    "</script><script>window.__pwned='script'</script>",
    "<b>bold</b> & <a href='javascript:window.__pwned=1'>link</a>",
    "\"quotes\" 'and' `ticks` ${window.__pwned=1} {{ 7 * 7 }} %{x} $x^2$",
    '=HYPERLINK("http://example.org","click")',
    "@sum, with a comma",
    "שלום עולם (rtl)",
    "\u202eevil\u202c",
    "🦉 owl 👩‍🔬",
    "two\nlines\tand a tab",
    "  spaces  ",
    "  =1+1",
    "a\x00b",
    "x" * 300,
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = made_graph()
    labels = [HOSTILE[i % len(HOSTILE)] + "\u200b" * (i // len(HOSTILE)) for i in range(ENTITIES)]
    named = kp.KnowledgeGraph(
        HOSTILE[0],
        ENTITIES,
        graph.num_relations,
        dict(graph.splits),
        pa.array(labels),
        pa.array(HOSTILE[: graph.num_relations]),
    )
    tables = dict(zip((HOSTILE[1], HOSTILE[2]), made_tables(graph).values(), strict=False))
    findings = [Finding(models=(HOSTILE[2],), kind="filter", message=HOSTILE[0], severity="error", rows=None)]
    where = tmp_path_factory.mktemp("hostile") / "page.html"
    about: dict[str, Any] = {"title": HOSTILE[1], "command": HOSTILE[1], "notes": [HOSTILE[0]], "findings": findings}
    about["files"] = dict.fromkeys(tables, HOSTILE[0])
    return write(where, tables, named, **about)


def test_hostile_labels_are_text(window: Any, hostile: Path) -> None:
    with opened(window, hostile) as it:
        page = it.go()
        for tab in ("map", "ranks", "groups", "queries", "metrics", "audit", "protocol"):
            it.at(f"tab={tab}&by=relation")
            assert page.evaluate("window.__pwned") is None
            assert page.locator("main img, main a, main b, main script").count() == 0
        assert page.title() == page.inner_text("h1") == HOSTILE[1]
        assert HOSTILE[1] in page.inner_text("#scores")
        it.at("tab=audit")
        assert HOSTILE[0] in page.inner_text("#panel-audit")
        it.at("tab=groups&by=relation")
        assert sorted(page.locator("#panel-groups tbody th .label").all_text_contents()) == sorted(HOSTILE[:6])
        # Plotly would read these as markup, and take them out of the text.
        drawn = page.locator("#panel-groups .ytick text").all_text_contents()
        assert sum(text.startswith("<b>bold</b> & <a href='javascript:") for text in drawn) == 1
        it.at("tab=queries")
        page.fill("#search", "onerror=")
        it.settled()
        assert HOSTILE[0] in page.locator("#panel-queries tbody .label").all_text_contents()
        it.at("tab=ranks")
        bar = page.locator("#panel-ranks .chart .bars .point").first
        bar.scroll_into_view_if_needed()
        box = bar.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector(".hoverlayer text")
        assert "<b>bold</b> & <a href='javascript:" in (
            page.locator("#panel-ranks .hoverlayer").first.text_content() or ""
        )
        assert page.evaluate("window.__pwned") is None


OUTSIDE = """async () => {
  const refused = [];
  addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective));
  const url = 'https://example.org/';
  for (const tag of ['img', 'script', 'iframe', 'link']) {
    document.head.append(Object.assign(document.createElement(tag), { src: url, rel: 'stylesheet', href: url }));
  }
  await fetch(url).catch(() => {});
  for (let i = 0; i < 50 && refused.length < 5; i += 1) await new Promise((resolve) => setTimeout(resolve, 100));
  return refused.sort();
}"""


def test_the_page_may_ask_nothing_of_the_network(window: Any, made: Path) -> None:
    page = window.new_page()
    page.goto(made.as_uri())
    assert page.evaluate(OUTSIDE) == ["connect-src", "frame-src", "img-src", "script-src-elem", "style-src-elem"]
    page.close()


def test_what_cannot_be_drawn_is_said(window: Any, made: Path) -> None:
    page = window.new_page()
    page.goto(made.as_uri())
    page.wait_for_selector("html[data-drawn=yes]")
    assert page.is_hidden("#failure")
    page.evaluate("() => { Plotly.react = () => { throw new Error('no canvas'); }; }")
    page.get_by_role("tab", name="Groups").click()
    page.wait_for_selector("#failure:not([hidden])")
    assert page.inner_text("#failure") == "Drawing failed: no canvas."
    page.close()


def test_a_chart_of_groups_follows_the_width_of_the_window(window: Any, made: Path) -> None:
    with opened(window, made) as it:
        page = it.go("tab=groups")
        names = page.locator("#panel-groups .chart .annotation")
        assert names.count() == 0
        page.set_viewport_size({"width": 400, "height": 900})
        names.first.wait_for()
        heights = "chart => [chart.clientHeight, chart.querySelector('.main-svg').clientHeight]"
        assert len(set(page.locator("#panel-groups .chart").evaluate(heights))) == 1


def test_saved_labels_do_not_become_formulas(window: Any, hostile: Path) -> None:
    with opened(window, hostile) as it:
        page = it.go("tab=queries")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save queries as CSV").click()
        with open(download.value.path(), encoding="utf-8-sig", newline="") as file:
            header, *rows = list(csv.reader(file))
        written = {row[0].rstrip("\u200b") for row in rows} | {row[2].rstrip("\u200b") for row in rows}
        texts = [label.replace("\x00", "\ufffd") for label in HOSTILE]
        guarded = {f"'{label}" if label.strip()[0] in "=+-@" else label for label in texts}
        assert written <= guarded
        assert f"'{HOSTILE[4]}" in written | {row[1] for row in rows}
        assert header[-1] == f"rank {HOSTILE[2]}"


def test_one_model_has_no_comparison(window: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "one.html", {"only": made_tables()["sharp"]}, made_graph())
    with opened(window, path) as it:
        page = it.go()
        assert page.inner_text("#verdict").startswith(f"At alpha 1, beta 0: only scores {it.scores()['only']:.4f} (")
        for word in ("gold", "significant", "Difference to best"):
            assert word not in page.inner_text("main")
        assert page.get_by_role("tab").first.inner_text() == "Score map"
        it.at("tab=ranks")
        assert page.locator("#second").count() == 0
        assert page.locator("#panel-ranks .chart").count() == 1


def one_query() -> dict[str, kp.Ranks]:
    return {name: made_ranks(made_graph(), skill=2, seed=seed, rows=1) for name, seed in (("a", 1), ("b", 2))}


def without_popularity() -> dict[str, kp.Ranks]:
    return made_tables()


@pytest.mark.parametrize("tables", [one_query, without_popularity])
def test_little_data(window: Any, tmp_path: Path, tables: Callable[[], dict[str, kp.Ranks]]) -> None:
    path = write(tmp_path / "little.html", tables(), None)
    with opened(window, path) as it:
        page = it.go("beta=0.5&alpha=0")
        want = {model: kp.evaluate(ranks, ["PROBE(alpha=0,beta=0)"]) for model, ranks in tables().items()}
        assert it.scores() == pytest.approx({m: next(iter(v.values())) for m, v in want.items()}, abs=1e-9, rel=0)
        assert page.is_disabled("#beta")
        assert page.is_disabled("#beta-number")
        assert page.inner_text("#beta-why").startswith("Popularity is not recorded for all targets")
        for tab in ("ranks", "groups", "queries", "metrics", "audit", "protocol", "map"):
            it.at(f"tab={tab}")
            assert "NaN" not in page.inner_text("main")
            assert "undefined" not in page.inner_text("main")
            assert "[object" not in page.inner_text("main")
        assert page.get_by_role("button", name="Sharp, rare targets").count() == 0


def test_without_a_query_that_counts_there_are_no_places(window: Any, tmp_path: Path) -> None:
    tables = {
        name: with_columns(table, rank=np.ones(len(table)), candidates=np.ones(len(table), dtype=int))
        for name, table in made_up(rows=20, models=2).items()
    }
    path = tmp_path / "nothing.html"
    write_page(path, line_up(tables), About())
    with opened(window, path) as it:
        page = it.go()
        assert page.inner_text("#verdict").startswith("Every query has a single candidate")
        assert "Every query has a single candidate" in page.inner_text("#panel-map")
        for word in ("gold", "best", "NaN", "not significant"):
            assert word not in page.inner_text("#scores tbody")


def test_a_metric_without_a_value_shows_the_reason(window: Any, tmp_path: Path) -> None:
    lineup = line_up(made_tables())
    compared = compare_models(lineup, ["MRR", "AHits@1000"], replicates=100, permutations=100)
    path = tmp_path / "undefined.html"
    write_page(path, lineup, About(comparison=compared))
    with opened(window, path) as it:
        page = it.go("tab=metrics&metric=AHits@1000")
        shown = page.inner_text("#panel-metrics")
        assert "every query has at most 1,000 candidates" in shown
        assert "null" not in shown
        assert "NaN" not in shown


def test_warnings_of_the_audit_are_marked(window: Any, tmp_path: Path) -> None:
    findings = [
        Finding(models=("sharp",), kind="seeds", message="odd", severity="warning", rows=None),
        Finding(models=("plain",), kind="seeds", message="fine", severity="note", rows=None),
    ]
    path = write(tmp_path / "marked.html", made_tables(), made_graph(), findings=findings)
    with opened(window, path) as it:
        page = it.go()
        rows = dict(zip(it.scores(), page.locator(".scores tbody tr").all_inner_texts(), strict=True))
        assert {model: "audit: 1 warning" in row for model, row in rows.items()} == {
            model: model == "sharp" for model in rows
        }
        assert next(iter(rows)) == "sharp"
        assert ": sharp (but the audit warns: odd) " in page.inner_text("#verdict")
        marks = {
            tab: it.at(f"tab={tab}").inner_text(f"#panel-{tab}") for tab in ("map", "groups", "queries", "metrics")
        }
        assert {tab: "(audit)" in text for tab, text in marks.items()} == dict.fromkeys(marks, True)
        assert page.locator("#panel-queries thead th").filter(has_text="(audit)").count() == 1


def test_models_with_other_candidates_are_not_tested(window: Any, tmp_path: Path) -> None:
    tables = made_tables()
    path = write(tmp_path / "other.html", tables, made_graph(), allow_different_candidates=False)
    with opened(window, path) as it:
        page = it.go()
        best, *_ = it.scores()
        other = [m for m in tables if len(np.setxor1d(tables[m].candidates, tables[best].candidates))]
        assert other == ["plain"]
        verdict = page.inner_text("#verdict")
        assert verdict.endswith(f"It is not tested against {' and '.join(other)}, because candidate sets differ.")
        rows = dict(zip(it.scores(), page.locator(".scores tbody tr").all_inner_texts(), strict=True))
        assert [m for m, row in rows.items() if "not tested: other candidates" in row] == other
        assert "first" not in "".join(page.locator(".scores .place").all_inner_texts())
        assert page.locator(".scores .gold").count() == 0
        assert "candidate sets differ in" in it.at("tab=metrics").inner_text("#panel-metrics")
        assert it.complaints == []


def test_ranks_that_are_intervals_are_shown_as_ranges(window: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)

    def lists(found: float) -> kp.Ranks:
        rows, listed = 600, random.random(600) < found
        return kp.Ranks.from_columns(
            head=range(rows), relation=[0] * rows, tail=[9] * rows, side=["tail"] * rows, candidates=[50] * rows,
            rank=np.where(listed, 1 + random.integers(3, size=rows), 11), worst_rank=np.where(listed, np.nan, 50),
        )  # fmt: skip

    path = tmp_path / "lists.html"
    kp.compare({"strong": lists(0.9), "weak": lists(0.3)}, ["MRR", "MR"], replicates=200, permutations=200).write(path)
    with opened(window, path) as it:
        page = it.go("tab=metrics")
        assert ", with ranks that are intervals at their worst: strong is best" in page.inner_text("#verdict")
        assert "intervals at their worst end" in page.inner_text("header")
        panel = page.inner_text("#panel-metrics")
        assert "MRR: strong beats weak whatever the unknown ranks" in panel
        estimates, tested = page.locator("#panel-metrics table").all()
        assert re.fullmatch(r"\d\.\d{4} to \d\.\d{4}", estimates.locator("td").first.inner_text().split("\n")[0])
        first, *_ = [row.locator("th, td").all_inner_texts() for row in tested.locator("tbody tr").all()]
        least, most = map(float, first[2].split("\n")[0].split(" to "))
        assert (first[:2], 0 < least < most) == (["strong", "weak"], True)
        assert it.complaints == []


def test_the_reason_not_to_trust_an_interval_is_the_true_one(window: Any, tmp_path: Path) -> None:
    rows = 1000
    few = kp.Ranks.from_columns(
        head=range(rows),
        relation=[0] * rows,
        tail=[0] * rows,
        side=["tail"] * rows,
        rank=[50] * 4 + [1] * (rows - 4),
        candidates=[99] * rows,
    )
    path = tmp_path / "few.html"
    write_page(path, line_up({"few": few, "perfect": with_columns(few, rank=np.ones(rows))}), About())
    with opened(window, path) as it:
        said = it.go().inner_text("#scores-remark")
    assert "few: A few test triples make up most of the variation" in said
    assert "perfect: All test triples pull alike" in said
    assert "effective queries" not in said


def test_a_compressed_page_says_what_it_lists(window: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgprobe.report.page.payload.MOST_RANKS", 1000)
    monkeypatch.setattr("kgprobe.report.page.compression.MOST_SAMPLED", 1500)
    path = tmp_path / "compressed.html"
    write_page(path, line_up(made_up(rows=2000)), About())
    with opened(window, path) as it:
        page = it.go("tab=queries")
        assert page.locator("#panel-queries h3").inner_text() == "Queries"
        assert "A random sample" in page.inner_text("#panel-queries")
        assert "a random sample of 500 queries" in it.at("tab=groups").inner_text("#panel-groups")
        assert "from the counts in this file" in page.inner_text("#footer")


def test_hundreds_of_relations_and_dozens_of_models(window: Any, tmp_path: Path) -> None:
    graph = made_graph(relations=300)
    tables = {f"model {i}": made_ranks(graph, skill=1 + i / 8, seed=i) for i in range(24)}
    path = write(tmp_path / "many.html", tables, graph)
    with opened(window, path) as it:
        page = it.go("tab=groups&by=relation")
        groups = len(np.unique(tables["model 0"].relation))
        assert groups > 70
        assert page.locator("#panel-groups tbody tr").count() == 25
        assert f"of {-(-groups // 25)}" in page.get_by_role("navigation", name="Groups").inner_text()
        assert page.locator("#panel-groups .legend li").count() == 24
        assert (
            len(set(page.locator(".scores .swatch").evaluate_all("all => all.map(one => one.style.background)"))) == 24
        )
