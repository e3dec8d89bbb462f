"""Grounded training queries of RNNLogic, in blocks of one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.arrays import AnyInts
from kgprobe.models.rules.groundings import Grounder, Grounding
from kgprobe.models.rules.rule_table import Rules


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths, one after the other.

    Attributes:
        at: Where each row begins, and where the last one ends: int64 [rows + 1].
        columns: What the rows hold, by name.

    Example:
        >>> ragged = Ragged.of(np.array([0, 2, 2, 3]), own=np.array([5, 6, 7]))
        >>> row, columns = ragged.rows(torch.tensor([2, 0]))
        >>> row.tolist(), columns["own"].tolist()
        ([0, 1, 1], [7, 5, 6])
    """

    at: Tensor
    columns: Mapping[str, Tensor]

    @classmethod
    def of(cls, at: NDArray[np.int64], **columns: NDArray[np.generic]) -> Ragged:
        """Rows from arrays."""
        return cls(_tensor(at), {name: _tensor(column) for name, column in columns.items()})

    @classmethod
    def stacked(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts, of which there is at least one."""
        at = torch.cat([torch.zeros(1, dtype=torch.int64), *(part.sizes for part in parts)]).cumsum(0)
        return cls(at, {name: torch.cat([part.columns[name] for part in parts]) for name in parts[0].columns})

    @property
    def sizes(self) -> Tensor:
        """The length of each row."""
        return self.at.diff()

    def rows(self, chosen: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The place of each element's row among the chosen ones, and the elements."""
        index, row = ranges(self.at[chosen], self.sizes[chosen])
        return row, {name: column[index] for name, column in self.columns.items()}

    def to(self, device: torch.device) -> Ragged:
        """The same on a device."""
        return Ragged(self.at.to(device), {name: column.to(device) for name, column in self.columns.items()})


def ranges(starts: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers from each start on, as many as its size says, and which start each is of.

    Example:
        >>> [own.tolist() for own in ranges(torch.tensor([5, 0]), torch.tensor([2, 3]))]
        [[5, 6, 0, 1, 2], [0, 0, 1, 1, 1]]
    """
    row = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes)
    return torch.arange(len(row), device=sizes.device) + (starts - begins(sizes))[row], row


def begins(sizes: Tensor) -> Tensor:
    """Where rows of these sizes begin.

    Example:
        >>> begins(torch.tensor([2, 0, 3])).tolist()
        [0, 2, 2]
    """
    return sizes.cumsum(0) - sizes


def _tensor(array: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


_MOST_PATHS = 32_767

"""More paths of a rule than this count as this many: they take two bytes."""


@dataclass(frozen=True, eq=False)
class RelationTriples:
    """All training facts (x, relation, y) of some queries (x, relation, ?).

    Attributes:
        x: The given entity of each.
        y: The answer of each.
        asked: Whether it is asked for.
    """

    x: NDArray[np.int64]
    y: NDArray[np.int64]
    asked: NDArray[np.bool_]

    def ordered(self) -> RelationTriples:
        """The same in the order of x and y."""
        order = np.lexsort((self.y, self.x))
        return RelationTriples(self.x[order], self.y[order], self.asked[order])


@dataclass(frozen=True, eq=False)
class RelationBlock:
    """Queries of one relation; every part has one row for each of them.

    Attributes:
        given: The entity of each query: int64 [queries].
        pairs: ``candidate``; ``answer``: whether it is a training answer; ``rules``: how many rules lead there.
        entries: The rules of all pairs: ``rule``, its place among those of the relation; ``count``: its paths.
        facts: ``target``: every training answer; ``pair``: its place among the query's pairs, or -1; ``asked``.
        changes: Pairs that lose paths without a fact: ``fact`` and ``pair``, their places in the query; ``gone``:
            whether no path is left; ``rules``: how many rules lose paths. Only of what is compared: the target of the
            fact, and candidates that are no answers.
        changed: The rules that lose paths: ``rule``; ``count``: its paths; ``left``: those that stay.
    """

    given: NDArray[np.int64]
    pairs: Ragged
    entries: Ragged
    facts: Ragged
    changes: Ragged
    changed: Ragged

    @property
    def groundings(self) -> int:
        """How many numbers of paths it holds."""
        return len(self.entries.columns["rule"]) + len(self.changed.columns["rule"])


def block_of(grounder: Grounder, rules: Rules, facts: RelationTriples) -> RelationBlock:
    """Ground the rules of one relation for the queries of some of its facts.

    Args:
        grounder: Follows the rules.
        rules: Rules that all conclude the relation.
        facts: All facts of each query.
    """
    facts = facts.ordered()
    given, row = np.unique(facts.x, return_inverse=True)
    found = grounder.paths(rules, given)
    lost = grounder.through(rules, facts.x[facts.asked], facts.y[facts.asked])
    entities = grounder.adjacency.entities
    keys = np.repeat(np.arange(len(given)), np.diff(found.candidates_at)) * entities + found.candidate
    pair = _places(keys, row * entities + facts.y)
    answer = np.zeros(len(keys), dtype=bool)
    answer[pair[pair >= 0]] = True
    facts_at = np.searchsorted(row, np.arange(len(given) + 1))

    asked = np.repeat(np.flatnonzero(facts.asked), np.diff(lost.candidates_at))
    place = _places(keys, row[asked] * entities + lost.candidate)
    compared = ~answer[place] | (lost.candidate == facts.y[asked])
    before = _counts(found, np.repeat(place, np.diff(lost.rules_at)), lost.rule, len(rules))
    kept = _Kept(lost, compared, before)
    asked, place = asked[compared], place[compared]
    changes_at = np.searchsorted(row[asked], np.arange(len(given) + 1))
    return RelationBlock(
        given,
        Ragged.of(
            found.candidates_at,
            candidate=found.candidate,
            answer=answer,
            rules=np.diff(found.rules_at).astype(np.int32),
        ),
        Ragged.of(found.rules_at[found.candidates_at], rule=found.rule.astype(np.int16), count=_short(found.count)),
        Ragged.of(
            facts_at,
            target=facts.y.astype(np.int32),
            pair=np.where(pair >= 0, pair - found.candidates_at[row], -1).astype(np.int32),
            asked=facts.asked,
        ),
        Ragged.of(
            changes_at,
            fact=(asked - facts_at[row[asked]]).astype(np.int32),
            pair=(place - found.candidates_at[row[asked]]).astype(np.int32),
            gone=np.diff(found.rules_at)[place] == kept.emptied,
            rules=kept.sizes.astype(np.int32),
        ),
        Ragged.of(
            kept.at[changes_at],
            rule=kept.rule.astype(np.int16),
            count=_short(kept.count),
            left=_short(kept.left),
        ),
    )


class _Kept:
    """The changes that matter.

    Attributes:
        sizes: How many rules lose paths, for each change.
        at: Where these begin.
        rule: The rules.
        count: Their paths.
        left: Those that stay.
        emptied: How many rules lose all their paths, for each change.
    """

    def __init__(self, lost: Grounding, compared: NDArray[np.bool_], before: NDArray[np.float32]) -> None:
        sizes = np.diff(lost.rules_at)
        entry = np.repeat(compared, sizes)
        self.sizes = sizes[compared]
        self.at = np.concatenate([[0], np.cumsum(self.sizes)])
        self.rule, self.count = lost.rule[entry], before[entry]
        self.left = np.maximum(self.count - lost.count[entry], 0)
        change = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.emptied = np.bincount(change[self.left == 0], minlength=len(self.sizes))


def _counts(found: Grounding, pair: NDArray[np.int64], rule: NDArray[np.int32], rules: int) -> NDArray[np.float32]:
    """The numbers of paths of rules for pairs; what passes through a fact is among all paths."""
    stride = max(rules, 1)
    keys = np.repeat(np.arange(len(found.candidate)), np.diff(found.rules_at)) * stride + found.rule
    return found.count[_places(keys, pair * stride + rule)]


def _places(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each is among ascending keys, or -1."""
    place = np.searchsorted(keys, wanted)
    inside = np.minimum(place, len(keys) - 1)
    return np.where(keys[inside] == wanted, inside, -1) if len(keys) else np.full(len(wanted), -1)


def _short(count: NDArray[np.float32]) -> NDArray[np.int16]:
    return np.minimum(count, _MOST_PATHS).astype(np.int16)


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
class GroundedQueries:
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

    def to(self, device: torch.device) -> GroundedQueries:
        """The same on a device."""
        return GroundedQueries(*(getattr(self, column.name).to(device) for column in fields(self)))

    def chunks(self, chosen: Tensor, most: int) -> list[Tensor]:
        """The chosen queries in parts that take no more than so many scores at once, where a single one does not."""
        passed = self.costs[chosen.cpu()].cumsum(0) // most
        _, sizes = torch.unique_consecutive(passed, return_counts=True)
        return list(torch.split(chosen, sizes.tolist()))


def ground_queries(
    grounder: Grounder,
    rules: Rules,
    amount: Amount,
    rng: np.random.Generator,
    progress: Callable[[], None] = lambda: None,
) -> GroundedQueries:
    """Ground the training queries of all relations.

    Args:
        grounder: Follows the rules.
        rules: Rules of all relations, ordered by what they conclude.
        amount: How many facts are asked.
        rng: Which ones, where not all are.
        progress: Called after each relation.
    """
    relations = np.arange(2 * grounder.adjacency.relations)
    first = np.searchsorted(rules.head, np.append(relations, len(relations)))
    grounded = []
    for relation in relations.tolist():
        own = rules.at(np.arange(first[relation], first[relation + 1]))
        grounded.append(_OfRelation(grounder, relation, own, amount, rng))
        progress()
    room = shares(np.array([one.needed for one in grounded]), np.array([one.queries for one in grounded]), amount)
    for one, most in zip(grounded, room.tolist(), strict=True):
        one.go_on(most)
        progress()
    asked = np.repeat(relations, [one.done for one in grounded])
    given = np.concatenate([block.given for one in grounded for block in one.blocks])
    # What has been stacked is forgotten, so that no more than one part is there twice.
    parts = {name: [getattr(block, name) for one in grounded for block in one.blocks] for name in _PARTS}
    del grounded, one
    stacked = (Ragged.stacked(parts.pop(name)) for name in _PARTS)
    return GroundedQueries(_longs(asked), _longs(given), _longs(first), *stacked)


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
        self._x, self._y = (own.astype(np.int64) for own in grounder.adjacency.pairs(relation))
        self._asked = _asked(self._x, amount, rng)
        self._order = rng.permutation(np.unique(self._x[self._asked]))
        self.queries, self.done = len(self._order), 0
        self.blocks: list[RelationBlock] = []
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
            facts = RelationTriples(self._x[here], self._y[here], self._asked[here])
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


def _asked(x: AnyInts, amount: Amount, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which facts are asked: a sample of them, and of each query no more than may be."""
    order = rng.permutation(len(x))[: amount.facts or None]
    by_query = order[np.argsort(x[order], kind="stable")]
    _, first, sizes = np.unique(x[by_query], return_index=True, return_counts=True)
    asked = np.zeros(len(x), dtype=bool)
    asked[by_query[np.arange(len(by_query)) - np.repeat(first, sizes) < amount.of_query]] = True
    return asked


def _longs(numbers: AnyInts) -> Tensor:
    return torch.from_numpy(numbers.astype(np.int64))
