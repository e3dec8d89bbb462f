"""Which graph a run has learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgprobe.graph import KnowledgeGraph
from kgprobe.train.keep import Facts

_SHOWN = 12


def graph_facts(graph: KnowledgeGraph) -> Facts:
    """What tells a graph from others.

    Example:
        >>> facts = graph_facts(KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="tiny"))
        >>> facts["name"], facts["entities"], facts["relations"]
        ('tiny', 2, 1)
    """
    return {
        "name": graph.name,
        "content_hash": graph.content_hash,
        "learned_hash": graph.learned_hash,
        "entities": graph.num_entities,
        "relations": graph.num_relations,
    }


def other_graph(learned: Mapping[str, Any], graph: KnowledgeGraph, *, other_test: bool = False) -> list[str]:
    """The problem of a graph that is not the one that was learned; none where it is, whatever it is called.

    Args:
        learned: Facts of the one that was learned.
        graph: The graph.
        other_test: Whether its test split may be another.

    Example:
        >>> small, large = (KnowledgeGraph.from_triples(train=[[0, 0, n]], name=f"of {n + 1}") for n in (1, 2))
        >>> other_graph(graph_facts(small), small)
        []
        >>> other_graph(graph_facts(small), large)
        ['it learned of 2 (2 entities, 1 relations, content ...), and of 3 (3 entities, ...) is another']
    """
    given = graph_facts(graph)
    # Runs of earlier versions do not tell what they have learned apart from their test split.
    told = "learned_hash" if other_test and "learned_hash" in learned else "content_hash"
    if all(learned[fact] == given[fact] for fact in (told, "entities", "relations")):
        return []
    return [f"it learned {_named(learned)}, and {_named(given)} is another"]


def _named(facts: Mapping[str, Any]) -> str:
    sizes = f"{facts['entities']:,} entities, {facts['relations']:,} relations"
    return f"{facts['name']} ({sizes}, content {facts['content_hash'][:_SHOWN]})"
