"""Where the rules of pLogicNet come from: mined and weighed in the training facts and what is believed beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.markov_logic.learn import Annotate, Learning, hidden_facts, learn, worth_weighing
from kgprobe.models.markov_logic.likelihood import Floats, Prior
from kgprobe.models.markov_logic.logic import Logic, believed
from kgprobe.models.plogicnet import PLogicNetOptions
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.mine import mine

_NONE = np.empty((0, 3), np.int32)


class Reasoner:
    """Draws conclusions for all runs; what does not depend on an embedding is concluded once for runs in succession.

    Args:
        options: The settings of the model.
        graph: The graph.
    """

    def __init__(self, options: PLogicNetOptions, graph: KnowledgeGraph) -> None:
        self.options, self.graph = options, graph
        self._known = believed(graph, _NONE)
        self._learning = Learning(options.combine, Prior(options.prior, options.weight_steps))
        self._last: tuple[bytes, list[Logic]] = (b"", [])

    def first(self, watch: Callable[[str], None]) -> Iterator[Logic]:
        """What can be believed of the training facts alone, for each threshold of rules."""
        return self._concluded(_NONE, None, watch)

    def next(self, last: Logic, annotate: Annotate | None, watch: Callable[[str], None]) -> Iterator[Logic]:
        """What can be believed after that, for each threshold of facts and each of rules."""
        for least in self.options.fact_threshold:
            hidden = hidden_facts(last.network, last.found, self._known, least)
            yield from self._concluded(hidden, annotate, watch)

    def _concluded(
        self, hidden: NDArray[np.int32], annotate: Annotate | None, watch: Callable[[str], None]
    ) -> Iterator[Logic]:
        if annotate is not None:
            yield from self._weighed(hidden, annotate, watch)
            return
        key, found = self._last
        if not found or key != hidden.tobytes():
            found = list(self._weighed(hidden, _as_stated, watch))
            self._last = hidden.tobytes(), found
        yield from found

    def _weighed(self, hidden: NDArray[np.int32], annotate: Annotate, watch: Callable[[str], None]) -> Iterator[Logic]:
        watch("mining")
        options, grounder = self.options, Grounder(believed(self.graph, hidden))
        mined = mine(grounder.adjacency, length=options.rule_length, reverse=options.reverse, most=options.long_rules)
        for least in options.rule_threshold:
            rules = worth_weighing(mined, least, options.groundings)
            network, found = learn(rules, grounder, self._learning, annotate, lambda: watch("weighing rules"))
            yield Logic(hidden, grounder, network, found)


def _as_stated(relation: int, x: Ints, y: Ints) -> Floats:
    """What is no fact of the graph is not true."""
    return np.zeros(len(x))
