"""Finds the rules that the training facts support."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kgprobe.errors import UsageError
from kgprobe.models.rules.adjacency import Adjacency
from kgprobe.models.rules.closing import Closing
from kgprobe.models.rules.facts import Facts
from kgprobe.models.rules.rule import Rules
from kgprobe.models.rules.sampled import Effort, sampled
from kgprobe.models.rules.tally import tally
from kgprobe.models.rules.totals import Totals


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
    watch: Callable[[int], None] | None = None,
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
        watch: Told each length that is done.

    Raises:
        UsageError: The length is not positive.

    Example:
        >>> from kgprobe.models.rules.text import rule_text
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
        if watch is not None:
            watch(size)
    return found.joined(found.reversed()) if reverse else found


def _one_relation(adjacency: Adjacency, closing: Closing, memory: int) -> Rules:
    facts = Facts.of(adjacency)
    rules = tally(facts, closing.one_step(facts), length=1)
    each = np.bincount(facts.relation, minlength=adjacency.relations).astype(np.float64)
    pairs = np.append(each, each)[rules.body[:, 0]]
    return replace(rules, pairs=pairs, paths=pairs)


def _two_relations(adjacency: Adjacency, closing: Closing, memory: int) -> Rules:
    facts = Facts.of(adjacency)
    rules = tally(facts, closing.two_steps(facts, facts.x), length=2)
    totals = Totals(adjacency, memory=memory)
    return replace(rules, pairs=totals.pairs(rules.body), paths=totals.paths(rules.body))


_EXACT = {1: _one_relation, 2: _two_relations}
