"""Score files: the scores of all entities for every query, computed by another program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Ints, find, pair_keys
from kgprobe.errors import DataError, nearest, spans
from kgprobe.predict.array_files import array_names, open_arrays
from kgprobe.predict.scorers import SIDES, AnyScorer, Side
from kgprobe.predict.stored_arrays import ArrayFile, Shapes

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph

TRIPLES = "triples"
"""The optional array of the triples that the rows were computed for."""

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int32", "int64")
_GIVEN: dict[Side, int] = {"tail": 0, "head": 2}
_SHOWN = 5
_BLOCK_NUMBERS = 1 << 21


def is_scores(path: str | PathLike[str]) -> bool:
    """Whether a file has an array of scores for a side, or a folder has such a file."""
    place = Path(path)
    if place.is_dir():
        return any((place / f"{side}.npy").exists() for side in SIDES)
    return place.is_file() and not array_names(place).isdisjoint(SIDES)


def open_scores(
    path: str | PathLike[str], graph: KnowledgeGraph, triples: AnyInts
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Open a score file for the ranked triples of a graph.

    The file (.npz or .safetensors), or a folder of .npy files, has arrays "tail", "head" or both: row i has the scores
    of all entities in the order of their ids, as the tail or as the head of triple i. Uncompressed files are memory
    mapped. An array "triples" [n, 3], if present, must equal the ranked triples.

    Returns:
        The name of the model, its scorer, and its metadata.

    Raises:
        DataError: The arrays are damaged, do not fit the graph or the triples, or differ for the same query.

    Example:
        >>> import tempfile
        >>> from kgprobe.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
        >>> path = Path(tempfile.mkdtemp()) / "mine.npz"
        >>> np.savez(path, tail=np.array([[0.9, 0.1]]))
        >>> name, scorer, settings = open_scores(path, graph, graph.triples("test"))
        >>> name, scorer.score("tail", np.array([1]), np.array([0])).tolist()
        ('mine', [[0.9, 0.1]])
    """
    file = _open_folder(Path(path)) if Path(path).is_dir() else open_arrays(path)
    sides = [side for side in SIDES if side in file.arrays]
    specs = [ArraySpec(side, "triples to rank", len(triples), (graph.num_entities,), needed=False) for side in SIDES]
    specs.append(ArraySpec(TRIPLES, "triples to rank", len(triples), (3,), INTEGERS, needed=False))
    problems = spec_problems(specs, file.shapes)
    if not sides:
        problems.append(f"no scores: neither an array {' nor an array '.join(map(repr, SIDES))}")
    if not problems and TRIPLES in file.arrays:
        problems += triple_mismatch(file.arrays[TRIPLES].whole(), triples)
    if not problems:
        readers = {side: RowReader(side, graph.num_entities, file.arrays[side].rows) for side in sides}
        rows = QueryRows.of_triples(file.path, triples, graph.num_relations, readers, problems)
    if problems:
        raise DataError(
            f"{path}: not the scores of {graph.name}",
            problems,
            "each ranked triple needs one row, with a score for every entity of the graph",
        )
    return file.path.stem, StoredScores(rows), {"source": file.path.name}


def _open_folder(folder: Path) -> ArrayFile:
    files = {name: folder / f"{name}.npy" for name in (*SIDES, TRIPLES)}
    return ArrayFile(
        folder, {name: open_arrays(file).arrays[file.name] for name, file in files.items() if file.exists()}
    )


@dataclass(frozen=True, eq=False)
class StoredScores:
    """A scorer that reads the scores of the queries from a file when they are needed."""

    rows: QueryRows

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> NDArray[Any]:
        return self.rows.find(side, given, relation)


