from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kgprobe as kp
from kgprobe.errors import DataError
from kgprobe.ranks import Basis, CandidatesInfo, Ranks, RanksInfo, SampleInfo, concatenate
from kgprobe.ranks.schema import SAMPLE, SAMPLE_RULES, estimated_rank

SAMPLED = RanksInfo(model="mine", candidates=CandidatesInfo(Basis.verified, sample=SampleInfo(10, True, None, 3)))


def estimates(info: RanksInfo = SAMPLED, head: int = 0, **changes: Any) -> Ranks:
    columns: dict[str, Any] = {
        "head": [head, head],
        "relation": [0, 0],
        "tail": [9, 9],
        "side": ["head", "tail"],
        "rank": [1 + 2 + 0.5 + 3.5 * 4, 1 + 6],
        "candidates": [50, 9],
        "ties": [None, 1],
    }
    sample: dict[str, Any] = {
        "exact_greater": [2, 4],
        "exact_equal": [1, 1],
        "sample_size": [10, 2],
        "sampled_from": [40, 2],
        "sampled_greater": [3, 1],
        "sampled_equal": [1, 1],
    }
    columns["rank"][1] = 1 + 4 + 0.5 + 1.5
    sample |= {name: value for name, value in changes.items() if name in SAMPLE}
    columns |= {name: value for name, value in changes.items() if name not in SAMPLE}
    return Ranks.from_columns(**columns, sample=sample, info=info)


def test_counts_of_samples_come_back_from_a_file(tmp_path: Path) -> None:
    ranks = estimates()
    ranks.write(tmp_path / "ranks.parquet")
    again = kp.read_ranks(tmp_path / "ranks.parquet")
    assert again.to_arrow().equals(ranks.to_arrow())
    assert again.is_estimated
    assert kp.RankFile(tmp_path / "ranks.parquet").is_estimated
    assert again.info.sample == SampleInfo(10, estimates=True, seed=3)


def test_tables_of_the_same_sample_concatenate() -> None:
    both = concatenate([estimates(), estimates(head=1)])
    assert len(both) == 4
    assert both.info.sample == SAMPLED.sample
    assert both["sampled_from"].tolist() == [40, 2, 40, 2]


@pytest.mark.parametrize("other", [RanksInfo(), RanksInfo(candidates=CandidatesInfo(Basis.verified))])
def test_sampled_ranks_are_not_joined_with_ranks_among_all(other: RanksInfo) -> None:
    full = estimates(head=1).with_ranks([1, 1], [0, 0], [9, 9], info=other)
    with pytest.raises(DataError) as raised:
        concatenate([estimates(), full])
    assert "sampled in different ways" in str(raised.value)
    assert "not recorded" in str(raised.value) or "all entities" in str(raised.value)


def test_ranks_among_other_samples_are_not_joined() -> None:
    one, other = (
        RanksInfo(candidates=CandidatesInfo(Basis.given, "a.npz", hash=digest, sample=SampleInfo(5))) for digest in "ab"
    )
    tables = [estimates(head=i).with_ranks([1, 1], [0, 0], [6, 6], info=info) for i, info in enumerate((one, other))]
    with pytest.raises(DataError, match="sampled in different ways"):
        concatenate(tables)


def test_other_ranks_have_no_counts_of_samples() -> None:
    assert not estimates().with_ranks([1, 1], [0, 0], [9, 9]).is_estimated


VIOLATIONS: list[tuple[dict[str, Any], str]] = [
    ({"sampled_greater": [3, None]}, "some counts of a sample of candidates are missing: 1 row (row 2)"),
    ({"sampled_equal": [-1, 1]}, "a count of a sample is negative: 1 row (row 1)"),
    ({"sample_size": [41, 2]}, "the sample is larger than what it was drawn from: 1 row (row 1)"),
    ({"sampled_greater": [10, 1]}, "more greater and equal scores than the sample has candidates: 1 row (row 1)"),
    ({"exact_greater": [9, 4]}, "more greater and equal scores than candidates that were all counted: 1 row"),
    ({"candidates": [43, 9]}, "more greater and equal scores than candidates that were all counted: 1 row"),
    ({"rank": [17.0, 7.0]}, "the rank is not the estimate from the counts of its sample: 1 row (row 1)"),
    ({"exact_equal": None}, "some counts of a sample of candidates are missing: 2 rows (rows 1-2)"),
]


def test_every_rule_has_a_table_that_breaks_it() -> None:
    assert {problem.partition(":")[0] for _, problem in VIOLATIONS} == {name for name, _ in SAMPLE_RULES}


@pytest.mark.parametrize(("changes", "problem"), VIOLATIONS)
def test_impossible_counts_are_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError) as raised:
        estimates(**changes)
    assert problem in str(raised.value)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 10**9))
def test_an_estimate_is_a_possible_rank(greater: int, equal: int, hits: int, more: int, others: int) -> None:
    size = hits + more
    drawn_from = size + others
    rank = estimated_rank(*(np.array([n]) for n in (greater, equal, size, drawn_from, hits))).item()
    assert 1 + greater + equal / 2 <= rank <= 1 + greater + equal + drawn_from
    if not others and size:
        assert rank == 1 + greater + equal / 2 + hits


def test_the_metadata_of_older_files_have_no_sample() -> None:
    info = RanksInfo(candidates=CandidatesInfo(Basis.given, "few.npz"))
    entry = info.to_metadata()
    (key,) = entry
    assert RanksInfo.from_metadata({key: entry[key].replace(b', "sample": null', b"")}).sample is None


def test_a_wrong_type_in_the_metadata_of_a_sample_is_named() -> None:
    ((key, entry),) = SAMPLED.to_metadata().items()
    with pytest.raises(DataError) as raised:
        RanksInfo.from_metadata({key: entry.replace(b'"estimates": true', b'"estimates": 5')})
    assert "candidates.sample.estimates is 5, expected true or false" in str(raised.value)
