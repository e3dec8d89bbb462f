"""Which of the held-out triples of an open world are ranked, and on which sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kgprobe.arrays import AnyInts, pair_keys
from kgprobe.errors import DataError, UsageError
from kgprobe.openworld.world import PARTS, OpenWorld


@dataclass(frozen=True, eq=False)
class WorldTask:
    """Facts that are ranked: the known ones in both worlds, the missing ones in the closed world.

    Attributes:
        known: [n, 3] (head, relation, tail).
        missing: [n, 3].
        sides: "tail" for tail queries, each of which has a known answer; "both" for an ordinary test set.
        settings: How they were chosen.
    """

    known: AnyInts
    missing: AnyInts
    sides: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranked(self) -> int:
        """How many ranks it makes: those of the open world and those of the closed one."""
        return (2 * len(self.known) + len(self.missing)) * (2 if self.sides == "both" else 1)


def tail_task(
    world: OpenWorld, queries: int = 500, least_answers: int = 10, least_known: int = 1, seed: int = 0
) -> WorldTask:
    """All hard answers of some tail queries that have many: a stress test for missing facts.

    Where the world names its queries, they are taken as they are.

    Args:
        world: The world.
        queries: How many queries are drawn; all, where there are not as many.
        least_answers: The least number of hard answers of a query.
        least_known: How many of them must be known, at least 1.
        seed: Another seed draws other queries.

    Raises:
        UsageError: The numbers make no sense.
        DataError: There is no such query, or one that the world names has no known answer.

    Example:
        >>> world = OpenWorld("tiny", 4, 1, train=[[3, 0, 1]], known=[[0, 0, 2], [1, 0, 0]], missing=[[0, 0, 3]])
        >>> tail_task(world, least_answers=2).known.tolist()
        [[0, 0, 2]]
    """
    if world.queries is not None:
        chosen = _keys(world.queries, world)
        _require_known(world, chosen)
        settings: dict[str, Any] = {"kind": "tail", "queries": len(chosen)}
    else:
        _check(queries=(queries, 1), least_answers=(least_answers, 1), least_known=(least_known, 1), seed=(seed, 0))
        fit = _fitting(world, least_answers, least_known)
        chosen = _drawn(fit, queries, seed)
        settings = {
            "kind": "tail",
            "queries": len(chosen),
            "least_answers": least_answers,
            "least_known": least_known,
            "seed": seed,
        }
    known, missing = (facts[np.isin(_keys(facts, world), chosen)] for facts in (world.known, world.missing))
    return WorldTask(known, missing, "tail", settings)


def all_task(world: OpenWorld, facts: int = 0, seed: int = 0) -> WorldTask:
    """The hard facts as an ordinary test set, whose heads and tails are both asked for.

    Args:
        world: The world.
        facts: How many of them are drawn, known and missing ones together; 0 for all.
        seed: Another seed draws others.

    Raises:
        UsageError: The world knows the true answers of some tail queries only, or the numbers make no sense.
        DataError: No fact is known.

    Example:
        >>> world = OpenWorld("tiny", 4, 1, train=[[3, 0, 1]], known=[[0, 0, 2], [1, 0, 0]], missing=[[0, 0, 3]])
        >>> task = all_task(world)
        >>> len(task.known), len(task.missing), task.sides
        (2, 1, 'both')
    """
    _check(facts=(facts, 0), seed=(seed, 0))
    if world.queries is not None:
        raise UsageError(
            f"{world.name}: it is no ordinary test set",
            [f"it has the true answers of {len(world.queries):,} tail queries only"],
            "rank its tail queries (--task tail)",
        )
    chosen = np.ones(len(world.hard), dtype=bool)
    if 0 < facts < len(world.hard):
        chosen[:] = False
        chosen[np.random.default_rng(seed).choice(len(world.hard), facts, replace=False)] = True
    of_known = np.arange(len(world.hard)) < len(world.known)
    settings = {"kind": "all", "facts": int(chosen.sum())} | ({"seed": seed} if facts else {})
    task = WorldTask(world.hard[chosen & of_known], world.hard[chosen & ~of_known], "both", settings)
    if not len(task.known):
        raise DataError(f"{world.name}: no fact that is ranked is known", remedy="draw more facts, or train on fewer")
    return task


def answers_per_query(world: OpenWorld, task: WorldTask) -> dict[str, float]:
    """How many answers in each part of the world the tail queries of a task have, on average.

    Returns:
        ``queries``, how many tail queries there are, and the answers of one by part.

    Example:
        >>> world = OpenWorld("tiny", 4, 1, train=[[0, 0, 1]], known=[[0, 0, 2]], missing=[[0, 0, 3], [1, 0, 3]])
        >>> answers_per_query(world, tail_task(world, least_answers=2))
        {'queries': 1, 'train': 1.0, 'valid': 0.0, 'known': 1.0, 'missing': 1.0}
    """
    asked = np.unique(_keys(np.concatenate([task.known, task.missing]), world))
    answers = {part: np.isin(_keys(getattr(world, part), world), asked).sum() for part in PARTS}
    return {"queries": len(asked)} | {part: float(count / len(asked)) for part, count in answers.items()}


def _keys(rows: AnyInts, world: OpenWorld) -> AnyInts:
    """The tail query of each row (head, relation, perhaps tail) as a number."""
    return pair_keys(rows[:, 0], rows[:, 1], world.num_relations)


def _require_known(world: OpenWorld, asked: AnyInts) -> None:
    without = int((~np.isin(asked, _keys(world.known, world))).sum())
    if without:
        raise DataError(
            f"{world.name}: {without:,} of {len(asked):,} tail queries have no known answer",
            remedy="ask only queries that have one: the others have no score in the open world",
        )


def _fitting(world: OpenWorld, least_answers: int, least_known: int) -> AnyInts:
    """The tail queries with as many answers as that, in order."""
    asked, position = np.unique(_keys(world.hard, world), return_inverse=True)
    hard = np.bincount(position, minlength=len(asked))
    known = np.bincount(position[: len(world.known)], minlength=len(asked))
    fit: AnyInts = asked[(hard >= least_answers) & (known >= least_known)]
    if not len(fit):
        most = int(hard.max(initial=0))
        raise DataError(
            f"{world.name}: no tail query has {least_answers} hard answers, {least_known} of them known",
            [f"the most that one has is {most}"],
            "ask for fewer answers (--least), or rank all hard facts (--task all)",
        )
    return fit


def _drawn(fit: AnyInts, queries: int, seed: int) -> AnyInts:
    if len(fit) <= queries:
        return fit
    return np.sort(np.random.default_rng(seed).choice(fit, queries, replace=False))


def _check(**numbers: tuple[int, int]) -> None:
    problems = [
        f"{name} is {value}, expected at least {least}" for name, (value, least) in numbers.items() if value < least
    ]
    if problems:
        raise UsageError("this cannot be ranked", problems)
