"""What rules find for queries that are asked again and again."""

from __future__ import annotations

import numpy as np

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.grounding import Grounding
from kgprobe.models.rules.rule import Rules


class Grounded:
    """Groundings of queries, kept while there is room: every validation asks the same ones.

    Args:
        grounder: Follows the rules.
        rules: Rules of all relations, ordered by what they conclude.
        memory: How many bytes are kept.

    Attributes:
        first: Where the rules of each relation begin: [relations + 1].
    """

    def __init__(self, grounder: Grounder, rules: Rules, memory: int = 1 << 30) -> None:
        self.grounder, self.rules = grounder, rules
        self.first = np.searchsorted(rules.head, np.arange(2 * rules.relations + 1))
        self._room = memory
        self._kept: dict[bytes, Grounding] = {}

    def of(self, relation: int, given: Ints) -> Grounding:
        """The paths from given entities; rules are numbered from the first of the relation on."""
        name = np.array([relation, *given], dtype=np.int64).tobytes()
        if name in self._kept:
            return self._kept[name]
        own = self.rules.at(np.arange(self.first[relation], self.first[relation + 1]))
        found = self.grounder.paths(own, np.asarray(given, dtype=np.int64))
        size = sum(column.nbytes for column in vars(found).values())
        # What came first stays: a pass over more than there is room for would find nothing that it looks for
        # if the oldest had to go.
        if size <= self._room:
            self._kept[name] = found
            self._room -= size
        return found
