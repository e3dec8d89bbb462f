"""The notes below a table: what its marks mean and how its numbers came to be, so that it stands by itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from kgprobe.report.render.text import counted
from kgprobe.report.standing import CORRECTIONS

if TYPE_CHECKING:
    from kgprobe.compare.outcome import Comparison

WITHIN_NOISE, UNTRUSTED, LOWER = "†", "‡", "↓"
_MOST_REMARKS = 3
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*\b")


def notes(
    comparison: Comparison,
    correction: str,
    marks: Collection[str],
    *,
    behind: bool,
    intervals: bool,
    letters: bool,
) -> Iterator[str]:
    """Everything that a reader who has only the table needs to know.

    Args:
        comparison: What the table shows.
        correction: The correction for many tests by which its marks are set.
        marks: The marks that it has.
        behind: Whether any model is behind the best.
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
        explained = "; ".join(filter(None, (within, better))) or _UNMARKED[behind]
        tests = _TESTS[settings.seeds].format(**vars(settings))
        yield (
            f"{explained[0].upper()}{explained[1:]} (p at most {1 - settings.level:.3g} by {tests},"
            f" corrected after {CORRECTIONS[correction]} for {counted(len(comparison.differences), 'test')})."
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
    clusters = f" in {counted(largest.clusters, 'cluster')} by {by}" if by != "query" else ""
    yield f"{counted(largest.queries, 'query', 'queries')}{clusters}{within}; ties: {comparison.settings.tie}."
    seeds = sorted({estimate.seeds for estimate in comparison.estimates})
    if seeds[-1] > 1:
        number = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        yield f"Mean over {number} seeds ± standard deviation between them; {_SEEDS[comparison.settings.seeds]}."


_UNMARKED = {
    True: "All others are significantly worse than the best",
    False: "No model is significantly worse than another",
}
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


def _grouped(remarks: Iterable[str]) -> list[str]:
    """Remarks that differ in their numbers alone as one, each number from the least to the largest."""
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for remark in remarks:
        alike.setdefault(tuple(_NUMBER.split(remark)), []).append(_NUMBER.findall(remark))
    return [
        "".join(chain.from_iterable(zip_longest(between, map(_range, zip(*numbers, strict=True)), fillvalue="")))
        for between, numbers in alike.items()
    ]


def _range(numbers: Sequence[str]) -> str:
    ordered = sorted(numbers, key=lambda number: int(number.replace(",", "")))
    return " to ".join(dict.fromkeys((ordered[0], ordered[-1])))


def _about_trust(comparison: Comparison) -> str:
    doubted = [estimate.interval.remark for estimate in comparison.estimates if not estimate.interval.trusted]
    remarks = _grouped(filter(None, doubted))
    more = [f"and {len(remarks) - _MOST_REMARKS:,} more"] if len(remarks) > _MOST_REMARKS else []
    reasons = "; ".join([*remarks[:_MOST_REMARKS], *more])
    return f"{UNTRUSTED} the interval cannot be trusted" + (f": {reasons}." if reasons else ".")
