"""Tables that fill the memory of a GPU, are mapped from a file, or do not fit. Parts of gpu_ranking.py."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpu_models import Encoded, first_targets, generated_graph
from kgprobe.predict import Model, Setting, rank_in
from kgprobe.predict.scorers import Dot, as_array
from kgprobe.resources import Resources

if TYPE_CHECKING:
    from gpu_ranking import Bench

_LEFT_FREE = 8 << 30
"""Bytes of the disk that are not used for the mapped file."""

_OUTSIDE = 256 << 20
"""Bytes of the device for what is no part of ``--memory``: the filter, and what torch cannot divide."""


def ranked(bench: Bench, queries: Tensor, targets: Tensor, table: Any) -> Tensor:
    """The counts of all candidates of a table, range after range."""
    counter = bench.counter(Dot(), queries, targets)
    for _, part in bench.backend.ranges(table, slice(0, len(table)), bench.sizes.step):
        counter.add(part)
    return counter.totals


def whole(bench: Bench) -> None:
    """A table that fills much of the memory of the device; then one in a file that is mapped to memory."""
    rows, columns = bench.sizes.whole
    dimension = bench.sizes.large_dimension
    table = torch.empty((columns, dimension), device=bench.place)
    for part in table.split(bench.sizes.step):
        part.normal_(generator=bench.generator)
    targets = table[bench.chosen(columns, rows)]
    done = bench.measured(partial(ranked, bench, bench.asked(targets, like_a_model=True), targets, table))
    rate = 2 * rows * columns * dimension / done.seconds
    print(
        f"{rows:,} x {columns:,}, d {dimension}, on the device: {done.seconds:.2f} s (first run {done.first:.2f} s), "
        f"{rate / 1e12:.0f} TFLOP/s, {rate / bench.short_rate:.2f} of the bf16 rate"
    )
    del table
    if bench.arguments.mapped > 0:
        with TemporaryDirectory() as folder:
            mapped(bench, Path(folder) / "table.f32", rows, dimension)


def mapped(bench: Bench, path: Path, rows: int, dimension: int) -> None:
    """Ranking from a file, next to plain reading of it; each with the file out of the page cache, and in it."""
    size = min(int(bench.arguments.mapped * 1e9), shutil.disk_usage(path.parent).free - _LEFT_FREE)
    columns = (1 << 17 if bench.arguments.tiny else size) // (4 * dimension)
    with path.open("wb") as file:
        for start in range(0, columns, 1 << 20):
            file.write(bench.normal(min(1 << 20, columns - start), dimension).cpu().numpy().data)
        file.flush()
        os.fsync(file.fileno())
    table = np.memmap(path, np.float32, "r", shape=(columns, dimension))
    targets = torch.from_numpy(table[np.sort(bench.chosen(columns, rows).cpu().numpy())]).to(bench.place)
    queries = bench.asked(targets, like_a_model=True)
    print(f"{rows:,} x {columns:,}, d {dimension}, from a file of {table.nbytes / 1e9:.1f} GB")
    for kind in ("not cached", "cached"):
        seconds = []
        for work in (partial(_read, path), partial(ranked, bench, queries, targets, table)):
            if kind == "not cached":
                _drop_from_cache(path)
            start = time.perf_counter()
            work()
            bench.synchronize()
            seconds.append(time.perf_counter() - start)
        rates = ", ".join(
            f"{name} {own:.2f} s, {table.nbytes / own / 1e9:.2f} GB/s"
            for name, own in zip(("plain sequential read", "ranked"), seconds, strict=True)
        )
        print(f"  {kind} (once): {rates}; {seconds[1] / seconds[0]:.2f} x as long")


def _read(path: Path) -> None:
    buffer = bytearray(64 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _drop_from_cache(path: Path) -> None:
    """Ask the kernel to forget the file. A mapping of it may keep pages, and a file in memory stays there."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def streamed(bench: Bench) -> None:
    """A table in the memory of the host, larger than what the device may use, by amounts of memory."""
    facts, entities = bench.sizes.streamed
    setting = Setting.build(generated_graph(facts, entities, entities // 10))
    table = np.empty((entities, bench.sizes.large_dimension), dtype=np.float32)
    for part in np.array_split(table, -(-entities >> 20)):
        part[:] = bench.normal(*part.shape).cpu().numpy()
    queries = {}
    for side in setting.ranked.sides:
        targets = torch.from_numpy(table[first_targets(setting, side)]).to(bench.place)
        queries[side] = as_array(bench.asked(targets, like_a_model=True))
    model = Model("streamed", Encoded(Dot(), setting, queries, dict.fromkeys(queries, table)))
    read = len(queries) * table.nbytes
    print(f"{setting.queries:,} queries x {entities:,}, d {table.shape[1]}: a table of {table.nbytes / 2**30:.2f} GiB")
    expected = rank_in(setting, model, Resources()).to_arrow()
    for memory in bench.sizes.budgets:
        with limited(bench, memory + _OUTSIDE) as peak:
            done = bench.measured(partial(rank_in, setting, model, replace(bench.ours, memory=memory)))
            print(
                f"  --memory {memory >> 20:,} MiB: {done.seconds:.2f} s, {read / done.seconds / 1e9:.1f} GB/s, peak "
                f"{peak()}; {'the same' if done.result.to_arrow().equals(expected) else 'DIFFERENT'} ranks as CPU"
            )


@contextmanager
def limited(bench: Bench, allowed: int) -> Iterator[Callable[[], str]]:
    """Let torch use no more memory of the device, and give the peak of what it uses."""
    if bench.place != "cuda":
        yield lambda: "not measured"
        return
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    held, total = torch.cuda.memory_allocated(), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + allowed) / total)
    try:
        yield lambda: f"{(torch.cuda.max_memory_allocated() - held) >> 20:,} of {allowed >> 20:,} MiB allowed"
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
