"""Ray: the same bytes as one process, on real clusters whose processes are killed."""

import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.predict import Opening, Resources, Setting, count_blocks, open_model
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.blocks.block_counting import ByBlocks, Recipe
from kgprobe.predict.blocks.block_plan import Block, Part
from kgprobe.predict.blocks.ranking_directory import RankingDirectory
from kgprobe.predict.blocks.ray_executor import Ray, _Waiting
from killing import started
from ray_clusters import RayCluster, ray_cluster

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster() as it:
        yield it


def job(folder: Path, model: dict[str, Any], entities: int = 300, triples: int = 400) -> tuple[Path, Path]:
    """A graph and a model in files."""
    rng = np.random.default_rng(0)
    drawn = [np.column_stack([rng.integers(0, n, triples) for n in (entities, 5, entities)]) for _ in range(2)]
    graph = kp.KnowledgeGraph.from_triples(train=drawn[0], test=drawn[1], num_entities=entities, num_relations=5)
    graph.write(folder / "graph")
    # Small whole numbers make ties.
    arrays = {"entity": rng.integers(-3, 4, (entities, 16)), "relation": rng.integers(-3, 4, (5, 16))}
    write_embeddings(folder / "model.npz", model, {name: array.astype("f4") for name, array in arrays.items()})
    return folder / "graph", folder / "model.npz"


def written(ranks: kp.Ranks, path: Path) -> bytes:
    ranks.write(path)
    return path.read_bytes()


def test_this_machine_alone(tmp_path: Path) -> None:
    graph, model = job(tmp_path, {"model": "DistMult"})
    seen: list[float] = []
    found = kp.rank(model, graph, executor=kp.Ray(workers=2, cpus=1), blocks=tmp_path / "ranking", progress=seen.append)
    assert not ray.is_initialized()
    assert written(found, tmp_path / "a.parquet") == written(kp.rank(model, graph), tmp_path / "b.parquet")
    assert sum(seen) == pytest.approx(800)
    directory = RankingDirectory.open(tmp_path / "ranking")
    places = {directory.blocks.record(block).place for block in directory.plan.blocks}
    assert 1 <= len(places) <= 2
    assert directory.blocks.beats() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ({"model": "ComplEx"}, {}),
        ({"model": "TransE", "p": 1}, {"filter": "none", "sides": "tail"}),
        ({"model": "TransE", "p": 2}, {"candidates": "train", "filter": "train"}),
        ({"model": "DistMult"}, {"candidates": "negatives"}),
    ],
    ids=str,
)
def test_a_cluster_makes_the_same_bytes(
    cluster: RayCluster, tmp_path: Path, model: dict[str, Any], options: dict[str, Any]
) -> None:
    graph, path = job(tmp_path, model)
    if options.get("candidates") == "negatives":
        lists = {side: np.random.default_rng(1).integers(0, 300, (400, 20)) for side in ("head", "tail")}
        np.savez(tmp_path / "negatives.npz", **lists)
        options = {"candidates": tmp_path / "negatives.npz"}
    expected = kp.rank(path, graph, **options)
    found = kp.rank(path, graph, executor=Ray(cluster.address), resources=Resources(shards=3), **options)
    assert written(found, tmp_path / "a.parquet") == written(expected, tmp_path / "b.parquet")


