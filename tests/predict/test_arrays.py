from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.errors import DataError
from kgprobe.predict.arrays import as_array, as_vectors

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
    vectors = as_vectors(given, 2, "vectors")
    assert vectors.tolist() == VALUES
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous


def test_the_imaginary_part_of_a_conjugate_is_an_array() -> None:
    assert as_array(torch.tensor([1 - 2j]).conj().imag).tolist() == [2.0]


def test_an_array_that_fits_is_not_copied() -> None:
    table = np.ones((3, 2), dtype=np.float32)
    assert np.shares_memory(as_vectors(table, 3, "vectors"), table)
    assert np.shares_memory(as_array(table), table)


def test_numbers_beyond_float32_are_infinite() -> None:
    assert as_vectors(np.array([[1e300, -1e39, 1e-300]]), 1, "vectors").tolist() == [[np.inf, -np.inf, 0.0]]


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
        as_vectors(given, 2, "answers", dimension=2)
    assert error.value.problems == [f"expected real numbers of shape [2, 2], found {found}"]


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match="the model's answers cannot be used"):
        as_vectors([[1.0, 2.0], [3.0]], 2, "answers")


def test_any_dimension_is_taken_where_none_is_asked_for() -> None:
    assert as_vectors(np.ones((2, 7)), 2, "answers").shape == (2, 7)
    with pytest.raises(DataError) as error:
        as_vectors(np.ones((2, 7)), 3, "answers")
    assert error.value.problems == ["expected real numbers of shape [3, any], found float64 of shape [2, 7]"]
