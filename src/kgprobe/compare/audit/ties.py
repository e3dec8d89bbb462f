"""How ties were treated, as far as the ranks betray it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kgprobe.compare.audit.finding import Finding, Severity
from kgprobe.compare.audit.view import Floats, Run, View

_KIND = "ties"
_WORTH_A_NOTE = 0.01
_FEWEST = 10
"""Fewer tied rows than that are not worth a note."""
_MANY = 0.05
"""Half ranks come from tie groups of even size alone, so this share means that about twice as many queries tie.
A model with continuous scores has below 0.01, whatever its quality; saturated scores (a sigmoid in float32) and
counted rules have more."""
_MOST_RUNS = 10


def check_ties(view: View) -> Iterator[Finding]:
    """Ties that are recorded, ties that are not but show, and ranks that their ties cannot give.

    Example:
        >>> from kgprobe.compare.audit.view import prepare
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


def _joined(runs: tuple[Run, ...], name: str) -> Floats:
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
        _KIND,
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
        _KIND,
        f"rank and ties do not fit: rank - ties/2 is not whole: {int(odd.sum()):,} of {len(rank):,} rows; {cause}",
        Severity.error,
        int(odd.sum()),
    )


def _recorded(model: str, rank: Floats, ties: Floats) -> Iterator[Finding]:
    """Ties that are recorded do no harm: any rule can be applied to them. How much it matters is worth knowing."""
    tied = ties > 0
    if tied.sum() < max(_FEWEST, _WORTH_A_NOTE * len(rank)):
        return
    best, worst = (1 / (rank - ties / 2)).mean(), (1 / (rank + ties / 2)).mean()
    yield Finding(
        (model,),
        _KIND,
        f"{tied.mean():.1%} of the targets tie with other candidates ({int(tied.sum()):,} of {len(rank):,} rows): MRR "
        f"is {best:.4f} with ties broken for the target and {worst:.4f} against it, a gap of {best - worst:.4f}; say "
        "which rule is used (--tie)",
        Severity.note,
        int(tied.sum()),
    )


def _betrayed(model: str, rank: Floats) -> Iterator[Finding]:
    half = rank % 1 == 0.5
    if half.sum() < max(_FEWEST, _WORTH_A_NOTE * len(rank)):
        return
    many = half.mean() >= _MANY
    cause = (
        "saturated or coarsely rounded scores; rank on scores before the sigmoid, in full precision, and record ties"
        if many
        else "record them in the column ties"
    )
    yield Finding(
        (model,),
        _KIND,
        f"{half.mean():.1%} of the ranks are halves ({int(half.sum()):,} of {len(rank):,} rows): the target ties with "
        f"other candidates, which is not recorded; {cause}",
        Severity.warning if many else Severity.note,
        int(half.sum()),
    )
