from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgprobe import resources
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import End, RankFile, Ranks, RanksInfo, read_ranks, refuse_intervals, validate

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
    with pytest.raises(UsageError, match="unknown end of an interval: 'middle'") as caught:
        End("middle")
    assert "best, worst" in str(caught.value)


@pytest.fixture
def full(make: Make) -> Ranks:
    """A table with everything that a table can have."""
    return make(
        ties=[0, 1, None, 4],
        entity_popularity=[0.5, None, 0.0, 1.0],
        relation_popularity=[None, 0.25, 0.0, 1.0],
        seed=[1, 1, 2, 2],
        labels={"kind": ["a", None, "b", "a"], "weight": [0.5, 1.5, None, 2.5]},
        info=RanksInfo(model="RotatE", graph="umls", split="test", filtered=("train",), settings={"dim": 4}),
    )


def _random(n: int) -> Ranks:
    rng = np.random.default_rng(n)
    return Ranks.from_columns(
        head=np.arange(n),
        relation=rng.integers(0, 5, n),
        tail=rng.integers(0, 50, n),
        side=rng.choice(["head", "tail"], n),
        rank=rng.integers(1, 50, n),
        candidates=np.full(n, 50),
        labels={"kind": pa.array([f"k{i % 7}" for i in range(n)]).dictionary_encode()},
    )


def test_a_written_table_comes_back_whole(full: Ranks, tmp_path: Path) -> None:
    full.write(tmp_path / "deep" / "ranks.parquet")
    back = read_ranks(tmp_path / "deep" / "ranks.parquet")
    assert back.to_arrow().equals(full.to_arrow(), check_metadata=True)
    assert back.info == full.info


def test_a_table_without_rows_comes_back(tmp_path: Path, make: Make) -> None:
    make().filter(np.zeros(4, dtype=bool)).write(tmp_path / "none.parquet")
    assert len(read_ranks(tmp_path / "none.parquet")) == 0
    assert list(RankFile(tmp_path / "none.parquet").batches()) == []


@pytest.mark.parametrize("rows", [1, 7, 250, 1000, 5000])
def test_batches_of_any_size_are_the_file(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "ranks.parquet"
    whole = _random(1000)
    pq.write_table(whole.to_arrow(), path, row_group_size=300)
    file = RankFile(path)
    parts = list(file.batches(rows))
    assert all(0 < len(part) <= rows for part in parts)
    assert len(file) == 1000
    for name in file.column_names:
        assert [v for part in parts for v in part.column(name).to_pylist()] == whole.column(name).to_pylist()
    assert read_ranks(path).to_arrow().to_pylist() == whole.to_arrow().to_pylist()


def test_a_foreign_file_has_its_model_in_its_name(tmp_path: Path, make: Make) -> None:
    pq.write_table(make().to_arrow().replace_schema_metadata(None), tmp_path / "TuckER.parquet")
    assert RankFile(tmp_path / "TuckER.parquet").info == RanksInfo(model="TuckER", kgprobe="")
    make(info=RanksInfo(model="HousE")).write(tmp_path / "x.parquet")
    assert read_ranks(tmp_path / "x.parquet").info.model == "HousE"


def test_published_ranks_open_as_they_are(data: Path) -> None:
    ranks = read_ranks(data / "published_ranks" / "umls" / "RotatE.parquet")
    assert (len(ranks), ranks.info.model) == (3 * 2 * 3264, "RotatE")
    assert ranks.seed is not None
    assert sorted(set(ranks.seed.tolist())) == [1, 2, 3]


def test_popularity_is_attached_to_each_batch(tmp_path: Path, make: Make, graph: KnowledgeGraph) -> None:
    make().write(tmp_path / "r.parquet")
    file = RankFile(tmp_path / "r.parquet").with_popularity(graph.popularity)
    found = [value for part in file.batches(3) for value in part.numbers("entity_popularity").tolist()]
    assert found == make().with_popularity(graph.popularity).numbers("entity_popularity").tolist()
    assert "entity_popularity" not in next(RankFile(tmp_path / "r.parquet").batches()).column_names


def _text(path: Path) -> None:
    path.write_text("head,relation,tail\n0,0,1\n")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _scrambled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little")
    content[8 : len(content) - footer - 8] = b"\xff" * (len(content) - footer - 16)
    path.write_bytes(content)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: list[tuple[Callable[[Path], Any], str]] = [
    (Path.unlink, "no such file"),
    (_folder, "this is a folder, not a Parquet file"),
    (lambda path: path.write_bytes(b""), "the file is empty"),
    (_text, "this is not a Parquet file"),
    (lambda path: path.write_bytes(b"PAR"), "this is not a Parquet file"),
    (_cut, "its end is missing: it was truncated"),
    (_scrambled, "the Parquet file is damaged"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGE)
def test_a_damaged_file_is_named_with_what_happened_to_it(
    damage: Callable[[Path], Any], said: str, tmp_path: Path, make: Make
) -> None:
    path = tmp_path / "ranks.parquet"
    make().write(path)
    damage(path)
    with pytest.raises(DataError) as caught:
        read_ranks(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert caught.value.remedy


def test_a_name_that_no_file_can_have_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        RankFile(tmp_path / ("x" * 300))


def test_a_file_that_may_not_be_read_is_a_data_error(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make().write(tmp_path / "r.parquet")

    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="cannot be read") as caught:
        RankFile(tmp_path / "r.parquet")
    assert "Permission denied" in str(caught.value)


def test_wrong_columns_are_found_before_any_row_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"rank": [1], "h": [0]}), path)
    with pytest.raises(DataError) as caught:
        RankFile(path)
    assert str(caught.value).startswith(f"{path}: this is not a rank table")
    assert len(caught.value.problems) == 5


