"""How exact matrix products are on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

PRODUCTS = {"float32": "highest", "tf32": "high", "bfloat16": "high"}
"""What torch calls the precision of products of float32 numbers."""


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Products of float32 matrices in a precision, whatever it was before.

    Example:
        >>> with products_in("tf32"):
        ...     torch.get_float32_matmul_precision()
        'high'
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRODUCTS[precision])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def mixed(precision: str, device: torch.device) -> torch.autocast:
    """A context in which matrices are short for products on a GPU, and sums and parameters stay long."""
    wanted = precision == "bfloat16" and device.type == "cuda"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)
