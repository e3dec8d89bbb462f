from pathlib import Path

from kgprobe.metrics import METRICS
from kgprobe.metrics.catalogue import usage
from kgprobe.metrics.reference import CITATIONS, reference_page


def test_the_page_in_the_documentation_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert page.read_text() == reference_page(), "run 'make docs'"


def test_every_metric_has_a_section() -> None:
    titles = [line[3:] for line in reference_page().splitlines() if line.startswith("## ")]
    assert titles == [*(usage(metric) for metric in METRICS), "References"]


def test_every_reference_is_cited_in_full_and_no_other() -> None:
    assert {metric.facts.reference for metric in METRICS} == set(CITATIONS)
