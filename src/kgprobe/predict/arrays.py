"""Arrays and tensors of any kind as the float32 vectors that are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.predict.similarity import Floats


def as_array(values: Any) -> NDArray[Any]:
    """A NumPy array of an array, a list or a torch tensor on any device.

    Example:
        >>> as_array([[1, 2]]).shape
        (1, 2)
    """
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        narrow = str(tensor.dtype) == "torch.bfloat16"  # which NumPy does not have
        values = (tensor.float() if narrow else tensor).numpy()
    return np.asarray(values)


def as_vectors(values: Any, rows: int, what: str, dimension: int | None = None) -> Floats:
    """Vectors in rows, as many and as long as expected; float64 is rounded.

    Example:
        >>> as_vectors(np.eye(2), 3, "candidates")
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: the model's candidates cannot be used
          - expected real numbers of shape [3, any], found float64 of shape [2, 2]
    """
    array = as_array(values)
    fits = array.ndim == 2 and len(array) == rows and dimension in (None, array.shape[1])
    if not fits or array.dtype.kind not in "fiu":
        wanted = f"[{rows}, {dimension or 'any'}]"
        found = f"{array.dtype} of shape {list(array.shape)}"
        raise DataError(
            f"the model's {what} cannot be used", [f"expected real numbers of shape {wanted}, found {found}"]
        )
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)
