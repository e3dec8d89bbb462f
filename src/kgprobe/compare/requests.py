"""Whether the numbers of a request make sense, whoever asks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any


def wrong_numbers(*, level: Any, seed: Any, **counts: tuple[Any, int]) -> Iterator[str]:
    """What is wrong with them, one sentence each.

    Args:
        level: Between 0 and 1.
        seed: A whole number from 0 on.
        counts: Other whole numbers, by name, each with the least that it may be.

    Example:
        >>> list(wrong_numbers(level=0.95, seed=-1, replicates=(1000, 100)))
        ['seed must be a whole number, at least 0, not -1']
    """
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        yield f"the level must be between 0 and 1, not {_shown(level)}"
    for name, (given, least) in {**counts, "seed": (seed, 0)}.items():
        if not isinstance(given, Integral) or int(given) < least:
            yield f"{name} must be a whole number, at least {least}, not {_shown(given)}"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else repr(value)
