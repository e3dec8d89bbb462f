"""Training in one call: the same as the parts that it puts together."""

from __future__ import annotations

from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.errors import UsageError
from runs import TARGETS, small_graph

QUICK = {"dimension": 4, "epochs": 4, "validate_every": 2, "batch_size": 32, "select": list(TARGETS), "seeds": [3, 8]}


def test_in_memory_and_on_disk_come_to_the_same(tmp_path: Path) -> None:
    graph = small_graph()
    memory = kp.fit("ComplEx", graph, threads=1, **QUICK)
    disk = kp.fit("complex", graph, tmp_path / "run", threads=1, **QUICK)
    assert memory.settings == disk.settings
    assert memory.trained.best == disk.trained.best
    for target, name in zip(TARGETS, ("ranks.parquet", "ranks-mrr.parquet"), strict=True):
        assert memory.ranks[target].rank.tolist() == disk.ranks[target].rank.tolist()
        assert kp.read_ranks(tmp_path / "run" / name).rank.tolist() == disk.ranks[target].rank.tolist()
        assert kp.evaluate(disk.ranks[target], ["MRR"]) == kp.evaluate(memory.ranks[target], ["MRR"])


def test_a_run_that_is_there_is_not_thrown_away_unasked(tmp_path: Path) -> None:
    graph = small_graph()
    kp.fit("distmult", graph, tmp_path / "run", threads=1, **QUICK)
    with pytest.raises(UsageError, match="force"):
        kp.fit("distmult", graph, tmp_path / "run", threads=1, **QUICK)
    again = kp.fit("distmult", graph, tmp_path / "run", threads=1, force=True, **QUICK)
    assert set(again.ranks) == set(TARGETS)


def test_settings_that_there_are_not_are_named() -> None:
    with pytest.raises(UsageError, match=r"no setting 'dimensions'.*nearest: dimension"):
        kp.fit("rotate", small_graph(), dimensions=4)
    with pytest.raises(UsageError, match="no model 'rotat'"):
        kp.fit("rotat", small_graph())


def test_a_graph_without_test_facts_has_no_ranks() -> None:
    graph = small_graph()
    train = kp.KnowledgeGraph.from_triples(train=graph.triples("train"), valid=graph.triples("valid"))
    assert kp.fit("complex", train, threads=1, **QUICK).ranks == {}
