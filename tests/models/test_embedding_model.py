"""Models through the engine that ranks, against ranks by loops over the slow float64 scores.

Scores and gradients of every model against loops over the definitions.

What a stack of runs has in common with one of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from kgprobe.models.embedding_model import (
    EmbeddingModel,
    RankedRun,
    ReciprocalRelations,
    ReciprocalTable,
    Sizes,
    grouped,
    normal,
    ranked_run,
    uniform,
)
from kgprobe.models.embedding_rows import rows
from kgprobe.models.random_streams import RandomStreams
from kgprobe.predict import rank
from kgprobe.predict.scorers import SIDES, EmbeddingScorer, RelationEmbeddingScorer, Side
from ranking import Matrix, Rows, brute_force, graph_of, rows_of
from slow_models import KINDS, fresh, scattered, slow_score, slow_scores, tables

GRAPH = graph_of(seed=5, entities=9, relations=2, facts=40)


def in_float32(kind: str, relations: int) -> EmbeddingModel:
    """Two runs, whose parameters are float32 numbers."""
    return scattered(kind, Sizes(GRAPH.num_entities, relations), runs=2, seed=3).float()


def ranks_of(run: RankedRun) -> Rows:
    return rows_of(rank(run, GRAPH))


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_are_those_of_the_definition(kind: str) -> None:
    model = in_float32(kind, GRAPH.num_relations)
    for run in range(2):
        scores = slow_scores(kind, tables(model, run))
        assert ranks_of(ranked_run(model.one_run(run), None)) == brute_force(Matrix(scores), GRAPH)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_the_tails_of_reverse_relations(kind: str) -> None:
    model = in_float32(kind, 2 * GRAPH.num_relations)
    for run in range(2):
        tails = slow_scores(kind, tables(model, run))[1]
        asked = np.stack([tails[:, GRAPH.num_relations :], tails[:, : GRAPH.num_relations]])
        wrapped = ranked_run(model.one_run(run), GRAPH.num_relations)
        assert ranks_of(wrapped) == brute_force(Matrix(asked), GRAPH)


@pytest.mark.parametrize("kind", KINDS)
def test_the_wrapper_keeps_the_protocol_of_the_model(kind: str) -> None:
    model = in_float32(kind, 2 * GRAPH.num_relations).one_run(0)
    wrapped = ranked_run(model, GRAPH.num_relations)
    by_relation = kind.startswith("HousE")
    assert isinstance(wrapped, ReciprocalRelations if by_relation else ReciprocalTable)
    assert isinstance(wrapped, RelationEmbeddingScorer if by_relation else EmbeddingScorer)
    assert isinstance(model, RelationEmbeddingScorer) == by_relation
    assert wrapped.similarity == model.similarity
    assert ranked_run(model, None) is model


def test_a_table_of_candidates_is_none_for_each_relation() -> None:
    model = in_float32("RotatE", 2 * GRAPH.num_relations).one_run(0)
    with pytest.raises(TypeError, match="RotatE has the same candidates for all relations"):
        ReciprocalRelations(model, GRAPH.num_relations).candidates_for("tail", 0)


SIZES = Sizes(entities=5, relations=3)

ONE_VECTOR_A_SIDE = [kind for kind in KINDS if kind != "TuckER"]


def every_query(runs: int = 1) -> tuple[Tensor, Tensor]:
    """Given entities and relations [runs, 15], each run in another order."""
    pairs = torch.cartesian_prod(torch.arange(SIZES.entities), torch.arange(SIZES.relations))
    both = torch.stack([pairs.roll(4 * run, 0) for run in range(runs)])
    return both[..., 0], both[..., 1]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_definition(kind: str, side: Side) -> None:
    model = scattered(kind, SIZES, runs=2)
    given, relation = every_query(runs=2)
    scores = model.score_all(side, given, relation).detach().numpy()
    for run in range(2):
        slow = slow_scores(kind, tables(model, run))[int(side == "tail")]
        assert scores[run] == pytest.approx(slow[given[run], relation[run]], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_definition(kind: str, side: Side) -> None:
    """Against central differences of the slow formula, coordinate by coordinate."""
    model = scattered(kind, Sizes(3, 2), seed=1)
    triples = [(0, 0, 1), (2, 1, 2), (1, 1, 0)]
    weights = [0.7, -1.3, 2.0]
    asked = [(h, t) if side == "tail" else (t, h) for h, _, t in triples]
    given, answer = (torch.tensor([[pair[place] for pair in asked]]) for place in (0, 1))
    relation = torch.tensor([[r for _, r, _ in triples]])
    scores = model.score_some(side, given, relation, answer[..., None])[0, :, 0]
    (scores * torch.tensor(weights, dtype=torch.float64)).sum().backward()

    own, step = tables(model), 1e-6

    def total() -> float:
        return sum(
            weight * slow_score(kind, own, side, triple) for weight, triple in zip(weights, triples, strict=True)
        )

    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        flat, gradient = own[name].reshape(-1), parameter.grad[0].reshape(-1)
        for place, value in enumerate(flat.tolist()):
            flat[place] = value + step
            above = total()
            flat[place] = value - step
            below = total()
            flat[place] = value
            assert float(gradient[place]) == pytest.approx((above - below) / (2 * step), abs=1e-7), (name, place)


class Asked(nn.Module):
    """A question to a model as a function of its parameters."""

    def __init__(self, model: EmbeddingModel, question: Callable[[EmbeddingModel], Any]) -> None:
        super().__init__()
        self.model, self.question = model, question

    def forward(self) -> Any:
        self.model.streams.reseed(7)
        return self.question(self.model)


def assert_gradients(model: EmbeddingModel, question: Callable[[EmbeddingModel], Any]) -> None:
    asked = Asked(model, question)
    names = [name for name, _ in asked.named_parameters()]
    values = tuple(own.detach().clone().requires_grad_() for _, own in asked.named_parameters())
    assert torch.autograd.gradcheck(
        lambda *given: functional_call(asked, dict(zip(names, given, strict=True)), ()), values, fast_mode=True
    )


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_what_is_computed(kind: str, training: bool) -> None:
    """With two runs, and with dropout and batch statistics as in training."""
    model = scattered(kind, Sizes(3, 2), runs=2, seed=2).train(training)
    given, relation = torch.tensor([[0, 1, 2], [2, 1, 1]]), torch.tensor([[0, 1, 0], [0, 1, 1]])
    answers = torch.tensor([[[1, 2], [0, 0], [0, 1]], [[1, 0], [2, 2], [0, 2]]])
    for side in SIDES:
        assert_gradients(model, lambda own, side=side: own.score_some(side, given, relation, answers))
        assert_gradients(model, lambda own, side=side: own.score_all(side, given, relation))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_factors(kind: str) -> None:
    ids = [torch.tensor([[0, 1], [4, 4]]), torch.tensor([[0, 1], [2, 2]]), torch.tensor([[2, 3], [4, 0]])]
    assert_gradients(scattered(kind, SIZES, runs=2), lambda own: own.factors(*ids))


@pytest.mark.parametrize("kind", KINDS)
def test_factors_are_lengths(kind: str) -> None:
    """Never negative, and in all as long as the vectors of head and tail (and of the relation, where it has one)."""
    model = scattered(kind, SIZES)
    own = tables(model)
    head, relation, tail = 1, 2, 4
    factors = model.factors(*(torch.tensor([[one]]) for one in (head, relation, tail)))
    vectors = [own["entity"][head], own["entity"][tail]]
    if len(factors) == 3:
        vectors.insert(1, own["relation"][relation])
    assert all((factor >= 0).all() for factor in factors)
    squares = [float(factor.detach().square().sum()) for factor in factors]
    assert squares == pytest.approx([float(vector @ vector) for vector in vectors])


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_some_scores_are_some_of_all(kind: str, side: Side) -> None:
    model = scattered(kind, SIZES, runs=2)
    given, relation = every_query(runs=2)
    answers = torch.from_numpy(np.random.default_rng(0).integers(0, SIZES.entities, (2, given.shape[1], 4)))
    some = model.score_some(side, given, relation, answers)
    torch.testing.assert_close(some, model.score_all(side, given, relation).gather(2, answers))


@pytest.mark.parametrize("kind", ONE_VECTOR_A_SIDE)
def test_a_triple_scores_the_same_from_either_side(kind: str) -> None:
    model = scattered(kind, SIZES)
    assert_sides_agree(model)


def test_a_triple_scores_the_same_from_either_side_where_nothing_is_normalised() -> None:
    """A batch norm before training changes nothing but the scale."""
    model = fresh("TuckER", SIZES).double().eval()
    assert_sides_agree(model)
    assert model.score_all("tail", *every_query()).std() > 0.01


def assert_sides_agree(model: EmbeddingModel) -> None:
    given, relation = every_query()
    shape = (SIZES.entities, SIZES.relations, SIZES.entities)
    tail, head = (model.score_all(side, given, relation).reshape(shape) for side in ("tail", "head"))
    torch.testing.assert_close(tail, head.permute(2, 1, 0))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_asked_along_changes_nothing(kind: str) -> None:
    model = scattered(kind, SIZES)
    given, relation = every_query()
    together = model.encode("tail", given, relation)
    for query in range(given.shape[1]):
        alone = model.encode("tail", given[:, query : query + 1], relation[:, query : query + 1])
        torch.testing.assert_close(alone[:, 0], together[:, query])


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_in_a_stack_is_as_alone(kind: str, training: bool) -> None:
    """Its first parameters bit for bit; its scores, dropout included, but for rounding."""
    stack, alone = fresh(kind, SIZES, seeds=(3, 5)).train(training), fresh(kind, SIZES, seeds=(5,)).train(training)
    for name, own in alone.state_dict().items():
        assert torch.equal(own[0], stack.state_dict()[name][1]), name
    given, relation = every_query(runs=2)
    for model in (stack, alone):
        model.streams.reseed(3)
    both = stack.score_all("head", given, relation)
    torch.testing.assert_close(both[1:], alone.score_all("head", given[1:], relation[1:]), rtol=1e-4, atol=1e-6)
    for name, own in alone.state_dict().items():
        torch.testing.assert_close(own[0], stack.state_dict()[name][1], msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_two_seeds_are_two_models(kind: str) -> None:
    model = fresh(kind, SIZES, seeds=(0, 1))
    assert not torch.equal(model.entity[0], model.entity[1])
    assert model.entity.dtype == torch.float32


SMALL_SIZES = Sizes(entities=4, relations=2)


@pytest.mark.parametrize("kind", KINDS)
def test_one_run_is_a_view(kind: str) -> None:
    model = scattered(kind, SMALL_SIZES, runs=3)
    alone = model.one_run(1)
    assert alone.state_dict().keys() == model.state_dict().keys()
    for name, own in alone.state_dict().items():
        assert own.shape == (1, *model.state_dict()[name].shape[1:])
        own.fill_(0.25)
        assert (model.state_dict()[name][1] == 0.25).all()
        assert (model.state_dict()[name][0] != 0.25).any()


@pytest.mark.parametrize("kind", KINDS)
def test_one_run_answers_as_the_stack_does(kind: str) -> None:
    model = scattered(kind, SMALL_SIZES, runs=2)
    given, relation = np.array([0, 3, 3]), np.array([1, 0, 1])
    ids = (torch.from_numpy(values).expand(2, -1) for values in (given, relation))
    stack = model.encode("head", *ids)
    for run in range(2):
        alone = model.one_run(run).encode_queries("head", given, relation)
        assert not alone.requires_grad
        torch.testing.assert_close(alone, stack[run])


@pytest.mark.parametrize("kind", KINDS)
def test_one_run_leaves_the_stack_in_training(kind: str) -> None:
    model = scattered(kind, SMALL_SIZES, runs=2).train()
    alone = model.one_run(0)
    assert not any(part.training for part in alone.modules())
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_are_no_part_of_a_gradient(kind: str) -> None:
    model = scattered(kind, SMALL_SIZES)
    assert torch.equal(model.candidates("tail"), model.entity[0])
    assert not model.candidates("tail").requires_grad


def test_rows_of_each_run() -> None:
    table = torch.arange(24.0).reshape(2, 3, 4)
    ids = torch.tensor([[[0, 2]], [[1, 1]]])
    found = rows(table, ids)
    assert found.shape == (2, 1, 2, 4)
    for run in range(2):
        for place in range(2):
            assert torch.equal(found[run, 0, place], table[run, ids[run, 0, place]])


def test_groups_are_neighbours() -> None:
    values = torch.arange(12).reshape(2, 6)
    assert grouped(values, 3).tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


def test_first_values_fill_their_range() -> None:
    even = uniform(RandomStreams([0], "cpu"), (10_000,), 0.3).detach()
    bell = normal(RandomStreams([0], "cpu"), (10_000,), 0.2).detach()
    assert (float(even.min()), float(even.max())) == pytest.approx((-0.3, 0.3), abs=1e-3)
    assert float(even.mean()) == pytest.approx(0, abs=0.01)
    assert (float(bell.mean()), float(bell.std())) == pytest.approx((0, 0.2), abs=0.01)
