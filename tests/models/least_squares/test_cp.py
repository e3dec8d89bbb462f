import numpy as np
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.least_squares import fit_cp
from kgprobe.models.least_squares.cp import update_entities, update_relations
from kgprobe.models.least_squares.tensor import FactTensor

REGULARISATIONS = [1e-3, 0.1, 2.0]


def tensor_of(head, tail, relation):
    return np.einsum("hi,ti,ri->hrt", head, tail, relation)


def loss(tensor, head, tail, relation, regularisation):
    squares = sum((factor**2).sum() for factor in (head, tail, relation))
    return ((tensor - tensor_of(head, tail, relation)) ** 2).sum() + regularisation * squares


def least_squares(unfolded, first, second, regularisation):
    """The best factor of the rows of an unfolding, whose columns are pairs of a row of each of the other factors."""
    width = first.shape[1]
    regressors = np.array([a * b for a in first for b in second])
    augmented = np.vstack([regressors, regularisation**0.5 * np.eye(width)])
    return np.linalg.lstsq(augmented, np.vstack([unfolded.T, np.zeros((width, len(unfolded)))]))[0].T


@pytest.mark.parametrize("regularisation", REGULARISATIONS)
def test_updates_are_the_least_squares_of_the_dense_problem(graph, dense, regularisation):
    rng = np.random.default_rng(2)
    head, tail, relation = (rng.standard_normal((size, 3)) for size in (9, 9, 4))
    facts = FactTensor.build(graph, damping=0.3)
    tensor = dense(facts)
    found = (
        update_entities(facts, tail, relation, regularisation),
        update_entities(facts.transposed, head, relation, regularisation),
        update_relations(facts, head, tail, regularisation),
    )
    expected = (
        least_squares(tensor.reshape(9, -1), relation, tail, regularisation),
        least_squares(tensor.transpose(2, 0, 1).reshape(9, -1), head, relation, regularisation),
        least_squares(tensor.transpose(1, 0, 2).reshape(4, -1), head, tail, regularisation),
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("damping", [0, 0.3])
@pytest.mark.parametrize("regularisation", REGULARISATIONS)
@pytest.mark.parametrize("dimension", [1, 3, 20])
def test_no_update_makes_the_loss_larger(graph, dense, dimension, regularisation, damping):
    facts = FactTensor.build(graph, damping)
    tensor = dense(facts)
    rng = np.random.default_rng(4)
    head, tail, relation = (rng.standard_normal((size, dimension)) for size in (9, 9, 4))
    losses = [loss(tensor, head, tail, relation, regularisation)]
    for _ in range(15):
        head = update_entities(facts, tail, relation, regularisation)
        losses.append(loss(tensor, head, tail, relation, regularisation))
        tail = update_entities(facts.transposed, head, relation, regularisation)
        losses.append(loss(tensor, head, tail, relation, regularisation))
        relation = update_relations(facts, head, tail, regularisation)
        losses.append(loss(tensor, head, tail, relation, regularisation))
    assert (np.diff(losses) <= 1e-12 * np.array(losses[:-1])).all()


def test_a_tensor_of_low_rank_is_recovered(dense):
    """All of one group have both relations to all of another, and those one of them to a third."""
    first, second, third = range(3), range(3, 8), range(8, 12)
    facts = [(h, r, t) for h in first for r in (0, 1) for t in second] + [(h, 1, t) for h in second for t in third]
    graph = KnowledgeGraph.from_triples(train=facts)
    model = fit_cp(graph, dimension=2, iterations=200, regularisation=1e-6, damping=0)
    factors = (model.head_entity, model.tail_entity, model.relation)
    found = tensor_of(*(factor.astype(np.float64) for factor in factors))
    np.testing.assert_allclose(found, dense(FactTensor.build(graph, damping=0)), atol=1e-3)


@pytest.mark.parametrize("damping", [0, 0.3, 1])
def test_with_a_coordinate_for_each_query_every_entry_is_fitted(graph, dense, damping):
    model = fit_cp(graph, dimension=36, regularisation=1e-9, damping=damping)
    factors = (model.head_entity, model.tail_entity, model.relation)
    found = tensor_of(*(factor.astype(np.float64) for factor in factors))
    np.testing.assert_allclose(found, dense(FactTensor.build(graph, damping)), atol=1e-4)


def test_what_has_no_facts_has_no_score(graph):
    model = fit_cp(graph, dimension=4)
    for rows in (model.relation[1:3], model.head_entity[8], model.tail_entity[8]):
        assert not rows.any()
