"""One random generator per stacked run: a run draws the same numbers alone or stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SEEDS = 1 << 32
"""Number of different random generators: seeds that differ by a multiple of it draw the same numbers."""


class RandomStreams:
    """One generator per run, reseeded at every epoch, so that no generator state has to be saved.

    Attributes:
        seeds: The seed of each run.
        generators: The generator of each run, on the device where numbers are drawn.

    Example:
        >>> alone, both = RandomStreams([1], "cpu"), RandomStreams([0, 1], "cpu")
        >>> bool((both.integers(10, (4,))[1] == alone.integers(10, (4,))[0]).all())
        True
    """

    def __init__(self, seeds: Sequence[int], device: torch.device | str) -> None:
        self.seeds = tuple(seeds)
        self.device = torch.device(device)
        self.generators = [torch.Generator(self.device) for _ in self.seeds]
        self.reseed(0)

    def reseed(self, epoch: int) -> None:
        for seed, generator in zip(self.seeds, self.generators, strict=True):
            generator.manual_seed((seed * 1_000_003 + epoch) % SEEDS)

    def integers(self, high: int, shape: tuple[int, ...]) -> Tensor:
        """Integers from 0 to high - 1: [runs, *shape]."""
        return self._stacked(lambda own: torch.randint(high, shape, generator=own, device=self.device))

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        """Uniform numbers in [0, 1): [runs, *shape]."""
        numbers = torch.empty((len(self.seeds), *shape), device=self.device)
        for run, generator in zip(numbers, self.generators, strict=True):
            run.uniform_(generator=generator)
        return numbers

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        """Standard normal numbers: [runs, *shape]."""
        return self._stacked(lambda own: torch.randn(shape, generator=own, device=self.device))

    def order(self, size: int) -> Tensor:
        """Random permutations of 0 to size - 1: [runs, size]."""
        return self._stacked(lambda own: torch.randperm(size, generator=own, device=self.device))

    def dropped(self, values: Tensor, share: float) -> Tensor:
        """Dropout of values [runs, ...] with probability ``share``; the others are scaled up."""
        if share == 0:
            return values
        return values * self.kept(tuple(values.shape[1:]), share) / (1 - share)

    def kept(self, shape: tuple[int, ...], share: float) -> Tensor:
        """Mask of the values that dropout with probability ``share`` keeps: [runs, *shape]."""
        return self.uniform(shape) >= share

    def _stacked(self, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        return torch.stack([draw(generator) for generator in self.generators])
