"""The table of queries: searched, sorted, turned, saved; and the other tables that can be saved."""

import csv
import io
from pathlib import Path

import numpy as np

import kgprobe as kp
from browser import Opened, made_graph, made_tables


def names() -> list[tuple[str, str, str, str]]:
    """Head, relation, tail and side of every query by label, in the order of the file."""
    table, graph = made_tables()["plain"], made_graph()
    entities, relations = graph.entity_labels, graph.relation_labels
    assert entities is not None
    assert relations is not None
    columns = zip(table.head, table.relation, table.tail, table.predicts_tail, strict=True)
    return [
        (str(entities[int(h)]), str(relations[int(r)]), str(entities[int(t)]), "tail" if at_tail else "head")
        for h, r, t, at_tail in columns
    ]


def shown(it: Opened) -> list[list[str]]:
    rows = it.page.locator("#panel-queries tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def saved(it: Opened, name: str) -> list[list[str]]:
    with it.page.expect_download() as download:
        it.page.get_by_role("button", name=name).click()
    content = Path(download.value.path()).read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def test_search_finds_labels_in_any_case(it: Opened) -> None:
    page = it.at("tab=queries")
    page.fill("#search", "RELATION-2 entity-1")
    it.settled()
    every = names()
    hits = [one for one in every if "relation-2" in one[1] and "entity-1" in one[0] + "|" + one[2]]
    assert 0 < len(hits) < 50
    assert [row[1] for row in shown(it)] == [hit[1] for hit in hits]
    assert f"{len(hits)} of {len(every)} queries" in page.inner_text("#panel-queries [role=status]")
    answers = page.locator("#panel-queries tbody tr :is(th, td):has(.answer)").evaluate_all(
        "all => all.map(one => one.cellIndex)"
    )
    assert answers == [2 if hit[3] == "tail" else 0 for hit in hits]
    page.fill("#search", "no such thing")
    it.settled()
    assert shown(it) == []


def test_header_buttons_sort(it: Opened) -> None:
    page = it.at("tab=queries")
    ranks = made_tables()["sharp"].rank
    head = page.locator("#panel-queries thead th").filter(has_text="sharp")
    for direction, wanted in (("ascending", np.sort(ranks)), ("descending", np.sort(ranks)[::-1])):
        head.get_by_role("button").click()
        it.settled()
        assert head.get_attribute("aria-sort") == direction
        assert page.locator("#panel-queries [aria-sort]").count() == 1
        assert [float(row[4]) for row in shown(it)] == wanted[:50].tolist()
        # The button keeps the focus, or the keyboard would start again at the top.
        assert head.get_by_role("button").evaluate("button => button === document.activeElement")
    page.get_by_role("button", name="Head").click()
    it.settled()
    assert [row[0].split(" target")[0].strip() for row in shown(it)] == sorted(
        (one[0] for one in names()), key=lambda name: int(name.split("-")[1])
    )[:50]


def test_disagreement_is_the_ratio_of_the_extreme_ranks(it: Opened) -> None:
    it.at("tab=queries&sort=-disagreement")
    tables = made_tables()
    seeds = tables["seeded"]
    assert seeds.seed is not None
    runs = [seeds.filter(seeds.seed == seed).rank for seed in np.unique(seeds.seed)]
    ranks = np.stack([tables["plain"].rank, tables["sharp"].rank, np.mean(runs, axis=0)])
    ratio = np.sort(ranks.max(axis=0) / ranks.min(axis=0))[::-1]
    assert [float(row[6].split()[0]) for row in shown(it)] == np.round(ratio[:50], 2).tolist()


def test_pages_together_are_the_table(it: Opened) -> None:
    page = it.at("tab=queries")
    seen = [row[1] for row in shown(it)]
    pager = page.get_by_role("navigation", name="Queries")
    assert pager.get_by_role("button", name="Previous").get_attribute("aria-disabled") == "true"
    for _ in range(4):
        pager.get_by_role("button", name="Next").click()
        it.settled()
        seen += [row[1] for row in shown(it)]
    assert seen == [one[1] for one in names()]
    assert pager.get_by_role("button", name="Next").get_attribute("aria-disabled") == "true"
    pager.get_by_label("Queries: page").fill("2")
    pager.get_by_label("Queries: page").press("Enter")
    it.settled()
    assert [row[1] for row in shown(it)] == [one[1] for one in names()[50:100]]


def test_saved_queries_are_those_found_in_their_order(it: Opened) -> None:
    it.at("tab=queries&search=relation-3&sort=-model0")
    header, *rows = saved(it, "Save queries as CSV")
    assert header[:4] == ["head", "relation", "tail", "side"]
    table, graph = made_tables()["plain"], made_graph()
    wanted = [i for i, one in enumerate(names()) if one[1] == "relation-3"]
    wanted.sort(key=lambda i: -table.rank[i])
    assert [tuple(row[:4]) for row in rows] == [names()[i] for i in wanted]
    assert [float(row[header.index("rank plain")]) for row in rows] == table.rank[wanted].tolist()
    popularity = graph.popularity.entity(table.target)
    assert [float(row[4]) for row in rows] == [popularity[i] for i in wanted]
    for model, own in made_tables().items():
        counts = [int(row[header.index(f"candidates {model}")]) for row in rows]
        assert counts == own.candidates[wanted].tolist()


def test_saved_scores_are_exact(it: Opened) -> None:
    it.at("alpha=0.3&beta=0.7")
    header, *rows = saved(it, "Save scores as CSV")
    scores = {row[header.index("model")]: float(row[header.index("score")]) for row in rows}
    assert scores == it.scores()
    ends = [
        [float(row[header.index(name)]) for row in rows] for name in ("band_low", "difference_to_best", "band_high")
    ]
    assert all(low <= value <= high for low, value, high in zip(*ends, strict=True))
    assert [row[header.index("place")] for row in rows] == ["1", "2", "3"]
    metric = "PROBE(alpha=0.3,beta=0.7)"
    assert abs(scores["sharp"] - kp.evaluate(made_tables()["sharp"], [metric], graph=made_graph())[metric]) < 1e-9


def test_groups_are_sorted_and_saved(it: Opened) -> None:
    page = it.at("tab=groups&by=relation")
    page.locator("#panel-groups thead th").filter(has_text="sharp").get_by_role("button").click()
    it.settled()
    header, *rows = saved(it, "Save groups as CSV")
    found = kp.scores(made_tables()["sharp"], ["PROBE(alpha=1,beta=0)"], by=["relation"])
    want = sorted(((score.value, score.queries) for score in found), reverse=True)
    at = header.index("sharp")
    assert np.allclose([[float(row[at]), float(row[1])] for row in rows], want, atol=1e-9, rtol=0)
    texts = page.locator("#panel-groups tbody tr th .label").all_inner_texts()
    assert texts == [row[0] for row in rows]
