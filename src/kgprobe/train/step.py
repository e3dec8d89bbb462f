"""Steps: one after the other on a CPU, captured once and replayed on a GPU."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from kgprobe.models.noise import Noise

_WARM_UP = 3
"""Steps that are taken one by one on a GPU before one is captured, so that every library has made its plans."""


class Steps:
    """Takes steps that need nothing from the host.

    Attributes:
        take: One step; it reads and changes tensors in place.
        noise: Where the step draws from.
    """

    def __init__(self, take: Callable[[], None], noise: Noise) -> None:
        self.take, self.noise = take, noise
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm = 0

    def forget(self) -> None:
        """Capture the step anew, since something that was captured has changed."""
        self._graph = None

    def run(self, steps: int) -> None:
        """Take some steps."""
        if self.noise.device.type != "cuda":
            for _ in range(steps):
                self.take()
            return
        while self._warm < _WARM_UP and steps:
            self._aside(self.take)
            self._warm, steps = self._warm + 1, steps - 1
        if steps and self._graph is None:
            self._graph = self._captured()
        for _ in range(steps):
            self._graph.replay()  # type: ignore[union-attr]

    def _aside(self, take: Callable[[], None]) -> None:
        """Take a step on a stream of its own, as it will be captured."""
        stream = torch.cuda.Stream(self.noise.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.noise.device))
        with torch.cuda.stream(stream):
            take()
        torch.cuda.current_stream(self.noise.device).wait_stream(stream)

    def _captured(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.noise.generators:
            graph.register_generator_state(generator)
        with uncollected(), torch.cuda.graph(graph):
            self.take()
        return graph


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection inside: to free the captured step of an earlier training would break a capture.

    Example:
        >>> with uncollected():
        ...     gc.isenabled()
        False
        >>> gc.isenabled()
        True
    """
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
