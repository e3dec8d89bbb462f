"""The torch backend, for CPUs and GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Ints
from kgprobe.errors import UsageError
from kgprobe.predict.backends.backend import BYTES_PER_SCORE, Bounds, backend_for
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity, Singles
from kgprobe.resources import Resources

_BATCH, _CELLS = 1 << 14, 1 << 27
_CELLS_AT_ONCE = 1 << 26
_PAIRS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class PlacedEmbeddings:
    """Embeddings in the memory of the host, ``exact``, and on a device, ``placed``."""

    exact: Singles
    placed: Any

    def __getitem__(self, some: slice) -> PlacedEmbeddings:
        return PlacedEmbeddings(self.exact[some], self.placed[some])


class TorchBackend:
    """The backend that computes with torch on a device.

    Example:
        >>> backend = TorchBackend("cpu")
        >>> queries, candidates = (backend.to_device(np.float32(x)) for x in ([[1, 2]], [[3, 4], [1, 1], [0, 1]]))
        >>> scores = backend.scores(Dot(), queries, candidates)
        >>> bounds = Bounds(np.array([0]), np.float32([2.5]), np.float32([3.5]), np.float32([3]))
        >>> [counts.tolist() for counts in backend.count(scores, bounds)]
        [[1], [1]]
    """

    def __init__(self, device: str) -> None:
        import torch

        self._torch: Any = torch
        try:
            self._device: Any = torch.device(device)
            torch.zeros(1, device=self._device).item()  # "meta" has no numbers
        except (RuntimeError, AssertionError) as error:
            raise UsageError(
                f"the device {device!r} cannot be used", [str(error).splitlines()[0]], "choose cpu or cuda"
            ) from None

    def shape(self, columns: int, dimension: int, memory: int) -> tuple[int, int]:
        """A tile is large, so that launches are few."""
        return _BATCH, min(_CELLS, memory // BYTES_PER_SCORE)

    def to_device(self, embeddings: Singles) -> PlacedEmbeddings:
        return PlacedEmbeddings(embeddings, self._tensor(embeddings))

    def scores(self, similarity: Similarity, queries: Any, candidates: Any) -> Any:
        if isinstance(similarity, Dot):
            with self._full_precision():
                return queries.placed @ candidates.placed.T
        return self._group_norm(similarity, queries.placed, candidates.placed)

    def _group_norm(self, similarity: GroupNorm, queries: Any, candidates: Any) -> Any:
        width = similarity.width(queries.shape[1])
        if similarity.groups(queries.shape[1]) == 1 or width == 1:
            plain = "donot_use_mm_for_euclid_dist"  # a product would cancel, beyond the error bounds
            return -self._torch.cdist(queries, candidates, p=1.0 if width == 1 else 2.0, compute_mode=plain)
        out = queries.new_zeros((len(queries), len(candidates)))
        for start in range(0, queries.shape[1], width):
            squared = self._torch.zeros_like(out)
            for i in range(start, start + width):
                squared += (queries[:, i, None] - candidates[:, i]).square_()
            out -= squared.sqrt_()
        return out

    def copy_of(self, scores: Any) -> Any:
        torch = self._torch
        tensor = scores.detach() if isinstance(scores, torch.Tensor) else torch.from_numpy(np.array(scores))
        short = tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)
        return tensor.to(device=self._device, dtype=torch.float32 if short else torch.float64, copy=True)

    def nan_rows(self, scores: Any) -> Ints:
        return np.flatnonzero(self._numpy(scores.isnan().any(dim=1)))

    def take(self, scores: Any, row: Ints, column: Ints) -> NDArray[Any]:
        return self._numpy(scores[self._tensor(row), self._tensor(column)])

    def clear_rows(self, scores: Any, rows: Ints) -> None:
        scores[self._tensor(rows)] = 0

    def mask(self, scores: Any, row: Ints, column: Ints) -> None:
        scores[self._tensor(row), self._tensor(column)] = float("nan")

    def count(self, scores: Any, bounds: Bounds) -> tuple[Ints, Ints]:
        above, within = (np.empty(len(bounds.row), dtype=np.int64) for _ in range(2))
        for some, rows, low, high in self._rows(scores, bounds):
            beaten = (rows > high).sum(dim=1)
            above[some] = self._numpy(beaten)
            within[some] = self._numpy((rows >= low).sum(dim=1) - beaten)
        return above, within

    def within(self, scores: Any, bounds: Bounds, found: int) -> tuple[Ints, Ints]:
        parts = []
        for some, rows, low, high in self._rows(scores, bounds):
            which, column = self._torch.nonzero((rows >= low) & ~(rows > high), as_tuple=True)
            parts.append((self._numpy(which) + some.start, self._numpy(column)))
        which, column = (np.concatenate(ids) for ids in zip(*parts, strict=True))
        return which, column

    def canonical(self, similarity: Similarity, queries: Any, row: Ints, candidates: Any, column: Ints) -> Singles:
        """Canonical scores, from the host's copies: a device may lack float64, and adds up in an order of its own."""
        host, out = backend_for("cpu"), np.empty(len(row), dtype=np.float32)

        def part(some: slice) -> None:
            out[some] = host.canonical(similarity, queries.exact, row[some], candidates.exact, column[some])

        parts = [slice(start, start + _PAIRS_AT_ONCE) for start in range(0, len(row), _PAIRS_AT_ONCE)]
        with ThreadPoolExecutor(min(len(parts), Resources().workers) or 1) as pool:
            list(pool.map(part, parts))
        return out

    def _rows(self, scores: Any, bounds: Bounds) -> Iterator[tuple[slice, Any, Any, Any]]:
        step = max(1, _CELLS_AT_ONCE // max(scores.shape[1], 1))
        row, low, high = (self._tensor(values) for values in (bounds.row, bounds.low, bounds.high))
        for start in range(0, len(bounds.row), step):
            some = slice(start, start + step)
            yield some, scores[row[some]], low[some, None], high[some, None]

    def _tensor(self, values: NDArray[Any]) -> Any:
        return self._torch.from_numpy(np.require(values, requirements=["C", "W"])).to(self._device)

    def _numpy(self, tensor: Any) -> NDArray[Any]:
        values: NDArray[Any] = tensor.cpu().numpy()
        return values

    @contextmanager
    def _full_precision(self) -> Iterator[None]:
        """Compute float32 products in float32, even where the surrounding program has allowed TF32 or bfloat16."""
        backends = self._torch.backends
        known: tuple[Any, ...] = (backends.cuda.matmul, getattr(backends.mkldnn, "matmul", None))
        products = [product for product in known if hasattr(product, "fp32_precision")]
        if not products:  # before torch 2.9 there is one global setting
            yield from self._in_highest_precision()
            return
        before = [product.fp32_precision for product in products]
        try:
            for product in products:
                product.fp32_precision = "ieee"
            yield
        finally:
            for product, precision in zip(products, before, strict=True):
                product.fp32_precision = precision

    def _in_highest_precision(self) -> Iterator[None]:
        before = self._torch.get_float32_matmul_precision()
        self._torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            self._torch.set_float32_matmul_precision(before)
