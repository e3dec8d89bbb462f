"""Which columns of a foreign table hold the triple, the side, the rank, the ties and the number of candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.arrays import Floats
from kgprobe.errors import nearest
from kgprobe.ranks.importers.drafts import (
    Draft,
    ImportOptions,
    all_integers,
    blank_to_null,
    flags,
    is_text,
    read_numbers,
)
from kgprobe.ranks.metadata import Basis, CandidatesInfo
from kgprobe.ranks.schema import COLUMNS, SIDE_NAMES

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph

Columns = Mapping[str, pa.Array]

SYNONYMS: dict[str, tuple[str, ...]] = {
    "head": ("h", "subject", "subj", "s", "head_id", "head_label"),
    "relation": ("r", "rel", "predicate", "pred", "p", "relation_id", "relation_label"),
    "tail": ("t", "object", "obj", "o", "tail_id", "tail_label"),
    "side": ("predicted", "predicted_side", "direction", "target_side", "mode"),
    "rank": ("mean_rank", "realistic_rank", "realistic", "filtered_rank"),
    "ties": ("num_ties", "n_ties"),
    "worst_rank": (),
    "candidates": ("num_candidates", "n_candidates", "number_of_candidates", "number_of_options"),
    "entity_popularity": ("delta_e",),
    "relation_popularity": ("delta_r_e", "delta_r"),
    "seed": ("random_seed",),
    "optimistic": ("optimistic_rank", "best_rank"),
    "pessimistic": ("pessimistic_rank",),
    "greater": ("num_greater", "better", "num_better"),
    "equal": ("num_equal",),
    "filtered": ("num_filtered", "n_filtered", "number_of_filtered"),
}
"""The columns that a foreign table may have, and the other names under which each is recognised.

