"""Score files: the scores of all entities for every query, computed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, find, pair_keys
from kgprobe.errors import DataError, spans
from kgprobe.predict.adapters.array_files import (
    WHOLE_NUMBERS,
    ArrayFile,
    Place,
    array_names,
    open_arrays,
    place_problems,
)
from kgprobe.predict.scorers import SIDES, AnyScorer, Side

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


TRIPLES = "triples"

"""The array that may say for which triples the rows were made."""

_GIVEN: dict[Side, int] = {"tail": 0, "head": 2}

_SHOWN = 5

_BLOCK_NUMBERS = 1 << 21


@dataclass(frozen=True, eq=False)
class RowReader:
    """An array whose row i is made for triple i: its name, the length of a row, and how some rows are read."""

    name: str
    width: int
    read: Callable[[AnyInts], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class QueryRows:
    """The rows of the queries of a list of triples, for one side or both.

    Attributes:
        source: The file that holds them.
        num_relations: Number of relations of the graph.
        readers: The array of each side that the file has.
        queries: For each of these sides the sorted keys of the distinct queries, and the first row of each.

    Example:
        >>> triples, scores = np.array([[7, 0, 1], [4, 1, 1], [7, 0, 2]]), np.array([[0.5], [0.1], [0.5]])
        >>> reader = RowReader("tail", width=1, read=lambda rows: scores[rows])
        >>> rows = QueryRows.of_triples(Path("mine.npz"), triples, 2, {"tail": reader}, problems=[])
        >>> rows.find("tail", given=np.array([4, 7]), relation=np.array([1, 0])).tolist()
        [[0.1], [0.5]]
    """

    source: Path
    num_relations: int
    readers: Mapping[Side, RowReader]
    queries: Mapping[Side, tuple[NDArray[np.int64], NDArray[np.int64]]]

    @classmethod
    def of_triples(
        cls, source: Path, triples: AnyInts, num_relations: int, readers: Mapping[Side, RowReader], problems: list[str]
    ) -> QueryRows:
        """Index the rows; those of the same query that are not alike are added to ``problems``."""
        queries: dict[Side, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for side, reader in readers.items():
            asked = pair_keys(triples[:, _GIVEN[side]], triples[:, 1], num_relations)
            keys, first, query = np.unique(asked, return_index=True, return_inverse=True)
            problems += _differing(reader, first[query])
            queries[side] = keys, first
        return cls(source, num_relations, readers, queries)

    def find(self, side: Side, given: AnyInts, relation: AnyInts) -> NDArray[Any]:
        """The row of each query that asks for the ``side`` of (given[i], relation[i])."""
        if side not in self.readers:
            raise DataError(
                f"{self.source}: no rows for queries of the {side} side",
                [f"there are rows for the {other} side" for other in self.readers],
                f"rank the {' and '.join(self.readers)} side alone, or add the rows",
            )
        keys, first = self.queries[side]
        position = find(keys, pair_keys(given, relation, self.num_relations))
        absent = np.flatnonzero(position < 0)
        if len(absent):
            asked = [f"entity {given[i]}, relation {relation[i]}" for i in absent[:_SHOWN]]
            more = [f"and {len(absent) - _SHOWN:,} more"] if len(absent) > _SHOWN else []
            raise DataError(
                f"{self.source}: no rows for some queries of the {side} side",
                [*asked, *more],
                "rank the triples that the rows were made for",
            )
        return self.readers[side].read(first[position])


def _differing(reader: RowReader, first: NDArray[np.int64]) -> list[str]:
    """Rows that are not like the first row of the same query, by their numbers."""
    again = np.flatnonzero(first != np.arange(len(first)))
    step = max(1, _BLOCK_NUMBERS // max(reader.width, 1))
    parts = [again[start : start + step] for start in range(0, len(again), step)]
    wrong = [i for part in parts for i in part[_differ(reader.read(part), reader.read(first[part]))].tolist()]
    shown = ", ".join(f"{first[i]} and {i}" for i in wrong[:_SHOWN])
    more = f" and {len(wrong) - _SHOWN:,} more pairs" if len(wrong) > _SHOWN else ""
    return [f"{reader.name}: rows of the same query differ (counted from 0): {shown}{more}"] if wrong else []


def _differ(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.bool_]:
    # A NaN is not for this place to complain about: it is like another one.
    alike = (left == right) | ((left != left) & (right != right))
    return np.asarray(~alike.all(axis=1))


def other_triples(stored: NDArray[Any], triples: AnyInts) -> list[str]:
    """Where the triples that rows were made for are not those that are ranked; shapes are known to agree."""
    rows = np.flatnonzero((stored != triples).any(axis=1))
    listed = spans(rows.tolist(), most=10)
    return [f"triples: not those that are ranked in rows {listed} (counted from 0)"] if len(rows) else []


@dataclass(frozen=True, eq=False)
class StoredScores:
    """A scorer that reads the scores of the queries it is asked for; the others stay in the file."""

    rows: QueryRows

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> NDArray[Any]:
        """The scores of all entities for each query."""
        return self.rows.find(side, given, relation)


def is_scores(path: str | PathLike[str]) -> bool:
    """Whether a file has an array of scores for a side, or a folder has such a file.

    Example:
        >>> import tempfile, numpy
        >>> path = Path(tempfile.mkdtemp()) / "mine.npz"
        >>> numpy.savez(path, tail=numpy.zeros((1, 4)))
        >>> is_scores(path)
        True
    """
    place = Path(path)
    if place.is_dir():
        return any((place / f"{side}.npy").exists() for side in SIDES)
    return place.is_file() and not array_names(place).isdisjoint(SIDES)


def open_scores(
    path: str | PathLike[str], graph: KnowledgeGraph, triples: AnyInts
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Open the scores of the triples of a graph that are to be ranked.

    A file of arrays (.npz or .safetensors), or a folder of .npy files, with "tail", "head" or both: row i has the
    scores of all entities in the order of their ids, as the tail or as the head of triple i. What is not compressed
    is read only as far as it is needed. An array "triples" [n, 3], if there, must be the triples that are ranked.

    Raises:
        DataError: The arrays are damaged, do not fit the graph or the triples, or answer one query in two ways.

    Example:
        >>> import tempfile, numpy
        >>> from kgprobe.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
        >>> path = Path(tempfile.mkdtemp()) / "mine.npz"
        >>> numpy.savez(path, tail=numpy.array([[0.9, 0.1]]))
        >>> name, scorer, settings = open_scores(path, graph, graph.triples("test"))
        >>> name, scorer.score("tail", numpy.array([1]), numpy.array([0])).tolist()
        ('mine', [[0.9, 0.1]])
    """
    file = _open_folder(Path(path)) if Path(path).is_dir() else open_arrays(path)
    sides = [side for side in SIDES if side in file.arrays]
    scores = (Place(side, "triples to rank", len(triples), (graph.num_entities,), needed=False) for side in SIDES)
    given = Place(TRIPLES, "triples to rank", len(triples), (3,), WHOLE_NUMBERS, needed=False)
    problems = place_problems([*scores, given], file.shapes)
    if not sides:
        problems.append(f"no scores: neither an array {' nor an array '.join(map(repr, SIDES))}")
    if not problems and TRIPLES in file.arrays:
        problems += other_triples(file.arrays[TRIPLES].whole(), triples)
    if not problems:
        readers = {side: RowReader(side, graph.num_entities, file.arrays[side].rows) for side in sides}
        rows = QueryRows.of_triples(file.path, triples, graph.num_relations, readers, problems)
    if problems:
        raise DataError(
            f"{path}: no scores to rank {graph.name} by",
            problems,
            "each of the triples that are ranked needs one row, with a score for every entity of the graph",
        )
    return file.path.stem, StoredScores(rows), {"source": file.path.name}


def _open_folder(folder: Path) -> ArrayFile:
    files = {name: folder / f"{name}.npy" for name in (*SIDES, TRIPLES)}
    found = {name: open_arrays(file).arrays[file.name] for name, file in files.items() if file.exists()}
    return ArrayFile(folder, found)
