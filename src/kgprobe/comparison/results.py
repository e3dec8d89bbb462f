"""Results of a comparison: estimates and differences with intervals and adjusted p-values, and remarks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from kgprobe.aggregate import Tie
from kgprobe.comparison.intervals import Interval
from kgprobe.comparison.lineup import Lineup
from kgprobe.comparison.pair_tests import Correction
from kgprobe.comparison.resampling import MOST_UNITS
from kgprobe.metrics import Metric

_SMALL = 0.01

_FEW_RUNS = 5
"""With fewer runs, t quantiles are so large that only large differences are significant."""


_CORRECTED = {
    Correction.max_t: "Tests and {level} % intervals of differences are simultaneous for {over} (max-t)",
    Correction.holm: "Holm over {over}",
    Correction.bh: "Benjamini-Hochberg over {over}",
    Correction.none: "No correction for multiple testing over {over}",
}


@dataclass(frozen=True)
class ComparisonSettings:
    """The settings of a comparison; see `compare_models`."""

    cluster: str = "triple"
    level: float = 0.95
    replicates: int = 10_000
    permutations: int = 10_000
    seeds: str = "fixed"
    pairs: str = "all"
    tie: Tie = Tie.mean
    seed: int = 0
    correction: Correction = Correction.max_t
    allow_different_candidates: bool = False


@dataclass(frozen=True)
class Estimate:
    """The value of a metric for a model, on one group of queries.

    Attributes:
        model: The model.
        metric: The metric.
        value: The mean over its training runs.
        interval: The confidence interval over queries (and over training runs, where seeds are random).
        std: Sample standard deviation over the training runs; None for a single one.
        seeds: The number of training runs.
        queries: The number of evaluated queries.
        clusters: The number of clusters.
        effective: The effective number of queries.
        group: The group's name by column.
        reason: Why the value is not a finite number; None where it is.
        unknown: The smallest and the largest value, where ranks are intervals; then the value is NaN.
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
    reason: str | None = None
    unknown: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value that the unknown ranks allow; both are the value if all is known."""
        return self.unknown or (self.value, self.value)


@dataclass(frozen=True)
class Difference:
    """The difference of a metric between two models, on the same queries.

    Attributes:
        first: The one model.
        second: The model whose value is subtracted.
        metric: The metric.
        value: The difference.
        interval: Its confidence interval over queries (and over training runs, where seeds are random), with the
            correction of the comparison: it excludes 0 where the difference is significant.
        p: The p-value of this difference by itself; never 0.
        adjusted: The p-value with the correction of the comparison, over all pairs of models by this metric.
        significant: Whether the adjusted p-value is at most 1 - level.
        tests: The number of pairs of models that are tested together.
        holm: The p-value adjusted for these tests by Holm.
        bh: The p-value adjusted for these tests by Benjamini and Hochberg.
        group: The group's name by column.
        reason: Why the value or the p-value is not a finite number; None where both are.
        tested: Whether the models were tested against each other; False where their candidate sets differ.
        unknown: The smallest and the largest value, where ranks are intervals; then the value is NaN.
    """

    first: str
    second: str
    metric: Metric
    value: float
    interval: Interval
    p: float
    adjusted: float
    significant: bool
    tests: int
    holm: float
    bh: float
    group: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    tested: bool = True
    unknown: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest difference that the unknown ranks allow; both are the value if all is known."""
        return self.unknown or (self.value, self.value)

    def turned(self) -> Difference:
        """The same difference with the models in the other order."""
        interval = replace(self.interval, low=-self.interval.high, high=-self.interval.low)
        other = replace(self, first=self.second, second=self.first, value=-self.value, interval=interval)
        return other if self.unknown is None else replace(other, unknown=(-self.unknown[1], -self.unknown[0]))


@dataclass(frozen=True)
class Comparison:
    """All values and differences of a comparison.

    Attributes:
        estimates: Group by group, metric by metric, in the order of the models.
        differences: In the same order, pair by pair.
        settings: The settings.
    """

    estimates: list[Estimate]
    differences: list[Difference]
    settings: ComparisonSettings

    @property
    def tests(self) -> int:
        """The number of differences that were tested."""
        return sum(difference.tested for difference in self.differences)

    @property
    def remarks(self) -> list[str]:
        """Limits of the comparison as a whole."""
        return [*self.grouping, *self._coarse()]

    @property
    def has_unknown(self) -> bool:
        """Whether some values are ranges, because ranks are intervals."""
        return any(one.unknown for one in self.estimates)

    @property
    def family(self) -> str:
        """Which tests are corrected together, in one sentence."""
        pairs = max((one.tests for one in self.differences), default=0)
        over = f"the {pairs:,} pairs of models" if pairs != 1 else "the only pair of models"
        if self.has_unknown:
            over += " at both ends of their unknown ranks"
        by = "metric and group" if any(one.group for one in self.differences) else "metric"
        how = _CORRECTED[self.settings.correction].format(over=over, level=f"{100 * self.settings.level:.4g}")
        return f"{how}, for each {by} by itself; choose the metric before you look at the results."

    @property
    def grouping(self) -> list[str]:
        """Whether random groups of clusters were drawn, in one sentence."""
        most = max((estimate.clusters for estimate in self.estimates), default=0)
        if most <= MOST_UNITS:
            return []
        return [
            f"Draws and permutations are of {MOST_UNITS:,} random groups of the {most:,} clusters; values and "
            "standard errors are from all clusters."
        ]

    def _coarse(self) -> Iterator[str]:
        corrected = self.settings.correction in (Correction.holm, Correction.bh)
        tests = max((one.tests for one in self.differences), default=0) if corrected else 1
        smallest = tests / (self.settings.permutations + 1)
        if self.settings.seeds == "random" or smallest <= _SMALL or not self.differences:
            return
        enough = math.ceil(tests / _SMALL)
        yield (
            f"With {tests:,} pair{'s' if tests > 1 else ''} of models and {self.settings.permutations:,} permutations, "
            f"no adjusted p-value can be below {min(smallest, 1):.2g}; {enough:,} permutations would allow {_SMALL:g}."
        )


