"""Mine the rules that the training triples support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Floats, pair_keys, run_starts, slices, spread
from kgprobe.errors import UsageError
from kgprobe.models.rules.paths import Adjacency, HeadTriples, PathSteps
from kgprobe.models.rules.rule_statistics import Measure, Totals
from kgprobe.models.rules.rule_table import Rules
from kgprobe.resources import Progress

_BYTES = 200

"""What one path takes at most while it is looked for."""


class Closing:
    """Finds all paths of one or two relations that close facts.

    Args:
        adjacency: The graph.
        reverse: Whether paths of two relations may go against relations.
        memory: How many bytes may be in use.
    """

    def __init__(self, adjacency: Adjacency, reverse: bool, memory: int) -> None:
        x, r, y = adjacency.triples.T.astype(np.int64)
        start, atom, end = np.append(x, y), np.append(r, r + adjacency.relations), np.append(y, x)
        allowed = slice(None) if reverse else slice(len(x))
        self.most = memory / _BYTES
        self.every = PathSteps.build(start, atom, end, adjacency.entities)
        self.onward = PathSteps.build(start[allowed], atom[allowed], end[allowed], adjacency.entities)
        self.backward = PathSteps.build(end[allowed], atom[allowed], start[allowed], adjacency.entities)

    def one_step(self, facts: HeadTriples) -> Iterator[tuple[AnyInts, AnyInts]]:
        """The row of a fact and a path [1] that closes it, for every such path; all those of a fact at once."""
        place = self.every.place(facts.x, facts.y)
        row, offset = spread(self.every.width(place))
        atom = self.every.atom[self.every.atoms_at[place[row]] + offset]
        own = facts.at(row)
        kept = ~own.are(own.x, atom, own.y)
        yield row[kept], atom[kept, None]

    def two_steps(self, facts: HeadTriples, start: AnyInts) -> Iterator[tuple[AnyInts, AnyInts]]:
        """The row of a fact and a path [2] from a start to its y, for every such path; all those of a row at once.

        Args:
            facts: The facts, whose own step is not taken.
            start: Where the paths of each row begin; x for paths that close the fact.
        """
        lookups = np.minimum(self.onward.degree(start), self.backward.degree(facts.y))
        for rows in slices(lookups, self.most):
            row, there, back = self._meetings(start[rows], facts.y[rows])
            paths = self.onward.width(there) * self.backward.width(back)
            every = np.bincount(row, paths, minlength=rows.stop - rows.start)
            for part in slices(every, self.most):
                first, last = np.searchsorted(row, [part.start, part.stop])
                some = slice(first, last)
                yield self._labelled(facts, start, row[some] + rows.start, there[some], back[some])

    def _meetings(self, start: AnyInts, y: AnyInts) -> tuple[AnyInts, AnyInts, AnyInts]:
        """Every entity between start and y, by row: its pair with start and its pair with y."""
        near = np.flatnonzero(self.onward.degree(start) <= self.backward.degree(y))
        far = np.flatnonzero(self.onward.degree(start) > self.backward.degree(y))
        row_near, there = self.onward.ends(start[near])
        row_far, back = self.backward.ends(y[far])
        row = np.append(near[row_near], far[row_far])
        there = np.append(there, self.onward.place(start[far][row_far], self.backward.end[back]))
        back = np.append(self.backward.place(y[near][row_near], self.onward.end[there[: len(row_near)]]), back)
        met = np.flatnonzero((there >= 0) & (back >= 0))
        met = met[np.argsort(row[met], kind="stable")]
        return row[met], there[met], back[met]

    def _labelled(
        self, facts: HeadTriples, start: AnyInts, row: AnyInts, there: AnyInts, back: AnyInts
    ) -> tuple[AnyInts, AnyInts]:
        """Every choice of two relations at every meeting."""
        # Only next to an end of the fact can a step be the fact itself, and few steps are: loops at x or at y.
        near = (self.onward.end[there] == facts.x[row]) | (self.onward.end[there] == facts.y[row])
        meeting, offset = spread(self.onward.width(there) * self.backward.width(back))
        first, second = np.divmod(offset, self.backward.width(back)[meeting])
        atoms = np.empty((len(meeting), 2), dtype=np.int32)
        atoms[:, 0] = self.onward.atom[self.onward.atoms_at[there][meeting] + first]
        atoms[:, 1] = self.backward.atom[self.backward.atoms_at[back][meeting] + second]
        kept = np.ones(len(meeting), dtype=bool)
        doubtful = np.flatnonzero(near[meeting])
        between, rows = self.onward.end[there][meeting[doubtful]], row[meeting[doubtful]]
        own, (before, after) = facts.at(rows), atoms[doubtful].T
        kept[doubtful] = ~(own.are(start[rows], before, between) | own.are(between, after, own.y))
        return row[meeting[kept]], atoms[kept]


def tally(facts: HeadTriples, closed: Iterable[tuple[AnyInts, AnyInts]], length: int) -> Rules:
    """The rules that conclude these facts, with support and path support, r <- r left out.

    Args:
        facts: The facts that are closed.
        closed: Rows of facts and the bodies [n, length] of paths that close them; all paths of a fact at once.
        length: Number of relations in a body.

    Example:
        >>> facts = HeadTriples(np.array([0, 1]), np.array([0, 0]), np.array([1, 2]), relations=1)
        >>> rules = tally(facts, [(np.array([0, 0, 1]), np.array([[1], [1], [1]]))], length=1)
        >>> rules.head.tolist(), rules.body.tolist(), rules.support.tolist(), rules.path_support.tolist()
        ([0], [[1]], [2.0], [3.0])
    """
    if len(facts) * (2 * facts.relations) ** (length + 1) > np.iinfo(np.int64).max:
        raise UsageError(f"rules of {length} relations are too many to be counted", remedy="look for shorter rules")
    counted = [_counted(facts, row, body) for row, body in closed]
    every, *weights = (np.concatenate(column) for column in zip(_NOTHING, *counted, strict=True))
    code, which = np.unique(every, return_inverse=True)
    base = 2 * facts.relations
    columns = [code // base**place % base for place in range(length, -1, -1)]
    rules = Rules.from_bodies(facts.relations, columns[0], np.column_stack(columns[1:]))
    support, paths = (np.bincount(which, weight, minlength=len(code)).astype(np.float64) for weight in weights)
    rules = replace(rules, support=support, path_support=paths)
    return rules.at((length > 1) | (rules.head != rules.body[:, 0]))


_NOTHING = (np.empty(0, np.int64), np.empty(0), np.empty(0))


def _counted(facts: HeadTriples, row: AnyInts, body: AnyInts) -> tuple[NDArray[np.int64], NDArray[np.float64], AnyInts]:
    """The distinct rules, by how many rows each is reached, and along how many paths."""
    base, length = 2 * facts.relations, body.shape[1]
    keys = row.astype(np.int64)
    for atom in body.T:
        keys = pair_keys(keys, atom, base)
    keys.sort()
    first = run_starts(keys)
    fact, code = np.divmod(keys[first], base**length)
    code += facts.relation[fact] * base**length
    order = np.argsort(code)
    starts = run_starts(code[order])
    paths = np.diff(first, append=len(keys))[order]
    each = np.diff(starts, append=len(order))
    return code[order][starts], each, np.add.reduceat(paths, starts) if len(starts) else each


_CANDIDATES = 5

"""Candidates that are compared for each rule that is measured."""

_DOUBT = 5.0

"""Paths that a candidate is thought to have beside its own: few paths say little."""


@dataclass(frozen=True)
class Effort:
    """How hard long rules are looked for.

    Attributes:
        facts: Facts of each relation, and beginnings of each body.
        walks: Random walks for each of these facts.
        most: Rules of each relation that are measured and kept.
        seed: Of the samples.
        memory: How many bytes may be in use.
    """

    facts: int
    walks: int
    most: int
    seed: int
    memory: int


def sampled(adjacency: Adjacency, closing: Closing, length: int, effort: Effort) -> Rules:
    """The best rules of a sample, with statistics.

    Args:
        adjacency: The graph.
        closing: Finds the last two steps of a path.
        length: Number of relations in a body, at least 3.
        effort: The size of the sample.
    """
    random = np.random.default_rng([effort.seed, length])
    facts = HeadTriples.some(adjacency, effort.facts, random)
    seen = tally(facts, _closed(closing, facts, length, effort.walks, random), length)
    seen = _best(seen, seen.support, _CANDIDATES * effort.most)
    share = seen.support / (Totals(adjacency).paths(seen.body) + _DOUBT)
    return Measure(adjacency, effort.facts, effort.seed, effort.memory).of(_best(seen, share, effort.most))


def _closed(
    closing: Closing, facts: HeadTriples, length: int, walks: int, random: np.random.Generator
) -> Iterator[tuple[AnyInts, AnyInts]]:
    """Facts and bodies that close them: walks that are random up to their last two steps, of which all are taken."""
    row, at, body = _walked(closing, facts, length - 2, walks, random)
    # Two walks of a fact may come apart and count it twice; this ranks candidates, whose support is measured later.
    for walk, last in closing.two_steps(facts.at(row), at):
        yield row[walk], np.column_stack([body[walk], last])


def _walked(
    closing: Closing, facts: HeadTriples, steps: int, walks: int, random: np.random.Generator
) -> tuple[AnyInts, AnyInts, AnyInts]:
    """The fact, the end and the relations of different walks from the x of facts that avoid the fact itself."""
    row = np.repeat(np.arange(len(facts)), walks)
    at, body = facts.x[row], np.empty((len(row), 0), dtype=np.int32)
    for _ in range(steps):
        moved, atom, to = closing.onward.random(at, random)
        avoiding = ~facts.at(row[moved]).are(at[moved], atom, to)
        moved, atom, to = moved[avoiding], atom[avoiding], to[avoiding]
        row, at, body = row[moved], to, np.column_stack([body[moved], atom])
    order = np.lexsort((*body.T, at, row))
    row, at, body = row[order], at[order], body[order]
    new = np.ones(len(row), dtype=bool)
    new[1:] = (np.diff(row) != 0) | (np.diff(at) != 0) | (np.diff(body, axis=0) != 0).any(axis=1)
    return row[new], at[new], body[new]


def _best(rules: Rules, score: Floats, most: int) -> Rules:
    """The rules of each head with the highest scores."""
    order = np.lexsort((-score, rules.head))
    size = np.unique(rules.head, return_counts=True)[1]
    return rules.at(np.sort(order[spread(size)[1] < most]))


def mine(
    adjacency: Adjacency,
    *,
    length: int = 2,
    reverse: bool = True,
    facts: int = 200,
    walks: int = 20,
    most: int = 200,
    least_support: float = 1,
    seed: int = 0,
    memory: int = 1 << 30,
    progress: Progress | None = None,
) -> Rules:
    """All rules of one and two relations with exact statistics, and the best of a sample of longer ones.

    r <- r is no rule. Rules of more than two relations are looked for with some facts of each relation, from whose x
    random walks begin and whose y the last two steps reach in every possible way. The best candidates are measured:
    support with these facts, pairs with as many beginnings, the number of paths exactly. Where a relation has no more
    facts and a body no more beginnings than are looked at, their statistics are exact as well.

    Args:
        adjacency: The training facts.
        length: Most relations in a body.
        reverse: Whether bodies and heads may be reverse relations. Without them, a body of one relation still may.
        facts: Of rules of more than two relations: facts of each relation, and beginnings of each body.
        walks: Random walks for each of these facts.
        most: Rules of each length and relation that are measured and kept.
        least_support: Rules with less support are left out.
        seed: Of these samples.
        memory: How many bytes may be in use beside the rules.
        progress: Told each length that is done.

    Raises:
        UsageError: The length is not positive.

    Example:
        >>> from kgprobe.models.rules.rule_table import rule_text
        >>> parents = [[0, 0, 1], [1, 0, 2], [3, 0, 4], [4, 0, 5]]
        >>> graph = Adjacency(np.array([*parents, [0, 1, 2], [3, 1, 5]]), entities=6, relations=2)
        >>> rules = mine(graph).of(1)
        >>> [rule_text(rules, i, ["parent", "grandparent"].__getitem__) for i in range(len(rules))]
        ['grandparent(x, y) <- parent(x, z), parent(z, y)']
        >>> rules.confidence.tolist()
        [1.0]
    """
    if length < 1:
        raise UsageError("a rule has at least one relation in its body", remedy="give a length of 1 or more")
    closing = Closing(adjacency, reverse, memory)
    effort = Effort(facts, walks, most, seed, memory)
    found = Rules.empty(adjacency.relations)
    for size in range(1, length + 1):
        rules = (
            _EXACT[size](adjacency, closing, memory) if size in _EXACT else sampled(adjacency, closing, size, effort)
        )
        found = found.joined(rules.at(rules.support >= least_support))
        if progress is not None:
            progress(size)
    return found.joined(found.reversed()) if reverse else found


def _one_relation(adjacency: Adjacency, closing: Closing, memory: int) -> Rules:
    facts = HeadTriples.of(adjacency)
    rules = tally(facts, closing.one_step(facts), length=1)
    each = np.bincount(facts.relation, minlength=adjacency.relations).astype(np.float64)
    pairs = np.append(each, each)[rules.body[:, 0]]
    return replace(rules, pairs=pairs, paths=pairs)


def _two_relations(adjacency: Adjacency, closing: Closing, memory: int) -> Rules:
    facts = HeadTriples.of(adjacency)
    rules = tally(facts, closing.two_steps(facts, facts.x), length=2)
    totals = Totals(adjacency, memory=memory)
    return replace(rules, pairs=totals.pairs(rules.body), paths=totals.paths(rules.body))


_EXACT = {1: _one_relation, 2: _two_relations}
