"""Columns of triples and sides: ids or labels, the predicted side, inverse relations, the splits of triples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.arrays import Flags, codes_of
from kgprobe.ranks.importers.drafts import Draft, all_integers, blank_to_null, is_text, read_numbers
from kgprobe.ranks.metadata import Assumption
from kgprobe.ranks.schema import SIDE_NAMES

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph

Columns = Mapping[str, pa.Array]


def read_side(draft: Draft, column: pa.Array) -> pa.Array:
    """The predicted side as "head" or "tail".

    Example:
        >>> from pathlib import Path
        >>> read_side(Draft(Path("ranks.csv")), pa.array(["h", "Object", "tail-batch"])).to_pylist()
        ['head', 'tail', 'tail']
    """
    text = blank_to_null(column.cast(pa.string()))
    known = pc.index_in(pc.utf8_lower(text), pa.array(list(SIDE_NAMES)))
    unknown = pc.and_(known.is_null(), text.is_valid())
    names = _listed(text.filter(unknown))
    draft.refuse(f"the side is {names}, expected one of {', '.join(SIDE_NAMES)}", unknown, "side")
    return pa.array(list(SIDE_NAMES.values())).take(known)


def read_triples(draft: Draft, columns: Columns, graph: KnowledgeGraph | None, *, labels: bool) -> dict[str, pa.Array]:
    """The ids of heads, relations and tails, which may be given as ids or as labels of the graph.

    Args:
        draft: Collects problems.
        columns: The three columns of the file.
        graph: The graph that has the labels.
        labels: Whether they are labels even if they look like ids.
    """
    found: dict[str, pa.Array] = {}
    for names, kind, known, size in (
        (("head", "tail"), "entity", graph.entity_labels if graph else None, graph.num_entities if graph else None),
        (("relation",), "relation", graph.relation_labels if graph else None, graph.num_relations if graph else None),
    ):
        own = {name: columns[name].cast(pa.string()) if labels else columns[name] for name in names}
        # Head and tail are read alike: entities are not ids on one side and labels on the other.
        texts = [blank_to_null(column.cast(pa.string())) for column in own.values() if is_text(column)]
        if not texts or not (labels or _are_labels(draft, " and ".join(names), texts, known, size)):
            found |= {n: read_numbers(draft, n, column, whole=True, nullable=False) for n, column in own.items()}
        elif known is None:
            example = next((text.drop_null()[0].as_py() for text in texts if len(text.drop_null())), "")
            why = f"{graph.name} has no such labels" if graph else "give the `graph` that has them"
            draft.require(f"labels in {' and '.join(names)}, for example {example!r}: {why}", *names)
        else:
            found |= {name: _look_up(draft, name, column, kind, known) for name, column in own.items()}
    return found


def invert_relations(
    draft: Draft, triples: Columns, graph: KnowledgeGraph | None, side: pa.Array
) -> dict[str, pa.Array]:
    """Triples and sides in which queries (t, r + number of relations, ?) are the head queries (?, r, t).

    Example:
        >>> from pathlib import Path
        >>> from kgprobe.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]])
        >>> given = {"head": pa.array([0, 1]), "relation": pa.array([0, 1]), "tail": pa.array([1, 0])}
        >>> found = invert_relations(Draft(Path("x.csv"), rows=2), given, graph, pa.array(["tail", "tail"]))
        >>> found["head"].to_pylist(), found["relation"].to_pylist(), found["side"].to_pylist()
        ([0, 0], [0, 0], ['tail', 'head'])
    """
    if graph is None:
        draft.require("`inverse_relations=True` needs the `graph`, whose number of relations counts", "side")
        return {**triples, "side": side}
    inverse = pc.fill_null(pc.greater_equal(triples["relation"], graph.num_relations), False)
    draft.refuse(
        "a query of an inverse relation predicts the head; `inverse_relations=True` expects tails",
        pc.and_(inverse, pc.fill_null(pc.equal(side, "head"), False)),
        "side",
    )
    draft.assumed.append(Assumption.inverse_relations)
    return {
        "head": pc.if_else(inverse, triples["tail"], triples["head"]),
        "relation": pc.if_else(inverse, pc.subtract(triples["relation"], graph.num_relations), triples["relation"]),
        "tail": pc.if_else(inverse, triples["head"], triples["tail"]),
        "side": pc.if_else(inverse, "head", side),
    }


def splits_of(graph: KnowledgeGraph, triples: Columns) -> dict[str, Flags]:
    """For each split of the graph, which of the triples are in it.

    Example:
        >>> from kgprobe.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 2]])
        >>> given = {"head": pa.array([1, 2]), "relation": pa.array([0, 0]), "tail": pa.array([2, 1])}
        >>> {split: flags.tolist() for split, flags in splits_of(graph, given).items()}
        {'train': [False, False], 'test': [True, False]}
    """
    ours = [np.asarray(triples[name].to_numpy(zero_copy_only=False)) for name in ("head", "relation", "tail")]
    own, *codes = codes_of([ours, *(list(graph.triples(split).T) for split in graph.splits)])
    return {split: np.isin(own, theirs) for split, theirs in zip(graph.splits, codes, strict=True)}


def _are_labels(draft: Draft, names: str, texts: list[pa.Array], known: pa.Array | None, size: int | None) -> bool:
    if not all_integers(*texts):
        return True
    distinct = pc.unique(pa.concat_arrays(texts)).drop_null()
    if known is None or size is None or not pc.all(pc.is_in(distinct, known)).as_py():
        return False
    # Integers that are also labels may be either.
    ids, positions = distinct.cast(pa.float64()).cast(pa.int64()), pc.index_in(distinct, known).cast(pa.int64())
    if ids.equals(positions):
        return False
    outside = bool(pc.any(pc.greater_equal(ids, size)).as_py())
    draft.notes.append(
        f"{names} were read as labels: they are not ids of the graph"
        if outside
        else f"{names} were read as ids, though they are also labels; `labels=True` reads them as labels"
    )
    return outside


def _look_up(draft: Draft, name: str, column: pa.Array, kind: str, known: pa.Array) -> pa.Array:
    text, known = blank_to_null(column.cast(pa.string())), known.cast(pa.string())
    ids = pc.index_in(text, known)
    counts = pc.value_counts(known.drop_null())
    shared = counts.field(0).filter(pc.greater(counts.field(1), 1))
    for problem, wrong in (
        (f"{name} is not a known {kind}", pc.and_(ids.is_null(), text.is_valid())),
        (f"{name} is a label of several ids", pc.is_in(text, shared)),
    ):
        draft.refuse(f"{problem}: {_listed(text.filter(wrong))}", wrong, name)
    return ids.cast(pa.int64())


def _listed(values: pa.Array, most: int = 20) -> str:
    distinct = pc.unique(values).to_pylist()
    more = f" and {len(distinct) - most:,} more" if len(distinct) > most else ""
    return ", ".join(map(repr, distinct[:most])) + more
