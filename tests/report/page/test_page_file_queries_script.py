from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import line_up
from kgprobe.report.page.payload import About
from pages import ask_lineup, lined_up

LABELS = [
    *("Ada Lovelace", "ada", "</script><script>alert(1)</script>", "\u0646\u0635 \u0639\u0631\u0628\u064a"),
    *("\U0001f642 smile", "Zo\u00eb", "item 10", "item 9", "unused", "also unused"),
]

RELATIONS = ['knows "well"', "likes & loves"]


@pytest.fixture
def graph() -> kp.KnowledgeGraph:
    return kp.KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [2, 1, 3]], entity_labels=LABELS, relation_labels=RELATIONS, name="names"
    )


def _table(**changes: Any) -> kp.Ranks:
    """Both sides of four triples, the tail side of all of them first."""
    heads, relations, tails = [0, 2, 4, 6], [0, 1, 0, 1], [1, 3, 5, 7]
    columns: dict[str, Any] = {
        "head": heads * 2,
        "relation": relations * 2,
        "tail": tails * 2,
        "side": ["tail"] * 4 + ["head"] * 4,
        "rank": [1, 2, 3, 4, 5, 6, 7, 8.5],
        "candidates": [9, 8, 9, 8, 9, 8, 9, 9],
    }
    return kp.Ranks.from_columns(**(columns | changes))


def test_a_query_shows_what_the_file_has(graph: kp.KnowledgeGraph, tmp_path: Path) -> None:
    runs = kp.merge_seeds({1: _table(), 2: _table(rank=[2] * 8)})
    lineup = line_up({"one": _table(), "seeded": runs}, graph=graph)
    shown = ask_lineup(tmp_path, lineup, "return [query(data, 1), query(data, 7)];", About(graph=graph))
    popularity = graph.popularity
    assert shown[0] == {
        "row": 1,
        "head": LABELS[2],
        "relation": RELATIONS[1],
        "tail": LABELS[3],
        "side": "tail",
        "target": LABELS[3],
        "entityPopularity": popularity.entity([3])[0],
        "relationPopularity": popularity.relation([1], [3])[0],
        "popularity": popularity.entity([3])[0] * popularity.relation([1], [3])[0],
        "candidates": 8,
        "candidatesByModel": [8, 8],
        "ranks": [2, [2, 2]],
    }
    assert (shown[1]["side"], shown[1]["target"], shown[1]["ranks"]) == ("head", LABELS[6], [8.5, [8.5, 2]])


def test_without_a_graph_ids_are_shown(tmp_path: Path) -> None:
    shown = ask_lineup(tmp_path, line_up({"one": _table()}), "return [data.hasLabels, query(data, 0)];")
    assert shown[0] is False
    assert [shown[1][key] for key in ("head", "relation", "tail", "popularity")] == ["0", "0", "1", None]


def _sorted(tmp_path: Path, graph: kp.KnowledgeGraph, column: str, descending: bool, text: str = "") -> list[int]:
    lineup = line_up({"one": _table(), "two": _table(rank=[8, 7, 6, 5, 4, 3, 2, 1])}, graph=graph)
    body = f"return sortQueries(data, {column!r}, {str(descending).lower()}, {text!r});"
    found: list[int] = ask_lineup(tmp_path, lineup, body, About(graph=graph))
    return found


@pytest.mark.parametrize(
    ("column", "descending", "expected"),
    [
        ("row", False, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("row", True, [7, 6, 5, 4, 3, 2, 1, 0]),
        ("model0", True, [7, 6, 5, 4, 3, 2, 1, 0]),
        ("model1", False, [7, 6, 5, 4, 3, 2, 1, 0]),
        ("side", False, [4, 5, 6, 7, 0, 1, 2, 3]),
        ("candidates", False, [1, 3, 5, 0, 2, 4, 6, 7]),
        ("relation", False, [0, 2, 4, 6, 1, 3, 5, 7]),
    ],
)
def test_rows_are_put_in_order_and_equal_ones_stay_as_they_are(
    graph: kp.KnowledgeGraph, column: str, descending: bool, expected: list[int], tmp_path: Path
) -> None:
    assert _sorted(tmp_path, graph, column, descending) == expected


def test_numbers_inside_names_are_read_as_numbers(tmp_path: Path) -> None:
    names = [f"item {i}" for i in range(12)]
    graph = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=names)
    table = kp.Ranks.from_columns(
        head=[10, 2, 9], relation=[0] * 3, tail=[0] * 3, side=["tail"] * 3, rank=[1] * 3, candidates=[9] * 3
    )
    body = "return Array.from(sortQueries(data, 'head', false, ''), (row) => query(data, row).head);"
    assert ask_lineup(tmp_path, line_up({"m": table}), body, About(graph=graph)) == ["item 2", "item 9", "item 10"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("ADA", [0, 4]),
        ("lovelace well", [0, 4]),
        ("</SCRIPT>", [1, 5]),
        ("\u0639\u0631\u0628\u064a", [1, 5]),
        ("\U0001f642", [2, 6]),
        ("zo\u00eb", [2, 6]),
        ("zoe\u0308", [2, 6]),
        ("  item   10 ", [3, 7]),
        ("loves", [1, 3, 5, 7]),
        ("nobody", []),
        ("unused", []),
    ],
    ids=ascii,
)
def test_every_word_is_looked_for_in_head_relation_and_tail(
    graph: kp.KnowledgeGraph, text: str, expected: list[int], tmp_path: Path
) -> None:
    assert _sorted(tmp_path, graph, "row", False, text) == expected


def test_what_is_shown_by_name_is_found_by_name_and_by_label(graph: kp.KnowledgeGraph, tmp_path: Path) -> None:
    named = graph.with_names({"item 10": "Tenth of all", 'knows "well"': "has met"})
    shown = ask_lineup(tmp_path, line_up({"one": _table()}), "return query(data, 3);", About(graph=named))
    assert (shown["head"], shown["relation"]) == ("Tenth of all", "likes & loves")
    for text in ("tenth", "item 10", "ITEM 10 all"):
        assert _sorted(tmp_path, named, "model0", False, text) == [3, 7]
    assert _sorted(tmp_path, named, "model0", False, "met") == _sorted(tmp_path, named, "model0", False, "well")


def test_a_search_is_put_in_order_too(graph: kp.KnowledgeGraph, tmp_path: Path) -> None:
    assert _sorted(tmp_path, graph, "model0", True, "loves") == [7, 5, 3, 1]


def test_seeds_are_ordered_by_their_mean_rank(tmp_path: Path) -> None:
    lineup = lined_up(rows=40, seeds=(3,))
    mean = np.mean([run.rank for run in lineup.runs["model 1"]], axis=0)
    shown = ask_lineup(tmp_path, lineup, "return sortQueries(data, 'model1', false, '');")
    assert shown == np.argsort(mean, kind="stable").tolist()
