import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kgprobe as kp


def rows_of(done) -> list[dict]:
    return json.loads(done.out)


def test_a_clean_file_exits_with_0(kgprobe, ranks_file: Path, graph_dir: Path) -> None:
    done = kgprobe("check", ranks_file)
    assert (done.code, done.out) == (0, "")
    assert "no problems" in done.err
    assert "--graph" in done.err
    done = kgprobe("check", ranks_file, "--graph", graph_dir)
    assert (done.code, done.out, "--graph" in done.err) == (0, "", False)


def test_findings_exit_with_1(kgprobe, tmp_path: Path, ranks_file: Path, queries) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table(queries(rank=[0.0, 1.0, 1.25, 1.5])), path)
    done = kgprobe("check", path, ranks_file, "-f", "json")
    assert done.code == 1
    assert [row["ranks"] for row in rows_of(done)] == [str(path)] * len(rows_of(done))
    assert any("rank is below 1" in row["finding"] for row in rows_of(done))
    assert f"{ranks_file.stem}: no problems" in done.err


def test_candidates_are_compared_with_the_filter(
    kgprobe, tmp_path: Path, ranks_file: Path, graph_dir: Path, queries
) -> None:
    # Of (?, likes, e2) train knows e1, of (e0, likes, ?) e1, of (?, knows, e3) e0, of (e1, knows, ?) nothing.
    assert kgprobe("check", ranks_file, "--graph", graph_dir).code == 0
    path = tmp_path / "raw.parquet"
    kp.Ranks.from_columns(**queries(candidates=[4, 4, 4, 4])).write(path)
    done = kgprobe("check", path, "--graph", graph_dir, "-f", "csv")
    assert done.code == 1
    assert "Unfiltered: 3 of 4 rows have other candidate counts than filtering by train+test leaves" in done.out


def test_popularity_is_compared_with_the_graph(kgprobe, tmp_path: Path, graph_dir: Path, queries) -> None:
    graph = kp.load_graph(graph_dir)
    right = kp.Ranks.from_columns(**queries()).with_popularity(graph.popularity)
    path = tmp_path / "popular.parquet"
    right.write(path)
    assert kgprobe("check", path, "--graph", graph_dir).code == 0
    kp.Ranks.from_columns(
        **queries(entity_popularity=[0.1] * 4, relation_popularity=right.numbers("relation_popularity"))
    ).write(path)
    done = kgprobe("check", path, "--graph", graph_dir, "-f", "csv")
    assert "Popularity differs from the graph in 4 of 4 rows" in done.out


def test_a_rank_that_its_ties_cannot_give(kgprobe, tmp_path: Path, queries) -> None:
    path = tmp_path / "untied.parquet"
    kp.Ranks.from_columns(**queries(ties=[0, 0, 0, 0])).write(path)
    done = kgprobe("check", path, "-f", "csv")
    assert (done.code, "inconsistent in 1 of 4 rows: rank - ties/2 is no integer" in done.out) == (1, True)


def test_seeds_of_different_length(kgprobe, tmp_path: Path, queries) -> None:
    path = tmp_path / "uneven.parquet"
    short = {key: values[:2] for key, values in queries().items()}
    kp.merge_seeds({1: kp.Ranks.from_columns(**queries()), 2: kp.Ranks.from_columns(**short)}).write(path)
    done = kgprobe("check", path, "-f", "csv")
    assert (done.code, "Seeds have different numbers of queries: 1: 4, 2: 2" in done.out) == (1, True)


def test_a_file_that_cannot_be_read_is_a_finding(kgprobe, tmp_path: Path, ranks_file: Path) -> None:
    (tmp_path / "text.parquet").write_text("no parquet", encoding="utf-8")
    done = kgprobe("check", tmp_path / "text.parquet", tmp_path / "missing.parquet", ranks_file, "-f", "csv")
    assert done.code == 1
    assert "text.parquet" in done.out
    assert "no such file" in done.out
    assert f"{ranks_file.stem}: no problems" in done.err


def test_the_broken_published_file_is_found(kgprobe, data: Path) -> None:
    files = [data / f"published_ranks/umls/{model}.parquet" for model in ("RotatE", "pLogicNet")]
    done = kgprobe("check", *files, "--graph", data / "graphs/umls", "-f", "json")
    assert done.code == 1
    assert {Path(row["ranks"]).stem for row in rows_of(done)} == {"pLogicNet"}
    assert {row["model"] for row in rows_of(done)} == {"pLogicNet"}
    assert f"{files[0].stem}: no problems" in done.err


def test_intervals_are_clean_unless_they_cannot_be(
    kgprobe, interval_file: Path, graph_dir: Path, tmp_path: Path, queries
) -> None:
    done = kgprobe("check", interval_file, "--graph", graph_dir)
    assert (done.code, done.out) == (0, "")
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table(queries(worst_rank=[1.0, 1.5, 9.0, 2.0])), path)
    findings = [row["finding"] for row in rows_of(kgprobe("check", path, "-f", "json"))]
    assert findings == [
        "worst_rank is below the rank: 1 row (row 2)",
        "worst_rank is larger than the number of candidates: 1 row (row 3)",
        "ties is not 0, though the rank is an interval up to worst_rank: 1 row (row 4)",
    ]


