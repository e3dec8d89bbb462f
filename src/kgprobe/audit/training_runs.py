"""Training runs: do the seeds of a model rank the same queries, and are runs copies of each other or outliers?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from kgprobe.audit.rank_values import late_runs
from kgprobe.audit.view import AuditedRun, Finding, Severity, View

_KIND = "seeds"
_COPY = 0.99  # two runs are copies if they agree in this share of the queries on which either is not at rank 1
_FEWEST = 20  # queries on which either is not at rank 1; agreement on fewer is not evidence
_GLANCE = 2000  # queries compared first: most pairs of runs differ already there
_APART = 0.2  # in MRR; runs of one model usually differ by less than 0.02, the least stable published one by 0.12

_Group = tuple[list[AuditedRun], int, int]  # runs that are copies, number of equal ranks, number of shared queries


def check_seeds(view: View) -> Iterator[Finding]:
    """Runs with different queries, runs that are copies, and runs with very different MRR.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> n = np.arange(60)
        >>> table = Ranks.from_columns(
        ...     head=n % 30, relation=n * 0, tail=n * 0, side=["tail"] * 60, seed=1 + n // 30, rank=2 + n % 30,
        ...     candidates=n * 0 + 99,
        ... )
        >>> print(next(check_seeds(prepare({"mine": table}, None))).message)
        Seeds 1 and 2 are copies of each other: 30 of 30 ranks are equal. The standard deviation over seeds is not ...
    """
    for model, runs in view.runs.items():
        yield from _uneven(model, runs)
        if not late_runs(view, model):  # off-by-one runs differ in MRR too, and are already reported
            yield from _apart(model, runs)
    yield from _copies(view)


def _uneven(model: str, runs: tuple[AuditedRun, ...]) -> Iterator[Finding]:
    if all(np.array_equal(runs[0].has, run.has) for run in runs[1:]):
        return
    counts = ", ".join(f"{run.seed}: {run.rows:,}" for run in runs)
    numbers = "numbers of queries" if len({run.rows for run in runs}) > 1 else "queries"
    common = int(np.all([run.has for run in runs], axis=0).sum())
    message = f"Seeds have different {numbers}: {counts} ({common:,} in common). Rank all runs on the same queries."
    yield Finding((model,), _KIND, message, Severity.error, sum(run.rows for run in runs) - common * len(runs))


def _apart(model: str, runs: tuple[AuditedRun, ...]) -> Iterator[Finding]:
    if len(runs) < 2 or any(run.intervals for run in runs):
        return
    common = np.all([run.has for run in runs], axis=0)
    if common.sum() < _FEWEST:
        return
    values = {run.seed: float((1 / run.rank[common]).mean()) for run in runs}
    if max(values.values()) - min(values.values()) >= _APART:
        listed = ", ".join(f"{seed}: {value:.3f}" for seed, value in values.items())
        message = f"The MRR of the seeds differ widely ({listed}). Look for a failed run before averaging their scores."
        yield Finding((model,), _KIND, message, Severity.warning)


def _copies(view: View) -> Iterator[Finding]:
    """One finding for each group of runs that are copies of each other."""
    runs = [run for own in view.runs.values() for run in own]
    group = list(range(len(runs)))
    equal: dict[int, tuple[int, int]] = {}
    for i, j in combinations(range(len(runs)), 2):
        if group[j] == j and (agreement := _agreement(runs[i], runs[j])) is not None:
            group[j] = group[i]
            equal[j] = agreement
    alike: dict[tuple[str, ...], list[_Group]] = {}
    for root in sorted({group[j] for j in equal}):
        members = [root, *(j for j in equal if group[j] == root)]
        copies = [runs[i] for i in members]
        agreed = min(equal[j][0] for j in members[1:]), max(equal[j][1] for j in members[1:])
        alike.setdefault(tuple(dict.fromkeys(run.model for run in copies)), []).append((copies, *agreed))
    for models, groups in alike.items():
        # Several runs of one model that are copies of runs of another model are one finding about both files.
        if len(models) > 1 and len(groups) > 1:
            yield _copy(models, f"{_listed(models)} are copies of each other in {len(groups)} runs", groups)
            continue
        for copies, equal_ranks, rows in groups:
            if len(models) == 1:
                named = f"Seeds {_listed([str(run.seed) for run in copies])}"
            else:
                named = _listed([run.model if run.seed is None else f"{run.model} (seed {run.seed})" for run in copies])
            yield _copy(models, f"{named} are copies of each other", [(copies, equal_ranks, rows)])


def _agreement(one: AuditedRun, other: AuditedRun) -> tuple[int, int] | None:
    """Number of equal ranks and of shared queries if the runs are copies, else None."""
    glance = np.flatnonzero(one.has & other.has)
    glance = glance[:: max(1, len(glance) // _GLANCE)]
    if not len(glance) or (one.rank[glance] == other.rank[glance]).mean() < 2 * _COPY - 1:
        return None
    both = ~np.isnan(one.rank) & ~np.isnan(other.rank)
    same = one.rank[both] == other.rank[both]
    telling = (one.rank[both] > 1) | (other.rank[both] > 1)
    if telling.sum() < _FEWEST or same[telling].mean() < _COPY:
        return None
    return int(same.sum()), int(both.sum())


def _copy(models: tuple[str, ...], what: str, groups: Sequence[_Group]) -> Finding:
    equal, rows = sum(group[1] for group in groups), sum(group[2] for group in groups)
    advice = (
        "The standard deviation over seeds is not meaningful; give each run once."
        if len(models) == 1
        else "One of them has the wrong name or is given twice."
    )
    message = f"{what}: {equal:,} of {rows:,} ranks are equal. {advice}"
    concerned = sum(rows * (len(copies) - 1) for copies, _, rows in groups)
    return Finding(models, _KIND, message, Severity.warning, concerned)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
