import math

from kgprobe.metrics import parse
from kgprobe.metrics.properties import Evidence, Observation, Query
from kgprobe.metrics.properties.evidence import labels

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
