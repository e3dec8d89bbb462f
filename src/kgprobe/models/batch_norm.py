"""Batch normalisation of stacked runs: every run by its own batch alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_MOMENTUM = 0.1
_EPSILON = 1e-5


class BatchNorm(nn.Module):
    """Coordinates are brought to mean 0 and variance 1 over the batch, then scaled and moved.

    Once the model is in `eval` mode, running statistics stand for those of the batch.

    Args:
        runs: Number of runs.
        dimension: Number of coordinates.

    Example:
        >>> BatchNorm(1, 1)(torch.tensor([[[1.0], [3.0]]])).tolist()
        [[[-0.99999...], [0.99999...]]]
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, runs: int, dimension: int, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(runs, dimension, device=device))
        self.shift = nn.Parameter(torch.zeros(runs, dimension, device=device))
        self.register_buffer("mean", torch.zeros(runs, dimension, device=device))
        self.register_buffer("variance", torch.ones(runs, dimension, device=device))

    def forward(self, values: Tensor) -> Tensor:
        """The values [S, B, D], normalised."""
        values = values.to(self.scale.dtype)
        mean, variance = self._of_batch(values) if self.training else (self.mean, self.variance)
        scale = self.scale * torch.rsqrt(variance + _EPSILON)
        return torch.addcmul((self.shift - mean * scale)[:, None], values, scale[:, None])

    def _of_batch(self, values: Tensor) -> tuple[Tensor, Tensor]:
        variance, mean = torch.var_mean(values, dim=1, correction=0)
        size = values.shape[1]
        with torch.no_grad():
            self.mean.lerp_(mean, _MOMENTUM)
            # A batch underestimates the variance that all queries have; of a single query nothing is known.
            self.variance.lerp_(variance * (size / max(1, size - 1)), _MOMENTUM)
        return mean, variance
