"""Compiled distances on a CPU against float64, and that their bits depend on nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from kgprobe.models import embedding_rows, sampled_scores_numba
from kgprobe.models.embedding_model import AskedSide, EmbeddingModel, Sizes, similarity_scores
from kgprobe.models.embedding_rows import fused_scorer
from kgprobe.models.house import HousE, HousEOptions
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.rotate import RotatE, RotatEOptions
from kgprobe.models.sampled_scores_numba import compiled_scores
from kgprobe.models.transe import TransE, TransEOptions
from kgprobe.predict.scorers import Dot, GroupNorm

pytest.importorskip("numba")

CLOSE = 1e-6

"""Largest difference from float64, as a share of the largest value there is."""

MODELS = {
    "RotatE": lambda streams: RotatE(Sizes(40, 3), RotatEOptions(dimension=6), streams),
    "HousE": lambda streams: HousE(Sizes(40, 3), HousEOptions(dimension=12, block=3, projections=2), streams),
    "HousE without projections": lambda streams: HousE(
        Sizes(40, 3), HousEOptions(dimension=12, projections=0), streams
    ),
    "TransE-L1": lambda streams: TransE(Sizes(40, 3), TransEOptions(dimension=7), streams),
    "TransE-L2": lambda streams: TransE(Sizes(40, 3), TransEOptions(dimension=7, norm=2), streams),
}


@dataclass(frozen=True)
class Task:
    """Leaves that scores depend on, the answers, and what each score is worth."""

    similarity: GroupNorm
    leaves: dict[str, Tensor]
    entities: Tensor
    weight: Tensor

    def found(self) -> tuple[Tensor, ...]:
        """Scores and gradients of the compiled loops."""
        leaves = {name: own.clone().requires_grad_() for name, own in self.leaves.items()}
        projection = (leaves["axes"], leaves["shares"]) if "axes" in leaves else None
        scores = compiled_scores(self.similarity, leaves["queries"], leaves["table"], self.entities, projection)
        return scores.detach(), *torch.autograd.grad((scores * self.weight).sum(), list(leaves.values()))

    def expected(self) -> tuple[Tensor, ...]:
        """The same in plain float64."""
        leaves = {name: own.double().requires_grad_() for name, own in self.leaves.items()}
        runs = torch.arange(len(self.entities))[:, None, None]
        vectors = leaves["table"][runs, self.entities]
        for number in range(leaves["axes"].shape[2] if "axes" in leaves else 0):
            groups = leaves["shares"].shape[-1]
            axis = leaves["axes"][:, :, None, number].unflatten(-1, (groups, -1))
            blocks = vectors.unflatten(-1, (groups, -1))
            along = torch.einsum("sbkgw,sbzgw->sbkg", blocks, axis) * leaves["shares"][:, :, None, number]
            vectors = (blocks - along[..., None] * axis).flatten(-2)
        scores = similarity_scores(self.similarity, leaves["queries"], vectors)
        return scores.detach(), *torch.autograd.grad((scores * self.weight.double()).sum(), list(leaves.values()))

    def run(self, number: int) -> "Task":
        """One of the stacked runs."""
        only = slice(number, number + 1)
        leaves = {name: own[only] for name, own in self.leaves.items()}
        return Task(self.similarity, leaves, self.entities[only], self.weight[only])


def task(size: int | None, dimension: int, projections: int, *, answers: int = 300, entities: int = 50) -> Task:
    """A random task of two runs with five queries each, whose answers are repeated and more than a loop has at hand."""
    generator = torch.Generator().manual_seed(0)
    similarity = GroupNorm(size, 3.0)
    leaves = {
        "queries": torch.randn(2, 5, dimension, generator=generator),
        "table": torch.randn(2, entities, dimension, generator=generator),
    }
    if projections:
        groups = similarity.groups(dimension)
        axes = torch.randn(2, 5, projections, groups, dimension // groups, generator=generator)
        leaves["axes"] = torch.nn.functional.normalize(axes, dim=-1).flatten(-2)
        leaves["shares"] = torch.rand(2, 5, projections, groups, generator=generator) * 1.4 - 0.9
    negatives = torch.randint(entities, (2, 5, answers), generator=generator)
    return Task(similarity, leaves, negatives, torch.randn(2, 5, answers, generator=generator))


def apart(own: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> float:
    """The largest difference, as a share of the largest value."""
    return max(
        float((one - two).abs().max() / two.abs().max().clamp(min=1e-30)) for one, two in zip(own, other, strict=True)
    )


@pytest.fixture
def threads() -> Iterator[None]:
    """Threads of torch are put back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("projections", [0, 1, 3])
@pytest.mark.parametrize("size", [1, 2, 5, None], ids=str)
def test_scores_and_all_gradients_are_those_of_float64(size: int | None, projections: int) -> None:
    own = task(size, 20, projections)
    assert apart(own.found(), own.expected()) < CLOSE


