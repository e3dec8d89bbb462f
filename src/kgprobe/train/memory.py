"""How much memory a process has taken at most."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import torch


def peak_memory() -> dict[str, int]:
    """Bytes that this process has held at most, on the host and, where it was used, on the GPU.

    What cannot be known is left out.

    Example:
        >>> peak_memory().get("host", 1 << 21) > 1 << 20
        True
    """
    found = {"host": _host() if find_spec("resource") else 0}
    found["gpu"] = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return {place: size for place, size in found.items() if size}


def _host() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
