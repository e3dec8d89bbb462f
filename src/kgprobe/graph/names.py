"""Labels and names of entities and relations: as one column, as text for people, and the ids that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgprobe.arrays import AnyInts

Labels: TypeAlias = pa.Array
"""Names in id order: an Arrow string array, null for an id without a name."""


def as_labels(values: Sequence[str | None] | Labels | pa.ChunkedArray | None) -> Labels | None:
    """Labels as one Arrow string array.

    Example:
        >>> as_labels(["Ada", None]).to_pylist()
        ['Ada', None]
    """
    if values is None:
        return None
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, pa.string())
    # Offsets of ordinary strings have 32 bits, too few for the labels of a hundred million entities.
    array = array.cast(pa.large_string() if array.nbytes >= 2**31 else pa.string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def label_problems(where: str, labels: Labels | None, size: int) -> list[str]:
    if labels is None or len(labels) == size:
        return []
    return [f"{where}: {len(labels):,} labels for {size:,} ids"]


def labels_of(labels: Labels | None, ids: npt.ArrayLike) -> list[str]:
    """The label of each id, or the id as text if it has none.

    Example:
        >>> labels_of(as_labels(["Ada", None]), [0, 1])
        ['Ada', '1']
    """
    rows = np.atleast_1d(np.asarray(ids, dtype=np.int64))
    if labels is None:
        return [str(i) for i in rows.tolist()]
    names = labels.take(rows).to_pylist()
    return [str(i) if name is None else name for name, i in zip(names, rows.tolist(), strict=True)]


def displayed(labels: Labels | None, names: Labels | None, size: int) -> Labels:
    """A text for each id that a person can read: its name, else its label, else the id.

    Names that several ids share are followed by the label, so that every text stands for one id.

    Example:
        >>> displayed(as_labels(["Q1", "Q2", "Q3"]), as_labels(["bank", "bank", None]), 3).to_pylist()
        ['bank (Q1)', 'bank (Q2)', 'Q3']
    """
    import pyarrow.compute as pc

    unique = Names.build("", size, labels).names
    if names is None:
        return unique
    own = Names.build("", size, names)
    taken = pa.chunked_array([own.shared, unique.cast(own.names.type)])
    texts = pc.binary_join_element_wise(names, " (", pc.binary_join_element_wise(unique.cast(names.type), ")", ""), "")
    clear = pc.invert(pc.is_in(names, value_set=taken.combine_chunks()))
    return pc.coalesce(pc.if_else(clear, names, texts), unique.cast(names.type))


@dataclass(frozen=True, eq=False)
class Names:
    """The names of all entities or of all relations: the label, or the id as text if there is none.

    Attributes:
        kind: What is named: "entity", "relation".
        names: The names in id order.

    Example:
        >>> names = Names.build("entity", 3, pa.array(["Ada", None, "Bob"]))
        >>> names.ids(pa.array(["Bob", "1", "Eve"])).tolist()
        [2, 1, -1]
        >>> names.problem("Eve")
        "'Eve' is no known entity"
    """

    kind: str
    names: Labels

    @classmethod
    def build(cls, kind: str, size: int, labels: Labels | None) -> Names:
        """The names of ``size`` ids."""
        import pyarrow.compute as pc

        ids = pa.array(np.arange(size)).cast(pa.string())
        return cls(kind, ids if labels is None else pc.coalesce(labels, ids.cast(labels.type)))

    def ids(self, texts: pa.Array) -> AnyInts:
        """The id of each text, -1 if it is not the name of exactly one id."""
        import pyarrow.compute as pc

        own = texts.cast(self.names.type)
        ids: AnyInts = pc.index_in(own, value_set=self.names).fill_null(-1).to_numpy(zero_copy_only=False).copy()
        if len(self.shared):
            ids[pc.is_in(own, value_set=self.shared).to_numpy(zero_copy_only=False)] = -1
        return ids

    def problem(self, text: str) -> str | None:
        """Why a text is not the name of exactly one id, or None if it is."""
        if text not in self._known:
            return f"{text[:40]!r} is no known {self.kind}"
        return f"{text[:40]!r} is the name of more than one {self.kind}" if text in self._ambiguous else None

    @cached_property
    def shared(self) -> Labels:
        """The names that several ids have."""
        counts = self.names.value_counts()
        return counts.field("values").filter(pa.array(counts.field("counts").to_numpy() > 1))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names.to_pylist())

    @cached_property
    def _ambiguous(self) -> frozenset[str]:
        return frozenset(self.shared.to_pylist())
