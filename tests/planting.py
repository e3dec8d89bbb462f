"""Honest models on real graphs, and rank files that nothing is wrong with until a defect is planted in them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import kgprobe as kp
from kgprobe.audit import Finding, check
from kgprobe.ranks import Ranks
from least_squares import fit_cp, fit_rescal

HONEST = {
    "frequency": lambda graph: "relation-frequency",
    "CP": lambda graph: fit_cp(graph, dimension=30),
    "CP again": lambda graph: fit_cp(graph, dimension=30, seed=1),
    "RESCAL": lambda graph: fit_rescal(graph, dimension=20),
}


def honest(graph: kp.KnowledgeGraph, **options: Any) -> dict[str, Ranks]:
    """A baseline and three models of modest quality, ranked in one setting."""
    return {name: kp.rank(model(graph), graph, name=name, **options) for name, model in HONEST.items()}


def planted(ranks: Ranks, **columns: Any) -> Ranks:
    """The same rows with some columns replaced, or left out where None is given; nothing is checked."""
    table = ranks.to_arrow()
    for name, values in columns.items():
        at = table.column_names.index(name) if name in table.column_names else None
        if at is not None:
            table = table.remove_column(at)
        if values is not None:
            table = table.add_column(table.num_columns if at is None else at, name, pa.array(values))
    return Ranks(table, ranks.info, validate=False)


def silent(ranks: Ranks) -> Ranks:
    """The same rows in a file that says nothing about itself, as other programs write it."""
    return planted(ranks, entity_popularity=None, relation_popularity=None).with_info(
        graph=None, graph_hash=None, split=None, filtered=None, filter_hash=None, settings={}
    )


def unclean(files: Mapping[str, Any], graph: kp.KnowledgeGraph | None = None) -> list[Finding]:
    """The errors and warnings of an audit."""
    return [finding for finding in check(files, graph) if finding.unclean]


def only(files: Mapping[str, Any], graph: kp.KnowledgeGraph | None = None) -> Finding:
    """The one error or warning of an audit that must find exactly one."""
    found = unclean(files, graph)
    assert len(found) == 1, [(finding.models, finding.kind, finding.message) for finding in found]
    return found[0]


def exchanged(ranks: Ranks, rows: Any, seed: int = 0) -> Ranks:
    """The same table whose ranks in the marked rows are shuffled among these rows."""
    rng = np.random.default_rng(seed)
    rank, at = ranks.rank.copy(), np.flatnonzero(rows)
    rank[at] = rank[rng.permutation(at)]
    return planted(ranks, rank=np.minimum(rank, ranks.candidates), ties=None)


def shuffled(ranks: Ranks, rows: Any, seed: int = 0) -> Ranks:
    """The same table whose ranks in the marked rows are drawn by chance."""
    rng = np.random.default_rng(seed)
    drawn = 1 + np.floor(rng.random(len(ranks)) * ranks.candidates)
    return planted(ranks, rank=np.where(rows, drawn, ranks.rank), ties=None)
