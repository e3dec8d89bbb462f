import pytest

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks.importers.given import Given


def test_the_graph_has_its_own_number_of_entities(graph: KnowledgeGraph) -> None:
    assert Given(graph=graph).num_entities == 4
    assert [Given(entities=n).num_entities for n in (1, 7)] == [1, 7]
    assert Given().num_entities is None


def test_contradictions_are_all_said_at_once(graph: KnowledgeGraph) -> None:
    with pytest.raises(UsageError) as caught:
        Given(graph=graph, entities=0, split="tests", seed=1, files=2)
    assert caught.value.problems == [
        "both a graph and a number of entities are given: the graph has its own",
        "0 entities: a graph has at least 1",
        "no split is called 'tests'; nearest: test",
        "one seed for 2 files: several files are several seeds, numbered by their names",
    ]
