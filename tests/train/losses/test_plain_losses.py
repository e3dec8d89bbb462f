"""The losses against loops over the candidates in float64, written from their definitions."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch.nn import functional

from kgprobe.train.losses.base import TargetLoss
from kgprobe.train.losses.plain import (
    BinaryCrossEntropy,
    CrossEntropy,
    LabelBinaryCrossEntropy,
    LabelCrossEntropy,
    SelfAdversarial,
)

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
