"""The backend protocol, the choice of a backend for a device, and the NumPy backend, which runs everywhere."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Ints
from kgprobe.errors import UsageError
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity, Singles, as_array

if TYPE_CHECKING:
    from kgprobe.predict.backends.triton_backend import TritonBackend

_BATCH, _CELLS = 1024, 1 << 20
BYTES_PER_SCORE = 32
"""Bytes that a score of a tile takes, with what is computed to count it."""

_CELLS_AT_ONCE = 1 << 17
_FIRST_CAPABILITY = (8, 0)
_MANY_PRODUCTS = 1 << 26


@dataclass(frozen=True)
class Bounds:
    """The targets of a score tile, and the interval of scores in which a candidate is undecided.

    Attributes:
        row: The row of the tile that holds the target's query, in ascending order.
        low: Below this a candidate loses to the target.
        high: Above this a candidate beats the target.
        own: The score of the target, from which a backend may compute narrower bounds for some of the candidates.
        chosen: The positions of the targets among all of the tile, in ascending order; None if these are all.
    """

    row: Ints
    low: NDArray[Any]
    high: NDArray[Any]
    own: NDArray[Any]
    chosen: Ints | None = None

    def part(self, chosen: Ints) -> Bounds:
        """The bounds of some targets, in ascending order."""
        return Bounds(self.row[chosen], self.low[chosen], self.high[chosen], self.own[chosen], chosen)


class Backend(Protocol):
    """Computes score tiles and counts in them. Embeddings and tiles are opaque: only the backend looks into them."""

    def shape(self, columns: int, dimension: int, memory: int) -> tuple[int, int]:
        """The most queries and the most scores of a tile, of so many candidates, in so many bytes."""
        ...

    def to_device(self, embeddings: Singles) -> Any:
        """The embeddings on the device of this backend."""
        ...

    def scores(self, similarity: Similarity, queries: Any, candidates: Any) -> Any:
        """Writable float32 scores [queries, candidates], valid until the next call of the same thread."""
        ...

    def copy_of(self, scores: Any) -> Any:
        """A writable copy of a scorer's matrix; float64 unless it is float32 or shorter."""
        ...

    def nan_rows(self, scores: Any) -> Ints:
        """The rows that contain NaN."""
        ...

    def take(self, scores: Any, row: Ints, column: Ints) -> NDArray[Any]:
        """The scores at these rows and columns."""
        ...

    def clear_rows(self, scores: Any, rows: Ints) -> None:
        """Set rows whose scores may have overflowed to 0; the bounds of their targets are infinite."""
        ...

    def mask(self, scores: Any, row: Ints, column: Ints) -> None:
        """Filter candidates by setting their scores to NaN, which is neither above nor below any bound."""
        ...

    def count(self, scores: Any, bounds: Bounds) -> tuple[Ints, Ints]:
        """For each target, the number of candidates above its bounds, and the number within."""
        ...

    def within(self, scores: Any, bounds: Bounds, found: int) -> tuple[Ints, Ints]:
        """The ``found`` candidates within the bounds, as positions among the targets and columns."""
        ...

    def canonical(self, similarity: Similarity, queries: Any, row: Ints, candidates: Any, column: Ints) -> Singles:
        """The canonical scores of pairs of a query and a candidate."""
        ...


def backend_for(device: str = "cpu", products: int = 0, memory: int = 1 << 30) -> Backend:
    """The fastest installed backend for a device.

    ``cpu`` is numba where it is installed, else NumPy; anything else is a torch device, with Triton on NVIDIA GPUs.
    Where the CPU multiplies integers of 16 bits much faster than float32, many dot products are computed so first.

    Args:
        device: The device.
        products: Number of dot products to compute.
        memory: Bytes of working memory.

    Example:
        >>> type(backend_for("cpu")).__name__
        'NumbaBackend'
    """
    if device == "cpu":
        if find_spec("numba") is None:
            return NumpyBackend()
        from kgprobe.predict.backends.int16_backend import Int16Backend, is_worthwhile
        from kgprobe.predict.backends.numba_backend import NumbaBackend

        return Int16Backend(memory) if products >= _MANY_PRODUCTS and is_worthwhile() else NumbaBackend()
    if find_spec("torch") is None:
        raise UsageError(f"the device {device!r} needs torch", remedy="pip install 'kgprobe[models]'")
    if _may_use_triton(device):
        problem = _triton_problem(device)
        if problem is None:
            from kgprobe.predict.backends.triton_backend import TritonBackend

            return TritonBackend(device)
        warnings.warn(f"{device} is used without Triton, which takes longer: {problem}", stacklevel=2)
    from kgprobe.predict.backends.torch_backend import TorchBackend

    return TorchBackend(device.removeprefix("torch:"))


def _may_use_triton(device: str) -> bool:
    """Whether this is an NVIDIA GPU that multiplies bfloat16, and Triton is installed."""
    if not device.startswith("cuda") or find_spec("triton") is None:
        return False
    import torch

    if torch.version.cuda is None or not torch.cuda.is_available():
        return False
    try:
        return torch.cuda.get_device_capability(torch.device(device)) >= _FIRST_CAPABILITY
    except (RuntimeError, AssertionError):  # there is no such device, which the torch backend reports
        return False


