"""RankAccumulator: metrics of a stream of rank tables, in any order, on any number of machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import Grouping, Tie, tied_rank, tied_score
from kgprobe.aggregate.groups import ByColumn
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics.base import DistributionMetric, Metric, Statistic, Term
from kgprobe.metrics.catalogue import parse_all
from kgprobe.metrics.scores import Cube, CubeKey, Score, finish
from kgprobe.ranks import Ranks

Floats = NDArray[np.float64]
MACRO = ("relation", "entity", "side")


class RankAccumulator:
    """Takes rank tables one after the other and gives the same values as `evaluate` on all of them at once.

    Args:
        metrics: Names or metric values.
        by: Groupings whose groups are evaluated separately (already learned where they need it).
        macro: Average per relation, entity or side first; None is the mean over queries.
        tie: How ties are scored.
        weight: A label column with sample weights that multiply the metrics' own.

    Example:
        >>> part = dict(relation=[0], tail=[1], side=["tail"], candidates=[9])
        >>> first, second = RankAccumulator(["MRR"]), RankAccumulator(["MRR"])
        >>> first.update(Ranks.from_columns(head=[0], rank=[1], **part))
        >>> second.update(Ranks.from_columns(head=[1], rank=[2], **part))
        >>> first.merge(second)
        >>> first.compute()
        {'MRR': 0.75}
    """

    def __init__(
        self,
        metrics: Iterable[str | Metric],
        *,
        by: Sequence[Grouping] = (),
        macro: str | None = None,
        tie: Tie | str = Tie.mean,
        weight: str | None = None,
    ) -> None:
        if macro is not None and macro not in MACRO:
            raise UsageError(f"macro '{macro}' is not known", [f"it can be {', '.join(MACRO)}"])
        self.metrics = parse_all(metrics)
        self.by, self.macro, self.weight = list(by), macro, weight
        try:
            self.tie = Tie(tie)
        except ValueError:
            raise UsageError(f"tie '{tie}' is not known", [f"it can be {', '.join(Tie)}"]) from None
        unfit = [str(m) for m in self.metrics if isinstance(m, DistributionMetric)]
        if self.tie is Tie.expected and unfit:
            raise UsageError(f"no exact expectation over ties is known for {', '.join(unfit)}", remedy="use tie 'mean'")
        self.reset()

    def reset(self) -> None:
        """Forget everything that was added."""
        self._cubes = self._build_cubes()

    def _build_cubes(self) -> dict[CubeKey, Cube]:
        terms: dict[CubeKey, dict[Term, None]] = {}
        for metric in self.metrics:
            terms.setdefault((metric.columns, metric.needs_alternatives), {}).update(dict.fromkeys(metric.terms))
        slices = 1 + len(self.by) + (self.macro is not None)
        return {key: Cube(slices, *key, tuple(wanted)) for key, wanted in terms.items()}

    def update(self, ranks: Ranks) -> None:
        """Add the queries of a table."""
        slices = self._slices(ranks)
        sample_weight = self._sample_weight(ranks)
        score: Callable[[Term], Floats] = cache(lambda term: _statistic(ranks, term, self.tie))
        for cube in self._cubes.values():
            counted = (ranks.candidates > 1) | (not cube.needs_alternatives)
            weight = np.where(counted, sample_weight, 0.0)
            keys = [*slices, *(_key(ranks, column, self.tie) for column in cube.columns)]
            cube.add(keys, counted, weight, [score(term) for term in cube.terms])

    def merge(self, other: RankAccumulator) -> None:
        """Add all that another accumulator with the same settings has collected."""
        mine = (self.metrics, [g.name for g in self.by], self.macro, self.tie, self.weight)
        theirs = (other.metrics, [g.name for g in other.by], other.macro, other.tie, other.weight)
        if mine != theirs:
            raise UsageError("accumulators with different settings do not merge")
        for key, cube in self._cubes.items():
            cube.sums.merge(other._cubes[key].sums)
        for grouping, source in zip(self.by, other.by, strict=True):
            if isinstance(grouping, ByColumn) and isinstance(source, ByColumn):
                grouping.labels.update(source.labels)

    def compute(self) -> dict[str, float]:
        """The value of every metric by canonical name; groups need `scores`."""
        if self.by:
            raise UsageError("with groups a metric has many values", remedy="call scores()")
        return {str(score.metric): score.value for score in self.scores()}

    def scores(self) -> list[Score]:
        """Everything that is known, group by group in ascending order, metric by metric."""
        found = [
            score
            for metric in self.metrics
            for score in finish(metric, self._cubes[metric.columns, metric.needs_alternatives], self.by)
        ]
        return sorted(found, key=lambda score: [_sortable(name) for name in score.group.values()])

    def _slices(self, ranks: Ranks) -> list[Floats]:
        seed = np.zeros(len(ranks)) if ranks.seed is None else ranks.seed.astype(np.float64)
        macro = [] if self.macro is None else [_macro_key(ranks, self.macro)]
        return [seed, *(grouping.codes(ranks) for grouping in self.by), *macro]

    def _sample_weight(self, ranks: Ranks) -> Floats:
        if self.weight is None:
            return np.ones(len(ranks))
        weight = np.asarray(ranks.column(self.weight).to_numpy(), dtype=np.float64)
        if not (np.isfinite(weight) & (weight >= 0)).all():
            raise DataError(f"column '{self.weight}' holds weights that are negative or no numbers")
        return weight


def _macro_key(ranks: Ranks, macro: str) -> Floats:
    keys = {"relation": ranks.relation, "entity": ranks.target, "side": ranks.predicts_tail}
    return keys[macro].astype(np.float64)


def _sortable(value: Any) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))


def _key(ranks: Ranks, column: str, tie: Tie) -> Floats:
    if column == "rank":
        return tied_rank(ranks, tie)
    values = ranks.numbers(column)
    unknown = int(np.isnan(values).sum())
    if unknown:
        raise DataError(
            f"{column.replace('_', ' ')} is not recorded in {unknown:,} of {len(ranks):,} rows",
            ["metrics with a beta other than 0 weigh queries by it"],
            "give the graph with --graph, or use beta=0",
        )
    return values


def _statistic(ranks: Ranks, term: Term, tie: Tie) -> Floats:
    transformer, statistic = term
    if statistic is Statistic.score:
        return tied_score(transformer, ranks, tie)
    mean, variance = transformer.chance(ranks.candidates)
    return mean if statistic is Statistic.chance_mean else variance