@pytest.mark.parametrize("size", [1, 2, None], ids=str)
def test_vectors_may_be_longer_than_what_is_at_hand(size: int | None) -> None:
    own = task(size, 330, 1, answers=20)
    assert apart(own.found(), own.expected()) < CLOSE


def test_many_small_distances_add_up() -> None:
    own = task(1, 20_000, 0, answers=3)
    scores, *_ = own.found()
    assert apart((scores,), own.expected()[:1]) < 1e-7


@pytest.mark.parametrize("projections", [0, 2])
def test_queries_can_share_their_answers(projections: int) -> None:
    own = task(2, 12, projections)
    shared = Task(own.similarity, own.leaves, own.entities[:, :1], own.weight)
    apiece = Task(own.similarity, own.leaves, own.entities[:, :1].expand(-1, 5, -1), own.weight)
    found, expected = shared.found(), apiece.expected()
    assert apart(found, expected) < CLOSE
    assert torch.equal(found[0], apiece.found()[0])


@pytest.mark.parametrize("size", [1, 2, None], ids=str)
def test_an_answer_at_no_distance_has_no_gradient(size: int | None) -> None:
    own = task(size, 6, 0, answers=17)
    own.leaves["table"][:, 7] = own.leaves["queries"][:, 0]
    own.entities[:, 0] = 7
    scores, queries, table = own.found()
    assert (scores[:, 0] == 3.0).all()
    assert (queries[:, 0] == 0).all()
    assert apart((queries, table), own.expected()[1:]) < CLOSE


@pytest.mark.parametrize("projections", [0, 2])
def test_bits_do_not_depend_on_threads(projections: int, monkeypatch: pytest.MonkeyPatch, threads: None) -> None:
    monkeypatch.setattr(sampled_scores_numba, "_COORDINATES_PER_THREAD", 1)
    own = task(3, 33, projections)
    shared = Task(own.similarity, own.leaves, own.entities[:, :1], own.weight)
    for one in (own, shared):
        torch.set_num_threads(1)
        alone = one.found()
        for count in (2, 3, 7, 40):
            torch.set_num_threads(count)
            assert all(torch.equal(mine, its) for mine, its in zip(one.found(), alone, strict=True))


@pytest.mark.parametrize("projections", [0, 2])
def test_a_run_in_a_stack_has_the_bits_that_it_has_alone(projections: int) -> None:
    own = task(3, 33, projections)
    stacked = own.found()
    for number in range(2):
        alone = own.run(number).found()
        assert all(torch.equal(mine[number], its[0]) for mine, its in zip(stacked, alone, strict=True))


@pytest.mark.parametrize(("queries", "answers"), [(0, 4), (3, 0)])
def test_there_may_be_nothing_to_score(queries: int, answers: int) -> None:
    asked, table = torch.ones(1, queries, 4, requires_grad=True), torch.zeros(1, 5, 4, requires_grad=True)
    scores = compiled_scores(GroupNorm(2), asked, table, torch.zeros(1, queries, answers, dtype=torch.int64), None)
    assert scores.shape == (1, queries, answers)
    scores.sum().backward()
    assert table.grad is not None
    assert (table.grad == 0).all()


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("side", ["head", "tail", "both"])
def test_models_score_as_they_do_in_float64(name: str, side: AskedSide) -> None:
    generator = torch.Generator().manual_seed(1)
    given, relation = torch.randint(40, (2, 4), generator=generator), torch.randint(3, (2, 4), generator=generator)
    entities = torch.randint(40, (2, 4, 9), generator=generator)
    model: EmbeddingModel = MODELS[name](RandomStreams([0, 1], "cpu"))

    def gradients(model: EmbeddingModel) -> tuple[Tensor, ...]:
        some, every = model.score_some(side, given, relation, entities), model.score_all(side, given, relation)
        worth = torch.linspace(-1, 1, some.numel()).reshape(some.shape)
        total = (some * worth).sum() + every.square().sum()
        return some.detach(), every.detach(), *torch.autograd.grad(total, list(model.parameters()))

    assert apart(gradients(model), gradients(MODELS[name](RandomStreams([0, 1], "cpu")).double())) < 1e-5


def test_what_is_compiled_is_for_distances_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = torch.zeros(1, 1, 2)
    assert fused_scorer(GroupNorm(2), queries) is compiled_scores
    assert fused_scorer(GroupNorm(2), queries.double()) is None
    assert fused_scorer(Dot(), queries) is None
    monkeypatch.setattr(embedding_rows, "_installed", lambda name: False)
    assert fused_scorer(GroupNorm(2), queries) is None


def test_without_numba_scores_are_the_same_up_to_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["HousE"](RandomStreams([0, 1], "cpu"))
    ids = torch.tensor([[0, 1, 2], [2, 1, 0]])
    compiled = model.score_all("tail", ids, ids)
    monkeypatch.setattr(embedding_rows, "_installed", lambda name: False)
    assert torch.allclose(compiled, model.score_all("tail", ids, ids), rtol=1e-6, atol=1e-6)
