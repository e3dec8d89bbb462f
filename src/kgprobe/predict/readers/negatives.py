"""Files of arrays that list candidates for each fact, as the OGB leaderboards do."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kgprobe.errors import spans
from kgprobe.graph.readers.lines import UNREADABLE
from kgprobe.predict.scorer import Side

if TYPE_CHECKING:
    from pathlib import Path

    from kgprobe.graph.sorted_keys import Ints
    from kgprobe.predict.facts import Facts

_FACT = ("head", "relation", "tail")


def read_negatives(path: Path, facts: Facts, num_entities: int, problems: list[str]) -> dict[Side, Ints] | None:
    """Arrays [rows, k] of entities, one for each side that is ranked, row by row with the facts as they were given.

    The array of a side is called "head_neg" or "tail_neg", or else "head" or "tail". Where the file also has the
    facts themselves (one-dimensional head, relation and tail), they must be those that are ranked.

    Returns:
        The arrays by side; or None, with everything that is wrong added to ``problems``.

    Example:
        >>> import tempfile, pathlib
        >>> from kgprobe.graph import KnowledgeGraph
        >>> from kgprobe.predict.facts import Facts
        >>> facts = Facts.build(KnowledgeGraph.from_triples(test=[[0, 0, 1], [2, 0, 3]]), sides="tail")
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "negatives.npz"
        >>> np.savez(path, tail_neg=np.array([[2, 3], [0, 1]]))
        >>> read_negatives(path, facts, num_entities=4, problems=[])["tail"].tolist()
        [[2, 3], [0, 1]]
    """
    arrays = _load(path, problems)
    if arrays is None:
        return None
    found = _alignment_problems(arrays, facts)
    names = {side: f"{side}_neg" if f"{side}_neg" in arrays else side for side in facts.sides}
    for side, name in names.items():
        if name in arrays:
            found += list_problems(name, arrays[name], len(facts.given), num_entities)
        else:
            there = ", ".join(arrays) or "none"
            found.append(f"no array '{side}' or '{side}_neg' for the side {side}; arrays: {there}")
    problems += [f"{path.name}: {problem}" for problem in found]
    return None if found else {side: arrays[name] for side, name in names.items()}


def _load(path: Path, problems: list[str]) -> dict[str, npt.NDArray[Any]] | None:
    try:
        if not zipfile.is_zipfile(path):
            problems.append(f"{path.name}: is no .npz file")
            return None
        with np.load(path, allow_pickle=False) as file:
            # What is no array in the archive comes as bytes, and is refused for its shape.
            return {name: np.asarray(file[name]) for name in file.files}
    except (*UNREADABLE, zipfile.BadZipFile, ValueError) as error:
        problems.append(f"{path.name}: cannot be read ({error})")
        return None


def list_problems(name: str, lists: npt.NDArray[Any], rows: int, num_entities: int) -> list[str]:
    """What keeps an array from being a list of entities for each of so many facts."""
    if lists.ndim != 2 or not np.issubdtype(lists.dtype, np.integer):
        return [f"{name}: {lists.dtype} values of shape {lists.shape}, expected whole numbers of shape [{rows}, k]"]
    if len(lists) != rows:
        return [f"{name}: {len(lists):,} rows for {rows:,} facts"]
    wrong = np.any((lists < 0) | (lists >= num_entities), axis=1)
    if not wrong.any():
        return []
    return [f"{name}: ids outside 0..{num_entities - 1} in rows {_rows(wrong)} (counted from 0)"]


def _alignment_problems(arrays: Mapping[str, npt.NDArray[Any]], facts: Facts) -> list[str]:
    """Rows whose fact is not the one that is ranked there."""
    if not all(name in arrays and arrays[name].ndim == 1 for name in _FACT):
        return []
    columns: Sequence[npt.NDArray[Any]] = [arrays[name] for name in _FACT]
    lengths = [len(column) for column in columns]
    if set(lengths) != {len(facts.given)}:
        return [f"head, relation, tail: {', '.join(f'{n:,}' for n in lengths)} rows for {len(facts.given):,} facts"]
    differ = np.zeros(len(facts.given), dtype=bool)
    differ[facts.rows] = (np.stack(columns, axis=1)[facts.rows] != facts.triples).any(axis=1)
    return [f"other facts than those that are ranked in rows {_rows(differ)} (counted from 0)"] if differ.any() else []


def _rows(marked: npt.NDArray[np.bool_]) -> str:
    return spans(np.flatnonzero(marked).tolist(), most=10)
