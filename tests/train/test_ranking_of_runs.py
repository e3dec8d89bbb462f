"""The kept checkpoints are what is ranked, seed by seed, and the rank file says how they were trained."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import kgprobe as kp
from kgprobe.errors import DataError
from kgprobe.models.reciprocal import ranked_run
from kgprobe.train.embedding import build_model
from kgprobe.train.keep import MemoryKeep
from kgprobe.train.ranking import model_name, rank_best
from kgprobe.train.settings import Settings
from runs import TARGETS, quick_settings, small_graph

GRAPH = small_graph()


def _kept(settings: Settings) -> MemoryKeep:
    """Untrained runs, those of the second target with their seeds exchanged."""
    keep, model = MemoryKeep(), build_model(settings, GRAPH, torch.device("cpu"))
    for target, order in zip(settings.select, ((0, 1), (1, 0)), strict=False):
        for seed, run in zip(settings.seeds, order, strict=True):
            weights = {name: own[run : run + 1] for name, own in model.state_dict().items()}
            keep.save_best(target, seed, weights, {"epoch": 10 * run + 4, "score": 0.5})
    return keep


def _direct(settings: Settings, run: int) -> kp.Ranks:
    model = build_model(settings, GRAPH, torch.device("cpu")).one_run(run)
    return kp.rank(ranked_run(model, GRAPH.num_relations if settings.reciprocal else None), GRAPH)


@pytest.mark.parametrize("model", ["complex", "rotate", "house", "tucker"])
@pytest.mark.parametrize("reciprocal", [False, True], ids=["plain", "reciprocal"])
def test_each_seed_has_the_ranks_of_its_own_checkpoint(model: str, reciprocal: bool) -> None:
    settings = quick_settings(model, reciprocal=reciprocal)
    keep = _kept(settings)
    runs = [_direct(settings, run).rank for run in (0, 1)]
    assert (runs[0] != runs[1]).any()
    for target, order in zip(TARGETS, ((0, 1), (1, 0)), strict=True):
        ranks = rank_best(keep, settings, GRAPH, target)
        assert ranks.seed is not None
        for seed, run in zip(settings.seeds, order, strict=True):
            np.testing.assert_array_equal(ranks.filter(ranks.seed == seed).rank, runs[run])


def test_a_checkpoint_that_several_targets_choose_is_ranked_once_and_seeds_are_kept_apart() -> None:
    """Both seeds are at their best after the same epoch, by both targets."""
    settings, keep = quick_settings(), MemoryKeep()
    model = build_model(settings, GRAPH, torch.device("cpu"))
    for target in TARGETS:
        for run, seed in enumerate(settings.seeds):
            weights = {name: own[run : run + 1] for name, own in model.state_dict().items()}
            keep.save_best(target, seed, weights, {"epoch": 4, "score": 0.5})
    ranked: dict[tuple[int, int], kp.Ranks] = {}
    watched: list[float] = []
    tables, kept = [], []
    for target in TARGETS:
        tables.append(rank_best(keep, settings, GRAPH, target, watch=watched.append, ranked=ranked))
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
    assert info.settings["training"] == {**settings.flat(), "select": list(TARGETS), "seeds": [3, 8]}
    assert info.settings["selected_by"] == "MRR"
    assert info.settings["checkpoints"] == [
        {"seed": 3, "epoch": 14, "score": 0.5},
        {"seed": 8, "epoch": 4, "score": 0.5},
    ]
    assert info.settings["sides"] == ["tail", "head"]


def test_targets_tell_the_models_of_a_training_apart() -> None:
    settings = quick_settings()
    assert [model_name(settings, target) for target in TARGETS] == [f"ComplEx by {target}" for target in TARGETS]
    assert model_name(replace(settings, select=("MRR",)), "MRR") == "ComplEx"


def test_progress_adds_up_to_all_queries() -> None:
    settings, done = quick_settings(), []
    ranks = rank_best(_kept(settings), settings, GRAPH, "MRR", watch=done.append)
    assert sum(done) == pytest.approx(len(ranks))


def test_weights_of_another_model_are_refused() -> None:
    keep = _kept(quick_settings())
    with pytest.raises(DataError, match="not the weights of ComplEx") as error:
        rank_best(keep, quick_settings(dimension=5), GRAPH, "MRR")
    assert len(error.value.problems) == 2
    assert "entity" in error.value.problems[0]
