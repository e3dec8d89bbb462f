import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from kgprobe.cli.import_ import import_ranks
from kgprobe.errors import DataError, KgprobeError, UsageError
from kgprobe.ranks import read_ranks

app = typer.Typer()

app.command("import")(import_ranks)

CSV = "h,r,t,side,rank\nAda,knows,Cy,tail,1\nAda,knows,Cy,head,2\n"


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)


def _succeed(*arguments: object) -> str:
    result = _run(*arguments)
    assert result.exit_code == 0, result.exception
    assert result.stdout == ""
    return result.stderr


def _fail(kind: type[KgprobeError], *arguments: object) -> list[str]:
    result = _run(*arguments)
    assert type(result.exception) is kind, result.exception
    return result.exception.problems


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a graph and ranks of its test triple, which is where we are."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "train.txt").write_text("Ada\tknows\tBob\nBob\tknows\tCy\n")
    (tmp_path / "people" / "test.txt").write_text("Ada\tknows\tCy\n")
    (tmp_path / "ranks.csv").write_text(CSV)
    entries = [[[0, 0, 1], side, 1.0, 0.5, 0.25, 0] for side in "ht"]
    for seed in (1, 2):
        (tmp_path / f"m_{seed}.json").write_text(json.dumps(entries))
    return tmp_path


def test_a_table_with_its_graph() -> None:
    said = _succeed("csv", "ranks.csv", "--graph", "people", "-o", "out/r.parquet", "--model", "mine", "--seed", 3)
    ranks = read_ranks("out/r.parquet")
    assert (ranks.head.tolist(), ranks.tail.tolist(), ranks.candidates.tolist()) == ([0, 0], [2, 2], [2, 2])
    assert ranks.numbers("entity_popularity").tolist() == [0.25, 0.25]
    assert (ranks.info.model, ranks.info.graph, ranks.info.filtered) == ("mine", "people", ("train", "test"))
    assert said.splitlines() == [
        "out/r.parquet: 2 rows, seeds 3, candidates: entities minus known answers of train, test",
        "  not recorded: ties",
        "  assumed: the known answers of the graph were filtered (the file has no candidate counts)",
        "  assumed: the ranks are mean ranks of their tie groups (ties are not recorded)",
    ]


def test_the_authors_json_with_the_number_of_entities() -> None:
    said = _succeed("probe-json", "m_1.json", "m_2.json", "--entities", 9, "-o", "r.parquet", "--split", "test")
    ranks = read_ranks("r.parquet")
    assert ranks.seed is not None
    assert (ranks.seed.tolist(), ranks.candidates.tolist()) == ([1, 1, 2, 2], [9] * 4)
    assert ranks.info.split == "test"
    assert said.splitlines()[0] == "r.parquet: 4 rows, seeds 1, 2, candidates: entities minus filtered"


def test_columns_are_named_with_map() -> None:
    Path("odd.tsv").write_text("h\tr\tt\twhich one\tplace=x\n0\t0\t1\trhs\t2\n")
    options = ("--map", "side = which one", "--map", "rank=place=x", "--entities", 5, "--raw")
    said = _succeed("tsv", "odd.tsv", *options, "-o", "r.parquet")
    assert read_ranks("r.parquet").rank.tolist() == [2]
    assert said.startswith("r.parquet: 1 row, candidates: all entities (raw)\n")


def test_labels_that_look_like_ids() -> None:
    # In the order of text, 10 comes before 2, which therefore has the id 3.
    Path("people/train.txt").write_text("".join(f"{i}\tknows\t{i + 1}\n" for i in range(10)))
    Path("people/test.txt").write_text("2\tknows\t0\n")
    Path("n.csv").write_text("h,r,t,side,rank\n2,0,0,tail,1\n")
    Path("m.csv").write_text("h,r,t,side,rank\n2,knows,0,tail,1\n")
    assert "--labels reads them as labels" in _succeed("csv", "n.csv", "-g", "people", "-o", "a.parquet")
    _succeed("csv", "m.csv", "-g", "people", "--labels", "-o", "b.parquet")
    assert [read_ranks(name).head.tolist() for name in ("a.parquet", "b.parquet")] == [[2], [3]]


