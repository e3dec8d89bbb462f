"""Evaluate metrics on rank tables: `evaluate` and `scores` for tables and files, RankAccumulator for streams."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import overload

import numpy as np

from kgprobe.aggregate import Grouping, PopularityWeight, Tie, Weighting, parse_groupings, tied_rank
from kgprobe.aggregate.groups import ByColumn, ByQuantile, parse_grouping
from kgprobe.aggregate.weighted_mean import query_values, refuse_empty
from kgprobe.aggregate.weights import SettledWeight, read_column, settle
from kgprobe.arrays import Flags, Floats, natural
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import GraphLike, as_graph
from kgprobe.metrics.catalogue import parse_all
from kgprobe.metrics.cubes import SCALE, Cube, CubeKey, Score, Scores
from kgprobe.metrics.metric import DistributionMetric, MeanMetric, Metric, Term
from kgprobe.metrics.sampled_estimates import sampled_scores
from kgprobe.ranks import End, RankFile, Ranks, RanksLike, open_ranks, refuse_estimates, refuse_intervals, validate

_MACRO = {"relation": "relation", "entity": "target", "side": "predicts_tail"}
"""What a macro average is taken by, and the attribute of `Ranks` that holds it."""

_MODERATE_BETA = 5.0
"""Up to this beta, weights relative to the largest that the table allows do not underflow."""


DEFAULT_METRICS = (
    *("PROBE(alpha=1,beta=0)", "PROBE(alpha=0,beta=0)"),
    *("MRR", "Hits@1", "Hits@3", "Hits@10", "MR", "AMRI"),
)

Metrics = str | Metric | Iterable[str | Metric]


@overload
def evaluate(
    ranks: RanksLike,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    graph: GraphLike | None = None,
    by: None = None,
    macro: str | None = None,
    tie: Tie | str = Tie.mean,
    weight: str | None = None,
    at: End | str | None = None,
) -> dict[str, float]: ...


@overload
def evaluate(
    ranks: RanksLike,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    graph: GraphLike | None = None,
    by: str | Iterable[str],
    macro: str | None = None,
    tie: Tie | str = Tie.mean,
    weight: str | None = None,
    at: End | str | None = None,
) -> Scores: ...


def evaluate(
    ranks: RanksLike,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    graph: GraphLike | None = None,
    by: str | Iterable[str] | None = None,
    macro: str | None = None,
    tie: Tie | str = Tie.mean,
    weight: str | None = None,
    at: End | str | None = None,
) -> dict[str, float] | Scores:
    """The value of each metric by canonical name; with ``by``, the scores of each group.

    See `scores` for the arguments. A metric that is undefined on these ranks is NaN, with a warning that gives the
    reason.

    Example:
        >>> table = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
        ... )
        >>> evaluate(table, ["MRR", "Hits@1", "PROBE(alpha=1)"])
        {'MRR': 0.75, 'Hits@1': 0.5, 'PROBE(alpha=1,beta=0)': 0.6875}
        >>> evaluate(table, "MRR", by="side").to_arrow().select(["side", "value"]).to_pydict()
        {'side': ['head', 'tail'], 'value': [1.0, 0.5]}
    """
    opened = open_ranks(ranks)
    if by is None and at is None:
        refuse_intervals(opened)
    found = scores(opened, metrics, graph=graph, by=by or (), macro=macro, tie=tie, weight=weight, at=at)
    return found if by is not None else _values(found)


def _values(found: Sequence[Score]) -> dict[str, float]:
    """The values by metric, with a warning for each that is undefined, and one if candidates were sampled."""
    if found and found[0].sample is not None:
        warnings.warn(found[0].sample.warning, stacklevel=3)
    for score in found:
        if math.isnan(score.value):
            warnings.warn(f"{score.metric} is undefined: {score.reason}", stacklevel=3)
    return {str(score.metric): score.value for score in found}


def scores(
    ranks: RanksLike,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    graph: GraphLike | None = None,
    by: str | Iterable[str] = (),
    macro: str | None = None,
    tie: Tie | str = Tie.mean,
    weight: str | None = None,
    at: End | str | None = None,
) -> Scores:
    """Evaluate a rank table or file, with groups, seeds and effective sample sizes.

    Where ranks are intervals, the value of a metric lies between ``low`` and ``high``, which are both possible values.
    A value that is undefined is NaN, with a ``reason``; an empty table, and one without any sample weight, is an error.

    Args:
        ranks: A table, or a file or its path, which is streamed.
        metrics: Names or metric values; by default PROBE at alpha 1 and 0, and the usual metrics.
        graph: Gives the popularity of the targets; without it, the table's own columns are used.
        by: Groupings such as ``relation``, ``side``, ``popularity:5`` or a label column.
        macro: Average per ``relation``, ``entity`` or ``side`` first.
        tie: How ties are scored: ``mean``, ``expected``, ``optimistic`` or ``pessimistic``.
        weight: A label column with sample weights.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken; by default both.

    Example:
        >>> table = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
        ... )
        >>> [(score.group["side"], score.value) for score in scores(table, ["MRR"], by=["side"])]
        [('head', 1.0), ('tail', 0.5)]
    """
    graph, opened = as_graph(graph), open_ranks(ranks)
    validate(opened, graph)
    refuse_empty(opened)
    opened = opened if at is None else End(at).of(opened)
    sample = opened.info.sample
    table = opened if graph is None else opened.with_popularity(graph.popularity)
    parsed = parse_all(metrics)
    to_settle = [moderate for metric in parsed if (moderate := _to_settle(metric))]
    groupings = parse_groupings(by)
    if opened.is_estimated:
        return Scores(_estimated(table, parsed, groupings, macro, Tie(tie), weight), graph)
    ends = tuple(End) if "worst_rank" in table.column_names else (End.best,)
    if len(ends) > 1:
        _refuse_by_rank([*(grouping.name for grouping in groupings), weight])
    for grouping in groupings:
        grouping.learn(table)
    settled = [weights for weights in settle(table, to_settle) if not weights.may_vanish]
    accumulators = [
        RankAccumulator(parsed, by=groupings, macro=macro, tie=tie, weight=weight, settled=settled, at=end)
        for end in ends
    ]
    for batch in table.batches():
        for accumulator in accumulators:
            accumulator.update(batch)
    if not any(accumulator.weighs for accumulator in accumulators):
        raise DataError(f"all sample weights are 0 (column '{weight}')", remedy="use other weights, or none")
    found = [accumulator.scores() for accumulator in accumulators]
    joined = (between(best, worst) for best, worst in zip(found[0], found[-1], strict=True))
    return Scores((replace(score, sample=sample) if sample else score for score in joined), graph)


def _estimated(
    table: Ranks | RankFile,
    metrics: Sequence[Metric],
    groupings: Sequence[Grouping],
    macro: str | None,
    tie: Tie,
    weight: str | None,
) -> list[Score]:
    """The scores of ranks that are estimates from a sample of candidates."""
    given = {"macro": macro, "weight": weight}
    if unfit := [f"`{name}`" for name, value in given.items() if value is not None]:
        title = f"{' and '.join(unfit)}: not available for ranks that are estimates from a sample of candidates"
        raise UsageError(title, remedy="rank all candidates, or use groups (`by`)")
    _refuse_by_rank([grouping.name for grouping in groupings])
    ranks = table if isinstance(table, Ranks) else table.read()
    for grouping in groupings:
        grouping.learn(ranks)
    found = sampled_scores(ranks, metrics, groupings, tie)
    return sorted(found, key=lambda score: [natural(name) for name in score.group.values()])


def _refuse_by_rank(columns: Iterable[str | None]) -> None:
    """Refuse groups and sample weights that depend on a rank: the ends of a metric would not be its limits."""
    if named := [column for column in columns if column in ("rank", "worst_rank")]:
        raise UsageError(
            f"ranks that may be intervals cannot be used as groups or sample weights: {', '.join(named)}",
            remedy="use at_best() or at_worst(), which have exact ranks",
        )


def _to_settle(metric: Metric) -> tuple[Weighting, int] | None:
    weighting = metric.weighting if isinstance(metric, MeanMetric) else None
    if not isinstance(weighting, PopularityWeight) or not weighting.columns:
        return None
    moderate = max(abs(weighting.beta_e), abs(weighting.beta_r)) <= _MODERATE_BETA
    return (weighting, metric.fewest_candidates) if moderate else None


def between(best: Score, worst: Score) -> Score:
    """The score of ranks that are intervals, from the scores at their best and at their worst ends."""
    monotone = best.metric.facts.monotone
    if not best.intervals or (monotone and best.value == worst.value):
        return best
    if best.reason is not None:
        return best
    if not monotone:
        reason = "ranks are intervals, and the metric is not monotone in the rank"
        return replace(best, value=math.nan, low=math.nan, high=math.nan, std=None, reason=reason)
    low, high = sorted((best.value, worst.value))
    reason = "; ".join(filter(None, ["ranks are intervals; the value lies between low and high", worst.reason]))
    return replace(best, value=math.nan, low=low, high=high, std=None, reason=reason)


class RankAccumulator:
    """Evaluate rank tables one after the other, with the same values as `evaluate` on all of them at once.

    Args:
        metrics: Names or metric values.
        by: Groupings whose groups are evaluated separately: columns by name, or groupings that have learned their
            bands.
        macro: Average per relation, entity or side first; None is the mean over queries.
        tie: How ties are scored.
        weight: A label column with sample weights that multiply the metrics' own.
        settled: Weights of the whole table from `settle`, where it could be read before: this saves memory.
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
        by: Sequence[str | Grouping] = (),
        macro: str | None = None,
        tie: Tie | str = Tie.mean,
        weight: str | None = None,
        settled: Iterable[SettledWeight] = (),
        at: End | str | None = None,
    ) -> None:
        if macro is not None and macro not in _MACRO:
            raise UsageError(f"unknown macro '{macro}'", [f"it can be {', '.join(_MACRO)}"])
        self.metrics = parse_all(metrics)
        self.by = [parse_grouping(one) if isinstance(one, str) else one for one in by]
        self.macro, self.weight = macro, weight
        self._settled = {(weight.weighting, weight.fewest_candidates): weight for weight in settled}
        self.tie, self.at = Tie(tie), None if at is None else End(at)
        unfit = [str(m) for m in self.metrics if isinstance(m, DistributionMetric)]
        if self.tie is Tie.expected and unfit:
            raise UsageError(f"`tie='expected'` is not available for {', '.join(unfit)}", remedy="use `tie='mean'`")
        self.reset()

    def reset(self) -> None:
        """Remove everything that was added."""
        terms: dict[CubeKey, dict[Term, None]] = {}
        for metric in self.metrics:
            terms.setdefault(self._cube_key(metric), {}).update(dict.fromkeys(metric.terms))
        slices = 1 + len(self.by) + (self.macro is not None)
        self._cubes = {key: Cube(slices, key, tuple(own)) for key, own in terms.items()}
        self.weighs = False
        """Whether any query had a sample weight above 0."""

    def _cube_key(self, metric: Metric) -> CubeKey:
        weighting = metric.weighting if isinstance(metric, MeanMetric) else None
        settled = self._settled.get((weighting, metric.fewest_candidates)) if weighting else None
        return CubeKey(() if settled else metric.columns, metric.fewest_candidates, settled)

    def update(self, ranks: Ranks) -> None:
        """Add the queries of a table."""
        refuse_estimates(ranks)
        if self.at is None:
            refuse_intervals(ranks)
        intervals = ranks.intervals
        ranks = ranks if self.at is None else self.at.of(ranks)
        slices, (sample_weight, scale) = self._slices(ranks), self._sample_weight(ranks)
        values = query_values(ranks, self.tie)
        parts: list[tuple[Cube, list[Floats], Flags, Floats, list[Floats]]] = []
        for cube in self._cubes.values():
            counted = ranks.candidates >= cube.key.fewest_candidates
            weight = np.where(counted, sample_weight, 0.0)
            if cube.key.settled is not None:
                columns = cube.key.settled.weighting.columns
                weight[counted] *= cube.key.settled({name: read_column(ranks, name, counted) for name in columns})
            keys = [*slices, scale, *(_key(ranks, column, self.tie) for column in cube.key.columns)]
            parts.append((cube, keys, counted, weight, [values(*term) for term in cube.terms]))
        self.weighs = self.weighs or bool(sample_weight.any())
        for cube, keys, counted, weight, own in parts:  # only now, so that a refused table changes nothing
            cube.add(keys, counted, intervals, weight, own)

    def merge(self, other: RankAccumulator) -> None:
        """Add the queries of another accumulator with the same settings."""
        if self._settings != other._settings:
            raise UsageError("accumulators with different settings cannot be merged")
        for key, cube in self._cubes.items():
            cube.sums.merge(other._cubes[key].sums)
        self.weighs = self.weighs or other.weighs
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
        return _values(self.scores())

    def scores(self) -> list[Score]:
        """The scores, group by group in ascending order, metric by metric."""
        cubes = [self._cubes[self._cube_key(metric)] for metric in self.metrics]
        found = [s for metric, cube in zip(self.metrics, cubes, strict=True) for s in cube.scores(metric, self.by)]
        return sorted(found, key=lambda score: [natural(name) for name in score.group.values()])

    def _slices(self, ranks: Ranks) -> list[Floats]:
        seed = np.zeros(len(ranks)) if ranks.seed is None else ranks.seed.astype(np.float64)
        macro = [] if self.macro is None else [getattr(ranks, _MACRO[self.macro]).astype(np.float64)]
        return [seed, *(grouping.codes(ranks) for grouping in self.by), *macro]

    def _sample_weight(self, ranks: Ranks) -> tuple[Floats, Floats]:
        """The sample weight of every query, and its scale; see `_scaled`."""
        if self.weight is None:
            return np.ones(len(ranks)), np.zeros(len(ranks))
        try:
            weight = np.asarray(ranks.column(self.weight).to_numpy(), dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"column '{self.weight}' holds weights that are not numbers") from None
        if not (np.isfinite(weight) & (weight >= 0)).all():
            raise DataError(f"column '{self.weight}' holds weights that are negative or not finite")
        return _scaled(weight)


def _key(ranks: Ranks, column: str, tie: Tie) -> Floats:
    return tied_rank(ranks, tie) if column == "rank" else read_column(ranks, column)


def _scaled(weight: Floats) -> tuple[Floats, Floats]:
    """Weights divided by powers of two so that neither their squares nor sums overflow, and these powers' exponents.

    Most weights need no scale; the exponents are multiples of `SCALE`, so that few sums are kept apart.
    """
    _, exponent = np.frexp(weight)
    scale = SCALE * np.rint(np.where(weight > 0, exponent, 0) / SCALE)
    return (weight, scale) if not scale.any() else (np.ldexp(weight, -scale.astype(np.int64)), scale)