def test_notes_alone_exit_with_0(kgprobe, tmp_path: Path) -> None:
    n = np.arange(300)
    path = tmp_path / "tied.parquet"
    kp.Ranks.from_columns(
        head=n,
        relation=n * 0,
        tail=n * 0,
        side=["tail"] * 300,
        rank=3 + n % 7 + 0.5,
        ties=n * 0 + 1,
        candidates=n * 0 + 90,
    ).write(path)
    done = kgprobe("check", path, "-f", "json")
    assert (done.code, [row["severity"] for row in rows_of(done)]) == (0, ["note"])
    assert f"{path.stem}: no problems" in done.err


def test_files_are_held_against_each_other(kgprobe, tmp_path: Path, ranks_file: Path, queries) -> None:
    path = tmp_path / "raw.parquet"
    kp.Ranks.from_columns(**queries(candidates=[4, 4, 4, 4])).write(path)
    done = kgprobe("check", ranks_file, path, "-f", "json")
    (row,) = rows_of(done)
    assert (done.code, row["kind"], row["rows"]) == (1, "candidates", 3)
    assert row["ranks"] == f"{ranks_file}, {path}"
    assert row["model"] == "model, raw"
    assert "raw has more candidates than model" in row["finding"]


def test_files_of_one_model_are_told_apart_by_their_paths(kgprobe, tmp_path: Path, queries) -> None:
    paths = [tmp_path / name / "mine.parquet" for name in ("a", "b")]
    for path, candidates in zip(paths, ([3, 3, 3, 4], [4, 4, 4, 4]), strict=True):
        kp.Ranks.from_columns(**queries(candidates=candidates)).write(path)
    (row,) = rows_of(kgprobe("check", *paths, "-f", "json"))
    assert (row["ranks"], row["model"]) == (f"{paths[0]}, {paths[1]}", None)


def test_a_file_given_twice_is_looked_at_once(kgprobe, ranks_file: Path) -> None:
    done = kgprobe("check", ranks_file, ranks_file)
    assert (done.code, done.err.count("no problems")) == (0, 1)


FOR_PROGRAMS = ["ranks", "model", "severity", "kind", "finding", "rows"]

FOR_PEOPLE = ["file", "severity", "kind", "finding", "rows"]


@pytest.mark.parametrize("chosen", ["csv", "markdown", "latex", "table", "json"])
def test_programs_see_path_and_model_and_people_one_name(kgprobe, tmp_path: Path, queries, chosen: str) -> None:
    path = tmp_path / "untied.parquet"
    kp.Ranks.from_columns(**queries(ties=[0, 0, 0, 0])).write(path)
    out = kgprobe("check", path, "--format", chosen).out
    headings = {
        "csv": lambda: next(csv.reader(io.StringIO(out))),
        "markdown": lambda: [cell.strip() for cell in out.splitlines()[0].strip("|").split("|")],
        "latex": lambda: out.splitlines()[2].removesuffix(r" \\").split(" & "),
        "table": lambda: out.splitlines()[0].split(),
        "json": lambda: list(json.loads(out)[0]),
    }
    assert headings[chosen]() == (FOR_PROGRAMS if chosen in ("csv", "json") else FOR_PEOPLE)


def test_a_file_without_rows_is_not_clean(kgprobe, tmp_path: Path, queries) -> None:
    path = tmp_path / "none.parquet"
    kp.Ranks.from_columns(**{name: values[:0] for name, values in queries().items()}).write(path)
    done = kgprobe("check", path)
    assert (done.code, "The file has no rows" in done.out, "no problems" in done.err) == (1, True, False)


def test_clean_files_give_an_empty_list_of_rows(kgprobe, ranks_file: Path) -> None:
    done = kgprobe("check", ranks_file, "-f", "json")
    assert (done.code, rows_of(done)) == (0, [])


def test_a_name_that_is_too_long_is_a_finding(kgprobe) -> None:
    result = kgprobe("check", "a" * 300, "-f", "json")
    assert result.code == 1
    assert "File name too long" in result.out


@pytest.mark.parametrize(("columns", "width"), [(None, 100), ("80", 80)], ids=["default", "COLUMNS"])
def test_findings_are_wrapped_in_a_pipe_too(
    kgprobe, tmp_path: Path, queries, monkeypatch: pytest.MonkeyPatch, columns: str | None, width: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    path = tmp_path / "raw.parquet"
    kp.Ranks.from_columns(**queries(candidates=[9, 9, 9, 9])).with_info(model="raw").write(path)
    kp.Ranks.from_columns(**queries()).with_info(model="fine").write(tmp_path / "fine.parquet")
    done = kgprobe("check", path, tmp_path / "fine.parquet")
    lines = done.out.splitlines()
    assert width - 20 < max(map(len, lines)) <= width
    told = rows_of(kgprobe("check", path, tmp_path / "fine.parquet", "-f", "json"))[0]["finding"]
    assert set(told.split()) <= set(done.out.split())