@cache
def _triton_problem(device: str) -> str | None:
    """Why Triton does not run on a device, found by a first launch; None if it runs."""
    from kgprobe.predict.backends.triton_backend import TritonBackend

    try:
        backend = TritonBackend(device)
        one = backend.to_device(np.ones((1, 1), dtype=np.float32))
        backend.canonical(Dot(), one, np.zeros(1, dtype=np.int64), one, np.zeros(1, dtype=np.int64))
    except Exception as error:  # a missing compiler or an unfit driver shows in many ways
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def is_fused(backend: Backend) -> TypeGuard[TritonBackend]:
    """Whether a backend counts without score tiles; see `kgprobe.predict.fused_engine`."""
    return hasattr(backend, "settle")


class NumpyBackend:
    """The backend that uses NumPy and its BLAS.

    Example:
        >>> backend = NumpyBackend()
        >>> scores = backend.scores(Dot(), np.float32([[1, 2]]), np.float32([[3, 4], [1, 1], [0, 1]]))
        >>> bounds = Bounds(np.array([0]), np.float32([2.5]), np.float32([3.5]), np.float32([3]))
        >>> [counts.tolist() for counts in backend.count(scores, bounds)]
        [[1], [1]]
    """

    def __init__(self) -> None:
        self._own = threading.local()

    def shape(self, columns: int, dimension: int, memory: int) -> tuple[int, int]:
        """A tile fits into the cache."""
        return _BATCH, min(_CELLS, memory // BYTES_PER_SCORE)

    def to_device(self, embeddings: Singles) -> Singles:
        return embeddings

    def scores(self, similarity: Similarity, queries: Singles, candidates: Singles) -> Singles:
        """Float32 scores in a buffer that each thread uses again."""
        cells = len(queries) * len(candidates)
        if not hasattr(self._own, "buffer") or self._own.buffer.size < cells:
            self._own.buffer = np.empty(cells, dtype=np.float32)
        out: Singles = self._own.buffer[:cells].reshape(len(queries), len(candidates))
        if isinstance(similarity, Dot):
            # Rows that may overflow are cleared afterwards.
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(queries, candidates.T, out=out)
        else:
            self.group_norm(similarity, queries, candidates, out)
        return out

    def group_norm(self, similarity: GroupNorm, queries: Singles, candidates: Singles, out: Singles) -> None:
        """Minus the sum of the norms, group by group."""
        width = similarity.width(queries.shape[1])
        out[:] = 0
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, queries.shape[1], width):
                squared = np.zeros_like(out)
                for i in range(start, start + width):
                    squared += np.square(queries[:, i, None] - candidates[:, i])
                out -= np.sqrt(squared)

    def copy_of(self, scores: Any) -> NDArray[Any]:
        scores = as_array(scores)
        dtype = np.float32 if scores.dtype in (np.float16, np.float32) else np.float64
        return np.array(scores, dtype=dtype, order="C")

    def nan_rows(self, scores: NDArray[Any]) -> Ints:
        return np.flatnonzero(np.isnan(scores).any(axis=1))

    def take(self, scores: NDArray[Any], row: Ints, column: Ints) -> NDArray[Any]:
        taken: NDArray[Any] = scores[row, column]
        return taken

    def clear_rows(self, scores: NDArray[Any], rows: Ints) -> None:
        scores[rows] = 0

    def mask(self, scores: NDArray[Any], row: Ints, column: Ints) -> None:
        scores[row, column] = np.nan

    def count(self, scores: NDArray[Any], bounds: Bounds) -> tuple[Ints, Ints]:
        """Compare and count, a few targets at a time so that the comparisons stay in the CPU cache."""
        above, within = (np.empty(len(bounds.row), dtype=np.int64) for _ in range(2))
        step = max(1, _CELLS_AT_ONCE // max(scores.shape[1], 1))
        for start in range(0, len(bounds.row), step):
            some = slice(start, start + step)
            rows = scores[bounds.row[some]]
            above[some] = np.count_nonzero(rows > bounds.high[some, None], axis=1)
            within[some] = np.count_nonzero(rows >= bounds.low[some, None], axis=1) - above[some]
        return above, within

    def within(self, scores: NDArray[Any], bounds: Bounds, found: int) -> tuple[Ints, Ints]:
        rows = scores[bounds.row]
        which, column = np.nonzero((rows >= bounds.low[:, None]) & ~(rows > bounds.high[:, None]))
        return which, column

    def canonical(
        self, similarity: Similarity, queries: Singles, row: Ints, candidates: Singles, column: Ints
    ) -> Singles:
        scores = np.empty(len(row), dtype=np.float32)
        step = max(1, _CELLS_AT_ONCE // queries.shape[1])
        for start in range(0, len(row), step):
            some = slice(start, start + step)
            scores[some] = similarity.canonical(queries[row[some]], candidates[column[some]])
        return scores
