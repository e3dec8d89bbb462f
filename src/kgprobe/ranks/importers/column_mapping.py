"""Which columns of a foreign table hold the triple, the side, the rank, the ties and the number of candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.arrays import Floats
from kgprobe.errors import nearest
from kgprobe.ranks.importers.drafts import Draft, Given
from kgprobe.ranks.importers.foreign_files import all_whole, flags, is_text, read_numbers
from kgprobe.ranks.schema import COLUMNS, SIDE_NAMES

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


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

"""The columns that a foreign table may have, with the names under which each is found unasked.

Beyond the columns of a rank table: ``optimistic`` and ``pessimistic`` ranks, or the numbers of other candidates
that scored ``greater`` than the target and ``equal`` to it, in place of rank and ties; and how many entities
were ``filtered``, in place of candidates.
"""


@dataclass(frozen=True)
class Naming:
    """What was found.

    Attributes:
        found: The source column of each canonical one.
        chosen: The canonical columns that the user named.
        problems: What is wrong with the names.
    """

    found: dict[str, str] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list)

    def has(self, *columns: str) -> bool:
        """Whether all these canonical columns were found."""
        return all(column in self.found for column in columns)


def mapping_problems(mapping: Mapping[str, str]) -> list[str]:
    """Columns that no rank table has, and source columns named twice.

    Example:
        >>> mapping_problems({"rnak": "position"})
        ["'rnak' is not a column of a rank table; nearest: rank"]
    """
    sources = list(mapping.values())
    problems = [
        f"{name!r} is not a column of a rank table{nearest(name, SYNONYMS)}" for name in mapping if name not in SYNONYMS
    ]
    return problems + [
        f"column {source!r} is named for several: {', '.join(c for c, s in mapping.items() if s == source)}"
        for source in dict.fromkeys(sources)
        if sources.count(source) > 1
    ]


def find_columns(names: Sequence[str], mapping: Mapping[str, str]) -> Naming:
    """Find each canonical column: where the user says, else by its own name, else by a usual one.

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
    problems += [f"column {name!r} occurs twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    free = [name for name in dict.fromkeys(names) if name not in mapping.values()]
    for column, synonyms in SYNONYMS.items():
        if column in mapping:
            continue
        own = [name for name in free if _plain(name) == column]
        usual = own or [name for name in free if _plain(name) in synonyms]
        if len(usual) > 1:
            both = " and ".join(map(repr, usual))
            problems.append(f"{both} may all be the {column}: choose one with --map {column}=COLUMN")
        elif usual:
            found[column] = usual[0]
    return Naming(found, frozenset(mapping), problems)


def missing_column(column: str) -> str:
    """Say that a column is missing, and under which names it was looked for."""
    return f"no column is the {column} (looked for: {', '.join((column, *SYNONYMS[column]))})"


def label_name(name: str) -> str:
    """The name under which a column is kept that has no other meaning.

    Example:
        >>> label_name("position"), label_name("rank")
        ('position', 'source_rank')
    """
    return f"source_{name}" if name in COLUMNS else name


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


Columns = Mapping[str, pa.Array]

_COUNTS = ("greater", "equal", "ties")

_NULLABLE = ("ties",)


@dataclass(frozen=True)
class Recipe:
    """Columns that give rank and ties, and how; without ``ties`` they are not recorded."""

    sources: tuple[str, ...]
    rank: Callable[..., Floats]
    ties: Callable[..., Floats] | None

    @property
    def rank_sources(self) -> tuple[str, ...]:
        """The columns without which there is no rank."""
        return ("rank",) if "rank" in self.sources else self.sources


RECIPES = (
    Recipe(("optimistic", "pessimistic"), lambda best, worst: (best + worst) / 2, lambda best, worst: worst - best),
    Recipe(("greater", "equal"), lambda greater, equal: 1 + greater + equal / 2, lambda _greater, equal: equal),
    Recipe(("greater", "ties"), lambda greater, ties: 1 + greater + ties / 2, lambda _greater, ties: ties),
    Recipe(("optimistic", "worst_rank"), lambda best, worst: (best + worst) / 2, lambda best, worst: worst - best),
    Recipe(("rank", "ties"), lambda rank, _ties: rank, lambda _rank, ties: ties),
    Recipe(("rank",), lambda rank: rank, None),
)

"""In order of preference; what the user has named himself comes first."""


def choose_recipe(naming: Naming) -> Recipe | None:
    """The first recipe whose columns are all there."""
    preferred = sorted(RECIPES, key=lambda recipe: not naming.chosen.intersection(recipe.sources))
    return next((recipe for recipe in preferred if naming.has(*recipe.sources)), None)


def apply_recipe(draft: Draft, columns: Columns, recipe: Recipe) -> dict[str, pa.Array]:
    """Rank, and ties where they are known.

    Example:
        >>> from pathlib import Path
        >>> columns = {"greater": pa.array([0, 4]), "equal": pa.array([1, 0])}
        >>> found = apply_recipe(Draft(Path("ranks.csv")), columns, RECIPES[1])
        >>> found["rank"].to_pylist(), found["ties"].to_pylist()
        ([1.5, 5.0], [1, 0])
    """
    columns = {name: _numbers(draft, name, columns[name]) for name in recipe.sources}
    numbers = [np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64) for column in columns.values()]
    if draft.malformed.intersection(recipe.rank_sources):
        draft.malformed.add("rank")
    rank = recipe.rank(*numbers)
    # Null where a number is missing; a NaN that stands in the file remains one, and is refused as such.
    missing = np.any([flags(columns[name].is_null()) for name in recipe.rank_sources], axis=0)
    found = {"rank": pa.array(rank, mask=np.isnan(rank) & missing)}
    if recipe.ties is None:
        return found
    ties = recipe.ties(*numbers)
    odd = ~np.isnan(ties) & (ties % 1 != 0)
    draft.refuse("ties", f"{' and '.join(recipe.sources)} give no whole number of ties", odd)
    found["ties"] = pa.array(np.where(odd, np.nan, ties), pa.float64(), from_pandas=True).cast(pa.int64())
    if "equal" in recipe.sources and len(ties) and np.nanmin(ties, initial=np.inf) >= 1:
        draft.notes.append("equal is at least 1 in every row: it must not count the target itself")
    return found


