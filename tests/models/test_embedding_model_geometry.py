"""What is true of a model by its construction, whatever its parameters are."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from kgprobe.models.complex import ComplEx, ComplExOptions
from kgprobe.models.embedding_model import EmbeddingModel, Sizes
from kgprobe.models.house import HousE, HousEOptions
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.rotate import RotatE, RotatEOptions
from kgprobe.models.transe import TransE, TransEOptions
from kgprobe.predict.scorers import SIDES, Dot, GroupNorm, Side
from slow_models import house_matrices, scattered, tables

ENTITIES, RELATIONS = 6, 3

SIZES = Sizes(ENTITIES, RELATIONS)

GIVEN = torch.arange(ENTITIES)[None]


def asked(relation: int) -> Tensor:
    return torch.full((1, ENTITIES), relation)


def seeds() -> RandomStreams:
    return RandomStreams([0], "cpu")


def test_similarities() -> None:
    assert TransE(SIZES, TransEOptions(norm=1, gamma=3.0), seeds()).similarity == GroupNorm(1, 3.0)
    assert TransE(SIZES, TransEOptions(norm=2, gamma=3.0), seeds()).similarity == GroupNorm(None, 3.0)
    assert RotatE(SIZES, RotatEOptions(gamma=3.0), seeds()).similarity == GroupNorm(2, 3.0)
    assert HousE(SIZES, HousEOptions(block=4, gamma=3.0), seeds()).similarity == GroupNorm(4, 3.0)
    assert ComplEx(SIZES, ComplExOptions(), seeds()).similarity == Dot()


def test_relations_of_rotate_have_modulus_1() -> None:
    """Every complex coordinate of the head keeps its modulus, and turns by the same angle for all heads."""
    model = scattered("RotatE", SIZES)
    for relation in range(RELATIONS):
        head = torch.view_as_complex(model.entity[0].detach().reshape(ENTITIES, -1, 2))
        turned = model.encode("tail", GIVEN, asked(relation))[0].detach()
        ratio = torch.view_as_complex(turned.reshape(ENTITIES, -1, 2)) / head
        torch.testing.assert_close(ratio.abs(), torch.ones_like(ratio.abs()))
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))


def test_first_angles_of_rotate_are_all_angles() -> None:
    model = RotatE(Sizes(4, 500), RotatEOptions(dimension=20, gamma=7.0), seeds())
    angles = (model.relation * model.angle_of_one).detach()
    assert (float(angles.min()), float(angles.max())) == pytest.approx((-math.pi, math.pi), abs=0.01)
    assert float(model.entity.detach().abs().max()) == pytest.approx((7 + 2) / 20, rel=0.05)


def test_heads_of_complex_are_asked_for_with_the_conjugate_relation() -> None:
    model = scattered("ComplEx", SIZES)
    for relation in range(RELATIONS):
        head = model.encode("head", GIVEN, asked(relation)).detach().clone()
        model.relation.data[0, relation, 3:] *= -1
        assert torch.equal(head, model.encode("tail", GIVEN, asked(relation)))


def test_a_real_relation_of_complex_is_symmetric_and_an_imaginary_one_antisymmetric() -> None:
    model = scattered("ComplEx", SIZES)
    model.relation.data[0, 0, 3:] = 0
    model.relation.data[0, 1, :3] = 0
    symmetric, antisymmetric = (model.score_all("tail", GIVEN, asked(relation))[0] for relation in (0, 1))
    torch.testing.assert_close(symmetric, symmetric.T)
    torch.testing.assert_close(antisymmetric, -antisymmetric.T)


def test_distmult_cannot_tell_a_triple_from_its_reverse() -> None:
    model = scattered("DistMult", SIZES)
    for relation in range(RELATIONS):
        scores = model.score_all("tail", GIVEN, asked(relation))[0]
        torch.testing.assert_close(scores, scores.T)


@pytest.mark.parametrize("kind", ["TransE-1", "TransE-2"])
def test_transe_cannot_put_both_directions_above_the_entity_itself(kind: str) -> None:
    """Since |h + r - t| + |t + r - h| >= 2 |r|, and an entity is |r| from itself."""
    for seed in range(20):
        model = scattered(kind, SIZES, seed=seed)
        scores = model.score_all("tail", GIVEN, asked(seed % RELATIONS))[0].detach()
        worse = torch.minimum(scores, scores.T)
        assert (worse <= scores.diagonal()[:, None] + 1e-12).all()


@pytest.mark.parametrize("kind", ["HousE-0", "HousE-1", "HousE-2"])
def test_reflections_of_house_are_orthogonal(kind: str) -> None:
    """What it does to the unit vectors, without projections, is an orthogonal matrix for each block."""
    model = scattered(kind, Sizes(6, RELATIONS))
    assert isinstance(model, HousE)
    model.options = dataclasses.replace(model.options, projections=0)
    own, block = tables(model), model.options.block
    model.entity.data[0] = torch.eye(6)
    for relation in range(RELATIONS):
        does = model.encode("tail", GIVEN, asked(relation))[0].detach().T
        undoes = model.encode("head", GIVEN, asked(relation))[0].detach().T
        torch.testing.assert_close(does @ does.T, torch.eye(6, dtype=torch.float64))
        torch.testing.assert_close(undoes, does.T)
        for place in range(6 // block):
            part = slice(place * block, (place + 1) * block)
            expected = house_matrices(own, model.options, relation, place)["rotation"]
            assert does[part, part].numpy() == pytest.approx(expected)
            assert np.linalg.det(expected) == pytest.approx((-1) ** model.options.reflections)
            does[part, part] = 0
        assert not does.any()


@pytest.mark.parametrize("kind", ["HousE-1", "HousE-2"])
@pytest.mark.parametrize("side", SIDES)
def test_projections_of_house_take_away_a_share_along_their_axes(kind: str, side: Side) -> None:
    """Candidates are multiplied with the matrices of the side; shares are clamped above only."""
    model = scattered(kind, SIZES)
    assert isinstance(model, HousE)
    first = 0 if side == "tail" else RELATIONS
    model.direction.data[0, first : first + 2] = torch.tensor([[5.0], [-5.0]])
    own, options = tables(model), model.options
    of_side = slice(first, first + RELATIONS)
    shares = own["direction"][of_side].repeat(options.blocks, 1) * np.abs(own["scale"][of_side])
    assert shares.max() > options.threshold
    assert shares.min() < -options.threshold
    for relation in range(RELATIONS):
        seen = model.candidates_for(side, relation)
        assert not seen.requires_grad
        for place in range(options.blocks):
            part = slice(place * options.block, (place + 1) * options.block)
            expected = own["entity"][:, part] @ house_matrices(own, options, relation, place)[side].T
            assert seen[:, part].numpy() == pytest.approx(expected)


def test_house_without_projections_sees_candidates_as_they_are() -> None:
    model = scattered("HousE-0", SIZES)
    assert isinstance(model, HousE)
    assert not [name for name, _ in model.named_parameters() if name in ("axis", "scale", "direction")]
    assert torch.equal(model.candidates_for("tail", 1), model.entity[0])
    assert model.answers("tail", asked(0)).shape == (1, 1, ENTITIES, 6)


def test_the_first_projections_of_house_are_small_and_opposite() -> None:
    options = HousEOptions(dimension=64, block=8, projections=2, gamma=6.0)
    model = HousE(Sizes(10, 50), options, seeds())
    tail, head = model.direction.chunk(2, 1)
    assert torch.equal(head, -tail)
    assert float(head.detach().abs().max()) == pytest.approx(0.01, rel=0.1)
    assert float(model.scale.detach().abs().max()) == pytest.approx(1, rel=0.1)
    assert float(model.entity.detach().abs().max()) == pytest.approx(8 / (8 * math.sqrt(8)), rel=0.1)


def test_turns_of_rotate_commute_and_those_of_house_need_not() -> None:
    """The brother of the father is not the father of the brother."""
    apart = {}
    for kind in ("RotatE", "HousE-1"):
        model = scattered(kind, SIZES)
        start = model.entity.data.clone()

        def after(relation: int, model: EmbeddingModel = model) -> None:
            model.entity.data.copy_(model.encode("tail", GIVEN, asked(relation)).detach())

        if isinstance(model, HousE):
            model.options = dataclasses.replace(model.options, projections=0)
        ends = []
        for order in itertools.permutations((0, 1)):
            model.entity.data.copy_(start)
            for relation in order:
                after(relation)
            ends.append(model.entity.data.clone())
        apart[kind] = float((ends[0] - ends[1]).abs().max())
    assert apart["RotatE"] < 1e-12
    assert apart["HousE-1"] > 0.1


@pytest.mark.parametrize("kind", ["TransE-1", "TransE-2", "RotatE"])
def test_triples_that_fit_exactly_compose(kind: str) -> None:
    """If (a, r, b) and (b, s, c) fit exactly, so does (a, rs, c), where the parameters of rs are those of r plus s."""
    model = scattered(kind, SIZES)
    model.relation.data[0, 2] = model.relation.data[0, 0] + model.relation.data[0, 1]
    for given, relation in ((0, 0), (1, 1)):
        query = model.encode("tail", torch.tensor([[given]]), torch.tensor([[relation]]))
        model.entity.data[0, given + 1] = query[0, 0].detach()
    score = model.score_some("tail", torch.tensor([[0]]), torch.tensor([[2]]), torch.tensor([[[2]]]))
    assert float(score.detach()) == pytest.approx(model.similarity.gamma)


def test_best_answers_of_complex_do_not_compose() -> None:
    """The best answer to the product of two relations is mostly another than that to one after the other."""
    same = []
    for seed in range(40):
        model = scattered("ComplEx", Sizes(50, 3), seed=seed)
        first, second = (torch.complex(*model.relation.data[0, relation].chunk(2)) for relation in (0, 1))
        model.relation.data[0, 2] = torch.cat([(first * second).real, (first * second).imag])

        def best(given: int, relation: int, model: EmbeddingModel = model) -> int:
            return int(model.score_all("tail", torch.tensor([[given]]), torch.tensor([[relation]])).argmax())

        same.append(best(best(0, 0), 1) == best(0, 2))
    assert np.mean(same) < 0.7


@pytest.mark.parametrize("kind", ["TransE-1", "TransE-2", "RotatE", "HousE-0", "HousE-2"])
def test_a_triple_that_fits_exactly_has_a_gradient(kind: str) -> None:
    """Where the distance is 0 it has no gradient, and a step must not end in NaN."""
    model = scattered(kind, SIZES)
    model.entity.data.zero_()
    if kind.startswith("TransE"):
        model.relation.data.zero_()
    scores = model.score_all("tail", GIVEN, asked(0))
    assert (scores == model.similarity.gamma).all()
    scores.sum().backward()
    assert all(own.grad is not None and own.grad.isfinite().all() for own in model.parameters())
