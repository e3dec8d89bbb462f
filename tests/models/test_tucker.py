"""Batch normalisation of stacked runs against that of torch, one run at a time.

TuckER against einsum, its dropout, and its first parameters.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from kgprobe.models import tucker as tucker_module
from kgprobe.models.embedding_model import Sizes
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.tucker import BatchNorm, TuckER, TuckEROptions
from kgprobe.predict.scorers import SIDES, Side

RUNS, SIZE, DIMENSION = 3, 7, 4


def references() -> list[nn.BatchNorm1d]:
    torch.manual_seed(0)
    norms = [nn.BatchNorm1d(DIMENSION).double() for _ in range(RUNS)]
    for norm in norms:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return norms


def stack_of(norms: list[nn.BatchNorm1d]) -> BatchNorm:
    stack = BatchNorm(RUNS, DIMENSION).double()
    with torch.no_grad():
        stack.scale.copy_(torch.stack([norm.weight for norm in norms]))
        stack.shift.copy_(torch.stack([norm.bias for norm in norms]))
    return stack


def test_every_run_is_normalised_as_alone() -> None:
    """Over several batches, with gradients, then with the statistics of all of them."""
    norms = references()
    stack = stack_of(norms)
    for batch in range(3):
        values = (torch.randn(RUNS, SIZE, DIMENSION, dtype=torch.float64) * 2 + batch).requires_grad_()
        weights = torch.randn(RUNS, SIZE, DIMENSION, dtype=torch.float64)
        ours, theirs = stack(values), torch.stack([norm(values[run]) for run, norm in enumerate(norms)])
        torch.testing.assert_close(ours, theirs)
        given = (values, stack.scale, stack.shift)
        expected = torch.autograd.grad(
            (theirs * weights).sum(), [values, *(norm.weight for norm in norms), *(norm.bias for norm in norms)]
        )
        found = torch.autograd.grad((ours * weights).sum(), given)
        torch.testing.assert_close(found[0], expected[0])
        torch.testing.assert_close(found[1], torch.stack(expected[1 : 1 + RUNS]))
        torch.testing.assert_close(found[2], torch.stack(expected[1 + RUNS :]))
    for run, norm in enumerate(norms):
        torch.testing.assert_close(stack.mean[run], norm.running_mean)
        torch.testing.assert_close(stack.variance[run], norm.running_var)
    values = torch.randn(RUNS, SIZE, DIMENSION, dtype=torch.float64)
    kept = stack.mean.clone()
    theirs = torch.stack([norm.eval()(values[run]) for run, norm in enumerate(norms)])
    torch.testing.assert_close(stack.eval()(values), theirs)
    assert torch.equal(stack.mean, kept)


def test_a_single_query_is_normalised_to_the_shift() -> None:
    """Of which torch makes an error; the last batch of an epoch may well be one query."""
    stack = stack_of(references())
    normalised = stack(torch.randn(RUNS, 1, DIMENSION, dtype=torch.float64))
    torch.testing.assert_close(normalised[:, 0], stack.shift.detach())
    assert stack.variance.isfinite().all()


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_large_values_are_normalised_in_float32(offset: float) -> None:
    values = torch.randn(1, 1000, 1, generator=torch.Generator().manual_seed(0)) + offset
    normalised = BatchNorm(1, 1)(values).detach()
    assert (float(normalised.mean()), float(normalised.std())) == pytest.approx((0, 1), abs=2e-3)


SIZES = Sizes(entities=11, relations=5)

PLAIN = TuckEROptions(dimension=6, relation_dimension=4, dropout_input=0, dropout_relation=0, dropout_output=0)

GIVEN, RELATION = torch.arange(10).reshape(2, 5), torch.arange(10).reshape(2, 5) % 5


def tucker(options: TuckEROptions = PLAIN, seeds: tuple[int, ...] = (0, 1)) -> TuckER:
    return TuckER(SIZES, options, RandomStreams(seeds, "cpu")).double()


def products(model: TuckER, side: Side) -> torch.Tensor:
    """The core times relation and given entity, without anything that is normalised or left out."""
    letters = "srij,sbr,sbi->sbj" if side == "tail" else "srij,sbr,sbj->sbi"
    entity = torch.stack([own[ids] for own, ids in zip(model.entity, GIVEN, strict=True)])
    relation = torch.stack([own[ids] for own, ids in zip(model.relation, RELATION, strict=True)])
    return torch.einsum(letters, model.core, relation, entity)


@pytest.mark.parametrize("side", SIDES)
def test_scores_are_a_product_with_the_core(side: Side) -> None:
    model = tucker().eval()
    expected = torch.einsum("sbj,snj->sbn", products(model, side), model.entity) / (1 + 1e-5)
    torch.testing.assert_close(model.score_all(side, GIVEN, RELATION), expected)


def trained(dimension: int, relations: int) -> TuckER:
    """A run in float32, with statistics as after a training."""
    options = dataclasses.replace(PLAIN, dimension=dimension, relation_dimension=relations)
    model = TuckER(SIZES, options, RandomStreams((0,), "cpu"))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for norm in (model.input_norm, model.output_norm):
            for values in (norm.scale, norm.shift, norm.mean):
                values.normal_(generator=generator)
            norm.variance.uniform_(0.1, 3, generator=generator)
    return model.eval()


@pytest.mark.parametrize("at_once", [1, 3000, 1 << 24])
@pytest.mark.parametrize("side", SIDES)
def test_queries_are_rounded_once(side: Side, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the float32 that is nearest to the sums of numbers of 64 bits."""
    monkeypatch.setattr(tucker_module, "_AT_ONCE", at_once)
    model, given, relation = trained(24, 16), np.arange(10), np.arange(10) % 5
    found = model.encode_queries(side, given, relation).numpy()

    def wide(values: torch.Tensor) -> Any:
        return values.detach()[0].numpy().astype(np.longdouble)

    def normalised(values: Any, norm: BatchNorm) -> Any:
        scale = wide(norm.scale) / np.sqrt(wide(norm.variance) + np.longdouble(1e-5))
        return (values - wide(norm.mean)) * scale + wide(norm.shift)

    known = normalised(wide(model.entity)[given], model.input_norm)
    letters = "rij,br,bi->bj" if side == "tail" else "rij,br,bj->bi"
    product = np.einsum(letters, wide(model.core), wide(model.relation)[relation], known)
    assert found.dtype == np.float32
    assert (found == normalised(product, model.output_norm).astype(np.float32)).all()


