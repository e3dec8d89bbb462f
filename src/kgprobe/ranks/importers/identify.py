"""Heads, relations, tails and sides of a foreign table, by the graph's ids and the two sides' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.values import all_whole, flags, is_text, read_numbers
from kgprobe.ranks.schema import SIDE_NAMES

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph

_LABELS_SHOWN = 20


def read_side(draft: Draft, column: pa.Array) -> pa.Array:
    """The predicted side under its own name.

    Example:
        >>> from pathlib import Path
        >>> read_side(Draft(Path("ranks.csv")), pa.array(["h", "Object", "tail-batch"])).to_pylist()
        ['head', 'tail', 'tail']
    """
    text = _without_blanks(column.cast(pa.string()))
    known = pc.index_in(pc.utf8_lower(text), pa.array(list(SIDE_NAMES)))
    unknown = pc.and_(pc.is_null(known), pc.is_valid(text))
    if pc.any(unknown).as_py():
        names = _listed(text.filter(unknown))
        draft.refuse("side", f"the side is none of {', '.join(SIDE_NAMES)}, but {names}", flags(unknown))
    return pa.array(list(SIDE_NAMES.values())).take(known)


def read_triples(
    draft: Draft, columns: Mapping[str, pa.Array], graph: KnowledgeGraph | None, *, labels: bool
) -> dict[str, pa.Array]:
    """The ids of heads, relations and tails, which may be numbers or the labels that the graph has.

    Args:
        draft: Where problems go.
        columns: The three columns as they are.
        graph: The graph whose labels are meant.
        labels: Whether they are labels even where they look like ids.
    """
    entities = graph.entity_labels if graph else None
    relations = graph.relation_labels if graph else None
    sizes = (graph.num_entities, graph.num_relations) if graph else (None, None)
    found: dict[str, pa.Array] = {}
    for names, kind, known, size in (
        (("head", "tail"), "entity", entities, sizes[0]),
        (("relation",), "relation", relations, sizes[1]),
    ):
        own = {name: columns[name].cast(pa.string()) if labels else columns[name] for name in names}
        # Head and tail are read alike: an entity cannot be an id on one side and a label on the other.
        texts = [_without_blanks(column) for column in own.values() if is_text(column)]
        if not texts or not _are_labels(draft, " and ".join(names), texts, known, size, labels):
            found |= {n: read_numbers(draft, n, column, whole=True, nullable=False) for n, column in own.items()}
        elif known is None:
            example = next((text.drop_null()[0].as_py() for text in texts if len(text.drop_null())), "")
            why = f"{graph.name} has no labels of that kind" if graph else "give the graph that has these labels"
            draft.require(names[0], f"labels in {' and '.join(names)}, for example {example!r}: {why}")
            draft.malformed |= set(names)
        else:
            found |= {name: _look_up(draft, name, column, kind, known) for name, column in own.items()}
    return found


def _are_labels(
    draft: Draft, names: str, texts: list[pa.Array], known: pa.Array | None, size: int | None, labels: bool
) -> bool:
    if labels or not all_whole(*texts):
        return True
    distinct = pc.unique(pa.concat_arrays(texts)).drop_null()
    if known is None or size is None or not pc.all(pc.is_in(distinct, known)).as_py():
        return False
    # Whole numbers that are also labels: they may be either.
    ids, places = distinct.cast(pa.float64()).cast(pa.int64()), pc.index_in(distinct, known).cast(pa.int64())
    if ids.equals(places):
        return False
    outside = bool(pc.any(pc.greater_equal(ids, size)).as_py())
    draft.notes.append(
        f"{names} were read as labels: they are no ids of the graph"
        if outside
        else f"{names} were read as ids, though they are also labels; --labels reads them as labels"
    )
    return outside


def _look_up(draft: Draft, name: str, column: pa.Array, kind: str, known: pa.Array) -> pa.Array:
    text = _without_blanks(column.cast(pa.string()))
    places = pc.index_in(text, known.cast(pa.string()))
    unknown = pc.and_(pc.is_null(places), pc.is_valid(text))
    if pc.any(unknown).as_py():
        draft.refuse(name, f"{name} is no {kind} of the graph: {_listed(text.filter(unknown))}", flags(unknown))
    counts = pc.value_counts(known.drop_null())
    shared = counts.field(0).filter(pc.greater(counts.field(1), 1))
    unclear = pc.is_in(text, shared.cast(pa.string()))
    if pc.any(unclear).as_py():
        draft.refuse(
            name, f"{name} has a label that several ids share: {_listed(text.filter(unclear))}", flags(unclear)
        )
    return places.cast(pa.int64())


def _without_blanks(column: pa.Array) -> pa.Array:
    # Only what is empty: an entity may well be called "NA".
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _listed(values: pa.Array) -> str:
    distinct = pc.unique(values).to_pylist()
    more = f" and {len(distinct) - _LABELS_SHOWN:,} more" if len(distinct) > _LABELS_SHOWN else ""
    return ", ".join(map(repr, distinct[:_LABELS_SHOWN])) + more
