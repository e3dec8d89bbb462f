"""Which entity is in which column, which queries go together, and what is said of a NaN."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.queries import KnownFilter, RankedTriples
from kgprobe.predict.tasks import Columns, Counts, QueryBlock, Task
from ranking import graph_of, query_sets, relation_sets


def counts_of(rows: list[tuple[int, int, int]]) -> Counts:
    return Counts(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


rows = st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=6)


@given(rows)
def test_ranks_are_the_mean_of_the_places_of_a_tie_group(rows: list[tuple[int, int, int]]) -> None:
    counts = counts_of(rows)
    expected = [(greater + 1 + greater + 1 + equal) / 2 for greater, equal, _ in rows]
    assert counts.rank.tolist() == expected
    assert counts.candidates.tolist() == [others + 1 for *_, others in rows]


@given(rows)
def test_parts_add_up_in_any_order(rows: list[tuple[int, int, int]]) -> None:
    counts, zeros = counts_of(rows), Counts.zeros(len(rows))
    for whole in (counts + counts + zeros, zeros + counts + counts, counts + (zeros + counts)):
        assert whole.greater.tolist() == [2 * greater for greater, *_ in rows]
        assert whole.equal.tolist() == [2 * equal for _, equal, _ in rows]
        assert whole.others.tolist() == [2 * others for *_, others in rows]


def test_nothing_counted_is_the_first_of_one() -> None:
    counts = Counts.zeros(2)
    assert (counts.rank.tolist(), counts.candidates.tolist()) == ([1.0, 1.0], [1, 1])
    assert counts.greater is not counts.equal


def test_counts_are_filled_in_and_put_in_order() -> None:
    counts = Counts.zeros(4)
    counts.put(slice(1, 3), np.array([5, 6]), np.array([1, 2]), np.array([10, 20]))
    assert counts.greater.tolist() == [0, 5, 6, 0]
    assert counts.equal.tolist() == [0, 1, 2, 0]
    assert counts.others.tolist() == [0, 10, 20, 0]
    moved = counts.at(np.array([2, 0, 1, 3]))
    assert (moved.greater.tolist(), moved.equal.tolist(), moved.others.tolist()) == (
        [6, 0, 5, 0],
        [2, 0, 1, 0],
        [20, 0, 10, 0],
    )


GRAPH = graph_of(seed=31)


def task_of(graph: KnowledgeGraph, side: str = "tail", wanted: str | None = None, **options: object) -> Task:
    ranked = RankedTriples.build(graph)
    whole = {"sets": None, "entities": range(graph.num_entities)} | options
    return Task(graph, ranked.queries(side), KnownFilter.build(graph, wanted), **whole)  # type: ignore[arg-type]


ranges = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda ends: range(min(ends), max(ends)))


@given(st.one_of(ranges, st.sets(st.integers(0, 9)).map(lambda ids: np.array(sorted(ids), dtype=np.int64))), ranges)
def test_columns_are_positions_in_a_list(entities: range | np.ndarray, part: range) -> None:
    columns, listed, everyone = Columns(entities), list(entities), np.arange(10)
    assert len(columns) == len(listed)
    expected = [listed.index(entity) if entity in listed else -1 for entity in range(10)]
    assert columns.position(everyone).tolist() == expected
    assert columns.position(everyone.astype(np.int32)).dtype == np.int64
    assert everyone[columns.index].tolist() == listed
    inside = columns.within(part)
    assert everyone[inside.index].tolist() == [entity for entity in listed if entity in part]
    assert len(inside) == len(everyone[inside.index])


def test_queries_go_together_or_by_relation() -> None:
    task = task_of(GRAPH)
    ((queries, columns),) = task.runs()
    assert (queries, columns.entities) == (range(len(task.queries)), range(GRAPH.num_entities))
    sets, allowed = relation_sets(GRAPH, seed=0)
    for runs in (task.runs(apart=True), task_of(GRAPH, sets=sets).runs()):
        found = [(queries, set(task.queries.relation[queries.start : queries.stop].tolist())) for queries, _ in runs]
        assert [len(relations) for _, relations in found] == [1] * len(found)
        assert np.concatenate([list(queries) for queries, _ in found]).tolist() == list(range(len(task.queries)))
        assert len({min(relations) for _, relations in found}) == len(found)
    part = range(3, 8)
    for queries, columns in task_of(GRAPH, sets=sets, entities=part).runs():
        relation = int(task.queries.relation[queries.start])
        assert set(columns.entities) == allowed((0, relation, 0), "tail") & set(part)


@pytest.mark.parametrize("wanted", ["none", "train", "all"])
@pytest.mark.parametrize("side", ["tail", "head"])
@pytest.mark.parametrize("part", [range(12), range(3, 8), range(5, 5)], ids=str)
def test_a_block_is_what_its_queries_ask(part: range, side: str, wanted: str) -> None:
    task = task_of(GRAPH, side, wanted, entities=part)
    splits = {"none": [], "train": ["train"], "all": ["train", "valid", "test"]}[wanted]
    known = {tuple(triple) for split in splits for triple in GRAPH.triples(split).tolist()}
    queries = task.queries
    for start, stop in ((0, len(queries)), (2, 7), (4, 5)):
        block = QueryBlock(task, Columns(part), start, stop)
        answers = [
            [e for e in part if ((g, r, e) if side == "tail" else (e, r, g)) in known]
            for g, r in zip(queries.given[start:stop].tolist(), queries.relation[start:stop].tolist(), strict=True)
        ]
        asked = [(q - start, t) for q, t in zip(queries.query, queries.target, strict=True) if start <= q < stop]
        assert list(zip(block.row.tolist(), block.target.tolist(), strict=True)) == asked
        left = [{*part} - {*answers[row]} - {target} for row, target in asked]
        assert block.others.tolist() == [len(others) for others in left]
        position = {entity: column for column, entity in enumerate(part)}
        own = [position[t] if t in part and t not in answers[row] else -1 for row, t in asked]
        assert block.counts_itself.tolist() == own
        for first, last in ((0, len(part)), (1, 3), (2, 2)):
            expected = {(row, position[e] - first) for row, ids in enumerate(answers) for e in ids}
            expected = {(row, column) for row, column in expected if 0 <= column < last - first}
            rows, columns = block.filtered(first, last)
            assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == expected
            assert len(rows) == len(expected)
        sets, allowed = query_sets(RankedTriples.build(GRAPH), GRAPH.num_entities, seed=1)
        listed = [
            (target, position[e])
            for target, (row, answer) in enumerate(asked)
            for e in sorted(allowed(_triple(task, row + start, answer), side) & left[target])  # type: ignore[arg-type]
        ]
        which, columns = block.listed(sets)
        assert list(zip(which.tolist(), columns.tolist(), strict=True)) == listed


def _triple(task: Task, query: int, target: int) -> tuple[int, int, int]:
    given_, relation = int(task.queries.given[query]), int(task.queries.relation[query])
    return (given_, relation, int(target)) if task.queries.side == "tail" else (int(target), relation, given_)


def test_queries_are_named_once_each_in_order() -> None:
    graph = KnowledgeGraph.from_triples(
        test=[[0, 0, 1], [1, 0, 1], [1, 1, 0]], entity_labels=["Ada", None], relation_labels=["knows", "likes"]
    )
    error = task_of(graph).nan_error(np.array([2, 0, 2, 1]))
    assert error.problems == ["query (Ada, knows, ?)", "query (1, knows, ?)", "query (1, likes, ?)"]
    error = task_of(graph, "head").nan_error(np.array([0]))
    assert error.problems == ["query (?, knows, 1)"]
