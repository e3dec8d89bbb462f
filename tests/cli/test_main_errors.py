"""Bad input gets one screen that lists all problems and the remedy, the right exit code, and no traceback."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SCREEN = 24


@pytest.fixture
def write(tmp_path: Path, queries):
    def file(**changes: object) -> Path:
        path = tmp_path / "bad.parquet"
        pq.write_table(pa.table({k: v for k, v in queries(**changes).items() if v is not None}), path)
        return path

    return file


def assert_refused(done, code: int, *said: str) -> None:
    assert done.code == code
    assert done.out == ""
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= SCREEN
    for text in said:
        assert text in done.err


@pytest.mark.parametrize("command", ["eval", "surface"])
def test_files_that_are_no_parquet(kgprobe, tmp_path: Path, ranks_file: Path, command: str) -> None:
    whole = ranks_file.read_bytes()
    files = {
        "missing.parquet": None,
        "empty.parquet": b"",
        "truncated.parquet": whole[: len(whole) // 2],
        "corrupt.parquet": whole[:4] + bytes(len(whole) - 12) + whole[-8:],
        "text.parquet": b"head,relation\n1,2\n",
    }
    said = {
        "missing.parquet": "no such file",
        "empty.parquet": "empty",
        "truncated.parquet": "it was truncated",
        "corrupt.parquet": "damaged",
        "text.parquet": "not a Parquet file",
    }
    for name, content in files.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        assert_refused(kgprobe(command, tmp_path / name), 1, name, said[name])
    together = kgprobe(command, *(tmp_path / name for name in files))
    assert_refused(together, 1, "5 of 5 files", *files)


def test_all_problems_of_a_table_at_once(kgprobe, write) -> None:
    bad = write(rank=[float("nan"), 0.0, -3.0, 99.0], side=["head", "left", "head", "tail"],
        ties=None, head=[0, 0, 0, 0], tail=[2, 2, 2, 2], relation=[0, 0, 0, 0],
    )  # fmt: skip
    assert_refused(
        kgprobe("eval", bad), 1, "rank is not a number: 1 row (row 1)", "rank is below 1: 2 rows (rows 2-3)",
        "rank is larger than the number of candidates: 1 row (row 4)", "side is neither 'head' nor 'tail'",
        "the same query (and seed) occurs again: 1 row (row 3)", "Remedy",
    )  # fmt: skip


def test_wrong_columns(kgprobe, tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(
        pa.table({"h": [1], "rank": ["first"], "side": [1.5], "relation": [0], "head": [0], "tail": [0]}), path
    )
    assert_refused(kgprobe("eval", path), 1, "column 'candidates' is missing", "kgprobe import")


def test_ids_outside_the_graph(kgprobe, write, graph_dir: Path) -> None:
    path = write(head=[0, 0, 9, 9], relation=[0, 0, 7, 7], candidates=[3, 3, 3, 40])
    assert_refused(
        kgprobe("eval", path, "--graph", graph_dir), 1, "an entity id is outside the graph (0..3): 2 rows",
        "a relation id is outside the graph (0..1): 2 rows", "more candidates than the graph has entities (4): 1 row",
        "give the graph that was ranked, if it is not tiny",
    )  # fmt: skip


def test_beta_without_popularity(kgprobe, ranks_file: Path) -> None:
    assert_refused(kgprobe("eval", ranks_file, "-m", "PROBE(beta=0.4)"), 1, "popularity is not recorded", "--graph")
    assert_refused(kgprobe("surface", ranks_file, "--beta", "0.4"), 1, "popularity", "--graph")


def test_malformed_graph_lines(kgprobe, ranks_file: Path, graph_dir: Path) -> None:
    (graph_dir / "train.txt").write_text("e0\tlikes\te1\ne0 likes e1\ne0\tlikes\te1\te2\ne0\tlikes\te99\n")
    assert_refused(kgprobe("eval", ranks_file, "--graph", graph_dir), 1, "train.txt", "2", "3", "e99")


def test_unknown_graph(kgprobe, ranks_file: Path) -> None:
    assert_refused(kgprobe("eval", ranks_file, "--graph", "wn18rrr"), 1, "wn18rrr", "KGPROBE_DATA")


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("MMR", "did you mean MR, MRR"),
        ("Hits", "needs a cut-off"),
        ("Hits@ten", "k must be a whole number"),
        ("Hits@0", "at least 1"),
        ("MRR@3", "takes no @"),
        ("PROBE(alpha=sharp)", "alpha must be a number"),
        ("PROBE(alpha=nan)", "alpha must be a number"),
        ("PROBE(gamma=1)", "no parameter 'gamma'"),
        ("PROBE(beta=1,beta_e=2)", "either it or them"),
        ("PROBE(alpha=1,alpha=2)", "given twice"),
        ("PROBE(alpha=1", "not the name of a metric"),
        ("", "not the name of a metric"),
    ],
)
def test_metrics_that_make_no_sense(kgprobe, ranks_file: Path, metric: str, said: str) -> None:
    assert_refused(kgprobe("eval", ranks_file, "-m", metric), 2, said)


def test_all_bad_metrics_at_once(kgprobe, ranks_file: Path) -> None:
    assert_refused(
        kgprobe("eval", ranks_file, "-m", "MMR", "-m", "Hits@x", "-m", "MRR"), 2, "2 metrics", "MMR", "Hits@x"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tie", "random"], "random"),
        (["--macro", "galaxy"], "macro 'galaxy'"),
        (["--by", "popularity"], "popularity:5"),
        (["--by", "popularity:some"], "not a number of bands"),
        (["--by", "side:3"], "cannot be cut"),
        (["--by", "colour"], "no column 'colour'"),
        (["--weight", "colour"], "no column 'colour'"),
        (["--format", "pdf"], "pdf"),
        (["--tie", "expected", "-m", "MedianRank"], "is not available for MedianRank"),
    ],
)
def test_options_that_make_no_sense(kgprobe, ranks_file: Path, options: list[str], said: str) -> None:
    assert_refused(kgprobe("eval", ranks_file, *options), 2, said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--alpha", "sharp"], "not numbers"),
        (["--alpha", "nan"], "not a number"),
        (["--alpha", "0:1:0"], "no step leads from start to stop"),
        (["--alpha", "0:1:-1"], "no step leads from start to stop"),
        (["--beta", "inf"], "beta"),
        (["--alpha", "0:1"], "not numbers"),
    ],
)
def test_axes_that_make_no_sense(kgprobe, ranks_file: Path, options: list[str], said: str) -> None:
    assert_refused(kgprobe("surface", ranks_file, *options), 2, said)


def test_expected_ties_that_were_not_recorded(kgprobe, write) -> None:
    path = write(ties=None)
    assert_refused(
        kgprobe("eval", path, "--tie", "expected", "-m", "MRR"), 1, "number of ties is not recorded", "--tie mean"
    )


def test_no_command_and_unknown_command(kgprobe) -> None:
    assert kgprobe("evaluate-all").code == 2
    assert "Usage" in kgprobe("--help").out
