"""Rank values and ties that no sound evaluation gives: off by one, all equal, cut off, not mean ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.audit.view import AuditedRun, Finding, Severity, View

_KIND = "rank values"

_FEW_CANDIDATES = 10

"""Among fewer candidates, any rank is frequent."""

_CERTAIN = 20

"""Places get rarer the worse they are. So if place 2 is hit c times and place 1 never, the chance of that is at most
2^-c: one in a million."""

_FEWEST = 50

_FEWEST_TARGETS = 5

"""A model that knows nothing but how frequent entities are may put one of them second, again and again."""

_TIED = 0.01

_ALL = 0.99

_MASS = 0.05

_ABOVE_CHANCE = 5

_PERFECT = 0.995


@dataclass(frozen=True)
class _Rows:
    """All rows of a model that have enough candidates; ``first`` is the best rank that their ties allow."""

    model: str
    rank: Floats
    first: Floats
    candidates: Floats
    target: Ints
    predicts_tail: Flags


def check_rank_values(view: View) -> Iterator[Finding]:
    """Whole models, or sides of them, with ranks that a convention or a fault produces, and not a model.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> n = 60
        >>> late = Ranks.from_columns(
        ...     head=range(n), relation=[0] * n, tail=range(n), side=["tail"] * n, rank=[2, 3] * 30, candidates=[90] * n
        ... )
        >>> print(next(check_rank_values(prepare({"mine": late}, None))).message)
        no rank is better than 2, which 30 of 60 rows have: ranks are off by one (the target counted against itself?)...
    """
    for model in view.models:
        rows = _rows(view, model, view.runs[model])
        if len(rows.rank) >= _FEWEST:
            alike = list(_alike(rows))
            yield from alike or [*_of_runs(view, model), *_masses(rows)]


def _rows(view: View, model: str, runs: Sequence[AuditedRun]) -> _Rows:
    kept = [~np.isnan(run.rank) & (run.candidates >= _FEW_CANDIDATES) for run in runs]

    def joined(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([column[rows] for column, rows in zip(columns, kept, strict=True)])

    rank = joined(run.rank for run in runs)
    return _Rows(
        model,
        rank,
        rank - np.nan_to_num(joined(run.numbers("ties") for run in runs)) / 2,
        joined(run.candidates for run in runs),
        joined(view.queries.target for _ in runs),
        joined(view.queries.predicts_tail for _ in runs),
    )


def _alike(rows: _Rows) -> Iterator[Finding]:
    middle = rows.rank == (rows.candidates + 1) / 2
    if middle.mean() >= _ALL:
        yield Finding(
            (rows.model,),
            _KIND,
            f"{int(middle.sum()):,} of {len(middle):,} ranks are exactly the middle of the candidates: all candidates "
            "have the same score; look for a constant or broken score",
            Severity.error,
            int(middle.sum()),
        )
        return
    first = rows.rank == 1
    if first.mean() >= _PERFECT and len(first) >= 4 * _FEWEST:
        yield Finding(
            (rows.model,),
            _KIND,
            f"{int(first.sum()):,} of {len(first):,} ranks are 1: ties broken in favour of the target, or the answer "
            "given away; rank with the mean over ties",
            Severity.warning,
            int(first.sum()),
        )


def late_runs(view: View, model: str) -> list[AuditedRun]:
    """The runs of a model that are off by one, on a side or on both."""
    return [run for run in view.runs[model] if _late_sides(_rows(view, model, [run]))]


def _of_runs(view: View, model: str) -> Iterator[Finding]:
    """All runs off by one, or some of them."""
    runs, late = view.runs[model], late_runs(view, model)
    # Of many runs with few queries each, all together may tell more.
    if len(late) in (0, len(runs)):
        yield from _off_by_one(_rows(view, model, runs), "")
    else:
        seeds = [str(run.seed) for run in late]
        yield from _off_by_one(_rows(view, model, late), f"in seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}, ")


def _late_sides(rows: _Rows) -> dict[str, Flags]:
    """The sides that are off by one, and with one that certainly is the other, if it has no first place either."""
    sides = {"head": ~rows.predicts_tail, "tail": rows.predicts_tail}
    certain = {name for name, side in sides.items() if _late(rows, side)}
    return {
        name: side
        for name, side in sides.items()
        if name in certain or (certain and side.any() and rows.first[side].min() >= 2)
    }


def _off_by_one(rows: _Rows, which: str) -> Iterator[Finding]:
    """No rank below 2, though 2 is frequent: on both sides, or on one."""
    late = _late_sides(rows)
    if not late:
        return
    side = np.any(list(late.values()), axis=0)
    at = int((rows.first[side] == 2).sum())
    where = which + ("" if side.all() else f"on the {next(iter(late))} side, ")
    yield Finding(
        (rows.model,),
        _KIND,
        f"{where}no rank is better than 2, which {at:,} of {int(side.sum()):,} rows have: ranks are off by one (the "
        "target counted against itself?); count only other candidates that score higher, and add 1",
        Severity.error,
        int(side.sum()),
    )


def _late(rows: _Rows, side: Flags) -> bool:
    first = rows.first[side]
    # Halves are ties that are not recorded, and of these the first place is not known.
    if not len(first) or first.min() != 2 or (first % 1 != 0).mean() >= _TIED:
        return False
    second = first == 2
    several = len(np.unique(rows.target[side][second])) >= _FEWEST_TARGETS
    return bool(several and second.sum() >= max(_CERTAIN, (first == 3).sum()))


def _masses(rows: _Rows) -> Iterator[Finding]:
    """Many ranks at exactly one place that no model aims at."""
    chance = (1 / rows.candidates).mean()
    limit = max(_MASS, _ABOVE_CHANCE * chance)
    middle, last = rows.rank == (rows.candidates + 1) / 2, rows.rank == rows.candidates
    known = {
        "the middle of the candidates: their scores are all the same": middle,
        "the last place: ties broken against the target, or targets without a score": last & ~middle,
    }
    for what, flags in known.items():
        if flags.mean() >= limit:
            # Where the file says itself that all candidates tie, nothing is hidden.
            told = bool((rows.first[flags] == 1).all()) and not bool((rows.rank[flags] == 1).any())
            yield _mass(rows.model, f"exactly {what}", flags, Severity.note if told else Severity.warning)
    rest = ~middle & ~last
    yield from _cut(rows.model, rows.rank, rest, limit)


def _cut(model: str, rank: Floats, rest: Flags, limit: float) -> Iterator[Finding]:
    """A single late place that is far more frequent than its neighbours: the end of a list."""
    values, counts = np.unique(rank[rest & (rank > _FEW_CANDIDATES)], return_counts=True)
    if not len(values):
        return
    place, count = values[counts.argmax()], int(counts.max())
    near = int(((rank != place) & (np.abs(rank - place) <= 2)).sum())
    if count >= limit * len(rank) and count > 10 * max(near, 1):
        yield _mass(
            model, f"exactly {place:g}: lists cut off there, or a rank given to what was not found", rank == place
        )


def _mass(model: str, what: str, flags: Flags, severity: Severity = Severity.warning) -> Finding:
    return Finding(
        (model,),
        _KIND,
        f"{int(flags.sum()):,} of {len(flags):,} ranks are {what}; rank all candidates, with the mean over ties",
        severity,
        int(flags.sum()),
    )


_TIES = "ties"

_WORTH_A_NOTE = 0.01

_FEWEST_TIES = 10

"""Fewer tied rows than that are not worth a note."""

_MANY = 0.05

"""Half ranks come from tie groups of even size alone, so this share means that about twice as many queries tie.
A model with continuous scores has below 0.01, whatever its quality; saturated scores (a sigmoid in float32) and
counted rules have more."""

_MOST_RUNS = 10


def check_ties(view: View) -> Iterator[Finding]:
    """Ties that are recorded, ties that are not but show, and ranks that their ties cannot give.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 1], relation=[0, 0], tail=[1, 0], side=["tail"] * 2, rank=[1.25, 2], candidates=[9, 9]
        ... )
        >>> [finding.message for finding in check_ties(prepare({"mine": ranks}, None))]
        ['rank is neither whole nor half, so it is no mean rank of a tie group: 1 of 2 rows; ...']
    """
    for model, runs in view.runs.items():
        rank, ties = _joined(runs, "rank"), _joined(runs, "ties")
        known = ~np.isnan(rank)
        rank, ties = rank[known], ties[known]
        if not len(rank):
            continue
        yield from _no_mean(model, rank)
        recorded = ~np.isnan(ties)
        yield from _unfit(model, rank[recorded], ties[recorded])
        yield from _recorded(model, rank[recorded], ties[recorded])
        yield from _betrayed(model, rank[~recorded])


def _joined(runs: tuple[AuditedRun, ...], name: str) -> Floats:
    return np.concatenate([run.numbers(name)[run.has] for run in runs])


def _no_mean(model: str, rank: Floats) -> Iterator[Finding]:
    odd = (2 * rank) % 1 != 0
    if not odd.any():
        return
    runs = next((k for k in range(3, _MOST_RUNS + 1) if np.allclose((2 * k * rank) % 1, 0, atol=1e-6)), None)
    cause = (
        f"these look like means over {runs} runs: keep the runs apart by the column seed"
        if runs
        else ("rank must be the mean rank of one run")
    )
    yield Finding(
        (model,),
        _TIES,
        f"rank is neither whole nor half, so it is no mean rank of a tie group: {int(odd.sum()):,} of {len(rank):,} "
        f"rows; {cause}",
        Severity.error,
        int(odd.sum()),
    )


def _unfit(model: str, rank: Floats, ties: Floats) -> Iterator[Finding]:
    odd = ((rank - ties / 2) % 1 != 0) & ((2 * rank) % 1 == 0)
    if not odd.any():
        return
    whole = (rank % 1 == 0).all() and (ties % 2 == 1).any()
    cause = (
        "all ranks are whole: they are the best or the worst of the tie group, not its mean"
        if whole
        else ("the rank must be the mean over the tie group")
    )
    yield Finding(
        (model,),
        _TIES,
        f"rank and ties do not fit: rank - ties/2 is not whole: {int(odd.sum()):,} of {len(rank):,} rows; {cause}",
        Severity.error,
        int(odd.sum()),
    )


def _recorded(model: str, rank: Floats, ties: Floats) -> Iterator[Finding]:
    """Ties that are recorded do no harm: any rule can be applied to them. How much it matters is worth knowing."""
    tied = ties > 0
    if tied.sum() < max(_FEWEST_TIES, _WORTH_A_NOTE * len(rank)):
        return
    best, worst = (1 / (rank - ties / 2)).mean(), (1 / (rank + ties / 2)).mean()
    yield Finding(
        (model,),
        _TIES,
        f"{tied.mean():.1%} of the targets tie with other candidates ({int(tied.sum()):,} of {len(rank):,} rows): MRR "
        f"is {best:.4f} with ties broken for the target and {worst:.4f} against it, a gap of {best - worst:.4f}; say "
        "which rule is used (--tie)",
        Severity.note,
        int(tied.sum()),
    )


def _betrayed(model: str, rank: Floats) -> Iterator[Finding]:
    half = rank % 1 == 0.5
    if half.sum() < max(_FEWEST_TIES, _WORTH_A_NOTE * len(rank)):
        return
    many = half.mean() >= _MANY
    cause = (
        "saturated or coarsely rounded scores; rank on scores before the sigmoid, in full precision, and record ties"
        if many
        else "record them in the column ties"
    )
    yield Finding(
        (model,),
        _TIES,
        f"{half.mean():.1%} of the ranks are halves ({int(half.sum()):,} of {len(rank):,} rows): the target ties with "
        f"other candidates, which is not recorded; {cause}",
        Severity.warning if many else Severity.note,
        int(half.sum()),
    )
