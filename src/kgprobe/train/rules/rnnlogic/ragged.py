"""Rows of different lengths as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths, one after the other.

    Attributes:
        at: Where each row begins, and where the last one ends: int64 [rows + 1].
        columns: What the rows hold, by name.

    Example:
        >>> ragged = Ragged.of(np.array([0, 2, 2, 3]), own=np.array([5, 6, 7]))
        >>> row, columns = ragged.rows(torch.tensor([2, 0]))
        >>> row.tolist(), columns["own"].tolist()
        ([0, 1, 1], [7, 5, 6])
    """

    at: Tensor
    columns: Mapping[str, Tensor]

    @classmethod
    def of(cls, at: NDArray[np.int64], **columns: NDArray[np.generic]) -> Ragged:
        """Rows from arrays."""
        return cls(_tensor(at), {name: _tensor(column) for name, column in columns.items()})

    @classmethod
    def stacked(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts, of which there is at least one."""
        at = torch.cat([torch.zeros(1, dtype=torch.int64), *(part.sizes for part in parts)]).cumsum(0)
        return cls(at, {name: torch.cat([part.columns[name] for part in parts]) for name in parts[0].columns})

    @property
    def sizes(self) -> Tensor:
        """The length of each row."""
        return self.at.diff()

    def rows(self, chosen: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The place of each element's row among the chosen ones, and the elements."""
        index, row = ranges(self.at[chosen], self.sizes[chosen])
        return row, {name: column[index] for name, column in self.columns.items()}

    def to(self, device: torch.device) -> Ragged:
        """The same on a device."""
        return Ragged(self.at.to(device), {name: column.to(device) for name, column in self.columns.items()})


def ranges(starts: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers from each start on, as many as its size says, and which start each is of.

    Example:
        >>> [own.tolist() for own in ranges(torch.tensor([5, 0]), torch.tensor([2, 3]))]
        [[5, 6, 0, 1, 2], [0, 0, 1, 1, 1]]
    """
    row = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes)
    return torch.arange(len(row), device=sizes.device) + (starts - begins(sizes))[row], row


def begins(sizes: Tensor) -> Tensor:
    """Where rows of these sizes begin.

    Example:
        >>> begins(torch.tensor([2, 0, 3])).tolist()
        [0, 2, 2]
    """
    return sizes.cumsum(0) - sizes


def _tensor(array: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
