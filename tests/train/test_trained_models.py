"""Trained models are ranked by their paths, with the graph that they have learned and no other."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.cli.main import main
from kgprobe.errors import DataError
from kgprobe.predict import Opening, open_model
from kgprobe.predict.adapters.opening import ADAPTERS, is_trained
from kgprobe.predict.queries import RankedTriples
from kgprobe.ranks import CheckpointInfo, RanksInfo
from kgprobe.train.checkpoints import read_tensors, write_tensors
from kgprobe.train.fitting import finish_run
from kgprobe.train.trainer import TrainingResources, train
from runs import begin, quick_settings, small_graph

GRAPH = small_graph()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "run"
    with begin(path, GRAPH, quick_settings("rotate", reciprocal=True, snapshot_every=2)) as opened:
        train(opened.settings, GRAPH, opened, TrainingResources(threads=1))
        finish_run(opened, GRAPH)
    return path


@pytest.mark.parametrize("text", [str, Path], ids=["text", "path"])
def test_a_run_is_its_first_seed_by_its_first_target(text: type, run: Path) -> None:
    kept = kp.read_ranks(run / "ranks.parquet")
    ranks = kp.rank(text(run), GRAPH)
    np.testing.assert_array_equal(ranks.rank, kept.filter(kept.seed == 3).rank)
    assert ranks.info.model == "RotatE"
    assert ranks.info.training.checkpoints == kept.info.training.checkpoints[:1]
    assert ranks.info.training.settings == kept.info.training.settings


@pytest.mark.parametrize(("slug", "name"), [("probe-alpha-1-beta-0", "ranks"), ("mrr", "ranks-mrr")])
@pytest.mark.parametrize("seed", [3, 8])
def test_a_checkpoint_is_ranked_as_at_the_end_of_its_run(slug: str, name: str, seed: int, run: Path) -> None:
    kept = kp.read_ranks(run / f"{name}.parquet")
    ranks = kp.rank(run / "best" / slug / f"seed-{seed}.safetensors", GRAPH)
    np.testing.assert_array_equal(ranks.rank, kept.filter(kept.seed == seed).rank)
    assert RanksInfo.from_metadata(ranks.info.to_metadata()) == ranks.info


def test_a_snapshot_of_the_best_epoch_is_ranked_as_the_best_checkpoint(run: Path) -> None:
    best = kp.rank(run / "best/mrr/seed-8.safetensors", GRAPH)
    (checkpoint,) = best.info.training.checkpoints
    snapshots = {path.parent.name: kp.rank(path, GRAPH) for path in (run / "snapshots").glob("*/seed-8.safetensors")}
    assert sorted(snapshots) == ["epoch-00000", "epoch-00002", "epoch-00004", "epoch-00006"]
    same = [name for name, ranks in snapshots.items() if np.array_equal(ranks.rank, best.rank)]
    assert same == [f"epoch-{checkpoint.epoch:05d}"]
    assert snapshots["epoch-00000"].info.training.checkpoints == (CheckpointInfo(seed=8, epoch=0),)
    assert snapshots["epoch-00000"].info.training.selected_by == ""


def test_a_checkpoint_stands_alone(run: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "mine.safetensors"
    checkpoint.write_bytes((run / "best/mrr/seed-8.safetensors").read_bytes())
    assert len(kp.rank(checkpoint, GRAPH)) == 2 * len(GRAPH.triples("test"))


@pytest.mark.parametrize("other", [small_graph(seed=1, name="other"), small_graph(entities=13, name="other")])
def test_another_graph_is_refused_and_both_are_named(other: kp.KnowledgeGraph, run: Path) -> None:
    for path in (run, run / "best/mrr/seed-3.safetensors"):
        with pytest.raises(DataError, match="another graph") as error:
            kp.rank(path, other)
        assert "small (12 entities" in error.value.problems[0]
        assert f"other ({other.num_entities} entities" in error.value.problems[0]


def test_the_same_graph_by_another_name_is_the_same(run: Path) -> None:
    assert len(kp.rank(run, small_graph(name="renamed"))) == 2 * len(GRAPH.triples("test"))


def test_the_state_of_a_run_is_no_checkpoint(run: Path) -> None:
    with pytest.raises(DataError, match="not a checkpoint") as error:
        kp.rank(run / "state.safetensors", GRAPH)
    assert error.value.problems == ["it is a state of a run"]
    assert "best" in error.value.remedy


def test_a_damaged_checkpoint_is_refused(run: Path, tmp_path: Path) -> None:
    content = bytearray((run / "best/mrr/seed-8.safetensors").read_bytes())
    content[-2] ^= 1
    (tmp_path / "mine.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"mine\.safetensors: cannot be read"):
        kp.rank(tmp_path / "mine.safetensors", GRAPH)


def test_a_run_that_has_not_been_validated_yet(tmp_path: Path) -> None:
    begin(tmp_path / "run", GRAPH).close()
    with pytest.raises(DataError, match="no checkpoint") as error:
        kp.rank(tmp_path / "run", GRAPH)
    assert "seed-3" in error.value.problems[0]
    assert "--resume" in error.value.remedy


def test_a_setting_that_this_version_does_not_know(run: Path, tmp_path: Path) -> None:
    tensors, about = read_tensors(run / "best/mrr/seed-8.safetensors")
    about["settings"]["validate_evary"] = about["settings"].pop("validate_every")
    write_tensors(tmp_path / "mine.safetensors", tensors, about)
    with pytest.raises(DataError, match="settings are invalid in this version") as error:
        kp.rank(tmp_path / "mine.safetensors", GRAPH)
    assert "validate_evary" in error.value.problems[0]


def test_a_run_is_what_is_opened_first(run: Path) -> None:
    meant = [adapter.what for adapter in ADAPTERS if adapter.matches(run / "best/mrr/seed-3.safetensors")]
    assert meant[0].startswith("a run of 'kgprobe train'")
    assert [adapter.what for adapter in ADAPTERS if adapter.matches(run)] == meant[:1]
    assert open_model(run, Opening(GRAPH, RankedTriples.build(GRAPH))).name == "RotatE"


def test_other_files_and_folders_are_not_taken_for_runs(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("epochs = 3", encoding="utf-8")
    (tmp_path / "mine.safetensors").write_bytes(b"x" * 20)
    assert not any(map(is_trained, (tmp_path, *tmp_path.iterdir(), tmp_path / "nowhere")))


@pytest.fixture
def ranked_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], kp.Ranks]:
    GRAPH.write(tmp_path / "graph")

    def ranked(path: Path) -> kp.Ranks:
        where = ["--graph", str(tmp_path / "graph"), "--output", str(tmp_path / "mine.parquet")]
        monkeypatch.setattr("sys.argv", ["kgprobe", "rank", str(path), *where])
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code
        return kp.read_ranks(tmp_path / "mine.parquet")

    return ranked


def test_the_command_ranks_a_run(run: Path, ranked_by_command: Callable[[Path], kp.Ranks]) -> None:
    kept = kp.read_ranks(run / "ranks.parquet")
    np.testing.assert_array_equal(ranked_by_command(run).rank, kept.filter(kept.seed == 3).rank)


def test_the_command_ranks_a_snapshot(run: Path, ranked_by_command: Callable[[Path], kp.Ranks]) -> None:
    snapshot = run / "snapshots/epoch-00002/seed-8.safetensors"
    np.testing.assert_array_equal(ranked_by_command(snapshot).rank, kp.rank(snapshot, GRAPH).rank)


def test_a_model_of_a_run_is_told_apart_without_torch(run: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from kgprobe.predict.adapters.opening import ADAPTERS
        import kgprobe
        print(*(ADAPTERS[0].matches(Path(path)) for path in sys.argv[1:]), "torch" in sys.modules)
    """
    paths = [str(run), str(run / "best/mrr/seed-3.safetensors"), str(run / "ranks.parquet")]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    assert done.stdout == "True True False False\n"
