"""Mine the rules that the training triples support: exactly up to two atoms, from a sample of longer ones."""

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

_BYTES = 200  # working memory of a path
_CANDIDATES = 5  # sampled candidates per rule that is kept
_PRIOR_PATHS = 5.0  # added to the number of paths of a candidate: rules with few paths rank lower


def mine(
    adjacency: Adjacency,
    *,
    length: int = 2,
    reverse: bool = True,
    triples: int = 200,
    walks: int = 20,
    most: int = 200,
    least_support: float = 1,
    seed: int = 0,
    memory: int = 1 << 30,
    progress: Progress | None = None,
) -> Rules:
    """All rules of one and two atoms with exact statistics, and the best of a sample of longer rules.

    r <- r is excluded. Longer rules are found from a sample of triples (x, r, y) of each relation: random walks start
    at x, and their last two steps are all paths to y. The statistics of the best candidates are estimated from as many
    start entities; they are exact if neither relations nor bodies exceed the sample size. Numbers of paths are exact.

    Args:
        adjacency: The training triples.
        length: Maximum length of a body.
        reverse: Whether bodies and heads may contain reverse relations; a body of one atom always may.
        triples: Sample size for rules of three and more atoms: triples of each relation, start entities of each body.
        walks: Random walks for each sampled triple.
        most: Maximum number of sampled rules of each length and relation.
        least_support: Minimum support of a rule.
        seed: Seed of the samples.
        memory: Working memory in bytes, beside the rules.
        progress: Called with each length that is done.

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
        raise UsageError(f"length is {length}, and must be at least 1")
    closing = Closing(adjacency, reverse, memory)
    sample = Sample(triples, walks, most, seed, memory)
    mined = Rules.empty(adjacency.relations)
    for size in range(1, length + 1):
        exact = size <= 2
        rules = _exact(adjacency, closing, size, memory) if exact else _sampled(adjacency, closing, size, sample)
        mined = mined.joined(rules.at(rules.support >= least_support))
        if progress is not None:
            progress(size)
    return mined.joined(mined.reversed()) if reverse else mined


def _exact(adjacency: Adjacency, closing: Closing, length: int, memory: int) -> Rules:
    """All rules of one or two atoms."""
    triples = HeadTriples.of(adjacency)
    if length == 1:
        rules = tally(triples, closing.one_step(triples), length)
        each = np.bincount(triples.relation, minlength=adjacency.relations).astype(np.float64)
        pairs = np.append(each, each)[rules.body[:, 0]]
        return replace(rules, pairs=pairs, paths=pairs)
    rules = tally(triples, closing.two_steps(triples, triples.x), length)
    totals = Totals(adjacency, memory=memory)
    return replace(rules, pairs=totals.pairs(rules.body), paths=totals.paths(rules.body))


class Closing:
    """Finds the paths of one or two steps that connect the entities of triples (closed paths).

    Args:
        adjacency: The graph.
        reverse: Whether paths of two steps may contain reverse relations.
        memory: Working memory in bytes.
    """

    def __init__(self, adjacency: Adjacency, reverse: bool, memory: int) -> None:
        x, r, y = adjacency.triples.T.astype(np.int64)
        start, atom, end = np.append(x, y), np.append(r, r + adjacency.relations), np.append(y, x)
        allowed = slice(None) if reverse else slice(len(x))
        self.most = memory / _BYTES
        self.every = PathSteps.build(start, atom, end, adjacency.entities)
        self.onward = PathSteps.build(start[allowed], atom[allowed], end[allowed], adjacency.entities)
        self.backward = PathSteps.build(end[allowed], atom[allowed], start[allowed], adjacency.entities)

    def one_step(self, triples: HeadTriples) -> Iterator[tuple[AnyInts, AnyInts]]:
        """Yield the rows of triples and the bodies [paths, 1] of all other paths from x to y."""
        index = self.every.index(triples.x, triples.y)
        row, offset = spread(self.every.width(index))
        atom = self.every.atom[self.every.atoms_at[index[row]] + offset]
        own = triples.at(row)
        kept = ~own.are(own.x, atom, own.y)
        yield row[kept], atom[kept, None]

    def two_steps(self, triples: HeadTriples, start: AnyInts) -> Iterator[tuple[AnyInts, AnyInts]]:
        """Yield the rows of triples and the bodies [paths, 2] of all paths from ``start`` to y that avoid the triple.

        Args:
            triples: The triples; all paths of a triple are yielded together.
            start: Start entity of each row; x for closed paths.
        """
        lookups = np.minimum(self.onward.degree(start), self.backward.degree(triples.y))
        for rows in slices(lookups, self.most):
            row, from_start, from_y = self._midpoints(start[rows], triples.y[rows])
            paths = self.onward.width(from_start) * self.backward.width(from_y)
            every = np.bincount(row, paths, minlength=rows.stop - rows.start)
            for part in slices(every, self.most):
                first, last = np.searchsorted(row, [part.start, part.stop])
                some = slice(first, last)
                yield self._labelled(triples, start, row[some] + rows.start, from_start[some], from_y[some])

    def _midpoints(self, start: AnyInts, y: AnyInts) -> tuple[AnyInts, AnyInts, AnyInts]:
        """All entities between start and y: the row, the index of (start, entity) and the index of (y, entity)."""
        near = np.flatnonzero(self.onward.degree(start) <= self.backward.degree(y))
        far = np.flatnonzero(self.onward.degree(start) > self.backward.degree(y))
        row_near, from_start = self.onward.ends(start[near])
        row_far, from_y = self.backward.ends(y[far])
        row = np.append(near[row_near], far[row_far])
        from_start = np.append(from_start, self.onward.index(start[far][row_far], self.backward.end[from_y]))
        from_y = np.append(self.backward.index(y[near][row_near], self.onward.end[from_start[: len(row_near)]]), from_y)
        common = np.flatnonzero((from_start >= 0) & (from_y >= 0))
        common = common[np.argsort(row[common], kind="stable")]
        return row[common], from_start[common], from_y[common]

    def _labelled(
        self, triples: HeadTriples, start: AnyInts, row: AnyInts, from_start: AnyInts, from_y: AnyInts
    ) -> tuple[AnyInts, AnyInts]:
        """All combinations of the relations of both steps, except steps along the triple itself."""
        # A step can use the triple only if the entity in between is x or y, which is rare.
        near = (self.onward.end[from_start] == triples.x[row]) | (self.onward.end[from_start] == triples.y[row])
        midpoint, offset = spread(self.onward.width(from_start) * self.backward.width(from_y))
        first, second = np.divmod(offset, self.backward.width(from_y)[midpoint])
        atoms = np.empty((len(midpoint), 2), dtype=np.int32)
        atoms[:, 0] = self.onward.atom[self.onward.atoms_at[from_start][midpoint] + first]
        atoms[:, 1] = self.backward.atom[self.backward.atoms_at[from_y][midpoint] + second]
        kept = np.ones(len(midpoint), dtype=bool)
        near_rows = np.flatnonzero(near[midpoint])
        between, rows = self.onward.end[from_start][midpoint[near_rows]], row[midpoint[near_rows]]
        own, (before, after) = triples.at(rows), atoms[near_rows].T
        kept[near_rows] = ~(own.are(start[rows], before, between) | own.are(between, after, own.y))
        return row[midpoint[kept]], atoms[kept]


def tally(triples: HeadTriples, closed: Iterable[tuple[AnyInts, AnyInts]], length: int) -> Rules:
    """Count the support and the path support of rules from closed paths; r <- r is excluded.

    Args:
        triples: The triples of the heads.
        closed: Rows of triples and the bodies [n, length] of closed paths; all paths of a triple together.
        length: Length of the bodies.
    """
    base = 2 * triples.relations
    if len(triples) * base ** (length + 1) > np.iinfo(np.int64).max:
        raise UsageError(f"there are too many possible rules of length {length}", remedy="give a smaller length")
    counts = [(np.empty(0, np.int64), np.empty(0), np.empty(0)), *(_counted(triples, *paths) for paths in closed)]
    every, *weights = (np.concatenate(column) for column in zip(*counts, strict=True))
    code, which = np.unique(every, return_inverse=True)
    columns = [code // base**power % base for power in range(length, -1, -1)]
    rules = Rules.from_bodies(triples.relations, columns[0], np.column_stack(columns[1:]))
    support, paths = (np.bincount(which, weight, minlength=len(code)).astype(np.float64) for weight in weights)
    rules = replace(rules, support=support, path_support=paths)
    return rules.at((length > 1) | (rules.head != rules.body[:, 0]))


def _counted(triples: HeadTriples, row: AnyInts, body: AnyInts) -> tuple[NDArray[np.int64], AnyInts, AnyInts]:
    """The distinct rules as integer codes, and the numbers of their triples and paths."""
    base, length = 2 * triples.relations, body.shape[1]
    keys = row.astype(np.int64)
    for atom in body.T:
        keys = pair_keys(keys, atom, base)
    keys.sort()
    first = run_starts(keys)
    triple, code = np.divmod(keys[first], base**length)
    code += triples.relation[triple] * base**length
    order = np.argsort(code)
    starts = run_starts(code[order])
    paths = np.diff(first, append=len(keys))[order]
    each = np.diff(starts, append=len(order))
    return code[order][starts], each, np.add.reduceat(paths, starts) if len(starts) else each


@dataclass(frozen=True)
class Sample:
    """Sample size for long rules; see `mine` for the meaning of each number."""

    triples: int
    walks: int
    most: int
    seed: int
    memory: int


def _sampled(adjacency: Adjacency, closing: Closing, length: int, sample: Sample) -> Rules:
    """The best rules of three or more atoms from a sample, with statistics."""
    random = np.random.default_rng([sample.seed, length])
    triples = HeadTriples.some(adjacency, sample.triples, random)
    rules = tally(triples, _closed(closing, triples, length, sample.walks, random), length)
    rules = _best(rules, rules.support, _CANDIDATES * sample.most)
    share = rules.support / (Totals(adjacency).paths(rules.body) + _PRIOR_PATHS)
    return Measure(adjacency, sample.triples, sample.seed, sample.memory).of(_best(rules, share, sample.most))


def _closed(
    closing: Closing, triples: HeadTriples, length: int, walks: int, random: np.random.Generator
) -> Iterator[tuple[AnyInts, AnyInts]]:
    """Yield rows of triples and bodies of closed paths: random walks, then all paths of two steps to y."""
    row, at, body = _random_walks(closing, triples, length - 2, walks, random)
    # A triple may be counted once per walk. This only ranks candidates, whose support is measured later.
    for walk, last in closing.two_steps(triples.at(row), at):
        yield row[walk], np.column_stack([body[walk], last])


def _random_walks(
    closing: Closing, triples: HeadTriples, steps: int, walks: int, random: np.random.Generator
) -> tuple[AnyInts, AnyInts, AnyInts]:
    """The row, the end and the relations of distinct random walks from x that avoid the triple itself."""
    row = np.repeat(np.arange(len(triples)), walks)
    at, body = triples.x[row], np.empty((len(row), 0), dtype=np.int32)
    for _ in range(steps):
        moved, atom, to = closing.onward.random(at, random)
        avoiding = ~triples.at(row[moved]).are(at[moved], atom, to)
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
