from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.graph.train_counts import TrainCounts, entity_degrees

ENTITIES, RELATIONS = 6, 3
triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=40)


def _pairs(rows: list[tuple[int, int, int]]) -> Counter[tuple[int, int]]:
    counted = Counter((h, r) for h, r, _ in rows)
    counted.update((t, r) for _, r, t in rows)
    return counted


@settings(max_examples=50)
@given(triples)
def test_counts_are_those_of_a_counter(rows: list[tuple[int, int, int]]) -> None:
    counts = TrainCounts.from_triples(np.array(rows, dtype=np.int32), ENTITIES, RELATIONS)
    found = {divmod(k, RELATIONS): n for k, n in zip(counts.pair_keys.tolist(), counts.pair_counts, strict=True)}
    assert found == _pairs(rows)
    degrees = Counter([h for h, _, _ in rows] + [t for _, _, t in rows])
    assert counts.degree.tolist() == [degrees[e] for e in range(ENTITIES)]
    assert counts.num_triples == len(rows)
    assert counts.complete


@settings(max_examples=30)
@given(triples)
def test_given_pairs_are_sorted_and_partial(rows: list[tuple[int, int, int]]) -> None:
    train = np.array(rows)
    whole = TrainCounts.from_triples(train, ENTITIES, RELATIONS)
    listed = list(_pairs(rows).items())
    counts = TrainCounts.from_pairs(
        entity_degrees(train, ENTITIES),
        np.array([pair[0] for pair, _ in listed]),
        np.array([pair[1] for pair, _ in listed]),
        np.array([count for _, count in listed]),
        num_relations=RELATIONS,
    )
    assert counts.pair_keys.tolist() == whole.pair_keys.tolist()
    assert counts.pair_counts.tolist() == whole.pair_counts.tolist()
    assert (counts.num_triples, counts.complete) == (len(rows), False)
