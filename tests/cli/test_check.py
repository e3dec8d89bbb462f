import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import kgprobe as kp


def test_a_clean_file_exits_with_0(kgprobe, ranks_file: Path, graph_dir: Path) -> None:
    done = kgprobe("check", ranks_file)
    assert (done.code, done.out) == (0, "")
    assert "nothing wrong" in done.err
    assert "--graph" in done.err


def test_findings_exit_with_1(kgprobe, tmp_path: Path, ranks_file: Path, queries) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table(queries(rank=[0.0, 1.0, 1.25, 1.5])), path)
    done = kgprobe("check", path, ranks_file, "-f", "json")
    assert done.code == 1
    assert [row["ranks"] for row in json.loads(done.out)] == [str(path)] * len(json.loads(done.out))
    assert any("rank is below 1" in row["finding"] for row in json.loads(done.out))
    assert f"{ranks_file}: nothing wrong" in done.err


def test_candidates_are_compared_with_the_filter(
    kgprobe, tmp_path: Path, ranks_file: Path, graph_dir: Path, queries
) -> None:
    # Of (?, likes, e2) train knows e1, of (e0, likes, ?) e1, of (?, knows, e3) e0, of (e1, knows, ?) nothing.
    assert kgprobe("check", ranks_file, "--graph", graph_dir).code == 0
    path = tmp_path / "raw.parquet"
    kp.Ranks.from_columns(**queries(candidates=[4, 4, 4, 4])).write(path)
    done = kgprobe("check", path, "--graph", graph_dir)
    assert done.code == 1
    assert "candidates differ from what filtering by all splits leaves: 3 of 4 rows" in done.out


def test_popularity_is_compared_with_the_graph(kgprobe, tmp_path: Path, graph_dir: Path, queries) -> None:
    graph = kp.load_graph(graph_dir)
    right = kp.Ranks.from_columns(**queries()).with_popularity(graph.popularity)
    path = tmp_path / "popular.parquet"
    right.write(path)
    assert kgprobe("check", path, "--graph", graph_dir).code == 0
    kp.Ranks.from_columns(
        **queries(entity_popularity=[0.1] * 4, relation_popularity=right.numbers("relation_popularity"))
    ).write(path)
    done = kgprobe("check", path, "--graph", graph_dir)
    assert "popularity differs from that of the graph: 4 of 4 rows" in done.out


def test_a_rank_that_its_ties_cannot_give(kgprobe, tmp_path: Path, queries) -> None:
    path = tmp_path / "untied.parquet"
    kp.Ranks.from_columns(**queries(ties=[0, 0, 0, 0])).write(path)
    done = kgprobe("check", path)
    assert (done.code, "rank - ties/2 is not whole: 1 of 4 rows" in done.out) == (1, True)


def test_seeds_of_different_length(kgprobe, tmp_path: Path, queries) -> None:
    path = tmp_path / "uneven.parquet"
    short = {key: values[:2] for key, values in queries().items()}
    kp.merge_seeds({1: kp.Ranks.from_columns(**queries()), 2: kp.Ranks.from_columns(**short)}).write(path)
    done = kgprobe("check", path)
    assert (done.code, "seeds have different numbers of queries: 1: 4, 2: 2" in done.out) == (1, True)


def test_a_file_that_cannot_be_read_is_a_finding(kgprobe, tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no parquet")
    done = kgprobe("check", tmp_path / "text.parquet", tmp_path / "missing.parquet")
    assert done.code == 1
    assert "text.parquet" in done.out
    assert "no such file" in done.out


def test_the_broken_published_file_is_found(kgprobe, data: Path) -> None:
    files = [data / f"published_ranks/umls/{model}.parquet" for model in ("RotatE", "pLogicNet")]
    done = kgprobe("check", *files, "--graph", "umls", "-f", "json")
    assert done.code == 1
    assert {Path(row["ranks"]).stem for row in json.loads(done.out)} == {"pLogicNet"}


def test_intervals_are_clean_unless_they_cannot_be(
    kgprobe, interval_file: Path, graph_dir: Path, tmp_path: Path, queries
) -> None:
    done = kgprobe("check", interval_file, "--graph", graph_dir)
    assert (done.code, done.out) == (0, "")
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table(queries(worst_rank=[1.0, 1.5, 9.0, 2.0])), path)
    findings = [row["finding"] for row in json.loads(kgprobe("check", path, "-f", "json").out)]
    assert findings == [
        "worst_rank is below the rank: 1 row (row 2)",
        "worst_rank is larger than the number of candidates: 1 row (row 3)",
        "ties is not 0, though the rank is an interval up to worst_rank: 1 row (row 4)",
    ]