def sets_differ(count: int) -> str:
    """Why two models are not tested against each other.

    Args:
        count: The number of queries whose candidate counts differ.

    Example:
        >>> sets_differ(1_169)
        'candidate sets differ in 1,169 queries'
    """
    return f"candidate sets differ in {_queries(count)}"


def remarks(
    lineup: Lineup, seeds: str, metrics: Iterable[Metric] = (), *, allow_different_candidates: bool = False
) -> list[str]:
    """Limits of what a comparison of these models can say, one sentence each.

    Args:
        lineup: The models.
        seeds: Whether training runs are ``random`` or ``fixed``.
        metrics: The metrics, for remarks on the queries that they leave out.
        allow_different_candidates: Whether models with different candidate sets are tested against each other.

    Example:
        >>> from kgprobe.comparison.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(candidates):
        ...     return Ranks.from_columns(
        ...         head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[candidates]
        ...     )
        >>> remarks(line_up({"one": ranks(9), "other": ranks(5)}), seeds="fixed")
        ['other is not tested against one, because candidate sets differ in 1 query.']
    """
    return [
        *map(str, lineup.flags.values()),
        *(f"{model} is left out. {flag}" for model, flag in lineup.excluded.items()),
        *sampled(lineup),
        *_left_out(lineup),
        *_too_few_candidates(lineup, metrics),
        *_candidates(lineup, allow_different_candidates),
        *_runs(lineup, seeds),
    ]


def sampled(lineup: Lineup) -> Iterator[str]:
    """A sentence for every sample of candidates among which models were ranked."""
    models: dict[str, list[str]] = {}
    for model, sample in lineup.samples.items():
        models.setdefault(sample.warning, []).append(model)
    for warning, own in models.items():
        yield f"{', '.join(own)}: {warning}."


def _left_out(lineup: Lineup) -> Iterator[str]:
    for model, count in lineup.left_out.items():
        if count:
            yield f"{_queries(count)} of {model} that not all models have {'is' if count == 1 else 'are'} left out."


def _too_few_candidates(lineup: Lineup, metrics: Iterable[Metric]) -> Iterator[str]:
    """A sentence for every number of candidates below which some of the metrics leave queries out."""
    alike: dict[int, list[Metric]] = {}
    for metric in metrics:
        alike.setdefault(metric.fewest_candidates, []).append(metric)
    for fewest, own in sorted(alike.items()):
        if most := max(int((run.candidates < fewest).sum()) for runs in lineup.runs.values() for run in runs):
            which = "Candidate-size-aware metrics" if fewest == 2 else ", ".join(map(str, own))
            yield f"{which} leave out {_queries(most)} with {own[0].left_out}."


def _candidates(lineup: Lineup, allowed: bool) -> Iterator[str]:
    """Which models are not tested against each other: one sentence for the model of most pairs, and so on."""
    left = dict(lineup.candidate_differences)
    if left and allowed:
        count = _queries(max(left.values()))
        yield f"Models are tested against each other although their candidate sets differ in up to {count}."
        return
    while left:
        odd = max(reversed(lineup.models), key=lambda model: sum(model in pair for pair in left))
        own = [pair for pair in left if odd in pair]
        others = [pair[odd == pair[0]] for pair in own]
        every = 1 < len(others) == len(lineup.models) - 1
        whom = "any other model" if every else " and ".join(filter(None, [", ".join(others[:-1]), others[-1]]))
        yield f"{odd} is not tested against {whom}, because {sets_differ(max(left.pop(pair) for pair in own))}."


def _runs(lineup: Lineup, seeds: str) -> Iterator[str]:
    fewest = min(map(len, lineup.runs.values()))
    if seeds == "random" and fewest < _FEW_RUNS and len(lineup.models) > 1:
        yield (
            f"With {fewest} training runs of a model, only large differences are significant with random seeds; "
            "fixed seeds compare these runs alone."
        )


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"
