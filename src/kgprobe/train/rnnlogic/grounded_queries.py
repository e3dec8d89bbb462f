"""Training queries of RNNLogic with their groundings: which rules lead to which candidates, and how often."""

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
    """Rows of different lengths, concatenated (compressed sparse rows).

    Attributes:
        at: Start of each row, and the end of the last one: int64 [rows + 1].
        columns: Values of the elements, by name.

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
        return cls(_tensor(at), {name: _tensor(column) for name, column in columns.items()})

    @classmethod
    def stacked(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of one or more parts."""
        at = torch.cat([torch.zeros(1, dtype=torch.int64), *(part.sizes for part in parts)]).cumsum(0)
        return cls(at, {name: torch.cat([part.columns[name] for part in parts]) for name in parts[0].columns})

    @property
    def sizes(self) -> Tensor:
        return self.at.diff()

    def rows(self, chosen: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The elements of the chosen rows, and the index among ``chosen`` of each element's row."""
        index, row = ranges(self.at[chosen], self.sizes[chosen])
        return row, {name: column[index] for name, column in self.columns.items()}

    def to(self, device: torch.device) -> Ragged:
        return Ragged(self.at.to(device), {name: column.to(device) for name, column in self.columns.items()})


def ranges(starts: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Concatenated ranges of these starts and sizes, and the index of the range of each number.

    Example:
        >>> [own.tolist() for own in ranges(torch.tensor([5, 0]), torch.tensor([2, 3]))]
        [[5, 6, 0, 1, 2], [0, 0, 1, 1, 1]]
    """
    row = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes)
    return torch.arange(len(row), device=sizes.device) + (starts - begins(sizes))[row], row


def begins(sizes: Tensor) -> Tensor:
    """Starts of rows of these sizes."""
    return sizes.cumsum(0) - sizes


def _tensor(array: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


_MOST_PATHS = 32_767
"""Path counts are clipped here, to be stored as int16."""


@dataclass(frozen=True, eq=False)
class RelationTriples:
    """All training triples (x, relation, y) of some queries (x, relation, ?).

    Attributes:
        x: The given entities.
        y: The answers.
        asked: Whether the triple is a training example.
    """

    x: NDArray[np.int64]
    y: NDArray[np.int64]
    asked: NDArray[np.bool_]

    def ordered(self) -> RelationTriples:
        """Sorted by x and y."""
        order = np.lexsort((self.y, self.x))
        return RelationTriples(self.x[order], self.y[order], self.asked[order])


@dataclass(frozen=True, eq=False)
class RelationBlock:
    """Grounded queries of one relation; every part has one row for each query.

    A pair is a query with a candidate that a rule leads to. Without the predicted triple, some pairs lose paths.

    Attributes:
        given: The given entity of each query: int64 [queries].
        pairs: ``candidate``; ``answer``: whether it is a training answer; ``rules``: number of rules that lead to it.
        entries: The rules of all pairs: ``rule``: index among those of the relation; ``count``: number of paths.
        triples: The training triples: ``target``; ``pair``: index among the query's pairs, or -1; ``asked``.
        changes: Pairs that lose paths without a triple: ``triple`` and ``pair``: indices in the query; ``gone``: that
            no path is left; ``rules``: number of rules that lose paths. Only pairs that are compared: the target of
            the triple, and candidates that are not answers.
        changed: The rules that lose paths: ``rule``; ``count``: number of paths; ``left``: number of paths left.
    """

    given: NDArray[np.int64]
    pairs: Ragged
    entries: Ragged
    triples: Ragged
    changes: Ragged
    changed: Ragged

    @property
    def groundings(self) -> int:
        """Number of stored path counts."""
        return len(self.entries.columns["rule"]) + len(self.changed.columns["rule"])


def block_of(grounder: Grounder, rules: Rules, triples: RelationTriples) -> RelationBlock:
    """Ground the rules of one relation for some of its queries."""
    triples = triples.ordered()
    given, row = np.unique(triples.x, return_inverse=True)
    found = grounder.paths(rules, given)
    lost = grounder.through(rules, triples.x[triples.asked], triples.y[triples.asked])
    entities = grounder.adjacency.entities
    keys = np.repeat(np.arange(len(given)), np.diff(found.candidates_at)) * entities + found.candidate
    pair = _places(keys, row * entities + triples.y)
    answer = np.zeros(len(keys), dtype=bool)
    answer[pair[pair >= 0]] = True
    triples_at = np.searchsorted(row, np.arange(len(given) + 1))

    asked = np.repeat(np.flatnonzero(triples.asked), np.diff(lost.candidates_at))
    place = _places(keys, row[asked] * entities + lost.candidate)
    compared = ~answer[place] | (lost.candidate == triples.y[asked])
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
            triples_at,
            target=triples.y.astype(np.int32),
            pair=np.where(pair >= 0, pair - found.candidates_at[row], -1).astype(np.int32),
            asked=triples.asked,
        ),
        Ragged.of(
            changes_at,
            triple=(asked - triples_at[row[asked]]).astype(np.int32),
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
    """The changes of pairs that are compared.

    Attributes:
        sizes: Number of rules that lose paths, for each change.
        at: Starts of these rules.
        rule: The rules.
        count: Their numbers of paths.
        left: Their numbers of paths left.
        emptied: Number of rules that lose all their paths, for each change.
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
    """Numbers of paths of rules for pairs."""
    stride = max(rules, 1)
    keys = np.repeat(np.arange(len(found.candidate)), np.diff(found.rules_at)) * stride + found.rule
    return found.count[_places(keys, pair * stride + rule)]


def _places(keys: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of some keys among ascending keys, or -1."""
    place = np.minimum(np.searchsorted(keys, some), len(keys) - 1)
    return np.where(keys[place] == some, place, -1) if len(keys) else np.full(len(some), -1)


def _short(count: NDArray[np.float32]) -> NDArray[np.int16]:
    return np.minimum(count, _MOST_PATHS).astype(np.int16)


_FIRST = 64
"""Number of queries of a relation that are grounded first, to estimate the size of the others."""

_PARTS = ("pairs", "entries", "triples", "changes", "changed")


@dataclass(frozen=True)
class Amount:
    """Limits on the training triples.

    Attributes:
        triples: Maximum number of triples of a relation; 0 for all.
        of_query: Maximum number of triples of a query.
        groundings: Approximate maximum number of stored groundings; beyond it, queries are left out.
    """

    triples: int = 0
    of_query: int = 64
    groundings: int = 100_000_000


@dataclass(frozen=True, eq=False)
class GroundedQueries:
    """Grounded training queries of all relations.

    Attributes:
        relation: The relation of each query, inverse relations for head queries: int64 [queries].
        given: The given entity: int64 [queries].
        first_rule: Index of the first rule of each relation: int64 [relations + 1].
        pairs, entries, triples, changes, changed: See `RelationBlock`.
    """

    relation: Tensor
    given: Tensor
    first_rule: Tensor
    pairs: Ragged
    entries: Ragged
    triples: Ragged
    changes: Ragged
    changed: Ragged

    @cached_property
    def asked(self) -> Tensor:
        """Number of training examples of each query: int64 [queries]."""
        counted = torch.cat([self.triples.at.new_zeros(1), self.triples.columns["asked"].cumsum(0)])
        return counted[self.triples.at].diff()

    @cached_property
    def costs(self) -> Tensor:
        """Number of scores of each query, on the CPU: int64 [queries]."""
        return (self.pairs.sizes + self.changes.sizes).cpu()

    def __len__(self) -> int:
        return len(self.relation)

    def to(self, device: torch.device) -> GroundedQueries:
        return GroundedQueries(*(getattr(self, column.name).to(device) for column in fields(self)))

    def chunks(self, chosen: Tensor, most: int) -> list[Tensor]:
        """The chosen queries in parts with at most this number of scores, unless a single query has more."""
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
    """Ground the training queries of all relations."""
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
    # Parts are freed as they are stacked, to limit the peak memory.
    parts = {name: [getattr(block, name) for one in grounded for block in one.blocks] for name in _PARTS}
    del grounded, one
    stacked = (Ragged.stacked(parts.pop(name)) for name in _PARTS)
    return GroundedQueries(_longs(asked), _longs(given), _longs(first), *stacked)


class _OfRelation:
    """The queries of a relation in random order, of which the first ``done`` are grounded."""

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
        """Estimated number of groundings of all queries."""
        return self._taken * self.queries / max(self.done, 1)

    def go_on(self, most: float) -> None:
        """Ground more queries, until all are grounded or there are about this many groundings."""
        while self.done < self.queries:
            some = min(self.done, int((most - self._taken) * self.done / max(self._taken, 1)))
            if some <= 0:
                return
            self._ground(some)

    @property
    def _taken(self) -> int:
        # A query without groundings counts as one.
        return self.done + sum(block.groundings for block in self.blocks)

    def _ground(self, some: int) -> None:
        here = np.isin(self._x, self._order[self.done : self.done + some])
        if here.any():
            triples = RelationTriples(self._x[here], self._y[here], self._asked[here])
            self.blocks.append(block_of(self._grounder, self._rules, triples))
            self.done += len(self.blocks[-1].given)


def shares(needed: NDArray[np.float64], queries: NDArray[np.int64], amount: Amount) -> NDArray[np.float64]:
    """Maximum number of groundings of each relation.

    Relations with few queries keep all groundings. The others keep a share of their queries that falls with the fourth
    root of their number: with ten thousand times as many queries, a tenth of the share.

    Args:
        needed: Number of groundings of all queries of each relation.
        queries: Number of queries of each relation.
        amount: Limit on the groundings of all relations.

    Example:
        >>> shares(np.array([10.0, 2560.0, 160.0]), np.array([1, 256, 16]), Amount(groundings=1090)).tolist()
        [10.0, 960.0, 120.0]
    """
    root = np.maximum(queries, 1) ** 0.25
    if needed.sum() <= amount.groundings:
        enough: NDArray[np.float64] = needed * (amount.groundings / max(needed.sum(), 1))
        return enough
    # Relations whose root is below the level keep all; each element of level adds the next relation to those.
    order = np.argsort(root, kind="stable")
    whole = np.concatenate([[0], np.cumsum(needed[order])[:-1]])
    by_root = (needed / root)[order]
    rest = np.cumsum(by_root[::-1])[::-1]
    level = (amount.groundings - whole) / np.maximum(rest, 1e-300)
    reached = level[np.argmax(level <= root[order])]
    some: NDArray[np.float64] = needed * np.minimum(1, reached / root)
    return some


def _asked(x: AnyInts, amount: Amount, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which triples are training examples: a sample, limited for each query."""
    order = rng.permutation(len(x))[: amount.triples or None]
    by_query = order[np.argsort(x[order], kind="stable")]
    _, first, sizes = np.unique(x[by_query], return_index=True, return_counts=True)
    asked = np.zeros(len(x), dtype=bool)
    asked[by_query[np.arange(len(by_query)) - np.repeat(first, sizes) < amount.of_query]] = True
    return asked


def _longs(numbers: AnyInts) -> Tensor:
    return torch.from_numpy(numbers.astype(np.int64))
