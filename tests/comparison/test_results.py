import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kgprobe.comparison.lineup import line_up
from kgprobe.comparison.results import benjamini_hochberg, holm, remarks
from kgprobe.metrics import parse_all
from kgprobe.ranks import Ranks

P = st.lists(st.floats(1e-12, 1), max_size=30)


def holm_by_hand(p):
    adjusted = {}
    most = 0.0
    for done, (value, i) in enumerate(sorted((value, i) for i, value in enumerate(p))):
        most = max(most, value * (len(p) - done))
        adjusted[i] = min(most, 1.0)
    return [adjusted[i] for i in range(len(p))]


@given(P)
def test_holm_is_the_loop(p):
    assert holm(p).tolist() == pytest.approx(holm_by_hand(p))


@given(P)
def test_benjamini_hochberg_is_that_of_scipy(p):
    assert benjamini_hochberg(p).tolist() == pytest.approx(stats.false_discovery_control(p).tolist() if p else [])


@given(P)
def test_adjusting_keeps_the_order_and_lowers_nothing(p):
    for adjust in (holm, benjamini_hochberg):
        adjusted = adjust(p)
        assert (adjusted >= np.array(p)).all()
        assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()
        assert (adjusted <= 1).all()
    assert (benjamini_hochberg(p) <= holm(p)).all()


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_what_is_no_number_is_no_test(adjust):
    found = adjust([0.01, math.nan, 0.04])
    assert math.isnan(found[1])
    assert found[[0, 2]].tolist() == adjust([0.01, 0.04]).tolist()


def test_holm_keeps_the_family_wise_error():
    rng = np.random.default_rng(0)
    p = rng.random((4000, 20))  # all null hypotheses true
    rejected = np.mean([(holm(row) <= 0.05).any() for row in p])
    assert 0.038 < rejected < 0.062
    assert np.mean((p <= 0.05).any(axis=1)) > 0.6  # without it


def test_queries_that_metrics_leave_out_are_remarked_on() -> None:
    def ranks(*candidates: int) -> Ranks:
        size = len(candidates)
        return Ranks.from_columns(
            head=range(size), relation=[0] * size, tail=[9] * size, side=["tail"] * size, rank=[1] * size,
            candidates=candidates,
        )  # fmt: skip

    lineup = line_up({"one": ranks(1, 5, 20), "other": ranks(1, 5, 20)})
    assert remarks(lineup, "fixed", parse_all("MRR, AMRI, PROBE, AHits@10, ZHits@10, AHits@30")) == [
        "Candidate-size-aware metrics leave out 1 query with a single candidate.",
        "AHits@10, ZHits@10 leave out 2 queries with at most 10 candidates.",
        "AHits@30 leave out 3 queries with at most 30 candidates.",
    ]
