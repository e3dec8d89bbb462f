"""What is believed at a time: facts that nobody has stated, rules with weights, and what follows from all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.markov_logic.network import Conclusions, Network
from kgprobe.models.rules.adjacency import Adjacency
from kgprobe.models.rules.ground import Grounder


@dataclass(frozen=True, eq=False)
class Logic:
    """Rules, and the facts that they are followed through.

    Attributes:
        hidden: Facts [n, 3] that are held true beside the training facts.
        grounder: Follows rules through both.
        network: The rules and their weights.
        found: What follows.

    Example:
        >>> nothing = Logic.nothing(KnowledgeGraph.from_triples(train=[[0, 0, 1]]))
        >>> len(nothing.hidden), len(nothing.network.rules), nothing.found.by_relation[0].nnz
        (0, 0, 0)
    """

    hidden: NDArray[np.int32]
    grounder: Grounder
    network: Network
    found: Conclusions

    @classmethod
    def nothing(cls, graph: KnowledgeGraph) -> Logic:
        """What is believed before anything is learned."""
        return cls._of(graph, np.empty((0, 3), np.int32), Network.empty(graph.num_relations), "any")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], graph: KnowledgeGraph, combine: str) -> Logic:
        """What a checkpoint believes."""
        return cls._of(graph, tensors["hidden"].cpu().numpy(), Network.from_tensors(tensors), combine)

    def tensors(self) -> dict[str, Tensor]:
        """All that cannot be concluded again, for a checkpoint."""
        return {"hidden": torch.from_numpy(self.hidden), **self.network.tensors()}

    @classmethod
    def _of(cls, graph: KnowledgeGraph, hidden: NDArray[np.int32], network: Network, combine: str) -> Logic:
        grounder = Grounder(believed(graph, hidden))
        return cls(hidden, grounder, network, Conclusions.of(network, grounder, combine))


def believed(graph: KnowledgeGraph, hidden: Ints) -> Adjacency:
    """The training facts and the hidden ones.

    Example:
        >>> believed(KnowledgeGraph.from_triples(train=[[0, 0, 1]]), np.array([[1, 0, 0]])).degree(0).tolist()
        [1, 1]
    """
    facts = np.concatenate([graph.triples("train"), hidden])
    return Adjacency(facts, graph.num_entities, graph.num_relations)
