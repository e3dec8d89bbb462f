import numpy as np
import pyarrow as pa
import pytest

from kgprobe.graph.labels import as_labels, label_problems, labels_of


@pytest.mark.parametrize(
    "values",
    [
        ["a", None],
        pa.array(["a", None], pa.large_string()),
        pa.chunked_array([["a"], [None]], pa.string()),
        pa.array(["a", None]).dictionary_encode(),
    ],
    ids=["list", "large strings", "chunks", "dictionary"],
)
def test_labels_become_one_string_array(values: object) -> None:
    labels = as_labels(values)
    assert isinstance(labels, pa.Array)
    assert labels.type == pa.string()
    assert labels.to_pylist() == ["a", None]


def test_no_labels_give_ids() -> None:
    assert as_labels(None) is None
    assert labels_of(None, np.array([3, 1])) == ["3", "1"]


def test_one_id_is_enough() -> None:
    assert labels_of(as_labels(["a", "b"]), 1) == ["b"]


def test_labels_must_be_as_many_as_ids() -> None:
    assert label_problems("x", as_labels(["a"]), 1) == []
    assert label_problems("x", as_labels(["a"]), 2) == ["x: 1 labels for 2 ids"]
