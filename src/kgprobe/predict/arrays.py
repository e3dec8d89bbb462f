"""Arrays and tensors of any kind as the numbers that are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.predict.similarity import Floats

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_WHOLE_OF_TORCH = ("int8", "int16", "int32", "int64", "uint8")
_WHOLE = (*_WHOLE_OF_TORCH, "uint16", "uint32", "uint64")
_EXACT = 2**53
"""Up to here float64 holds every whole number."""


def as_array(values: Any) -> NDArray[Any]:
    """A NumPy array of an array, a list or a torch tensor on any device; of anything else, an array of objects.

    Example:
        >>> as_array([[1, 2]]).shape
        (1, 2)
    """
    if _is_tensor(values):
        tensor = values.detach().cpu().resolve_conj().resolve_neg()
        narrow = str(tensor.dtype) == "torch.bfloat16"  # which NumPy does not have
        values = (tensor.float() if narrow else tensor).numpy()
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):  # rows of different lengths, or nothing that has rows
        array = np.array(None)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def as_matrix(values: Any, rows: int, columns: int | None, what: str, remedy: str = "") -> Any:
    """Real numbers of the expected shape: a tensor where it is, everything else as an array.

    Example:
        >>> as_matrix(np.eye(2), 3, None, "candidates")
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: the model's candidates cannot be used
          - expected real numbers of shape [3, any], found float64 of shape [2, 2]
    """
    matrix = values if _is_tensor(values) else as_array(values)
    shape = list(matrix.shape)
    fits = len(shape) == 2 and shape[0] == rows and columns in (None, shape[1])
    problems = []
    if not fits or not _is_real(matrix.dtype):
        wanted = f"[{rows}, {'any' if columns is None else columns}]"
        problems.append(f"expected real numbers of shape {wanted}, found {matrix.dtype} of shape {shape}")
    elif not _is_floating(matrix.dtype) and bool(((matrix > _EXACT) | (matrix < -_EXACT)).any()):
        problems.append(f"whole numbers beyond 2^53, which are not told apart, in an array of shape {shape}")
    if problems:
        raise DataError(f"the model's {what} cannot be used", problems, remedy)
    return matrix


def as_vectors(values: Any, rows: int, what: str, dimension: int | None = None) -> Floats:
    """Vectors in rows, as many and as long as expected; float64 is rounded.

    Example:
        >>> as_vectors([[0.5, 2]], 1, "queries").dtype
        dtype('float32')
    """
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(as_array(as_matrix(values, rows, dimension, what)), dtype=np.float32)


def _is_tensor(values: Any) -> bool:
    """Whether this is a tensor of torch that has all its numbers; torch is not loaded to find out."""
    return hasattr(values, "resolve_neg") and str(values.layout) == "torch.strided"


def _is_real(dtype: Any) -> bool:
    """Whether these are real numbers that NumPy and torch both can compare, and float64 can hold."""
    name = str(dtype).removeprefix("torch.")
    return name in _FLOATS or name in (_WHOLE if isinstance(dtype, np.dtype) else _WHOLE_OF_TORCH)


def _is_floating(dtype: Any) -> bool:
    return str(dtype).removeprefix("torch.") in _FLOATS
