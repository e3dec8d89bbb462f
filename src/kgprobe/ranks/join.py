"""Several rank tables as one: of disjoint queries, or of several training runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kgprobe.errors import DataError, UsageError
from kgprobe.ranks.table import Ranks


def concatenate(tables: Sequence[Ranks]) -> Ranks:
    """One table of all rows; queries must be disjoint, origins that differ are dropped from the metadata.

    Example:
        >>> part = dict(relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
        >>> len(concatenate([Ranks.from_columns(head=[0], **part), Ranks.from_columns(head=[1], **part)]))
        2
    """
    if not tables:
        raise UsageError("nothing to concatenate")
    try:
        rows = pa.concat_tables([table.to_arrow() for table in tables], promote_options="permissive")
    except pa.ArrowException as error:  # canonical columns have canonical types, so it is a label column
        raise DataError("the label columns of these tables do not go together", [str(error).split("\n")[0]]) from None
    infos = [table.info for table in tables]
    differing: dict[str, Any] = {
        name: None
        for name in ("model", "graph", "graph_hash", "split", "filtered", "filter_hash")
        if len({getattr(info, name) for info in infos}) > 1
    }
    first = infos[0]
    settings = {k: v for k, v in first.settings.items() if all(k in i.settings and i.settings[k] == v for i in infos)}
    return Ranks(rows.unify_dictionaries(), replace(first, **differing, settings=settings))


def merge_seeds(runs: Mapping[int, Ranks]) -> Ranks:
    """One table of several training runs of a model, told apart by the column ``seed``.

    Example:
        >>> run = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
        >>> merge_seeds({1: run, 2: run}).seed.tolist()
        [1, 2]
    """
    marked = []
    for seed, run in runs.items():
        table = run.to_arrow().drop_columns(["seed"]) if "seed" in run.column_names else run.to_arrow()
        seeds = pa.array(np.full(len(run), seed, dtype=np.int64))
        marked.append(Ranks(table.append_column("seed", seeds), run.info, validate=False))
    return concatenate(marked)
