"""The number of candidates of each query: as the file says it, or from what was filtered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.given import Given
from kgprobe.ranks.importers.values import flags, read_numbers

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph

Columns = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Candidates:
    """The numbers of candidates (None where there is no way to them) and how they were found.

    Attributes:
        values: One number for each row.
        origin: Where they come from, in words.
        filtered: The splits that are known to be filtered.
        column: The column that they were made from, if any.
    """

    values: pa.Array | None = None
    origin: str = ""
    filtered: tuple[str, ...] | None = None
    column: str = ""


def read_candidates(
    draft: Draft, columns: Columns, triples: Columns, side: pa.Array, given: Given, *, raw: bool
) -> Candidates:
    """The number of candidates of each query by the first way that is open.

    Example:
        >>> from pathlib import Path
        >>> draft, side = Draft(Path("ranks.csv"), rows=2), pa.array(["head", "tail"])
        >>> columns = {"filtered": pa.array(["3", "0"])}
        >>> read_candidates(draft, columns, {}, side, Given(entities=9), raw=False).values.to_pylist()
        [6, 9]
    """
    if raw and (own := [name for name in ("candidates", "filtered") if name in columns]):
        draft.require("candidates", f"nothing was filtered (raw), but there is a column of {own[0]}: leave out one")
        return Candidates()
    if "candidates" in columns:
        values = read_numbers(draft, "candidates", columns["candidates"], whole=True, nullable=False)
        return Candidates(values, "as in the file", column="candidates")
    if "filtered" in columns and given.num_entities is not None:
        removed = read_numbers(draft, "filtered", columns["filtered"], whole=True, nullable=False)
        draft.malformed |= {"candidates"} if "filtered" in draft.malformed else set()
        values = pc.subtract(given.num_entities, removed)
        return Candidates(values, "entities minus filtered", column="filtered")
    if "filtered" in columns:
        draft.require("candidates", "filtered is known, but not of how many: give the graph or its number of entities")
        return Candidates()
    if raw and given.num_entities is not None:
        return Candidates(pa.array(np.full(draft.rows, given.num_entities)), "all entities (raw)", ())
    if not raw and given.graph is not None and given.graph.has_train:
        return _unknown_answers(draft, triples, side, given.graph)
    draft.require("candidates", _no_candidates(given, raw))
    return Candidates()


def _no_candidates(given: Given, raw: bool) -> str:
    if raw:
        return "nothing was filtered (raw), but of how many entities: give the graph or its number of entities"
    if given.graph is not None:
        return f"no column is the number of candidates, and {given.graph.name} has no training triples to filter by"
    return (
        "no column is the number of candidates: give the graph (--graph), whose known answers then count as filtered; "
        "or the number of entities (--entities) with a column 'filtered', or with --raw if there was no filter"
    )


def _unknown_answers(draft: Draft, triples: Columns, side: pa.Array, graph: KnowledgeGraph) -> Candidates:
    """What is left when the graph's known answers, except the target, are taken away."""
    limits = {"head": graph.num_entities, "relation": graph.num_relations, "tail": graph.num_entities}
    usable = pc.is_valid(side)
    for name, limit in limits.items():
        ids = triples.get(name, pa.nulls(draft.rows, pa.int64()))
        inside = pc.and_(pc.greater_equal(ids, 0), pc.less(ids, limit))
        usable = pc.and_(usable, pc.fill_null(inside, False))
    clear = flags(usable)
    left = np.full(draft.rows, np.nan)
    if clear.any():
        head, relation, tail = (triples[name].filter(usable).to_numpy() for name in limits)
        predicts_tail = flags(pc.equal(side.filter(usable), "tail"))
        known = graph.known_answers()
        left[clear] = graph.num_entities - known.others(head, relation, tail, predicts_tail)
    if not clear.all():
        draft.malformed.add("candidates")  # these rows are refused for another reason
    values = pa.array(left, pa.float64(), from_pandas=True).cast(pa.int64())
    splits = tuple(graph.splits)
    return Candidates(values, f"entities minus known answers of {', '.join(splits)}", splits)
