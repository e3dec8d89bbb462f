"""Which queries a step takes."""

from __future__ import annotations

import torch
from torch import Tensor

from kgprobe.models.noise import Noise


class Batches:
    """All queries in an order that every epoch shuffles anew; at its end it starts again, to fill up a step.

    The place is kept on the device, so that a step captured on a GPU finds it there.

    Attributes:
        steps: Number of steps in an epoch.

    Example:
        >>> batches = Batches(5, 2, Noise([0], "cpu"))
        >>> batches.shuffle()
        >>> sorted(torch.cat([batches.next() for _ in range(batches.steps)], 1)[0, :5].tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, batch: int, noise: Noise) -> None:
        self.size, self.noise = size, noise
        self.batch = min(batch, size)
        self.steps = -(-size // self.batch)
        self._order = torch.zeros(len(noise.seeds), self.steps * self.batch, dtype=torch.int64, device=noise.device)
        self._places = torch.arange(self.batch, device=noise.device)

    def shuffle(self) -> None:
        """Begin an epoch."""
        order = self.noise.order(self.size)
        self._order[:, : self.size] = order
        self._order[:, self.size :] = order[:, : self._order.shape[1] - self.size]
        torch.arange(self.batch, out=self._places)

    def next(self) -> Tensor:
        """The queries of the next step: [S, B]."""
        chosen = self._order.index_select(1, self._places)
        self._places.add_(self.batch).remainder_(self._order.shape[1])
        return chosen
