import numpy as np
import pytest

import kgprobe as kp
from kgprobe.predict import Frequency, rank_by_frequency


def random_graph(seed: int) -> kp.KnowledgeGraph:
    rng = np.random.default_rng(seed)
    triples = np.unique(np.stack([rng.integers(0, n, 120) for n in (9, 3, 9)], axis=1), axis=0)
    rng.shuffle(triples)
    return kp.KnowledgeGraph.from_triples(train=triples[:60], valid=triples[60:70], test=triples[70:], num_entities=11)


def by_hand(
    graph: kp.KnowledgeGraph, frequency: Frequency, h: int, r: int, t: int, side: str
) -> tuple[float, int, int]:
    train = [tuple(x) for x in graph.triples("train").tolist()]
    known = {tuple(x) for x in graph.triples().tolist()}

    def score(e: int) -> int:
        if frequency is Frequency.entity:
            return sum((a == e) + (b == e) for a, _, b in train)
        return sum(q == r and (b if side == "tail" else a) == e for a, q, b in train)

    target = t if side == "tail" else h
    others = [
        e
        for e in range(graph.num_entities)
        if e != target and ((h, r, e) if side == "tail" else (e, r, t)) not in known
    ]
    better = sum(score(e) > score(target) for e in others)
    ties = sum(score(e) == score(target) for e in others)
    return 1 + better + ties / 2, ties, len(others) + 1


@pytest.mark.parametrize("frequency", list(Frequency))
@pytest.mark.parametrize("seed", range(3))
def test_ranks_agree_with_counting_by_hand(frequency: Frequency, seed: int) -> None:
    graph = random_graph(seed)
    ranks = rank_by_frequency(graph, frequency)
    assert len(ranks) == 2 * len(graph.triples("test"))
    rows = zip(ranks.head, ranks.relation, ranks.tail, ranks.column("side").to_pylist(), strict=True)
    expected = [by_hand(graph, frequency, int(h), int(r), int(t), side) for h, r, t, side in rows]
    found = list(zip(ranks.rank.tolist(), ranks.ties.tolist(), ranks.candidates.tolist(), strict=True))
    assert found == expected


def test_the_table_says_where_it_comes_from() -> None:
    graph = random_graph(0)
    ranks = rank_by_frequency(graph, split="valid")
    assert (ranks.info.split, ranks.info.graph_hash, ranks.info.filtered) == (
        "valid",
        graph.content_hash,
        ("train", "valid", "test"),
    )
    assert ranks.numbers("entity_popularity") == pytest.approx(graph.popularity.entity(ranks.target))
