import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.graph import KnownAnswers, load_graph

triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), max_size=40)


@settings(max_examples=50)
@given(triples, triples)
def test_counts_are_those_of_a_search(known: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    index = KnownAnswers.from_triples(np.array(known, dtype=np.int32).reshape(-1, 3), 6, 3)
    head, relation, tail = np.array(asked, dtype=np.int32).reshape(-1, 3).T
    tail_side = np.arange(len(asked)) % 2 == 0
    by_tail = [len({c for a, b, c in known if (a, b) == (h, r)}) for h, r, _ in asked]
    by_head = [len({a for a, b, c in known if (b, c) == (r, t)}) for _, r, t in asked]
    expected = np.where(tail_side, by_tail, by_head).tolist()
    assert index.count(head, relation, tail, tail_side).tolist() == expected
    others = [n - (triple in known) for n, triple in zip(expected, asked, strict=True)]
    assert index.others(head, relation, tail, tail_side).tolist() == others


def test_one_side_for_all_queries() -> None:
    index = KnownAnswers.from_triples(np.array([[0, 0, 1], [0, 0, 2]]), 3, 1)
    assert index.count([0, 0], [0, 0], [1, 2], tail_side=True).tolist() == [2, 2]
    assert index.count([0, 0], [0, 0], [1, 2], tail_side=False).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["wn18rr", "umls"])
def test_candidates_of_the_published_ranks(data: Path, name: str) -> None:
    """The published candidate counts are what the filter leaves: all entities less the other known answers."""
    graph = load_graph(data / "graphs" / name)
    ranks = pq.read_table(data / "published_ranks" / name / "RotatE.parquet").filter(pc.field("seed") == 1)
    columns = [ranks.column(c).to_numpy() for c in ("head", "relation", "tail")]
    tail_side = pc.equal(ranks.column("side"), "tail").to_numpy()
    known = graph.known_answers().count(*columns, tail_side)
    assert (graph.num_entities - known + 1).tolist() == ranks.column("candidates").to_pylist()


def test_filtered_entities_of_the_authors_own_file(data: Path) -> None:
    records = json.loads((data / "published_ranks" / "raw" / "RotatE_umls_1.json").read_text())
    triples = np.array([record[0] for record in records])
    known = load_graph(data / "graphs" / "umls").known_answers("train", "valid", "test")
    count = known.count(*triples.T, tail_side=[record[1] == "t" for record in records])
    assert (count - 1).tolist() == [record[5] for record in records]
