"""Import the PROBE authors' JSON: a list of ranked queries with the popularity of the given entity."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.arrays import find
from kgprobe.errors import UsageError
from kgprobe.graph.text_files import UNREADABLE, open_bytes
from kgprobe.ranks.importers.drafts import Draft, Given, Reading, finish_import
from kgprobe.ranks.importers.foreign_files import each_path, kind_of
from kgprobe.ranks.table import Ranks

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


_SIDES = {"h": "head", "t": "tail"}

_LARGEST = 2**63


@dataclass(frozen=True)
class Entries:
    """One array for each field of the entries, null where it could not be read."""

    head: pa.Array
    relation: pa.Array
    tail: pa.Array
    side: pa.Array
    rank: pa.Array
    relation_popularity: pa.Array
    entity_popularity: pa.Array
    filtered: pa.Array


def read_entries(entries: Sequence[Any], draft: Draft) -> Entries:
    r"""Take the entries apart; what is wrong with them is added to the draft, every kind with its entries.

    Example:
        >>> from pathlib import Path
        >>> draft = Draft(Path("mine.json"))
        >>> read_entries([[[0, 0, 1], "h", 2.0, 0.5, 0.3, 1], [[0, 0], "x", 1.0, 0.5, 0.3, 1]], draft).rank.to_pylist()
        [2.0, 1.0]
        >>> print("\n".join(draft.problems))
        the triple is not [head, relation, tail] in whole numbers: 1 row (row 2)
        the side is neither "h" nor "t": 1 row (row 2)
    """
    draft.rows = len(entries)
    columns = _whole_columns(entries) or _one_by_one(entries, draft)
    for name, column in (("delta(r|e)", columns.relation_popularity), ("delta(e)", columns.entity_popularity)):
        values = column.to_numpy(zero_copy_only=False)
        draft.refuse(
            "", f"{name} is not between 0 and 1", ~((values >= 0) & (values <= 1)) & column.is_valid().to_numpy(False)
        )
    return columns


def _whole_columns(entries: Sequence[Any]) -> Entries | None:
    """All fields at once; or None where any entry is not as it should be."""
    try:
        triples, sides, *numbers = zip(*entries, strict=True)
        heads, relations, tails = zip(*triples, strict=True)
        rank, relation_popularity, entity_popularity, filtered = numbers
        if not set(sides) <= _SIDES.keys():
            return None
    except (TypeError, ValueError):  # not iterable, of different lengths, not hashable
        return None
    # Types are compared as such: to Python, True is a whole number too.
    whole = set(map(type, chain(heads, relations, tails, filtered)))
    real = set(map(type, chain(rank, relation_popularity, entity_popularity)))
    if not (whole <= {int} and real <= {int, float}):
        return None
    try:
        return _arrays(
            (heads, relations, tails),
            [_SIDES[side] for side in sides],
            rank,
            relation_popularity,
            entity_popularity,
            filtered,
        )
    except (OverflowError, pa.ArrowException):
        return None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value < _LARGEST:
        return None
    return int(value) if value == int(value) else None


def _real(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return float(value) if number else None


def _triple(value: Any) -> tuple[int, ...] | None:
    ids = [_whole(part) for part in value] if isinstance(value, list) and len(value) == 3 else [None]
    known = tuple(part for part in ids if part is not None)
    return known if len(known) == 3 else None


def _side(value: Any) -> str | None:
    return _SIDES.get(value) if isinstance(value, str) else None


_FIELDS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("head", "the triple is not [head, relation, tail] in whole numbers", _triple),
    ("side", 'the side is neither "h" nor "t"', _side),
    ("rank", "the rank is not a finite number", _real),
    ("", "delta(r|e) is not a finite number", _real),
    ("", "delta(e) is not a finite number", _real),
    ("candidates", "the number of filtered entities is not a whole number", _whole),
)

"""For each field: the column that it makes, what it is when it is wrong, how to read it."""


def _one_by_one(entries: Sequence[Any], draft: Draft) -> Entries:
    shaped = [isinstance(entry, list) and len(entry) == len(_FIELDS) for entry in entries]
    rows = [entry if good else [None] * len(_FIELDS) for entry, good in zip(entries, shaped, strict=True)]
    misshapen = ~np.array(shaped)
    for column in ("head", "relation", "tail", "side", "rank", "candidates"):
        draft.malformed |= {column} if misshapen.any() else set()
    draft.refuse("", "the entry is not a list of 6 fields", misshapen)
    fields = []
    for i, (column, what, read) in enumerate(_FIELDS):
        values = [read(row[i]) for row in rows]
        wrong = np.array([value is None for value in values]) & ~misshapen
        draft.refuse(column, what, wrong)
        if column == "head" and wrong.any():
            draft.malformed |= {"relation", "tail"}
        fields.append(values)
    triples, sides, rank, relation_popularity, entity_popularity, filtered = fields
    ids = zip(*((None,) * 3 if triple is None else triple for triple in triples), strict=True)
    return _arrays(tuple(ids), sides, rank, relation_popularity, entity_popularity, filtered)


def _arrays(ids: Sequence[Sequence[Any]], sides: Sequence[Any], *numbers: Sequence[Any]) -> Entries:
    head, relation, tail = (pa.array(column, pa.int64()) for column in ids)
    rank, relation_popularity, entity_popularity = (pa.array(column, pa.float64()) for column in numbers[:3])
    return Entries(
        head=head,
        relation=relation,
        tail=tail,
        side=pa.array(sides, pa.string()),
        rank=rank,
        relation_popularity=relation_popularity,
        entity_popularity=entity_popularity,
        filtered=pa.array(numbers[3], pa.int64()),
    )


def import_probe_json(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    num_entities: int | None = None,
    graph: KnowledgeGraph | None = None,
    model: str | None = None,
    split: str | None = None,
    seed: int | None = None,
) -> Ranks:
    """Read files of entries ``[[head, relation, tail], "h" | "t", rank, delta(r|e), delta(e), filtered]``.

    The letter is the side that was predicted, and the two deltas are those of the entity that was *given*. So
    those of the target are found at the other side of the same triple, and no graph is needed; where that
    entry is absent they are null, which is noted. A graph, if there is one, gives popularity instead.

    Args:
        paths: One file, or several: then each is a training run (see `seeds_of`). May be compressed (.gz).
        num_entities: Number of entities of the graph; candidates are what the filter left of them.
        graph: The graph itself, in place of its number of entities.
        model: What reports call the model.
        split: The split that was ranked.
        seed: The training run of a single file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.json"
        >>> _ = path.write_text('[[[0, 0, 1], "h", 2.0, 0.5, 0.3, 1], [[0, 0, 1], "t", 1.0, 0.1, 0.2, 4]]')
        >>> ranks = import_probe_json(path, num_entities=9)
        >>> ranks.candidates.tolist(), ranks.numbers("entity_popularity").tolist()
        ([8.0, 5.0], [0.2, 0.3])
    """
    files = each_path(paths)
    given = Given(graph, num_entities, model, split, seed, len(files))
    if given.num_entities is None:
        raise UsageError("the number of candidates is not known", _NEEDED)
    drafts = [_draft(path, given.num_entities, paired=graph is None) for path in files]
    reading = Reading("probe-json", "entities minus filtered", None if graph else "entry of the other side")
    return finish_import(drafts, given, reading)


_NEEDED = ["the files say how many entities were filtered, not how many there are: give a graph or the number"]


def _draft(path: Path, num_entities: int, *, paired: bool) -> Draft:
    draft = Draft(path)
    entries = _load(path, draft.problems)
    if entries is None:
        return draft
    found = read_entries(entries, draft)
    draft.columns |= {
        "head": found.head,
        "relation": found.relation,
        "tail": found.tail,
        "side": found.side,
        "rank": found.rank,
        "candidates": pa.array(num_entities - found.filtered.to_numpy(zero_copy_only=False), from_pandas=True),
    }
    if paired and not draft.problems:
        _attach_partners(draft, found)
    return draft


def _attach_partners(draft: Draft, entries: Entries) -> None:
    """The popularity of each target: that of the given entity at the other side of the same triple."""
    tail_side = entries.side.to_numpy(zero_copy_only=False) == "tail"
    keys = 2 * _triple_numbers(*(np.asarray(c.to_numpy()) for c in (entries.head, entries.relation, entries.tail)))
    keys += tail_side
    # A query that occurs twice is refused later on; until then, any of its entries will do.
    distinct, entry = np.unique(keys, return_index=True)
    position = find(distinct, keys ^ 1)
    absent = position < 0
    partner = entry[position]
    for name, values in (
        ("entity_popularity", entries.entity_popularity),
        ("relation_popularity", entries.relation_popularity),
    ):
        draft.columns[name] = pa.array(np.asarray(values.to_numpy())[partner], mask=absent)
    if absent.any():
        draft.notes.append(
            f"{absent.sum():,} of {len(absent):,} entries have none for the other side of their triple, "
            "so the popularity of their targets is null; a graph would give it"
        )


def _triple_numbers(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number for each distinct triple; sorted by columns, so that ids of any size can be told apart."""
    order = np.lexsort(columns)
    new = np.any([np.diff(column[order], prepend=-1) != 0 for column in columns], axis=0)
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(new)
    return numbers


def _load(path: Path, problems: list[str]) -> list[Any] | None:
    """The list in a file; or None, with what is wrong added to ``problems``."""
    try:
        kind = kind_of(path)
        if kind:
            problems.append(f"it is {kind}, expected JSON")
            return None
        with open_bytes(path) as file:
            content = json.loads(file.read().decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        problems.append(f"line {error.lineno}, column {error.colno}: this is not JSON ({error.msg})")
    except (*UNREADABLE, ValueError, RecursionError) as error:
        problems.append(f"cannot be read ({error})")
    else:
        if isinstance(content, list) and content:
            return content
        kind = "an empty list" if content == [] else f"JSON of type {type(content).__name__}"
        problems.append(f"it holds {kind}, expected a list of entries")
    return None
