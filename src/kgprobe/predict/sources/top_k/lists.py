"""Lists of answers by query, in a few arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.scorer import Side

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SideLists:
    """The lists of the queries that ask for one side.

    Attributes:
        keys: ``given * num_relations + relation`` of the queries, distinct and in ascending order.
        offsets: ``entities[offsets[i]:offsets[i + 1]]`` is the list of query i, best first.
        entities: The answers.
        ties: Where each run of answers of equal score begins, and at last the number of answers.

    Example:
        >>> lists = SideLists.build([7, 3], [np.array([4, 5]), np.array([1])], [np.array([0, 0]), np.array([0])])
        >>> lists.keys.tolist(), lists.offsets.tolist(), lists.entities.tolist(), lists.ties.tolist()
        ([3, 7], [0, 1, 3], [1, 4, 5], [0, 1, 3])
    """

    keys: Ints
    offsets: Ints
    entities: Ints
    ties: Ints

    @classmethod
    def build(cls, keys: Sequence[int], entities: Sequence[Ints], levels: Sequence[Ints]) -> SideLists:
        """Put lists of distinct keys in order; answers of one list tie where their levels are equal."""
        order = np.argsort(np.array(keys, dtype=np.int64))
        empty = np.empty(0, dtype=np.int64)
        answers, level = (np.concatenate([empty, *(part[i] for i in order.tolist())]) for part in (entities, levels))
        sizes = np.array([len(entities[i]) for i in order.tolist()], dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        new = np.ones(len(answers) + 1, dtype=bool)
        new[1:-1] = level[1:] != level[:-1]
        new[offsets] = True
        return cls(np.array(keys, dtype=np.int64)[order], offsets, answers, np.flatnonzero(new))

    def __len__(self) -> int:
        return len(self.keys)


class Unlisted(StrEnum):
    """What is known of the candidates that a list leaves out: nothing, or that they all have the same score."""

    unknown = "unknown"
    tied = "tied"

    @classmethod
    def _missing_(cls, value: object) -> Unlisted:
        raise UsageError(f"candidates outside a list cannot be '{value}'", [f"they can be {', '.join(cls)}"])


@dataclass(frozen=True, eq=False)
class TopKLists:
    """The best answers of a system to queries of a graph.

    Attributes:
        path: The file that they come from.
        graph: The graph.
        sides: The lists of the queries for each side.
        unlisted: What a list says of the candidates that it leaves out: "unknown" makes the rank of a target among
            them an interval, "tied" counts them all as ties of each other behind the list.
    """

    path: Path
    graph: KnowledgeGraph
    sides: Mapping[Side, SideLists]
    unlisted: Unlisted = Unlisted.unknown

    def __len__(self) -> int:
        """How many queries have a list."""
        return sum(map(len, self.sides.values()))
