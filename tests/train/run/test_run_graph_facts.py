from dataclasses import replace

import kgprobe as kp
from kgprobe.train.run.graph_facts import graph_facts, other_graph

GRAPH = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], valid=[[1, 0, 2]], test=[[0, 0, 2]])
OTHER_TEST = replace(GRAPH, splits={**GRAPH.splits, "test": [[2, 0, 0]]})
NO_TEST = replace(GRAPH, splits={split: GRAPH.splits[split] for split in ("train", "valid")})


def test_another_test_split_is_another_graph_unless_it_may_be() -> None:
    for graph in (OTHER_TEST, NO_TEST):
        assert graph.learned_hash == GRAPH.learned_hash
        assert len(other_graph(graph_facts(GRAPH), graph)) == 1
        assert other_graph(graph_facts(GRAPH), graph, other_test=True) == []


def test_what_was_learned_must_be_the_same() -> None:
    for split in ("train", "valid"):
        other = replace(GRAPH, splits={**GRAPH.splits, split: [[2, 0, 1]]})
        assert len(other_graph(graph_facts(GRAPH), other, other_test=True)) == 1
    larger = replace(GRAPH, num_entities=4)
    assert len(other_graph(graph_facts(GRAPH), larger, other_test=True)) == 1


def test_facts_that_do_not_tell_what_was_learned_are_compared_whole() -> None:
    before = {fact: value for fact, value in graph_facts(GRAPH).items() if fact != "learned_hash"}
    assert other_graph(before, GRAPH, other_test=True) == []
    assert len(other_graph(before, OTHER_TEST, other_test=True)) == 1
