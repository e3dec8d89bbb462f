"""Rank values and ties that no correct evaluation produces: off by one, all equal, cut off, not mean ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.audit.view import AuditedRun, Finding, Severity, View

_KIND = "rank values"
_FEW_CANDIDATES = 10  # among fewer candidates, any rank is frequent
# Worse ranks are rarer. If rank 2 occurs c times and rank 1 never, the probability is at most 2^-c: one in a million.
_CERTAIN = 20
_FEWEST = 50
_FEWEST_TARGETS = 5  # a model that only knows entity frequencies may rank the same entity second again and again
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

    def finding(self, rows: Flags, what: str, severity: Severity) -> Finding:
        count = int(rows.sum())
        return Finding((self.model,), _KIND, f"{count:,} of {len(rows):,} ranks are {what}", severity, count)


def check_rank_values(view: View) -> Iterator[Finding]:
    """Models, runs or sides whose ranks point to a mistake in the evaluation.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> n = 60
        >>> late = Ranks.from_columns(
        ...     head=range(n), relation=[0] * n, tail=range(n), side=["tail"] * n, rank=[2, 3] * 30, candidates=[90] * n
        ... )
        >>> print(next(check_rank_values(prepare({"mine": late}, None))).message)
        No rank is better than 2, and 30 of 60 rows have rank 2: ranks are off by one (is the target compared with ...
    """
    for model in view.models:
        rows = _rows(view, model, view.runs[model])
        if len(rows.rank) >= _FEWEST:
            yield from list(_alike(rows)) or [*_off_by_one(view, model), *_masses(rows)]


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
    """Nearly all ranks in the middle, or nearly all first."""
    middle, first = rows.rank == (rows.candidates + 1) / 2, rows.rank == 1
    if middle.mean() >= _ALL:
        what = "exactly the middle rank: all candidates have the same score. Look for a constant or broken score."
        yield rows.finding(middle, what, Severity.error)
    elif first.mean() >= _PERFECT and len(first) >= 4 * _FEWEST:
        what = (
            "1: ties are broken in favour of the target, or the model is given the answer. "
            "Use the mean rank of ties, and look for a leak."
        )
        yield rows.finding(first, what, Severity.warning)


def late_runs(view: View, model: str) -> list[AuditedRun]:
    """The runs of a model whose ranks are off by one, on one side or on both."""
    return [run for run in view.runs[model] if _late_sides(_rows(view, model, [run]))]


def _off_by_one(view: View, model: str) -> Iterator[Finding]:
    """No rank below 2, though rank 2 is frequent: in all runs or some, on both sides or one."""
    runs, late = view.runs[model], late_runs(view, model)
    some = 0 < len(late) < len(runs)
    # Many runs with few queries each may give enough evidence only together.
    rows = _rows(view, model, late if some else runs)
    sides = _late_sides(rows)
    if not sides:
        return
    side = np.any(list(sides.values()), axis=0)
    where = [f"seed{'s' * (len(late) > 1)} {', '.join(str(run.seed) for run in late)}"] if some else []
    where += [] if side.all() else [f"{next(iter(sides))} side"]
    prefix = f"{', '.join(where).capitalize()}: no" if where else "No"
    message = (
        f"{prefix} rank is better than 2, and {int((rows.first[side] == 2).sum()):,} of {int(side.sum()):,} rows have "
        "rank 2: ranks are off by one (is the target compared with itself?). The rank is 1 plus the number of other "
        "candidates with a higher score. Only a model that always ranks the given entity first, such as TransE, has "
        "such ranks too."
    )
    yield Finding((model,), _KIND, message, Severity.error, int(side.sum()))


def _late_sides(rows: _Rows) -> dict[str, Flags]:
    """The sides that are certainly off by one; if one is, also the other if no rank there is below 2."""
    sides = {"head": ~rows.predicts_tail, "tail": rows.predicts_tail}
    certain = {name for name, side in sides.items() if _late(rows, side)}
    return {
        name: side
        for name, side in sides.items()
        if name in certain or (certain and side.any() and rows.first[side].min() >= 2)
    }


def _late(rows: _Rows, side: Flags) -> bool:
    first = rows.first[side]
    # Half-integers come from ties that are not recorded, whose best rank is unknown.
    if not len(first) or first.min() != 2 or (first % 1 != 0).mean() >= _TIED:
        return False
    second = first == 2
    several = len(np.unique(rows.target[side][second])) >= _FEWEST_TARGETS
    return bool(several and second.sum() >= max(_CERTAIN, (first == 3).sum()))


def _masses(rows: _Rows) -> Iterator[Finding]:
    """Many ranks at the middle, at the end, or at one rank that is far more frequent than its neighbours."""
    remedy = ". Rank all candidates, and use the mean rank of ties."
    rank, chance = rows.rank, (1 / rows.candidates).mean()
    limit = max(_MASS, _ABOVE_CHANCE * chance)
    middle, last = rank == (rows.candidates + 1) / 2, rank == rows.candidates
    masses = {
        "exactly the middle rank: all candidates have the same score": middle,
        "exactly the last rank: ties are broken against the target, or targets have no score": last & ~middle,
    }
    for what, flags in masses.items():
        if flags.mean() >= limit:
            # A file that records that all candidates tie hides nothing.
            recorded = bool((rows.first[flags] == 1).all()) and not bool((rank[flags] == 1).any())
            yield rows.finding(flags, what + remedy, Severity.note if recorded else Severity.warning)
    values, counts = np.unique(rank[~middle & ~last & (rank > _FEW_CANDIDATES)], return_counts=True)
    if not len(values):
        return
    place, count = values[counts.argmax()], int(counts.max())
    near = int(((rank != place) & (np.abs(rank - place) <= 2)).sum())
    if count >= limit * len(rank) and count > 10 * max(near, 1):
        what = f"exactly {place:g}: lists are cut off there, or it is the rank given to targets that were not found"
        yield rows.finding(rank == place, what + remedy, Severity.warning)


_TIES = "ties"
_WORTH_A_NOTE = 0.01
_FEWEST_TIES = 10  # fewer tied rows are not reported
# Half-integer ranks come only from tie groups of even size, so about twice as many queries tie. Continuous scores give
# a share below 0.01, whatever the quality of the model; saturated scores (a sigmoid in float32) and rule counts more.
_MANY = 0.05
_MOST_RUNS = 10


def check_ties(view: View) -> Iterator[Finding]:
    """Recorded ties, unrecorded ties that the ranks reveal, and ranks that are inconsistent with their ties.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 1], relation=[0, 0], tail=[1, 0], side=["tail"] * 2, rank=[1.25, 2], candidates=[9, 9]
        ... )
        >>> [finding.message for finding in check_ties(prepare({"mine": ranks}, None))]
        ['1 of 2 ranks are neither integers nor half-integers, so they are not mean ranks of tie groups. ...']
    """
    for model, runs in view.runs.items():
        rank, ties = (np.concatenate([run.numbers(name)[run.has] for run in runs]) for name in ("rank", "ties"))
        known = ~np.isnan(rank)
        rank, ties = rank[known], ties[known]
        recorded = ~np.isnan(ties)
        if len(rank):
            yield from _no_mean(model, rank)
            yield from _inconsistent(model, rank[recorded], ties[recorded])
            yield from _recorded(model, rank[recorded], ties[recorded])
            yield from _unrecorded(model, rank[~recorded])


def _no_mean(model: str, rank: Floats) -> Iterator[Finding]:
    odd = (2 * rank) % 1 != 0
    if not odd.any():
        return
    runs = next((k for k in range(3, _MOST_RUNS + 1) if np.allclose((2 * k * rank) % 1, 0, atol=1e-6)), None)
    message = (
        f"{int(odd.sum()):,} of {len(rank):,} ranks are neither integers nor half-integers, so they are not mean ranks "
        "of tie groups. "
    )
    message += (
        f"They look like means over {runs} runs: keep the runs apart in the column seed."
        if runs
        else "Give the mean rank of one run."
    )
    yield Finding((model,), _TIES, message, Severity.error, int(odd.sum()))


def _inconsistent(model: str, rank: Floats, ties: Floats) -> Iterator[Finding]:
    odd = ((rank - ties / 2) % 1 != 0) & ((2 * rank) % 1 == 0)
    if not odd.any():
        return
    message = (
        f"Rank and ties are inconsistent in {int(odd.sum()):,} of {len(rank):,} rows: rank - ties/2 is no integer. "
    )
    message += (
        "All ranks are integers: they are the best or worst ranks of the tie groups. Give the mean ranks."
        if (rank % 1 == 0).all() and (ties % 2 == 1).any()
        else "The rank must be the mean rank of the tie group."
    )
    yield Finding((model,), _TIES, message, Severity.error, int(odd.sum()))


def _recorded(model: str, rank: Floats, ties: Floats) -> Iterator[Finding]:
    """Recorded ties are not an error, since any tie rule can be applied to them; the note says how much it matters."""
    tied = ties > 0
    if tied.sum() < max(_FEWEST_TIES, _WORTH_A_NOTE * len(rank)):
        return
    best, worst = (1 / (rank - ties / 2)).mean(), (1 / (rank + ties / 2)).mean()
    message = (
        f"{tied.mean():.1%} of the targets tie with other candidates ({int(tied.sum()):,} of {len(rank):,} rows). MRR "
        f"is {best:.4f} with ties broken for the target and {worst:.4f} against it, a gap of {best - worst:.4f}. "
        "Report which tie rule is used."
    )
    yield Finding((model,), _TIES, message, Severity.note, int(tied.sum()))


def _unrecorded(model: str, rank: Floats) -> Iterator[Finding]:
    half = rank % 1 == 0.5
    if half.sum() < max(_FEWEST_TIES, _WORTH_A_NOTE * len(rank)):
        return
    many = half.mean() >= _MANY
    message = (
        f"{half.mean():.1%} of the ranks are half-integers ({int(half.sum()):,} of {len(rank):,} rows): targets tie "
        "with other candidates, but the ties are not recorded. "
    )
    message += (
        "The scores may be saturated or rounded: rank on full-precision scores before the sigmoid, and record ties."
        if many
        else "Record them in the column ties."
    )
    yield Finding((model,), _TIES, message, Severity.warning if many else Severity.note, int(half.sum()))
