"""The training queries of all relations, grounded, and which of them a step takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from kgprobe.train.rules.rnnlogic_block import Block, Facts, block_of
from kgprobe.train.rules.rnnlogic_ragged import Ragged

_FIRST = 64
"""So many queries of a relation are grounded first, to see how much the others will take."""
_PARTS = ("pairs", "entries", "facts", "changes", "changed")


@dataclass(frozen=True)
class Amount:
    """How many of the training facts are asked.

    Attributes:
        facts: Facts of a relation, at most; 0 for all.
        of_query: Facts of a query, at most: those of a query that half the graph answers are all alike.
        groundings: Groundings of the rules of a relation that are kept, about: beyond it, queries are left out.
    """

    facts: int = 0
    of_query: int = 64
    groundings: int = 20_000_000


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
    asked: list[int] = []
    blocks: list[Block] = []
    for relation in relations.tolist():
        own = rules.at(np.arange(first[relation], first[relation + 1]))
        found = list(_blocks(grounder, relation, own, amount, rng))
        blocks += found
        asked += [relation] * sum(len(block.given) for block in found)
        watch()
    return TrainingQueries(
        torch.tensor(asked, dtype=torch.int64),
        torch.from_numpy(np.concatenate([block.given for block in blocks])),
        torch.from_numpy(first.astype(np.int64)),
        *(Ragged.stacked([getattr(block, name) for block in blocks]) for name in _PARTS),
    )


def _blocks(
    grounder: Grounder, relation: int, rules: Rules, amount: Amount, rng: np.random.Generator
) -> Iterator[Block]:
    """The queries of a relation in random order, some at a time, until as much is grounded as may be."""
    x, y = (own.astype(np.int64) for own in grounder.adjacency.facts(relation))
    asked = _asked(x, amount, rng)
    queries = rng.permutation(np.unique(x[asked]))
    done, taken, some = 0, 0, _FIRST
    while done < len(queries) and some > 0:
        here = np.isin(x, queries[done : done + some])
        block = block_of(grounder, rules, Facts(x[here], y[here], asked[here]))
        yield block
        done, taken = done + len(block.given), taken + block.groundings
        some = min(done, int((amount.groundings - taken) * done / max(taken, 1)))


def _asked(x: Ints, amount: Amount, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which facts are asked: a sample of them, and of each query no more than may be."""
    order = rng.permutation(len(x))[: amount.facts or None]
    by_query = order[np.argsort(x[order], kind="stable")]
    _, first, sizes = np.unique(x[by_query], return_index=True, return_counts=True)
    asked = np.zeros(len(x), dtype=bool)
    asked[by_query[np.arange(len(by_query)) - np.repeat(first, sizes) < amount.of_query]] = True
    return asked
