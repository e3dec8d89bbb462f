"""Counts that stand in for training triples that are absent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgprobe.graph.check import id_problems
from kgprobe.graph.readers.columns import id_columns, in_order, read_parquet
from kgprobe.graph.train_counts import TrainCounts

if TYPE_CHECKING:
    from pathlib import Path

    from kgprobe.graph.sorted_keys import Ints

DEGREES = "entity_train_degree.parquet"
PAIRS = "test_entity_relation_train_count.parquet"
RELATIONS = "relation_train_count.parquet"


def counts_stand_in(directory: Path) -> bool:
    """Whether a directory has counts of its training triples, and not the triples."""
    return (directory / DEGREES).exists() and not (directory / "train.parquet").exists()


def read_counts(directory: Path, num_entities: int, num_relations: int, problems: list[str]) -> TrainCounts | None:
    """Counts of the training triples; or None, with everything that is wrong added to ``problems``.

    Needed are the degree of every entity (id, train_degree) and the counts of (entity, relation) pairs
    (entity, relation, train_count). The counts of the relations (id, train_count), if there, must agree.
    """
    degrees = _columns(directory / DEGREES, ("id", "train_degree"), problems)
    pairs = _columns(directory / PAIRS, ("entity", "relation", "train_count"), problems)
    if degrees is None or pairs is None:
        return None
    ids, degree = degrees
    entity, relation, count = pairs
    found = id_problems(f"{PAIRS} entity", entity, num_entities)
    found += id_problems(f"{PAIRS} relation", relation, num_relations)
    in_order(directory / DEGREES, ids, found)
    if len(ids) != num_entities:
        found.append(f"{DEGREES}: {len(ids):,} rows for {num_entities:,} entities")
    if not found:
        counts = TrainCounts.from_pairs(degree, entity, relation, count, num_relations=num_relations)
        found = _contradictions(counts) + _total_problems(directory / RELATIONS, counts.num_triples)
    problems += found
    return None if found else counts


def _contradictions(counts: TrainCounts) -> list[str]:
    """What no training triples could have given."""
    of_pairs = counts.degree[counts.pair_keys // max(counts.num_relations, 1)]
    checks = {
        f"{DEGREES}: a negative degree": (counts.degree < 0).any(),
        f"{DEGREES}: the degrees add up to an odd number, but every triple adds two": counts.degree.sum() % 2,
        f"{PAIRS}: an (entity, relation) pair is there twice": (np.diff(counts.pair_keys) == 0).any(),
        f"{PAIRS}: a count below 0 or above the degree of its entity": (
            (counts.pair_counts < 0) | (counts.pair_counts > of_pairs)
        ).any(),
    }
    return [problem for problem, wrong in checks.items() if wrong]


def _total_problems(path: Path, num_triples: int) -> list[str]:
    problems: list[str] = []
    columns = _columns(path, ("id", "train_count"), problems) if path.exists() else None
    if columns is not None and columns[1].sum() != num_triples:
        problems.append(f"{path.name}: {columns[1].sum():,} triples, but the degrees of {DEGREES} make {num_triples:,}")
    return problems


def _columns(path: Path, names: tuple[str, ...], problems: list[str]) -> list[Ints] | None:
    table = read_parquet(path, problems)
    return None if table is None else id_columns(path, table, names, problems)
