"""The tables of several models, wherever they come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import RankFile, Ranks, read_ranks, validate

Source = Ranks | RankFile | str | os.PathLike[str]
_KINDS = (Ranks, RankFile, str, os.PathLike)


def whole_tables(tables: Any, graph: Any = None) -> dict[str, Ranks]:
    """The ranks of every model by its name; whatever else is given in their place is refused.

    Args:
        tables: A table, a file or its path for each name.
        graph: The graph that goes with them, or None.

    Example:
        >>> whole_tables({"mine": 5})
        Traceback (most recent call last):
            ...
        kgprobe.errors.UsageError: these are no models to compare
          - 'mine': int
        Remedy: give a dictionary of names and rank tables, files or paths, as in {"mine": ranks}
    """
    given = tables if isinstance(tables, Mapping) else {"the models": tables}
    wrong = [
        f"{name!r}: {type(source).__name__}"
        for name, source in given.items()
        if not (isinstance(name, str) and isinstance(source, _KINDS))
    ]
    if wrong or given is not tables:
        listed = wrong or [f"one {type(tables).__name__} without a name"]
        remedy = 'give a dictionary of names and rank tables, files or paths, as in {"mine": ranks}'
        raise UsageError("these are no models to compare", listed, remedy)
    if not (graph is None or isinstance(graph, KnowledgeGraph)):
        raise UsageError(f"{graph!r} is no graph", remedy="read it with kgprobe.load_graph")
    return {name: whole_table(source) for name, source in given.items()}


def whole_table(source: Source) -> Ranks:
    """The ranks of a source in memory, checked if they come from a file."""
    if isinstance(source, Ranks):
        return source
    if isinstance(source, RankFile):
        validate(source)
        batches = [batch.to_arrow() for batch in source.batches()] or [source.empty_table()]
        return Ranks(pa.concat_tables(batches).unify_dictionaries(), source.info, validate=False)
    return read_ranks(source)
