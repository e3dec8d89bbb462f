# ruff: noqa: RUF001 (headings are Greek)
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.metrics import Metric, parse_all
from kgprobe.report.headings import headings
from support import metrics


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("MRR, Hits@1, Hits@10, MR", [("", "MRR"), ("", "Hits@1"), ("", "Hits@10"), ("", "MR ↓")]),
        (
            "PROBE(1,0), PROBE(0.5,0), PROBE(1,0.4), PROBE(0.5,0.4)",
            [("PROBE(β=0)", "α=1"), ("PROBE(β=0)", "α=0.5"), ("PROBE(β=0.4)", "α=1"), ("PROBE(β=0.4)", "α=0.5")],
        ),
        ("PROBE(1,0), PROBE(1,0.8)", [("PROBE(α=1)", "β=0"), ("PROBE(α=1)", "β=0.8")]),
        ("PROBE(1,0), MRR, PROBE(0,0)", [("", "PROBE(α=1, β=0)"), ("", "MRR"), ("", "PROBE(α=0, β=0)")]),
        (
            "PROBE(alpha=1,beta=0), PROBE(alpha=1,beta_e=0.5)",
            [("", "PROBE(α=1, β=0)"), ("", "PROBE(α=1, β_e=0.5, β_r=0)")],
        ),
        ("pMRR(p=2), pMRR(p=0.5)", [("pMRR", "p=2"), ("pMRR", "p=0.5")]),
        ("PROBE(alpha=-inf), PROBE(alpha=inf)", [("PROBE(β=0)", "α=−inf"), ("PROBE(β=0)", "α=inf")]),
    ],
)
def test_what_metrics_share_stands_above_them(names: str, expected: list[tuple[str, str]]) -> None:
    assert headings(parse_all(names)) == expected


@given(st.lists(metrics(), unique=True, max_size=6))
def test_every_column_has_a_heading_of_its_own(wanted: list[Metric]) -> None:
    found = headings(wanted)
    assert len(found) == len(wanted)
    assert len(set(found)) == len(wanted)
    assert all(below for _, below in found)