def agrees(draft: Draft, name: str, column: pa.Array, derived: pa.Array | None) -> bool:
    """Whether a column that the recipe did not need says what was derived without it."""
    if derived is None:
        return False
    own = read_numbers(Draft(draft.path, draft.rows), name, column, whole=False, nullable=True)
    differing = pc.sum(pc.fill_null(pc.not_equal(own, derived.cast(pa.float64())), True)).as_py()
    if differing:
        draft.notes.append(f"column {name!r} says otherwise in {differing:,} rows; kept as {label_name(name)!r}")
    return not differing


def _numbers(draft: Draft, name: str, column: pa.Array) -> pa.Array:
    return read_numbers(draft, name, column, whole=name in _COUNTS, nullable=name in _NULLABLE).cast(pa.float64())


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


@dataclass(frozen=True)
class CandidateCounts:
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
) -> CandidateCounts:
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
        return CandidateCounts()
    if "candidates" in columns:
        values = read_numbers(draft, "candidates", columns["candidates"], whole=True, nullable=False)
        return CandidateCounts(values, "as in the file", column="candidates")
    if "filtered" in columns and given.num_entities is not None:
        removed = read_numbers(draft, "filtered", columns["filtered"], whole=True, nullable=False)
        draft.malformed |= {"candidates"} if "filtered" in draft.malformed else set()
        values = pc.subtract(given.num_entities, removed)
        return CandidateCounts(values, "entities minus filtered", column="filtered")
    if "filtered" in columns:
        draft.require("candidates", "filtered is known, but not of how many: give the graph or its number of entities")
        return CandidateCounts()
    if raw and given.num_entities is not None:
        return CandidateCounts(pa.array(np.full(draft.rows, given.num_entities)), "all entities (raw)", ())
    if not raw and given.graph is not None and given.graph.has_train:
        return _unknown_answers(draft, triples, side, given.graph)
    draft.require("candidates", _no_candidates(given, raw))
    return CandidateCounts()


def _no_candidates(given: Given, raw: bool) -> str:
    if raw:
        return "nothing was filtered (raw), but of how many entities: give the graph or its number of entities"
    if given.graph is not None:
        return f"no column is the number of candidates, and {given.graph.name} has no training triples to filter by"
    return (
        "no column is the number of candidates: give the graph (--graph), whose known answers then count as filtered; "
        "or the number of entities (--entities) with a column 'filtered', or with --raw if there was no filter"
    )


def _unknown_answers(draft: Draft, triples: Columns, side: pa.Array, graph: KnowledgeGraph) -> CandidateCounts:
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
    return CandidateCounts(values, f"entities minus known answers of {', '.join(splits)}", splits)
