"""What can be wrong with arrays of ids, said in one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.errors import spans

if TYPE_CHECKING:
    import numpy.typing as npt

    from kgprobe.graph.sorted_keys import Ints


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
