"""What to beware of when scores on an incomplete graph are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.openworld.theory.counts import AnswerCounts
from kgprobe.transform import Hits, Transformer

if TYPE_CHECKING:
    from kgprobe.openworld.theory.sensitivity import Reading

_ENOUGH = 1.0
"""From this many expected missing answers per query on, rank 1 is often taken by one of them."""


def remarks(counts: AnswerCounts, readings: Sequence[Reading]) -> Iterator[str]:
    """Sentences about the counts at every missing rate, and about the metrics that suffer from them.

    Args:
        counts: The queries.
        readings: What is expected of the metrics, by missing rate.

    Example:
        >>> from kgprobe.openworld.theory.sensitivity import sensitivity
        >>> counts = AnswerCounts("tiny", np.array([1.0, 30.0]), np.array([100.0, 71.0]))
        >>> for warning in sensitivity(counts, 0.25, ["MRR", "Hits@80"]).warnings:
        ...     print(warning)
        Hits@80: every rank is a hit in 50.0 % of the queries, which have at most 80 candidates
        missing 0.25: true answers are expected to be at least 10 % of the candidates in 50.0 % of the queries
        missing 0.25: 5.2 missing answers per query are expected, which weigh most where rank 1 counts most: MRR
        missing 0.25: nothing of an improvement shows in 50.0 % of the queries: Hits@80
    """
    for transformer in dict.fromkeys(reading.metric.transformer for reading in readings):
        if isinstance(transformer, Hits) and (share := float(np.mean(counts.candidates <= transformer.k))):
            named = _named([reading for reading in readings if reading.metric.transformer == transformer])
            yield f"{named}: every rank is a hit in {_percent(share)}, which have at most {transformer.k} candidates"
    for rate, own in groupby(readings, lambda reading: reading.missing):
        for remark in _at_rate(counts, rate, list(own)):
            yield f"missing {rate:g}: {remark}"


def _at_rate(counts: AnswerCounts, rate: float, readings: Sequence[Reading]) -> Iterator[str]:
    missing = counts.known * (rate / (1 - rate))
    if share := counts.crowded(rate):
        yield f"true answers are expected to be at least 10 % of the candidates in {_percent(share)}"
    if share := float(np.mean(missing > counts.candidates - 1)):
        yield f"the rate cannot hold in {_percent(share)}: more answers would be missing than there are candidates"
    sharp = [reading for reading in readings if _is_sharp(reading.metric.transformer, float(counts.candidates.max()))]
    if sharp and (mean := float(missing.mean())) >= _ENOUGH:
        most = "missing answers per query are expected, which weigh most where rank 1 counts most"
        yield f"{mean:.1f} {most}: {_named(sharp)}"
    for share in sorted({reading.flat for reading in readings} - {0.0}, reverse=True):
        named = _named([reading for reading in readings if reading.flat == share], readings)
        yield f"nothing of an improvement shows in {_percent(share)}: {named}"
    if falling := [reading for reading in readings if not reading.slope * np.sign(reading.closed_slope) > 0]:
        yield f"a better model does not expect a better score: {_named(falling)}"


def _is_sharp(transformer: Transformer, candidates: float) -> bool:
    """Whether rank 2 is worth at most half of rank 1, as for MRR, PROBE from alpha 1 on, and Hits@1."""
    first, second = transformer(np.array([1.0, 2.0]), np.full(2, max(candidates, 2.0)))
    return bool(second <= first / 2)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} % of the queries"


def _named(readings: Sequence[Reading], among: Sequence[Reading] = ()) -> str:
    """The metrics of readings; where these are most of some, the others are named."""
    names, every = (list(dict.fromkeys(str(reading.metric) for reading in part)) for part in (readings, among))
    others = [name for name in every if name not in names]
    if 1 < len(every) < 2 * len(names):
        return f"all metrics but {', '.join(others)}" if others else "all metrics"
    return ", ".join(names)
