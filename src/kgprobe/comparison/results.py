"""Results of a comparison: estimates and differences with intervals and p-values, and remarks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.comparison.intervals import Interval
from kgprobe.comparison.lineup import Lineup
from kgprobe.metrics import Metric

_SMALL = 0.01


@dataclass(frozen=True)
class ComparisonSettings:
    """How a comparison was made.

    Attributes:
        cluster: What queries that stand or fall together share: ``triple``, ``relation``, ``entity`` or ``query``.
        level: The level of the intervals.
        replicates: How many times clusters were drawn anew.
        permutations: How many random swaps of two models.
        seeds: ``fixed``: about these training runs; ``random``: about the method, any training run of it.
        pairs: ``all`` pairs of models, or the ``best`` of each metric against the others.
        tie: How ties are scored.
        seed: Makes the random draws repeatable.
    """

    cluster: str = "triple"
    level: float = 0.95
    replicates: int = 10_000
    permutations: int = 10_000
    seeds: str = "fixed"
    pairs: str = "all"
    tie: Tie = Tie.mean
    seed: int = 0


@dataclass(frozen=True)
class Estimate:
    """The value of a metric for a model, on one group of queries.

    Attributes:
        model: The model.
        metric: The metric.
        value: The mean over its training runs.
        interval: Where the value would lie for other queries (and training runs, where seeds are random).
        std: Sample standard deviation over the training runs; None for a single one.
        seeds: The number of training runs.
        queries: How many queries are evaluated.
        clusters: In how many clusters they are.
        effective: The effective number of queries.
        group: The group's name by column.
    """

    model: str
    metric: Metric
    value: float
    interval: Interval
    std: float | None
    seeds: int
    queries: int
    clusters: int
    effective: float
    group: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """How much the metric of one model is above that of another, on the same queries.

    Attributes:
        first: The one model.
        second: The model whose value is subtracted.
        metric: The metric.
        value: The difference.
        interval: Where it would lie for other queries (and training runs, where seeds are random).
        p: How probable a difference at least as large is, if the models were alike; never 0.
        holm: The p value adjusted for all differences of the comparison by Holm.
        bh: The same by Benjamini and Hochberg.
        group: The group's name by column.
    """

    first: str
    second: str
    metric: Metric
    value: float
    interval: Interval
    p: float
    holm: float = math.nan
    bh: float = math.nan
    group: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """All values and differences, and how they were found.

    Attributes:
        estimates: Group by group, metric by metric, in the order of the models.
        differences: In the same order, pair by pair.
        settings: How they were found.
    """

    estimates: list[Estimate]
    differences: list[Difference]
    settings: ComparisonSettings

    @property
    def remarks(self) -> list[str]:
        """What limits the comparison as a whole, in plain words."""
        smallest = len(self.differences) / (self.settings.permutations + 1)
        if self.settings.seeds == "random" or smallest <= _SMALL:
            return []
        enough = math.ceil(len(self.differences) / _SMALL)
        return [
            f"{len(self.differences):,} differences, {self.settings.permutations:,} permutations: adjusted by "
            f"Holm, no p value can be below {min(smallest, 1):.2g}; {enough:,} permutations would allow {_SMALL:g}"
        ]


_FEW_RUNS = 5

"""With fewer runs than this, t quantiles are so large that only large differences are beyond noise."""


def remarks(lineup: Lineup, seeds: str) -> list[str]:
    """One sentence for each thing that limits what can be said.

    Args:
        lineup: The models.
        seeds: Whether training runs are ``random`` or ``fixed``.

    Example:
        >>> from kgprobe.comparison.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(candidates):
        ...     return Ranks.from_columns(
        ...         head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[candidates]
        ...     )
        >>> remarks(line_up({"one": ranks(9), "other": ranks(5)}), seeds="fixed")
        ["1 query has other candidates in other models: 'kgprobe check' says why that matters."]
    """
    return [*_left_out(lineup), *_candidates(lineup), *_runs(lineup, seeds)]


def _left_out(lineup: Lineup) -> Iterator[str]:
    for model, count in lineup.left_out.items():
        if count:
            yield f"{_queries(count)} of {model} that not all models have {'is' if count == 1 else 'are'} left out."


def _candidates(lineup: Lineup) -> Iterator[str]:
    differing = np.zeros(len(lineup), dtype=bool)
    for own in lineup.runs.values():
        differing |= own[0].candidates != lineup.first.candidates
    if count := int(differing.sum()):
        have = "has" if count == 1 else "have"
        yield f"{_queries(count)} {have} other candidates in other models: 'kgprobe check' says why that matters."


def _runs(lineup: Lineup, seeds: str) -> Iterator[str]:
    fewest = min(map(len, lineup.runs.values()))
    if seeds == "random" and fewest < _FEW_RUNS and len(lineup.models) > 1:
        yield (
            f"With {fewest} training runs of a model, a difference must be large to be beyond the noise of training; "
            "fixed seeds speak of these runs alone."
        )


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"
