"""The regularisers against loops over coordinates."""

import math

import pytest
import torch

from kgprobe.models.base import EmbeddingModel, Sizes
from kgprobe.train.queries import Queries, alike, training_queries
from kgprobe.train.regularisers import l3, n3, norm
from runs import small_graph
from slow_models import KINDS, scattered, tables
from trainings import CPU

GRAPH = small_graph()
SIDES = training_queries(GRAPH.triples("train"), GRAPH.num_entities, None, alike, CPU)


def _made(kind: str) -> EmbeddingModel:
    return scattered(kind, Sizes(GRAPH.num_entities, 2), runs=2)


def _asked(side: int) -> Queries:
    return SIDES[side].at(torch.tensor([[0, 4, 9], [7, 4, 30]]))


@pytest.mark.parametrize("side", [0, 1], ids=["tail", "head"])
def test_n3_takes_the_moduli_of_complex_coordinates(side: int) -> None:
    model, asked = _made("ComplEx"), _asked(side)
    found = n3(model, asked)
    for run in range(2):
        own, total = tables(model, run), 0.0
        size = own["entity"].shape[1] // 2
        for query in range(3):
            ends = (asked.given[run, query], asked.target[run, query])
            rows = [own["entity"][int(end)] for end in ends] + [own["relation"][int(asked.relation[run, query])]]
            total += sum(abs(complex(row[i], row[i + size])) ** 3 for row in rows for i in range(size))
        assert found[run].item() == pytest.approx(total / 3)


def test_n3_takes_absolute_values_of_real_coordinates() -> None:
    model, asked = _made("DistMult"), _asked(0)
    found = n3(model, asked)
    for run in range(2):
        own, total = tables(model, run), 0.0
        for query in range(3):
            total += sum(abs(own["entity"][int(asked.given[run, query])]) ** 3)
            total += sum(abs(own["entity"][int(asked.target[run, query])]) ** 3)
            total += sum(abs(own["relation"][int(asked.relation[run, query])]) ** 3)
        assert found[run].item() == pytest.approx(total / 3)


@pytest.mark.parametrize("kind", list(KINDS))
def test_l3_takes_every_coordinate_of_every_table(kind: str) -> None:
    model = _made(kind)
    learned = {name for name, _ in model.named_parameters()}
    found = l3(model, _asked(0))
    for run in range(2):
        own = tables(model, run)
        total = sum(abs(value) ** 3 for name in learned for value in own[name].flatten().tolist())
        assert found[run].item() == pytest.approx(total)


@pytest.mark.parametrize("kind", list(KINDS))
def test_norm_is_the_mean_length_of_entities(kind: str) -> None:
    model = _made(kind)
    found = norm(model, _asked(0))
    for run in range(2):
        lengths = [math.sqrt(sum(value**2 for value in row)) for row in tables(model, run)["entity"].tolist()]
        assert found[run].item() == pytest.approx(sum(lengths) / len(lengths))


@pytest.mark.parametrize("regulariser", [n3, l3, norm])
@pytest.mark.parametrize("kind", list(KINDS))
def test_runs_do_not_pull_at_each_other(regulariser: object, kind: str) -> None:
    model = _made(kind)
    slopes = torch.autograd.grad(
        regulariser(model, _asked(0))[0],  # type: ignore[operator]
        list(model.parameters()),
        allow_unused=True,
        materialize_grads=True,
    )
    assert any((slope[0] != 0).any() for slope in slopes)
    assert all((slope[1] == 0).all() and slope.isfinite().all() for slope in slopes)
