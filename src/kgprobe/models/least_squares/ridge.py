"""What the fits share: requests that make sense, and the least squares of a factor when the others are given."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np

from kgprobe.errors import UsageError
from kgprobe.models.least_squares.tensor import Matrix

_NEGLIGIBLE = 1e-12


def ridge(gram: Matrix, sums: Matrix, regularisation: float) -> Matrix:
    """The matrix F that minimises ||X - F Q^T||^2 + regularisation ||F||^2, by Q^T Q and X Q alone.

    So neither X nor Q, which has a row for every pair of an entity and a relation, is ever made:
    F = X Q (Q^T Q + regularisation I)^-1.

    Example:
        >>> ridge(gram=np.diag([1.0, 3.0]), sums=np.array([[4.0, 4.0]]), regularisation=1.0).tolist()
        [[2.0, 1.0]]
    """
    spectrum, basis = eigen(gram)
    factor: Matrix = sums @ basis / (spectrum + regularisation) @ basis.T
    return factor


def eigen(gram: Matrix) -> tuple[Matrix, Matrix]:
    """Eigenvalues and eigenvectors (columns) of a gram matrix.

    What is left of an eigenvalue 0 after rounding may be negative, or so small that dividing by it makes rounding
    errors large, whatever the regularisation: none is less than a negligible part of the largest.

    Example:
        >>> eigen(np.diag([4.0, 0.0]))[0].tolist()
        [4e-12, 4.0]
    """
    spectrum, basis = np.linalg.eigh(gram)
    return np.maximum(spectrum, _NEGLIGIBLE * spectrum[-1]), basis


def check_request(dimension: int, iterations: int, regularisation: float, damping: float, seed: int) -> None:
    """Refuse what cannot be fitted, all of it at once."""
    whole = (("dimension", dimension, 1), ("iterations", iterations, 1), ("seed", seed, 0))
    problems = [
        f"{name} is {value!r}, expected a whole number of at least {least}"
        for name, value, least in whole
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least
    ]
    if not isinstance(regularisation, Real) or not 0 < regularisation < math.inf:
        problems.append(f"regularisation is {regularisation!r}, expected a number above 0")
    if not isinstance(damping, Real) or not 0 <= damping <= 1:
        problems.append(f"damping is {damping!r}, expected a number from 0 to 1")
    if problems:
        raise UsageError("no model can be fitted as asked", problems)
