"""The choice of models and queries: in the address, by mouse and keyboard, and the same in all views."""

from itertools import product
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import kgprobe as kp
from browser import Opened, made_graph, made_tables

FAR = "PROBE(alpha=1,beta=0.5)"


def address(it: Opened) -> dict[str, list[str]]:
    it.page.wait_for_timeout(300)
    return parse_qs(urlsplit(it.page.url).fragment)


def numbers(it: Opened, metric: str) -> dict[str, float]:
    """MRR or Hits@10 of every shown model in full precision."""
    cells = it.page.eval_on_selector_all(f"[data-metric='{metric}']", "all => all.map(one => one.dataset.value)")
    return dict(zip(it.scores(), map(float, cells), strict=True))


def wanted(metric: str, group: dict[str, Any], by: list[str]) -> dict[str, float]:
    """The values of Python on a group of queries, by model."""
    return {
        model: score.value
        for model, table in made_tables().items()
        for score in kp.scores(table, [metric], by=by, graph=made_graph())
        if score.group == group
    }


def box(it: Opened, name: str) -> Any:
    return it.page.get_by_role("group", name="Shown models").get_by_role("checkbox", name=name)


def test_first_table_has_mrr_and_hits(it: Opened) -> None:
    page = it.at("alpha=0")
    assert page.locator(".scores thead th").all_inner_texts()[2:7:2] == ["PROBE", "Difference to best", "Hits@10"]
    for metric in ("MRR", "Hits@10"):
        want = {model: kp.evaluate(table, [metric])[metric] for model, table in made_tables().items()}
        assert numbers(it, metric) == pytest.approx(want, abs=1e-9, rel=0)


def test_hidden_models_are_hidden_everywhere_and_in_the_address(it: Opened) -> None:
    page = it.page
    box(it, "sharp").focus()
    page.keyboard.press("Space")
    it.settled()
    assert set(it.scores()) == {"plain", "seeded"}
    assert address(it) == {"hidden": ["sharp"]}
    assert page.inner_text("#models-count") == "2 of 3 shown"
    assert "sharp" not in page.inner_text("#verdict")
    assert "sharp" not in page.inner_text("#panel-map .legend")
    for tab in ("groups", "queries", "metrics"):
        it.at(f"hidden=sharp&tab={tab}")
        assert "sharp" not in page.inner_text(f"#panel-{tab}"), tab
        assert "seeded" in page.inner_text(f"#panel-{tab}"), tab
    it.at("hidden=sharp&tab=ranks")
    assert page.locator("#first option:checked, #second option:checked").all_inner_texts() == ["seeded", "plain"]
    page.get_by_role("button", name="Show all").click()
    it.settled()
    assert set(it.scores()) == {"plain", "sharp", "seeded"}


def test_one_model_always_stays(it: Opened) -> None:
    page = it.at("hidden=sharp&hidden=plain")
    assert list(it.scores()) == ["seeded"]
    assert box(it, "seeded").is_disabled()
    assert "seeded scores" in page.inner_text("#verdict")
    assert page.locator(".scores .place").all_inner_texts() == ["1"]
    for tab in ("map", "ranks", "groups", "queries", "metrics"):
        page = it.at(f"hidden=sharp&hidden=plain&tab={tab}")
        assert "NaN" not in page.inner_text("main"), tab
    it.at("hidden=sharp&hidden=plain&hidden=seeded")
    assert len(it.scores()) == 3


def test_best_two(it: Opened) -> None:
    best = list(it.scores())[:2]
    it.page.get_by_role("button", name="Best two").click()
    it.settled()
    assert list(it.scores()) == best


def test_filters_give_the_scores_of_eval_by_group(it: Opened) -> None:
    page = it.at("alpha=1&beta=0.5")
    size = int((made_tables()["plain"].relation == 2).sum())
    page.select_option("#relation", label=f"relation-2 ({size})")
    page.select_option("#side", label="tail predicted")
    it.settled()
    group = {"relation": 2, "side": "tail"}
    assert it.scores() == pytest.approx(wanted(FAR, group, ["relation", "side"]), abs=1e-9, rel=0)
    for metric in ("MRR", "Hits@10"):
        assert numbers(it, metric) == pytest.approx(wanted(metric, group, ["relation", "side"]), abs=1e-9, rel=0)
    assert page.inner_text("#choice").startswith(
        f"Only {size // 2} of 240 queries: relation relation-2 and tail predicted."
    )
    assert ", on the chosen queries: " in page.inner_text("#verdict")
    assert address(it) == {"beta": ["0.5"], "relation": ["relation-2"], "side": ["tail"]}
    before = it.scores()
    it.go("beta=0.5&relation=relation-2&side=tail&tab=queries")
    assert it.scores() == before
    assert page.locator("#panel-queries tbody tr").count() == size // 2
    page.get_by_role("button", name="All queries").click()
    it.settled()
    assert address(it) == {"beta": ["0.5"], "tab": ["queries"]}
    assert page.is_hidden("#choice")


