"""Plans: every pair of a query and an entity is in one block, and blocks end where batches end."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Dot, Resources, Setting, encoding
from kgprobe.predict.blocks import block_plan
from kgprobe.predict.blocks.block_plan import Block, Part, Plan
from kgprobe.predict.stored_arrays import StoredTable
from ranking import graph_of, matrix, relation_sets, relation_vectors, vectors

GRAPH = graph_of(seed=5, entities=30, relations=4, facts=200)

MODELS: dict[str, Any] = {
    "vectors": vectors("random", Dot(), GRAPH, 6, seed=1),
    "by relation": relation_vectors("random", Dot(), GRAPH, seed=1),
    "matrix": matrix(GRAPH, seed=1),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few queries are encoded at once, and few are a block."""
    monkeypatch.setattr(encoding, "_ENCODED_AT_ONCE", 6 * 5)
    monkeypatch.setattr(block_plan, "_LEAST_QUERIES", 1)
    monkeypatch.setattr(block_plan, "_PRODUCTS", 1)
    monkeypatch.setattr(block_plan, "_SCORES", 1)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("sides", ["both", "head"])
@pytest.mark.parametrize("apart", [False, True])
def test_every_query_meets_every_entity_once(kind: str, shards: int, sides: str, apart: bool) -> None:
    sets = relation_sets(GRAPH, seed=1)[0] if apart else "all"
    setting = Setting.build(GRAPH, sides=sides, candidates=sets)
    plan = Plan.build(setting, MODELS[kind], Resources(shards=shards, batch=3))
    met = Counter(
        (block.side, query, entity) for block in plan.blocks for query in block.queries for entity in block.entities
    )
    pairs = {side: len(setting.ranked.queries(side)) * GRAPH.num_entities for side in setting.ranked.sides}
    assert set(met.values()) == {1}
    assert Counter(side for side, _, _ in met) == pairs
    assert len({block.id("a") for block in plan.blocks} | {block.id("b") for block in plan.blocks}) == 2 * len(
        plan.blocks
    )
    assert Plan.of_json(json.loads(json.dumps(plan.as_json()))) == plan


@pytest.mark.parametrize("apart", [False, True])
def test_a_block_ends_where_a_batch_of_the_encoder_ends(apart: bool) -> None:
    setting = Setting.build(GRAPH, candidates=relation_sets(GRAPH, seed=1)[0] if apart else "all")
    plan = Plan.build(setting, MODELS["vectors"], Resources())
    for side, cuts in plan.queries.items():
        relation = setting.ranked.queries(side).relation
        starts = np.flatnonzero(np.diff(relation, prepend=-1)) if apart else np.array([0])
        ends = {s + 5 * i for s, e in zip(starts, [*starts[1:], len(relation)], strict=True) for i in range(e - s)}
        assert len(cuts) > 4
        assert {*cuts[:-1]} <= ends


def test_scores_of_a_matrix_are_asked_for_as_without_blocks() -> None:
    setting = Setting.build(GRAPH)
    plan = Plan.build(setting, MODELS["matrix"], Resources(batch=7))
    assert plan.batch == 7
    assert plan.resources(Resources(batch=3)).batch == 7
    assert all(cut % 7 == 0 for cuts in plan.queries.values() for cut in cuts[:-1])


def test_blocks_of_more_threads_are_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_plan, "_PRODUCTS", 6 * GRAPH.num_entities * 5)
    blocks = [len(Plan.build(Setting.build(GRAPH), MODELS["vectors"], Resources(threads=n)).blocks) for n in (1, 2, 4)]
    assert blocks[0] > blocks[1] > blocks[2] > 2


@pytest.mark.parametrize("least", [1, 8, 50, 1000])
def test_there_are_blocks_for_all_workers(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    setting = Setting.build(GRAPH)
    plan = Plan.build(setting, MODELS["vectors"], Resources(), least)
    # There are two sides, and no more ranges of entities than entities; ranges have a whole number of these.
    assert len(plan.blocks) > min(least, 2 * GRAPH.num_entities) / 2
    assert len(Plan.build(setting, MODELS["vectors"], Resources()).blocks) == 2


def test_there_are_not_too_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting.build(GRAPH)
    assert len(Plan.build(setting, MODELS["vectors"], Resources()).blocks) > 8
    monkeypatch.setattr(block_plan, "_MOST_BLOCKS", 8)
    assert len(Plan.build(setting, MODELS["vectors"], Resources()).blocks) <= 10


def test_embeddings_in_files_are_divided_into_ranges_of_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgprobe.predict.setting._RANGE_BYTES", 4 * 6 * 10)
    model = vectors("random", Dot(), GRAPH, 6, seed=1)
    model.stored_bytes = 4 * 6 * 30  # type: ignore[attr-defined]
    assert Plan.build(Setting.build(GRAPH), model, Resources()).entities == (0, 10, 20, 30)


@given(st.integers(0, 40), st.integers(1, 50))
def test_parts_are_even_and_leave_nothing_out(blocks: int, of: int) -> None:
    plan = Plan({"tail": tuple(range(blocks + 1))}, entities=(0, 5))
    parts = [plan.part(number, of) for number in range(1, of + 1)]
    assert [block for part in parts for block in part] == list(plan.blocks)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "-1/3", "1/0", "a/b", "1/2/3", "1.0/2", "9" * 30 + "/2"])
def test_other_texts_are_no_parts(text: str) -> None:
    with pytest.raises(UsageError, match="is not a part"):
        Part.parse(text)
    assert Part.parse(" 3 / 4 ") == Part(3, 4)


@pytest.mark.parametrize(
    "entry",
    [
        {"queries": {"tail": [0, 5]}, "entities": [0, 5, 5], "batch": 0},
        {"queries": {"tail": [1, 5]}, "entities": [0, 5], "batch": 0},
        {"queries": {"tail": [0, 5.0]}, "entities": [0, 5], "batch": 0},
        {"queries": {"middle": [0, 5]}, "entities": [0, 5], "batch": 0},
        {"queries": {"tail": []}, "entities": [0, 5], "batch": 0},
    ],
)
def test_invalid_plans_are_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"ranges|sides"):
        Plan.of_json(entry)


def test_a_graph_without_queries_of_a_side_has_no_blocks_there() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
    model = vectors("random", Dot(), graph, 6, seed=1)
    plan = Plan.build(Setting.build(graph), model, Resources(shards=5))
    assert [str(block) for block in plan.blocks[:2]] == [
        "tail queries 0 to 0, entities 0 to 0",
        "head queries 0 to 0, entities 0 to 0",
    ]
    assert Block("tail", range(3), range(4, 9)).pairs == 15


def test_a_stored_table_knows_its_bytes() -> None:
    from pathlib import Path

    from kgprobe.predict.stored_arrays import stored_bytes

    table = StoredTable(Path("x"), "entity", (10, 3), lambda index: np.zeros((10, 3))[index])
    assert stored_bytes(table, np.zeros((100, 100))) == 120
    assert stored_bytes(np.zeros((100, 100))) == 0
