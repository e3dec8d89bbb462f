"""Candidates that are given, in place of all entities: for each relation, or for each fact."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.grouped import Grouped
from kgprobe.graph.sorted_keys import Ints, find
from kgprobe.predict.entity_rows import EntityRows
from kgprobe.predict.facts import Facts
from kgprobe.predict.readers.negatives import list_problems, read_negatives
from kgprobe.predict.readers.relation_lists import Listed, read_pairs, read_type_constraints
from kgprobe.predict.scorer import Side

_WORDS = ("all", "train")
_HOW = (
    "the candidates of relations are lines of relation<TAB>side<TAB>entity (perhaps .gz) or OpenKE's "
    "type_constrain.txt; those of facts are arrays [facts, k] 'head' and 'tail' in an .npz file"
)


@dataclass(frozen=True, eq=False)
class RelationCandidates:
    """The entities that may stand on either side of a relation (type constraints).

    The target of a query is a candidate whether it is listed or not.

    Attributes:
        name: Where they come from.
        groups: For each side, the entities by relation.
        file_hash: SHA-256 of the file that they come from, if any.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2], [2, 1, 0]])
        >>> seen = RelationCandidates.from_train(graph)
        >>> seen.ids("tail", 0).tolist(), seen.ids("head", 1).tolist()
        ([1, 2], [2])
    """

    name: str
    groups: Mapping[Side, Grouped]
    file_hash: str | None = None

    @classmethod
    def from_pairs(
        cls, name: str, graph: KnowledgeGraph, listed: Listed, file_hash: str | None = None
    ) -> RelationCandidates:
        """From the relation and the entity of every pair, by side."""
        groups = {
            side: Grouped.build(relation, entity, graph.num_relations, graph.num_entities)
            for side, (relation, entity) in listed.items()
        }
        return cls(name, groups, file_hash)

    @classmethod
    def from_train(cls, graph: KnowledgeGraph) -> RelationCandidates:
        """The entities that training triples have on that side of that relation."""
        if not graph.has_train:
            raise DataError(
                f"{graph.name}: no candidates by relation",
                ["the training triples that would tell them are not here"],
                "give them in a file, or use --candidates all",
            )
        head, relation, tail = graph.triples("train").T
        return cls.from_pairs("train", graph, {"head": (relation, head), "tail": (relation, tail)})

    @property
    def description(self) -> dict[str, str]:
        """What a rank file says about its candidates."""
        return _described(self.name, self.file_hash)

    def ids(self, side: Side, relation: int) -> NDArray[np.int64]:
        """The candidates on a side of a relation: distinct, in ascending order; none where none are listed."""
        groups = self.groups[side]
        listed = EntityRows(groups.offsets, groups.values).take(find(groups.keys, np.array([relation])))
        return listed.entities.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class QueryCandidates:
    """The candidates of each fact on its own (negatives that were drawn once for all).

    The target of a query is a candidate whether it is listed or not.

    Attributes:
        name: Where they come from.
        lists: For each side, an array [rows, k] of entities, row by row with the facts as they were given.
        rows: For each fact that is ranked, its row there.
        file_hash: SHA-256 of the file that they come from, if any.

    Example:
        >>> drawn = QueryCandidates("negatives", {"tail": np.array([[5, 2, 5], [7, 8, 9]])}, rows=np.array([0, 1]))
        >>> offsets, entities = drawn.ids("tail", np.array([0, 1]))
        >>> offsets.tolist(), entities.tolist()
        ([0, 2, 5], [2, 5, 7, 8, 9])
    """

    name: str
    lists: Mapping[Side, Ints]
    rows: Ints
    file_hash: str | None = None

    @property
    def description(self) -> dict[str, str]:
        """What a rank file says about its candidates."""
        return _described(self.name, self.file_hash)

    def ids(self, side: Side, fact_rows: Ints) -> EntityRows:
        """The candidates on a side of the facts in these rows of `Facts.triples`."""
        ordered = np.sort(self.lists[side][self.rows[fact_rows]], axis=1)
        new = np.ones(ordered.shape, dtype=bool)
        np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])
        offsets = np.zeros(len(ordered) + 1, dtype=np.int64)
        np.cumsum(new.sum(axis=1), out=offsets[1:])
        return EntityRows(offsets, ordered[new].astype(np.int64, copy=False))


CandidateSets: TypeAlias = RelationCandidates | QueryCandidates


def require_fit(sets: CandidateSets, graph: KnowledgeGraph, facts: Facts) -> None:
    """Refuse candidates that are not those of the facts.

    Example:
        >>> graph = KnowledgeGraph.from_triples(test=[[1, 0, 0]])
        >>> require_fit(QueryCandidates("mine", {"tail": np.array([[5]])}, np.array([0])), graph, Facts.build(graph))
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: mine: these are not candidates for graph
          - tail: ids outside 0..1 in rows 0 (counted from 0)
          - there are none for the head
    """
    given = sets.lists if isinstance(sets, QueryCandidates) else sets.groups
    problems = []
    if isinstance(sets, QueryCandidates):
        for side, lists in sets.lists.items():
            problems += list_problems(side, lists, len(facts.given), graph.num_entities)
    elif any(groups.num_values != graph.num_entities for groups in sets.groups.values()):
        problems.append(f"they are of a graph that has not {graph.num_entities:,} entities")
    problems += [f"there are none for the {side}" for side in facts.sides if side not in given]
    if problems:
        raise DataError(f"{sets.name}: these are not candidates for {graph.name}", problems)


def open_candidates(text: str | os.PathLike[str], graph: KnowledgeGraph, facts: Facts) -> CandidateSets | None:
    """The candidates that a word or a file names.

    Args:
        text: "all" entities; "train": those that training triples have on that side of that relation; or a file.
        graph: The graph that is ranked.
        facts: The facts that are ranked.

    Returns:
        The candidates; None for all entities.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
        >>> open_candidates("train", graph, Facts.build(graph)).description
        {'candidates': 'train'}
    """
    name = os.fspath(text)
    if name == "all":
        return None
    if name == "train":
        return RelationCandidates.from_train(graph)
    path = Path(name)
    if not os.path.exists(path):
        raise UsageError(f"{name!r} is neither a kind of candidates nor a file{nearest(name, _WORDS)}", remedy=_HOW)
    problems: list[str] = []
    sets = _read(path, graph, facts, problems)
    if sets is None:
        raise DataError(f"{path}: these are not candidates for {graph.name}", problems, _HOW)
    return sets


def _read(path: Path, graph: KnowledgeGraph, facts: Facts, problems: list[str]) -> CandidateSets | None:
    if path.suffix == ".npz":
        lists = read_negatives(path, facts, graph.num_entities, problems)
        return None if lists is None else QueryCandidates(path.name, lists, facts.rows, _hash(path))
    read = read_type_constraints if path.name.startswith("type_constrain") else read_pairs
    listed = read(path, graph, problems)
    return None if listed is None else RelationCandidates.from_pairs(path.name, graph, listed, _hash(path))


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _described(name: str, file_hash: str | None) -> dict[str, str]:
    return {"candidates": name} | ({} if file_hash is None else {"candidates_hash": file_hash})
