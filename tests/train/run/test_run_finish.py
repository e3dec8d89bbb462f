"""The end of a run: ranks of every target, the result, and nothing done twice."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.graph import KnowledgeGraph
from kgprobe.train.run.directory import RunDirectory
from kgprobe.train.run.finish import finish, ranking_queries
from kgprobe.train.trainer import TrainingResources, train
from runs import TARGETS, begin, small_graph

GRAPH = small_graph()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    with begin(tmp_path / "run", GRAPH) as run:
        train(run.settings, GRAPH, run, TrainingResources(threads=1))
        yield run


def test_every_target_has_its_ranks_and_the_result_says_how_good_they_are(run: RunDirectory) -> None:
    ranked = finish(run, GRAPH, facts={"seconds": 1.5})
    assert run.finished
    result = json.loads((run.path / "result.json").read_text(encoding="utf-8"))
    assert result["seconds"] == 1.5
    for target, name in zip(TARGETS, ("ranks.parquet", "ranks-mrr.parquet"), strict=True):
        found, ranks = result["targets"][target], kp.read_ranks(run.path / name)
        assert found["ranks"] == name
        np.testing.assert_array_equal(ranks.rank, ranked[target].rank)
        for number, seed in enumerate((3, 8)):
            one = ranks.filter(ranks.seed == seed)
            by_side = {score.group["side"]: score.value for score in kp.scores(one, "MRR", by=["side"])}
            assert {side: found["test"][side]["MRR"][number] for side in ("head", "tail")} == pytest.approx(by_side)
            assert found["test"]["both"][target][number] == pytest.approx(kp.evaluate(one, [target])[target])


def test_the_checkpoints_are_those_of_the_best_validations(run: RunDirectory) -> None:
    finish(run, GRAPH)
    result = json.loads((run.path / "result.json").read_text(encoding="utf-8"))
    rows = run.log_file.rows()
    for target in TARGETS:
        for number, checkpoint in enumerate(result["targets"][target]["checkpoints"]):
            scores = [row["scores"][target][number] for row in rows]
            assert checkpoint["score"] == max(scores)
            assert checkpoint["epoch"] == rows[scores.index(max(scores))]["epoch"]


def test_what_has_been_ranked_is_not_ranked_again(run: RunDirectory) -> None:
    first: list[float] = []
    ranked = finish(run, GRAPH, watch=first.append)
    assert sum(first) == pytest.approx(ranking_queries(run.settings, GRAPH))
    (run.path / "ranks-mrr.parquet").unlink()
    again: list[float] = []
    other = finish(run, GRAPH, watch=again.append)
    assert sum(again) == pytest.approx(sum(first) / 2)
    for target in TARGETS:
        assert other[target].to_arrow().equals(ranked[target].to_arrow())


@pytest.mark.parametrize("how", ["of another checkpoint", "damaged"])
def test_ranks_that_do_not_belong_to_the_checkpoints_are_replaced(how: str, run: RunDirectory) -> None:
    path = run.path / "ranks.parquet"
    wanted = finish(run, GRAPH)[TARGETS[0]].to_arrow()
    if how == "damaged":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        tensors, facts = run.load_best(TARGETS[0], 8)
        run.save_best(TARGETS[0], 8, tensors, facts | {"epoch": 1})
    found = finish(run, GRAPH)[TARGETS[0]]
    assert kp.read_ranks(path).to_arrow().equals(found.to_arrow())
    assert found.to_arrow().equals(wanted)
    assert found.info.settings["checkpoints"][1]["epoch"] == run.load_best(TARGETS[0], 8)[1]["epoch"]


def test_a_graph_without_test_facts_has_a_result_without_ranks(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples(
        train=GRAPH.triples("train"), valid=GRAPH.triples("valid"), num_entities=12, num_relations=2
    )
    with begin(tmp_path / "run", graph) as run:
        train(run.settings, graph, run, TrainingResources(threads=1))
        assert finish(run, graph) == {}
        assert run.finished
        assert not list(run.path.glob("ranks*.parquet"))
