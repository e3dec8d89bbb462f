from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgprobe.errors import DataError
from kgprobe.graph import load_graph

TRIPLES = {"head": [0, 1], "relation": [0, 0], "tail": [1, 2]}
NAMES = {"entities": {"id": [0, 1, 2]}, "relations": {"id": [0]}}


def _write(directory: Path, **tables: dict[str, Any]) -> Path:
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), directory / f"{name}.parquet")
    return directory


COUNTS: dict[str, dict[str, Any]] = {
    "entity_train_degree": {"id": [0, 1, 2], "train_degree": [3, 1, 0]},
    "test_entity_relation_train_count": {"entity": [1, 0], "relation": [0, 0], "train_count": [1, 2]},
    "relation_train_count": {"id": [0], "train_count": [2]},
}


def test_counts_stand_in_for_absent_training_triples(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, test=TRIPLES, **NAMES, **COUNTS))
    assert graph.train_counts is not None
    assert graph.train_counts.num_triples == 2
    assert graph.popularity.entity([0, 1, 2]).tolist() == [0.75, 0.25, 0]
    assert graph.popularity.relation([0, 0, 0], [0, 1, 2]).tolist() == [2 / 3, 1, 0]


def test_training_triples_make_counts_superfluous(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, train=TRIPLES, **NAMES, **COUNTS))
    assert graph.train_counts is None
    assert graph.popularity.entity([1]).tolist() == [0.5]


@pytest.mark.parametrize(
    ("file", "columns", "complaint"),
    [
        ("entity_train_degree", {"id": [0, 1], "train_degree": [3, 1]}, "2 rows for 3 entities"),
        ("entity_train_degree", {"id": [0, 2, 1], "train_degree": [3, 1, 0]}, "ids must be 0, 1, 2"),
        ("entity_train_degree", {"id": [0, 1, 2], "train_degree": [3, 3, -2]}, "a negative degree"),
        ("entity_train_degree", {"id": [0, 1, 2], "train_degree": [3, 2, 0]}, "odd number"),
        ("entity_train_degree", {"id": [0, 1, 2]}, "no single column 'train_degree'"),
        (
            "test_entity_relation_train_count",
            {"entity": [3], "relation": [0], "train_count": [1]},
            "outside 0..2",
        ),
        (
            "test_entity_relation_train_count",
            {"entity": [1, 1], "relation": [0, 0], "train_count": [1, 1]},
            "there twice",
        ),
        (
            "test_entity_relation_train_count",
            {"entity": [1], "relation": [0], "train_count": [2]},
            "above the degree",
        ),
        ("relation_train_count", {"id": [0], "train_count": [5]}, "5 triples, but the degrees"),
    ],
)
def test_counts_that_no_triples_could_give(tmp_path: Path, file: str, columns: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError) as caught:
        load_graph(_write(tmp_path, test=TRIPLES, **NAMES, **(COUNTS | {file: columns})))
    (problem,) = caught.value.problems
    assert file in problem
    assert complaint in problem


def test_yago_counts(data: Path) -> None:
    counts = load_graph(data / "graphs" / "yago3-10").train_counts
    assert counts is not None
    assert counts.num_triples == 1079040
    assert int((counts.degree == 0).sum()) == 39
    assert np.all(np.diff(counts.pair_keys) > 0)
