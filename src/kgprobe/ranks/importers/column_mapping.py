"""Which columns of a foreign table hold the triple, the side, the rank, the ties and the candidates; wide tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.arrays import Floats
from kgprobe.errors import nearest
from kgprobe.ranks.importers.drafts import Draft, ImportOptions, flags, read_numbers
from kgprobe.ranks.metadata import Assumption, Basis, CandidatesInfo
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

_OF_QUERIES = ("rank", "ties", "worst_rank", "candidates", "optimistic", "pessimistic", "greater", "equal", "filtered")
"""Columns that a wide table has for each side."""

_SIDES = ("head", "tail")
WIDE = {f"{side}_{column}": (side, column) for side in _SIDES for column in _OF_QUERIES}
"""Side and canonical column of each column of a wide table, which has both queries of a triple in a row."""


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
        f"{name!r} is not a column of a rank table{nearest(name, (*SYNONYMS, *WIDE))}"
        for name in mapping
        if name not in SYNONYMS and name not in WIDE
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
    free = {name: _normalised(name) for name in names if name not in mapping.values()}
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


def _normalised(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def wide_columns(names: Sequence[str], mapping: Mapping[str, str]) -> dict[str, str]:
    """The columns of a wide table by their names in `WIDE`; empty for a table with one query per row.

    A table is wide if it has ranks of a side (``head_rank``, ``rank_tail``, ``lhs_rank``, ...) and no column of sides.

    Example:
        >>> wide_columns(["h", "r", "t", "rank_subject", "Tail Rank"], {})
        {'head_rank': 'rank_subject', 'tail_rank': 'Tail Rank'}
        >>> wide_columns(["h", "r", "t", "side", "rank", "head_rank"], {})
        {}
    """
    chosen = {name: source for name, source in mapping.items() if name in WIDE and source in names}
    free = [name for name in names if name not in mapping.values()]
    if not chosen and ("side" in mapping or "side" in find_columns(names, {}).found):
        return {}
    found = {}
    for wide, (side, column) in WIDE.items():
        words = [word for word, meant in SIDE_NAMES.items() if meant == side]
        quantities = (column, *SYNONYMS[column])
        usual = {f"{w}_{q}" for w in words for q in quantities} | {f"{q}_{w}" for w in words for q in quantities}
        own = [name for name in free if _normalised(name) in usual]
        if wide in chosen or own:
            found[wide] = chosen.get(wide) or own[0]
    ranked = {column for _, column in map(WIDE.__getitem__, found)} & {name for recipe in RECIPES for name in recipe}
    return found if ranked else {}


def to_long(table: pa.Table, wide: Mapping[str, str]) -> pa.Table:
    """A wide table with one query per row: the head and the tail query of its first row, then those of its second.

    Example:
        >>> table = pa.table({"h": [7, 8], "tr": [1, 2], "hr": [3, 4]})
        >>> to_long(table, {"head_rank": "hr", "tail_rank": "tr"}).to_pydict()
        {'h': [7, 7, 8, 8], 'side': ['head', 'tail', 'head', 'tail'], 'rank': [3, 1, 4, 2]}
    """
    sides = [side for side in _SIDES if any(WIDE[name][0] == side for name in wide)]
    own = dict.fromkeys(WIDE[name][1] for name in wide)
    taken = {*own, "side"}
    shared = [(i, name) for i, name in enumerate(table.column_names) if name not in wide.values()]
    names = [label_name(name) if name in taken else name for _, name in shared]
    parts = []
    for side in sides:
        columns = [table.column(i) for i, _ in shared] + [pa.repeat(side, table.num_rows)]
        for column in own:
            source = wide.get(f"{side}_{column}")
            columns.append(pa.nulls(table.num_rows) if source is None else table.column(source))
        parts.append(pa.table(columns, names=[*names, "side", *own]))
    rows = np.arange(len(sides) * table.num_rows).reshape(len(sides), -1).T.ravel()
    # Columns may occur twice, so the parts are joined by position.
    joined = [_joined([part.column(i) for part in parts]) for i in range(parts[0].num_columns)]
    return pa.table(joined, names=parts[0].column_names).take(pa.array(rows))


def _joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Columns one after the other; as text, if their types differ."""
    try:
        tables = [pa.table({"column": column}) for column in columns]
        return pa.concat_tables(tables, promote_options="permissive").column("column")
    except pa.ArrowException:
        values = [value for column in columns for value in column.to_pylist()]
        return pa.chunked_array([pa.array([None if value is None else str(value) for value in values], pa.string())])


