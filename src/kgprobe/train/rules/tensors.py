"""Tensors of parts of a model, under names that begin with the part."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, without it.

    Example:
        >>> import torch
        >>> list(under("a.", {"a.b": torch.zeros(1), "b": torch.zeros(1)}))
        ['b']
    """
    return {name.removeprefix(prefix): own for name, own in tensors.items() if name.startswith(prefix)}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with a prefix before their names.

    Example:
        >>> import torch
        >>> list(prefixed("a.", {"b": torch.zeros(1)}))
        ['a.b']
    """
    return {f"{prefix}{name}": own for name, own in tensors.items()}
