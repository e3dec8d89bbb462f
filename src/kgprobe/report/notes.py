"""The notes below a table: what its marks mean and how its numbers came to be, so that it stands by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kgprobe.report.standing import CORRECTIONS

if TYPE_CHECKING:
    from kgprobe.compare.outcome import Comparison

WITHIN_NOISE, UNTRUSTED, LOWER = "†", "‡", "↓"
_MOST_REMARKS = 3


def notes(
    comparison: Comparison, correction: str, marks: Collection[str], *, intervals: bool, letters: bool
) -> Iterator[str]:
    """Everything that a reader who has only the table needs to know.

    Args:
        comparison: What the table shows.
        correction: The correction for many tests by which its marks are set.
        marks: The marks that it has.
        intervals: Whether it shows intervals.
        letters: Whether it shows the letters of the models that each is better than.
    """
    settings = comparison.settings
    yield from _about_queries(comparison)
    if LOWER in marks:
        yield f"{LOWER} lower is better."
    if comparison.differences:
        within = f"{WITHIN_NOISE} not significantly worse than the best" if WITHIN_NOISE in marks else ""
        better = "raised letters are those of the models that this one is significantly better than" if letters else ""
        explained = "; ".join(filter(None, (within, better))) or "All others are significantly worse than the best"
        tests = _TESTS[settings.seeds].format(**vars(settings))
        yield (
            f"{explained[0].upper()}{explained[1:]} (p at most {1 - settings.level:.3g} by {tests},"
            f" corrected after {CORRECTIONS[correction]} for {len(comparison.differences):,} tests)."
        )
    if intervals:
        how = _INTERVALS[settings.seeds].format(**vars(settings))
        yield f"In brackets: {100 * settings.level:.4g} % confidence intervals, {how}."
    if UNTRUSTED in marks:
        yield _about_trust(comparison)


def _about_queries(comparison: Comparison) -> Iterator[str]:
    largest = max(comparison.estimates, key=lambda estimate: estimate.queries)
    within = " in the largest group" if largest.group else ""
    by = comparison.settings.cluster
    clusters = f" in {largest.clusters:,} clusters by {by}" if by != "query" else ""
    yield f"{largest.queries:,} queries{clusters}{within}; ties: {comparison.settings.tie}."
    seeds = sorted({estimate.seeds for estimate in comparison.estimates})
    if seeds[-1] > 1:
        number = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        yield f"Mean over {number} seeds ± standard deviation between them; {_SEEDS[comparison.settings.seeds]}."


_SEEDS = {
    "fixed": "uncertainty is that of the queries, for these training runs",
    "random": "uncertainty is that of queries and training runs",
}


_TESTS = {
    "fixed": "paired permutation tests, {permutations:,} permutations of clusters",
    "random": "paired t tests over clusters and seeds",
}
_INTERVALS = {
    "fixed": "by bootstrap, {replicates:,} draws of clusters",
    "random": "by the t distribution over clusters and seeds",
}


def _about_trust(comparison: Comparison) -> str:
    doubted = [estimate.interval.remark for estimate in comparison.estimates if not estimate.interval.trusted]
    remarks = list(dict.fromkeys(filter(None, doubted)))
    more = [f"and {len(remarks) - _MOST_REMARKS:,} more"] if len(remarks) > _MOST_REMARKS else []
    reasons = "; ".join([*remarks[:_MOST_REMARKS], *more])
    return f"{UNTRUSTED} the interval cannot be trusted" + (f": {reasons}." if reasons else ".")