def with_tie(naming: Naming, tie: str) -> Naming:
    """The columns with that of the ranks taken for optimistic or pessimistic ranks, as the user says.

    Example:
        >>> with_tie(Naming({"rank": "position"}), "optimistic").found
        {'optimistic': 'position'}
    """
    if tie == "mean" or "rank" not in naming.found:
        return naming
    if tie in naming.found:
        both = f"{naming.found['rank']!r} and {naming.found[tie]!r}"
        return replace(naming, problems=[*naming.problems, f"{both} may both be {tie}: choose one with `columns`"])
    found = {tie if column == "rank" else column: source for column, source in naming.found.items()}
    return replace(naming, found=found, chosen=naming.chosen | ({tie} if "rank" in naming.chosen else set()))


def missing_columns(naming: Naming, names: Sequence[str], required: Sequence[str], tie: str) -> list[str]:
    """The required columns that were not found, and the names that were tried.

    A column that the user named has its own message if it does not exist.
    """
    absent = [name for name in required if name not in naming.found and name not in naming.chosen]
    problems = [_not_found(name) for name in absent]
    sought = naming.chosen - naming.found.keys()
    if choose_recipe(naming, tie) is None and not sought & {"rank", "optimistic", "pessimistic", "greater", "equal"}:
        problems.append(
            f"{_not_found('rank')}, and no optimistic and pessimistic, or greater and equal, or head_rank and tail_rank"
        )
        problems += [
            f"column {naming.found[kind]!r} has {kind} ranks: `tie='{kind}'` keeps them, if their ties are unknown"
            for kind in ("optimistic", "pessimistic")
            if kind in naming.found
        ]
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


def _from_best(best: Floats, ties: Floats) -> tuple[Floats, Floats]:
    return best + np.nan_to_num(ties) / 2, ties


def _from_worst(worst: Floats, ties: Floats) -> tuple[Floats, Floats]:
    return worst - np.nan_to_num(ties) / 2, ties


RECIPES: dict[tuple[str, ...], Callable[..., tuple[Floats, Floats | None]]] = {
    ("optimistic", "pessimistic"): _from_bounds,
    ("greater", "equal"): _from_counts,
    ("greater", "ties"): _from_counts,
    ("optimistic", "worst_rank"): _from_bounds,
    ("rank", "ties"): lambda rank, ties: (rank, ties),
    ("rank",): lambda rank: (rank, None),
    ("optimistic", "ties"): _from_best,
    ("optimistic", "equal"): _from_best,
    ("pessimistic", "ties"): _from_worst,
    ("pessimistic", "equal"): _from_worst,
    ("optimistic",): lambda best: (best, None),
    ("pessimistic",): lambda worst: (worst, None),
}
"""Columns that give the rank and the ties (None: not recorded), in order of preference."""


_MOST_TIES = 2.0**53
_WHOLE = ("greater", "equal", "ties", "seed", "candidates", "filtered")
_RANKS = ("rank", "optimistic", "pessimistic", "worst_rank")


def choose_recipe(naming: Naming, tie: str = "mean") -> tuple[str, ...] | None:
    """The first recipe whose columns were all found; recipes with a column that the user named come first.

    Optimistic or pessimistic ranks without ties are taken only if the user says so.
    """
    allowed = [sources for sources in RECIPES if sources[0] in ("rank", tie) or len(sources) > 1]
    preferred = sorted(allowed, key=lambda sources: not naming.chosen.intersection(sources))
    return next((sources for sources in preferred if naming.found.keys() >= set(sources)), None)


