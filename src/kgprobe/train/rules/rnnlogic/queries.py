"""The training queries of all relations, grounded, and which of them a step takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from kgprobe.train.rules.rnnlogic.block import Block, Facts, block_of
from kgprobe.train.rules.rnnlogic.ragged import Ragged

_FIRST = 64
"""So many queries of a relation are grounded first, to see how much the others will take."""
_PARTS = ("pairs", "entries", "facts", "changes", "changed")


@dataclass(frozen=True)
class Amount:
    """How many of the training facts are asked.

    Attributes:
        facts: Facts of a relation, at most; 0 for all.
        of_query: Facts of a query, at most: those of a query that half the graph answers are all alike.
        groundings: Groundings of all rules that are kept, about: beyond it, queries are left out.
    """

    facts: int = 0
    of_query: int = 64
    groundings: int = 100_000_000


@dataclass(frozen=True, eq=False)
class TrainingQueries:
    """Training queries with all that a step needs of them.

    Attributes:
        relation: What each query asks for, reverse relations for heads: int64 [queries].
        given: Its entity: int64 [queries].
        first_rule: Where the rules of each relation begin: int64 [relations + 1].
        pairs, entries, facts, changes, changed: See `Block`.
    """

    relation: Tensor
    given: Tensor
    first_rule: Tensor
    pairs: Ragged
    entries: Ragged
    facts: Ragged
    changes: Ragged
    changed: Ragged

    @cached_property
    def asked(self) -> Tensor:
        """How many facts of each query are asked: int64 [queries]."""
        counted = torch.cat([self.facts.at.new_zeros(1), self.facts.columns["asked"].cumsum(0)])
        return counted[self.facts.at].diff()

    @cached_property
    def costs(self) -> Tensor:
        """How many scores each query takes, in the memory of the host: int64 [queries]."""
        return (self.pairs.sizes + self.changes.sizes).cpu()

    def __len__(self) -> int:
        return len(self.relation)

    def to(self, device: torch.device) -> TrainingQueries:
        """The same on a device."""
        return TrainingQueries(*(getattr(self, column.name).to(device) for column in fields(self)))

    def chunks(self, chosen: Tensor, most: int) -> list[Tensor]:
        """The chosen queries in parts that take no more than so many scores at once, where a single one does not."""
        passed = self.costs[chosen.cpu()].cumsum(0) // most
        _, sizes = torch.unique_consecutive(passed, return_counts=True)
        return list(torch.split(chosen, sizes.tolist()))


def training_queries(
    grounder: Grounder,
    rules: Rules,
    amount: Amount,
    rng: np.random.Generator,
    watch: Callable[[], None] = lambda: None,
) -> TrainingQueries:
    """Ground the training queries of all relations.

    Args:
        grounder: Follows the rules.
        rules: Rules of all relations, ordered by what they conclude.
        amount: How many facts are asked.
        rng: Which ones, where not all are.
        watch: Called after each relation.
    """
    relations = np.arange(2 * grounder.adjacency.relations)
    first = np.searchsorted(rules.head, np.append(relations, len(relations)))
    grounded = []
    for relation in relations.tolist():
        own = rules.at(np.arange(first[relation], first[relation + 1]))
        grounded.append(_OfRelation(grounder, relation, own, amount, rng))
        watch()
    room = shares(np.array([one.needed for one in grounded]), np.array([one.queries for one in grounded]), amount)
    for one, most in zip(grounded, room.tolist(), strict=True):
        one.go_on(most)
        watch()
    asked = np.repeat(relations, [one.done for one in grounded])
    given = np.concatenate([block.given for one in grounded for block in one.blocks])
    # What has been stacked is forgotten, so that no more than one part is there twice.
    parts = {name: [getattr(block, name) for one in grounded for block in one.blocks] for name in _PARTS}
    del grounded, one
    stacked = (Ragged.stacked(parts.pop(name)) for name in _PARTS)
    return TrainingQueries(_longs(asked), _longs(given), _longs(first), *stacked)


class _OfRelation:
    """The queries of a relation in random order, some of them grounded.

    Attributes:
        queries: How many there are.
        done: How many are grounded.
        blocks: What was found.
    """

    def __init__(
        self, grounder: Grounder, relation: int, rules: Rules, amount: Amount, rng: np.random.Generator
    ) -> None:
        self._grounder, self._rules = grounder, rules
        self._x, self._y = (own.astype(np.int64) for own in grounder.adjacency.facts(relation))
        self._asked = _asked(self._x, amount, rng)
        self._order = rng.permutation(np.unique(self._x[self._asked]))
        self.queries, self.done = len(self._order), 0
        self.blocks: list[Block] = []
        self._ground(_FIRST)

    @property
    def needed(self) -> float:
        """How many groundings all of its queries take, to judge by those that were grounded."""
        return self._taken * self.queries / max(self.done, 1)

    def go_on(self, most: float) -> None:
        """Ground more queries, until all are or there are about so many groundings."""
        while self.done < self.queries:
            some = min(self.done, int((most - self._taken) * self.done / max(self._taken, 1)))
            if some <= 0:
                return
            self._ground(some)

    @property
    def _taken(self) -> int:
        # A query that no rule leads anywhere is no more than one number, and yet one.
        return self.done + sum(block.groundings for block in self.blocks)

    def _ground(self, some: int) -> None:
        here = np.isin(self._x, self._order[self.done : self.done + some])
        if here.any():
            facts = Facts(self._x[here], self._y[here], self._asked[here])
            self.blocks.append(block_of(self._grounder, self._rules, facts))
            self.done += len(self.blocks[-1].given)


def shares(needed: NDArray[np.float64], queries: NDArray[np.int64], amount: Amount) -> NDArray[np.float64]:
    """How many groundings each relation may have.

    Relations of few queries have all that they need. The others have a share of their queries that falls with the
    fourth root of how many there are: ten thousand times as many queries have a tenth of the share.

    Args:
        needed: How many groundings the queries of each relation take.
        queries: How many queries each has.
        amount: How many groundings there may be in all.

    Example:
        >>> shares(np.array([10.0, 2560.0, 160.0]), np.array([1, 256, 16]), Amount(groundings=1090)).tolist()
        [10.0, 960.0, 120.0]
    """
    root = np.maximum(queries, 1) ** 0.25
    if needed.sum() <= amount.groundings:
        enough: NDArray[np.float64] = needed * (amount.groundings / max(needed.sum(), 1))
        return enough
    # Relations with smaller roots than the level have all; each step takes the next one in.
    order = np.argsort(root, kind="stable")
    whole = np.concatenate([[0], np.cumsum(needed[order])[:-1]])
    by_root = (needed / root)[order]
    rest = np.cumsum(by_root[::-1])[::-1]
    level = (amount.groundings - whole) / np.maximum(rest, 1e-300)
    reached = level[np.argmax(level <= root[order])]
    some: NDArray[np.float64] = needed * np.minimum(1, reached / root)
    return some


def _asked(x: Ints, amount: Amount, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which facts are asked: a sample of them, and of each query no more than may be."""
    order = rng.permutation(len(x))[: amount.facts or None]
    by_query = order[np.argsort(x[order], kind="stable")]
    _, first, sizes = np.unique(x[by_query], return_index=True, return_counts=True)
    asked = np.zeros(len(x), dtype=bool)
    asked[by_query[np.arange(len(by_query)) - np.repeat(first, sizes) < amount.of_query]] = True
    return asked


def _longs(numbers: Ints) -> Tensor:
    return torch.from_numpy(numbers.astype(np.int64))
