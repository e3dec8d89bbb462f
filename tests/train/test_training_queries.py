"""The true answers on the device against Python sets.

What is asked in an epoch, and how much it counts.
"""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.train.training_queries import TrainingQueries, TrueAnswers, alike, joined, rarity, training_queries
from runs import small_graph
from trainings import CPU

ENTITIES = st.sampled_from([1, 2, 7, 8, 9, 16, 19])


@st.composite
def _facts(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    entities = draw(ENTITIES)
    entity = st.integers(0, entities - 1)
    return entities, draw(st.lists(st.tuples(entity, st.integers(0, 3), entity), min_size=1, max_size=40))


@given(_facts())
def test_answers_are_those_of_the_facts(made: tuple[int, list[tuple[int, int, int]]]) -> None:
    entities, facts = made
    columns = [np.array(column, dtype=np.int64) for column in zip(*facts, strict=True)]
    known = TrueAnswers(*columns, entities=entities, device=CPU)
    answers = [{target for h, r, target in facts if (h, r) == fact[:2]} for fact in facts]

    assert known.pairs == len({fact[:2] for fact in facts})
    same = [[left[:2] == right[:2] for right in facts] for left in facts]
    assert (known.pair_of[:, None] == known.pair_of[None]).tolist() == same

    everything = torch.arange(entities).expand(1, len(facts), entities)
    wanted = [[entity in own for entity in range(entities)] for own in answers]
    assert known.contain(known.pair_of[None], everything)[0].tolist() == wanted
    assert known.rows(known.pair_of[None])[0].tolist() == wanted
    assert known.count(known.pair_of).tolist() == [len(own) for own in answers]


def test_pairs_of_several_runs_are_looked_up_each_on_its_own() -> None:
    known = TrueAnswers(np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([2, 0, 1]), entities=3, device=CPU)
    pair = known.pair_of[torch.tensor([[0, 1], [2, 0]])]
    drawn = torch.tensor([[[2, 0], [2, 0]], [[1, 1], [0, 2]]])
    assert known.contain(pair, drawn).tolist() == [[[True, False], [False, True]], [[True, True], [False, True]]]
    assert known.rows(pair).int().tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 0, 1]]]


GRAPH = small_graph()

FACTS = [tuple(fact) for fact in GRAPH.triples("train").tolist()]


def _asked(queries: TrainingQueries) -> list[tuple[int, int, int]]:
    return list(zip(queries.given.tolist(), queries.relation.tolist(), queries.target.tolist(), strict=True))


def _built(reciprocals: int | None) -> list[TrainingQueries]:
    return training_queries(GRAPH.triples("train"), GRAPH.num_entities, reciprocals, rarity, CPU)


def test_both_sides_of_every_fact_are_asked_for() -> None:
    tails, heads = _built(None)
    assert (tails.side, heads.side) == ("tail", "head")
    assert _asked(tails) == FACTS
    assert _asked(heads) == [(tail, relation, head) for head, relation, tail in FACTS]
    assert len(tails) == len(heads) == len(FACTS)


def test_reverse_relations_ask_for_heads_as_tails() -> None:
    (both,) = _built(GRAPH.num_relations)
    assert both.side == "tail"
    reverse = [(tail, relation + GRAPH.num_relations, head) for head, relation, tail in FACTS]
    assert Counter(_asked(both)) == Counter([*FACTS, *reverse])


@pytest.mark.parametrize("reciprocals", [None, GRAPH.num_relations], ids=["plain", "reciprocal"])
def test_the_fact_of_a_query_has_its_head_first(reciprocals: int | None) -> None:
    for queries in _built(reciprocals):
        head, relation, tail = (column.tolist() for column in queries.triples)
        for fact, asked in zip(zip(head, relation, tail, strict=True), _asked(queries), strict=True):
            assert fact == (asked if queries.side == "tail" else (asked[2], asked[1], asked[0]))
            back = (fact[2], fact[1] - GRAPH.num_relations, fact[0])
            assert (fact if fact[1] < GRAPH.num_relations else back) in FACTS


@pytest.mark.parametrize("reciprocals", [None, GRAPH.num_relations], ids=["plain", "reciprocal"])
def test_every_pair_can_be_asked_once_and_keeps_all_its_answers(reciprocals: int | None) -> None:
    for queries in _built(reciprocals):
        once = queries.once()
        pairs = [asked[:2] for asked in _asked(once)]
        assert len(pairs) == len(set(pairs))
        assert set(pairs) == {asked[:2] for asked in _asked(queries)}
        labels = once.known.rows(once.pair[None])[0]
        for (given_, relation, _), row in zip(_asked(once), labels, strict=True):
            wanted = {target for g, r, target in _asked(queries) if (g, r) == (given_, relation)}
            assert set(row.nonzero()[:, 0].tolist()) == wanted


def test_queries_are_taken_from_places_of_any_shape() -> None:
    (both,) = _built(GRAPH.num_relations)
    place = torch.tensor([[3, 0], [3, 7]])
    some = both.at(place)
    assert some.given.shape == (2, 2)
    for run in range(2):
        for query in range(2):
            at = int(place[run, query])
            assert (some.target[run, query], some.weight[run, query]) == (both.target[at], both.weight[at])


def _slow_weights(facts: list[tuple[int, int, int]]) -> list[float]:
    """Counts of (head, relation) and of (tail, reverse relation) start at 4, as in the public RotatE code."""
    counts: dict[tuple[int, int], int] = {}
    for head, relation, tail in facts:
        for pair in ((head, relation), (tail, -relation - 1)):
            counts[pair] = counts[pair] + 1 if pair in counts else 4
    return [1 / math.sqrt(counts[head, relation] + counts[tail, -relation - 1]) for head, relation, tail in facts]


_FACT = st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5))


@given(st.lists(_FACT, min_size=1, max_size=40, unique=True))
def test_frequent_queries_weigh_less(facts: list[tuple[int, int, int]]) -> None:
    wanted = _slow_weights(facts)
    triples = np.array(facts)
    for reciprocals in (None, 3):
        weights = torch.cat([own.weight for own in training_queries(triples, 6, reciprocals, rarity, CPU)])
        np.testing.assert_allclose(weights, wanted * 2, rtol=1e-6)


def test_queries_weigh_alike_where_nothing_is_asked_for() -> None:
    columns = training_queries(GRAPH.triples("train"), GRAPH.num_entities, None, alike, CPU)
    assert all((queries.weight == 1).all() for queries in columns)


def test_both_sides_of_a_step_are_asked_together() -> None:
    tails, heads = _built(None)
    place = torch.tensor([[3, 0, 9], [3, 7, 1]])
    both = joined([tails.at(place), heads.at(place)])
    assert both.side == "both"
    assert both.given.shape == (2, 6)
    head, relation, tail = both.triples
    for run in range(2):
        for query in range(6):
            fact = (int(head[run, query]), int(relation[run, query]), int(tail[run, query]))
            assert fact == FACTS[int(place[run, query % 3])]
            target = both.target[run, query]
            assert target == (fact[2] if query < 3 else fact[0])
    labels = both.known.rows(both.pair)
    for query in range(6):
        fact = FACTS[int(place[0, query % 3])]
        tails_of = {t for h, r, t in FACTS if (h, r) == fact[:2]}
        heads_of = {h for h, r, t in FACTS if (r, t) == fact[1:]}
        assert set(labels[0, query].nonzero()[:, 0].tolist()) == (tails_of if query < 3 else heads_of)


def test_one_side_alone_is_joined_with_nothing() -> None:
    (both,) = _built(GRAPH.num_relations)
    assert joined([both]) is both
