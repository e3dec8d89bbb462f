"""What is ranked: distinct triples, and the distinct queries that ask for their entities."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kgprobe.arrays import EntityRows, Ints, find, pair_keys, run_starts, triple_problems
from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import SPLITS, KnowledgeGraph
from kgprobe.predict.filters import HOW, KnownFilter, read_triples
from kgprobe.predict.scorers import SIDES, Side

_HEAD, _RELATION, _TAIL = range(3)

_ASKED: Mapping[str, tuple[Side, ...]] = {"both": SIDES, "head": ("head",), "tail": ("tail",)}


@dataclass(frozen=True, eq=False)
class RankedTriples:
    """Distinct triples that are ranked, and the sides on which they are.

    A triple that is given several times is one query to rank, so only its first row is kept.

    Attributes:
        given: [m, 3] (head, relation, tail), as they were given.
        rows: The rows (from 0) of those that are ranked.
        sides: The sides that are predicted.

    Example:
        >>> graph = KnowledgeGraph.from_triples(test=[[0, 0, 1], [2, 0, 1], [0, 0, 1]])
        >>> facts = RankedTriples.build(graph)
        >>> facts.triples.tolist(), facts.repeated, facts.sides
        ([[0, 0, 1], [2, 0, 1]], 1, ('tail', 'head'))
    """

    given: Ints
    rows: Ints
    sides: tuple[Side, ...]

    @classmethod
    def build(
        cls,
        graph: KnowledgeGraph,
        split: str = "test",
        sides: str = "both",
        triples: npt.ArrayLike | str | os.PathLike[str] | None = None,
    ) -> RankedTriples:
        """The facts of a split, or any others.

        Args:
            graph: The graph whose ids they have.
            split: The split, where nothing else is given.
            sides: "both", "head" or "tail".
            triples: Other facts instead: an array [n, 3] or a file of triples.
        """
        problems = [] if sides in _ASKED else [f"no side is called {sides!r}{nearest(sides, _ASKED)}"]
        problems += [] if split in SPLITS else [f"no split is called {split!r}{nearest(split, SPLITS)}"]
        if problems:
            raise UsageError("this cannot be ranked as asked", problems)
        found = _of_split(graph, split) if triples is None else _others(graph, triples)
        return cls(found.astype(np.int64), _first_rows(found), _ASKED[sides])

    @cached_property
    def triples(self) -> Ints:
        """[n, 3] (head, relation, tail): what is ranked, in the order in which it was given."""
        return self.given[self.rows]

    @property
    def repeated(self) -> int:
        """How many rows were left out since their triple had been given before."""
        return len(self.given) - len(self.rows)

    def queries(self, side: Side) -> Queries:
        """The distinct queries for one side of the facts.

        Example:
            >>> graph = KnowledgeGraph.from_triples(test=[[2, 1, 0], [0, 0, 1], [2, 1, 3]])
            >>> queries = RankedTriples.build(graph).queries("tail")
            >>> queries.relation.tolist(), queries.given.tolist()
            ([0, 1], [0, 2])
            >>> queries.query.tolist(), queries.target.tolist(), queries.fact.tolist()
            ([0, 1, 1], [1, 0, 3], [1, 0, 2])
        """
        ask, answer = (_HEAD, _TAIL) if side == "tail" else (_TAIL, _HEAD)
        given, relation = self.triples[:, ask], self.triples[:, _RELATION]
        keys = pair_keys(relation, given, int(given.max(initial=0)) + 1)
        fact = np.argsort(keys, kind="stable")
        starts = run_starts(keys[fact])
        return Queries(
            side=side,
            given=given[fact[starts]],
            relation=relation[fact[starts]],
            query=np.repeat(np.arange(len(starts)), np.diff(starts, append=len(fact))),
            target=self.triples[fact, answer],
            fact=fact,
        )


@dataclass(frozen=True, eq=False)
class Queries:
    """The distinct queries of one side, in the order of (relation, given), and the facts that ask them.

    Attributes:
        side: The side that is asked for.
        given: For each query, the entity on the other side.
        relation: For each query, its relation.
        query: For each fact, in the order of the queries, the index of its query.
        target: For each fact in that order, the entity that is to be found.
        fact: For each fact in that order, its row in `Facts.triples`.
    """

    side: Side
    given: Ints
    relation: Ints
    query: Ints
    target: Ints
    fact: Ints

    def __len__(self) -> int:
        return len(self.given)

    def known(self, known: KnownFilter) -> EntityRows:
        """The answers of every query that the filter knows, targets included."""
        return self.known_rows(known, 0, len(self))

    def known_rows(self, known: KnownFilter, start: int, stop: int) -> EntityRows:
        """The answers that the filter knows of the queries ``start`` up to ``stop`` (not included).

        Example:
            >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 2]], test=[[0, 0, 1], [1, 0, 0]])
            >>> queries = RankedTriples.build(graph).queries("tail")
            >>> offsets, entities = queries.known_rows(KnownFilter.build(graph), 0, 2)
            >>> offsets.tolist(), entities.tolist()
            ([0, 2, 3], [1, 2, 0])
        """
        answers = known.known
        if answers is None:
            return EntityRows(np.zeros(stop - start + 1, dtype=np.int64), np.empty(0, dtype=np.int64))
        groups = answers.tails if self.side == "tail" else answers.heads
        keys = pair_keys(self.given[start:stop], self.relation[start:stop], answers.num_relations)
        return EntityRows(groups.offsets, groups.values).take(find(groups.keys, keys))


def _of_split(graph: KnowledgeGraph, split: str) -> npt.NDArray[Any]:
    triples = graph.triples(split)
    if not len(triples):
        filled = ", ".join(name for name, there in graph.splits.items() if len(there)) or "none"
        raise DataError(f"{graph.name}: no {split} triples to rank", [f"splits with triples: {filled}"])
    return triples


def _others(graph: KnowledgeGraph, triples: npt.ArrayLike | str | os.PathLike[str]) -> npt.NDArray[Any]:
    problems: list[str] = []
    if isinstance(triples, str | os.PathLike):
        path = Path(triples)
        found = read_triples(path, graph, problems)
        if found is None:
            raise DataError(f"{path}: these triples cannot be ranked", problems, HOW)
        return found
    try:
        array = np.asarray(triples)
    except ValueError:
        array, problems = np.empty((0, 3), dtype=np.int64), ["triples: rows of different lengths, expected [n, 3]"]
    array = array if array.size else np.empty((0, 3), dtype=np.int64)
    problems += triple_problems("triples", array, graph.num_entities, graph.num_relations)
    if problems:
        raise DataError(f"these are not triples of {graph.name}", problems)
    return array


def _first_rows(triples: npt.NDArray[Any]) -> Ints:
    """The first row of each distinct triple, in ascending order."""
    order = np.lexsort(triples.T)
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(triples[order], axis=0) != 0).any(axis=1)
    # The sort is stable: among equal triples, the first in order is the first that was given.
    rows: Ints = np.sort(order[new])
    return rows
