"""Whose candidates differ from those of the other files, where no graph tells what they should be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kgprobe.compare.audit.conventions import Convention
from kgprobe.compare.audit.finding import Finding, Severity
from kgprobe.compare.audit.view import Flags, Floats, Run, View

_KIND = "candidates"


def compare_candidates(view: View, models: list[str]) -> Iterator[Finding]:
    """Hold the counts of each file against those that most files have.

    Example:
        >>> from kgprobe.compare.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(*candidates):
        ...     return Ranks.from_columns(
        ...         head=[0, 1], relation=[0, 0], tail=[1, 0], side=["tail"] * 2, rank=[1, 2], candidates=candidates
        ...     )
        >>> files = {"one": ranks(7, 8), "two": ranks(7, 8), "raw": ranks(9, 9)}
        >>> [finding.models for finding in compare_candidates(prepare(files, None), list(files))]
        [('raw',)]
    """
    if len(models) < 2:
        return
    table = np.stack([_counts(view.runs[model]) for model in models])
    if len(models) == 2:
        yield from _pair(models, table)
        return
    found = [finding for i in range(len(models)) if (finding := _unlike_the_rest(models, table, i))]
    yield from found or _all_different(models, table)


def one_off_the_others(view: View, model: str) -> bool:
    """Whether a file has one candidate more, or one fewer, than the middle of the other files has, everywhere."""
    others = [_counts(runs) for name, runs in view.runs.items() if name != model]
    if not others:
        return False
    difference = _counts(view.runs[model]) - _lower_median(np.stack(others))
    return set(difference[~np.isnan(difference)].tolist()) in ({-1.0}, {1.0})


def _unlike_the_rest(models: list[str], table: Floats, which: int) -> Finding | None:
    own, others = table[which], np.delete(table, which, axis=0)
    middle = _lower_median(others)
    known = ~np.isnan(own) & ~np.isnan(middle)
    agreed = known & _agreement(others, middle)
    difference = (own - middle)[agreed]
    # Others that agree here and there by chance are no majority.
    blamed = (difference != 0).any() and 2 * agreed.sum() > known.sum()
    return _unlike(models[which], difference) if blamed else None


def _all_different(models: list[str], table: Floats) -> Iterator[Finding]:
    """Counts that differ where no two files agree, so that nobody can say who is right."""
    known = ~np.isnan(table)
    low, high = (edge(np.where(known, table, worst), axis=0) for edge, worst in ((np.min, np.inf), (np.max, -np.inf)))
    if count := int((low < high).sum()):
        yield Finding(
            tuple(models),
            _KIND,
            f"the files have different numbers of candidates in {count:,} of {table.shape[1]:,} queries, and no two "
            "are alike; give --graph to name the filters, and rank all files with the same one",
            Severity.error,
            count,
        )


def _counts(runs: tuple[Run, ...]) -> Floats:
    counts = np.full(len(runs[0].has), np.nan)
    for run in runs:
        counts = np.where(np.isnan(counts), run.candidates, counts)
    return counts


def _lower_median(table: Floats) -> Floats:
    """The middle count of each query, the smaller of two: a count that some file has."""
    ordered = np.sort(table, axis=0)  # NaN comes last
    known = (~np.isnan(table)).sum(axis=0)
    middle = np.maximum((known - 1) // 2, 0)
    return np.asarray(np.take_along_axis(ordered, middle[None], axis=0)[0])


def _agreement(table: Floats, middle: Floats) -> Flags:
    """Where more than half of the files have the middle count, so that it is clear who differs."""
    return np.asarray((table == middle).sum(axis=0) * 2 > (~np.isnan(table)).sum(axis=0))


def _unlike(model: str, difference: Floats) -> Finding:
    off = difference != 0
    constant = len(set(difference.tolist())) == 1
    if constant:
        how = f"{Convention((), int(difference[0])).oddities.removeprefix(', with ')}, against the other files"
    else:
        more = difference[off].mean()
        word, filtered = ("more", "less") if more > 0 else ("fewer", "more")
        how = f"{abs(more):.1f} {word} candidates on average than the other files: filtered by {filtered}"
    return Finding(
        (model,),
        _KIND,
        f"{how} ({int(off.sum()):,} of {len(difference):,} queries differ); give --graph to name the filter, "
        "and rank all files with the same one",
        Severity.error,
        int(off.sum()),
    )


def _pair(models: list[str], table: Floats) -> Iterator[Finding]:
    difference = table[0] - table[1]
    difference = difference[~np.isnan(difference)]
    off = difference != 0
    if not off.any():
        return
    first, second = models
    more, less = (first, second) if difference.sum() > 0 else (second, first)
    everywhere = (
        f"{abs(difference[0]):,.0f} more everywhere"
        if len(set(difference.tolist())) == 1
        else (f"{abs(difference[off].mean()):.1f} more on average in {int(off.sum()):,} of {len(difference):,} queries")
    )
    yield Finding(
        (first, second),
        _KIND,
        f"{more} has more candidates than {less} ({everywhere}): it was filtered by less; give --graph to name the "
        "filters, and rank both with the same one",
        Severity.error,
        int(off.sum()),
    )
