"""Worlds for tests: random ones from a seed, models whose scores are a dense table with ties, and ranks by loops."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.openworld.splits import split_world
from kgprobe.openworld.world import OpenWorld
from kgprobe.ranks import Ranks

Fact = tuple[int, int, int]

Row = tuple[int, int, int, str]


def random_graph(seed: int = 0, facts: int = 150, entities: int = 12, relations: int = 3) -> KnowledgeGraph:
    """Distinct facts in three splits, in no order."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(entities * relations * entities, facts, replace=False)
    triples = np.column_stack(np.unravel_index(cells, (entities, relations, entities)))
    train, valid, test = np.split(triples, [facts // 2, 3 * facts // 4])
    return KnowledgeGraph.from_triples(train, valid, test, "random", entities, relations)


def random_world(seed: int = 0, density: float = 0.6, train_share: float = 0.5, valid: float = 0.2) -> OpenWorld:
    """A split of such a graph, with all four parts."""
    return split_world(random_graph(seed), density, train_share, seed, valid=valid)


def as_set(facts: Iterable[Any]) -> set[Fact]:
    """Facts as tuples."""
    return {(int(head), int(relation), int(tail)) for head, relation, tail in facts}


@dataclass
class Dense:
    """A model that knows a score of every fact, few different ones, so that there are ties."""

    scores: NDArray[np.float64]

    @classmethod
    def random(cls, world: OpenWorld, seed: int = 0, values: int = 5) -> "Dense":
        shape = (world.num_entities, world.num_relations, world.num_entities)
        return cls(np.random.default_rng(seed).integers(0, values, shape).astype(float))

    def score(self, side: str, given: NDArray[Any], relation: NDArray[Any]) -> NDArray[np.float64]:
        return self.scores[given, relation] if side == "tail" else self.scores[:, relation, given].T

    def of(self, fact: Fact, side: str, entity: int) -> float:
        """The score of a fact whose tail or head is replaced."""
        head, relation, tail = fact
        return float(self.scores[(head, relation, entity) if side == "tail" else (entity, relation, tail)])


def changed(fact: Fact, side: str, entity: int) -> Fact:
    """The fact with another tail or head."""
    head, relation, tail = fact
    return (head, relation, entity) if side == "tail" else (entity, relation, tail)


def ranks_by_loops(
    model: Dense, ranked: Iterable[Any], sides: Iterable[str], true: set[Fact], entities: int
) -> dict[Row, tuple[float, int, int]]:
    """Mean rank over ties, ties and candidates of every fact, from the definition of the filtered rank."""
    found = {}
    for fact in as_set(ranked):
        for side in sides:
            own = model.of(fact, side, fact[2] if side == "tail" else fact[0])
            others = [e for e in range(entities) if changed(fact, side, e) not in true | {fact}]
            above = sum(model.of(fact, side, e) > own for e in others)
            ties = sum(model.of(fact, side, e) == own for e in others)
            found[(*fact, side)] = (1 + above + ties / 2, ties, 1 + len(others))
    return found


def rows(ranks: Ranks) -> dict[Row, tuple[float, int, int]]:
    """Rank, ties and candidates of every row of a table."""
    sides = ranks.column("side").to_pylist()
    asked = zip(ranks.head.tolist(), ranks.relation.tolist(), ranks.tail.tolist(), sides, strict=True)
    found = zip(ranks.rank.tolist(), ranks.ties.tolist(), ranks.candidates.tolist(), strict=True)
    return dict(zip(asked, found, strict=True))
