"""Validation against ranks counted one query at a time."""

import numpy as np
import pytest
import torch

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import parse
from kgprobe.models.base import EmbeddingModel, Sizes
from kgprobe.models.reciprocal import ranked_run
from kgprobe.predict import Resources
from kgprobe.train.validation import DivergedError, Validated, Validation
from runs import small_graph
from slow_models import scattered, slow_scores, tables

GRAPH = small_graph()


def _model(runs: int = 2) -> EmbeddingModel:
    return scattered("ComplEx", Sizes(GRAPH.num_entities, 2), runs=runs).float()


def _validated(names: list[str], facts: int = 0, graph: KnowledgeGraph = GRAPH) -> Validated:
    model = _model()
    validation = Validation(graph, [parse(name) for name in names], facts, Resources(threads=1))
    return validation(model.one_run(run) for run in range(2))


def _ranks(run: int) -> dict[str, list[int]]:
    """Of the validation facts, among all but the other known answers in train and valid."""
    scores = slow_scores("ComplEx", tables(_model(), run))
    known = {tuple(fact) for split in ("train", "valid") for fact in GRAPH.triples(split).tolist()}
    ranks: dict[str, list[int]] = {"head": [], "tail": []}
    for head, relation, tail in GRAPH.triples("valid").tolist():
        heads, tails = scores[0, tail, relation], scores[1, head, relation]
        rivals = [e for e in range(GRAPH.num_entities) if e == head or (e, relation, tail) not in known]
        ranks["head"].append(sum(bool(heads[e] >= heads[head]) for e in rivals))
        rivals = [e for e in range(GRAPH.num_entities) if e == tail or (head, relation, e) not in known]
        ranks["tail"].append(sum(bool(tails[e] >= tails[tail]) for e in rivals))
    return ranks


def test_scores_are_those_of_ranks_among_unknown_candidates() -> None:
    found = _validated(["MRR", "MR", "Hits@3"])
    assert list(found.scores) == ["MRR", "MR", "Hits@3"]
    for run in range(2):
        ranks = _ranks(run)
        both = np.array(ranks["head"] + ranks["tail"])
        assert found.scores["MRR"][run] == pytest.approx(np.mean(1 / both))
        assert found.scores["MR"][run] == pytest.approx(np.mean(both))
        assert found.scores["Hits@3"][run] == pytest.approx(np.mean(both <= 3))
        for side in ("head", "tail"):
            assert found.sides[side][run] == pytest.approx(np.mean(1 / np.array(ranks[side])))


@pytest.mark.parametrize("kind", ["ComplEx", "RotatE", "HousE-2"])
@pytest.mark.parametrize("reciprocal", [True, False])
def test_scores_as_a_gpu_makes_them_come_to_the_same(kind: str, reciprocal: bool) -> None:
    """There the scores of the model are counted as they are, here those of record: no two of these are that near."""
    model = scattered(kind, Sizes(GRAPH.num_entities, 4 if reciprocal else 2), runs=1).float()
    run = ranked_run(model.one_run(0), 2 if reciprocal else None)
    targets = [parse("MRR"), parse("MR")]
    record, scored = (
        Validation(GRAPH, targets, 0, Resources(device=device, threads=1))([run]) for device in ("cpu", "torch:cpu")
    )
    assert scored == record


def test_sides_are_those_of_the_first_target() -> None:
    found = _validated(["MR", "MRR"])
    assert np.mean([found.sides["head"], found.sides["tail"]], axis=0) == pytest.approx(found.scores["MR"])


def test_test_facts_are_not_read() -> None:
    valid, train = GRAPH.triples("valid"), GRAPH.triples("train")
    without = KnowledgeGraph.from_triples(
        train=train, valid=valid, test=valid[:0], name="small", num_entities=GRAPH.num_entities, num_relations=2
    )
    assert _validated(["MRR", "PROBE(alpha=0,beta=0.5)"]) == _validated(["MRR", "PROBE(alpha=0,beta=0.5)"], 0, without)


def test_a_sample_is_the_same_every_time_and_part_of_all() -> None:
    assert _validated(["MR"], 4) == _validated(["MR"], 4)
    assert _validated(["MR"], 4) != _validated(["MR"])
    everything = len(GRAPH.triples("valid"))
    assert _validated(["MR"], everything) == _validated(["MR"], everything + 5) == _validated(["MR"])
    for run in range(2):
        ranks = _ranks(run)
        of_fact = [h + t for h, t in zip(ranks["head"], ranks["tail"], strict=True)]
        mean = _validated(["MR"], 1).scores["MR"][run]
        assert 2 * mean in of_fact


def test_scores_that_are_no_numbers_are_refused() -> None:
    model = _model(1)
    with torch.no_grad():
        model.entity[0, 3, 0] = torch.nan
    validation = Validation(GRAPH, [parse("MRR")], 0, Resources(threads=1))
    with pytest.raises(DivergedError) as error:
        validation([model.one_run(0)])
    assert error.value.problems


def test_a_target_that_has_no_value_here_says_so_itself() -> None:
    """The remedy is that of the metric, not that of a training that diverged."""
    graph = KnowledgeGraph.from_triples(
        train=np.array([[0, 0, 1]]),
        valid=np.array([[3, 0, 4]]),
        test=np.array([[0, 0, 2]]),
        name="unseen",
        num_entities=GRAPH.num_entities,
        num_relations=2,
    )
    with pytest.raises(DataError, match="popularity") as error:
        _validated(["PROBE(alpha=1,beta=1)"], 0, graph)
    assert not isinstance(error.value, DivergedError)
