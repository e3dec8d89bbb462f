"""Names in the order that people expect."""

from __future__ import annotations

import re


def natural(name: str) -> list[tuple[bool, int, str]]:
    """A key by which epoch-5 stands before epoch-10.

    Example:
        >>> sorted(["epoch-10", "epoch-5", "final"], key=natural)
        ['epoch-5', 'epoch-10', 'final']
    """
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]
