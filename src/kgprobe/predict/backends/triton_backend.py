"""The Triton backend, for NVIDIA GPUs: scores, comparisons and counts in one kernel. It needs torch and triton.

Dot products are computed in bfloat16 on tensor cores, group norms in float32. What their error bounds leave unclear is
settled on the device by canonical scores. Rows with too many unclear candidates are computed again by three products of
halves, which are nearly as accurate as float32, and after that by canonical scores alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.arrays import Ints
from kgprobe.predict.backends import triton_kernels as kernels
from kgprobe.predict.backends.torch_backend import TorchBackend
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity, Singles, as_array

COORDINATES = 64
"""Rounded embeddings are filled up with zeros to a multiple of so many coordinates."""

_MEDIUM = 384
_LISTS = 8
_ROUNDED_ROWS = 16
_SHARED_MEMORY = 200 << 10
_COPYING_THREADS = 8


class Tile(NamedTuple):
    """Rows (targets) and columns (candidates) that a program compares at a time, and how.

    Attributes:
        rows: The rows.
        columns: The columns, at most 256.
        warps: The warps of the program.
        block: For dot products, the coordinates that are multiplied at a time.
        stages: For dot products, how many such steps are in shared memory at a time.
        registers: Most registers of a thread; None for as many as the compiler likes.
    """

    rows: int
    columns: int
    warps: int
    block: int = 64
    stages: int = 3
    registers: int | None = None


class Tiles(NamedTuple):
    """The shapes that kernels work in. All shapes of dot products have the same number of rows.

    Attributes:
        short: For dot products of at most 128 coordinates, which are multiplied in one step.
        medium: For those of at most 384 coordinates.
        long: For longer ones.
        tight: For dot products by three products.
        narrow: For norms of groups of one coordinate.
        wide: For all other norms.
        pairs: Pairs that a program settles at a time.
        counting: Programs that compare, at least, if there are so many tiles.
        settling: Programs that share all pairs of a row.
        many: With fewer candidates, dot products are computed by three products at once, without a sample.
    """

    short: Tile = Tile(128, 64, 4, 128, 2)
    medium: Tile = Tile(128, 128, 4)
    long: Tile = Tile(128, 256, 8)
    tight: Tile = Tile(128, 256, 8, 64, 2)
    narrow: Tile = Tile(64, 256, 8)
    wide: Tile = Tile(32, 128, 4, registers=128)
    pairs: int = 64
    counting: int = 4096
    settling: int = 1024
    many: int = 1 << 16

    def of(self, similarity: Similarity, dimension: int, level: int = 0) -> Tile:
        """The shape for a similarity at a level of accuracy; see `kgprobe.predict.backends.fused_counts`."""
        if isinstance(similarity, GroupNorm):
            return self.narrow if similarity.width(dimension) == 1 else self.wide
        if level:
            return self.tight
        padded = padded_number(dimension, COORDINATES)
        if padded <= self.short.block:
            return self.short._replace(block=padded)
        return self.medium if padded <= _MEDIUM else self.long

    def columns(self, similarity: Similarity, dimension: int) -> int:
        """The number of candidates is filled up to a multiple of this, for all levels."""
        return max(self.of(similarity, dimension, level).columns for level in (0, 1))


SMALL_TILES = Tiles(Tile(64, 64, 4, 128, 2), Tile(64, 128, 4), Tile(64, 128, 4), Tile(64, 64, 4, 64, 2))
"""For devices whose programs have less than 200 KiB of shared memory."""


def _tiles_for(device: torch.device) -> Tiles:
    if device.type != "cuda":
        return Tiles()
    properties: Any = torch.cuda.get_device_properties(device)
    shared = properties.shared_memory_per_block_optin
    return Tiles() if shared >= _SHARED_MEMORY else SMALL_TILES


@dataclass(frozen=True, eq=False)
class Rows:
    """Targets with the embeddings of their queries, in the forms that the kernels read.

    Attributes:
        padding: The number of rows of ``high`` and ``low`` is a multiple of this.
        index: The numbers of the rows.
        exact: The float32 embeddings of the queries.
        own: The canonical scores of the targets.
        sizes: [3, rows]. For dot products: the norm of the query, of what ``high`` has lost, of what both have lost.
            For norms: the largest absolute coordinate, and the bounds of the distance.
        high: For dot products, the queries in bfloat16. For norms, the transposed queries in float32.
        low: For dot products, what ``high`` has lost, in bfloat16.
    """

    padding: int
    index: Tensor
    exact: Tensor
    own: Tensor
    sizes: Tensor
    high: Tensor
    low: Tensor

    @property
    def padded(self) -> int:
        """The number of rows of ``high`` and ``low``."""
        return int(self.high.shape[1 if self.high is self.low else 0])

    def chosen(self, index: Tensor) -> Rows:
        """Some of the rows."""
        if len(index) == len(self.index):
            return self
        rows = torch.zeros(padded_number(len(index), self.padding), dtype=torch.int64, device=index.device)
        rows[: len(index)] = index  # the padding is any row: its score is not compared
        axis = 1 if self.high is self.low else 0
        high = self.high.index_select(axis, rows)
        low = high if axis else self.low.index_select(axis, rows)
        return Rows(self.padding, index, self.exact[index], self.own[index], self.sizes[:, index], high, low)


class Compared(NamedTuple):
    """What fast scores have decided for some rows.

    Attributes:
        above: [rows] the number of candidates that certainly beat the target.
        listed: [programs, rows] the numbers of entries in the lists of unclear candidates, also of those for which
            there was no room.
        found: [rows, programs, room] the lists; see `triton_kernels`.
    """

    above: Tensor
    listed: Tensor
    found: Tensor


class TritonBackend(TorchBackend):
    """The backend that counts with Triton kernels; what counts in score matrices is inherited.

    Args:
        device: The torch device.
        tiles: The shapes that kernels work in; None to choose by the device.
        room: Most entries in the lists of unclear candidates of a row, 32 candidates each; None for as many as fit into
            the memory.
    """

    def __init__(self, device: str = "cuda", tiles: Tiles | None = None, room: int | None = None) -> None:
        super().__init__(device)
        self.device: torch.device = self._device
        self.tiles, self.room = tiles or _tiles_for(self.device), room
        self._gammas: dict[float, Tensor] = {}

    def canonical(self, similarity: Similarity, queries: Any, row: Ints, candidates: Any, column: Ints) -> Singles:
        pairs = [self.integers(values) for values in (row, column)]
        with self.active():
            return self._numpy(self.pair_scores(similarity, queries.placed, pairs[0], candidates.placed, pairs[1]))

    def pair_scores(
        self, similarity: Similarity, queries: Tensor, row: Tensor, candidates: Tensor, column: Tensor
    ) -> Tensor:
        """Canonical scores of pairs of a query and a candidate."""
        scores = queries.new_empty(len(row))
        place = torch.arange(len(row), dtype=torch.int32, device=self.device)
        self.put_scores(similarity, queries, row, candidates, column, place, scores)
        return scores

    def put_scores(
        self,
        similarity: Similarity,
        queries: Tensor,
        row: Tensor,
        candidates: Tensor,
        column: Tensor,
        place: Tensor,
        scores: Tensor,
        first_column: int = 0,
    ) -> None:
        """Store canonical scores at their places; ``first_column`` is the column of the first candidate."""
        if not len(row):
            return
        grid = (-(-len(row) // self.tiles.pairs),)
        kernels.score_pairs[grid](
            queries, row, candidates, column, place, scores, self._gamma(similarity), len(row), first_column,
            queries.shape[1], width_of(similarity, queries.shape[1]), self.tiles.pairs,
            **self._precise(similarity, self.tiles.pairs),
        )  # fmt: skip

    def settle(
        self, similarity: Similarity, rows: Rows, candidates: Tensor, compared: Compared, totals: Tensor
    ) -> None:
        """Add to the totals of some rows what was counted, and the candidates in the lists by canonical scores."""
        pairs, dimension, lists = self.tiles.pairs, candidates.shape[1], len(compared.listed)
        kernels.settle_lists[(len(rows.index), -(-lists // _LISTS))](
            rows.exact, rows.own, candidates, compared.found, compared.listed, compared.above, rows.index, totals,
            self._gamma(similarity), lists, compared.found.shape[2], dimension, width_of(similarity, dimension), _LISTS,
            pairs, **self._precise(similarity, pairs),
        )  # fmt: skip

    def settle_all(self, similarity: Similarity, rows: Rows, candidates: Tensor, totals: Tensor) -> None:
        """Add to the totals of some rows all candidates by canonical scores."""
        pairs, dimension, number = self.tiles.pairs, candidates.shape[1], len(candidates)
        columns = torch.full((1,), number, dtype=torch.int32, device=self.device)
        kernels.settle_all[(len(rows.index), min(self.tiles.settling, -(-number // pairs)))](
            rows.exact, rows.own, candidates, columns, rows.index, totals, self._gamma(similarity), dimension,
            width_of(similarity, dimension), pairs, **self._precise(similarity, pairs),
        )  # fmt: skip

    def subtract_scores(self, scores: Tensor, offsets: Tensor, query: Tensor, own: Tensor, totals: Tensor) -> None:
        """Subtract from the totals the scores from ``offsets`` of each row's query on."""
        kernels.subtract_scores[(len(query),)](scores, offsets, query, own, totals, 2 * self.tiles.pairs)

    def rounded(self, embeddings: Tensor, multiple: int) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings in bfloat16, what they have lost in bfloat16, and three norms; see `kernels.round_rows`.

        The first two are padded with zeros to a multiple of rows, and to a multiple of coordinates.
        """
        number, dimension = embeddings.shape
        padded = padded_number(dimension, COORDINATES)
        high = torch.empty((padded_number(number, multiple), padded), dtype=torch.bfloat16, device=self.device)
        low = torch.empty_like(high)
        sizes = torch.empty((3, number), dtype=torch.float64, device=self.device)
        kernels.round_rows[(-(-len(high) // _ROUNDED_ROWS),)](
            embeddings, high, low, sizes, number, dimension, padded, _ROUNDED_ROWS, COORDINATES, num_warps=4
        )
        return high, low, sizes

    def transposed(self, embeddings: Tensor, multiple: int) -> tuple[Tensor, Tensor]:
        """Transposed embeddings, padded with NaN to a multiple of columns, and their largest absolute coordinates."""
        number, dimension = embeddings.shape
        columns = embeddings.new_full((dimension, padded_number(number, multiple)), torch.nan)
        columns[:, :number] = embeddings.T
        return columns, torch.maximum(embeddings.amax(1), -embeddings.amin(1)).double()

    def ranges(self, values: Any, index: slice | Ints, step: int) -> Iterator[tuple[int, Tensor]]:
        """Candidates in parts of ``step`` on the device, each with the column of its first one.

        Embeddings in the memory of the host, or in a file that is mapped to it, are read ahead: a thread copies the
        next part while the current one is counted.
        """
        number = len(range(*index.indices(len(values)))) if isinstance(index, slice) else len(index)
        first = index.start if isinstance(index, slice) else 0
        parts = [slice(start, min(start + step, number)) for start in range(0, number, step)]

        def chosen(part: slice) -> Any:
            return values[first + part.start : first + part.stop] if isinstance(index, slice) else values[index[part]]

        if isinstance(values, Tensor) and values.device.type == self.device.type:
            for part in parts:
                yield part.start, self.placed(chosen(part))
            return
        with ThreadPoolExecutor(1) as pool:
            copies = _Copies(self)
            coming = pool.submit(copies.start, chosen, parts[0]) if parts else None
            for number, part in enumerate(parts, 1):
                assert coming is not None
                copied = coming.result()
                coming = pool.submit(copies.start, chosen, parts[number]) if number < len(parts) else None
                yield part.start, copies.ready(copied)

    def placed(self, values: Any) -> Tensor:
        """Float32 embeddings on the device, in the order of rows."""
        if not isinstance(values, Tensor):
            with np.errstate(over="ignore"):
                values = torch.from_numpy(np.require(values, dtype=np.float32, requirements=["C", "W"]))
        placed: Tensor = values.detach().to(self.device, torch.float32).contiguous()
        return placed

    def active(self) -> AbstractContextManager[Any]:
        """A context in which kernels are launched on this device."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def integers(self, values: NDArray[Any]) -> Tensor:
        """Int32 numbers on the device."""
        placed: Tensor = self._tensor(values.astype(np.int32))
        return placed

    def _gamma(self, similarity: Similarity) -> Tensor:
        gamma = similarity.gamma if isinstance(similarity, GroupNorm) else 0.0
        if gamma not in self._gammas:  # unlike tensor(), full() does not wait for the device
            self._gammas[gamma] = torch.full((1,), gamma, dtype=torch.float64, device=self.device)
        return self._gammas[gamma]

    def _precise(self, similarity: Similarity, pairs: int) -> dict[str, Any]:
        """Launch options of canonical scores: products of float32 are exact in float64, squares of differences not."""
        return {"num_warps": max(1, min(4, pairs // 32)), "enable_fp_fusion": isinstance(similarity, Dot)}


class _Copies:
    """Copies parts of a table to the device on a stream of their own, through two pinned buffers in turn."""

    def __init__(self, backend: TritonBackend) -> None:
        self.backend = backend
        self.on_gpu = backend.device.type == "cuda"
        self.stream: Any = None
        if self.on_gpu:
            self.stream = torch.cuda.Stream(backend.device)  # type: ignore[no-untyped-call]
        self.buffers: list[Tensor | None] = [None, None]
        self.done: list[Any] = [None, None]
        self.turn = 0

    def start(self, chosen: Any, part: slice) -> tuple[Tensor, Any]:
        """Begin to copy a part; the event is recorded when it is there."""
        values = chosen(part)
        if not self.on_gpu:
            copied = torch.empty(tuple(values.shape), dtype=torch.float32)
            self._fill(copied.numpy(), as_array(values))
            return copied, None
        turn, self.turn = self.turn, 1 - self.turn
        if self.done[turn] is not None:
            self.done[turn].synchronize()  # the buffer is free again
        buffer = self.buffers[turn]
        if buffer is None or buffer.shape[0] < len(values):
            buffer = self.buffers[turn] = torch.empty(tuple(values.shape), dtype=torch.float32, pin_memory=True)
        filled = buffer[: len(values)]
        self._fill(filled.numpy(), as_array(values))
        with torch.cuda.stream(self.stream):
            copied = filled.to(self.backend.device, non_blocking=True)
            event = self.done[turn] = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        return copied, event

    def _fill(self, target: Singles, source: NDArray[Any]) -> None:
        """Copy on several threads: one alone is slower than the bus, and waits for every page of a mapped file."""

        def copy(part: slice) -> None:
            with np.errstate(over="ignore"):
                np.copyto(target[part], source[part], casting="same_kind")

        step = -(-len(source) // _COPYING_THREADS)
        with ThreadPoolExecutor(_COPYING_THREADS) as pool:
            list(pool.map(copy, (slice(start, start + step) for start in range(0, len(source), step))))

    def ready(self, copied: tuple[Tensor, Any]) -> Tensor:
        """The part, usable by what is launched from now on."""
        tensor, event = copied
        if event is not None:
            stream = torch.cuda.current_stream(self.backend.device)
            stream.wait_event(event)
            tensor.record_stream(stream)
        return tensor


def width_of(similarity: Similarity, dimension: int) -> int:
    """Coordinates per group, or 0 for dot products."""
    return similarity.width(dimension) if isinstance(similarity, GroupNorm) else 0


def padded_number(number: int, multiple: int) -> int:
    """The next multiple, and at least one."""
    return max(1, -(-number // multiple)) * multiple
