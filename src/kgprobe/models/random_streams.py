"""One random generator per stacked run: a run draws the same numbers alone or stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_STREAMS = 1 << 32


class RandomStreams:
    """One generator for each run, seeded anew for every epoch, so that nothing has to be kept between epochs.

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
        """Begin the stream of an epoch."""
        for seed, generator in zip(self.seeds, self.generators, strict=True):
            generator.manual_seed((seed * 1_000_003 + epoch) % _STREAMS)

    def integers(self, high: int, shape: tuple[int, ...]) -> Tensor:
        """Whole numbers below ``high``: [runs, *shape]."""
        return self._stacked(lambda own: torch.randint(high, shape, generator=own, device=self.device))

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        """Numbers in [0, 1): [runs, *shape]."""
        numbers = torch.empty((len(self.seeds), *shape), device=self.device)
        for run, generator in zip(numbers, self.generators, strict=True):
            run.uniform_(generator=generator)
        return numbers

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        """Numbers of the standard normal distribution: [runs, *shape]."""
        return self._stacked(lambda own: torch.randn(shape, generator=own, device=self.device))

    def order(self, size: int) -> Tensor:
        """A random order of the numbers below ``size``: [runs, size]."""
        return self._stacked(lambda own: torch.randperm(size, generator=own, device=self.device))

    def dropped(self, values: Tensor, share: float) -> Tensor:
        """The values [runs, ...] with a share of them set to zero and the others scaled up."""
        if share == 0:
            return values
        return values * self.kept(tuple(values.shape[1:]), share) / (1 - share)

    def kept(self, shape: tuple[int, ...], share: float) -> Tensor:
        """What stays where a share is left out: [runs, *shape]."""
        return self.uniform(shape) >= share

    def _stacked(self, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        return torch.stack([draw(generator) for generator in self.generators])
