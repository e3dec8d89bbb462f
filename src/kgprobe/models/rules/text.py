"""Rules as logic that a person can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from kgprobe.models.rules.rule import NO_ATOM, Rules

_End = TypeVar("_End")
_BETWEEN = "zwvutsrqponmlkjihgfedcba"


def rule_text(rules: Rules, i: int, label: Callable[[int], str]) -> str:
    """One rule, its head and all its relations the right way round.

    Args:
        rules: Any rules.
        i: Which of them.
        label: The name of a relation of the graph.

    Example:
        >>> name = ["grandparent", "parent"].__getitem__
        >>> rule_text(Rules.from_bodies(2, [0], [[1, 1]]), 0, name)
        'grandparent(x, y) <- parent(x, z), parent(z, y)'
        >>> rule_text(Rules.from_bodies(2, [2], [[1, 3]]), 0, name)
        'grandparent(x, y) <- parent(x, z), parent(y, z)'
    """
    upright = _upright(rules.at([i]))
    between = [_variable(place) for place in range(int(upright.length[0]) - 1)]
    body = (f"{label(relation)}({x}, {y})" for x, relation, y in _atoms(upright, ["x", *between, "y"]))
    return f"{label(int(upright.head[0]))}(x, y) <- {', '.join(body)}"


def path_facts(rules: Rules, i: int, path: Sequence[int]) -> list[tuple[int, int, int]]:
    """The facts (head, relation, tail) along one path of a rule, in the order in which `rule_text` has their relations.

    Args:
        rules: Any rules.
        i: Which of them.
        path: The entities on the path, from the one that its body begins with.

    Example:
        >>> path_facts(Rules.from_bodies(2, [0], [[1, 1]]), 0, [7, 8, 9])
        [(7, 1, 8), (8, 1, 9)]
        >>> path_facts(Rules.from_bodies(2, [2], [[3, 3]]), 0, [9, 8, 7])
        [(7, 1, 8), (8, 1, 9)]
    """
    rule = rules.at([i])
    return list(_atoms(_upright(rule), path if _is_upright(rule) else path[::-1]))


def _is_upright(rule: Rules) -> bool:
    return bool(rule.head[0] < rule.relations)


def _upright(rule: Rules) -> Rules:
    return rule if _is_upright(rule) else rule.reversed()


def _atoms(rule: Rules, ends: Sequence[_End]) -> Iterator[tuple[_End, int, _End]]:
    """The relations of a body with what stands at their ends, all the right way round."""
    body = [int(atom) for atom in rule.body[0] if atom != NO_ATOM]
    for at, atom, to in zip(ends[:-1], body, ends[1:], strict=True):
        yield (at, atom, to) if atom < rule.relations else (to, atom - rule.relations, at)


def _variable(place: int) -> str:
    rounds, letter = divmod(place, len(_BETWEEN))
    return _BETWEEN[letter] + (str(rounds) if rounds else "")