def test_everything_wrong_with_the_request_is_said_at_once() -> None:
    options = ("--graph", "people", "--entities", 9, "--seed", 1, "--split", "tst", "--map", "rank", "--map", "rnk=x")
    problems = _fail(UsageError, "probe-jsn", "m_1.json", "m_2.json", *options, "-o", "m_1.json")
    starts = (
        "--map 'rank' is not of the form NAME=COLUMN",
        "m_1.json is both input and output",
        "'rnk' is not a column of a rank table; nearest: rank",
        "unknown format 'probe-jsn'; nearest: probe-json; the formats are probe-json (",
        "both `graph` and `num_entities` are given",
        "unknown split 'tst'; nearest: test",
        "one `seed` for 2 files",
    )
    assert len(problems) == len(starts)
    for problem, start in zip(problems, starts, strict=True):
        assert problem.startswith(start)


@pytest.mark.parametrize("text", ["rank", "=x", "rank=", "", "="])
def test_malformed_mappings_are_refused(text: str) -> None:
    problems = _fail(UsageError, "csv", "ranks.csv", "--graph", "people", "--map", text, "-o", "r.parquet")
    assert problems == [f"--map {text!r} is not of the form NAME=COLUMN"]


def test_a_column_mapped_twice_is_refused() -> None:
    options = ("--map", "rank=a", "--map", "rank=b", "--graph", "people")
    assert _fail(UsageError, "csv", "ranks.csv", *options, "-o", "r.parquet") == ["--map names 'rank' twice"]


def test_options_that_a_format_does_not_have_are_refused() -> None:
    problems = _fail(UsageError, "probe-json", "m_1.json", "--raw", "--labels", "--map", "rank=x", "-o", "r.parquet")
    assert problems == [
        "`columns` does not apply to probe-json",
        "`raw` does not apply to probe-json",
        "`labels` does not apply to probe-json",
        "probe-json needs `graph` or `num_entities`",
    ]


def test_a_table_that_needs_the_graph_says_so() -> None:
    problems = _fail(UsageError, "csv", "ranks.csv", "-o", "r.parquet")
    assert any("`graph`" in problem for problem in problems)
    assert len(problems) == 3


def test_a_mapping_to_a_column_that_is_not_there_gets_the_nearest() -> None:
    problems = _fail(DataError, "csv", "ranks.csv", "-g", "people", "--map", "rank=rnak", "-o", "r.parquet")
    assert problems == ["there is no column 'rnak' to take as rank; nearest: rank"]


@pytest.mark.parametrize("bad", ["h,r,t,side,rank\nAda,knows,Cy,tail,0\n", "nothing\n"])
def test_a_failed_import_leaves_the_old_file(bad: str, folder: Path) -> None:
    _succeed("csv", "ranks.csv", "-g", "people", "-o", "r.parquet")
    before, files = Path("r.parquet").read_bytes(), sorted(folder.iterdir())
    Path("ranks.csv").write_text(bad)
    _fail(DataError, "csv", "ranks.csv", "-g", "people", "-o", "r.parquet")
    assert Path("r.parquet").read_bytes() == before
    assert sorted(folder.iterdir()) == files
    Path("ranks.csv").write_text(CSV)
    _succeed("csv", "ranks.csv", "-g", "people", "-o", "r.parquet", "--model", "new")
    assert read_ranks("r.parquet").info.model == "new"


def test_missing_files_and_graphs_are_data_errors() -> None:
    assert len(_fail(DataError, "csv", "no.csv", "neither.csv", "-g", "people", "-o", "r.parquet")) == 2
    _fail(DataError, "csv", "ranks.csv", "-g", "nowhere", "-o", "r.parquet")


@pytest.mark.parametrize("arguments", [("csv", "ranks.csv"), ("csv",), ()])
def test_an_incomplete_command_is_bad_usage(arguments: tuple[Any, ...]) -> None:
    assert _run(*arguments).exit_code == 2
