from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.arrays import Grouped, pair_keys
from kgprobe.errors import UsageError
from kgprobe.graph import KnownAnswers, triple_streams
from support import streaming

ENTITIES, RELATIONS = 6, 3

Triples = list[tuple[int, int, int]]

ids = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))
triples = st.lists(ids, max_size=25)
steps = st.sampled_from([(), (2, 2, 2), (1, 1, 1, 1)])


def as_array(rows: Triples, kind: type = np.int32) -> np.ndarray:
    return np.array(rows, dtype=kind).reshape(-1, 3)


def by_hand(rows: Triples, relations: int = RELATIONS) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    tails, heads = defaultdict(set), defaultdict(set)
    for head, relation, tail in rows:
        tails[head * relations + relation].add(tail)
        heads[tail * relations + relation].add(head)
    return tuple({key: sorted(own) for key, own in sorted(side.items())} for side in (tails, heads))  # type: ignore[return-value]


def content(groups: Grouped) -> dict[int, list[int]]:
    assert np.all(np.diff(groups.keys) > 0)
    assert (groups.offsets[0], groups.offsets[-1]) == (0, len(groups.values))
    parts = np.split(groups.values, groups.offsets[1:-1]) if len(groups.keys) else []
    return {key: part.tolist() for key, part in zip(groups.keys.tolist(), parts, strict=True)}


@settings(max_examples=60)
@given(triples, triples, st.sampled_from([np.int32, np.int64]), steps)
def test_the_index_of_several_arrays_is_that_by_hand(
    first: Triples, second: Triples, kind: type, some: tuple[int, ...]
) -> None:
    with streaming(*some):
        known = KnownAnswers.build([as_array(first), as_array(second, kind)], ENTITIES, RELATIONS)
    tails, heads = by_hand(first + second)
    assert (content(known.tails), content(known.heads), known.complete) == (tails, heads, True)
    assert known.tails.values.dtype == known.heads.values.dtype == kind


@settings(max_examples=100)
@given(triples, triples, triples, steps)
def test_the_index_of_some_queries_is_the_full_one_at_these(
    first: Triples, second: Triples, asked: Triples, some: tuple[int, ...]
) -> None:
    tails, heads = by_hand(first + second)
    ask_tails, ask_heads = by_hand(asked)
    keys = np.array([*ask_tails, *ask_tails], dtype=int), np.array([*ask_heads], dtype=int)
    with streaming(*some):
        known = KnownAnswers.of_queries([as_array(first), as_array(second)], ENTITIES, RELATIONS, *keys)
    assert content(known.tails) == {key: tails.get(key, []) for key in ask_tails}
    assert content(known.heads) == {key: heads.get(key, []) for key in ask_heads}
    full = KnownAnswers.build([as_array(first + second)], ENTITIES, RELATIONS)
    if asked:
        head, relation, tail = as_array(asked).T
        for side in (True, False):
            assert known.others(head, relation, tail, side).tolist() == full.others(head, relation, tail, side).tolist()


def test_triples_of_other_queries_that_look_alike_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triple_streams, "_SLOTS_PER_KEY", 1)
    monkeypatch.setattr(triple_streams, "_FEWEST_SLOTS", 2)
    rows = np.random.default_rng(0).integers(0, 20, (400, 3))
    keys = pair_keys(rows[:3, 0], rows[:3, 1], 20)
    assert triple_streams.KeySet(keys).likely(pair_keys(rows[:, 0], rows[:, 1], 20)).mean() > 0.3
    known = KnownAnswers.of_queries([rows], 20, 20, keys, keys[:0])
    whole = by_hand([tuple(row) for row in rows.tolist()], 20)[0]
    assert content(known.tails) == {key: whole[key] for key in sorted(keys.tolist())}
    assert content(known.heads) == {}


def test_queries_that_were_not_asked_for_are_refused() -> None:
    rows = as_array([(0, 0, 1), (2, 0, 1)])
    known = KnownAnswers.of_queries([rows], 3, 1, tails=np.array([0]), heads=np.array([1]))
    assert known.count([0], [0], [1], True).tolist() == [1]
    with pytest.raises(UsageError, match="cannot be looked up") as caught:
        known.count([0, 2], [0, 0], [1, 1], True)
    assert caught.value.problems == ["1 of 2 queries were not asked for when it was built"]


def test_ids_at_the_ends_of_a_very_large_graph() -> None:
    entities, relations = 1 << 40, 1 << 20
    rows = np.array(
        [[0, relations - 1, entities - 1], [entities - 1, 0, 0], [0, relations - 1, 5], [0, relations - 1, 5]]
    )
    keys = pair_keys(rows[:, 0], rows[:, 1], relations)
    for known in (
        KnownAnswers.build([rows], entities, relations),
        KnownAnswers.of_queries([rows], entities, relations, keys, pair_keys(rows[:, 2], rows[:, 1], relations)),
    ):
        assert content(known.tails) == {relations - 1: [5, entities - 1], (entities - 1) * relations: [0]}
        assert content(known.heads) == by_hand([tuple(row) for row in rows.tolist()], relations)[1]
