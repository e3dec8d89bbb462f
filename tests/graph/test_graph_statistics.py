from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.graph import KnowledgeGraph, load_graph, statistics

Rows = list[tuple[int, int, int]]

triples = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)), max_size=25)


def _share(flags: list[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


@settings(max_examples=50)
@given(triples, triples, triples)
def test_statistics_agree_with_sets(train: Rows, valid: Rows, test: Rows) -> None:
    graph = KnowledgeGraph.from_triples(train, valid, test, name="g", num_entities=6, num_relations=3)
    seen = {e for h, _, t in train for e in (h, t)}
    degrees = [sum((h == e) + (t == e) for h, _, t in train) for e in range(6)]
    assert statistics(graph) == {
        "graph": "g",
        "entities": 6,
        "relations": 3,
        "triples": len(train + valid + test),
        "train": len(train),
        "valid": len(valid),
        "test": len(test),
        "mean_degree": sum(degrees) / 6,
        "max_degree": max(degrees),
        "unseen_entities": len({e for h, _, t in valid + test for e in (h, t)} - seen),
        "duplicates": sum(len(rows) - len(set(rows)) for rows in (train, valid, test)),
        "overlap_train_valid": len(set(train) & set(valid)),
        "overlap_train_test": len(set(train) & set(test)),
        "overlap_valid_test": len(set(valid) & set(test)),
        "self_loops": sum(h == t for h, _, t in train),
        "inverse_leakage": _share([any((a, b) == (t, h) for a, _, b in train) for h, _, t in test]),
        "symmetric_leakage": _share([(t, r, h) in train for h, r, t in test]),
        "duplicate_relation_leakage": _share([any((h, q, t) in train for q in {0, 1, 2} - {r}) for h, r, t in test]),
        "negatives": 0,
    }


@pytest.mark.parametrize(
    ("name", "entities", "relations", "train", "mean_degree", "max_degree"),
    [
        ("fb15k-237", 14541, 237, 272115, 37.4, 7614),
        ("wn18rr", 40943, 11, 86835, 4.2, 482),
        ("family", 3007, 12, 23483, 15.6, 94),
        ("umls", 135, 46, 1959, 29.0, 140),
        ("kinship", 104, 25, 3206, 61.7, 80),
        ("yago3-10", 123182, 37, 1079040, 17.5, 61044),
    ],
)
def test_the_table_of_the_paper(
    data: Path, name: str, entities: int, relations: int, train: int, mean_degree: float, max_degree: int
) -> None:
    row = statistics(load_graph(data / "graphs" / name))
    assert (row["graph"], row["entities"], row["relations"], row["train"]) == (
        name,
        entities,
        relations,
        train,
    )
    assert isinstance(row["mean_degree"], float)
    assert round(row["mean_degree"], 1) == mean_degree
    assert row["max_degree"] == max_degree


def test_known_faults_of_real_graphs(data: Path) -> None:
    countries = statistics(load_graph(data / "graphs" / "countries_s1"))
    assert (countries["duplicates"], countries["self_loops"]) == (1, 1)
    freebase = statistics(load_graph(data / "graphs" / "fb15k-237"))
    assert freebase["self_loops"] == 1625
    # fb15k-237 was made by leaving out test triples whose ends some training triple joins.
    assert (freebase["inverse_leakage"], freebase["duplicate_relation_leakage"]) == (0, 0)


def test_counts_give_what_they_can(data: Path) -> None:
    row = statistics(load_graph(data / "graphs" / "yago3-10"))
    assert row["triples"] == 1079040 + 5000 + 5000
    assert row["overlap_valid_test"] == 0
    unknown = {name for name, value in row.items() if value is None}
    assert unknown == {
        "duplicates",
        "overlap_train_valid",
        "overlap_train_test",
        "self_loops",
        "inverse_leakage",
        "symmetric_leakage",
        "duplicate_relation_leakage",
    }
    graph = load_graph(data / "graphs" / "yago3-10")
    held_out = np.unique(graph.triples("valid", "test")[:, [0, 2]])
    assert row["unseen_entities"] == sum(graph.popularity.entity(held_out) == 0)


def test_nothing_is_made_up_without_training_triples() -> None:
    row = statistics(KnowledgeGraph.from_triples(test=[[0, 0, 1], [0, 0, 1]]))
    assert (row["train"], row["test"], row["overlap_valid_test"]) == (0, 2, 0)
    assert (row["mean_degree"], row["unseen_entities"], row["inverse_leakage"]) == (None, None, None)


def test_negatives_of_codex(data: Path) -> None:
    row = statistics(load_graph(data / "graphs" / "codex-s"))
    assert (row["triples"], row["negatives"]) == (32888 + 1827 + 1828, 1827 + 1828)


def test_an_empty_graph() -> None:
    row = statistics(KnowledgeGraph.from_triples(train=[]))
    assert (row["entities"], row["mean_degree"], row["max_degree"]) == (0, None, 0)
