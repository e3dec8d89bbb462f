"""Memory that is short: which setting to lower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kgprobe.errors import DataError
from kgprobe.train.settings import Settings

_SIGNS = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "ALLOC_FAILED",
    "size calculation overflowed",
    "Overflow when unpacking",
)
"""How torch says that memory is short, or that a size is beyond all memory, where it has no error of its own for it."""


@contextmanager
def naming_what_to_lower(settings: Settings) -> Iterator[None]:
    """Turns a lack of memory into an error that names the settings that decide how much is needed."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError, TypeError) as error:
        if not _is_shortage(error):
            raise
        known = settings.flat()
        first, *more = matters = [name for name in _matters(settings) if name in known]
        values = [f"{name} is {known[name]}" for name in matters]
        seeds = [f"{len(settings.seeds)} seeds are trained at once"] if len(settings.seeds) > 1 else []
        raise DataError(
            "there is not enough memory for a step of this size",
            [*values, *seeds],
            f"lower {first} first; then {', '.join(more)}" if more else f"lower {first}",
        ) from error


def _matters(settings: Settings) -> Iterator[str]:
    """The settings that decide how much memory a step takes, where the model has them."""
    yield "batch_size"
    if settings.objective == "negative_sampling":
        yield "negatives"
    yield from getattr(settings.options, "MEMORY", ("dimension",))


def _is_shortage(error: BaseException) -> bool:
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or any(sign in str(error) for sign in _SIGNS)
