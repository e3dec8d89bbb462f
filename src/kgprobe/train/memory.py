"""How much memory a process has taken at most."""

from __future__ import annotations

import re
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")


def peak_memory() -> dict[str, int]:
    """Bytes that this process has held at most, on the host and, where it was used, on the GPU.

    What the system does not tell is left out.

    Example:
        >>> peak_memory().get("host", 1 << 21) > 1 << 20
        True
    """
    found = {"host": _host(), "gpu": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0}
    return {place: size for place, size in found.items() if size}


def _host() -> int:
    # Not getrusage: what it tells begins with the memory of the process that this one was started by.
    found = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text("utf-8"), re.MULTILINE) if _STATUS.exists() else None
    return 0 if found is None else int(found[1]) * 1024
