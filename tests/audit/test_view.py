import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe as kp
from kgprobe.audit import Finding, Severity, gravest_first
from kgprobe.audit.view import prepare
from support import tables


@pytest.mark.parametrize(("severity", "unclean"), [("error", True), ("warning", True), ("note", False)])
def test_notes_leave_a_file_clean(severity: str, unclean: bool) -> None:
    finding = Finding(("a",), "ties", "text", severity)
    assert (finding.unclean, finding.severity is Severity(severity)) == (unclean, True)


def test_an_unknown_severity_is_refused() -> None:
    with pytest.raises(ValueError, match="fatal"):
        Finding(("a",), "ties", "text", "fatal")


def test_the_order_within_a_severity_is_kept() -> None:
    findings = [Finding((str(i),), "k", "", s) for i, s in enumerate(["note", "error", "warning", "error", "note"])]
    assert [finding.models[0] for finding in gravest_first(findings)] == ["1", "3", "2", "0", "4"]


def rows(ranks: kp.Ranks) -> dict[tuple, float]:
    seeds = [None] * len(ranks) if ranks.seed is None else ranks.seed.tolist()
    keys = zip(seeds, ranks.head, ranks.relation, ranks.tail, ranks.predicts_tail, strict=True)
    return dict(zip(keys, ranks.rank.tolist(), strict=True))


@settings(max_examples=40)
@given(st.lists(tables() | tables(runs=3), min_size=1, max_size=3))
def test_every_row_is_lined_up_with_its_query(files: list[kp.Ranks]) -> None:
    view = prepare({str(i): table for i, table in enumerate(files)}, None)
    queries = list(zip(*view.queries.triples, view.queries.predicts_tail, strict=True))
    assert len(set(queries)) == len(queries)
    for i, table in enumerate(files):
        seen = {}
        for run in view.runs[str(i)]:
            seen |= {(run.seed, *queries[at]): run.rank[at] for at in np.flatnonzero(run.has)}
            assert np.isnan(run.rank[~run.has]).all()
        assert seen == rows(table)


def test_a_sample_has_the_same_queries_of_every_file() -> None:
    n = 4000
    columns = {"head": np.arange(n), "relation": np.zeros(n, int), "tail": np.zeros(n, int), "side": ["tail"] * n}
    table = kp.Ranks.from_columns(**columns, rank=np.ones(n), candidates=np.full(n, 9))
    turned = table.filter(np.arange(n) % 2 == 0)
    view = prepare({"whole": table, "half": turned}, None, most_rows=1000)
    assert view.one_in == 6
    whole, half = (view.runs[name][0] for name in ("whole", "half"))
    assert not (half.has & ~whole.has).any()
    assert np.array_equal(half.has, whole.has & (view.queries.head % 2 == 0))
    assert 500 < whole.rows < 850


def test_intervals_are_no_numbers() -> None:
    table = kp.Ranks.from_columns(
        head=[0, 1],
        relation=[0, 0],
        tail=[1, 0],
        side=["tail"] * 2,
        rank=[3, 2],
        worst_rank=[9, None],
        candidates=[9, 9],
    )
    (run,) = prepare({"lists": table}, None).runs["lists"]
    assert (sorted(run.rank, key=np.isnan)[0], np.isnan(run.rank).sum(), run.intervals, run.rows) == (2.0, 1, 1, 2)
