"""Ranks by lists, held against loops over every candidate."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters.list_matching import ListOptions, Unlisted
from kgprobe.predict.adapters.top_k import ListRanks, SideLists, TopKLists, rank_lists
from kgprobe.predict.adapters.top_k_files import lists_of, open_top_k
from kgprobe.predict.scorers import Side
from kgprobe.ranks import Ranks, validate


@given(st.dictionaries(st.integers(0, 50), st.lists(st.integers(0, 2), max_size=5).map(sorted), max_size=8))
def test_lists_are_in_order_of_their_keys_and_runs_end_with_them(levels: dict[int, list[int]]) -> None:
    entities = {key: [key * 10 + i for i in range(len(own))] for key, own in levels.items()}
    lists = SideLists.build(
        list(levels),
        [np.array(own, dtype=np.int64) for own in entities.values()],
        [np.array(own, dtype=np.int64) for own in levels.values()],
    )
    assert len(lists) == len(levels)
    assert lists.keys.tolist() == sorted(levels)
    for i, key in enumerate(sorted(levels)):
        assert lists.entities[lists.offsets[i] : lists.offsets[i + 1]].tolist() == entities[key]
    runs = [
        [entities[key][i] for i in range(len(own)) if own[i] == level]
        for key, own in sorted(levels.items())
        for level in sorted(set(own))
    ]
    cut = [lists.entities[a:b].tolist() for a, b in zip(lists.ties[:-1], lists.ties[1:], strict=True)]
    assert cut == runs


Write = Callable[[Iterable[Any]], Path]

Triple = tuple[int, int, int]

SIDES: tuple[Side, Side] = ("tail", "head")

ENTITIES, RELATIONS = 6, 2


@st.composite
def graphs(draw: st.DrawFn) -> KnowledgeGraph:
    triple = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))
    splits = draw(st.fixed_dictionaries({"train": st.lists(triple), "test": st.lists(triple, min_size=1, max_size=6)}))
    return KnowledgeGraph.from_triples(**splits, num_entities=ENTITIES, num_relations=RELATIONS)


def queries_of(graph: KnowledgeGraph) -> list[tuple[Side, int, int]]:
    test = graph.triples("test").tolist()
    asked = [("tail", h, r) for h, r, _ in test] + [("head", t, r) for _, r, t in test]
    return sorted(set(asked))  # type: ignore[arg-type]


def entry(side: Side, given_: int, relation: int, predictions: Any) -> dict[str, Any]:
    return {"head" if side == "tail" else "tail": given_, "relation": relation, "predictions": predictions}


def opened(entries: Iterable[Any], graph: KnowledgeGraph, folder: Path) -> TopKLists:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in entries), encoding="utf-8")
    return open_top_k(path, graph)


def brute_force(
    graph: KnowledgeGraph, lists: dict[Any, list[tuple[int, float]]], side: Side, filtered: bool, unlisted: str
) -> list[tuple[float, int, int, float]]:
    """Rank, ties, candidates and worst rank of every test triple by looking at each candidate."""
    known = {tuple(t) for t in graph.triples().tolist()}
    found = []
    for h, r, t in graph.triples("test").tolist():
        given_, target = (h, t) if side == "tail" else (t, h)
        candidates = []
        for e in range(ENTITIES):
            triple = (h, r, e) if side == "tail" else (e, r, t)
            if e == target or not (filtered and triple in known):
                candidates.append(e)
        score = dict(lists[side, given_, r])
        listed = [e for e in candidates if e in score]
        if target in score:
            better = sum(score[e] > score[target] for e in listed)
            ties = sum(score[e] == score[target] for e in listed) - 1
            worst = math.nan
        else:
            better = len(listed)
            rest = len(candidates) - better - 1
            ties = rest if unlisted == "tied" else 0
            worst = len(candidates) if unlisted == "unknown" and rest else math.nan
        found.append((1 + better + ties / 2, ties, len(candidates), worst))
    return found


def columns(found: ListRanks) -> np.ndarray:
    return np.column_stack([found.rank, found.ties, found.candidates, found.worst_rank])


@settings(max_examples=150)
@given(graphs(), st.data(), st.booleans(), st.sampled_from(["unknown", "tied"]), st.sampled_from([SIDES, SIDES[::-1]]))
def test_ranks_are_those_that_loops_find(tmp_path_factory, graph, data, filtered, unlisted, sides):
    lists: dict[Any, list[tuple[int, float]]] = {}
    entries = []
    for query in queries_of(graph):
        answers = data.draw(st.lists(st.integers(0, ENTITIES - 1), unique=True))
        if data.draw(st.booleans()):
            some = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(answers), max_size=len(answers))))[::-1]
            lists[query] = list(zip(answers, some, strict=True))
            entries.append(entry(*query, [list(pair) for pair in lists[query]]))
        else:
            lists[query] = [(answer, -place) for place, answer in enumerate(answers)]
            entries.append(entry(*query, answers))
    opened_lists = opened(data.draw(st.permutations(entries)), graph, tmp_path_factory.mktemp("lists"))
    known = graph.known_answers() if filtered else None
    found = rank_lists(replace(opened_lists, unlisted=Unlisted(unlisted)), graph.triples("test"), sides, known)
    wanted = [row for side in sides for row in brute_force(graph, lists, side, filtered, unlisted)]
    np.testing.assert_array_equal(columns(found), np.array(wanted))
    assert found.unasked == 0


@settings(max_examples=60)
@given(graphs(), st.integers(0, 10_000), st.booleans())
def test_whole_lists_have_the_ranks_of_the_scores(tmp_path_factory, graph, seed, filtered):
    score = np.random.default_rng(seed).integers(0, 4, (2, ENTITIES, RELATIONS, ENTITIES))
    entries = []
    for side, given_, relation in queries_of(graph):
        own = score[SIDES.index(side), given_, relation]
        order = np.argsort(-own, kind="stable").tolist()
        entries.append(entry(side, given_, relation, [[e, int(own[e])] for e in order]))
    known = graph.known_answers() if filtered else None
    lists = opened(entries, graph, tmp_path_factory.mktemp("lists"))
    found = rank_lists(lists, graph.triples("test"), SIDES, known)
    assert np.isnan(found.worst_rank).all()
    triples = {tuple(t) for t in graph.triples().tolist()} if filtered else set()
    row = 0
    for side in SIDES:
        for h, r, t in graph.triples("test").tolist():
            own, target = (score[0, h, r], t) if side == "tail" else (score[1, t, r], h)
            others = [
                e
                for e in range(ENTITIES)
                if e != target and ((h, r, e) if side == "tail" else (e, r, t)) not in triples
            ]
            greater = sum(own[e] > own[target] for e in others)
            equal = sum(own[e] == own[target] for e in others)
            assert (found.rank[row], found.ties[row], found.candidates[row]) == (
                1 + greater + equal / 2,
                equal,
                1 + len(others),
            )
            row += 1


@settings(max_examples=30)
@given(graphs(), st.data())
def test_the_columns_make_a_valid_rank_table(tmp_path_factory, graph, data):
    triples = np.unique(graph.triples("test"), axis=0)
    entries = [
        entry(*query, data.draw(st.lists(st.integers(0, ENTITIES - 1), unique=True))) for query in queries_of(graph)
    ]
    lists = opened(entries, graph, tmp_path_factory.mktemp("lists"))
    found = rank_lists(lists, triples, SIDES, graph.known_answers())
    both = np.concatenate([triples, triples])
    ranks = Ranks.from_columns(
        head=both[:, 0],
        relation=both[:, 1],
        tail=both[:, 2],
        side=np.repeat(SIDES, len(triples)),
        rank=found.rank,
        ties=found.ties,
        candidates=found.candidates,
        worst_rank=found.worst_rank,
    )
    validate(ranks, graph)
    assert ranks.intervals.tolist() == (~np.isnan(found.worst_rank)).tolist()


def test_a_list_that_leaves_out_the_target_alone_has_found_its_rank(write: Write) -> None:
    graph = KnowledgeGraph.from_triples(test=[[0, 0, 3]], num_entities=4)
    lists = open_top_k(write([entry("tail", 0, 0, [2, 0, 1])]), graph)
    found = rank_lists(lists, graph.triples("test"), ["tail"], None)
    assert columns(found).tolist()[0][:3] == [4, 0, 4]
    assert np.isnan(found.worst_rank).all()


def test_the_target_keeps_its_place_where_it_is_not_known_itself(write: Write) -> None:
    """Ranking a test triple with a filter of other splits: the target is no known answer, but stays in the list."""
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 3]], num_entities=5)
    lists = open_top_k(write([entry("tail", 0, 0, [[1, 3], [2, 3], [3, 3]])]), graph)
    found = rank_lists(lists, graph.triples("test"), ["tail"], graph.known_answers("train"))
    assert columns(found)[:, :3].tolist() == [[1.5, 1, 4]]


def test_lists_that_nobody_asks_for_are_counted(write: Write, people: KnowledgeGraph) -> None:
    lists = open_top_k(
        write([entry("tail", 0, 0, []), entry("tail", 2, 0, []), entry("tail", 1, 1, []), entry("head", 0, 0, [])]),
        people,
    )
    assert rank_lists(lists, people.triples("test"), ["tail"], None).unasked == 2


def test_queries_without_a_list_are_counted_and_named(write: Write, people: KnowledgeGraph) -> None:
    lists = open_top_k(write([entry("tail", 0, 0, [])]), people)
    with pytest.raises(DataError) as caught:
        rank_lists(lists, people.triples("test"), SIDES, None)
    assert caught.value.title == f"{lists.path}: lists are missing"
    assert caught.value.problems == [
        "1 of 2 queries for the tail have no list: (Bob, likes, ?)",
        "2 of 2 queries for the head have no list: (?, likes, Ada), (?, knows, Di)",
    ]
    assert "empty list" in caught.value.remedy


def test_of_many_queries_without_a_list_the_first_are_named(write: Write) -> None:
    graph = KnowledgeGraph.from_triples(test=[[i, 0, 0] for i in range(9)])
    with pytest.raises(DataError) as caught:
        rank_lists(open_top_k(write([entry("head", 3, 0, [])]), graph), graph.triples("test"), ["tail"], None)
    (problem,) = caught.value.problems
    assert problem.startswith("9 of 9 queries for the tail have no list: (0, 0, ?), ")
    assert problem.endswith("(4, 0, ?), ...")


def without_unknown(
    answers: list[int | str], candidates: set[int], target: int, unknown: str
) -> list[tuple[int, float]]:
    """A list in which unlisted wrong candidates take the places of unknown answers, as long as there are any."""
    spare = sorted(candidates - {target} - {answer for answer in answers if isinstance(answer, int)})
    found: list[tuple[int, float]] = []
    for place, answer in enumerate(dict.fromkeys(answers)):
        if isinstance(answer, int):
            found.append((answer, -place))
        elif unknown == "keep-as-wrong" and spare:
            found.append((spare.pop(), -place))
    return found


@settings(max_examples=150)
@given(graphs(), st.data(), st.sampled_from(["drop", "keep-as-wrong"]), st.sampled_from(["unknown", "tied"]))
def test_unknown_answers_are_left_out_or_take_the_place_of_wrong_ones(graph, data, unknown, unlisted):
    graph = replace(graph, splits={"train": graph.triples("train"), "test": graph.triples("test")[:1]})
    answer = st.one_of(st.integers(0, ENTITIES - 1), st.sampled_from(["Atlantis", "El Dorado", "Utopia", ""]))
    (h, r, t), known = graph.triples("test")[0].tolist(), {tuple(triple) for triple in graph.triples().tolist()}
    lists = {query: data.draw(st.lists(answer, max_size=12)) for query in queries_of(graph)}
    options = ListOptions.of(unlisted, unknown, duplicates="first")
    opened_lists = lists_of([entry(*query, answers) for query, answers in lists.items()], graph, options)
    found = rank_lists(opened_lists, graph.triples("test"), SIDES, graph.known_answers())
    wanted = []
    for side in SIDES:
        given_, target = (h, t) if side == "tail" else (t, h)
        triples = {e: (h, r, e) if side == "tail" else (e, r, t) for e in range(ENTITIES)}
        candidates = {e for e, triple in triples.items() if e == target or triple not in known}
        plain = without_unknown(lists[side, given_, r], candidates, target, unknown)
        wanted += brute_force(graph, {(side, given_, r): plain}, side, True, unlisted)
    np.testing.assert_array_equal(columns(found), wanted)
    assert (found.rank <= found.candidates).all()


def test_unknown_answers_of_equal_scores_tie_with_the_target() -> None:
    graph = KnowledgeGraph.from_triples(test=[[0, 0, 1]], num_entities=9)
    answers = [["El Dorado", 3], [1, 2], ["Atlantis", 2], [4, 2], ["Utopia", 1]]
    options = ListOptions.of(unknown="keep-as-wrong")
    found = rank_lists(lists_of([entry("tail", 0, 0, answers)], graph, options), graph.triples("test"), ["tail"], None)
    assert columns(found)[0, :3].tolist() == [3.0, 2.0, 9.0]
