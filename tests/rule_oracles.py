"""What rules are and where they lead, by plain loops over paths, and small random graphs to try them on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

from kgprobe.models.rules.groundings import Grounding
from kgprobe.models.rules.paths import Adjacency
from kgprobe.models.rules.rule_table import Rules

Triple = tuple[int, int, int]

Statistics = tuple[float, float, float, float]


class World:
    """A small graph whose paths can be listed one by one."""

    def __init__(self, triples: Iterable[Sequence[int]], entities: int, relations: int) -> None:
        self.listed = [(int(x), int(r), int(y)) for x, r, y in triples]
        self.triples = set(self.listed)
        self.entities, self.relations = entities, relations

    @property
    def adjacency(self) -> Adjacency:
        return Adjacency(np.array(self.listed, dtype=np.int64).reshape(-1, 3), self.entities, self.relations)

    def paths(self, body: Sequence[int], x: int, without: Triple | None = None) -> Iterator[tuple[int, ...]]:
        """The entities of every path of a body from x, in a graph that lacks one triple."""
        if not body:
            yield (x,)
            return
        for head, relation, tail in self.triples - {without}:
            steps = {relation: (head, tail), relation + self.relations: (tail, head)}
            at, to = steps.get(body[0], (-1, -1))
            if at == x:
                yield from ((x, *rest) for rest in self.paths(body[1:], to, without))

    def ends(self, body: Sequence[int], x: int, without: Triple | None = None) -> Counter[int]:
        """How many paths lead where."""
        return Counter(path[-1] for path in self.paths(body, x, without))

    def triple(self, x: int, head: int, y: int) -> Triple:
        """(x, head, y) as it stands in the graph."""
        return (x, head, y) if head < self.relations else (y, head - self.relations, x)

    def answers(self, head: int) -> list[tuple[int, int]]:
        """All (x, y) of a relation or reverse relation."""
        everywhere = product(range(self.entities), repeat=2)
        return [(x, y) for x, y in everywhere if self.triple(x, head, y) in self.triples]

    def statistics(self, head: int, body: Sequence[int]) -> Statistics:
        """Support, pairs, path support and paths of a rule."""
        all_ends = [self.ends(body, x) for x in range(self.entities)]
        own = [self.ends(body, x, self.triple(x, head, y))[y] for x, y in self.answers(head)]
        pairs = sum(len(ends) for ends in all_ends)
        return sum(count > 0 for count in own), pairs, sum(own), sum(ends.total() for ends in all_ends)

    def rules(
        self, heads: Iterable[int], atoms: Iterable[int], lengths: Iterable[int]
    ) -> dict[tuple[int, ...], Statistics]:
        """Every rule with support, by (head, *body)."""
        bodies = [body for length in lengths for body in product(list(atoms), repeat=length)]
        every = {(head, *body): self.statistics(head, body) for head in heads for body in bodies if (head,) != body}
        return {rule: numbers for rule, numbers in every.items() if numbers[0]}


@st.composite
def worlds(draw: st.DrawFn, entities: int = 5, relations: int = 3, triples: int = 12) -> World:
    """With self-loops, duplicates, inverse pairs, isolated entities, relations without triples, one relation."""
    num_entities, num_relations = draw(st.integers(1, entities)), draw(st.integers(1, relations))
    entity, relation = st.integers(0, num_entities - 1), st.integers(0, num_relations - 1)
    return World(draw(st.lists(st.tuples(entity, relation, entity), max_size=triples)), num_entities, num_relations)


def listed(grounding: Grounding) -> list[dict[int, dict[int, float]]]:
    """For each row its candidates, and the numbers of paths by rule."""
    rows = []
    for row in range(grounding.rows):
        pairs = range(*grounding.candidates_at[row : row + 2])
        spans = [slice(*grounding.rules_at[pair : pair + 2]) for pair in pairs]
        found = [
            dict(zip(grounding.rule[span].tolist(), grounding.count[span].tolist(), strict=True)) for span in spans
        ]
        rows.append(
            dict(zip(grounding.candidate[slice(*grounding.candidates_at[row : row + 2])].tolist(), found, strict=True))
        )
    return rows


def by_rule(rules: Rules) -> dict[tuple[int, ...], Statistics]:
    """The statistics of different rules by (head, *body)."""
    bodies = [[atom for atom in body if atom >= 0] for body in rules.body.tolist()]
    keys = [(head, *body) for head, body in zip(rules.head.tolist(), bodies, strict=True)]
    numbers = np.column_stack([rules.support, rules.pairs, rules.path_support, rules.paths]).tolist()
    found = dict(zip(keys, map(tuple, numbers), strict=True))
    assert len(found) == len(rules)
    return found
