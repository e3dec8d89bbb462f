"""Rankings by blocks have the bytes of rankings without, whatever is ranked, and whoever is killed."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.predict import Dot, GroupNorm, Model, Resources, Setting, count_blocks, rank_in, stored_arrays
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.blocks import block_counting, block_plan
from kgprobe.predict.blocks.block_counting import ByBlocks, Recipe, ThisProcess
from kgprobe.predict.blocks.block_plan import Part
from kgprobe.predict.blocks.ranking_directory import RankingDirectory
from kgprobe.predict.blocks.ranking_identity import RankingIdentity, model_files
from killing import started
from pbg_models import Plain, trained, trained_names
from ranking import SIMILARITIES, graph_of, matrix, query_sets, relation_sets, relation_vectors, vectors

GRAPH = graph_of(seed=5, entities=30, relations=4, facts=200)

RANKED = Setting.build(GRAPH).ranked

SETTINGS: dict[str, Callable[[], Setting]] = {
    "usual": lambda: Setting.build(GRAPH),
    "tails of valid": lambda: Setting.build(GRAPH, split="valid", sides="tail"),
    "unfiltered": lambda: Setting.build(GRAPH, filter="none"),
    "candidates of relations": lambda: Setting.build(GRAPH, candidates=relation_sets(GRAPH, seed=2)[0]),
    "negatives": lambda: Setting.build(GRAPH, candidates=query_sets(RANKED, GRAPH.num_entities, seed=3)[0]),
    "one triple": lambda: Setting.build(GRAPH, triples=[[3, 1, 4]], sides="head"),
}

MODELS: dict[str, Callable[[], Any]] = {
    **{str(one): lambda one=one: vectors("whole", one, GRAPH, 6, seed=1) for one in SIMILARITIES},
    "by relation, dot": lambda: relation_vectors("whole", Dot(), GRAPH, seed=1),
    "by relation, norm": lambda: relation_vectors("whole", GroupNorm(3), GRAPH, seed=1),
    "matrix": lambda: matrix(GRAPH, seed=1),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgprobe.predict.encoding._ENCODED_AT_ONCE", 6 * 20)
    monkeypatch.setattr("kgprobe.predict.encoding._PIECE", 6 * 7)
    monkeypatch.setattr(block_plan, "_LEAST_QUERIES", 1)
    monkeypatch.setattr(block_plan, "_PRODUCTS", 1)
    monkeypatch.setattr(block_plan, "_SCORES", 1)


def written(ranks: kp.Ranks, path: Path) -> bytes:
    ranks.write(path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("choice", SETTINGS)
def test_blocks_make_the_same_bytes(kind: str, choice: str, tmp_path: Path) -> None:
    setting, resources = SETTINGS[choice](), Resources(threads=2, shards=3, batch=4)
    model = Model(kind, MODELS[kind](), {"note": "x"}, baseline="by name" if kind == "matrix" else "")
    expected = written(rank_in(setting, model, resources), tmp_path / "expected.parquet")
    seen: list[float] = []
    directory = count_blocks(setting, model, ByBlocks(tmp_path / "ranking"), resources, progress=seen.append)
    assert written(directory.merged(), tmp_path / "found.parquet") == expected
    assert sum(seen) == pytest.approx(setting.queries)
    assert len(directory.plan.blocks) > (1 if choice == "one triple" else 3)
    assert directory.status().done == len(directory.plan.blocks)


def test_several_devices_share_the_blocks(tmp_path: Path) -> None:
    model = Model("mine", vectors("random", Dot(), GRAPH, 6, seed=1))
    expected = rank_in(Setting.build(GRAPH), model, Resources())
    directory = count_blocks(
        Setting.build(GRAPH), model, ByBlocks(tmp_path), Resources("cpu,torch:cpu", threads=1, shards=2)
    )
    assert directory.merged().to_arrow() == expected.to_arrow()


def test_an_error_of_the_model_ends_the_ranking_and_keeps_the_blocks(tmp_path: Path) -> None:
    class Breaking:
        def __init__(self, queries: int) -> None:
            self.left = queries
            self.scores = matrix(GRAPH, seed=1)

        def score(self, side: Any, given: Any, relation: Any) -> Any:
            self.left -= len(given)
            if self.left < 0:
                raise DataError("the model has broken")
            return self.scores.score(side, given, relation)

    setting, by = Setting.build(GRAPH), ByBlocks(tmp_path)
    with pytest.raises(DataError, match="the model has broken"):
        count_blocks(setting, Model("mine", Breaking(50), baseline="x"), by, Resources(batch=10))
    directory = RankingDirectory.open(tmp_path)
    assert directory.status().done == 5
    assert directory.blocks.beats() == []
    model = Model("mine", Breaking(10**6), baseline="x")
    again = count_blocks(setting, model, by, Resources(batch=10)).merged()
    assert again.to_arrow() == rank_in(setting, model, Resources(batch=10)).to_arrow()
    assert model.scorer.left == 10**6 - 2 * sum(len(RANKED.queries(side)) for side in RANKED.sides) + 50  # type: ignore[union-attr]


def test_blocks_of_other_processes_come_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, setting = Model("mine", vectors("random", Dot(), GRAPH, 6, seed=1)), Setting.build(GRAPH)
    directory = count_blocks(setting, model, ByBlocks(tmp_path, part=Part(4, 4)), Resources(shards=2))
    share = directory.plan.part(1, 4)
    order = []
    count_block = block_counting.count_block

    def noted(setting: Any, scorer: Any, block: Any, *rest: Any) -> Any:
        order.append(block)
        return count_block(setting, scorer, block, *rest)

    monkeypatch.setattr(block_counting, "count_block", noted)
    with directory.blocks.beating(share[0], "another node 12"):
        count_blocks(setting, model, ByBlocks(tmp_path, part=Part(1, 4)), Resources(shards=2))
    assert order == [*share[1:], share[0]]
    assert len(share) > 1


def test_a_block_that_another_process_has_finished_is_not_counted(tmp_path: Path) -> None:
    model, setting = Model("mine", vectors("random", Dot(), GRAPH, 6, seed=1)), Setting.build(GRAPH)
    directory = count_blocks(setting, model, ByBlocks(tmp_path), Resources(shards=2))
    block = directory.plan.blocks[0]
    before = directory.blocks.path(block).stat().st_mtime_ns
    ranking = block_counting.BlockRanking(setting, model.scorer, directory, Resources(), lambda queries: None)  # type: ignore[arg-type]
    block_counting.ThisProcess().count(ranking, [block])
    assert directory.blocks.path(block).stat().st_mtime_ns == before


def test_kp_rank_by_blocks(tmp_path: Path) -> None:
    model = vectors("random", GroupNorm(2), GRAPH, 6, seed=1)
    ranks = kp.rank(model, GRAPH, blocks=tmp_path, candidates="train", name="mine")
    assert ranks.to_arrow() == kp.rank(model, GRAPH, candidates="train", name="mine").to_arrow()
    with pytest.raises(UsageError, match="another ranking"):
        kp.rank(model, GRAPH, blocks=tmp_path, name="mine")
    with pytest.raises(UsageError, match="samples are not ranked by blocks"):
        kp.rank(model, GRAPH, blocks=tmp_path / "new", sample=5)
    with pytest.raises(UsageError, match="cannot be ranked by blocks"):
        kp.rank(lambda side, given, relation: np.zeros((len(given), 30)), GRAPH, blocks=tmp_path / "new")


def test_a_session_begins_before_the_graph_is_opened_and_ends_with_its_error(tmp_path: Path) -> None:
    class Noting:
        def __init__(self) -> None:
            self.events: list[Any] = []

        @contextmanager
        def session(self, recipe: Recipe | None, device: str) -> Iterator[ThisProcess]:
            self.events.append((recipe and recipe.model, device))
            try:
                yield ThisProcess()
            finally:
                self.events.append("end")

    executor = Noting()
    with pytest.raises(DataError, match="no such graph"):
        kp.rank("random", tmp_path / "no graph", executor=executor, resources=Resources("torch:cpu"))
    assert executor.events == [("random", "torch:cpu"), "end"]
    ranks = kp.rank("random", GRAPH, executor=executor, blocks=tmp_path / "ranking")
    assert executor.events[2:] == [("random", "cpu"), "end"]
    assert ranks.to_arrow() == kp.rank("random", GRAPH).to_arrow()


def test_names_that_lead_nowhere_are_found_before_anything_is_opened(tmp_path: Path) -> None:
    GRAPH.write(tmp_path / "graph")
    _, model = embedding_job(tmp_path / "job")
    for graph in (tmp_path / "graph", GRAPH, "family-tree"):
        Recipe(str(model), graph).require_found()
        Recipe("entity-frequency", graph).require_found()
        with pytest.raises(DataError, match=r"gone\.npz: no model"):
            Recipe(str(tmp_path / "gone.npz"), graph).require_found()
    with pytest.raises(DataError, match="no graph here: no such graph"):
        Recipe(str(model), "no graph here").require_found()


def test_a_recipe_opens_the_same_ranking_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    GRAPH.write(tmp_path / "graph")
    monkeypatch.chdir(tmp_path)
    recipe = Recipe("random", "graph", {"sides": "tail"}, {"seed": 3})
    monkeypatch.chdir("/")
    setting, model = recipe.open()
    assert (setting.graph.content_hash, setting.ranked.sides, model.baseline) == (
        GRAPH.content_hash,
        ("tail",),
        "random 3",
    )
    monkeypatch.setattr("os.path.isdir", lambda path: False)
    with pytest.raises(DataError, match="no such folder"):
        recipe.open()


def embedding_job(folder: Path, entities: int = 3000, triples: int = 3000) -> tuple[Path, Path]:
    """A graph and a model whose ranking takes some seconds."""
    rng = np.random.default_rng(0)
    drawn = [np.column_stack([rng.integers(0, n, triples) for n in (entities, 5, entities)]) for _ in range(2)]
    graph = kp.KnowledgeGraph.from_triples(train=drawn[0], test=drawn[1], num_entities=entities, num_relations=5)
    graph.write(folder / "graph")
    arrays = {"entity": rng.normal(size=(entities, 32)), "relation": rng.normal(size=(5, 32))}
    write_embeddings(folder / "model.npz", {"model": "TransE", "p": 1}, arrays)
    return folder / "graph", folder / "model.npz"


def finished(folder: Path) -> int:
    return len(list((folder / "blocks").glob("*.parquet"))) if (folder / "blocks").is_dir() else 0


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_two_parts_at_the_same_time_one_of_them_killed(tmp_path: Path, kills: int) -> None:
    """Both work on one folder; one is killed when it has just written a block, and started again."""
    graph, model = embedding_job(tmp_path, *(2 * [16_000 + 300 * kills]))
    ranking = tmp_path / "ranking"
    common = ["rank", str(model), "-g", str(graph), "--threads", "1", "--shards", str(4 * kills)]
    other = started([*common, "--blocks", str(ranking), "--part", "2/2"], tmp_path / "other.txt")
    killed = 0
    while True:
        before = finished(ranking)
        one = started([*common, "--blocks", str(ranking), "--part", "1/2"], tmp_path / "one.txt")
        while one.is_alive() and (killed >= kills or finished(ranking) <= before + 1):
            time.sleep(0.001)
        if not one.is_alive():
            break
        one.kill()
        one.join()
        killed += 1
    one.join()
    other.join()
    said = [(tmp_path / f"{name}.txt").read_text("utf-8") for name in ("one", "other")]
    assert (one.exitcode, other.exitcode) == (0, 0), said
    assert killed >= 1  # on a busy machine the other process may be done before
    expected = kp.rank(model, graph)
    assert written(RankingDirectory.open(ranking).merged(), tmp_path / "a.parquet") == written(
        expected, tmp_path / "b.parquet"
    )


SAVED = Path(__file__).parents[2] / "saved_models"

OTHERS = {
    "DGL-KE": lambda: (SAVED / "dgl_ke" / "RotatE_tiny_0", SAVED / "dgl_ke" / "graph"),
    "DGL-KE by relation": lambda: (SAVED / "dgl_ke" / "TransR_tiny_0", SAVED / "dgl_ke" / "graph"),
    **{name: lambda name=name: (trained() / name / "model", None) for name in trained_names()},
}


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_models_of_other_libraries_make_the_same_bytes(
    name: str, mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some bring their own candidates, some stay in their files."""
    if mapped:
        monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 0)
        monkeypatch.setattr("kgprobe.predict.setting._RANGE_BYTES", 64)
    path, folder = OTHERS[name]()
    graph = kp.load_graph(folder) if folder else Plain(path, path.parent / "graph").graph()
    expected = written(kp.rank(path, graph), tmp_path / "expected.parquet")
    found = kp.rank(path, graph, blocks=tmp_path / "ranking")
    assert written(found, tmp_path / "found.parquet") == expected
    recipe = Recipe(str(path), graph)
    setting, model = recipe.open()
    info = RankingDirectory.open(tmp_path / "ranking").info
    own = RankingIdentity.of(setting, model, info, model_files(model.files))
    assert own == RankingDirectory.open(tmp_path / "ranking").identity