def test_the_ranks_are_those_of_the_chosen_queries(it: Opened) -> None:
    page = it.at("tab=ranks&first=plain&side=head")
    ranks = made_tables()["plain"].filter(~made_tables()["plain"].predicts_tail).rank
    bars = page.evaluate("document.querySelector('#panel-ranks .chart').data[0].y")
    assert bars == np.histogram(-ranks, bins=[-np.inf, -1000.5, -100.5, -10.5, -2.5, -1.5, -0.5])[0][::-1].tolist()


def test_a_group_opens_its_queries(it: Opened) -> None:
    page = it.at("tab=groups&beta=0.5")
    name = page.locator("#panel-groups tbody th .label").first.inner_text()
    queries = int(page.locator("#panel-groups tbody td").first.inner_text())
    share = page.locator("#panel-groups tbody td").nth(1).inner_text()
    assert name.endswith("with this relation")
    assert f"{name}\n{share} of the weight" in "\n".join(
        page.locator("#panel-groups .ytick text").evaluate_all(
            "all => all.map(text => [...text.children].map(line => line.textContent).join('\\n'))"
        )
    )
    page.get_by_role("button", name=f"{name}: show its queries").press("Enter")
    it.settled()
    assert address(it) == {"tab": ["queries"], "beta": ["0.5"], "band": ["1"]}
    assert page.inner_text("#panel-queries [role=status]") == f"{queries} of 240 queries: target {name}."
    assert page.evaluate("document.activeElement.id") == "panel-queries"
    label = sorted(str(score.group["popularity"]) for score in _bands("plain"))[0]
    assert it.scores() == pytest.approx(wanted(FAR, {"popularity": label}, ["popularity:5"]), abs=1e-9, rel=0)
    page.go_back()
    it.settled()
    assert page.get_by_role("tab", selected=True).inner_text() == "Groups"


def _bands(model: str) -> list[Any]:
    return kp.scores(made_tables()[model], ["MRR"], by=["popularity:5"], graph=made_graph())


def test_relations_and_sides_open_their_queries(it: Opened) -> None:
    for by, name, key in (("relation", "relation-3", "relation"), ("side", "head predicted", "side")):
        page = it.at(f"tab=groups&by={by}")
        page.get_by_role("button", name=f"{name}: show its queries").click()
        it.settled()
        assert address(it)[key] == [name.removesuffix(" predicted")]
        assert name in page.inner_text("#choice")


def test_the_heaviest_group_is_named(it: Opened) -> None:
    page = it.at("tab=groups&beta=0.8")
    shares = page.locator("#panel-groups tbody td:nth-child(3)").all_inner_texts()
    names = page.locator("#panel-groups tbody th .label").all_inner_texts()
    at = max(range(len(shares)), key=lambda i: float(shares[i].split()[0]))
    assert f"{names[at]}: {shares[at]} of the weight" in page.inner_text("#panel-groups")


def test_a_choice_without_queries_is_said(it: Opened) -> None:
    by = ["relation", "popularity:5", "side"]
    groups = [score.group for score in kp.scores(made_tables()["plain"], ["MRR"], by=by, graph=made_graph())]
    present = {(int(group["relation"]), str(group["popularity"])[0], str(group["side"])) for group in groups}
    every = product(range(6), "12345", ("head", "tail"))
    relation, band, side = next(choice for choice in every if choice not in present)
    link = f"relation=relation-{relation}&band={band}&side={side}"
    for tab in ("map", "ranks", "groups", "queries"):
        page = it.at(f"{link}&tab={tab}")
        assert page.inner_text("#choice").startswith("Only 0 of 240 queries")
        assert page.inner_text("#verdict").startswith("No query of this choice has more than one candidate"), tab
        assert "NaN" not in page.inner_text("main"), tab
    assert "there is no map" in it.at(link).inner_text("#panel-map")


def test_unknown_names_in_a_link_choose_nothing(it: Opened) -> None:
    page = it.at("relation=nothing&band=99&hidden=nobody&side=both")
    assert len(it.scores()) == 3
    assert page.is_hidden("#choice")


def test_the_best_pair_comes_first(it: Opened) -> None:
    for point in ("alpha=1", "alpha=-1&beta=0.8"):
        page = it.at(f"tab=ranks&{point}")
        best = list(it.scores())[:2]
        assert page.locator("#first option:checked, #second option:checked").all_inner_texts() == best
        assert "The two best models" in page.inner_text("#panel-ranks")
        it.at(f"tab=map&{point}")
        assert page.locator("#heat option:checked").inner_text() == best[0]
    page = it.at("tab=metrics&metric=Hits@3")
    hits = {model: kp.evaluate(table, ["Hits@3"])["Hits@3"] for model, table in made_tables().items()}
    order = sorted(hits, key=lambda model: -hits[model])
    pairs = page.locator("#panel-metrics table").nth(1).locator("tbody tr")
    shown = [tuple(row.locator("th, td").all_inner_texts()[:2]) for row in pairs.all()]
    assert shown == [(order[0], order[1]), (order[0], order[2]), (order[1], order[2])]