Beyond the columns of a rank table: ``optimistic`` and ``pessimistic`` ranks, or the numbers of other candidates
that scored ``greater`` than the target and ``equal`` to it, in place of rank and ties; and how many entities
were ``filtered``, in place of candidates.
"""


@dataclass(frozen=True)
class Naming:
    """The columns of a foreign table by what they hold.

    Attributes:
        found: Name in the file of each canonical column.
        chosen: The canonical columns that the user named.
        problems: Errors in the names.
    """

    found: dict[str, str] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list)


def mapping_problems(mapping: Mapping[str, str]) -> list[str]:
    """Unknown columns, and columns of the file that are named twice.

    Example:
        >>> mapping_problems({"rnak": "position"})
        ["'rnak' is not a column of a rank table; nearest: rank"]
    """
    sources = list(mapping.values())
    problems = [
        f"{name!r} is not a column of a rank table{nearest(name, SYNONYMS)}" for name in mapping if name not in SYNONYMS
    ]
    return problems + [
        f"column {source!r} is named for several columns: {', '.join(c for c, s in mapping.items() if s == source)}"
        for source in dict.fromkeys(sources)
        if sources.count(source) > 1
    ]


def find_columns(names: Sequence[str], mapping: Mapping[str, str]) -> Naming:
    """Find each canonical column: by the user's mapping, else by its own name, else by a synonym.

    Example:
        >>> find_columns(["Subject", "p", "o", "position"], {"rank": "position"}).found
        {'rank': 'position', 'head': 'Subject', 'relation': 'p', 'tail': 'o'}
    """
    found, problems = {}, mapping_problems(mapping)
    for column, source in mapping.items():
        if source in names:
            found[column] = source
        else:
            problems.append(f"there is no column {source!r} to take as {column}{nearest(source, names)}")
    problems += [f"column {name!r} occurs twice" for name, often in Counter(names).items() if often > 1]
    free = {name: name.lower().replace("-", "_").replace(" ", "_") for name in names if name not in mapping.values()}
    for column, synonyms in SYNONYMS.items():
        if column in mapping:
            continue
        own = [name for name, normalised in free.items() if normalised == column]
        usual = own or [name for name, normalised in free.items() if normalised in synonyms]
        if len(usual) > 1:
            problems.append(f"{' and '.join(map(repr, usual))} may both be {column}: choose one with `columns`")
        elif usual:
            found[column] = usual[0]
    return Naming(found, frozenset(mapping), problems)


def missing_columns(naming: Naming, names: Sequence[str]) -> list[str]:
    """The required columns that were not found, and the names that were tried.

    A column that the user named has its own message if it does not exist.
    """
    absent = [n for n in ("head", "relation", "tail", "side") if n not in naming.found and n not in naming.chosen]
    problems = [_not_found(name) for name in absent]
    chosen = naming.chosen & {"rank", "optimistic", "pessimistic", "greater", "equal"}
    if choose_recipe(naming) is None and not chosen:
        problems.append(f"{_not_found('rank')}, and no optimistic and pessimistic, or greater and equal")
    if problems:
        doubt = ": is `format` correct?" if len(names) == 1 else ""
        problems.append(f"the columns found are: {', '.join(names) or 'none'}{doubt}")
    return problems


def _not_found(column: str) -> str:
    return f"no column for {column} (tried: {', '.join((column, *SYNONYMS[column]))})"


def label_name(name: str) -> str:
    """The name of a label column, which must not be that of a canonical column.

    Example:
        >>> label_name("position"), label_name("rank")
        ('position', 'source_rank')
    """
    return f"source_{name}" if name in COLUMNS else name


def _from_bounds(best: Floats, worst: Floats) -> tuple[Floats, Floats]:
    return (best + worst) / 2, worst - best


def _from_counts(greater: Floats, equal: Floats) -> tuple[Floats, Floats]:
    return 1 + greater + equal / 2, equal


RECIPES: dict[tuple[str, ...], Callable[..., tuple[Floats, Floats | None]]] = {
    ("optimistic", "pessimistic"): _from_bounds,
    ("greater", "equal"): _from_counts,
    ("greater", "ties"): _from_counts,
    ("optimistic", "worst_rank"): _from_bounds,
    ("rank", "ties"): lambda rank, ties: (rank, ties),
    ("rank",): lambda rank: (rank, None),
}
"""Columns that give the rank and the ties (None: not recorded), in order of preference."""


_MOST_TIES = 2.0**53


def choose_recipe(naming: Naming) -> tuple[str, ...] | None:
    """The first recipe whose columns were all found; recipes with a column that the user named come first."""
    preferred = sorted(RECIPES, key=lambda sources: not naming.chosen.intersection(sources))
    return next((sources for sources in preferred if naming.found.keys() >= set(sources)), None)


def apply_recipe(draft: Draft, columns: Columns, sources: tuple[str, ...]) -> dict[str, pa.Array]:
    """Rank, and ties if they are recorded.

    Example:
        >>> from pathlib import Path
        >>> columns = {"greater": pa.array([0, 4]), "equal": pa.array([1, 0])}
        >>> found = apply_recipe(Draft(Path("ranks.csv")), columns, ("greater", "equal"))
        >>> found["rank"].to_pylist(), found["ties"].to_pylist()
        ([1.5, 5.0], [1, 0])
    """
    arrays = {
        name: read_numbers(
            draft, name, columns[name], whole=name in ("greater", "equal", "ties"), nullable=name == "ties"
        )
        for name in sources
    }
    numbers = [np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64) for array in arrays.values()]
    needed = ("rank",) if "rank" in sources else sources
    if draft.malformed.intersection(needed):
        draft.malformed.add("rank")
    with np.errstate(over="ignore"):  # ranks that large are refused
        rank, ties = RECIPES[sources](*numbers)
    # Null where a number is missing. A NaN in the file stays NaN and is refused later.
    missing = np.any([flags(arrays[name].is_null()) for name in needed], axis=0)
    found = {"rank": pa.array(rank, mask=np.isnan(rank) & missing)}
    if ties is None:
        return found
    fractional, absurd = np.floor(ties) != ties, np.abs(ties) >= _MOST_TIES
    fractional &= ~np.isnan(ties)
    draft.refuse(f"{' and '.join(sources)} give a fractional number of ties", fractional & ~absurd, "ties")
    draft.refuse(f"{' and '.join(sources)} give more ties than any graph has entities", absurd, "ties")
    found["ties"] = pa.array(np.where(fractional | absurd, np.nan, ties), from_pandas=True).cast(pa.int64())
    if "equal" in sources and len(ties) and np.nanmin(ties, initial=np.inf) >= 1:
        draft.notes.append("equal is at least 1 in every row: it must not count the target itself")
    return found


def agrees(draft: Draft, name: str, column: pa.Array, derived: pa.Array | None) -> bool:
    """Whether a column that the recipe did not use equals what was derived; a difference is noted."""
    if derived is None:
        return False
    own = read_numbers(Draft(draft.path), name, column, whole=False, nullable=True)
    differing = pc.sum(pc.fill_null(pc.not_equal(own, derived.cast(pa.float64())), True)).as_py()
    if differing:
        draft.notes.append(f"column {name!r} differs in {differing:,} rows; kept as {label_name(name)!r}")
    return not differing


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


def read_candidates(draft: Draft, columns: Columns, triples: Columns, side: pa.Array, options: ImportOptions) -> str:
    """Add the number of candidates of each query; returns the name of the column that gave it, if any.

    Example:
        >>> from pathlib import Path
        >>> draft, side = Draft(Path("ranks.csv"), rows=2), pa.array(["head", "tail"])
        >>> read_candidates(draft, {"filtered": pa.array(["3", "0"])}, {}, side, ImportOptions(num_entities=9))
        'filtered'
        >>> draft.columns["candidates"].to_pylist()
        [6, 9]
    """
    graph, size = options.graph, options.size
    source = next((name for name in ("candidates", "filtered") if name in columns), "")
    if options.raw and source:
        draft.require(f"`raw=True` means unfiltered, but there is a column of {source}: leave out one", "candidates")
    elif source == "candidates" or (source and size is not None):
        numbers = read_numbers(draft, source, columns[source], whole=True, nullable=False)
        if source in draft.malformed:
            draft.malformed.add("candidates")
        draft.columns["candidates"] = numbers if source == "candidates" else pc.subtract(size, numbers)
        counted = "as in the file" if source == "candidates" else "entities minus filtered"
        draft.candidates = CandidatesInfo(Basis.recorded, counted=counted)
    elif options.raw and size is not None:
        draft.columns["candidates"] = pa.array(np.full(draft.rows, size))
        draft.candidates, draft.filtered = CandidatesInfo(Basis.assumed, counted="all entities (raw)"), ()
    elif not options.raw and not source and graph is not None and graph.has_train:
        draft.columns["candidates"] = _remaining(draft, triples, side, graph)
        counted = f"entities minus known answers of {', '.join(graph.splits)}"
        draft.candidates = CandidatesInfo(Basis.assumed, counted=counted)
        draft.filtered = tuple(graph.splits)
    elif source or options.raw:
        what = "the number of filtered entities is known" if source else "`raw=True` means unfiltered"
        draft.require(f"{what}, but not the number of entities: give `graph` or `num_entities`", "candidates")
    elif graph is not None:
        draft.require(f"no column for the number of candidates, and {graph.name} has no training triples", "candidates")
    else:
        draft.require(
            "no column for the number of candidates: give `graph`, whose known answers then count as filtered; or "
            "`num_entities` with a column 'filtered', or with `raw=True` if the ranks are unfiltered",
            "candidates",
        )
    return source


def _remaining(draft: Draft, triples: Columns, side: pa.Array, graph: KnowledgeGraph) -> pa.Array:
    """Number of entities minus the known answers of each query other than the target."""
    limits = {"head": graph.num_entities, "relation": graph.num_relations, "tail": graph.num_entities}
    usable = side.is_valid()
    for name, limit in limits.items():
        ids = triples.get(name, pa.nulls(draft.rows, pa.int64()))
        inside = pc.and_(pc.greater_equal(ids, 0), pc.less(ids, limit))
        usable = pc.and_(usable, pc.fill_null(inside, False))
    rows = flags(usable)
    counts = np.full(draft.rows, np.nan)
    if rows.any():
        head, relation, tail = (triples[name].filter(usable).to_numpy() for name in limits)
        predicts_tail = flags(pc.equal(side.filter(usable), "tail"))
        counts[rows] = graph.num_entities - graph.known_answers().others(head, relation, tail, predicts_tail)
    if not rows.all():
        draft.malformed.add("candidates")  # these rows are refused for another reason
    return pa.array(counts, from_pandas=True).cast(pa.int64())
