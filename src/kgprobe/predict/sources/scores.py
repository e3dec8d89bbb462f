"""Score files: the scores of all entities for every query, computed elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.graph.sorted_keys import Ints
from kgprobe.predict.scorer import SIDES, AnyScorer, Side
from kgprobe.predict.sources.arrays import ArrayFile, array_names, open_arrays
from kgprobe.predict.sources.files.places import WHOLE_NUMBERS, Place, place_problems
from kgprobe.predict.sources.files.query_rows import TRIPLES, QueryRows, RowReader, other_triples

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


@dataclass(frozen=True, eq=False)
class StoredScores:
    """A scorer that reads the scores of the queries it is asked for; the others stay in the file."""

    rows: QueryRows

    def score(self, side: Side, given: Ints, relation: Ints) -> NDArray[Any]:
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
    path: str | PathLike[str], graph: KnowledgeGraph, triples: Ints
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
