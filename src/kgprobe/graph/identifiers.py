"""Ids and names of entities and relations: validation, labels in id order, and the ids that names stand for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kgprobe.errors import spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from kgprobe.arrays import Ints
    from kgprobe.graph.knowledge_graph import KnowledgeGraph
    from kgprobe.graph.text_files import Columns


def id_problems(where: str, ids: Ints, limit: int | None) -> list[str]:
    """Ids that are not in 0..limit-1, by row (counted from 0); without a limit, those below 0.

    Example:
        >>> id_problems("tail", np.array([0, 5, -1]), limit=3)
        ['tail: 2 ids outside 0..2 in rows 1-2 (counted from 0), for example 5']
    """
    top = np.iinfo(ids.dtype).max if limit is None else limit - 1
    if not len(ids) or (ids.min() >= 0 and ids.max() <= top):
        return []
    rows = np.flatnonzero((ids < 0) | (ids > top))
    allowed = "below 0" if limit is None else f"outside 0..{top}"
    listed = spans(rows.tolist(), most=10)
    return [f"{where}: {len(rows):,} ids {allowed} in rows {listed} (counted from 0), for example {ids[rows[0]]}"]


def triple_problems(where: str, triples: npt.NDArray[Any], entities: int | None, relations: int | None) -> list[str]:
    """What keeps an array from being triples of a graph of that many entities and relations (None: unknown).

    Example:
        >>> triple_problems("test", np.array([[0, 0, 9]]), entities=2, relations=1)
        ['test tail: 1 ids outside 0..1 in rows 0 (counted from 0), for example 9']
        >>> triple_problems("test", np.zeros((4, 2), dtype=int), entities=2, relations=1)
        ['test: shape (4, 2), expected [n, 3] (head, relation, tail)']
    """
    if triples.ndim != 2 or triples.shape[1] != 3:
        return [f"{where}: shape {triples.shape}, expected [n, 3] (head, relation, tail)"]
    if not np.issubdtype(triples.dtype, np.integer):
        return [f"{where}: {triples.dtype} values, expected whole numbers"]
    columns = (("head", entities), ("relation", relations), ("tail", entities))
    return [p for i, (name, limit) in enumerate(columns) for p in id_problems(f"{where} {name}", triples[:, i], limit)]


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


@dataclass(frozen=True, eq=False)
class Names:
    """The names of all entities or of all relations: the label, or the id as text where there is none.

    Attributes:
        kind: What is named: "entity", "relation".
        names: The names in id order.

    Example:
        >>> import pyarrow as pa
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
        import pyarrow as pa
        import pyarrow.compute as pc

        ids = pa.array(np.arange(size)).cast(pa.string())
        return cls(kind, ids if labels is None else pc.coalesce(labels, ids.cast(labels.type)))

    @classmethod
    def entities(cls, graph: KnowledgeGraph, *, labels: bool = True) -> Names:
        """The names of a graph's entities; without labels, their ids alone."""
        return cls.build("entity", graph.num_entities, graph.entity_labels if labels else None)

    @classmethod
    def relations(cls, graph: KnowledgeGraph, *, labels: bool = True) -> Names:
        """The names of a graph's relations; without labels, their ids alone."""
        return cls.build("relation", graph.num_relations, graph.relation_labels if labels else None)

    def ids(self, texts: pa.Array) -> Ints:
        """The id of each text, -1 where it is not the name of exactly one id."""
        import pyarrow.compute as pc

        own = texts.cast(self.names.type)
        ids: Ints = pc.index_in(own, value_set=self.names).fill_null(-1).to_numpy(zero_copy_only=False).copy()
        if len(self._shared):
            ids[pc.is_in(own, value_set=self._shared).to_numpy(zero_copy_only=False)] = -1
        return ids

    def problem(self, text: str) -> str | None:
        """What keeps a text from being the name of exactly one id, or None."""
        if text not in self._every:
            return f"{text[:40]!r} is no known {self.kind}"
        return f"{text[:40]!r} is the name of more than one {self.kind}" if text in self._ambiguous else None

    @cached_property
    def _shared(self) -> Labels:
        """The names that several ids have."""
        import pyarrow.compute as pc

        counts = pc.value_counts(self.names)
        return counts.field("values").filter(pc.greater(counts.field("counts"), 1))

    @cached_property
    def _every(self) -> frozenset[str]:
        return frozenset(self.names.to_pylist())

    @cached_property
    def _ambiguous(self) -> frozenset[str]:
        return frozenset(self._shared.to_pylist())


@dataclass(frozen=True)
class KnownNames:
    """The rule that every text of a column is the name of exactly one id.

    Attributes:
        names: The names that each column may hold; a column that is not listed may hold anything.
        order: The columns in the order of the fields of a line.

    Example:
        >>> rule = KnownNames({"entity": Names.build("entity", 3, None)}, ["weight", "entity"])
        >>> rule.judge(1, ["0.5", "3"])
        "'3' is no known entity"
    """

    names: Mapping[str, Names]
    order: Sequence[str]

    def holds(self, columns: Columns) -> bool:
        """Whether all lines are good."""
        return all(names.ids(columns[name].dictionary).min(initial=0) >= 0 for name, names in self.names.items())

    def judge(self, _number: int, fields: list[str]) -> str | None:
        """What is wrong with one line, or None."""
        texts = dict(zip(self.order, fields, strict=True))
        found = [names.problem(texts[name]) for name, names in self.names.items()]
        return ", ".join(problem for problem in found if problem) or None

    def ids(self, columns: Columns, name: str) -> Ints:
        """The ids of a column."""
        column = columns[name]
        ids: Ints = self.names[name].ids(column.dictionary)[column.indices.to_numpy()].astype(np.int64)
        return ids
