import numpy as np
import pytest

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.least_squares.tensor import FactTensor


@pytest.mark.parametrize("damping", [0, 0.3, 1])
def test_entries_are_those_of_the_definition(graph, dense, damping):
    facts = {tuple(triple) for triple in graph.triples("train").tolist()}
    expected = np.zeros((9, 4, 9))
    for h, r, t in facts:
        tails = sum((h, r, e) in facts for e in range(9))
        heads = sum((e, r, t) in facts for e in range(9))
        expected[h, r, t] = (tails * heads) ** -damping
    expected *= (len(facts) / (expected**2).sum()) ** 0.5
    np.testing.assert_allclose(dense(FactTensor.build(graph, damping)), expected, rtol=1e-14)


def test_without_damping_every_distinct_fact_is_1(graph, dense):
    expected = np.zeros((9, 4, 9))
    expected[tuple(graph.triples("train").T)] = 1
    assert (dense(FactTensor.build(graph, damping=0)) == expected).all()


def test_transposed(graph, dense):
    facts = FactTensor.build(graph, damping=0.3)
    assert (dense(facts.transposed) == dense(facts).transpose(2, 1, 0)).all()


def test_products_with_a_slice(graph, dense):
    facts = FactTensor.build(graph, damping=0.3)
    matrix = np.random.default_rng(0).standard_normal((9, 3))
    for part in facts.slices:
        whole = np.zeros((9, 3))
        whole[part.heads] = part.times(matrix)
        np.testing.assert_allclose(whole, dense(facts)[:, part.relation] @ matrix, rtol=1e-13)


def test_only_relations_with_facts_have_a_slice(graph):
    assert [part.relation for part in FactTensor.build(graph, damping=0).slices] == [0, 3]


@pytest.mark.parametrize("splits", [{"test": [[0, 0, 1]]}, {"train": [], "test": [[0, 0, 1]]}], ids=["none", "empty"])
def test_a_graph_without_training_facts(splits):
    with pytest.raises(DataError, match="no training triples"):
        FactTensor.build(KnowledgeGraph.from_triples(**splits), damping=0)
