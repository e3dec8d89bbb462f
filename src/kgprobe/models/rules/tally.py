"""Counts which facts are closed by which bodies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import UsageError
from kgprobe.graph.sorted_keys import Ints, pair_keys, run_starts
from kgprobe.models.rules.facts import Facts
from kgprobe.models.rules.rule import Rules


def tally(facts: Facts, closed: Iterable[tuple[Ints, Ints]], length: int) -> Rules:
    """The rules that conclude these facts, with support and path support, r <- r left out.

    Args:
        facts: The facts that are closed.
        closed: Rows of facts and the bodies [n, length] of paths that close them; all paths of a fact at once.
        length: Number of relations in a body.

    Example:
        >>> facts = Facts(np.array([0, 1]), np.array([0, 0]), np.array([1, 2]), relations=1)
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


def _counted(facts: Facts, row: Ints, body: Ints) -> tuple[NDArray[np.int64], NDArray[np.float64], Ints]:
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
