"""The objectives against loops over queries, candidates and answers.

The losses against loops over the candidates in float64, written from their definitions.

Cross entropy in one piece: the values and slopes of the same made of torch's own pieces, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from kgprobe.models.embedding_model import EmbeddingModel, Sizes
from kgprobe.models.random_streams import RandomStreams
from kgprobe.train.losses import (
    BinaryCrossEntropy,
    CrossEntropy,
    KVsAll,
    LabelBinaryCrossEntropy,
    LabelCrossEntropy,
    NegativeSampling,
    OneVsAll,
    SelfAdversarial,
    TargetLoss,
    product_cross_entropy,
)
from kgprobe.train.training_queries import TrainingQueries, alike, training_queries
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


def _fact(queries: TrainingQueries, run: int, query: int, answer: int) -> tuple[int, int, int]:
    given, relation = int(queries.given[run, query]), int(queries.relation[run, query])
    return (given, relation, answer) if queries.side == "tail" else (answer, relation, given)


@both_sides
def test_true_answers_that_are_drawn_do_not_count(queries: TrainingQueries) -> None:
    model = Numbered(Sizes(GRAPH.num_entities, 2), RandomStreams([0, 1], "cpu"))
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
    model = Numbered(Sizes(GRAPH.num_entities, 2), RandomStreams([0, 1], "cpu"))
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
def test_drawn_candidates_have_the_scores_of_the_model(queries: TrainingQueries) -> None:
    model = scattered("ComplEx", Sizes(GRAPH.num_entities, 2), runs=2)
    own = [tables(model, run) for run in range(2)]
    asked = queries.at(torch.tensor([[0, 4, 9], [7, 4, 30]]))
    loss, again = SelfAdversarial(0.5), RandomStreams([0, 1], "cpu")
    drawn = again.integers(GRAPH.num_entities, (3, 6))
    model.streams.reseed(0)
    found = NegativeSampling(loss, 6, GRAPH.num_entities)(model, asked)
    for run in range(2):
        for query in range(3):
            target = _slow(asked, own[run], run, query, int(asked.target[run, query]))
            others = [_slow(asked, own[run], run, query, int(answer)) for answer in drawn[run, query]]
            counted = [_fact(asked, run, query, int(answer)) not in FACTS for answer in drawn[run, query]]
            wanted = loss(*_single(target, others), torch.tensor([[counted]]))
            torch.testing.assert_close(found[run, query], wanted[0, 0])


def _slow(asked: TrainingQueries, own: Any, run: int, query: int, answer: int) -> float:
    return slow_score("ComplEx", own, asked.side, _fact(asked, run, query, answer))


def _single(target: float, others: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([[target]], dtype=torch.float64), torch.tensor([[others]], dtype=torch.float64)


def _model() -> tuple[EmbeddingModel, list[Any]]:
    model = scattered("ComplEx", Sizes(GRAPH.num_entities, 2), runs=2)
    return model, [tables(model, run) for run in range(2)]


@both_sides
@pytest.mark.parametrize("loss", [CrossEntropy(0.1), BinaryCrossEntropy(0.1), SelfAdversarial(1.0)], ids=str)
def test_one_answer_against_all_entities(queries: TrainingQueries, loss: Any) -> None:
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
def test_all_answers_against_all_entities(queries: TrainingQueries) -> None:
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


RUNS, QUERIES, OTHERS = 2, 3, 6

Slow = Callable[[float, Sequence[float]], float]


def _likely(score: float) -> float:
    return 1 / (1 + math.exp(-score))


def _softmax(scores: Sequence[float]) -> list[float]:
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


def _self_adversarial(temperature: float) -> Slow:
    def slow(target: float, false: Sequence[float]) -> float:
        weights = _softmax([temperature * score for score in false])
        of_false = sum(weight * -math.log(_likely(-score)) for weight, score in zip(weights, false, strict=True))
        return (-math.log(_likely(target)) + of_false) / 2

    return slow


def _truth(smoothing: float, size: int) -> list[float]:
    """The first of the candidates is the answer."""
    return [(1 - smoothing) * (place == 0) + smoothing / size for place in range(size)]


def _cross_entropy(smoothing: float) -> Slow:
    def slow(target: float, false: Sequence[float]) -> float:
        found = _softmax([target, *false])
        return -sum(t * math.log(p) for t, p in zip(_truth(smoothing, len(found)), found, strict=True))

    return slow


def _binary(smoothing: float) -> Slow:
    def slow(target: float, false: Sequence[float]) -> float:
        found = [_likely(score) for score in (target, *false)]
        losses = [
            -(t * math.log(p) + (1 - t) * math.log(1 - p))
            for t, p in zip(_truth(smoothing, len(found)), found, strict=True)
        ]
        return sum(losses) / len(losses)

    return slow


LOSSES: dict[str, tuple[TargetLoss, Slow]] = {
    **{f"self_adversarial-{t}": (SelfAdversarial(t), _self_adversarial(t)) for t in (0.0, 0.5, 2.0)},
    **{f"cross_entropy-{s}": (CrossEntropy(s), _cross_entropy(s)) for s in (0.0, 0.1, 0.7)},
    **{f"binary-{s}": (BinaryCrossEntropy(s), _binary(s)) for s in (0.0, 0.1, 0.7)},
}

every_loss = pytest.mark.parametrize("name", list(LOSSES))


def _scores(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores of answers and others, and which of the others count: all, none and some of them."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(RUNS, QUERIES, generator=generator, dtype=torch.float64) * 2
    others = torch.randn(RUNS, QUERIES, OTHERS, generator=generator, dtype=torch.float64) * 2
    counted = torch.rand(RUNS, QUERIES, OTHERS, generator=generator) < 0.5
    counted[0, 0], counted[1, 1] = True, False
    return target, others, counted


@every_loss
def test_others_that_do_not_count_might_as_well_not_be_there(name: str) -> None:
    loss, slow = LOSSES[name]
    target, others, counted = _scores()
    found = loss(target, others, counted)
    assert found.shape == (RUNS, QUERIES)
    for run in range(RUNS):
        for query in range(QUERIES):
            false = others[run, query][counted[run, query]].tolist()
            assert found[run, query].item() == pytest.approx(slow(target[run, query].item(), false), abs=1e-12)


@pytest.mark.parametrize("name", [name for name in LOSSES if not name.startswith("self_adversarial")])
def test_the_answer_can_be_one_of_all_entities(name: str) -> None:
    loss, slow = LOSSES[name]
    _, others, _ = _scores(1)
    place = torch.tensor([[0, 3, 5], [1, 1, 2]])
    found = loss(others.gather(-1, place[..., None])[..., 0], others, None)
    for run in range(RUNS):
        for query in range(QUERIES):
            false = others[run, query].tolist()
            answer = false.pop(int(place[run, query]))
            assert found[run, query].item() == pytest.approx(slow(answer, false), abs=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_is_that_of_torch(smoothing: float) -> None:
    _, others, _ = _scores(2)
    place = torch.tensor([[0, 3, 5], [1, 1, 2]])
    found = CrossEntropy(smoothing)(others.gather(-1, place[..., None])[..., 0], others, None)
    wanted = functional.cross_entropy(
        others.flatten(0, 1), place.flatten(), reduction="none", label_smoothing=smoothing
    )
    torch.testing.assert_close(found.flatten(), wanted)


@every_loss
def test_gradients_are_those_of_the_formula(name: str) -> None:
    loss, _ = LOSSES[name]
    target, others, counted = _scores(3)
    own = (target.requires_grad_(), others.requires_grad_())
    if isinstance(loss, SelfAdversarial):  # weights are not learned: the slope of an other is its weight's alone
        _, slope = torch.autograd.grad(loss(*own, counted).sum(), own)
        weight = torch.softmax((others * loss.temperature).masked_fill(~counted, -math.inf), -1).nan_to_num(0)
        torch.testing.assert_close(slope, (weight * torch.sigmoid(others) / 2).detach())
    else:
        assert torch.autograd.gradcheck(lambda target, others: loss(target, others, counted), own)


@every_loss
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_gradients_are_numbers_where_nothing_counts_and_where_scores_are_large(name: str, size: float) -> None:
    loss, _ = LOSSES[name]
    target, others, _ = _scores(4)
    target, others = (size * target).float().requires_grad_(), (size * others).float().requires_grad_()
    found = loss(target, others, torch.zeros(others.shape, dtype=torch.bool))
    slopes = torch.autograd.grad(found.sum(), (target, others))
    assert found.isfinite().all()
    assert all(slope.isfinite().all() for slope in slopes)
    assert (slopes[1] == 0).all()


@every_loss
def test_an_other_that_does_not_count_has_no_slope(name: str) -> None:
    loss, _ = LOSSES[name]
    target, others, counted = _scores(5)
    others.requires_grad_()
    (slope,) = torch.autograd.grad(loss(target, others, counted).sum(), others)
    assert (slope[~counted] == 0).all()
    assert (slope[counted] != 0).all()


def _labels() -> torch.Tensor:
    labels = torch.rand(RUNS, QUERIES, OTHERS, generator=torch.Generator().manual_seed(6)) < 0.4
    labels[0, 0], labels[1, 2] = True, torch.arange(OTHERS) == 4
    labels[..., 1] = True
    return labels


def test_all_answers_at_once_as_in_tucker() -> None:
    """Its truth is (1 - smoothing) y + 1 / N, as in the public code, where there is any smoothing."""
    _, scores, _ = _scores(7)
    labels = _labels()
    for smoothing in (0.0, 0.1):
        found = LabelBinaryCrossEntropy(smoothing)(scores, labels)
        for run in range(RUNS):
            for query in range(QUERIES):
                total = 0.0
                for score, label in zip(scores[run, query].tolist(), labels[run, query].tolist(), strict=True):
                    truth = (1 - smoothing) * label + (1 / OTHERS if smoothing else 0.0)
                    total -= truth * math.log(_likely(score)) + (1 - truth) * math.log(1 - _likely(score))
                assert found[run, query].item() == pytest.approx(total / OTHERS, abs=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_all_answers_share_the_truth_of_a_softmax(smoothing: float) -> None:
    _, scores, _ = _scores(8)
    labels = _labels()
    truth = labels.double() / labels.sum(-1, keepdim=True)
    wanted = functional.cross_entropy(
        scores.flatten(0, 1), truth.flatten(0, 1), reduction="none", label_smoothing=smoothing
    )
    torch.testing.assert_close(LabelCrossEntropy(smoothing)(scores, labels).flatten(), wanted)
    assert torch.autograd.gradcheck(lambda own: LabelCrossEntropy(smoothing)(own, labels), scores.requires_grad_())


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("entities", [1, 8, 11])
def test_it_is_the_cross_entropy_of_torch(entities: int, smoothing: float) -> None:
    draw = torch.Generator().manual_seed(entities)
    queries, table = (
        torch.randn(2, rows, 6, generator=draw, dtype=torch.float64).requires_grad_() for rows in (5, entities)
    )
    target, weight = torch.randint(entities, (2, 5), generator=draw), torch.randn(2, 5, generator=draw)
    found = product_cross_entropy(queries, table, target, smoothing)
    products = torch.einsum("sbd,snd->sbn", queries, table)
    wanted = functional.cross_entropy(
        products.flatten(0, 1), target.flatten(), label_smoothing=smoothing, reduction="none"
    ).reshape(2, 5)
    torch.testing.assert_close(found, wanted)
    for own, other in zip(
        torch.autograd.grad((found * weight).sum(), (queries, table)),
        torch.autograd.grad((wanted * weight).sum(), (queries, table)),
        strict=True,
    ):
        torch.testing.assert_close(own, other)


def test_scores_that_no_exponential_can_hold() -> None:
    queries, table = torch.full((1, 1, 1), 1e4, requires_grad=True), torch.tensor([[[1.0], [-1.0], [0.5]]])
    loss = product_cross_entropy(queries, table, torch.tensor([[1]]), 0.0)
    assert loss.item() == pytest.approx(2e4)
    loss.sum().backward()
    assert queries.grad is not None
    assert queries.grad.item() == pytest.approx(2.0)


def test_equal_answers_of_several_queries_add_up() -> None:
    table = torch.zeros(1, 3, 2, requires_grad=True)
    product_cross_entropy(torch.ones(1, 4, 2), table, torch.full((1, 4), 2), 0.0).sum().backward()
    assert table.grad is not None
    torch.testing.assert_close(table.grad[0, :, 0], torch.tensor([4 / 3, 4 / 3, -8 / 3]))
