"""Metrics as names of files: readable, safe on every system, never the same for two metrics."""

import re

from hypothesis import given

from kgprobe import METRICS, Metric
from kgprobe.train.run.names import slug
from support import metrics


@given(metrics(), metrics())
def test_two_metrics_never_share_a_name(one: Metric, other: Metric) -> None:
    assert (slug(str(one)) == slug(str(other))) == (str(one) == str(other))


@given(metrics())
def test_names_are_safe_everywhere(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*[a-z0-9]", slug(str(metric)))


def test_one_metric_written_in_two_ways_is_one() -> None:
    assert slug("probe(beta=0, alpha=1)") == slug("PROBE(alpha=1,beta=0)") == "probe-alpha-1-beta-0"


def test_the_plain_metrics_have_different_names() -> None:
    names = [slug(str(metric())) for metric in METRICS]
    assert len(set(names)) == len(names)
