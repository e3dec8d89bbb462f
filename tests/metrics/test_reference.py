from pathlib import Path

from kgprobe.metrics import METRICS
from kgprobe.metrics.catalogue import usage
from kgprobe.metrics.reference import reference_page


def test_the_page_in_the_documentation_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert page.read_text() == reference_page(), "run 'make docs'"


def test_every_metric_has_a_section() -> None:
    assert [line[3:] for line in reference_page().splitlines() if line.startswith("## ")] == [usage(m) for m in METRICS]
