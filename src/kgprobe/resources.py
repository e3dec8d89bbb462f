"""Threads, memory and device of a computation; they change how long it takes, never the result."""

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
"""Called with the amount of work done since the last call, in the unit that the function says which takes it."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class Resources:
    """Device, threads and memory.

    Attributes:
        device: "cpu", or a device of torch such as "cuda" ("torch:cpu" for torch's own CPU arithmetic).
        threads: How many threads count on the CPU; None for all cores.
        memory: Bytes of working memory beside the vectors and the filter.
        batch: Queries at a time; None to choose.
        tile: Candidates at a time; None to choose.
        shards: In how many ranges of entities, one after the other; a device holds the vectors of one range only.

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
            raise UsageError("these resources make no sense", problems)

    @property
    def workers(self) -> int:
        """How many threads there are."""
        if self.threads is not None:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def ranges(self, entities: int) -> list[range]:
        """The ranges of entities that are counted one after the other.

        Example:
            >>> Resources(shards=2).ranges(5)
            [range(0, 3), range(3, 5)]
        """
        step = max(1, -(-entities // self.shards))
        return [range(start, min(start + step, entities)) for start in range(0, entities, step)]

    def queries(self, bytes_each: int, most: int) -> int:
        """How many queries fit at a time, where each takes some memory, unless their number is given."""
        return self.batch or max(1, min(most, self.memory // max(bytes_each, 1)))


def parse_memory(text: str) -> int:
    """A number of bytes as people write it.

    Example:
        >>> parse_memory("2 GB"), parse_memory("1.5g"), parse_memory("4096")
        (2147483648, 1610612736, 4096)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if not found:
        raise UsageError(f"{text!r} is no amount of memory", remedy="write it as 512MB or 4GB")
    return int(float(found[1]) * _UNITS[found[2]])


def single_blas_thread() -> AbstractContextManager[Any]:
    """A context in which matrix products run in the thread that asks for them.

    Threads of BLAS beside the engine's own would only be in the way. In a source tree without installation the
    library that stops them may be missing: that costs time, nothing else.

    Example:
        >>> with single_blas_thread():
        ...     pass
    """
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    context: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return context


_STATUS = Path("/proc/self/status")


def peak_memory() -> dict[str, int]:
    """Bytes that this process has held at most, on the host and, where it was used, on the GPU.

    What the system does not tell is left out.

    Example:
        >>> peak_memory().get("host", 1 << 21) > 1 << 20
        True
    """
    import torch

    found = {"host": _host(), "gpu": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0}
    return {place: size for place, size in found.items() if size}


def _host() -> int:
    # Not getrusage: what it tells begins with the memory of the process that this one was started by.
    found = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text("utf-8"), re.MULTILINE) if _STATUS.exists() else None
    return 0 if found is None else int(found[1]) * 1024
