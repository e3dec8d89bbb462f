"""Small rank tables, and the value of many metrics on many of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.metrics.base import Metric
from kgprobe.metrics.evaluate import scores
from kgprobe.ranks import Ranks
from kgprobe.ranks.schema import POPULARITY

Floats = NDArray[np.float64]

RARE = 0.1
"""Every table has a query whose target has this popularity, and none has a smaller one. So the default epsilon, the
smallest popularity that is evaluated, is the same whether tables are evaluated together or each alone."""


@dataclass(frozen=True)
class Query:
    """A row of a rank table, as far as metrics look at it.

    Example:
        >>> str(Query(3, 10)), str(Query(1.5, 1000, entity_popularity=0.4))
        ('3 of 10', '1.5 of 1,000 (entity popularity 0.4)')
    """

    rank: float
    candidates: int
    entity_popularity: float = RARE
    relation_popularity: float = RARE

    def __str__(self) -> str:
        popularities = {name.replace("_", " "): getattr(self, name) for name in POPULARITY}
        unusual = ", ".join(f"{name} {value:g}" for name, value in popularities.items() if value != RARE)
        return f"{self.rank:,g} of {self.candidates:,}" + (f" ({unusual})" if unusual else "")


Table = tuple[Query, ...]


def as_ranks(tables: Sequence[Table]) -> Ranks:
    """All tables below each other, told apart by the label column ``table``.

    Example:
        >>> as_ranks([(Query(1, 2),), (Query(1, 2), Query(3, 5))]).column("table").to_pylist()
        [0, 1, 1]
    """
    queries = [query for table in tables for query in table]
    ids = np.arange(len(queries))
    return Ranks.from_columns(
        head=ids,
        relation=np.zeros_like(ids),
        tail=ids,
        side=["tail"] * len(queries),
        rank=[float(query.rank) for query in queries],
        candidates=[query.candidates for query in queries],
        entity_popularity=[query.entity_popularity for query in queries],
        relation_popularity=[query.relation_popularity for query in queries],
        labels={"table": np.repeat(np.arange(len(tables)), [len(table) for table in tables])},
    )


def measure(metrics: Sequence[Metric], tables: Sequence[Table]) -> Floats:
    """The value of each metric (row) on each table (column).

    Example:
        >>> from kgprobe.metrics import parse
        >>> measure([parse("MRR"), parse("MR")], [(Query(1, 2), Query(2, 2)), (Query(4, 9),)]).tolist()
        [[0.75, 0.25], [1.5, 4.0]]
    """
    row = {metric: i for i, metric in enumerate(metrics)}
    values = np.full((len(metrics), len(tables)), np.nan)
    for score in scores(as_ranks(tables), metrics, by=["table"]):
        values[row[score.metric], score.group["table"]] = score.value
    return values


def same(first: Floats, second: Floats) -> NDArray[np.bool_]:
    """Where double precision cannot tell two values apart; undefined values are alike.

    Example:
        >>> same(np.array([0.3, np.nan]), np.array([0.1 + 0.2, 1.0])).tolist()
        [True, False]
    """
    return np.isclose(first, second, rtol=1e-12, atol=0.0, equal_nan=True)
