"""The objectives against loops over queries, candidates and answers."""

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy import stats

from kgprobe.models.base import EmbeddingModel, Sizes
from kgprobe.models.noise import Noise
from kgprobe.train.losses.plain import BinaryCrossEntropy, CrossEntropy, LabelBinaryCrossEntropy, SelfAdversarial
from kgprobe.train.objectives import KVsAll, NegativeSampling, OneVsAll
from kgprobe.train.queries import Queries, alike, training_queries
from runs import small_graph
from slow_models import scattered, slow_score, tables
from trainings import CPU, Numbered

GRAPH = small_graph()
SIDES = training_queries(GRAPH.triples("train"), GRAPH.num_entities, None, alike, CPU)
FACTS = {tuple(fact) for fact in GRAPH.triples("train").tolist()}
both_sides = pytest.mark.parametrize("queries", SIDES, ids=["tail", "head"])


class Seen:
    """A loss that tells nothing, and remembers what it was given."""

    leaves_out: ClassVar[bool] = True

    def __init__(self) -> None:
        self.target = self.others = self.counted = self.size = torch.empty(0)

    def __call__(
        self,
        target: torch.Tensor,
        others: torch.Tensor,
        counted: torch.Tensor | None,
        size: torch.Tensor | None = None,
    ) -> torch.Tensor:
        assert counted is not None
        assert size is not None
        self.target, self.others, self.counted, self.size = target.detach(), others.detach().long(), counted, size
        return target * 0


def _fact(queries: Queries, run: int, query: int, answer: int) -> tuple[int, int, int]:
    given, relation = int(queries.given[run, query]), int(queries.relation[run, query])
    return (given, relation, answer) if queries.side == "tail" else (answer, relation, given)


@both_sides
def test_true_answers_that_are_drawn_do_not_count(queries: Queries) -> None:
    model = Numbered(Sizes(GRAPH.num_entities, 2), Noise([0, 1], "cpu"))
    seen = Seen()
    asked = queries.at(torch.stack([torch.arange(len(queries)), torch.arange(len(queries)).flip(0)]))
    NegativeSampling(seen, 40, GRAPH.num_entities)(model, asked)
    assert torch.equal(seen.target, asked.target.float())
    for run in range(2):
        for query in range(len(queries)):
            for answer, counts in zip(seen.others[run, query].tolist(), seen.counted[run, query], strict=True):
                assert bool(counts) == (_fact(asked, run, query, answer) not in FACTS)
            false = [e for e in range(GRAPH.num_entities) if _fact(asked, run, query, e) not in FACTS]
            assert seen.size[run, query] == len(false) + 1
    assert 0 < seen.counted.float().mean() < 1


def test_all_entities_are_drawn_as_often_and_anew_for_every_query_run_and_step() -> None:
    model = Numbered(Sizes(GRAPH.num_entities, 2), Noise([0, 1], "cpu"))
    seen, draws = Seen(), []
    asked = SIDES[0].at(torch.arange(len(SIDES[0])).expand(2, -1))
    for _ in range(4):
        NegativeSampling(seen, 50, GRAPH.num_entities)(model, asked)
        draws.append(seen.others)
    drawn = torch.stack(draws)
    for run in range(2):
        counts = np.bincount(drawn[:, run].flatten(), minlength=GRAPH.num_entities)
        assert stats.chisquare(counts).pvalue > 1e-3
    rows = {tuple(row) for row in drawn.flatten(0, 2).tolist()}
    assert len(rows) == 4 * 2 * len(SIDES[0])


@both_sides
def test_drawn_candidates_have_the_scores_of_the_model(queries: Queries) -> None:
    model = scattered("ComplEx", Sizes(GRAPH.num_entities, 2), runs=2)
    own = [tables(model, run) for run in range(2)]
    asked = queries.at(torch.tensor([[0, 4, 9], [7, 4, 30]]))
    loss, again = SelfAdversarial(0.5), Noise([0, 1], "cpu")
    drawn = again.integers(GRAPH.num_entities, (3, 6))
    model.noise.reseed(0)
    found = NegativeSampling(loss, 6, GRAPH.num_entities)(model, asked)
    for run in range(2):
        for query in range(3):
            target = _slow(asked, own[run], run, query, int(asked.target[run, query]))
            others = [_slow(asked, own[run], run, query, int(answer)) for answer in drawn[run, query]]
            counted = [_fact(asked, run, query, int(answer)) not in FACTS for answer in drawn[run, query]]
            wanted = loss(*_single(target, others), torch.tensor([[counted]]))
            torch.testing.assert_close(found[run, query], wanted[0, 0])


def _slow(asked: Queries, own: Any, run: int, query: int, answer: int) -> float:
    return slow_score("ComplEx", own, asked.side, _fact(asked, run, query, answer))


def _single(target: float, others: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([[target]], dtype=torch.float64), torch.tensor([[others]], dtype=torch.float64)


def _model() -> tuple[EmbeddingModel, list[Any]]:
    model = scattered("ComplEx", Sizes(GRAPH.num_entities, 2), runs=2)
    return model, [tables(model, run) for run in range(2)]


@both_sides
@pytest.mark.parametrize("loss", [CrossEntropy(0.1), BinaryCrossEntropy(0.1), SelfAdversarial(1.0)], ids=str)
def test_one_answer_against_all_entities(queries: Queries, loss: Any) -> None:
    """Cross entropy keeps other true answers among the candidates, as its papers do; the other losses do not."""
    model, own = _model()
    asked = queries.at(torch.tensor([[0, 4, 9], [7, 4, 30]]))
    found = OneVsAll(loss)(model, asked)
    for run in range(2):
        for query in range(3):
            answer = int(asked.target[run, query])
            others = [
                entity
                for entity in range(GRAPH.num_entities)
                if entity != answer and (not loss.leaves_out or _fact(asked, run, query, entity) not in FACTS)
            ]
            scores = [_slow(asked, own[run], run, query, entity) for entity in others]
            target = _slow(asked, own[run], run, query, answer)
            wanted = loss(*_single(target, scores), torch.ones(1, 1, len(scores), dtype=torch.bool))
            torch.testing.assert_close(found[run, query], wanted[0, 0])


@both_sides
def test_all_answers_against_all_entities(queries: Queries) -> None:
    model, own = _model()
    asked = queries.once().at(torch.tensor([[0, 4, 9], [7, 4, 2]]))
    loss = LabelBinaryCrossEntropy(0.1)
    found = KVsAll(loss)(model, asked)
    several = 0
    for run in range(2):
        for query in range(3):
            entities = range(GRAPH.num_entities)
            scores = [_slow(asked, own[run], run, query, entity) for entity in entities]
            labels = [_fact(asked, run, query, entity) in FACTS for entity in entities]
            several += sum(labels) > 1
            wanted = loss(torch.tensor([[scores]], dtype=torch.float64), torch.tensor([[labels]]))
            torch.testing.assert_close(found[run, query], wanted[0, 0])
    assert several
