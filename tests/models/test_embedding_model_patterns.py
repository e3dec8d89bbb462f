"""Which models learn which patterns: triples that were held out follow from the pattern that the other triples show."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kgprobe.models.embedding_model import EmbeddingModel, Sizes
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import build, model_kind

Triple = tuple[int, int, int]

SEEDS = (0, 1, 2)

LENGTH = 20


@dataclass(frozen=True)
class Recipe:
    """How a model is trained; the weight of N3 keeps the models that multiply from learning triples by heart."""

    options: dict[str, Any]
    rate: float = 0.05
    weight: float = 0.0
    steps: int = 200


NO_DROPOUT = {"dropout_input": 0.0, "dropout_relation": 0.0, "dropout_output": 0.0}

RECIPES = {
    "TransE": Recipe({"dimension": 16, "gamma": 6.0, "norm": 2}, rate=0.1),
    "DistMult": Recipe({"dimension": 16, "initial_scale": 0.3}, weight=0.02),
    "ComplEx": Recipe({"dimension": 16, "initial_scale": 0.3}, weight=0.02),
    "RotatE": Recipe({"dimension": 8, "gamma": 6.0}),
    "HousE": Recipe({"dimension": 16, "block": 2, "projections": 0, "gamma": 6.0}),
    "TuckER": Recipe({"dimension": 16, "relation_dimension": 4, **NO_DROPOUT}),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def columns(triples: list[Triple]) -> Iterator[Tensor]:
    """Heads, relations and tails [S, triples], the same for all runs."""
    return (column.expand(len(SEEDS), -1) for column in torch.tensor(triples).T)


def trained(name: str, triples: list[Triple]) -> EmbeddingModel:
    """Three runs, trained by cross entropy over all entities on either side."""
    recipe, (head, relation, tail) = RECIPES[name], columns(triples)
    sizes = Sizes(1 + max(max(h, t) for h, _, t in triples), 1 + max(r for _, r, _ in triples))
    model = build(name, sizes, model_kind(name).load().Options(**recipe.options), RandomStreams(SEEDS, "cpu"))
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.rate)
    for _ in range(recipe.steps):
        optimiser.zero_grad()
        answers = (model.score_all("tail", head, relation), tail), (model.score_all("head", tail, relation), head)
        loss = sum(functional.cross_entropy(scores.flatten(0, 1), right.flatten()) for scores, right in answers)
        loss += recipe.weight * sum(part.pow(3).sum(-1).mean() for part in model.factors(head, relation, tail))
        loss.backward()
        optimiser.step()
    return model.eval()


def first(model: EmbeddingModel, triples: list[Triple], known: list[Triple]) -> Tensor:
    """For every run, the share of triples whose tail is scored above all others that are not known to be true too."""
    head, relation, tail = columns(triples)
    scores = model.score_all("tail", head, relation).detach().clone()
    own = scores.gather(2, tail[..., None])
    others = set(known)
    for row, (h, r, t) in enumerate(triples):
        true = [entity for entity in range(scores.shape[2]) if (h, r, entity) in others and entity != t]
        scores[:, row, true] = -torch.inf
    return ((scores >= own).sum(-1) == 1).double().mean(-1)


def without(triples: list[Triple], held_out: list[Triple]) -> list[Triple]:
    return [triple for triple in triples if triple not in held_out]


CHAIN = [(i, 0, i + 1) for i in range(LENGTH - 1)]

COUPLES = [(i, 0, LENGTH + i) for i in range(LENGTH)] + [(LENGTH + i, 0, i) for i in range(LENGTH)]


@pytest.mark.parametrize("name", ["DistMult", "ComplEx", "RotatE", "HousE"])
def test_symmetry_is_learned(name: str) -> None:
    held_out = COUPLES[LENGTH : LENGTH + 6]
    assert (first(trained(name, without(COUPLES, held_out)), held_out, COUPLES) >= 0.8).all()


def test_symmetry_is_beyond_transe() -> None:
    """Of the two directions of a couple one is never above the entity itself, though it was trained on both."""
    assert (first(trained("TransE", COUPLES), COUPLES, COUPLES) <= 0.5).all()


def margins(model: EmbeddingModel) -> Tensor:
    """How much higher than its reverse each triple of the chain is scored."""
    head, relation, tail = columns(CHAIN)
    right, reverse = (model.score_some("tail", a, relation, b[..., None]) for a, b in ((head, tail), (tail, head)))
    return (right - reverse).detach()


@pytest.mark.parametrize("name", ["TransE", "ComplEx", "RotatE", "HousE", "TuckER"])
def test_antisymmetry_is_learned(name: str) -> None:
    assert (margins(trained(name, CHAIN)) > 0.5).all()


def test_antisymmetry_is_beyond_distmult() -> None:
    torch.testing.assert_close(margins(trained("DistMult", CHAIN)), torch.zeros(len(SEEDS), len(CHAIN), 1))


INVERSE = CHAIN + [(t, 1, h) for h, _, t in CHAIN]

INVERSE_HELD_OUT = [(i + 1, 1, i) for i in range(2, LENGTH - 1, 4)]


@pytest.mark.parametrize("name", ["TransE", "ComplEx", "RotatE", "HousE"])
def test_inversion_is_learned(name: str) -> None:
    model = trained(name, without(INVERSE, INVERSE_HELD_OUT))
    assert (first(model, INVERSE_HELD_OUT, INVERSE) >= 0.8).all()


def test_inversion_of_a_chain_is_beyond_distmult() -> None:
    """What comes after an entity is as near to it as what comes before."""
    model = trained("DistMult", without(INVERSE, INVERSE_HELD_OUT))
    assert (first(model, INVERSE_HELD_OUT, INVERSE) <= 0.4).all()


STEPS = [(i, step - 1, i + step) for step in (1, 2, 3) for i in range(LENGTH - step)]

STEPS_HELD_OUT = [(i, 2, i + 3) for i in range(1, LENGTH - 3, 3)]


@pytest.mark.parametrize("name", ["TransE", "RotatE", "HousE"])
def test_composition_is_learned(name: str) -> None:
    """A step and two steps are three steps."""
    model = trained(name, without(STEPS, STEPS_HELD_OUT))
    assert first(model, STEPS_HELD_OUT, STEPS).mean() >= 0.8


def test_composition_of_a_chain_is_beyond_distmult() -> None:
    """Three steps forward are for it three steps back."""
    model = trained("DistMult", STEPS)
    head, relation, tail = columns([triple for triple in STEPS if triple[1] == 2])
    forward, back = (model.score_some("tail", a, relation, b[..., None]) for a, b in ((head, tail), (tail, head)))
    torch.testing.assert_close(forward, back)


PATTERNS = {"symmetry": COUPLES, "inversion": INVERSE, "composition": STEPS}


@pytest.mark.parametrize("triples", PATTERNS.values(), ids=PATTERNS)
def test_tucker_fits_every_pattern(triples: list[Triple]) -> None:
    """With enough coordinates it can score any triples above all others; that says nothing of triples held out."""
    assert (first(trained("TuckER", triples), triples, triples) == 1).all()
