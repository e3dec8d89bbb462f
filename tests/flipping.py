"""Files in which one bit is wrong, as a failing disk or a bad transfer leaves them."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from kgprobe.errors import DataError

_ENDS = 2048


def flips(content: bytes, number: int, seed: int) -> Iterator[bytes]:
    """Copies with one wrong bit: half of them anywhere, half near the ends, where a format keeps its structure."""
    rng = np.random.default_rng(seed)
    near = np.r_[: min(_ENDS, len(content)), max(0, len(content) - _ENDS) : len(content)]
    for turn in range(number):
        at = int(rng.integers(len(content)) if turn % 2 else rng.choice(near))
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(rng.integers(8))
        yield bytes(damaged)


def outcomes(path: Path, number: int, seed: int, read: Callable[[], object]) -> Counter[str]:
    """How often a flipped file was refused, read as before, or read as something else.

    ``read`` returns what the file holds, in a form that can be compared. The file is as before in the end.
    """
    content, whole = path.read_bytes(), read()
    counts: Counter[str] = Counter()
    for damaged in flips(content, number, seed):
        path.write_bytes(damaged)
        try:
            counts["same" if read() == whole else "other"] += 1
        except DataError:
            counts["refused"] += 1
    path.write_bytes(content)
    return counts
