"""KnowledgeGraph: training, validation and test triples as arrays of ids, with labels and names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgprobe.arrays import AnyInts, triple_problems
from kgprobe.errors import DataError, UsageError
from kgprobe.graph.graph_directory import write_directory
from kgprobe.graph.known_answers import KnownAnswers
from kgprobe.graph.name_matching import FoundNames, NamesLike, find_names
from kgprobe.graph.names import Labels, Names, as_labels, displayed, filled, label_problems, labels_of
from kgprobe.graph.popularity import Popularity, TrainCounts
from kgprobe.graph.triple_sources import SPLITS, NumberedTriples, from_labels, from_pykeen, pykeen_name
from kgprobe.tables import Table

_HASH_ROWS = 1 << 18
_MOST_COUNTED = 1 << 22
"""Training triples whose pairs of entities and relations are all counted to rank some of them."""
_PREVIEW = 5


@dataclass(frozen=True, eq=False)
class KnowledgeGraph(Table):
    """Entities, relations and triples by split; validated on creation and immutable.

    Attributes:
        name: Name of the graph in reports.
        num_entities: Number of entities; their ids are 0..num_entities-1.
        num_relations: Number of relations; their ids are 0..num_relations-1.
        splits: Any of "train", "valid", "test": read-only, C-contiguous [n, 3] arrays (head, relation, tail),
            int32 if the ids fit.
        entity_labels: Labels of the entities in id order (an Arrow string array, null for an entity without one). A
            label is what the files of triples write, such as "Q1860".
        relation_labels: Labels of the relations in id order.
        train_counts: Counts of the training triples, if the triples themselves are not available.
        entity_names: Names of the entities for people, such as "English". Several entities may share a name.
        relation_names: Names of the relations for people.
        negative_splits: Triples that are known to be false, for triple classification; by split. They are not part of
            ``splits``, nor of the hashes.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], test=[[0, 0, 2]], name="tiny")
        >>> graph.num_entities, graph.num_relations, graph.triples("test").tolist()
        (3, 1, [[0, 0, 2]])
        >>> graph.popularity.entity([1]).tolist()
        [0.5]
    """

    name: str
    num_entities: int
    num_relations: int
    splits: Mapping[str, AnyInts]
    entity_labels: Labels | None = None
    relation_labels: Labels | None = None
    train_counts: TrainCounts | None = None
    entity_names: Labels | None = None
    relation_names: Labels | None = None
    negative_splits: Mapping[str, AnyInts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrays = {name: _as_array(triples) for name, triples in self.splits.items()}
        negatives = {name: _as_array(triples) for name, triples in self.negative_splits.items()}
        problems = [f"unknown split {name!r}" for name in (*arrays, *negatives) if name not in SPLITS]
        for name, triples in (*arrays.items(), *((f"negatives of {name}", some) for name, some in negatives.items())):
            problems += triple_problems(name, triples, self.num_entities, self.num_relations)
        problems += label_problems("entity_labels", self.entity_labels, self.num_entities)
        problems += label_problems("relation_labels", self.relation_labels, self.num_relations)
        problems += label_problems("entity_names", self.entity_names, self.num_entities)
        problems += label_problems("relation_names", self.relation_names, self.num_relations)
        if self.train_counts is not None and "train" in arrays:
            problems.append("train_counts replace training triples, but both are given")
        if problems:
            raise DataError(f"{self.name}: not a graph", problems)
        dtype = np.int32 if max(self.num_entities, self.num_relations) <= 2**31 else np.int64
        for name, given in (("splits", arrays), ("negative_splits", negatives)):
            frozen = {split: _frozen(given[split], dtype) for split in SPLITS if split in given}
            object.__setattr__(self, name, frozen)

    @classmethod
    def from_triples(
        cls,
        train: npt.ArrayLike | None = None,
        valid: npt.ArrayLike | None = None,
        test: npt.ArrayLike | None = None,
        name: str = "graph",
        num_entities: int | None = None,
        num_relations: int | None = None,
        entity_labels: Sequence[str | None] | Labels | None = None,
        relation_labels: Sequence[str | None] | Labels | None = None,
    ) -> KnowledgeGraph:
        """Create a graph from arrays or lists of triples.

        ``num_entities`` and ``num_relations`` default to the number of labels; without labels, to the largest id of
        all splits + 1.
        """
        named = {"train": train, "valid": valid, "test": test}
        splits = {split: _as_array(triples) for split, triples in named.items() if triples is not None}
        entities, relations = as_labels(entity_labels), as_labels(relation_labels)
        return cls(
            name=name,
            num_entities=_size(splits, entities, (0, 2)) if num_entities is None else num_entities,
            num_relations=_size(splits, relations, (1,)) if num_relations is None else num_relations,
            splits=splits,
            entity_labels=entities,
            relation_labels=relations,
        )

    @classmethod
    def from_labels(cls, train: Any = None, valid: Any = None, test: Any = None, name: str = "graph") -> KnowledgeGraph:
        """Create a graph from triples of labels; ids follow the sorted labels of all splits.

        Each split is a list of (head, relation, tail), an array [n, 3] of text, or a table: of pandas, polars or Arrow,
        or a dictionary of columns. The columns are called head, relation and tail, or by other usual names: subject,
        predicate, object; source, target; h, r, t. A single table may have a column ``split`` (train, valid, test).

        Raises:
            DataError: Some are not triples of labels; all problems are listed. Triples of ids are for `from_triples`.

        Example:
            >>> graph = KnowledgeGraph.from_labels(train=[("Bob", "knows", "Ada")], test=[("Ada", "knows", "Cy")])
            >>> graph.entity_label([0, 1, 2]), graph.triples("train").tolist()
            (['Ada', 'Bob', 'Cy'], [[1, 0, 0]])
            >>> table = {"subject": ["a", "b"], "relation": ["r", "r"], "object": ["b", "a"], "split": ["train", "val"]}
            >>> KnowledgeGraph.from_labels(table).triples("valid").tolist()
            [[1, 0, 0]]
        """
        return cls._numbered(name, from_labels({"train": train, "valid": valid, "test": test}))

    @classmethod
    def from_pykeen(cls, train: Any, valid: Any = None, test: Any = None, name: str | None = None) -> KnowledgeGraph:
        """Create a graph from a PyKEEN dataset, or from its triples factories, with PyKEEN's ids and labels.

        A model of PyKEEN that was trained on them can be ranked on this graph as it is.

        Args:
            train: A dataset (all splits), or the triples factory of the training triples.
            valid: Triples factory of the validation triples.
            test: Triples factory of the test triples.
            name: Name of the graph; by default that of the dataset.

        Example:
            >>> from pykeen.datasets import Nations
            >>> graph = KnowledgeGraph.from_pykeen(Nations())
            >>> graph.name, graph.num_entities, graph.num_relations, len(graph.triples("test"))
            ('nations', 14, 55, 201)
        """
        return cls._numbered(name or pykeen_name(train), from_pykeen(train, valid, test))

    @classmethod
    def _numbered(cls, name: str, source: NumberedTriples) -> KnowledgeGraph:
        return cls(
            name=name,
            num_entities=source.num_entities,
            num_relations=source.num_relations,
            splits=source.splits,
            entity_labels=source.entity_labels,
            relation_labels=source.relation_labels,
        )

    def triples(self, *splits: str) -> AnyInts:
        """The triples of the named splits in this order, by default of all splits.

        A split that the graph does not have is empty. The array is read-only: copy it to change it.

        Example:
            >>> KnowledgeGraph.from_triples(train=[[0, 0, 1]]).triples("train", "valid").tolist()
            [[0, 0, 1]]
        """
        unknown = [split for split in splits if split not in SPLITS]
        if unknown:
            names = ", ".join(map(repr, unknown))
            raise UsageError(f"unknown split {names}", remedy=f"the splits are {', '.join(SPLITS)}")
        parts = [self.splits[split] for split in splits or SPLITS if split in self.splits]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, 3), dtype=np.int32)

    def negatives(self, split: str) -> AnyInts:
        """The triples of a split that are known to be false, for triple classification; empty if there are none.

        Example:
            >>> KnowledgeGraph("tiny", 2, 1, {}, negative_splits={"test": [[1, 0, 0]]}).negatives("test").tolist()
            [[1, 0, 0]]
        """
        if split not in SPLITS:
            raise UsageError(f"unknown split {split!r}", remedy=f"the splits are {', '.join(SPLITS)}")
        return self.negative_splits.get(split, np.empty((0, 3), dtype=np.int32))

    @property
    def has_train(self) -> bool:
        """Whether the graph has its training triples, not only their counts."""
        return "train" in self.splits

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the sizes and the triples, independent of file format, graph name and labels."""
        return self._hash(*SPLITS)

    @cached_property
    def learned_hash(self) -> str:
        """SHA-256 of the sizes and the training and validation triples, all that a model is trained on."""
        return self._hash("train", "valid")

    def _hash(self, *splits: str) -> str:
        digest = hashlib.sha256(f"{self.num_entities} {self.num_relations}\n".encode())
        for split in splits:
            triples = self.triples(split)
            digest.update(f"{split} {len(triples)}\n".encode())
            for start in range(0, len(triples), _HASH_ROWS):
                digest.update(triples[start : start + _HASH_ROWS].astype("<i8").tobytes())
        return digest.hexdigest()

    @cached_property
    def popularity(self) -> Popularity:
        """delta(e) and delta(r|e) in the training triples."""
        if self.train_counts is not None:
            return Popularity.from_counts(self.train_counts)
        if not len(self.triples("train")):
            raise DataError(f"{self.name}: no training triples, so popularity is not defined")
        return Popularity.from_triples(self.triples("train"), self.num_entities, self.num_relations)

    def popularity_of(self, entities: npt.ArrayLike, relations: npt.ArrayLike) -> Popularity:
        """delta(e) of all entities, and delta(r|e) of these pairs alone.

        In a large graph this takes far less memory than `popularity`, which is returned for others.

        Example:
            >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]])
            >>> graph.popularity_of([1], [0]).relation([0], [1]).tolist()
            [1.0]
        """
        train = self.triples("train")
        if len(train) <= _MOST_COUNTED or "popularity" in self.__dict__:
            return self.popularity
        counts = TrainCounts.of_pairs(train, entities, relations, self.num_entities, self.num_relations)
        return Popularity.from_counts(counts)

    def known_answers(self, *splits: str) -> KnownAnswers:
        """Index of the known answers in the named splits, by default in all splits.

        Raises:
            DataError: The training triples are needed, but the graph has only their counts.
        """
        if self.train_counts is not None and "train" in (splits or SPLITS):
            raise DataError(
                f"{self.name}: the known answers cannot be listed",
                ["only counts of the training triples are here, not the triples"],
                "name other splits than train, or use a graph that has its training triples",
            )
        parts = [self.triples(split) for split in splits or SPLITS]
        return KnownAnswers.build(parts, self.num_entities, self.num_relations)

    def entity_label(self, ids: npt.ArrayLike) -> list[str]:
        """The labels of entities, or their ids as text if they have none.

        Example:
            >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["Ada", None])
            >>> graph.entity_label([1, 0])
            ['1', 'Ada']
        """
        return labels_of(self.entity_labels, ids)

    def relation_label(self, ids: npt.ArrayLike) -> list[str]:
        """The labels of relations, or their ids as text if they have none."""
        return labels_of(self.relation_labels, ids)

    def entity_name(self, ids: npt.ArrayLike) -> list[str]:
        """Texts for people: the names of entities, else their labels, else their ids.

        A name that several entities share is followed by the label.

        Example:
            >>> graph = KnowledgeGraph("tiny", 2, 0, {}, entity_names=as_labels(["Ada", None]))
            >>> graph.entity_name([1, 0])
            ['1', 'Ada']
        """
        return labels_of(self._entity_texts, ids)

    def relation_name(self, ids: npt.ArrayLike) -> list[str]:
        """Texts for people: the names of relations, else their labels, else their ids."""
        return labels_of(self._relation_texts, ids)

    @cached_property
    def derived(self) -> dict[Hashable, Any]:
        """What other packages have computed from the graph alone, to be used again; freed with the graph."""
        return {}

    @cached_property
    def _entity_texts(self) -> Labels:
        return displayed(self.entity_labels, self.entity_names, self.num_entities)

    @cached_property
    def _relation_texts(self) -> Labels:
        return displayed(self.relation_labels, self.relation_names, self.num_relations)

    def write(self, directory: str | os.PathLike[str], format: str = "parquet") -> None:  # noqa: A002
        """Write the graph to a directory, from which `load_graph` reads it.

        Args:
            directory: The directory; each file is written atomically.
            format: "parquet" for train, valid, test, entities and relations.parquet, or those of them that the graph
                has; "npy" for arrays (train.npy, ..., graph.json), which are memory-mapped when they are read; or
                "tsv" for labelled text (train.tsv, ..., entities.dict, relations.dict), without names.

        Raises:
            DataError: The directory has other files that would be read as parts of this graph; or a label cannot be
                written as text.

        Example:
            >>> import tempfile
            >>> from kgprobe.graph import load_graph
            >>> folder = Path(tempfile.mkdtemp()) / "tiny"
            >>> graph = KnowledgeGraph.from_labels(train=[("Ada", "knows", "Bob")])
            >>> graph.write(folder)
            >>> load_graph(folder).content_hash == graph.content_hash
            True
        """
        write_directory(self, Path(directory), format)

    def relation_columns(self, relation: int) -> dict[str, str]:
        """The label and the name of a relation as columns of a table, those of them that the graph has.

        Example:
            >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], relation_labels=["P27"])
            >>> graph.with_names({"P27": "country of citizenship"}).relation_columns(0)
            {'relation_label': 'P27', 'relation_name': 'country of citizenship'}
        """
        columns = {} if self.relation_labels is None else {"relation_label": self.relation_label([relation])[0]}
        return (
            columns if self.relation_names is None else columns | {"relation_name": self.relation_name([relation])[0]}
        )

    def with_names(
        self,
        *names: NamesLike,
        entities: NamesLike | None = None,
        relations: NamesLike | None = None,
        note: Callable[[str], None] | None = None,
    ) -> KnowledgeGraph:
        """A copy of this graph with names of entities and relations for people.

        Args:
            names: Files (TSV, CSV, JSON, JSON Lines, Parquet), directories with recognised files, or mappings, from
                labels or ids to names. What a source names, entities or relations, is found by matching it with the
                graph. Later sources replace names of earlier ones, and those that the graph has.
            entities: Names of entities alone: a source as above, or a list in id order.
            relations: Names of relations alone.
            note: Called with one sentence about each source: how many entities and relations it names.

        Raises:
            DataError: A source has bad lines, or names nothing in the graph.

        Example:
            >>> labels = {"entity_labels": ["Q1", "Q2"], "relation_labels": ["P1"]}
            >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], **labels)
            >>> named = graph.with_names({"Q2": "Bob", "P1": "knows"}, entities={"Q1": "Ada"})
            >>> named.entity_name([0, 1]), named.relation_name([0]), named.entity_label([0, 1])
            (['Ada', 'Bob'], ['knows'], ['Q1', 'Q2'])
        """
        asked: list[tuple[NamesLike, tuple[str, ...]]] = [(source, ("entity", "relation")) for source in names]
        asked += [] if entities is None else [(entities, ("entity",))]
        asked += [] if relations is None else [(relations, ("relation",))]
        named = self
        for source, only in asked:
            for found in self._found_names(source, only):
                named = replace(
                    named,
                    entity_names=filled(found.entities, named.entity_names),
                    relation_names=filled(found.relations, named.relation_names),
                )
                if note is not None:
                    note(str(found))
        return named

    def _found_names(self, source: NamesLike, only: Sequence[str]) -> list[FoundNames]:
        entities = Names.build("entity", self.num_entities, self.entity_labels)
        relations = Names.build("relation", self.num_relations, self.relation_labels)
        return find_names(source, self.name, entities, relations, only)

    def entity_index(self, *, labels: bool = True) -> Names:
        """Finds entities by label, else by name; without labels, by their ids as text."""
        if not labels:
            return Names.build("entity", self.num_entities, None)
        return Names.build("entity", self.num_entities, self.entity_labels, self.entity_names)

    def relation_index(self, *, labels: bool = True) -> Names:
        """Finds relations by label, else by name; without labels, by their ids as text."""
        if not labels:
            return Names.build("relation", self.num_relations, None)
        return Names.build("relation", self.num_relations, self.relation_labels, self.relation_names)

    def to_arrow(self) -> pa.Table:
        """All triples in columns head, relation, tail and split: labels, or ids where the graph has no labels.

        Example:
            >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]], entity_labels=["Ada", "Bob"])
            >>> graph.to_arrow().to_pylist()[1]
            {'head': 'Bob', 'relation': 0, 'tail': 'Ada', 'split': 'test'}
        """
        head, relation, tail = self.triples().T
        entities = None if self.entity_labels is None else self.entity_index().names
        relations = None if self.relation_labels is None else self.relation_index().names
        split = np.repeat(np.arange(len(self.splits)), [len(triples) for triples in self.splits.values()])
        return pa.table(
            {
                **{
                    name: pa.array(ids) if labels is None else labels.take(pa.array(ids))
                    for name, ids, labels in (
                        ("head", head, entities),
                        ("relation", relation, relations),
                        ("tail", tail, entities),
                    )
                },
                "split": pa.array(list(self.splits), pa.string()).take(pa.array(split)),
            }
        )

    def __repr__(self) -> str:
        triples = "".join(f", {len(triples):,} {split}" for split, triples in self.splits.items())
        sizes = f"{self.num_entities:,} entities, {self.num_relations:,} relations"
        return f"KnowledgeGraph({self.name!r}, {sizes}{triples})"

    def _preview(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The first triples of each split, by name."""
        rows = []
        for split, triples in self.splits.items():
            head, relation, tail = triples[:_PREVIEW].T
            names = self.entity_name(head), self.relation_name(relation), self.entity_name(tail)
            rows += [{"head": h, "relation": r, "tail": t, "split": split} for h, r, t in zip(*names, strict=True)]
        return rows, [f"The first {_PREVIEW} triples of each split."]


def _as_array(triples: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(triples)
    # An empty list has neither the shape nor the type of triples.
    return array if array.size else np.empty((0, 3), dtype=np.int32)


def _size(splits: Mapping[str, npt.NDArray[Any]], labels: Labels | None, columns: tuple[int, ...]) -> int:
    if labels is not None:
        return len(labels)
    usable = [t for t in splits.values() if not triple_problems("", t, None, None)]
    return max((int(t[:, c].max()) + 1 for t in usable if len(t) for c in columns), default=0)


def _frozen(triples: npt.NDArray[Any], dtype: npt.DTypeLike) -> AnyInts:
    """The triples as a read-only array, so that hash and popularity stay valid."""
    frozen: AnyInts = np.ascontiguousarray(triples, dtype=dtype)
    if frozen.flags.writeable:
        # Writable memory may belong to the caller.
        frozen = frozen.copy() if np.may_share_memory(frozen, triples) else frozen
        frozen.flags.writeable = False
    return frozen
