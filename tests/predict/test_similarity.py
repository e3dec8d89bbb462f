"""Scores of record, by the loops of their definitions."""

import math

import numpy as np
import pytest

from adversarial import QUERIES, TABLES, normal
from kgprobe.predict.similarity import Dot, GroupNorm, Similarity
from ranking import SIMILARITIES, score


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("kind", TABLES)
def test_the_score_of_record_is_the_loop_of_its_definition(kind: str, similarity: Similarity) -> None:
    rng = np.random.default_rng(0)
    table = TABLES[kind](rng, 40, 12)
    queries = QUERIES.get(kind, normal)(rng, 40, 12)
    found = similarity.record(queries, table)
    assert found.dtype == np.float32
    assert found.tolist() == [score(similarity, q, e) for q, e in zip(queries, table, strict=True)]


def test_the_order_of_the_coordinates_is_the_order_of_the_sum() -> None:
    ones = np.ones((1, 3), dtype=np.float32)
    large = np.float32([[2.0**60, -(2.0**60), 1.0]])
    assert Dot().record(ones, large).tolist() == [1.0]
    assert Dot().record(ones, large[:, [0, 2, 1]]).tolist() == [0.0]


def test_extents() -> None:
    table = np.float32([[3, -4], [0, 0], [-np.inf, 1], [1, np.nan], [1e38, -2e38]])
    assert Dot().extent(table)[[0, 1, 2]].tolist() == [5.0, 0.0, np.inf]
    assert Dot().extent(table)[4] == pytest.approx(math.sqrt(5) * 1e38)
    assert GroupNorm(1).extent(table)[[0, 1, 2, 4]].tolist() == [4.0, 0.0, np.inf, float(np.float32(2e38))]
    for similarity in (Dot(), GroupNorm(2)):
        assert np.isnan(similarity.extent(table)).tolist() == [False, False, False, True, False]
        assert similarity.extent(table).dtype == np.float64
        assert similarity.extent(table[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("similarity", "dimension", "problem"),
    [
        (Dot(), 0, "the vectors have no coordinates"),
        (Dot(), 1, None),
        (GroupNorm(0), 4, "groups of 0 coordinates"),
        (GroupNorm(-2), 4, "groups of -2 coordinates"),
        (GroupNorm(None), 0, "the vectors have no coordinates"),
        (GroupNorm(3), 0, "the vectors have no coordinates"),
        (GroupNorm(3), 7, "7 coordinates do not divide into groups of 3"),
        (GroupNorm(8), 4, "4 coordinates do not divide into groups of 8"),
        (GroupNorm(3), 9, None),
        (GroupNorm(None), 7, None),
    ],
    ids=str,
)
def test_vectors_that_cannot_be_compared(similarity: Similarity, dimension: int, problem: str | None) -> None:
    assert similarity.problem(dimension) == problem


def test_groups() -> None:
    assert (GroupNorm(None).width(7), GroupNorm(None).groups(7)) == (7, 1)
    assert (GroupNorm(2).width(8), GroupNorm(2).groups(8)) == (2, 4)


def test_similarities_are_values() -> None:
    assert {Dot(), Dot(), GroupNorm(2), GroupNorm(2, 0.0), GroupNorm(3)} == {Dot(), GroupNorm(2), GroupNorm(3)}
