from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.models.rules.groundings import Grounder, Grounding
from kgprobe.models.rules.mining import mine
from kgprobe.models.rules.paths import Adjacency

# Found by another miner, which tells candidates with a supporting triple and those of precision 0.1 apart.
FOUND_ELSEWHERE = {"umls": (2863, 1193, 358, 110), "kinship": (2985, 507, 103, 24), "family": (192, 74, 26, 22)}


def adjacency(data: Path, name: str) -> Adjacency:
    graph = kp.load_graph(data / "graphs" / name)
    return Adjacency(graph.triples("train"), graph.num_entities, graph.num_relations)


@pytest.mark.parametrize("name", FOUND_ELSEWHERE)
def test_as_many_rules_as_another_miner_finds(data: Path, name: str) -> None:
    rules = mine(adjacency(data, name), length=2, reverse=False)
    counts = [
        np.count_nonzero((rules.length == length) & (rules.precision >= least))
        for length in (2, 1)
        for least in (0, 0.1)
    ]
    assert tuple(counts) == FOUND_ELSEWHERE[name]


def test_one_rule_of_wn18rr_is_supported_by_loops_alone(data: Path) -> None:
    # The other miner, which lets a triple support itself, finds 124 of two relations.
    rules = mine(adjacency(data, "wn18rr"), length=2, reverse=False)
    assert np.count_nonzero(rules.length == 2) == 123
    assert np.count_nonzero((rules.length == 2) & (rules.precision >= 0.1)) == 15
    assert np.count_nonzero((rules.length == 1) & (rules.precision >= 0.1)) == 4


@pytest.mark.parametrize("name", [pytest.param("umls", marks=pytest.mark.slow), "kinship"])
def test_paths_are_products_of_dense_matrices_and_go_with_their_triple(data: Path, name: str) -> None:
    graph = adjacency(data, name)
    relation = int(np.bincount(graph.triples[:, 1]).argmax())
    rules = mine(graph, length=3, triples=50).of(relation)
    rules = rules.at(np.random.default_rng(0).permutation(len(rules))[:150])
    x, y = (own[:20].astype(np.int64) for own in graph.pairs(relation))
    grounder = Grounder(graph)
    kept, through = grounder.paths(rules, x), grounder.through(rules, x, y)
    dense = np.stack([graph.of(atom).toarray().astype(np.float64) for atom in range(2 * graph.relations)])
    for row, (head, tail) in enumerate(zip(x, y, strict=True)):
        without = dense.copy()
        without[relation, head, tail] = without[relation + graph.relations, tail, head] = 0
        assert (counts_of(kept, row, len(rules), graph) == ends(dense, rules.body, head)).all()
        left = counts_of(kept, row, len(rules), graph) - counts_of(through, row, len(rules), graph)
        assert (left == ends(without, rules.body, head)).all()


def counts_of(grounding: Grounding, row: int, rules: int, graph: Adjacency) -> np.ndarray:
    """The numbers of paths of a row: [rules, entities]."""
    counts = np.zeros((rules, graph.entities))
    for pair in range(grounding.candidates_at[row], grounding.candidates_at[row + 1]):
        entries = slice(grounding.rules_at[pair], grounding.rules_at[pair + 1])
        counts[grounding.rule[entries], grounding.candidate[pair]] = grounding.count[entries]
    return counts


def ends(dense: np.ndarray, bodies: np.ndarray, start: int) -> np.ndarray:
    """The numbers of paths of each body from an entity: [rules, entities]."""
    found = []
    for body in bodies:
        at = np.zeros(dense.shape[1])
        at[start] = 1
        for atom in body[body >= 0]:
            at = at @ dense[atom]
        found.append(at)
    return np.stack(found)
