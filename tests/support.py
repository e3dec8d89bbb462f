"""Rank tables and metrics for tests: random ones from a seed, and hypothesis strategies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from kgprobe.graph import triple_streams
from kgprobe.metrics import METRICS, Metric
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.ranks import Ranks

DISPERSION = ("VarRank", "StdRank", "MADRank")

"""Not measures of quality: moving a rank forward may raise or lower them."""

EVERYTHING = [
    *(str(metric()) for metric in METRICS),
    *("Hits@1", "Hits@3", "AHits@2", "ZHits@2", "pMRR(p=0.33)", "StratHits@3(beta_e=0,beta_r=0.5)"),
    *(f"{kind}(alpha={alpha},beta=0.6)" for kind in ("PROBE", "APROBE", "ZPROBE") for alpha in (1, 0, -0.5, "inf")),
    *("PROBE(alpha=0.5,beta_e=0.3)", "rawPROBE(alpha=-1,beta=0.4)", "PROBE(alpha=0,beta=0.5,eps=0.01)"),
]

"""Every metric, those with parameters in several settings."""


def random_ranks(rows: int, *, seed: int = 0, smallest: int = 2, largest: int = 60, runs: int = 1) -> Ranks:
    """A table with ties, both sides, a few relations, popularity (0 included), a weight and a label."""
    rng = np.random.default_rng(seed)
    candidates = rng.integers(smallest, largest + 1, rows)
    ties = np.minimum(rng.choice([0, 0, 0, 1, 2, 5], rows), candidates - 1)
    first = 1 + np.floor((candidates - ties) * rng.random(rows) ** 2)
    return Ranks.from_columns(
        head=np.arange(rows) // runs,
        relation=rng.integers(0, 4, rows),
        tail=rng.integers(0, 5, rows),
        side=rng.choice(["head", "tail"], rows) if runs == 1 else ["tail"] * rows,
        rank=first + ties / 2,
        candidates=candidates,
        ties=ties,
        entity_popularity=rng.choice([0, 0.001, 0.02, 0.3], rows, p=[0.1, 0.3, 0.4, 0.2]),
        relation_popularity=rng.choice([0, 0.1, 0.4, 1.0], rows, p=[0.1, 0.3, 0.4, 0.2]),
        labels={"weight": rng.integers(1, 9, rows) / 4, "kind": rng.choice(["plain", "odd"], rows)},
        **({"seed": np.arange(rows) % runs} if runs > 1 else {}),
    )


def with_columns(ranks: Ranks, **columns: Any) -> Ranks:
    """The same table with some columns replaced or added."""
    table = ranks.to_arrow()
    for name, values in columns.items():
        column = pa.array(values)
        known = name in table.column_names
        at = table.column_names.index(name) if known else table.num_columns
        table = table.set_column(at, name, column) if known else table.append_column(name, column)
    return Ranks(table, ranks.info)


def take(ranks: Ranks, rows: Sequence[int]) -> Ranks:
    """Some rows, in that order."""
    return Ranks(ranks.to_arrow().take(pa.array(list(rows), pa.int64())), ranks.info)


@st.composite
def tables(draw: st.DrawFn, *, smallest: int = 2, most_rows: int = 12, runs: int = 1) -> Ranks:
    """Small tables that shrink: one row of at least two candidates and known popularity, and any others."""
    rows = draw(st.integers(1, most_rows))
    whole = st.integers(0, 10**6)

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    candidates = np.array(column(st.integers(smallest, 40)))
    candidates[0] = max(candidates[0], 2)
    ties = np.array(column(whole)) % np.minimum(candidates, 7)
    first = 1 + np.array(column(whole)) % (candidates - ties)
    entity, relation = column(st.sampled_from([0, 0.001, 0.02, 0.3])), column(st.sampled_from([0, 0.1, 0.4, 1.0]))
    return Ranks.from_columns(
        head=np.arange(rows),
        relation=column(st.integers(0, 2)),
        tail=column(st.integers(0, 2)),
        side=column(st.sampled_from(["head", "tail"])),
        rank=first + ties / 2,
        candidates=candidates,
        ties=ties,
        entity_popularity=[0.02, *entity[1:]],
        relation_popularity=[0.4, *relation[1:]],
        labels={"weight": column(st.sampled_from([0.25, 1.0, 2.0, 3.5])), "kind": column(st.sampled_from("ab"))},
        **({"seed": column(st.integers(0, runs - 1))} if runs > 1 else {}),
    )


_NUMBER = st.floats(-100, 100) | st.sampled_from([0.0, 0.5, -1.0, 1e-300])

_BETA = st.floats(-2, 2)

_EPS = st.floats(0, 1)


def metrics() -> st.SearchStrategy[Metric]:
    """Any metric with any parameters."""
    return st.sampled_from(METRICS).flatmap(_with_parameters)


def _with_parameters(metric: type[Metric]) -> st.SearchStrategy[Metric]:
    if issubclass(metric, PROBE):
        both_or_each = [
            st.one_of(
                st.just({}),
                st.fixed_dictionaries({name: values}),
                st.fixed_dictionaries({}, optional={f"{name}_e": values, f"{name}_r": values}),
            )
            for name, values in (("beta", _BETA), ("eps", _EPS))
        ]
        alpha = st.fixed_dictionaries({"alpha": _NUMBER | st.sampled_from([math.inf, -math.inf])})
        return st.tuples(alpha, *both_or_each).map(lambda parts: metric(**parts[0], **parts[1], **parts[2]))
    ranges = {"k": st.integers(1, 10**6), "p": st.floats(1e-6, 100), "beta_e": _BETA, "beta_r": _BETA}
    return st.builds(metric, **{field.name: ranges[field.name] for field in fields(metric)})  # type: ignore[arg-type]


@contextmanager
def streaming(*sizes: int) -> Iterator[None]:
    """A context in which triples are read in chunks, blocks, sorted portions and bins of these sizes."""
    with ExitStack() as stack:
        for name, size in zip(("_CHUNK", "_BLOCK", "_SORTED_AT_ONCE", "_BINS"), sizes, strict=False):
            stack.enter_context(patch.object(triple_streams, name, size))
        yield
