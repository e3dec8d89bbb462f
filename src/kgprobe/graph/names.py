"""Ids of entities and relations by name, and the check that every name in a text file is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from kgprobe.arrays import AnyInts
from kgprobe.graph.knowledge_graph import KnowledgeGraph, Labels
from kgprobe.graph.text_files import Columns


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

    @classmethod
    def entities(cls, graph: KnowledgeGraph, *, labels: bool = True) -> Names:
        """The names of a graph's entities; without labels, their ids as text."""
        return cls.build("entity", graph.num_entities, graph.entity_labels if labels else None)

    @classmethod
    def relations(cls, graph: KnowledgeGraph, *, labels: bool = True) -> Names:
        """The names of a graph's relations; without labels, their ids as text."""
        return cls.build("relation", graph.num_relations, graph.relation_labels if labels else None)

    def ids(self, texts: pa.Array) -> AnyInts:
        """The id of each text, -1 if it is not the name of exactly one id."""
        import pyarrow.compute as pc

        own = texts.cast(self.names.type)
        ids: AnyInts = pc.index_in(own, value_set=self.names).fill_null(-1).to_numpy(zero_copy_only=False).copy()
        if len(self._shared):
            ids[pc.is_in(own, value_set=self._shared).to_numpy(zero_copy_only=False)] = -1
        return ids

    def problem(self, text: str) -> str | None:
        """Why a text is not the name of exactly one id, or None if it is."""
        if text not in self._known:
            return f"{text[:40]!r} is no known {self.kind}"
        return f"{text[:40]!r} is the name of more than one {self.kind}" if text in self._ambiguous else None

    @cached_property
    def _shared(self) -> Labels:
        """The names that several ids have."""
        counts = self.names.value_counts()
        return counts.field("values").filter(pa.array(counts.field("counts").to_numpy() > 1))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names.to_pylist())

    @cached_property
    def _ambiguous(self) -> frozenset[str]:
        return frozenset(self._shared.to_pylist())


@dataclass(frozen=True)
class KnownNames:
    """The check that every text of a column is the name of exactly one id (a `LineCheck`).

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
        return all(names.ids(columns[name].dictionary).min(initial=0) >= 0 for name, names in self.names.items())

    def judge(self, _number: int, fields: list[str]) -> str | None:
        texts = dict(zip(self.order, fields, strict=True))
        problems = [names.problem(texts[name]) for name, names in self.names.items()]
        return ", ".join(problem for problem in problems if problem) or None

    def ids(self, columns: Columns, name: str) -> AnyInts:
        """The ids of a column."""
        column = columns[name]
        ids: AnyInts = self.names[name].ids(column.dictionary)[column.indices.to_numpy()].astype(np.int64)
        return ids