@dataclass(frozen=True, eq=False)
class RowReader:
    """An array whose row i belongs to triple i: its name, the length of a row, and a function that reads rows."""

    name: str
    width: int
    read: Callable[[AnyInts], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Rows that were computed for triples, looked up by query.

    Attributes:
        path: The file.
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

    path: Path
    num_relations: int
    readers: Mapping[Side, RowReader]
    queries: Mapping[Side, tuple[Ints, Ints]]

    @classmethod
    def of_triples(
        cls, path: Path, triples: AnyInts, num_relations: int, readers: Mapping[Side, RowReader], problems: list[str]
    ) -> QueryRows:
        """Index the rows; different rows of the same query are appended to ``problems``."""
        queries: dict[Side, tuple[Ints, Ints]] = {}
        for side, reader in readers.items():
            asked = pair_keys(triples[:, _GIVEN[side]], triples[:, 1], num_relations)
            keys, first, query = np.unique(asked, return_index=True, return_inverse=True)
            problems += _differing(reader, first[query])
            queries[side] = keys, first
        return cls(path, num_relations, readers, queries)

    def find(self, side: Side, given: AnyInts, relation: AnyInts) -> NDArray[Any]:
        """The row of each query that asks for the ``side`` of (given[i], relation[i])."""
        if side not in self.readers:
            raise DataError(
                f"{self.path}: no rows for queries of the {side} side",
                [f"there are rows for the {other} side" for other in self.readers],
                f"rank the {' and '.join(self.readers)} side alone, or add the rows",
            )
        keys, first = self.queries[side]
        position = find(keys, pair_keys(given, relation, self.num_relations))
        absent = np.flatnonzero(position < 0)
        if len(absent):
            named = [f"entity {given[i]}, relation {relation[i]}" for i in absent[:_SHOWN]]
            more = [f"and {len(absent) - _SHOWN:,} more"] if len(absent) > _SHOWN else []
            raise DataError(
                f"{self.path}: no rows for some queries of the {side} side",
                [*named, *more],
                "rank the triples that the rows were computed for",
            )
        return self.readers[side].read(first[position])


def _differing(reader: RowReader, first: Ints) -> list[str]:
    """The rows that differ from the first row of the same query."""
    again = np.flatnonzero(first != np.arange(len(first)))
    step = max(1, _BLOCK_NUMBERS // max(reader.width, 1))
    wrong: list[int] = []
    for start in range(0, len(again), step):
        part = again[start : start + step]
        rows, expected = reader.read(part), reader.read(first[part])
        same = (rows == expected) | ((rows != rows) & (expected != expected))  # NaN is reported elsewhere
        wrong += part[~same.all(axis=1)].tolist()
    shown = ", ".join(f"{first[i]} and {i}" for i in wrong[:_SHOWN])
    more = f" and {len(wrong) - _SHOWN:,} more pairs" if len(wrong) > _SHOWN else ""
    return [f"{reader.name}: rows of the same query differ (counted from 0): {shown}{more}"] if wrong else []


def triple_mismatch(stored: NDArray[Any], triples: AnyInts) -> list[str]:
    """The rows in which the triples of a file differ from the ranked ones; the shapes are known to agree."""
    rows = np.flatnonzero((stored != triples).any(axis=1))
    listed = spans(rows.tolist(), most=10)
    return [f"triples: differ from the ranked ones in rows {listed} (counted from 0)"] if len(rows) else []


@dataclass(frozen=True)
class ArraySpec:
    """The specification of an array in a file.

    Attributes:
        name: Its name.
        of: What its rows are for, in messages.
        rows: The expected number of rows; None for any.
        shape: The expected shape of one row; None for any.
        kinds: The allowed types of numbers.
        needed: Whether the array is required.
    """

    name: str
    of: str
    rows: int | None
    shape: tuple[int, ...] | None
    kinds: tuple[str, ...] = FLOATS
    needed: bool = True

    def problems(self, shape: tuple[int, ...], kind: str) -> list[str]:
        """Why an array of this shape and kind does not fit."""
        found = []
        if kind not in self.kinds:
            pickled = "pickled Python objects, which are never loaded; save it as plain numbers:"
            what = pickled if kind == "object" else f"{kind}, expected"
            found.append(f"{self.name}: holds {what} {', '.join(self.kinds[:-1])} or {self.kinds[-1]}")
        if not shape:
            found.append(f"{self.name}: a single value, expected one row for each of the {self.of}")
        elif self.rows is not None and shape[0] != self.rows:
            found.append(f"{self.name}: {shape[0]:,} rows, but there are {self.rows:,} {self.of}")
        if shape and self.shape is not None and shape[1:] != self.shape:
            found.append(f"{self.name}: one row has shape {shape[1:]}, expected {self.shape}")
        return found


def spec_problems(specs: Iterable[ArraySpec], shapes: Shapes) -> list[str]:
    """All arrays that are missing, not expected, or do not fit.

    Example:
        >>> spec_problems(
        ...     [ArraySpec("tail", "triples", 3, (9,)), ArraySpec("head", "triples", 3, (9,))],
        ...     {"tail": ((2, 9), "complex64"), "heads": ((3, 9), "float32")},
        ... )
        ["no array 'head'", "array 'heads' is not expected; nearest: head", 'tail: holds complex64, expected ...]
    """
    known = {spec.name: spec for spec in specs}
    others = [name for name in shapes if name not in known]
    return [
        *(f"no array {name!r}" for name, spec in known.items() if spec.needed and name not in shapes),
        *(f"array {name[:60]!r} is not expected{nearest(name, known)}" for name in others[:_SHOWN]),
        *([f"and {len(others) - _SHOWN:,} more arrays that are not expected"] if len(others) > _SHOWN else []),
        *(problem for name, spec in known.items() if name in shapes for problem in spec.problems(*shapes[name])),
    ]
