"""The authors' own JSON: a list of ranked queries with the popularity of the entity that was given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.errors import UsageError
from kgprobe.graph.readers.lines import UNREADABLE, open_bytes
from kgprobe.graph.sorted_keys import find
from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.finish import Reading, finish
from kgprobe.ranks.importers.given import Given
from kgprobe.ranks.importers.probe_entries import Entries, read_entries
from kgprobe.ranks.importers.sources import each_path, kind_of
from kgprobe.ranks.table import Ranks

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


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
    return finish(drafts, given, reading)


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
