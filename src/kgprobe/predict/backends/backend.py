"""The backend protocol: scores of tiles, counts, and canonical scores of unclear pairs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from numpy.typing import NDArray

from kgprobe.arrays import Ints
from kgprobe.errors import UsageError
from kgprobe.predict.scorers import Similarity, Singles


@dataclass(frozen=True)
class Bounds:
    """The targets of a tile: whose row they are in, and the scores between which a candidate is unclear.

    Attributes:
        row: The row of the tile that has the target's query.
        low: Below this a candidate loses to the target.
        high: Above this a candidate beats the target.
    """

    row: Ints
    low: NDArray[Any]
    high: NDArray[Any]

    def part(self, chosen: Ints) -> Bounds:
        """Some of the targets."""
        return Bounds(self.row[chosen], self.low[chosen], self.high[chosen])


class Backend(Protocol):
    """Vectors and score tiles are whatever `place` and `scores` give: only the arithmetic itself looks into them."""

    def place(self, vectors: Singles) -> Any:
        """The vectors where this arithmetic computes."""
        ...

    def scores(self, similarity: Similarity, queries: Any, candidates: Any) -> Any:
        """Float32 scores [queries, candidates] to write into, valid until the next call of the same thread."""
        ...

    def adopt(self, scores: Any) -> Any:
        """A copy of somebody's score matrix to write into."""
        ...

    def not_numbers(self, scores: Any) -> Ints:
        """The rows that hold NaN."""
        ...

    def take(self, scores: Any, row: Ints, column: Ints) -> NDArray[Any]:
        """Some of the scores."""
        ...

    def silence(self, scores: Any, rows: Ints) -> None:
        """Set rows to 0 whose float32 scores say nothing; the bounds of their targets are infinite."""
        ...

    def mask(self, scores: Any, row: Ints, column: Ints) -> None:
        """Take candidates out: NaN is neither above nor below anything."""
        ...

    def count(self, scores: Any, bounds: Bounds) -> tuple[Ints, Ints]:
        """For every target, how many candidates are above its bounds, and how many are within."""
        ...

    def within(self, scores: Any, bounds: Bounds, found: int) -> tuple[Ints, Ints]:
        """The candidates within the bounds, as positions among the targets and columns; `count` found so many."""
        ...

    def record(self, similarity: Similarity, queries: Any, row: Ints, candidates: Any, column: Ints) -> Singles:
        """The scores of record of pairs of a query and a candidate."""
        ...


def backend_for(device: str = "cpu") -> Backend:
    """The fastest arithmetic for a device that is installed.

    ``cpu`` is NumPy, with compiled loops where numba is installed; anything else is a device of torch.

    Example:
        >>> type(backend_for("cpu")).__name__
        'NumbaBackend'
    """
    if device == "cpu":
        if find_spec("numba") is None:
            from kgprobe.predict.backends.numpy_backend import NumpyBackend

            return NumpyBackend()
        from kgprobe.predict.backends.numba_backend import NumbaBackend

        return NumbaBackend()
    if find_spec("torch") is None:
        raise UsageError(f"the device {device!r} needs torch", remedy="pip install 'kgprobe[models]'")
    from kgprobe.predict.backends.torch_backend import TorchBackend

    return TorchBackend(device.removeprefix("torch:"))
