"""Rules with long bodies, looked for and measured with a sample of the facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.adjacency import Adjacency
from kgprobe.models.rules.closing import Closing
from kgprobe.models.rules.facts import Facts
from kgprobe.models.rules.measure import Measure
from kgprobe.models.rules.ragged import spread
from kgprobe.models.rules.rule import Floats, Rules
from kgprobe.models.rules.tally import tally
from kgprobe.models.rules.totals import Totals

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
    facts = Facts.some(adjacency, effort.facts, random)
    seen = tally(facts, _closed(closing, facts, length, effort.walks, random), length)
    seen = _best(seen, seen.support, _CANDIDATES * effort.most)
    share = seen.support / (Totals(adjacency).paths(seen.body) + _DOUBT)
    return Measure(adjacency, effort.facts, effort.seed, effort.memory).of(_best(seen, share, effort.most))


def _closed(
    closing: Closing, facts: Facts, length: int, walks: int, random: np.random.Generator
) -> Iterator[tuple[Ints, Ints]]:
    """Facts and bodies that close them: walks that are random up to their last two steps, of which all are taken."""
    row, at, body = _walked(closing, facts, length - 2, walks, random)
    # Two walks of a fact may come apart and count it twice; this ranks candidates, whose support is measured later.
    for walk, last in closing.two_steps(facts.at(row), at):
        yield row[walk], np.column_stack([body[walk], last])


def _walked(
    closing: Closing, facts: Facts, steps: int, walks: int, random: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
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
