"""Device, threads and memory of a computation. They change its run time, never its result."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from kgprobe.errors import UsageError

Progress: TypeAlias = Callable[[float], None]
"""A progress callback: called with the amount of work done since the last call. The unit is the caller's."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Resources:
    """Device, threads and memory.

    Attributes:
        device: "cpu", or a torch device such as "cuda" ("torch:cpu" for torch on the CPU).
        threads: Number of threads on the CPU; None for all cores.
        memory: Bytes of working memory, in addition to the embeddings and the filter.
        batch: Queries per batch; None to choose.
        tile: Candidates per tile; None to choose.
        shards: Number of entity ranges that are processed in turn; the device holds the embeddings of one range.

    Example:
        >>> Resources(threads=2, memory=parse_memory("512MB")).memory
        536870912
    """

    device: str = "cpu"
    threads: int | None = None
    memory: int = 1 << 30
    batch: int | None = None
    tile: int | None = None
    shards: int = 1

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}, and must be at least {least:,}"
            for name, least in (("threads", 1), ("memory", 1 << 20), ("batch", 1), ("tile", 1), ("shards", 1))
            if (value := getattr(self, name)) is not None and value < least
        ]
        if problems:
            raise UsageError("invalid resources", problems)

    @property
    def workers(self) -> int:
        """The number of threads."""
        if self.threads is not None:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def ranges(self, entities: int) -> list[range]:
        """The entity ranges of the shards.

        Example:
            >>> Resources(shards=2).ranges(5)
            [range(0, 3), range(3, 5)]
        """
        step = max(1, -(-entities // self.shards))
        return [range(start, min(start + step, entities)) for start in range(0, entities, step)]

    def queries(self, bytes_each: int, most: int) -> int:
        """The number of queries per batch: `batch` if it is set, else as many as fit into memory, up to ``most``."""
        return self.batch or max(1, min(most, self.memory // max(bytes_each, 1)))


def parse_memory(text: str) -> int:
    """Parse an amount of memory into bytes.

    Example:
        >>> parse_memory("2 GB"), parse_memory("1.5g"), parse_memory("4096")
        (2147483648, 1610612736, 4096)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if not match:
        raise UsageError(f"{text!r} is not an amount of memory", remedy="write it as 512MB or 4GB")
    return int(float(match[1]) * _UNITS[match[2]])


def single_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread, so that it does not compete with the engine's own threads.

    Without threadpoolctl the context does nothing, which only costs time.
    """
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    context: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return context


def peak_memory() -> dict[str, int]:
    """Peak memory of this process in bytes, on the "host" and on the "gpu"; unknown or unused places are left out.

    Example:
        >>> peak_memory().get("host", 1 << 21) > 1 << 20
        True
    """
    import torch

    # Not getrusage: its peak includes the memory of the parent process.
    match = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text("utf-8"), re.MULTILINE) if _STATUS.exists() else None
    sizes = {
        "host": 0 if match is None else int(match[1]) * 1024,
        "gpu": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
    }
    return {place: size for place, size in sizes.items() if size}
