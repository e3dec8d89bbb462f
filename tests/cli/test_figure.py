from collections.abc import Callable
from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.report.figures import FIGURES

Command = Callable[..., object]


@pytest.fixture
def pair(tmp_path: Path, queries: Callable[..., dict[str, object]]) -> list[Path]:
    """Two models on the test facts of the tiny graph."""
    files = [tmp_path / "near.parquet", tmp_path / "far.parquet"]
    for path, rank in zip(files, ([1.0, 2.0, 3.0, 1.5], [2.0, 1.0, 2.0, 3.5]), strict=True):
        kp.Ranks.from_columns(**queries(rank=rank)).with_info(model=path.stem).write(path)  # type: ignore[arg-type]
    return files


def test_a_figure_without_ranks_is_written(kgprobe: Command, tmp_path: Path) -> None:
    run = kgprobe("figure", "transformers", "-o", tmp_path / "new" / "curves.svg", "--alpha", "1,0.5")
    assert (run.code, run.out, run.err) == (0, "", f"wrote {tmp_path / 'new' / 'curves.svg'}\n")
    text = (tmp_path / "new" / "curves.svg").read_text(encoding="utf-8")
    assert "= 0.5</text>" in text
    assert "= 0.25</text>" not in text


def test_ranks_and_graph_give_a_figure(kgprobe: Command, pair: list[Path], graph_dir: Path, tmp_path: Path) -> None:
    run = kgprobe("figure", "case-studies", *pair, "--graph", graph_dir, "-o", tmp_path / "cases.svg")
    assert run.code == 0, run.err
    text = (tmp_path / "cases.svg").read_text(encoding="utf-8")
    assert all(word in text for word in ("likes", "e0", "near", "far"))


def test_models_are_chosen_and_ordered_by_name(kgprobe: Command, pair: list[Path], tmp_path: Path) -> None:
    run = kgprobe("figure", "rank-histogram", *pair, "--models", "far,near", "-o", tmp_path / "bars.svg")
    assert run.code == 0, run.err
    assert "far minus near" in (tmp_path / "bars.svg").read_text(encoding="utf-8")


def test_a_model_whose_name_has_a_comma_can_be_chosen(kgprobe: Command, pair: list[Path], tmp_path: Path) -> None:
    odd = tmp_path / "odd.parquet"
    kp.read_ranks(pair[0]).with_info(model="a,b").write(odd)
    run = kgprobe(
        "figure", "rank-histogram", *pair, odd, "--models", "a,b", "--models", "far", "-o", tmp_path / "x.svg"
    )
    assert run.code == 0, run.err
    assert "a,b minus far" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def test_of_more_than_two_models_the_first_two_are_shown(kgprobe: Command, pair: list[Path], tmp_path: Path) -> None:
    third = tmp_path / "third.parquet"
    kp.read_ranks(pair[0]).with_info(model="third").write(third)
    run = kgprobe("figure", "rank-histogram", *pair, third, "-o", tmp_path / "bars.png")
    assert run.err == (f"wrote {tmp_path / 'bars.png'}: near and far, the first of 3 models; --models chooses others\n")


def test_all_writes_what_it_can_and_says_what_is_left_out(kgprobe: Command, pair: list[Path], tmp_path: Path) -> None:
    run = kgprobe("figure", "all", *pair, "-o", tmp_path / "figures", "--type", "svg")
    assert run.code == 0, run.err
    written = {"transformers", "weights", "weight-surface", "rank-histogram"}
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {f"{name}.svg" for name in written}
    left_out = {line.split()[1].rstrip(":") for line in run.err.splitlines() if line.startswith("skipped")}
    assert left_out == set(FIGURES) - written
    assert (
        "skipped heat-maps: needs the popularity of the queries (give --graph, or rank files with popularity)"
        in run.err
    )


def test_all_with_a_graph_writes_every_figure(
    kgprobe: Command, pair: list[Path], graph_dir: Path, tmp_path: Path
) -> None:
    values = ("--alpha", "1,-1", "--beta", "0,0.8")
    run = kgprobe("figure", "all", *pair, "-g", graph_dir, *values, "-o", tmp_path / "figures", "--type", "svg")
    assert run.code == 0
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {f"{name}.svg" for name in FIGURES}, run.err
    assert "skipped" not in run.err


def test_a_figure_that_fails_does_not_keep_all_from_the_others(
    kgprobe: Command, pair: list[Path], tmp_path: Path
) -> None:
    run = kgprobe("figure", "all", *pair, "-o", tmp_path / "figures", "--alpha", "0:1:0.05")
    assert run.code == 0
    assert "skipped transformers: 21 curves are too many for one figure" in run.err
    assert (tmp_path / "figures" / "rank-histogram.pdf").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rank-histgram", "-o", "x.pdf"], "unknown figure 'rank-histgram'; nearest: rank-histogram"),
        (["weights", "-o", "x.doc"], "x.doc: unknown file type for a figure"),
        (["all", "-o", "folder", "--type", "gif"], "folder/transformers.gif: unknown file type for a figure"),
        (["rank-histogram", "-o", "x.pdf"], "rank files of at least 2 models (none is given)"),
        (["weights", "-o", "x.pdf", "--alpha", "1"], "--alpha: no option of the figure 'weights'"),
        (["weights", "-o", "x.pdf", "--beta", "much"], "--beta much: not numbers"),
        (["popularity-groups", "-o", "x.pdf", "--metric", "MMR"], "MMR"),
    ],
)
def test_requests_that_make_no_sense_exit_2_and_write_nothing(
    arguments: list[str], message: str, kgprobe: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = kgprobe("figure", *arguments)
    assert run.code == 2
    assert message in run.err
    assert not list(tmp_path.iterdir())


def test_unknown_models_are_named_with_the_nearest(kgprobe: Command, pair: list[Path], tmp_path: Path) -> None:
    run = kgprobe("figure", "rank-histogram", *pair, "--models", "neer,far,other", "-o", tmp_path / "x.pdf")
    assert run.code == 2
    assert "'neer'; nearest: near" in run.err
    assert "'other'" in run.err


def test_files_of_different_queries_are_refused_unless_common_is_asked_for(
    kgprobe: Command, pair: list[Path], tmp_path: Path
) -> None:
    next(kp.read_ranks(pair[1]).batches(3)).write(pair[1])
    arguments = ("figure", "rank-histogram", *pair, "-o", tmp_path / "x.svg")
    run = kgprobe(*arguments)
    assert run.code == 1
    assert "do not rank the same queries" in run.err
    assert kgprobe(*arguments, "--common").code == 0


def test_every_name_is_in_the_help(kgprobe: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = kgprobe("figure", "--help").out
    assert all(name in text for name in [*FIGURES, "all"])
