import math

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.metrics import METRICS, parse
from kgprobe.metrics.property_search import pool
from kgprobe.metrics.six_properties import (
    Evidence,
    Observation,
    Property,
    PropertyResult,
    Query,
    as_ranks,
    claim,
    labels,
    measure,
    same,
)

TWO = (Query(2, 2), Query(1, 1000))


def test_several_queries_score_and_one_scores() -> None:
    mrr = parse("MRR")
    evidence = Evidence.of(mrr, Observation(mrr, TWO, 0.75), Observation(mrr, TWO[:1], 0.5))
    assert evidence.text == "ranks 2 of 2 and 1 of 1,000 score 0.75, rank 2 of 2 scores 0.5"


def test_an_undefined_value_is_called_so() -> None:
    hits = parse("AHits@10")
    assert Evidence.of(hits, Observation(hits, TWO[:1], math.nan)).text == "rank 2 of 2 is undefined"
    assert Evidence.of(hits, Observation(hits, TWO, math.nan)).text == "ranks 2 of 2 and 1 of 1,000 are undefined"


def test_a_table_is_named_once_when_only_the_parameter_changes() -> None:
    seen = [Observation(parse(f"Hits@{k}"), TWO[:1], 1.0) for k in (3, 10)]
    assert Evidence.of(parse("Hits@10"), *seen).text == "rank 2 of 2 scores 1 at k=3, 1 at k=10"


def test_labels_are_short_and_tell_members_from_the_metric() -> None:
    probe = parse("PROBE")
    assert labels(probe, [probe]) == [""]
    assert labels(probe, [parse("PROBE(alpha=0.123456789)")]) == ["alpha=0.123457"]
    assert labels(probe, [parse("PROBE(beta=0.4,eps=0.1)")]) == ["beta=0.4,eps=0.1"]


def test_joined_evidence_keeps_all_observations() -> None:
    parts = [Evidence("one", (Observation(parse("MRR"), TWO, 0.75),)), Evidence("two")]
    assert Evidence.joined(parts) == Evidence("one; two", parts[0].observations)


# The paper's table, row by row.
ROWS = {
    Property.fixed_optimum: "1 1 1 1 1 1 1 1",
    Property.fixed_pessimum: "0 0 1 0 0 1 1 1",
    Property.anti_monotone: "0 1 0 1 1 1 1 1",
    Property.candidate_size: "0 0 0 0 0 1 1 1",
    Property.sharpness: "0 0 1 1 0 0 0 1",
    Property.popularity: "0 0 0 0 0 0 0 1",
}

COLUMNS = ["MR", "MRR", "Hits@10", "pMRR", "StratMRR", "nWMR", "AMRI", "PROBE"]


@pytest.mark.parametrize("about", Property)
def test_claims_are_those_of_the_table(about: Property) -> None:
    assert [claim(parse(name), about) for name in COLUMNS] == [mark == "1" for mark in ROWS[about].split()]


def test_other_metrics_have_no_claim() -> None:
    columns = {type(parse(name)) for name in COLUMNS}
    assert all((claim(metric(), about) is not None) == (metric in columns) for metric in METRICS for about in Property)


def test_a_row_is_flat_and_has_all_columns() -> None:
    row = PropertyResult(parse("AMRI"), Property.candidate_size, 7, Evidence("so it is"), alone=True).row()
    assert row | {"reason": "..."} == {
        "metric": "AMRI",
        "property": "candidate-size awareness",
        "holds": False,
        "searched": 7,
        "counterexample": "so it is",
        "paper": True,
        "agrees": False,
        "reason": "...",
        "note": "it holds for a query that is alone in its table",
    }
    assert row["reason"].startswith("a quotient")


def test_a_metric_that_the_paper_does_not_have_neither_agrees_nor_disagrees() -> None:
    row = PropertyResult(parse("ZMR"), Property.fixed_optimum, 7).row()
    assert (row["holds"], row["paper"], row["agrees"], row["reason"], row["note"]) == (True, None, None, None, None)


def test_an_example_that_also_refutes_the_literal_reading_is_told_once() -> None:
    evidence, other = Evidence("X"), Evidence("Y")
    result = PropertyResult(parse("PROBE"), Property.popularity, 7, witness=evidence, literal=evidence)
    assert result.note == "taken literally, as a weight that grows with popularity, it fails: X"
    result = PropertyResult(parse("PROBE"), Property.popularity, 7, witness=evidence, literal=other)
    assert result.note.startswith("for example, X; taken literally")


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
