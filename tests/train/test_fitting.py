"""Training in one call: the same as the parts that it puts together.

The kept checkpoints are what is ranked, seed by seed, and the rank file says how they were trained.

The end of a run: ranks of every target, the result, and nothing done twice.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.embedding_model import ranked_run
from kgprobe.ranks import CheckpointInfo, TrainingInfo
from kgprobe.train.checkpoints import MemoryStorage
from kgprobe.train.embedding_learner import build_model
from kgprobe.train.fitting import finish_run, model_name, rank_best, ranking_queries
from kgprobe.train.run_directory import RunDirectory
from kgprobe.train.settings import Settings
from kgprobe.train.trainer import TrainingProgress, TrainingResources, train
from runs import TARGETS, assert_same_run, begin, quick_settings, small_graph

QUICK = {"dimension": 4, "epochs": 4, "validate_every": 2, "batch_size": 32, "select": list(TARGETS), "seeds": [3, 8]}


def test_in_memory_and_on_disk_come_to_the_same(tmp_path: Path) -> None:
    graph = small_graph()
    memory = kp.fit("ComplEx", graph, threads=1, **QUICK)
    disk = kp.fit("complex", graph, tmp_path / "run", threads=1, **QUICK)
    assert memory.settings == disk.settings
    assert memory.to_arrow().to_pylist() == memory.trained.rows
    means = ", ".join(
        f"{target} {np.mean([best.score for best in runs]):.4f}" for target, runs in memory.trained.best.items()
    )
    assert repr(memory) == f"Fitted(ComplEx, 2 seeds, 4 epochs, best validation {means})"
    assert memory._repr_html_().count("<tr") == 1 + 2 * len(TARGETS)
    assert memory.trained.best == disk.trained.best
    for target, name in zip(TARGETS, ("ranks.parquet", "ranks-mrr.parquet"), strict=True):
        assert memory.ranks[target].rank.tolist() == disk.ranks[target].rank.tolist()
        assert kp.read_ranks(tmp_path / "run" / name).rank.tolist() == disk.ranks[target].rank.tolist()
        assert kp.evaluate(disk.ranks[target], ["MRR"]) == kp.evaluate(memory.ranks[target], ["MRR"])


class PressCtrlC:
    """Sends real interrupts to this process within an epoch, which follows this number of epochs."""

    def __init__(self, epoch: int, times: int = 1) -> None:
        self.epoch, self.times, self.reached, self._reports = epoch, times, 0, 0

    def __call__(self, progress: TrainingProgress) -> None:
        self.reached = max(self.reached, progress.epoch)
        self._reports += progress.epoch == self.epoch and progress.phase == "training"
        if self._reports == 2:  # the first is about the end of the epoch before
            self._reports += 1
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("times", "saved"), [(1, 4), (2, 3)], ids=["once", "twice"])
def test_ctrl_c_saves_the_epoch_unless_it_is_pressed_twice(times: int, saved: int, tmp_path: Path) -> None:
    # Epoch 4 is interrupted. States are written with the validations, so only Ctrl-C saves epoch 4.
    quick = QUICK | {"epochs": 6, "validate_every": 3}
    graph = small_graph()
    kp.fit("complex", graph, tmp_path / "whole", threads=1, **quick)
    press = PressCtrlC(3, times)
    with pytest.raises(KeyboardInterrupt, match=f"epoch {saved} of 6 is saved; `resume=True` continues with epoch"):
        kp.fit("complex", graph, tmp_path / "run", threads=1, progress=press, **quick)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert press.reached == saved
    told: list[int] = []
    kp.fit(
        "complex",
        graph,
        tmp_path / "run",
        threads=1,
        resume=True,
        progress=lambda progress: told.append(progress.epoch),
        **quick,
    )
    assert told[0] == saved
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_ctrl_c_in_the_last_epoch_leaves_the_ranking(tmp_path: Path) -> None:
    graph, press = small_graph(), PressCtrlC(3)
    with pytest.raises(KeyboardInterrupt, match="epoch 4 of 4 is saved; `resume=True` ranks the test triples"):
        kp.fit("complex", graph, tmp_path / "run", threads=1, progress=press, **QUICK)
    assert set(kp.fit("complex", graph, tmp_path / "run", threads=1, resume=True, **QUICK).ranks) == set(TARGETS)


def test_ctrl_c_is_not_caught_where_nothing_would_be_saved_or_the_program_catches_it(tmp_path: Path) -> None:
    graph, caught = small_graph(), []
    with pytest.raises(KeyboardInterrupt) as stopped:
        kp.fit("complex", graph, threads=1, progress=PressCtrlC(1), **QUICK)
    assert str(stopped.value) == ""
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    try:
        kp.fit("complex", graph, tmp_path / "run", threads=1, progress=PressCtrlC(1), **QUICK)
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught == [signal.SIGINT]


def test_a_run_that_is_there_is_not_thrown_away_unasked(tmp_path: Path) -> None:
    graph = small_graph()
    kp.fit("distmult", graph, tmp_path / "run", threads=1, **QUICK)
    with pytest.raises(UsageError, match="force"):
        kp.fit("distmult", graph, tmp_path / "run", threads=1, **QUICK)
    again = kp.fit("distmult", graph, tmp_path / "run", threads=1, force=True, **QUICK)
    assert set(again.ranks) == set(TARGETS)


def test_a_finished_run_is_resumed_from_its_files(tmp_path: Path) -> None:
    graph, told = small_graph(), []
    first = kp.fit("distmult", graph, tmp_path / "run", threads=1, **QUICK)
    again = kp.fit("distmult", graph, tmp_path / "run", threads=1, resume=True, progress=told.append, **QUICK)
    assert told == []
    assert again.settings == first.settings
    assert (again.trained.best, again.trained.times) == (first.trained.best, first.trained.times)
    assert again.trained.rows == first.trained.rows
    assert all(again.ranks[target].to_arrow().equals(first.ranks[target].to_arrow()) for target in TARGETS)
    with pytest.raises(UsageError, match="other settings"):
        kp.fit("distmult", graph, tmp_path / "run", threads=1, resume=True, **QUICK | {"epochs": 5})
    for arguments in ({"output": tmp_path / "run", "force": True}, {}):
        with pytest.raises(UsageError, match="invalid arguments"):
            kp.fit("distmult", graph, resume=True, **arguments, **QUICK)


def test_settings_of_a_file_are_overridden_by_arguments(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("epochs = 2\ndimension = 3\n", encoding="utf-8")
    settings = kp.fit("distmult", small_graph(), config=config, threads=1, epochs=1, seeds=[0]).settings
    assert (settings.epochs, settings.options.dimension) == (1, 3)


def test_settings_that_there_are_not_are_named() -> None:
    with pytest.raises(UsageError, match=r"no setting 'dimensions'.*nearest: dimension"):
        kp.fit("rotate", small_graph(), dimensions=4)
    with pytest.raises(UsageError, match="no model 'rotat'"):
        kp.fit("rotat", small_graph())


def test_a_graph_without_test_facts_has_no_ranks() -> None:
    graph = small_graph()
    train = kp.KnowledgeGraph.from_triples(train=graph.triples("train"), valid=graph.triples("valid"))
    assert kp.fit("complex", train, threads=1, **QUICK).ranks == {}


GRAPH = small_graph()


def _kept(settings: Settings) -> MemoryStorage:
    """Untrained runs, those of the second target with their seeds exchanged."""
    storage, model = MemoryStorage(), build_model(settings, GRAPH, torch.device("cpu"))
    for target, order in zip(settings.select, ((0, 1), (1, 0)), strict=False):
        for seed, run in zip(settings.seeds, order, strict=True):
            weights = {name: own[run : run + 1] for name, own in model.state_dict().items()}
            storage.save_best(target, seed, weights, {"epoch": 10 * run + 4, "score": 0.5})
    return storage


def _direct(settings: Settings, run: int) -> kp.Ranks:
    model = build_model(settings, GRAPH, torch.device("cpu")).one_run(run)
    return kp.rank(ranked_run(model, GRAPH.num_relations if settings.reciprocal else None), GRAPH)


@pytest.mark.parametrize("model", ["complex", "rotate", "house", "tucker"])
@pytest.mark.parametrize("reciprocal", [False, True], ids=["plain", "reciprocal"])
def test_each_seed_has_the_ranks_of_its_own_checkpoint(model: str, reciprocal: bool) -> None:
    settings = quick_settings(model, reciprocal=reciprocal)
    storage = _kept(settings)
    runs = [_direct(settings, run).rank for run in (0, 1)]
    assert (runs[0] != runs[1]).any()
    for target, order in zip(TARGETS, ((0, 1), (1, 0)), strict=True):
        ranks = rank_best(storage, settings, GRAPH, target)
        assert ranks.seed is not None
        for seed, run in zip(settings.seeds, order, strict=True):
            np.testing.assert_array_equal(ranks.filter(ranks.seed == seed).rank, runs[run])


def test_a_checkpoint_that_several_targets_choose_is_ranked_once_and_seeds_are_kept_apart() -> None:
    """Both seeds are at their best after the same epoch, by both targets."""
    settings, storage = quick_settings(), MemoryStorage()
    model = build_model(settings, GRAPH, torch.device("cpu"))
    for target in TARGETS:
        for run, seed in enumerate(settings.seeds):
            weights = {name: own[run : run + 1] for name, own in model.state_dict().items()}
            storage.save_best(target, seed, weights, {"epoch": 4, "score": 0.5})
    ranked: dict[tuple[int, int], kp.Ranks] = {}
    watched: list[float] = []
    tables, kept = [], []
    for target in TARGETS:
        tables.append(rank_best(storage, settings, GRAPH, target, progress=watched.append, ranked=ranked))
        kept.append(list(map(id, ranked.values())))
    assert kept[0] == kept[1]
    assert sorted(ranked) == [(seed, 4) for seed in settings.seeds]
    assert sum(watched) == sum(map(len, tables))
    for ranks in tables:
        assert ranks.seed is not None
        for run, seed in enumerate(settings.seeds):
            np.testing.assert_array_equal(ranks.filter(ranks.seed == seed).rank, _direct(settings, run).rank)


def test_all_test_facts_are_ranked_on_both_sides_and_no_others() -> None:
    settings = quick_settings()
    ranks = rank_best(_kept(settings), settings, GRAPH, TARGETS[0])
    facts = {tuple(fact) for fact in GRAPH.triples("test").tolist()}
    assert {*zip(ranks.head.tolist(), ranks.relation.tolist(), ranks.tail.tolist(), strict=True)} == facts
    assert len(ranks) == len(facts) * 2 * len(settings.seeds)
    assert ranks.info.split == "test"
    assert ranks.info.filtered == ("train", "valid", "test")
    assert ranks.info.graph_hash == GRAPH.content_hash


def test_the_rank_file_says_how_its_models_were_trained(tmp_path: Path) -> None:
    settings = quick_settings()
    rank_best(_kept(settings), settings, GRAPH, "MRR").write(tmp_path / "ranks.parquet")
    info = kp.read_ranks(tmp_path / "ranks.parquet").info
    assert info.training == TrainingInfo(
        selected_by="MRR",
        checkpoints=(CheckpointInfo(seed=3, epoch=14, score=0.5), CheckpointInfo(seed=8, epoch=4, score=0.5)),
        settings={**settings.flat(), "select": list(TARGETS), "seeds": [3, 8]},
    )
    assert info.settings["sides"] == ["tail", "head"]


def test_targets_tell_the_models_of_a_training_apart() -> None:
    settings = quick_settings()
    assert [model_name(settings, target) for target in TARGETS] == [f"ComplEx by {target}" for target in TARGETS]
    assert model_name(replace(settings, select=("MRR",)), "MRR") == "ComplEx"


def test_progress_adds_up_to_all_queries() -> None:
    settings, done = quick_settings(), []
    ranks = rank_best(_kept(settings), settings, GRAPH, "MRR", progress=done.append)
    assert sum(done) == pytest.approx(len(ranks))


def test_weights_of_another_model_are_refused() -> None:
    storage = _kept(quick_settings())
    with pytest.raises(DataError, match="not the weights of ComplEx") as error:
        rank_best(storage, quick_settings(dimension=5), GRAPH, "MRR")
    assert len(error.value.problems) == 2
    assert "entity" in error.value.problems[0]


@pytest.fixture
def trained_run(tmp_path: Path) -> Iterator[RunDirectory]:
    with begin(tmp_path / "run", GRAPH) as run:
        train(run.settings, GRAPH, run, TrainingResources(threads=1))
        yield run


def test_every_target_has_its_ranks_and_the_result_says_how_good_they_are(trained_run: RunDirectory) -> None:
    ranked = finish_run(trained_run, GRAPH, times={"seconds": 1.5})
    assert trained_run.finished
    result = json.loads((trained_run.path / "result.json").read_text(encoding="utf-8"))
    assert result["seconds"] == 1.5
    for target, name in zip(TARGETS, ("ranks.parquet", "ranks-mrr.parquet"), strict=True):
        found, ranks = result["targets"][target], kp.read_ranks(trained_run.path / name)
        assert found["ranks"] == name
        np.testing.assert_array_equal(ranks.rank, ranked[target].rank)
        for number, seed in enumerate((3, 8)):
            one = ranks.filter(ranks.seed == seed)
            by_side = {score.group["side"]: score.value for score in kp.scores(one, "MRR", by=["side"])}
            assert {side: found["test"][side]["MRR"][number] for side in ("head", "tail")} == pytest.approx(by_side)
            assert found["test"]["both"][target][number] == pytest.approx(kp.evaluate(one, [target])[target])


def test_the_checkpoints_are_those_of_the_best_validations(trained_run: RunDirectory) -> None:
    finish_run(trained_run, GRAPH)
    result = json.loads((trained_run.path / "result.json").read_text(encoding="utf-8"))
    rows = trained_run.log_file.rows()
    for target in TARGETS:
        for number, checkpoint in enumerate(result["targets"][target]["checkpoints"]):
            scores = [row["scores"][target][number] for row in rows]
            assert checkpoint["score"] == max(scores)
            assert checkpoint["epoch"] == rows[scores.index(max(scores))]["epoch"]


def test_what_has_been_ranked_is_not_ranked_again(trained_run: RunDirectory) -> None:
    first: list[float] = []
    ranked = finish_run(trained_run, GRAPH, progress=first.append)
    assert sum(first) == pytest.approx(ranking_queries(trained_run.settings, GRAPH))
    (trained_run.path / "ranks-mrr.parquet").unlink()
    again: list[float] = []
    other = finish_run(trained_run, GRAPH, progress=again.append)
    assert sum(again) == pytest.approx(sum(first) / 2)
    for target in TARGETS:
        assert other[target].to_arrow().equals(ranked[target].to_arrow())


@pytest.mark.parametrize("how", ["of another checkpoint", "damaged"])
def test_ranks_that_do_not_belong_to_the_checkpoints_are_replaced(how: str, trained_run: RunDirectory) -> None:
    path = trained_run.path / "ranks.parquet"
    wanted = finish_run(trained_run, GRAPH)[TARGETS[0]].to_arrow()
    if how == "damaged":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        tensors, facts = trained_run.load_best(TARGETS[0], 8)
        trained_run.save_best(TARGETS[0], 8, tensors, facts | {"epoch": 1})
    found = finish_run(trained_run, GRAPH)[TARGETS[0]]
    assert kp.read_ranks(path).to_arrow().equals(found.to_arrow())
    assert found.to_arrow().equals(wanted)
    assert found.info.training.checkpoints[1].epoch == trained_run.load_best(TARGETS[0], 8)[1]["epoch"]


def test_a_graph_without_test_facts_has_a_result_without_ranks(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples(
        train=GRAPH.triples("train"), valid=GRAPH.triples("valid"), num_entities=12, num_relations=2
    )
    with begin(tmp_path / "run", graph) as run:
        train(run.settings, graph, run, TrainingResources(threads=1))
        assert finish_run(run, graph) == {}
        assert run.finished
        assert not list(run.path.glob("ranks*.parquet"))
