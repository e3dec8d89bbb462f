"""WorldTask: which hard triples of an open world are ranked, and on which sides."""

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
    """Triples to rank: the known ones in both worlds, the missing ones in the closed world only.

    Attributes:
        known: Known triples [n, 3] (head, relation, tail).
        missing: Missing triples [n, 3].
        sides: "tail" for tail queries, each of which has a known answer; "both" for an ordinary test set.
        settings: How the triples were chosen.
    """

    known: AnyInts
    missing: AnyInts
    sides: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranked(self) -> int:
        """Number of queries to rank in both worlds together."""
        return (2 * len(self.known) + len(self.missing)) * (2 if self.sides == "both" else 1)


def tail_task(
    world: OpenWorld, queries: int = 500, least_answers: int = 10, least_known: int = 1, seed: int = 0
) -> WorldTask:
    """All hard answers of some tail queries with many answers: a stress test for missing triples.

    If the world has its own ``queries``, these are taken.

    Args:
        world: The world.
        queries: Number of queries to sample; all if there are fewer.
        least_answers: Least number of hard answers of a query.
        least_known: How many of them must be known, at least 1.
        seed: Random seed.

    Raises:
        UsageError: An argument is out of range.
        DataError: There is no such query, or a query of the world has no known answer.

    Example:
        >>> world = OpenWorld("tiny", 4, 1, train=[[3, 0, 1]], known=[[0, 0, 2], [1, 0, 0]], missing=[[0, 0, 3]])
        >>> tail_task(world, least_answers=2).known.tolist()
        [[0, 0, 2]]
    """
    if world.queries is not None:
        chosen = _keys(world.queries, world)
        if without := int((~np.isin(chosen, _keys(world.known, world))).sum()):
            raise DataError(
                f"{world.name}: {without:,} of {len(chosen):,} tail queries have no known answer",
                remedy="remove them: a query without a known answer has no score in the open world",
            )
        settings: dict[str, Any] = {"kind": "tail", "queries": len(chosen)}
    else:
        _check(queries=(queries, 1), least_answers=(least_answers, 1), least_known=(least_known, 1), seed=(seed, 0))
        chosen = _fitting(world, least_answers, least_known)
        if len(chosen) > queries:
            chosen = np.sort(np.random.default_rng(seed).choice(chosen, queries, replace=False))
        settings = {
            "kind": "tail",
            "queries": len(chosen),
            "least_answers": least_answers,
            "least_known": least_known,
            "seed": seed,
        }
    known, missing = (triples[np.isin(_keys(triples, world), chosen)] for triples in (world.known, world.missing))
    return WorldTask(known, missing, "tail", settings)


def all_task(world: OpenWorld, triples: int = 0, seed: int = 0) -> WorldTask:
    """The hard triples as an ordinary test set, ranked on both sides.

    Args:
        world: The world.
        triples: Number of triples to sample, known and missing ones together; 0 for all.
        seed: Random seed.

    Raises:
        UsageError: The world has the true answers of some tail queries only, or an argument is out of range.
        DataError: No triple is known.

    Example:
        >>> world = OpenWorld("tiny", 4, 1, train=[[3, 0, 1]], known=[[0, 0, 2], [1, 0, 0]], missing=[[0, 0, 3]])
        >>> task = all_task(world)
        >>> len(task.known), len(task.missing), task.sides
        (2, 1, 'both')
    """
    _check(triples=(triples, 0), seed=(seed, 0))
    if world.queries is not None:
        raise UsageError(
            f"{world.name}: the world is no ordinary test set",
            [f"it has the true answers of {len(world.queries):,} tail queries only"],
            "rank its tail queries with tail_task",
        )
    chosen = np.ones(len(world.hard), dtype=bool)
    if 0 < triples < len(world.hard):
        chosen[:] = False
        chosen[np.random.default_rng(seed).choice(len(world.hard), triples, replace=False)] = True
    of_known = np.arange(len(world.hard)) < len(world.known)
    settings = {"kind": "all", "facts": int(chosen.sum())} | ({"seed": seed} if triples else {})
    task = WorldTask(world.hard[chosen & of_known], world.hard[chosen & ~of_known], "both", settings)
    if not len(task.known):
        raise DataError(f"{world.name}: none of the triples to rank is known", remedy="sample more triples")
    return task


def answers_per_query(world: OpenWorld, task: WorldTask) -> dict[str, float]:
    """The mean number of answers of the tail queries of a task in each part of the world.

    Returns:
        ``queries``, the number of tail queries, and the mean number of answers by part.

    Example:
        >>> world = OpenWorld("tiny", 4, 1, train=[[0, 0, 1]], known=[[0, 0, 2]], missing=[[0, 0, 3], [1, 0, 3]])
        >>> answers_per_query(world, tail_task(world, least_answers=2))
        {'queries': 1, 'train': 1.0, 'valid': 0.0, 'known': 1.0, 'missing': 1.0}
    """
    asked = np.unique(_keys(np.concatenate([task.known, task.missing]), world))
    answers = {part: np.isin(_keys(getattr(world, part), world), asked).sum() for part in PARTS}
    return {"queries": len(asked)} | {part: float(count / len(asked)) for part, count in answers.items()}


def _keys(rows: AnyInts, world: OpenWorld) -> AnyInts:
    """A key of the tail query of each row (head, relation, ...)."""
    return pair_keys(rows[:, 0], rows[:, 1], world.num_relations)


def _fitting(world: OpenWorld, least_answers: int, least_known: int) -> AnyInts:
    """Sorted keys of the tail queries with enough answers."""
    asked, position = np.unique(_keys(world.hard, world), return_inverse=True)
    hard = np.bincount(position, minlength=len(asked))
    known = np.bincount(position[: len(world.known)], minlength=len(asked))
    fit: AnyInts = asked[(hard >= least_answers) & (known >= least_known)]
    if not len(fit):
        most = int(hard.max(initial=0))
        raise DataError(
            f"{world.name}: no tail query has {least_answers} hard answers, {least_known} of them known",
            [f"the largest number of hard answers of a query is {most}"],
            "lower least_answers, or rank all hard triples with all_task",
        )
    return fit


def _check(**numbers: tuple[int, int]) -> None:
    problems = [
        f"{name} is {value}; it must be at least {least}" for name, (value, least) in numbers.items() if value < least
    ]
    if problems:
        raise UsageError("invalid settings of a ranking task", problems)
