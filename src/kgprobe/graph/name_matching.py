"""Names for people matched with the labels and ids of a graph."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError, UsageError, shown
from kgprobe.graph.name_files import RECOGNISED, NameTable, cleaned, names_of, read_names, recognised_files
from kgprobe.graph.names import Labels, Names, as_labels

NamesLike: TypeAlias = str | os.PathLike[str] | Mapping[Any, Any] | Sequence[Any]
"""Names: a file or directory, a mapping from labels or ids, or a list in id order."""

_EXAMPLES = 3
_CLEAR = 0.5  # if a larger share of the lines matches, no other way to read the source is tried


def as_sources(names: NamesLike | Sequence[NamesLike]) -> Sequence[NamesLike]:
    """One or more sources of names as a list of them.

    Example:
        >>> as_sources("names.tsv"), as_sources(["entities.json", "relations.json"])
        (['names.tsv'], ['entities.json', 'relations.json'])
    """
    return names if isinstance(names, list | tuple) else [names]


@dataclass(frozen=True, eq=False)
class FoundNames:
    """The names that a source gives to a graph.

    Attributes:
        source: The file, for messages.
        entities: Names of the entities in id order, null for those without one; None if it names no entity.
        relations: Names of the relations.
        unknown: Number of its lines that name neither an entity nor a relation of the graph.

    Example:
        >>> print(FoundNames("names.tsv", pa.array(["Ada", None]), None, unknown=3))
        names.tsv: names of 1 of 2 entities; 3 lines name nothing in the graph
    """

    source: str
    entities: Labels | None
    relations: Labels | None
    unknown: int

    def __str__(self) -> str:
        kinds = {"entities": self.entities, "relations": self.relations}
        counts = [
            f"{len(names) - names.null_count:,} of {len(names):,} {kind}"
            for kind, names in kinds.items()
            if names is not None
        ]
        lines = "1 line names" if self.unknown == 1 else f"{self.unknown:,} lines name"
        others = f"; {lines} nothing in the graph" if self.unknown else ""
        types = "; by its file name, it names types" if _names_types(self.source) else ""
        return f"{self.source}: names of {' and '.join(counts) or 'nothing'}{others}{types}"


def _names_types(source: str) -> bool:
    return "type" in Path(source).name.lower()


def find_names(
    source: NamesLike, graph: str, entities: Names, relations: Names, only: Sequence[str] = ("entity", "relation")
) -> list[FoundNames]:
    """The names that a source gives to the entities and relations of a graph; one result for each file.

    Args:
        source: A file, a directory with recognised files, a mapping, or a list.
        graph: Name of the graph, for messages.
        entities: The labels of the entities.
        relations: The labels of the relations.
        only: What the source may name.

    Raises:
        DataError: A file cannot be read, has bad lines, or names nothing in the graph.
        UsageError: The source is nothing that could give names.
    """
    if len(only) > 1 and not isinstance(source, str | os.PathLike | Mapping):
        remedy = "pass files, directories or mappings; a list in id order goes to `entities` or `relations`"
        raise UsageError(f"`names` has a {type(source).__name__}", remedy=remedy)
    known = {names.kind: names for names in (entities, relations) if names.kind in only}
    return [_matched(table, graph, known) for table in _tables(source)]


def _tables(source: NamesLike) -> Iterator[NameTable]:
    if isinstance(source, Mapping):
        yield names_of(source)
    elif isinstance(source, str | os.PathLike):
        path = Path(os.path.expanduser(source))
        # The preferred files come last, because later names replace earlier ones.
        files = recognised_files(path)[::-1] if path.is_dir() else [path]
        if not files:
            patterns = ", ".join(RECOGNISED)
            raise DataError(f"{path}: no file of names", [f"recognised are: {patterns}"], "give a file of names")
        for file in files:
            yield read_names(file)
    else:
        values = source.to_pylist() if isinstance(source, pa.Array | pa.ChunkedArray) else list(source)
        yield names_of(dict(enumerate(values)))


@dataclass(frozen=True, eq=False)
class _Match:
    """One way to match the lines of a source: what is named as labels or as ids of one kind."""

    kind: str
    keys: pa.Array
    names: pa.Array
    ids: AnyInts
    size: int

    @cached_property
    def fit(self) -> tuple[float, bool]:
        """The share of lines that match, and whether everything of this kind is named.

        Ids of all relations are also ids of some entities, hence the latter.
        """
        found = self.ids[self.ids >= 0]
        return len(found) / max(len(self.ids), 1), len(np.unique(found)) == self.size


def _matched(table: NameTable, graph: str, known: Mapping[str, Names]) -> FoundNames:
    """Match what is named with the labels of a graph, or with its ids if they fit better."""
    file = Path(table.source).name.lower()
    kinds = sorted(known, key=lambda kind: kind not in file)  # the first one is taken if several fit equally well
    by_id = {kind: Names.build(kind, len(names.names), None) for kind, names in known.items()}
    best: _Match | None = None
    for index, (keys, names) in product((known, by_id), table.readings):
        if best is not None and best.fit[0] > _CLEAR:
            break
        for kind in kinds:
            match = _Match(kind, keys, names, index[kind].ids(keys), len(index[kind].names))
            # Some names are numbers, such as titles of films: only a file that is full of ids is matched by them.
            by_chance = index is by_id and match.fit[0] < _CLEAR and not match.fit[1]
            best = match if best is None or (match.fit > best.fit and not by_chance) else best
    if best is None or not best.fit[0]:
        raise _unmatched(table, graph, known)
    names = cleaned(best.names)
    found = {best.kind: _in_id_order(best.ids, names, best.size)}
    unknown = best.ids < 0
    for kind in known.keys() - {best.kind}:  # one file may name entities and relations
        others = np.where(unknown, known[kind].ids(best.keys), -1)
        if (others >= 0).any():
            found[kind] = _in_id_order(others, names, len(known[kind].names))
            unknown &= others < 0
    return FoundNames(table.source, found.get("entity"), found.get("relation"), int(unknown.sum()))


def _in_id_order(ids: AnyInts, names: pa.Array, size: int) -> Labels | None:
    """The first name of each id."""
    rows = np.flatnonzero((ids >= 0) & names.is_valid().to_numpy(zero_copy_only=False))
    own, first = np.unique(ids[rows], return_index=True)
    place = np.full(size, -1)
    place[own] = rows[first]
    return as_labels(names.take(pa.array(place, mask=place < 0))) if len(rows) else None


def _unmatched(table: NameTable, graph: str, known: Mapping[str, Names]) -> DataError:
    keys = [key for own, _ in table.readings[:1] for key in own[:_EXAMPLES].to_pylist()]
    problems = [f"it names {', '.join(map(shown, keys)) or 'nothing'}"]
    plural = {"entity": "entities", "relation": "relations"}
    problems += [
        f"{plural[kind]} of the graph are {', '.join(map(shown, names.names[:_EXAMPLES].to_pylist())) or 'none'}"
        for kind, names in known.items()
    ]
    if _names_types(table.source):
        problems.append("by its file name, it names types, not entities")
    remedy = "give a file whose ids are the labels of the graph, as in its triples, or its integer ids"
    return DataError(f"{table.source}: no name for graph {graph}", problems, remedy)
