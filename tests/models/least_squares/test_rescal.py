import numpy as np
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.least_squares import fit_rescal
from kgprobe.models.least_squares.rescal import loss_along, update_entities, update_relations
from kgprobe.models.least_squares.tensor import FactTensor

REGULARISATIONS = [1e-3, 0.1, 2.0]


def tensor_of(entity, relation):
    """A R_k A^T for all k: [heads, relations, tails]."""
    return np.einsum("hi,rij,tj->hrt", entity, relation, entity)


def loss(tensor, entity, relation, regularisation):
    squares = (entity**2).sum() + (relation**2).sum()
    return ((tensor - tensor_of(entity, relation)) ** 2).sum() + regularisation * squares


def update_of_the_paper(tensor, entity, relation, regularisation):
    """The A that fits X_k ~ A R_k A'^T and X_k^T ~ A R_k^T A'^T best, where A' is the one that there is."""
    regressors = [entity @ matrix for r in relation for matrix in (r.T, r)]
    targets = [matrix for k in range(len(relation)) for matrix in (tensor[:, k], tensor[:, k].T)]
    width = entity.shape[1]
    augmented = np.vstack([*regressors, regularisation**0.5 * np.eye(width)])
    return np.linalg.lstsq(augmented, np.vstack([np.hstack(targets).T, np.zeros((width, len(entity)))]))[0].T


@pytest.fixture
def factors():
    rng = np.random.default_rng(2)
    return rng.standard_normal((9, 3)), rng.standard_normal((4, 3, 3))


@pytest.mark.parametrize("regularisation", REGULARISATIONS)
def test_relations_are_the_least_squares_of_the_dense_problem(graph, dense, factors, regularisation):
    entity, _ = factors
    facts = FactTensor.build(graph, damping=0.3)
    regressors = np.vstack([np.kron(entity, entity), regularisation**0.5 * np.eye(9)])
    found = update_relations(facts, entity, regularisation)
    for k in range(4):
        target = np.concatenate([dense(facts)[:, k].ravel(), np.zeros(9)])
        expected = np.linalg.lstsq(regressors, target)[0].reshape(3, 3)
        np.testing.assert_allclose(found[k], expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("regularisation", REGULARISATIONS)
def test_the_loss_along_a_step_is_that_of_the_dense_tensor(graph, dense, factors, regularisation):
    entity, relation = factors
    facts = FactTensor.build(graph, damping=0.3)
    tensor = dense(facts)
    step = np.random.default_rng(3).standard_normal(entity.shape)
    found = loss_along(facts, entity, step, relation, regularisation)
    without_entities = (tensor**2).sum() + regularisation * (relation**2).sum()
    for length in (-1.5, 0.0, 0.3, 1.0, 2.0):
        expected = loss(tensor, entity + length * step, relation, regularisation)
        assert found(length) + without_entities == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("regularisation", REGULARISATIONS)
def test_entities_move_to_the_lowest_point_towards_the_dense_least_squares(graph, dense, factors, regularisation):
    entity, relation = factors
    facts = FactTensor.build(graph, damping=0.3)
    tensor = dense(facts)
    found = update_entities(facts, entity, relation, regularisation)
    step = update_of_the_paper(tensor, entity, relation, regularisation) - entity
    length = np.vdot(found - entity, step) / np.vdot(step, step)
    np.testing.assert_allclose(found, entity + length * step, rtol=1e-8, atol=1e-10)
    lowest = loss(tensor, found, relation, regularisation)
    along = [loss(tensor, entity + t * step, relation, regularisation) for t in np.linspace(-2, 4, 1001)]
    assert lowest <= min(along) * (1 + 1e-12)
    assert lowest < loss(tensor, entity, relation, regularisation)


def test_where_the_update_of_the_paper_goes_too_far_the_entities_do_not(graph, dense, factors):
    """With small vectors: of a single entity, a becomes x / (r a) where x = r a^2 is wanted."""
    entity, relation = 0.01 * factors[0], factors[1]
    facts = FactTensor.build(graph, damping=0.3)
    tensor = dense(facts)
    before = loss(tensor, entity, relation, 1e-6)
    assert loss(tensor, update_of_the_paper(tensor, entity, relation, 1e-6), relation, 1e-6) > 2 * before
    assert loss(tensor, update_entities(facts, entity, relation, 1e-6), relation, 1e-6) < before


@pytest.mark.parametrize("damping", [0, 0.3])
@pytest.mark.parametrize("regularisation", REGULARISATIONS)
@pytest.mark.parametrize("dimension", [1, 3, 9])
def test_no_update_makes_the_loss_larger(graph, dense, dimension, regularisation, damping):
    facts = FactTensor.build(graph, damping)
    tensor = dense(facts)
    entity = np.random.default_rng(4).standard_normal((9, dimension))
    relation = np.random.default_rng(5).standard_normal((4, dimension, dimension))
    last = loss(tensor, entity, relation, regularisation)
    for _ in range(15):
        entity = update_entities(facts, entity, relation, regularisation)
        between = loss(tensor, entity, relation, regularisation)
        relation = update_relations(facts, entity, regularisation)
        now = loss(tensor, entity, relation, regularisation)
        assert now <= between * (1 + 1e-12) <= last * (1 + 2e-12)
        last = now


def blocks():
    """Two groups of entities; every member of one has relation 0 to every member of the other, 1 to its own."""
    first, second = range(5), range(5, 12)
    facts = [(h, 0, t) for h in first for t in second]
    facts += [(h, 1, t) for group in (first, second) for h in group for t in group]
    return KnowledgeGraph.from_triples(train=facts)


def test_a_tensor_of_low_rank_is_recovered(dense):
    model = fit_rescal(blocks(), dimension=2, iterations=5, regularisation=1e-6, damping=0)
    found = tensor_of(model.entity.astype(np.float64), model.relation.astype(np.float64))
    np.testing.assert_allclose(found, dense(FactTensor.build(blocks(), damping=0)), atol=1e-4)


@pytest.mark.parametrize("damping", [0, 0.3, 1])
def test_with_a_coordinate_for_each_entity_every_entry_is_fitted(graph, dense, damping):
    model = fit_rescal(graph, dimension=9, regularisation=1e-9, damping=damping)
    found = tensor_of(model.entity.astype(np.float64), model.relation.astype(np.float64))
    np.testing.assert_allclose(found, dense(FactTensor.build(graph, damping)), atol=1e-5)


def test_entities_that_are_alike_have_relations_that_stay_small(graph):
    """Vectors of lower rank than their dimension, with next to no regularisation."""
    entity = np.random.default_rng(6).standard_normal((9, 2)) @ np.ones((2, 4))
    relation = update_relations(FactTensor.build(graph, damping=0), entity, regularisation=1e-300)
    assert np.abs(relation).max() < 1e3


def test_more_coordinates_than_entities_are_not_used(graph):
    model = fit_rescal(graph, dimension=50)
    assert model.entity.shape == (9, 9)
    assert model.relation.shape == (4, 9, 9)


def test_what_has_no_facts_has_no_score(graph):
    model = fit_rescal(graph, dimension=4, iterations=3)
    assert not model.relation[1:3].any()
    np.testing.assert_allclose(model.entity[8], 0, atol=1e-6)
