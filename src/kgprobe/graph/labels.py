"""Names of entities or relations: Arrow strings in id order, null where an id has no name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

Labels: TypeAlias = "pa.Array"


def as_labels(values: Sequence[str | None] | Labels | pa.ChunkedArray | None) -> Labels | None:
    """Names as one Arrow string array.

    Example:
        >>> as_labels(["Ada", None]).to_pylist()
        ['Ada', None]
    """
    import pyarrow as pa

    if values is None:
        return None
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, pa.string())
    # Offsets of ordinary strings have 32 bits, which the names of a hundred million entities overflow.
    array = array.cast(pa.large_string() if array.nbytes >= 2**31 else pa.string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def label_problems(where: str, labels: Labels | None, size: int) -> list[str]:
    """What keeps labels from naming ``size`` ids."""
    if labels is None or len(labels) == size:
        return []
    return [f"{where}: {len(labels):,} labels for {size:,} ids"]


def labels_of(labels: Labels | None, ids: npt.ArrayLike) -> list[str]:
    """The name of each id; where there is none, the id as text.

    Example:
        >>> labels_of(as_labels(["Ada", None]), [0, 1])
        ['Ada', '1']
    """
    wanted = np.atleast_1d(np.asarray(ids, dtype=np.int64))
    if labels is None:
        return [str(i) for i in wanted.tolist()]
    names = labels.take(wanted).to_pylist()
    return [str(i) if name is None else name for name, i in zip(names, wanted.tolist(), strict=True)]
