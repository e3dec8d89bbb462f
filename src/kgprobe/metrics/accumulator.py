"""RankAccumulator: metrics of a stream of rank tables, in any order, on any number of machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate import Grouping, Tie, distinct, tied_rank, tied_score
from kgprobe.aggregate.groups import ByColumn, ByQuantile
from kgprobe.aggregate.settled import SettledWeight
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics.base import DistributionMetric, MeanMetric, Metric, Statistic, Term
from kgprobe.metrics.catalogue import parse_all
from kgprobe.metrics.scores import Cube, CubeKey, Score, finish
from kgprobe.ranks import End, Ranks, refuse_intervals
from kgprobe.transform import Transformer

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
        settled: Weights of the whole table, where it could be looked at before: saves memory.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken; without it they are refused.

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
        metrics: str | Metric | Iterable[str | Metric],
        *,
        by: Sequence[Grouping] = (),
        macro: str | None = None,
        tie: Tie | str = Tie.mean,
        weight: str | None = None,
        settled: Iterable[SettledWeight] = (),
        at: End | str | None = None,
    ) -> None:
        if macro is not None and macro not in MACRO:
            raise UsageError(f"macro '{macro}' is not known", [f"it can be {', '.join(MACRO)}"])
        self.metrics = parse_all(metrics)
        self.by, self.macro, self.weight = list(by), macro, weight
        self._settled = {(weight.weighting, weight.needs_alternatives): weight for weight in settled}
        self.tie, self.at = Tie(tie), None if at is None else End(at)
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
            terms.setdefault(self._cube_key(metric), {}).update(dict.fromkeys(metric.terms))
        slices = 1 + len(self.by) + (self.macro is not None)
        return {key: Cube(slices, key, tuple(wanted)) for key, wanted in terms.items()}

    def _cube_key(self, metric: Metric) -> CubeKey:
        weighting = metric.weighting if isinstance(metric, MeanMetric) else None
        settled = self._settled.get((weighting, metric.needs_alternatives)) if weighting else None
        return CubeKey(() if settled else metric.columns, metric.needs_alternatives, settled)

    def update(self, ranks: Ranks) -> None:
        """Add the queries of a table."""
        if self.at is None:
            refuse_intervals(ranks)
        intervals = ranks.intervals
        ranks = ranks if self.at is None else self.at.of(ranks)
        slices = self._slices(ranks)
        sample_weight = self._sample_weight(ranks)
        by_chance: Callable[[Transformer], tuple[Floats, Floats]] = cache(
            lambda transformer: chance(ranks, transformer)
        )

        @cache
        def statistic(term: Term) -> Floats:
            transformer, wanted = term
            if wanted is Statistic.score:
                return tied_score(transformer, ranks, self.tie)
            return by_chance(transformer)[wanted is Statistic.chance_variance]

        parts: list[tuple[Cube, list[Floats], NDArray[np.bool_], Floats, list[Floats]]] = []
        for cube in self._cubes.values():
            counted = (ranks.candidates > 1) | (not cube.key.needs_alternatives)
            weight = np.where(counted, sample_weight, 0.0)
            if cube.key.settled is not None:
                columns = {name: read_column(ranks, name)[counted] for name in cube.key.settled.weighting.columns}
                weight[counted] *= cube.key.settled(columns)
            keys = [*slices, *(_key(ranks, column, self.tie) for column in cube.key.columns)]
            parts.append((cube, keys, counted, weight, [statistic(term) for term in cube.terms]))
        for cube, keys, counted, weight, values in parts:  # only now: a table that is refused leaves no trace
            cube.add(keys, counted, intervals, weight, values)

    def merge(self, other: RankAccumulator) -> None:
        """Add all that another accumulator with the same settings has collected."""
        if self._settings != other._settings:
            raise UsageError("accumulators with different settings do not merge")
        for key, cube in self._cubes.items():
            cube.sums.merge(other._cubes[key].sums)
        for grouping, source in zip(self.by, other.by, strict=True):
            if isinstance(grouping, ByColumn) and isinstance(source, ByColumn):
                grouping.labels.update(source.labels)

    @property
    def _settings(self) -> tuple[object, ...]:
        edges = [grouping.edges.tolist() if isinstance(grouping, ByQuantile) else None for grouping in self.by]
        scales = [{name: v.tolist() for name, v in w.reference.items()} for w in self._settled.values()]
        return self.metrics, [g.name for g in self.by], edges, self.macro, self.tie, self.at, self.weight, scales

    def compute(self) -> dict[str, float]:
        """The value of every metric by canonical name; groups need `scores`."""
        if self.by:
            raise UsageError("with groups a metric has many values", remedy="call scores()")
        return {str(score.metric): score.value for score in self.scores()}

    def scores(self) -> list[Score]:
        """Everything that is known, group by group in ascending order, metric by metric."""
        found = [
            score for metric in self.metrics for score in finish(metric, self._cubes[self._cube_key(metric)], self.by)
        ]
        return sorted(found, key=lambda score: [sortable(name) for name in score.group.values()])

    def _slices(self, ranks: Ranks) -> list[Floats]:
        seed = np.zeros(len(ranks)) if ranks.seed is None else ranks.seed.astype(np.float64)
        macro = [] if self.macro is None else [_macro_key(ranks, self.macro)]
        return [seed, *(grouping.codes(ranks) for grouping in self.by), *macro]

    def _sample_weight(self, ranks: Ranks) -> Floats:
        if self.weight is None:
            return np.ones(len(ranks))
        try:
            weight = np.asarray(ranks.column(self.weight).to_numpy(), dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"column '{self.weight}' holds weights that are no numbers") from None
        if not (np.isfinite(weight) & (weight >= 0)).all():
            raise DataError(f"column '{self.weight}' holds weights that are negative or no numbers")
        return weight


def _macro_key(ranks: Ranks, macro: str) -> Floats:
    keys = {"relation": ranks.relation, "entity": ranks.target, "side": ranks.predicts_tail}
    return keys[macro].astype(np.float64)


def sortable(value: Any) -> tuple[int, float, list[str | int]]:
    """Numbers before text, and numbers within text by their size: band 2 comes before band 10."""
    if isinstance(value, int | float):
        return 0, float(value), []
    return 1, 0.0, [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(value))]


def _key(ranks: Ranks, column: str, tie: Tie) -> Floats:
    return tied_rank(ranks, tie) if column == "rank" else read_column(ranks, column)


def read_column(ranks: Ranks, column: str) -> Floats:
    """A column that weights depend on, which must be recorded in every row."""
    values = ranks.numbers(column)
    unknown = int(np.isnan(values).sum())
    if unknown:
        raise DataError(
            f"{column.replace('_', ' ')} is not recorded in {unknown:,} of {len(ranks):,} rows",
            ["metrics with a beta other than 0 weigh queries by it"],
            "give the graph with --graph, or use beta=0",
        )
    return values


def chance(ranks: Ranks, transformer: Transformer) -> tuple[Floats, Floats]:
    """Mean and variance of the score of a random rank, for every query."""
    (sizes,), which = distinct([ranks.candidates], len(ranks))
    mean, variance = transformer.chance(sizes)
    return mean[which], variance[which]
