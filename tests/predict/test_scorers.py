"""Canonical scores, by the loops of their definitions."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from adversarial import QUERIES, TABLES, normal
from kgprobe.errors import DataError
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity, as_array, as_embeddings
from ranking import SIMILARITIES, score

VALUES = [[1.0, -2.0], [0.5, 4.0]]


@pytest.mark.parametrize(
    "given",
    [
        VALUES,
        tuple(map(tuple, VALUES)),
        np.array(VALUES),
        np.asfortranarray(VALUES),
        torch.tensor(VALUES),
        torch.tensor(VALUES, dtype=torch.bfloat16),
        torch.tensor(VALUES, requires_grad=True),
        torch.nn.Parameter(torch.tensor(VALUES)),
        torch.tensor(VALUES, dtype=torch.float64).T.T,
    ],
    ids=["list", "tuple", "array", "columns first", "tensor", "bfloat16", "gradient", "parameter", "double"],
)
def test_arrays_of_many_kinds(given: Any) -> None:
    assert as_array(given).tolist() == VALUES
    vectors = as_embeddings(given, 2, "vectors")
    assert vectors.tolist() == VALUES
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous


def test_the_imaginary_part_of_a_conjugate_is_an_array() -> None:
    assert as_array(torch.tensor([1 - 2j]).conj().imag).tolist() == [2.0]


def test_an_array_that_fits_is_not_copied() -> None:
    table = np.ones((3, 2), dtype=np.float32)
    assert np.shares_memory(as_embeddings(table, 3, "vectors"), table)
    assert np.shares_memory(as_array(table), table)


def test_numbers_beyond_float32_are_infinite() -> None:
    assert as_embeddings(np.array([[1e300, -1e39, 1e-300]]), 1, "vectors").tolist() == [[np.inf, -np.inf, 0.0]]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (np.ones((3, 2)), "float64 of shape [3, 2]"),
        (np.ones((2, 3)), "float64 of shape [2, 3]"),
        (np.ones(2), "float64 of shape [2]"),
        (np.ones((2, 2, 1)), "float64 of shape [2, 2, 1]"),
        (np.ones((2, 2), dtype=bool), "bool of shape [2, 2]"),
        (np.ones((2, 2), dtype=complex), "complex128 of shape [2, 2]"),
        ([["a", "b"], ["c", "d"]], "<U1 of shape [2, 2]"),
        (None, "object of shape []"),
        (np.empty((2, 0)), "float64 of shape [2, 0]"),
    ],
    ids=["a row more", "a column more", "one axis", "three axes", "bool", "complex", "text", "nothing", "no columns"],
)
def test_what_does_not_fit_is_refused(given: Any, found: str) -> None:
    with pytest.raises(DataError, match="the model's answers cannot be used") as error:
        as_embeddings(given, 2, "answers", dimension=2)
    assert error.value.problems == [f"expected real numbers of shape [2, 2], found {found}"]


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match="the model's answers cannot be used"):
        as_embeddings([[1.0, 2.0], [3.0]], 2, "answers")


def test_any_dimension_is_taken_where_none_is_asked_for() -> None:
    assert as_embeddings(np.ones((2, 7)), 2, "answers").shape == (2, 7)
    with pytest.raises(DataError) as error:
        as_embeddings(np.ones((2, 7)), 3, "answers")
    assert error.value.problems == ["expected real numbers of shape [3, any], found float64 of shape [2, 7]"]


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("kind", TABLES)
def test_the_score_of_record_is_the_loop_of_its_definition(kind: str, similarity: Similarity) -> None:
    rng = np.random.default_rng(0)
    table = TABLES[kind](rng, 40, 12)
    queries = QUERIES.get(kind, normal)(rng, 40, 12)
    found = similarity.canonical(queries, table)
    assert found.dtype == np.float32
    assert found.tolist() == [score(similarity, q, e) for q, e in zip(queries, table, strict=True)]


def test_the_order_of_the_coordinates_is_the_order_of_the_sum() -> None:
    ones = np.ones((1, 3), dtype=np.float32)
    large = np.float32([[2.0**60, -(2.0**60), 1.0]])
    assert Dot().canonical(ones, large).tolist() == [1.0]
    assert Dot().canonical(ones, large[:, [0, 2, 1]]).tolist() == [0.0]


def test_extents() -> None:
    table = np.float32([[3, -4], [0, 0], [-np.inf, 1], [1, np.nan], [1e38, -2e38]])
    assert Dot().magnitude(table)[[0, 1, 2]].tolist() == [5.0, 0.0, np.inf]
    assert Dot().magnitude(table)[4] == pytest.approx(math.sqrt(5) * 1e38)
    assert GroupNorm(1).magnitude(table)[[0, 1, 2, 4]].tolist() == [4.0, 0.0, np.inf, float(np.float32(2e38))]
    for similarity in (Dot(), GroupNorm(2)):
        assert np.isnan(similarity.magnitude(table)).tolist() == [False, False, False, True, False]
        assert similarity.magnitude(table).dtype == np.float64
        assert similarity.magnitude(table[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("similarity", "dimension", "problem"),
    [
        (Dot(), 0, "the embeddings have no coordinates"),
        (Dot(), 1, None),
        (GroupNorm(0), 4, "groups of 0 coordinates"),
        (GroupNorm(-2), 4, "groups of -2 coordinates"),
        (GroupNorm(None), 0, "the embeddings have no coordinates"),
        (GroupNorm(3), 0, "the embeddings have no coordinates"),
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
