"""Selection against a run by run, target by target reading of the scores.

Validation against ranks counted one query at a time.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import parse
from kgprobe.models.embedding_model import EmbeddingModel, Sizes, ranked_run
from kgprobe.resources import Resources
from kgprobe.train.checkpoints import as_json
from kgprobe.train.validation import Best, DivergedError, Selection, Validated, Validation
from runs import small_graph
from slow_models import scattered, slow_scores, tables

TARGETS = ("MRR", "MR")

"""More is better, and less is better."""

_SCORE = st.sampled_from([0.1, 0.2, 0.3, math.nan])

_RUN = st.fixed_dictionaries(dict.fromkeys(TARGETS, _SCORE))

_HISTORY = st.integers(1, 3).flatmap(lambda runs: st.lists(st.lists(_RUN, min_size=runs, max_size=runs), min_size=1))


def _alone(history: list[dict[str, float]], patience: int) -> tuple[dict[str, Best | None], int | None]:
    """What a run alone keeps, and in which validation it ends."""
    best: dict[str, Best | None] = dict.fromkeys(TARGETS)
    waited = 0
    for number, scores in enumerate(history, 1):
        gained = False
        for name in TARGETS:
            score, known = scores[name], best[name]
            better = known is None or (score > known.score if name == "MRR" else score < known.score)
            if better and not math.isnan(score):
                best[name], gained = Best(score, 5 * number), True
        waited = 0 if gained else waited + 1
        if patience and waited == patience:
            return best, number
    return best, None


def _considered(selection: Selection, history: list[list[dict[str, float]]]) -> int | None:
    for number, runs in enumerate(history, 1):
        gained = selection.consider(5 * number, {name: [run[name] for run in runs] for name in TARGETS})
        for name, run in gained:
            assert selection.best[name][run] == Best(runs[run][name], 5 * number)
        if selection.finished:
            return number
    return None


@given(_HISTORY, st.integers(0, 3))
def test_every_run_of_a_stack_keeps_and_ends_as_alone(history: list[list[dict[str, float]]], patience: int) -> None:
    runs = len(history[0])
    selection = Selection([parse(name) for name in TARGETS], runs, patience)
    ended = _considered(selection, history)
    alone = [_alone([row[run] for row in history], patience) for run in range(runs)]
    ends = [end for _, end in alone]
    assert ended == (None if None in ends else max(end for end in ends if end is not None))
    for run, (best, _) in enumerate(alone):
        assert {name: selection.best[name][run] for name in TARGETS} == best


@given(_HISTORY, st.integers(0, 3), st.integers(0, 5))
def test_a_state_goes_on_as_if_nothing_had_happened(
    history: list[list[dict[str, float]]], patience: int, stop: int
) -> None:
    targets, runs = [parse(name) for name in TARGETS], len(history[0])
    undisturbed, first = Selection(targets, runs, patience), Selection(targets, runs, patience)
    for number, row in enumerate(history):
        scores = {name: [run[name] for run in row] for name in TARGETS}
        undisturbed.consider(number, scores)
        first.consider(number, scores)
        if number == stop:
            again = Selection(targets, runs, patience)
            again.load(as_json(first.state()))
            first = again
    assert first == undisturbed


def test_an_equal_score_is_no_gain() -> None:
    selection = Selection([parse("MRR")], 1, 0)
    assert selection.consider(5, {"MRR": [0.5]}) == [("MRR", 0)]
    assert selection.consider(10, {"MRR": [0.5]}) == []
    assert selection.best["MRR"] == [Best(0.5, 5)]


def test_a_run_waits_for_a_gain_of_any_target() -> None:
    selection = Selection([parse("MRR"), parse("MR")], 2, 2)
    for epoch, (mrr, mr) in enumerate([(0.5, 9.0), (0.4, 8.0), (0.3, 9.0), (0.4, 7.0), (0.1, 9.0)]):
        selection.consider(epoch, {"MRR": [mrr, 0.1], "MR": [mr, 9.0]})
    assert selection.waited == [1, 2]
    assert not selection.finished


@pytest.mark.parametrize("patience", [0, 4])
def test_training_never_ends_early_without_patience(patience: int) -> None:
    selection = Selection([parse("MRR")], 1, patience)
    for epoch in range(5):
        selection.consider(epoch, {"MRR": [0.5]})
    assert selection.finished == (patience > 0)


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