def test_a_newer_file_is_refused_by_name(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "new.parquet"
    make(info=RanksInfo(schema=99)).write(path)
    with pytest.raises(DataError, match="newer") as caught:
        read_ranks(path)
    assert str(caught.value).startswith(str(path))


def test_a_type_that_does_not_fit_is_refused_by_file_when_its_rows_are_read(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "t.parquet"
    table = make().to_arrow()
    pq.write_table(table.set_column(5, "candidates", pa.array([9.0, 8.5, 7.0, 6.0])), path)
    with pytest.raises(DataError) as caught:
        read_ranks(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "candidates" in caught.value.problems[0]


def test_bad_rows_are_refused_by_file_and_row_across_batches(tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    table = _random(1000).to_arrow()
    rank = table.column("rank").to_numpy().copy()
    rank[[3, 700]] = 0, 51
    pq.write_table(table.set_column(4, "rank", pa.array(rank)), path, row_group_size=100)
    with pytest.raises(DataError) as caught:
        read_ranks(path)
    assert caught.value.title == f"{path}: not usable"
    assert caught.value.problems == [
        "rank is below 1: 1 row (row 4)",
        "rank is larger than the number of candidates: 1 row (row 701)",
    ]


def test_a_file_is_validated_against_a_graph(tmp_path: Path, make: Make, graph: KnowledgeGraph) -> None:
    make(candidates=[4] * 4).write(tmp_path / "r.parquet")
    validate(RankFile(tmp_path / "r.parquet"), graph)
    make(candidates=[5] * 4).write(tmp_path / "r.parquet")
    with pytest.raises(DataError, match=r"r\.parquet"):
        validate(RankFile(tmp_path / "r.parquet"), graph)


def test_a_file_larger_than_the_limit_is_streamed_but_not_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.parquet"
    _random(1000).write(path)
    monkeypatch.setattr(resources, "machine_memory", lambda: 40_000)
    file = RankFile(path)
    validate(file)
    assert sum(len(batch) for batch in file.batches(100)) == 1000
    with pytest.raises(DataError, match="too large to be read") as caught:
        file.read()
    assert caught.value.title.startswith(str(path))
    assert "more than the limit of 19.5 KiB" in caught.value.problems[0]
    monkeypatch.setattr(resources, "_allowed", 200_000)
    assert len(file.read()) == 1000


def test_a_file_is_refused_if_its_rows_cannot_be_validated_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.parquet"
    _random(1000).write(path)
    monkeypatch.setattr(resources, "machine_memory", lambda: 15_000)
    with pytest.raises(DataError, match="too large to be read"):
        RankFile(path)


def test_a_name_of_a_column_that_is_not_utf8(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(make(labels={"my note": ["a"] * 4}).to_arrow(), path)
    path.write_bytes(path.read_bytes().replace(b"my note", b"my \xff\xfe\xfd\xfc"))
    with pytest.raises(DataError, match="damaged") as caught:
        read_ranks(path)
    assert caught.value.problems == ["the name of a column is not UTF-8"]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.parquet"
    make().write(path)
    before = path.read_bytes()

    def half(table: pa.Table, where: Path, **_options: Any) -> None:
        Path(where).write_bytes(b"PAR1 half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(DataError, match="cannot be written"):
        make(rank=[1, 1, 1, 1]).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
