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


def filled(names: Labels | None, others: Labels | None) -> Labels | None:
    """The names, with other names where they have none.

    Example:
        >>> filled(as_labels(["Ada", None]), as_labels(["Eve", "Bob"])).to_pylist()
        ['Ada', 'Bob']
    """
    if names is None or others is None:
        return others if names is None else names
    import pyarrow.compute as pc

    return pc.coalesce(names, others.cast(names.type))


def displayed(labels: Labels | None, names: Labels | None, size: int) -> Labels:
    """A text for each id that a person can read: its name, else its label, else the id.

    Names that several ids share are followed by the label, so that every text stands for one id.

    Example:
        >>> displayed(as_labels(["Q1", "Q2", "Q3"]), as_labels(["bank", "bank", None]), 3).to_pylist()
        ['bank (Q1)', 'bank (Q2)', 'Q3']
        >>> displayed(as_labels(["Ada", "Q2"]), as_labels(["Ada", "Bob"]), 2).to_pylist()
        ['Ada', 'Bob']
    """
    import pyarrow.compute as pc

    unique = Names.build("", size, labels).names
    if names is None:
        return unique
    unique = unique.cast(names.type)
    taken = pa.chunked_array([_repeated(names), unique])
    texts = pc.binary_join_element_wise(names, " (", pc.binary_join_element_wise(unique, ")", ""), "")
    clear = pc.or_(pc.invert(pc.is_in(names, value_set=taken.combine_chunks())), pc.equal(names, unique))
    return pc.coalesce(pc.if_else(clear, names, texts), unique)


@dataclass(frozen=True, eq=False)
class Names:
    """Finds entities or relations by a text: by label, or by the id as text if there is none; else by name.

    Attributes:
        kind: What is found: "entity", "relation".
        names: The labels in id order.
        for_people: The names in id order, if there are any. Labels come first: a name that is the label of another id
            does not stand for its own.

    Example:
        >>> names = Names.build("entity", 3, pa.array(["Ada", None, "Bob"]))
        >>> names.ids(pa.array(["Bob", "1", "Eve"])).tolist()
        [2, 1, -1]
        >>> names.problem("Eve")
        "'Eve' is no known entity"
        >>> named = Names.build("entity", 3, pa.array(["Q1", "Q2", "Q3"]), pa.array(["bank", "bank", "river"]))
        >>> named.ids(pa.array(["Q1", "river", "bank (Q2)", "bank"])).tolist()
        [0, 2, 1, -1]
        >>> named.problem("bank")
        "'bank' is the name of more than one entity: Q1, Q2"
    """

    kind: str
    names: Labels
    for_people: Labels | None = None

    @classmethod
    def build(cls, kind: str, size: int, labels: Labels | None, for_people: Labels | None = None) -> Names:
        """The labels and names of ``size`` ids."""
        import pyarrow.compute as pc

        ids = pa.array(np.arange(size)).cast(pa.string())
        return cls(kind, ids if labels is None else pc.coalesce(labels, ids.cast(labels.type)), for_people)

    def ids(self, texts: pa.Array) -> AnyInts:
        """The id of each text, -1 if it does not stand for exactly one id."""
        ids = _places(texts, self.names, self.shared)
        unknown = ids < 0
        if self.for_people is None or not unknown.any():
            return ids
        import pyarrow.compute as pc

        rest = texts.filter(pa.array(unknown))
        by_name = _places(rest, self.for_people, self._shared_names)
        by_text = _places(rest, self.texts, self.shared)
        is_label = pc.is_in(rest.cast(self.names.type), value_set=self.shared).to_numpy(zero_copy_only=False)
        ids[unknown] = np.where(is_label, -1, np.where(by_name < 0, by_text, by_name))
        return ids

    def problem(self, text: str) -> str | None:
        """Why a text does not stand for exactly one id, or None if it does."""
        if text not in self._ids_by_text:
            return f"{text[:40]!r} is no known {self.kind}"
        if not self.is_shared(text):
            return None
        having = self._labels_having(text)
        shown = f": {', '.join(having[:_SHOWN])}{', ...' * (len(having) > _SHOWN)}" if having else ""
        return f"{text[:40]!r} is the name of more than one {self.kind}{shown}"

    def is_shared(self, text: str) -> bool:
        """Whether a text stands for several ids."""
        return self._ids_by_text.get(text, 0) < 0

    def _labels_having(self, name: str) -> list[str]:
        """The labels of all ids that have a name."""
        import pyarrow.compute as pc

        if self.for_people is None:
            return []
        return [str(label) for label in self.names.filter(pc.equal(self.for_people, name)).to_pylist()]

    @cached_property
    def _ids_by_text(self) -> dict[str, int]:
        """The id of each text, -1 for one that several ids share."""
        ids: dict[str, int] = {}
        people = [] if self.for_people is None else [self.texts, self.for_people]
        for column in [*people, self.names]:
            ids |= {text: i for i, text in enumerate(column.to_pylist()) if text is not None}
            ids |= dict.fromkeys(_repeated(column).to_pylist(), -1)
        return ids

    @cached_property
    def shared(self) -> Labels:
        """The labels that several ids have."""
        return _repeated(self.names)

    @cached_property
    def _shared_names(self) -> Labels:
        return _repeated(self.for_people)

    @cached_property
    def texts(self) -> Labels:
        """A text for each id that a person can read."""
        return displayed(self.names, self.for_people, len(self.names))


_SHOWN = 5


def _places(texts: pa.Array, column: Labels, repeated: Labels) -> AnyInts:
    """The place of each text in a column, -1 if it is not there or repeated."""
    import pyarrow.compute as pc

    own = texts.cast(column.type)
    places: AnyInts = pc.index_in(own, value_set=column).fill_null(-1).to_numpy(zero_copy_only=False).copy()
    places[own.is_null().to_numpy(zero_copy_only=False)] = -1
    if len(repeated):
        places[pc.is_in(own, value_set=repeated.cast(column.type)).to_numpy(zero_copy_only=False)] = -1
    return places


def _repeated(column: Labels) -> Labels:
    """The values that occur more than once in a column."""
    counts = column.value_counts()
    return counts.field("values").filter(pa.array(counts.field("counts").to_numpy() > 1)).drop_null()