def read_quantity(draft: Draft, name: str, column: pa.Array, options: ImportOptions, *, nullable: bool) -> pa.Array:
    """A column of numbers; ranks that count from 0 are made to count from 1."""
    numbers = read_numbers(draft, name, column, whole=name in _WHOLE, nullable=nullable)
    return pc.add(numbers, 1) if options.zero_based and name in _RANKS else numbers


def apply_recipe(
    draft: Draft, columns: Columns, sources: tuple[str, ...], options: ImportOptions
) -> dict[str, pa.Array]:
    """Rank, and ties if they are recorded.

    Example:
        >>> from pathlib import Path
        >>> columns = {"greater": pa.array([0, 4]), "equal": pa.array([1, 0])}
        >>> found = apply_recipe(Draft(Path("ranks.csv")), columns, ("greater", "equal"), ImportOptions())
        >>> found["rank"].to_pylist(), found["ties"].to_pylist()
        ([1.5, 5.0], [1, 0])
    """
    arrays = {name: read_quantity(draft, name, columns[name], options, nullable=name == "ties") for name in sources}
    if options.zero_based and not set(sources) & set(_RANKS):
        draft.require(f"`zero_based=True` is about ranks, but they come from {' and '.join(sources)}: leave it out")
    numbers = [np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64) for array in arrays.values()]
    needed = sources[:1] if sources[-1] == "ties" and sources[0] != "greater" else sources
    if draft.malformed.intersection(needed):
        draft.malformed.add("rank")
    with np.errstate(over="ignore"):  # ranks that large are refused
        rank, ties = RECIPES[sources](*numbers)
    # Null where a number is missing. A NaN in the file stays NaN and is refused later.
    missing = np.any([flags(arrays[name].is_null()) for name in needed], axis=0)
    found = {"rank": pa.array(rank, mask=np.isnan(rank) & missing)}
    draft.assumed += _assumed(sources, ties, options)
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


def _assumed(sources: tuple[str, ...], ties: Floats | None, options: ImportOptions) -> list[Assumption]:
    """What is taken for granted about ranks that come from these columns."""
    assumed = [Assumption.zero_based] if options.zero_based else []
    if "pessimistic" not in sources and "worst_rank" not in sources and "optimistic" in sources:
        assumed.append(Assumption.optimistic_ranks)
    elif "optimistic" not in sources and "pessimistic" in sources:
        assumed.append(Assumption.pessimistic_ranks)
    elif ties is None or np.isnan(ties).any():
        assumed.append(Assumption.mean_ranks)
    return assumed


def agrees(draft: Draft, name: str, column: pa.Array, derived: pa.Array | None) -> bool:
    """Whether a column that the recipe did not use equals what was derived; a difference is noted."""
    if derived is None:
        return False
    own = read_numbers(Draft(draft.path), name, column, whole=False, nullable=True)
    differing = pc.sum(pc.fill_null(pc.not_equal(own, derived.cast(pa.float64())), True)).as_py()
    if differing:
        draft.notes.append(f"column {name!r} differs in {differing:,} rows; kept as {label_name(name)!r}")
    return not differing


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
        numbers = read_quantity(draft, source, columns[source], options, nullable=False)
        if source in draft.malformed:
            draft.malformed.add("candidates")
        draft.columns["candidates"] = numbers if source == "candidates" else pc.subtract(size, numbers)
        counted = "as in the file" if source == "candidates" else "entities minus filtered"
        draft.candidates = CandidatesInfo(Basis.recorded, counted=counted)
    elif options.raw and size is not None:
        draft.columns["candidates"] = pa.array(np.full(draft.rows, size))
        draft.candidates, draft.filtered = CandidatesInfo(Basis.assumed, counted="all entities (raw)"), ()
        draft.assumed.append(Assumption.unfiltered)
    elif not options.raw and not source and graph is not None and graph.has_train:
        draft.columns["candidates"] = _remaining(draft, triples, side, graph)
        counted = f"entities minus known answers of {', '.join(graph.splits)}"
        draft.candidates = CandidatesInfo(Basis.assumed, counted=counted)
        draft.assumed.append(Assumption.filtered)
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
