"""Queries of one relation with the paths that rules find, and what these lose without the fact that is asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.grounding import Grounding
from kgprobe.models.rules.rule import Rules
from kgprobe.train.rules.rnnlogic.ragged import Ragged

_MOST_PATHS = 32_767
"""More paths of a rule than this count as this many: they take two bytes."""


@dataclass(frozen=True, eq=False)
class Facts:
    """All training facts (x, relation, y) of some queries (x, relation, ?).

    Attributes:
        x: The given entity of each.
        y: The answer of each.
        asked: Whether it is asked for.
    """

    x: NDArray[np.int64]
    y: NDArray[np.int64]
    asked: NDArray[np.bool_]

    def ordered(self) -> Facts:
        """The same in the order of x and y."""
        order = np.lexsort((self.y, self.x))
        return Facts(self.x[order], self.y[order], self.asked[order])


@dataclass(frozen=True, eq=False)
class Block:
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


def block_of(grounder: Grounder, rules: Rules, facts: Facts) -> Block:
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
    return Block(
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
