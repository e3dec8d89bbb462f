"""No command overwrites what it reads, whatever name leads there; links, devices and pipes stay what they are."""

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.cli.main import command

FEW = ["--replicates", "100"]

# For each command with an output: arguments that read a file, and that file as the output.
REFUSED = {
    "rank": [
        ["rank", "model.npz", "--graph", "tiny", "-o", "model.npz"],
        ["rank", "model.npz", "--graph", "tiny", "-o", "model.link"],
        ["rank", "model.npz", "--graph", "tiny", "-o", "model.hard"],
        ["rank", "random", "--graph", "tiny", "-o", "tiny/test.txt"],
        ["rank", "random", "--graph", "tiny", "-o", "tiny.link/test.txt"],
        ["rank", "random", "--graph", "tiny", "-o", "tiny/test.parquet"],  # it would be read instead of test.txt
        ["rank", "random", "--graph", "tiny", "-o", "tiny/valid.tsv.gz"],
        ["rank", "random", "--graph", "world", "-o", "world/test.parquet"],
        ["rank", "random", "--graph", "world", "-o", "world/missing.parquet"],
        ["rank", "run", "--graph", "tiny", "-o", "run/ranks.parquet"],
        ["rank", "run/best/MRR/seed-0.safetensors", "--graph", "tiny", "-o", "run/best/MRR/seed-0.safetensors"],
        ["rank", "run", "--graph", "tiny", "-o", "run/best/MRR/seed-0.safetensors"],
        ["rank", "random", "--graph", "tiny", "--triples", "more.tsv", "-o", "more.tsv"],
        ["rank", "random", "--graph", "tiny", "--filter", "train+more.tsv", "-o", "more.tsv"],
        ["rank", "random", "--graph", "tiny", "--candidates", "sets.npz", "-o", "sets.npz"],
    ],
    "blocks merge": [
        ["blocks", "merge", "ranking", "-o", "ranking/queries.parquet"],
        ["blocks", "merge", "ranking", "-o", "ranking/ranks.parquet"],
    ],
    "graph write": [
        ["graph", "write", "tiny", "-o", "tiny"],
        ["graph", "write", "tiny", "-o", "tiny.link"],
    ],
    "import": [
        ["import", "csv", "ranks.csv", "--graph", "tiny", "-o", "ranks.csv"],
        ["import", "csv", "ranks.csv", "--graph", "tiny", "-o", "ranks.link"],
        ["import", "csv", "ranks.csv", "--graph", "tiny", "-o", "tiny/train.parquet"],
    ],
    "report": [
        ["report", "a.html", "b.parquet", "-o", "a.html", *FEW],
        ["report", "b.parquet", "-o", "b.html", *FEW],
        ["report", "b.parquet", "--graph", "tiny", "-o", "tiny/train.txt", *FEW],
        ["report", "b.parquet", "--open-world", "pairs", "-o", "pairs.html", *FEW],
        ["report", "b.parquet", "--rules", "run", "-o", "run/page.html", *FEW],
    ],
    "compare": [
        ["compare", "a.html", "b.parquet", "-o", "a.html", *FEW],
        ["compare", "a.html", "b.parquet", "--graph", "tiny", "-o", "tiny/train.txt", *FEW],
    ],
    "figure": [
        ["figure", "rank-histogram", "c.pdf", "-o", "c.pdf"],
        ["figure", "all", "figures/rank-histogram.pdf", "-o", "figures"],
    ],
    "openworld split": [
        ["openworld", "split", "world", "-o", "world"],
        ["openworld", "split", "world", "-o", "world.link"],
    ],
    "openworld evaluate": [
        ["openworld", "evaluate", "run", "--world", "world", "-o", "."],
        ["openworld", "evaluate", "pairs/random/final.open.parquet", "random", "--world", "world", "-o", "pairs"],
    ],
    "openworld bench": [["openworld", "bench", "pairs", "-o", "pairs.html"]],
    "study init": [],  # it reads nothing
    "study run": [
        ["study", "run", "study.toml", "-o", "."],
        ["study", "run", "study.toml", "--ranks", "ranked", "-o", "ranked/tiny"],
        ["study", "run", "study.toml", "--ranks", "ranked", "--pairs", "pairs", "-o", "pairs/new"],
    ],
    "study report": [
        ["study", "report", "studied", "-o", "ranked"],
        ["study", "report", "studied", "-o", "ranked/tiny/new"],
        ["study", "report", "studied", "-o", "studied/ranks"],
    ],
    "train": [["train", "complex", "--graph", "tiny", "--config", "run/settings.toml", "-o", "run", "--force"]],
    "demo": [],  # it reads nothing
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind of input, and links to them."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "tiny").mkdir()
    (folder / "tiny" / "train.txt").write_text("e0\tlikes\te1\ne1\tlikes\te2\ne2\tknows\te0\ne0\tknows\te3\n")
    (folder / "tiny" / "test.txt").write_text("e0\tlikes\te2\ne1\tknows\te3\n")
    kp.load_graph(folder / "tiny").write(folder / "world")
    for name in ("openworld.json", "missing.parquet"):
        (folder / "world" / name).write_text("{}")
    (folder / "run" / "best" / "MRR").mkdir(parents=True)
    for name in ("settings.toml", "ranks.parquet", "best/MRR/seed-0.safetensors"):
        (folder / "run" / name).write_text("")
    columns = {
        "head": [0, 0], "relation": [0, 0], "tail": [2, 2], "side": ["head", "tail"], "rank": [1.0, 2.0],
        "candidates": [3, 3],
    }  # fmt: skip
    (folder / "pairs" / "random").mkdir(parents=True)
    (folder / "figures").mkdir()
    for name in ("a.html", "b.parquet", "c.pdf", "figures/rank-histogram.pdf", "pairs/random/final.open.parquet"):
        kp.Ranks.from_columns(**columns).with_info(model=name).write(folder / name)  # type: ignore[arg-type]
    (folder / "study.toml").write_text('graphs = ["tiny"]\n[models.a]\n')
    kp.Ranks.from_columns(**columns).write(folder / "ranked" / "tiny" / "a.parquet")  # type: ignore[arg-type]
    kp.study(folder / "study.toml", folder / "studied", ranks=[folder / "ranked"])
    (folder / "studied" / "ranks").mkdir(exist_ok=True)
    kp.rank("random", folder / "tiny", blocks=folder / "ranking")
    rows = ["head,relation,tail,side,rank,candidates", "0,0,2,head,1,3", "0,0,2,tail,2,3"]
    (folder / "ranks.csv").write_text("\n".join(rows) + "\n")
    (folder / "more.tsv").write_text("e0\tlikes\te3\n")
    for name in ("model.npz", "sets.npz"):
        np.savez(folder / name, x=np.zeros(3))
    for link, file in {
        "model.link": "model.npz", "ranks.link": "ranks.csv", "b.html": "b.parquet", "tiny.link": "tiny",
        "world.link": "world", "pairs.html": "pairs/random/final.open.parquet",
    }.items():  # fmt: skip
        (folder / link).symlink_to(file)
    (folder / "model.hard").hardlink_to(folder / "model.npz")
    return folder


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its bytes, every link with its target."""
    found = sorted(folder.rglob("*"))
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in found
        if path.is_symlink() or path.is_file()
    }


def commands_with_output() -> Iterator[str]:
    def below(used: object, words: tuple[str, ...]) -> Iterator[str]:
        for name, inner in getattr(used, "commands", {}).items():
            yield from below(inner, (*words, name))
        if any(parameter.name == "output" for parameter in getattr(used, "params", [])):
            yield " ".join(words)

    return below(command, ())


def test_the_table_has_every_command_that_writes_files() -> None:
    assert sorted(commands_with_output()) == sorted(REFUSED)


@pytest.mark.parametrize("arguments", [line for lines in REFUSED.values() for line in lines], ids=" ".join)
def test_an_input_is_not_overwritten(kgprobe, inputs, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(inputs)
    before = contents(inputs)
    done = kgprobe(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "is both input and output" in done.err or "is a file of the input" in done.err
    assert "--output" in done.err or arguments[0] == "import"
    assert contents(inputs) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "complex", "--graph", "tiny", "-o", "tiny"],
        ["train", "complex", "--graph", "tiny", "-o", "tiny.link", "--force"],
        ["openworld", "split", "tiny", "-o", "tiny"],
        ["openworld", "split", "world", "-o", "tiny"],
        ["figure", "transformers", "-o", "tiny"],
        ["rank", "random", "--graph", "tiny", "-o", "run"],
    ],
    ids=" ".join,
)
def test_a_folder_of_inputs_is_not_replaced(kgprobe, inputs, monkeypatch: pytest.MonkeyPatch, arguments) -> None:
    monkeypatch.chdir(inputs)
    before = contents(inputs)
    done = kgprobe(*arguments)
    assert done.code in (1, 2)
    assert "Traceback" not in done.err
    assert contents(inputs) == before


def test_outputs_beside_the_inputs_are_written(kgprobe, inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inputs / "tiny")
    assert kgprobe("rank", "random", "--graph", ".", "-o", "ranks.parquet").code == 0
    assert kgprobe("rank", "random", "--graph", ".", "-o", "ranks.parquet").code == 0  # and replaced
    assert kgprobe("compare", "ranks.parquet", "--graph", ".", *FEW, "-o", "table.txt").code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["ranks.parquet", "table.txt", "test.txt", "train.txt"]
    Path("ranks.parquet").unlink()
    Path("table.txt").unlink()


def test_a_pipe_gets_the_output(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    assert kgprobe("rank", "random", "--graph", graph_dir, "-o", tmp_path / "file.parquet").code == 0
    pipe, read = tmp_path / "pipe.parquet", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert kgprobe("rank", "random", "--graph", graph_dir, "-o", pipe).code == 0
    reader.join(timeout=30)
    assert read == [(tmp_path / "file.parquet").read_bytes()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_stays_where_a_command_writes(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "ranks.parquet").symlink_to("disk/ranks.parquet")
    for _ in range(2):
        assert kgprobe("rank", "random", "--graph", graph_dir, "-o", tmp_path / "ranks.parquet").code == 0
        assert (tmp_path / "ranks.parquet").is_symlink()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["ranks.parquet"]