def test_queries_do_not_depend_on_the_batch() -> None:
    model, rng = trained(100, 60), np.random.default_rng(0)
    given, relation = rng.integers(0, 11, 60), rng.integers(0, 5, 60)
    together = model.encode_queries("tail", given, relation)
    for size in (1, 7):
        parts = [model.encode_queries("tail", given[i : i + size], relation[i : i + size]) for i in range(0, 60, size)]
        assert torch.equal(torch.cat(parts), together)


@pytest.mark.parametrize("side", SIDES)
def test_training_normalises_by_the_batch(side: Side) -> None:
    """By torch's own batch norm; scale and shift are 1 and 0 in the beginning."""
    model = tucker().train()
    known = torch.stack([own[ids] for own, ids in zip(model.entity, GIVEN, strict=True)])
    relation = torch.stack([own[ids] for own, ids in zip(model.relation, RELATION, strict=True)])

    def normalised(values: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.nn.functional.batch_norm(own, None, None, training=True) for own in values])

    letters = "srij,sbr,sbi->sbj" if side == "tail" else "srij,sbr,sbj->sbi"
    expected = normalised(torch.einsum(letters, model.core, relation, normalised(known)))
    torch.testing.assert_close(model.encode(side, GIVEN, RELATION), expected)


@pytest.mark.parametrize("side", SIDES)
def test_what_is_left_of_a_matrix_is_scaled_up(side: Side) -> None:
    """So that the mean over a large batch, which is kept for later, is the one without anything left out."""
    given, relation = GIVEN.repeat(1, 4000), RELATION.repeat(1, 4000)
    means = []
    for share in (0.0, 0.5):
        model = tucker(dataclasses.replace(PLAIN, dropout_relation=share)).train()
        model.encode(side, given, relation)
        means.append(model.output_norm.mean)
    torch.testing.assert_close(means[1], means[0], rtol=0, atol=0.1 * float(means[0].abs().max()))


@pytest.mark.parametrize("side", SIDES)
def test_both_ways_through_the_core_are_the_same(side: Side) -> None:
    """A share so small that nothing is left out takes the way by matrices."""
    at_once = tucker().train()
    by_matrices = tucker(dataclasses.replace(PLAIN, dropout_relation=1e-12)).train()
    torch.testing.assert_close(
        by_matrices.encode(side, GIVEN, RELATION), at_once.encode(side, GIVEN, RELATION), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("place", ["dropout_input", "dropout_relation", "dropout_output"])
def test_every_dropout_changes_training_alone(place: str) -> None:
    options = dataclasses.replace(PLAIN, **{place: 0.5})
    model, plain = tucker(options), tucker()
    assert not torch.allclose(
        model.train().encode("tail", GIVEN, RELATION), plain.train().encode("tail", GIVEN, RELATION)
    )
    model, plain = tucker(options), tucker()
    assert torch.equal(model.eval().encode("tail", GIVEN, RELATION), plain.eval().encode("tail", GIVEN, RELATION))


def test_dropout_of_the_output_leaves_coordinates_out() -> None:
    model = TuckER(
        SIZES, dataclasses.replace(PLAIN, dimension=40, dropout_output=0.5), RandomStreams([0], "cpu")
    ).train()
    encoded = model.encode("tail", torch.arange(10)[None], torch.arange(10)[None] % 5)
    assert float((encoded == 0).double().mean()) == pytest.approx(0.5, abs=0.1)


def test_the_first_parameters() -> None:
    options = TuckEROptions(dimension=50, relation_dimension=20)
    model = TuckER(Sizes(entities=400, relations=100), options, RandomStreams([0], "cpu"))
    model.requires_grad_(False)
    assert (float(model.core.min()), float(model.core.max())) == pytest.approx((-1, 1), abs=1e-2)
    assert float(model.core.std()) == pytest.approx(1 / math.sqrt(3), rel=0.02)
    assert float(model.entity.std()) == pytest.approx(math.sqrt(2 / 450), rel=0.05)
    assert float(model.relation.std()) == pytest.approx(math.sqrt(2 / 120), rel=0.05)
