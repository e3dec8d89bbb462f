"""The differentiable PROBE against the metric itself, finite differences, and sums written out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import kgprobe as kp
from kgprobe.train.soft_probe import LOG_SURROGATES, SoftProbe, query_weights
from kgprobe.transform import AffinePower

SURROGATES = tuple(LOG_SURROGATES)

ALPHAS = (-100.0, -3.0, -1.0, -1e-6, -1e-20, 0.0, 1e-20, 1e-9, 0.5, 1.0, 4.0, 100.0)

COUNTS = {
    "sigmoid": lambda lead: 1 / (1 + np.exp(-lead)),
    "exponential": np.exp,
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def scores(queries: int, others: int, *, runs: int = 2, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of targets and of others, and which others count: at least one of every query."""
    rng = np.random.default_rng(seed)
    counted = rng.random((runs, queries, others)) < 0.7
    counted[..., 0] = True
    drawn = rng.normal(size=(runs, queries)), rng.normal(size=(runs, queries, others)), counted
    target, lead, mask = (torch.from_numpy(values) for values in drawn)
    return target, lead, mask


@pytest.mark.parametrize("alpha", [-2.0, -1.0, 0.0, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("beta", [0.0, 0.8])
def test_a_cold_sigmoid_is_the_metric_itself(alpha: float, beta: float) -> None:
    rng = np.random.default_rng(3)
    graph = kp.KnowledgeGraph.from_triples(train=np.unique(rng.integers(0, [12, 3, 12], (80, 3)), axis=0))
    total, tables = 0.0, []
    for side, (asked, known_end) in {"tail": (2, 0), "head": (0, 2)}.items():
        triples = graph.triples("train").astype(np.int64)
        relation, target_id = triples[:, 1], triples[:, asked]
        table = rng.integers(0, 6, (len(triples), graph.num_entities)).astype(float)  # with ties
        target = np.take_along_axis(table, target_id[:, None], 1)
        known = np.zeros((graph.num_entities, graph.num_relations, graph.num_entities), dtype=bool)
        known[triples[:, known_end], relation, target_id] = True
        counted = ~known[triples[:, known_end], relation]
        tables.append(
            kp.Ranks.from_columns(
                head=triples[:, 0],
                relation=relation,
                tail=triples[:, 2],
                side=[side] * len(triples),
                rank=1 + ((table > target) & counted).sum(1) + ((table == target) & counted).sum(1) / 2,
                candidates=counted.sum(1) + 1,
                entity_popularity=graph.popularity.entity(target_id),
                relation_popularity=graph.popularity.relation(relation, target_id),
            ).to_arrow()
        )
        loss = SoftProbe(alpha, temperature=1e-3, surrogate="sigmoid")
        counts = torch.from_numpy(counted)[None]
        losses = loss(torch.from_numpy(target.T), torch.from_numpy(table)[None], counts, counts.sum(-1) + 1)[0]
        total += np.mean(query_weights(graph.popularity, relation, target_id, beta) * (1 - losses.numpy())) / 2
    (metric,) = kp.evaluate(kp.Ranks(pa.concat_tables(tables)), [f"PROBE(alpha={alpha},beta={beta})"]).values()
    assert total == pytest.approx(metric, abs=1e-12)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_the_soft_rank_is_a_sum_over_the_candidates_that_count(surrogate: str) -> None:
    target, others, counted = scores(3, 5)
    loss = SoftProbe(1.0, temperature=0.7, surrogate=surrogate)
    soft = loss.log_rank(target, others, counted, counted.sum(-1) + 1).exp()
    for run, query in np.ndindex(2, 3):
        rank = 1.0
        for candidate in range(5):
            lead = (others[run, query, candidate] - target[run, query]).item() / 0.7
            rank += COUNTS[surrogate](lead) * counted[run, query, candidate].item()
        assert soft[run, query].item() == pytest.approx(rank, rel=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_transformer_is_that_of_the_metric(alpha: float) -> None:
    size = np.array([2.0, 5.0, 135.0, 14541.0, 1e9])
    rank = np.concatenate([np.ones(5), 1 + (size - 1) / 3, size])
    expected = 1 - AffinePower(alpha)(rank, np.tile(size, 3))
    # One other stands for all of them: with the exponential it counts as much as its lead says.
    lead = torch.from_numpy(np.log(np.maximum(rank - 1, 1e-300) / np.tile(size - 1, 3)))
    loss = SoftProbe(alpha, surrogate="exponential")
    found = loss(torch.zeros(1, 15, dtype=torch.float64), lead[None, :, None], None, torch.from_numpy(np.tile(size, 3)))
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_gradients_are_those_of_finite_differences(alpha: float, surrogate: str) -> None:
    target, others, counted = scores(4, 6, seed=1)
    target, others = (0.3 * target).requires_grad_(), (0.3 * others).requires_grad_()
    loss = SoftProbe(alpha, temperature=0.9, surrogate=surrogate)

    def total(target: Tensor, others: Tensor) -> Tensor:
        return loss(target, others, counted, 40)

    assert torch.autograd.gradcheck(total, (target, others), eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("alpha", [-1.0, 0.0, 1.0])
def test_the_target_is_raised_and_the_others_that_count_are_lowered(alpha: float, surrogate: str) -> None:
    target, others, counted = scores(20, 7)
    target.requires_grad_()
    others.requires_grad_()
    SoftProbe(alpha, surrogate=surrogate)(target, others, counted, 30).sum().backward()
    assert target.grad is not None
    assert others.grad is not None
    assert (target.grad < 0).all()
    assert (others.grad[counted] > 0).all()
    assert (others.grad[~counted] == 0).all()
    torch.testing.assert_close(others.grad.sum(-1), -target.grad)  # a shift of all scores changes nothing


def test_candidates_that_do_not_count_may_have_any_score() -> None:
    target, others, counted = scores(5, 6)
    loss = SoftProbe(0.5)
    other_scores = torch.where(counted, others, torch.full_like(others, 1e6))
    assert torch.equal(loss(target, others, counted, 7), loss(target, other_scores, counted, 7))
    assert torch.equal(loss(target, others, counted), loss(target, others, counted, counted.sum(-1) + 1))
    everything = torch.ones_like(counted)
    assert torch.equal(loss(target, others, everything, 7), loss(target, others, None, 7))


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_the_rank_among_drawn_candidates_is_right_on_average(surrogate: str) -> None:
    rng = np.random.default_rng(0)
    entities, draws = 50, 40_000
    all_scores = torch.from_numpy(rng.normal(size=entities))
    known = torch.from_numpy(rng.random(entities) < 0.3)
    known[0] = True  # the target itself
    size = int((~known).sum()) + 1
    loss = SoftProbe(1.0, temperature=0.5, surrogate=surrogate)
    full = loss.log_rank(all_scores[None, :1], all_scores[None, None], ~known[None, None], size).exp().item()
    drawn = torch.from_numpy(rng.integers(0, entities, (draws, 20)))
    target = all_scores[:1].expand(1, draws)
    sampled = loss.log_rank(target, all_scores[drawn][None], ~known[drawn][None], size).exp()[0].numpy()
    assert np.ptp(sampled) > 0
    assert abs(sampled.mean() - full) < 4 * sampled.std() / math.sqrt(draws)


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 1.0])
@settings(max_examples=40, deadline=None)
@given(leads=st.lists(st.floats(-20, 20), min_size=1, max_size=12), temperature=st.floats(0.05, 20))
def test_the_exponential_never_promises_more_than_the_metric(
    alpha: float, leads: list[float], temperature: float
) -> None:
    others = torch.tensor([[leads]], dtype=torch.float64)
    size = len(leads) + 1
    rank = 1 + sum(lead >= 0 for lead in leads)
    lacking = 1 - AffinePower(alpha)(np.array([float(rank)]), np.array([float(size)]))[0]
    loss = SoftProbe(alpha, temperature, "exponential")
    assert loss(torch.zeros(1, 1, dtype=torch.float64), others, None, size).item() >= lacking - 1e-12


@given(
    alpha=st.floats(-100, 100),
    spread=st.floats(0, 60),
    temperature=st.floats(0.05, 10),
    surrogate=st.sampled_from(SURROGATES),
    size=st.sampled_from([1, 2, 9, 15_000, 10**9]),
    seed=st.integers(0, 9),
)
@settings(max_examples=200, deadline=None)
def test_single_precision_gives_finite_losses_and_gradients(
    alpha: float, spread: float, temperature: float, surrogate: str, size: int, seed: int
) -> None:
    target, others, counted = scores(3, 8, seed=seed)
    counted[0, 0] = False  # a query of which no draw counts
    target, others = (spread * target).float().requires_grad_(), (spread * others).float().requires_grad_()
    losses = SoftProbe(alpha, temperature, surrogate)(target, others, counted, size)
    losses.sum().backward()
    for values in (losses, target.grad, others.grad):
        assert values is not None
        assert torch.isfinite(values).all()
    assert (losses >= 0).all()
    assert losses[0, 0] == 0
    if size == 1:
        assert (losses == 0).all()


@given(alpha=st.floats(-3, 3), seed=st.integers(0, 99), surrogate=st.sampled_from(SURROGATES))
@settings(max_examples=60, deadline=None)
def test_a_higher_target_never_loses_more(alpha: float, seed: int, surrogate: str) -> None:
    target, others, counted = scores(6, 5, seed=seed)
    loss = SoftProbe(alpha, surrogate=surrogate)
    size = counted.sum(-1) + 1
    assert (loss(target + 0.1, others, counted, size) <= loss(target, others, counted, size) + 1e-15).all()


def test_the_exponential_at_alpha_0_is_the_cross_entropy() -> None:
    target, others, _ = scores(4, 9)
    logits = torch.cat([target[..., None], others], -1)
    expected = -torch.log_softmax(logits, -1)[..., 0] / math.log(10)
    torch.testing.assert_close(SoftProbe(0.0, surrogate="exponential")(target, others, None, 10), expected)


def test_the_exponential_at_alpha_1_is_the_probability_that_is_missing() -> None:
    target, others, _ = scores(4, 9)
    target += 1.5  # soft ranks within the ten candidates, where nothing is continued
    probability = torch.softmax(torch.cat([target[..., None], others], -1), -1)[..., 0]
    assert (probability > 0.1).any()
    expected = 1 - (probability - 0.1) / 0.9
    found = SoftProbe(1.0, surrogate="exponential")(target, others, None, 10)
    inside = probability > 0.1
    torch.testing.assert_close(found[inside], expected[inside])


def test_alpha_says_where_in_the_ranking_a_step_is_worth_most() -> None:
    """The pull on a target by its rank: only near the top at a large alpha, alike everywhere at alpha -1."""
    size = 101
    ladder = torch.arange(size - 1, dtype=torch.float64)

    def pull(alpha: float) -> Tensor:
        target = torch.tensor([[98.5, 49.5, 9.5]], dtype=torch.float64, requires_grad=True)  # ranks 2, 51, 91
        others = ladder.expand(1, 3, size - 1)
        SoftProbe(alpha, temperature=0.2, surrogate="sigmoid")(target, others, None, size).sum().backward()
        assert target.grad is not None
        return -target.grad[0]

    near, middle, far = pull(-1.0)
    assert middle == pytest.approx(far.item(), rel=1e-3)
    assert near == pytest.approx(middle.item(), rel=0.05)
    near, middle, far = pull(6.0)
    assert near > 1e6 * middle
    assert middle > far
    near, middle, far = pull(0.0)
    assert near / middle == pytest.approx(51 / 2, rel=0.05)


def test_a_rank_beyond_the_last_is_continued_without_a_jump_or_an_overflow() -> None:
    target = torch.tensor([[1e-9, -1e-9, -1e4]], dtype=torch.float64, requires_grad=True)
    others = torch.zeros(1, 3, 4, dtype=torch.float64)
    for alpha in (-100.0, -1.0, 1.0):
        losses = SoftProbe(alpha, surrogate="exponential")(target, others, None, 5)
        (slope,) = torch.autograd.grad(losses.sum(), target)
        assert losses[0, 0].item() == pytest.approx(1, abs=1e-6)
        assert losses[0, 1].item() == pytest.approx(losses[0, 0].item(), abs=1e-6)
        assert slope[0, 0].item() == pytest.approx(slope[0, 1].item(), rel=1e-5)
        assert torch.isfinite(losses).all()
        assert slope[0, 2] < 0  # a hopeless target is still pulled


def test_half_precision_is_widened() -> None:
    target, others, counted = scores(4, 9)
    low = SoftProbe(1.0)(target.bfloat16(), others.bfloat16(), counted, 12)
    assert low.dtype == torch.float32
    exact = SoftProbe(1.0)(target.bfloat16().double(), others.bfloat16().double(), counted, 12)
    torch.testing.assert_close(low.double(), exact, rtol=1e-5, atol=1e-6)


def test_a_run_in_a_stack_has_the_losses_of_the_run_alone() -> None:
    target, others, counted = scores(5, 6, runs=3)
    size = counted.sum(-1) + 4
    loss = SoftProbe(0.5)
    stacked = loss(target, others, counted, size)
    for run in range(3):
        one = slice(run, run + 1)
        assert torch.equal(stacked[one], loss(target[one], others[one], counted[one], size[one]))


def test_weights_follow_the_definition_and_are_1_on_average_over_both_sides() -> None:
    train = np.array([[0, 0, 1], [0, 0, 2], [0, 1, 2], [3, 1, 2], [4, 1, 2], [2, 1, 2]])
    graph = kp.KnowledgeGraph.from_triples(train=train)
    relation, target = np.tile(train[:, 1], 2), np.concatenate([train[:, 2], train[:, 0]])
    entity = np.array([1, 6, 6, 6, 6, 6, 3, 3, 3, 1, 1, 6]) / 12
    share = np.array([1, 1 / 6, 5 / 6, 5 / 6, 5 / 6, 5 / 6, 2 / 3, 2 / 3, 1 / 3, 1, 1, 5 / 6])
    expected = ((1 / 12 + entity) * (1 / 6 + share)) ** -0.6
    expected /= expected.mean()
    found = query_weights(graph.popularity, relation, target, beta=0.6)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    tails_alone = query_weights(graph.popularity, relation[:6], target[:6], beta=0.6)
    np.testing.assert_allclose(tails_alone, expected[:6], rtol=1e-12)
    reciprocal = query_weights(graph.popularity, relation[6:] + graph.num_relations, target[6:], beta=0.6)
    np.testing.assert_allclose(reciprocal, expected[6:], rtol=1e-12)
    assert query_weights(graph.popularity, relation, target, beta=0.0).tolist() == [1.0] * 12


def test_a_model_too_small_for_all_queries_is_the_better_the_nearer_it_was_trained_to_the_metric() -> None:
    rng = np.random.default_rng(1)
    queries, entities = 60, 20
    answer = torch.from_numpy(rng.integers(0, entities, queries))
    given_vectors = torch.from_numpy(rng.normal(size=(1, queries, 4)))
    counted = torch.ones(1, queries, entities, dtype=torch.bool).scatter_(2, answer[None, :, None], False)

    def scored(vectors: Tensor) -> tuple[Tensor, Tensor]:
        table = given_vectors @ vectors
        return table.gather(2, answer[None, :, None])[..., 0], table

    def trained(alpha: float, start: Tensor, steps: int) -> Tensor:
        vectors = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([vectors], lr=0.1)
        for _ in range(steps):
            optimiser.zero_grad()
            SoftProbe(alpha)(*scored(vectors), counted).mean().backward()
            optimiser.step()
        return vectors.detach()

    def probe(alpha: float, vectors: Tensor) -> float:
        target, table = scored(vectors)
        rank = 1 + (table > target[..., None]).sum(-1).double().numpy()
        return float(AffinePower(alpha)(rank, np.full_like(rank, entities)).mean())

    start = trained(0.0, torch.zeros(4, entities, dtype=torch.float64), 40)
    far, middle, near = (trained(alpha, start, 120) for alpha in (-1.0, 0.0, 1.0))
    assert probe(-1.0, far) > probe(-1.0, middle) > probe(-1.0, near)
    assert probe(1.0, far) < probe(1.0, middle) < probe(1.0, near)
