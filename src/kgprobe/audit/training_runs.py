"""Are the seeds of a model, and the models themselves, different runs?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from kgprobe.audit.rank_values import late_runs
from kgprobe.audit.view import AuditedRun, Finding, Severity, View

_KIND = "seeds"

_COPY = 0.99

"""Two runs are copies when they agree in this share of the queries on which either is not at rank 1."""

_FEWEST = 20

"""Agreement on fewer queries than that, where either is not at rank 1, says nothing."""

_GLANCE = 2000

_APART = 0.2

"""Runs of one model usually differ by less than 0.02 in MRR, the most unsteady one known by 0.12."""


def check_seeds(view: View) -> Iterator[Finding]:
    """Runs with different queries, runs that are copies, and runs that are far from the others of their model.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> n = np.arange(60)
        >>> table = Ranks.from_columns(
        ...     head=n % 30, relation=n * 0, tail=n * 0, side=["tail"] * 60, seed=1 + n // 30, rank=2 + n % 30,
        ...     candidates=n * 0 + 99,
        ... )
        >>> print(next(check_seeds(prepare({"mine": table}, None))).message)
        seeds 1 and 2 are copies of one another: 30 of 30 ranks are equal; their deviation over seeds means nothing
    """
    for model, runs in view.runs.items():
        yield from _uneven(model, runs)
        if not late_runs(view, model):  # which puts runs apart, and is reported
            yield from _apart(model, runs)
    yield from _copies(view)


def _uneven(model: str, runs: tuple[AuditedRun, ...]) -> Iterator[Finding]:
    if all(np.array_equal(runs[0].has, run.has) for run in runs[1:]):
        return
    counts = ", ".join(f"{run.seed}: {run.rows:,}" for run in runs)
    numbers = "numbers of queries" if len({run.rows for run in runs}) > 1 else "queries"
    common = int(np.all([run.has for run in runs], axis=0).sum())
    yield Finding(
        (model,),
        _KIND,
        f"seeds have different {numbers}: {counts} ({common:,} in common); rank all runs on the same queries",
        Severity.error,
        sum(run.rows for run in runs) - common * len(runs),
    )


def _apart(model: str, runs: tuple[AuditedRun, ...]) -> Iterator[Finding]:
    if len(runs) < 2 or any(run.intervals for run in runs):
        return
    common = np.all([run.has for run in runs], axis=0)
    if common.sum() < _FEWEST:
        return
    values = {run.seed: float((1 / run.rank[common]).mean()) for run in runs}
    if max(values.values()) - min(values.values()) >= _APART:
        listed = ", ".join(f"{seed}: {value:.3f}" for seed, value in values.items())
        yield Finding(
            (model,),
            _KIND,
            f"the runs are far apart in MRR ({listed}); look for a run that failed before its scores are averaged",
            Severity.warning,
            None,
        )


def _copies(view: View) -> Iterator[Finding]:
    """Groups of runs that are the same, each reported once."""
    runs = [run for own in view.runs.values() for run in own]
    group = list(range(len(runs)))
    equal: dict[int, tuple[int, int]] = {}
    for i, j in combinations(range(len(runs)), 2):
        if group[j] != j:
            continue
        found = _agreement(runs[i], runs[j])
        if found is not None:
            group[j] = group[i]
            equal[j] = found
    alike: dict[tuple[str, ...], list[tuple[list[AuditedRun], int, int]]] = {}
    for root in sorted({group[j] for j in equal}):
        members = [root, *(j for j in equal if group[j] == root)]
        copies = [runs[i] for i in members]
        agreed = min(equal[j][0] for j in members[1:]), max(equal[j][1] for j in members[1:])
        alike.setdefault(tuple(dict.fromkeys(run.model for run in copies)), []).append((copies, *agreed))
    for models, groups in alike.items():
        if len(models) > 1 and len(groups) > 1:
            yield _copied_files(models, groups)
        else:
            yield from (_copy(*found) for found in groups)


def _agreement(one: AuditedRun, other: AuditedRun) -> tuple[int, int] | None:
    """How many ranks are equal, and of how many queries, if the runs are copies; None if they are not."""
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


def _copy(runs: list[AuditedRun], equal: int, rows: int) -> Finding:
    models = tuple(dict.fromkeys(run.model for run in runs))
    if len(models) == 1:
        named = f"seeds {_listed([str(run.seed) for run in runs])} are copies"
        meaning = "their deviation over seeds means nothing"
    else:
        named = _listed([run.model if run.seed is None else f"{run.model} (seed {run.seed})" for run in runs])
        named, meaning = f"{named} are copies", "one of them is under a wrong name, or counted twice"
    return Finding(
        models,
        _KIND,
        f"{named} of one another: {equal:,} of {rows:,} ranks are equal; {meaning}",
        Severity.warning,
        rows * (len(runs) - 1),
    )


def _copied_files(models: tuple[str, ...], groups: list[tuple[list[AuditedRun], int, int]]) -> Finding:
    """Several runs of one model that are found again in another."""
    equal, rows = sum(group[1] for group in groups), sum(group[2] for group in groups)
    return Finding(
        models,
        _KIND,
        f"{_listed(list(models))} are copies of one another in {len(groups)} runs: {equal:,} of {rows:,} ranks are "
        "equal; one of them is under a wrong name, or counted twice",
        Severity.warning,
        sum(rows * (len(runs) - 1) for runs, _, rows in groups),
    )


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
