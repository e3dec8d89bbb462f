"""What a benchmark ran on, and how it measures."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import psutil

T = TypeVar("T")

MIB = 1 << 20


def describe() -> str:
    """One line about the machine.

    Example:
        >>> "Python" in describe()
        True
    """
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), model)
    memory = psutil.virtual_memory().total / 2**30
    versions = f"Python {platform.python_version()}, numpy {np.__version__}"
    return f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} x {model}, {memory:.0f} GiB, {versions}, {sys.platform}"


def best_of(times: int, work: Callable[[], T]) -> tuple[float, T]:
    """The shortest of several runs in seconds, and the result."""
    shortest = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        result = work()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, result


def peak_allocation(work: Callable[[], T]) -> tuple[float, T]:
    """How many MiB Python and numpy held at most beyond what they held before, and the result.

    Unlike the size of the process, this does not miss memory that the allocator had in reserve.
    """
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        result = work()
        return (tracemalloc.get_traced_memory()[1] - before) / MIB, result
    finally:
        tracemalloc.stop()


def peak_memory(work: Callable[[], T]) -> tuple[float, T]:
    """How many MiB the process grew beyond its size before, at most, and the result."""
    process = psutil.Process()
    before = process.memory_info().rss
    peak, running = before, True

    def progress() -> None:
        nonlocal peak
        while running:
            peak = max(peak, process.memory_info().rss)
            time.sleep(0.002)

    watcher = threading.Thread(target=progress)
    watcher.start()
    try:
        result = work()
    finally:
        running = False
        watcher.join()
    return (peak - before) / MIB, result


def peak_of_process() -> float:
    """How many MiB this process has held at most since it began."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
