"""A command killed at any time leaves the old file or the whole new one; the next run removes what it left besides."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.train.run_directory import is_run
from killing import kill_after
from runs import TARGETS, assert_same_run

ENTITIES, TRIPLES = 300, 3000
DRAWS = ["--replicates", "200"]
WRITING = {
    "rank": ["rank", "random", "--graph", "IN/graph", "-o", "OUT/ranks.parquet"],
    "import": ["import", "csv", "IN/ranks.csv", "--graph", "IN/graph", "--model", "m", "-o", "OUT/ranks.parquet"],
    "compare": ["compare", "IN/a.parquet", "IN/b.parquet", *DRAWS, "--permutations", "200", "-o", "OUT/table.json"],
    "report": ["report", "IN/a.parquet", "IN/b.parquet", *DRAWS, "-o", "OUT/page.html"],
}
TRAINING = ["--epochs", "12", "--dimension", "4", "--validate-every", "2", "--batch-size", "256", "--patience", "0"]
OLD = b"the file that was there before"
_BETWEEN_WHOLE_RUNS = 10
_LONGEST_WRITE = 0.01
"""Seconds: so long after its temporary file is there a command is killed, at most."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, two rank files and a table of ranks of another program."""
    folder, rng = tmp_path_factory.mktemp("inputs"), np.random.default_rng(0)
    triples = np.unique(rng.integers(0, (ENTITIES, 5, ENTITIES), (TRIPLES, 3)), axis=0)
    triples = rng.permutation(triples)
    graph = kp.KnowledgeGraph.from_triples(
        train=triples[:2000], valid=triples[2000:2100], test=triples[2100:], num_entities=ENTITIES, num_relations=5
    )
    graph.write(folder / "graph")
    for name, baseline in (("a", "random"), ("b", "entity-frequency")):
        ranks = kp.rank(baseline, graph)
        ranks.write(folder / f"{name}.parquet")
    columns = ("head", "relation", "tail", "side", "rank", "candidates")
    rows = ranks.to_arrow().select(columns).to_pylist()
    lines = [",".join(columns), *(",".join(str(row[column]) for column in columns) for row in rows)]
    (folder / "ranks.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def whole_run(words: Sequence[str], place: Path) -> float:
    """Run a command to its end; gives the seconds that it took."""
    start = time.monotonic()
    assert kill_after(list(words), place, 600) == 0, (place / "said.txt").read_text()
    return time.monotonic() - start


def kill_often(name: str, inputs: Path, place: Path, kills: int, report: Callable[[str], None]) -> None:
    """Kill a command at random times: in turn at any time of the run, and while its temporary file is there."""
    out, rng, before = place / "out", np.random.default_rng(list(name.encode())), contents(inputs)
    out.mkdir()
    words = [word.replace("IN/", f"{inputs}/").replace("OUT/", f"{out}/") for word in WRITING[name]]
    target = Path(words[-1])
    whole_run(words, place)
    new, seconds = target.read_bytes(), whole_run(words, place)
    assert target.read_bytes() == new
    kept: Counter[str] = Counter()
    while kept.total() < kills:  # runs that end before they are killed do not count
        target.write_bytes(OLD)
        if kept.total() % 2:
            code = kill_after(words, place, rng.uniform(0, seconds))
        else:
            code = kill_after(words, place, rng.uniform(0, _LONGEST_WRITE), watched=out)
        assert code in (0, -signal.SIGKILL), (place / "said.txt").read_text()
        left, names = target.read_bytes(), {path.name for path in out.iterdir() if path.suffix != ".tmp"}
        assert left in ([new] if code == 0 else [OLD, new])
        assert names == {target.name}
        if code != 0:
            rubbish = any(path.suffix == ".tmp" for path in out.iterdir())
            kept[("old file" if left == OLD else "new file") + (", with a temporary file" if rubbish else "")] += 1
        if code != 0 and kept.total() % min(_BETWEEN_WHOLE_RUNS, kills) == 0:
            whole_run(words, place)
            assert contents(out) == {Path(target.name): new}  # whole, and nothing beside it
    assert contents(inputs) == before
    report(f"{name}: {kills} kills, {dict(kept)}")


def kill_training(inputs: Path, place: Path, kills: int, report: Callable[[str], None]) -> None:
    """Kill a training at random times and resume it, again and again; every run that ends is the undisturbed one."""
    rng, before = np.random.default_rng(3), contents(inputs)
    select = [word for target in TARGETS for word in ("--select", target)]
    words = ["train", "complex", "--graph", f"{inputs}/graph", *TRAINING, *select, "--seeds", "1,2", "--threads", "1"]
    undisturbed, run = place / "undisturbed", place / "run"
    whole_run([*words, "-o", str(undisturbed)], place)
    seconds = whole_run([*words, "-o", str(undisturbed), "--force"], place)
    killed, ended = 0, False
    while killed < kills or not ended:
        resumed = ["--resume"] if is_run(run) else []
        # A third of a run on average, so that most runs are killed several times before their end.
        left = rng.uniform(0, 0.7 * seconds) if killed < kills else 600
        code = kill_after([*words, "-o", str(run), *resumed], place, left)
        assert code in (0, -signal.SIGKILL), (place / "said.txt").read_text()
        killed, ended = killed + (code != 0), code == 0
        if ended:
            assert_same_run(undisturbed, run)
            run = place / f"run{killed}"
    assert contents(inputs) == before
    report(f"train: {killed} kills")


@pytest.mark.parametrize(
    "name", [name if name == "rank" else pytest.param(name, marks=pytest.mark.slow) for name in WRITING]
)
def test_a_killed_command_leaves_the_old_file_or_the_new_one(name: str, inputs: Path, tmp_path: Path) -> None:
    kill_often(name, inputs, tmp_path, 5, print)


@pytest.mark.campaign
@pytest.mark.parametrize("name", WRITING)
def test_a_command_that_is_killed_sixty_times(name: str, inputs: Path, tmp_path: Path) -> None:
    kill_often(name, inputs, tmp_path, 60, print)


@pytest.mark.campaign
def test_a_training_that_is_killed_sixty_times(inputs: Path, tmp_path: Path) -> None:
    kill_training(inputs, tmp_path, 60, print)
