"""The formats that can be imported, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kgprobe.ranks.importers.probe_json import import_probe_json
from kgprobe.ranks.importers.rank_tables import import_table
from kgprobe.ranks.table import Ranks


@dataclass(frozen=True)
class Importer:
    """One format.

    Attributes:
        summary: What the files look like.
        read: Takes the files and, by name: graph, num_entities, model, split, seed, and the options.
        options: What it can be told besides.
        needs_size: Whether it always needs the graph or its number of entities.

    Example:
        >>> sorted(IMPORTERS), sorted(IMPORTERS["csv"].options), IMPORTERS["probe-json"].needs_size
        (['csv', 'parquet', 'probe-json', 'tsv'], ['columns', 'labels', 'raw'], True)
    """

    summary: str
    read: Callable[..., Ranks]
    options: frozenset[str] = frozenset()
    needs_size: bool = False


def _table(format: str, summary: str) -> Importer:  # noqa: A002
    return Importer(summary, partial(import_table, format=format), frozenset({"columns", "raw", "labels"}))


IMPORTERS: dict[str, Importer] = {
    "probe-json": Importer("the JSON of the authors of PROBE", import_probe_json, needs_size=True),
    "csv": _table("csv", "comma-separated columns, named in the first line"),
    "tsv": _table("tsv", "tab-separated columns, named in the first line"),
    "parquet": _table("parquet", "columns of any names"),
}
