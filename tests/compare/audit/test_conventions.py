from itertools import combinations

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.compare.audit.conventions import Convention, Recount
from kgprobe.compare.audit.view import Queries


def queries_of(graph: kp.KnowledgeGraph) -> Queries:
    head, relation, tail = np.tile(graph.triples("test").astype(np.int64), (2, 1)).T
    return Queries(head, relation, tail, np.repeat([True, False], len(head) // 2))


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_counts_are_those_of_a_loop(nations, size: int) -> None:
    queries = queries_of(nations)
    for splits in combinations(("train", "valid", "test"), size):
        known = {tuple(triple) for split in splits for triple in nations.triples(split).tolist()}
        for swapped in (False, True):
            due = []
            for h, r, t, tail in zip(*queries.triples, queries.predicts_tail, strict=True):
                others = [(h, r, e) if tail ^ swapped else (e, r, t) for e in range(14)]
                due.append(14 - sum(triple in known and triple != (h, r, t) for triple in others))
            assert Recount(nations, queries).left(splits, swapped).tolist() == due


@pytest.mark.parametrize("offset", [0, -1, 1, 5, -3])
@pytest.mark.parametrize(
    "filtered", [(), ("train",), ("train", "valid"), ("valid", "test"), ("train", "valid", "test")]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_every_convention_is_recognised(codex, filtered: tuple[str, ...], offset: int, swapped: bool) -> None:
    recount = Recount(codex, queries_of(codex))
    rows = np.ones(len(recount.queries), dtype=bool)
    fit = recount.best((recount.left(filtered, swapped) + offset).astype(float), rows, ("train", "valid", "test"))
    assert fit.convention == Convention(filtered, offset, swapped and bool(filtered))
    assert fit.share == 1


def test_what_several_conventions_explain_is_the_one_that_is_due(codex) -> None:
    recount = Recount(codex, queries_of(codex))
    usual = ("train", "valid", "test")
    same = recount.left(usual) == recount.left(("train",))
    assert recount.best(recount.left(usual).astype(float), same, usual).convention == Convention(usual)
