"""What is kept of random draws of clusters: sums of columns, all from one matrix product, or anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_BLOCK_CELLS = 1 << 24


@dataclass(frozen=True)
class Table:
    """Sums of columns over re-weighted clusters.

    Attributes:
        width: The number of columns.
        rows: Gives some rows of the table [clusters, width].
    """

    width: int
    rows: Callable[[slice], Floats]


@dataclass(frozen=True)
class Rule:
    """Numbers that are no sums.

    Attributes:
        width: How many of them.
        of: Gives those of some draws, [draws, width].
    """

    width: int
    of: Callable[[Floats], Floats]


Kept = Table | Rule


def side_by_side(kinds: Sequence[Kept], clusters: int) -> Callable[[Floats], Floats]:
    """A function from draws [draws, clusters] to all that is kept of them, in the given order.

    Example:
        >>> both = side_by_side([Rule(1, lambda draws: draws[:, :1]), Table(2, lambda rows: 2 * np.eye(2)[rows])], 2)
        >>> both(np.array([[5.0, 7.0]])).tolist()
        [[5.0, 10.0, 14.0]]
    """
    tables = [kind for kind in kinds if isinstance(kind, Table)]
    width = sum(table.width for table in tables)
    block = max(1, _BLOCK_CELLS // max(width, 1))

    # One block is kept. Where there are several, each is made anew for every chunk of draws, which bounds the memory.
    @lru_cache(maxsize=1)
    def columns(start: int) -> Floats:
        return np.concatenate([table.rows(slice(start, start + block)) for table in tables], axis=1)

    def keep(draws: Floats) -> Floats:
        sums = np.zeros((len(draws), width))
        for start in range(0, clusters if tables else 0, block):
            sums += draws[:, start : start + block] @ columns(start)
        of_tables = parted(sums, tables)
        return np.concatenate(
            [next(of_tables) if isinstance(kind, Table) else kind.of(draws) for kind in kinds], axis=1
        )

    return keep


def parted(kept: Floats, kinds: Sequence[Kept]) -> Iterator[Floats]:
    """What belongs to each, of all that was kept.

    Example:
        >>> one, two = Rule(1, lambda draws: draws), Rule(2, lambda draws: draws)
        >>> [part.tolist() for part in parted(np.array([[5.0, 6.0, 7.0]]), [one, two])]
        [[[5.0]], [[6.0, 7.0]]]
    """
    ends = np.cumsum([kind.width for kind in kinds])
    return (kept[:, end - kind.width : end] for kind, end in zip(kinds, ends, strict=True))