@pytest.mark.slow
def test_relative_paths_lead_from_the_folder_of_the_driver(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(tmp_path, {"model": "ComplEx"})
    monkeypatch.chdir(tmp_path)
    found = kp.rank("model.npz", "graph", executor=Ray(cluster.address), blocks="ranking")
    assert found.to_arrow() == kp.rank("model.npz", "graph").to_arrow()


@pytest.mark.slow
def test_a_ranking_that_misses_fewer_blocks_than_there_are_workers(cluster: RayCluster, tmp_path: Path) -> None:
    graph, path = job(tmp_path, {"model": "TransE", "p": 1})
    expected = written(kp.rank(path, graph), tmp_path / "expected.parquet")
    for missing in (None, 1, 0):
        if missing is not None:
            directory = RankingDirectory.open(tmp_path / "ranking")
            assert len(directory.plan.blocks) > 4
            for block in directory.plan.blocks[:missing]:
                directory.blocks.path(block).unlink()
        found = kp.rank(path, graph, executor=Ray(cluster.address), blocks=tmp_path / "ranking")
        assert written(found, tmp_path / "found.parquet") == expected
        assert psutil.wait_procs(cluster.workers(), timeout=20)[1] == []


@pytest.mark.slow
def test_workers_beyond_the_missing_blocks_are_dismissed(cluster: RayCluster, tmp_path: Path) -> None:
    graph, path = job(tmp_path, {"model": "TransE", "p": 1})
    by = ByBlocks(tmp_path / "ranking", part=Part(1, 1))
    setting = Setting.build(kp.load_graph(graph))
    model = open_model(path, Opening(setting.graph, setting.ranked))
    directory = count_blocks(setting, model, by, Resources(shards=5))
    directory.blocks.path(directory.plan.blocks[0]).unlink()
    with Ray(cluster.address).session(Recipe(str(path), str(graph)), "cpu") as session:
        assert session.workers == 4
        count_blocks(setting, model, replace(by, session=session), Resources())
        assert len(session.crew.hired) == 1
    assert directory.merged().to_arrow() == kp.rank(path, graph).to_arrow()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("finished", [0, 2])
def test_sigterm_ends_the_processes_of_ray(tmp_path: Path, finished: int) -> None:
    graph, model = job(tmp_path, {"model": "TransE", "p": 1}, entities=16_000, triples=16_000)
    ranking = tmp_path / "ranking"
    words = ["rank", model, "-g", graph, "--ray", "--blocks", ranking, "--shards", 16, "-o", tmp_path / "ranks.parquet"]
    driver = started([str(word) for word in words], tmp_path / "said.txt")
    while driver.is_alive():
        began = driver.pid is not None and len(psutil.Process(driver.pid).children()) > 1
        if began and len(list(ranking.glob("blocks/*.parquet"))) >= finished:
            break
        time.sleep(0.05)
    below = psutil.Process(driver.pid).children(recursive=True)
    assert below
    driver.terminate()
    driver.join()
    assert driver.exitcode != 0
    assert psutil.wait_procs(below, timeout=20)[1] == []
    assert not (tmp_path / "ranks.parquet").exists()
    if finished:
        directory = RankingDirectory.open(ranking)
        assert directory.status().done >= finished
        assert directory.blocks.beats() == []


@pytest.mark.slow
def test_a_connection_that_the_user_made_is_used_and_kept(cluster: RayCluster, tmp_path: Path) -> None:
    graph, _ = job(tmp_path, {"model": "ComplEx"})
    ray.init(cluster.address, log_to_driver=False)
    try:
        ranks = kp.rank("random", graph, executor=Ray(workers=3))
        assert ray.is_initialized()
    finally:
        ray.shutdown()
    assert ranks.to_arrow() == kp.rank("random", graph).to_arrow()


@pytest.mark.slow
def test_a_worker_that_sees_another_model_is_refused(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, path = job(tmp_path, {"model": "ComplEx"})
    setting = Setting.build(kp.load_graph(graph))
    model = open_model(path, Opening(setting.graph, setting.ranked))
    (tmp_path / "other").mkdir()
    _, other = job(tmp_path / "other", {"model": "DistMult"})
    (tmp_path / "smaller").mkdir()
    _, smaller = job(tmp_path / "smaller", {"model": "ComplEx"}, entities=200)
    for recipe, problem in (
        (Recipe(str(other), str(graph)), "the model has other weights"),
        (Recipe(str(smaller), str(graph)), "200"),
    ):
        with pytest.raises(DataError) as caught, Ray(cluster.address).session(recipe, "cpu") as session:
            count_blocks(setting, model, ByBlocks(tmp_path / "ranking", session), Resources())
        assert any(problem in line for line in caught.value.problems)


def test_a_model_in_memory_is_refused() -> None:
    graph = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])

    class Mine:
        similarity = kp.Dot()

        def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
            return np.ones((len(given), 2))

        def candidates(self, side: Any) -> Any:
            return np.ones((2, 2))

    with pytest.raises(UsageError, match="workers of Ray open the model by themselves"):
        kp.rank(Mine(), graph, executor=Ray())


