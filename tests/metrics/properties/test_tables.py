import numpy as np
import pytest

import kgprobe as kp
from kgprobe.metrics import METRICS
from kgprobe.metrics.properties.pool import pool
from kgprobe.metrics.properties.tables import Query, as_ranks, measure, same


def test_together_or_alone_a_table_has_the_same_value() -> None:
    metrics = [metric() for metric in METRICS] + [kp.parse("PROBE(beta=0.5)"), kp.parse("StratMRR(beta_r=1)")]
    tables = pool().tables[::25]
    together = measure(metrics, tables)
    for i, table in enumerate(tables):
        alone = kp.evaluate(as_ranks([table]), metrics)
        assert list(alone.values()) == pytest.approx(together[:, i].tolist(), rel=1e-12, nan_ok=True)


def test_values_are_the_same_when_only_rounding_tells_them_apart() -> None:
    assert same(np.array([1e-20, 0.0]), np.array([2e-20, 0.0])).tolist() == [False, True]
    assert same(np.array([1.0]), np.array([1.0 + 1e-13])).tolist() == [True]


def test_only_unusual_popularity_is_told() -> None:
    assert str(Query(1, 10, 0.4, 0.7)) == "1 of 10 (entity popularity 0.4, relation popularity 0.7)"
    assert str(Query(1000, 1000)) == "1,000 of 1,000"
