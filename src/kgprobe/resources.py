"""Device, threads and memory of a computation. They change its run time, never its result."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from kgprobe.errors import UsageError, shown

Progress: TypeAlias = Callable[[float], None]
"""A progress callback: called with the amount of work done since the last call. The unit is the caller's."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MOST_MEMORY = 1 << 60
_UNKNOWN_MEMORY = 1 << 34
_BOUNDS = {
    "threads": (1, 4096),
    "memory": (1 << 20, _MOST_MEMORY),
    "batch": (1, 1 << 40),
    "tile": (1, 1 << 40),
    "shards": (1, 1 << 40),
}
_STATUS = Path("/proc/self/status")
_CGROUP = Path("/proc/self/cgroup")
_CGROUP_LIMITS = {Path("/sys/fs/cgroup"): "memory.max", Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes"}
_allowed = 0


@dataclass(frozen=True)
class Resources:
    """Device, threads and memory.

    Attributes:
        device: "cpu", or a torch device such as "cuda" ("torch:cpu" for torch on the CPU). Several devices,
            separated by commas, share the entities of an embedding model: "cuda:0,cuda:1".
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
            f"{name} is {shown(value)}, and must be at {f'least {least:,}' if value < least else f'most {most:,}'}"
            for name, (least, most) in _BOUNDS.items()
            if (value := getattr(self, name)) is not None and not least <= value <= most
        ]
        if problems:
            raise UsageError("invalid resources", problems)

    @property
    def devices(self) -> list[str]:
        """The devices, one or several.

        Example:
            >>> Resources("cuda:0, cuda:1").devices
            ['cuda:0', 'cuda:1']
        """
        return [device.strip() for device in self.device.split(",")]

    @property
    def workers(self) -> int:
        """The number of threads."""
        if self.threads is not None:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def ranges(self, entities: int, least: int = 1) -> list[range]:
        """The entity ranges of the shards, or more of them.

        Example:
            >>> Resources(shards=2).ranges(5)
            [range(0, 3), range(3, 5)]
        """
        step = max(1, -(-entities // max(self.shards, least)))
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
    size = float(match[1]) * _UNITS[match[2]]
    if size > _MOST_MEMORY:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise UsageError(f"{shown!r} is more memory than any machine has", remedy="write it as 512MB or 4GB")
    return int(size)


def shown_memory(size: int) -> str:
    """An amount of memory for a message.

    Example:
        >>> shown_memory(3 << 29), shown_memory(4096), shown_memory(10)
        ('1.5 GiB', '4.0 KiB', '10 bytes')
    """
    unit, letter = max(((unit, name) for name, unit in _UNITS.items() if unit <= max(size, 1)))
    return f"{size / unit:,.1f} {letter.upper()}iB" if letter else f"{size:,} bytes"


class TooLarge(OSError):  # noqa: N818
    """A file that unpacks to more than `unpacking_limit`. Readers report it as they report an unreadable file."""


def unpacking_limit() -> int:
    """The most bytes that one file may unpack to in memory: half of the machine's memory, if it was not raised."""
    return max(_allowed, machine_memory() // 2)


def raise_unpacking_limit(size: int) -> None:
    """Allow files to unpack to ``size`` bytes; a size below the limit changes nothing."""
    global _allowed
    _allowed = max(_allowed, size)


def require_unpackable(size: int, what: str = "it") -> None:
    """Raise TooLarge if something unpacks to more bytes than `unpacking_limit`.

    Example:
        >>> require_unpackable(1 << 60)
        Traceback (most recent call last):
        ...
        kgprobe.resources.TooLarge: it unpacks to 1,048,576.0 TiB, more than the limit of ...
    """
    if size > unpacking_limit():
        raise TooLarge(
            f"{what} unpacks to {shown_memory(size)}, more than the limit of {shown_memory(unpacking_limit())}; if the "
            "file is sound, raise the limit with raise_unpacking_limit ('kgprobe --memory SIZE')"
        )


@cache
def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or less if its control group or its user has less.

    Example:
        >>> machine_memory() > 1 << 20
        True
    """
    known = hasattr(os, "sysconf")
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else _UNKNOWN_MEMORY]
    if find_spec("resource") is not None:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        sizes += [] if soft == resource.RLIM_INFINITY else [soft]
    return min([*sizes, *_cgroup_limits()])


def _cgroup_limits() -> list[int]:
    """The memory limits of this process's control group and of those above it."""
    if not _CGROUP.exists():
        return []
    groups = [line.split(":", 2)[2].strip("/") for line in _CGROUP.read_text("utf-8").splitlines()]
    places = {
        folder / name
        for root, name in _CGROUP_LIMITS.items()
        for group in groups
        for folder in (root / group, *(root / group).parents)
        if folder.is_relative_to(root)
    }
    texts = [place.read_text("ascii").strip() for place in places if place.exists()]
    return [int(text) for text in texts if text.isdigit()]  # without a limit, the text is "max"


def single_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread, so that it does not compete with the engine's own threads.

    Without threadpoolctl the context does nothing, which only costs time.
    """
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    context: AbstractContextManager[Any] = _thread_pools().limit(limits=1, user_api="blas")
    return context


@cache
def _thread_pools() -> Any:
    """The thread pools of this process. To find them takes milliseconds; NumPy's BLAS is there from the beginning."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


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
