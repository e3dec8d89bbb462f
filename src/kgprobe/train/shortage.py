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
_MATTERS = {
    "negative_sampling": ("batch_size", "negatives", "dimension"),
    "one_vs_all": ("batch_size", "dimension"),
    "k_vs_all": ("batch_size", "dimension"),
}


@contextmanager
def naming_what_to_lower(settings: Settings) -> Iterator[None]:
    """Turns a lack of memory into an error that names the settings that decide how much is needed."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError, TypeError) as error:
        if not _is_shortage(error):
            raise
        values = [
            f"{name} is {getattr(settings, name, getattr(settings.options, name, None))}"
            for name in _MATTERS[settings.objective]
        ]
        seeds = [f"{len(settings.seeds)} seeds are trained at once"] if len(settings.seeds) > 1 else []
        raise DataError(
            "there is not enough memory for a step of this size",
            [*values, *seeds],
            f"lower {_MATTERS[settings.objective][0]} first; then {', '.join(_MATTERS[settings.objective][1:])}",
        ) from error


def _is_shortage(error: BaseException) -> bool:
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or any(sign in str(error) for sign in _SIGNS)
