"""What keeps two rank tables from being those of one model in two worlds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kgprobe.openworld.codes import Codes, codes_of
from kgprobe.ranks import Ranks

WORLDS = ("open", "closed")


def pair_problems(opened: Ranks, closed: Ranks, *, require_answers: bool) -> list[str]:
    """All that is wrong with a pair of tables, one line each.

    Args:
        opened: Ranks of known answers.
        closed: Ranks of all answers.
        require_answers: Whether a query without a known answer is a problem.

    Example:
        >>> columns = dict(head=[0], relation=[0], side=["tail"], rank=[1], candidates=[9])
        >>> one, two = (Ranks.from_columns(tail=[tail], **columns) for tail in (1, 2))
        >>> pair_problems(one, two, require_answers=False)
        ['1 of 1 rows of the open table are not in the closed one, but what is known must be true']
    """
    problems = [*_origins(opened, closed)]
    rows = rows_of(opened, closed)
    if not len(opened):
        problems.append("the open table has no rows")
    if lost := int((rows < 0).sum()):
        problems.append(
            f"{lost:,} of {len(opened):,} rows of the open table are not in the closed one, "
            "but what is known must be true"
        )
    if require_answers:
        problems += _unanswered(opened, closed)
    return [*problems, *_larger(opened, closed, rows)]


def rows_of(opened: Ranks, closed: Ranks) -> Codes:
    """For each row of the open table, the row of the closed one that ranks the same answer; -1 where there is none."""
    wanted, there = codes_of([[*_asked(table), table.target] for table in (opened, closed)])
    place = np.full(max(wanted.max(initial=-1), there.max(initial=-1)) + 1, -1, dtype=np.int64)
    place[there] = np.arange(len(there))
    return place[wanted]


def _asked(ranks: Ranks) -> list[NDArray[np.int64]]:
    """What each row asks: the given entity, the relation, the side and the training run."""
    seed = np.zeros(len(ranks), dtype=np.int64) if ranks.seed is None else ranks.seed
    given = np.where(ranks.predicts_tail, ranks.head, ranks.tail)
    return [given, ranks.relation, ranks.predicts_tail.astype(np.int64), seed]


def _origins(opened: Ranks, closed: Ranks) -> Iterator[str]:
    for what in ("model", "graph", "graph_hash"):
        one, other = getattr(opened.info, what), getattr(closed.info, what)
        if one != other:
            yield f"the open table has the {what} {one!r}, the closed one {other!r}"
    for world, table in zip(WORLDS, (opened, closed), strict=True):
        said = table.info.settings.get("world", world)
        if said != world:
            yield f"the table of the {world} world says that it is of the {said} world"
    for what in ("split", "task"):
        if opened.info.settings.get(what) != closed.info.settings.get(what):
            yield f"the two tables are of different {what}s"
    if (opened.seed is None) != (closed.seed is None):
        yield "only one of the two tables tells its training runs apart"


def _unanswered(opened: Ranks, closed: Ranks) -> Iterator[str]:
    asked, answered = codes_of([_asked(closed), _asked(opened)])
    if without := len(np.setdiff1d(asked, answered)):
        yield f"{without:,} of {len(np.unique(asked)):,} queries have no known answer"


def _larger(opened: Ranks, closed: Ranks, rows: Codes) -> Iterator[str]:
    """Numbers that a larger filter can only make smaller, and that are larger."""
    both = np.flatnonzero(rows >= 0)
    for what in ("rank", "worst_rank", "candidates"):
        larger = getattr(closed, what)[rows[both]] > getattr(opened, what)[both]
        if larger.any():
            first = f"for example row {both[larger][0]:,} (counted from 0) of the open table"
            yield f"{int(larger.sum()):,} answers have a larger {what} in the closed world, {first}"