def test_names_that_lead_nowhere_are_found_before_ray_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, model = job(tmp_path, {"model": "ComplEx"})
    begun: list[Any] = []
    monkeypatch.setattr(Ray, "_begin", lambda *arguments: begun.append(arguments))
    with pytest.raises(DataError, match="no such graph"):
        kp.rank(model, tmp_path / "no graph", executor=Ray())
    with pytest.raises(DataError, match="no model"):
        kp.rank(tmp_path / "no model", graph, executor=Ray())
    assert begun == []


def test_without_ray_the_command_to_install_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="Ray is not installed") as caught:
        kp.rank("random", "family-tree", executor=Ray())
    assert "pip install 'kgprobe[ray]'" in caught.value.remedy


@pytest.mark.parametrize("address", ["nonsense://address", "127.0.0.1:9", "no-such-host.invalid:6379"])
def test_a_cluster_that_is_not_there_is_named_at_once(address: str) -> None:
    with pytest.raises(DataError, match="no Ray cluster can be used") as caught:
        kp.rank("random", "family-tree", executor=Ray(address))
    assert address in caught.value.title


@pytest.mark.parametrize("arguments", [{"workers": 0}, {"cpus": 0}, {"gpus": -1}])
def test_impossible_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="invalid arguments of Ray"):
        Ray(**arguments)


def test_workers_stay_with_their_range_and_share_the_rest() -> None:
    ranges = [range(10), range(10, 20)]
    waiting = _Waiting([Block("tail", range(i, i + 1), entities) for entities in ranges for i in range(4)])
    in_use: Counter[range] = Counter()
    held: list[range | None] = [None, None]
    taken = []
    for turn in range(8):
        worker = turn % 2
        block = waiting.next(held[worker], Counter(other for other in held if other is not None))
        assert block is not None
        held[worker] = block.entities
        taken.append((worker, block.entities))
    assert Counter(taken) == {(0, ranges[0]): 4, (1, ranges[1]): 4}
    assert waiting.next(None, in_use) is None
    waiting.put(Block("tail", range(1), ranges[0]))
    assert waiting.next(ranges[1], in_use) is not None


VICTIMS = ["worker", "node", "driver"]

RUNS = [pytest.param(run, marks=pytest.mark.campaign if run else pytest.mark.slow) for run in range(10)]


@pytest.mark.parametrize("run", RUNS)
def test_processes_are_killed_and_the_bytes_are_the_same(tmp_path: Path, run: int) -> None:
    """Workers, raylets and the driver are killed at random; the driver is started again."""
    rng = random.Random(run)
    graph, model = job(tmp_path, {"model": "TransE", "p": 1}, entities=16_000, triples=16_000)
    ranking, out = tmp_path / "ranking", tmp_path / "ranks.parquet"
    said = tmp_path / "said.txt"
    killed: list[str] = []
    with ray_cluster() as cluster:
        words = ["rank", model, "-g", graph, "--ray", cluster.address, "--blocks", ranking, "--shards", 16, "-o", out]
        arguments = [str(word) for word in words]
        driver = started(arguments, said)
        starts, marks = 1, sorted(rng.sample(range(1, 25), len(VICTIMS)))
        victims = rng.sample(VICTIMS, len(VICTIMS))
        while victims or driver.is_alive():
            done = len(list((ranking / "blocks").glob("*.parquet"))) if (ranking / "blocks").is_dir() else 0
            if victims and done >= marks[len(killed)]:
                victim = victims[0]
                if victim == "worker" and not cluster.kill_worker(rng):
                    continue
                if victim == "node":
                    cluster.kill_node(rng)
                if victim == "driver":
                    driver.kill()
                    driver.join()
                killed.append(victims.pop(0))
            if not driver.is_alive() and not out.exists():
                assert starts <= len(VICTIMS) + 1, said.read_text("utf-8")
                driver, starts = started(arguments, said), starts + 1
            time.sleep(0.02)
        driver.join()
    assert driver.exitcode == 0, said.read_text("utf-8")
    warnings.warn(f"run {run}: killed {', '.join(killed)}; {starts} starts of the driver", stacklevel=1)
    directory = RankingDirectory.open(ranking)
    assert {path.stem for path in directory.blocks.finished.iterdir()} == {
        block.id(directory.identity.hash) for block in directory.plan.blocks
    }
    assert out.read_bytes() == written(kp.rank(model, graph), tmp_path / "expected.parquet")
