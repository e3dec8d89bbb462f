"""Rank and ties from whichever columns say as much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgprobe.ranks.importers.columns import Naming, label_name
from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.values import flags, read_numbers

Floats = NDArray[np.float64]
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
