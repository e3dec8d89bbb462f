from collections.abc import Callable
from pathlib import Path

import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.ranks import End, RankFile, Ranks, refuse_intervals

Make = Callable[..., Ranks]


def test_a_file_has_the_ends_of_its_table(make: Make, tmp_path: Path) -> None:
    ranks = make(worst_rank=[None, None, 7, 6])
    ranks.write(tmp_path / "r.parquet")
    file = RankFile(tmp_path / "r.parquet")
    assert file.has_intervals
    assert "worst_rank" in file.column_names
    for end in End:
        of_file = end.of(file)
        assert not of_file.has_intervals
        assert "worst_rank" not in of_file.column_names
        assert [r for batch in of_file.batches(3) for r in batch.rank.tolist()] == end.of(ranks).rank.tolist()


def test_what_is_changed_about_a_file_adds_up(make: Make, graph, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    ranks = make(worst_rank=[None, None, 7, 6])
    ranks.write(tmp_path / "r.parquet")
    wanted = ranks.at_worst().with_popularity(graph.popularity).to_arrow().to_pylist()
    file = RankFile(tmp_path / "r.parquet")
    for changed in (
        file.at_worst().with_popularity(graph.popularity),
        file.with_popularity(graph.popularity).at_worst(),
    ):
        assert [row for batch in changed.batches(3) for row in batch.to_arrow().to_pylist()] == wanted
        assert changed.column_names == list(wanted[0])


def test_exact_ranks_are_not_refused(make: Make, tmp_path: Path) -> None:
    for ranks in (make(), make(worst_rank=[1, 2.5, 3, None]), make(worst_rank=[None, None, 7, 6]).at_worst()):
        refuse_intervals(ranks)
        ranks.write(tmp_path / "r.parquet")
        refuse_intervals(RankFile(tmp_path / "r.parquet"))
        assert not RankFile(tmp_path / "r.parquet").has_intervals


def test_intervals_are_counted_when_refused(make: Make, tmp_path: Path) -> None:
    ranks = make(worst_rank=[None, 2.5, 7, 6])
    with pytest.raises(DataError, match="2 of 4 ranks are intervals, so there is no single value") as caught:
        refuse_intervals(ranks)
    assert all(way in caught.value.remedy for way in ("scores()", "kgprobe eval", "at_best()", "at_worst()"))
    path = tmp_path / "r.parquet"
    ranks.write(path)
    with pytest.raises(DataError) as caught:
        refuse_intervals(RankFile(path))
    assert caught.value.title.startswith(f"{path}: 2 of 4 ranks")


def test_an_unknown_end_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no end 'middle'") as caught:
        End("middle")
    assert "best, worst" in str(caught.value)
