"""Evaluate metrics on rank tables."""

from __future__ import annotations

from collections.abc import Iterable

from kgprobe.aggregate import PopularityWeight, Tie, Weighting, parse_groupings
from kgprobe.aggregate.weights import settle
from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics.accumulator import RankAccumulator, Score, between, read_column
from kgprobe.metrics.catalogue import parse_all
from kgprobe.metrics.metric import MeanMetric, Metric
from kgprobe.ranks import End, RankFile, Ranks, refuse_intervals, validate

_MODERATE_BETA = 5.0


def scores(
    ranks: Ranks | RankFile,
    metrics: str | Metric | Iterable[str | Metric],
    *,
    graph: KnowledgeGraph | None = None,
    by: Iterable[str] = (),
    macro: str | None = None,
    tie: Tie | str = Tie.mean,
    weight: str | None = None,
) -> list[Score]:
    """Evaluate a rank table or file, with groups, seeds and effective sample sizes.

    Where ranks are intervals, so is the value of a metric: it lies between ``low`` and ``high``, which are reached.

    Args:
        ranks: A table, or a file, which is streamed.
        metrics: Names or metric values.
        graph: Where the popularity of the targets comes from; without it, the table's own columns are used.
        by: Groupings such as ``relation``, ``side``, ``popularity:5`` or a label column.
        macro: Average per ``relation``, ``entity`` or ``side`` first.
        tie: How ties are scored: ``mean``, ``expected``, ``optimistic`` or ``pessimistic``.
        weight: A label column with sample weights.

    Example:
        >>> table = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
        ... )
        >>> [(score.group["side"], score.value) for score in scores(table, ["MRR"], by=["side"])]
        [('head', 1.0), ('tail', 0.5)]
    """
    validate(ranks, graph)
    source = ranks if graph is None else ranks.with_popularity(graph.popularity)
    groupings = parse_groupings(by)
    ends = tuple(End) if "worst_rank" in source.column_names else (End.best,)
    if len(ends) > 1:
        _refuse_by_rank([*(grouping.name for grouping in groupings), weight])
    for grouping in groupings:
        grouping.learn(source)
    wanted = parse_all(metrics)
    settled = settle(source, filter(None, map(_to_settle, wanted)), read_column)
    accumulators = [
        RankAccumulator(wanted, by=groupings, macro=macro, tie=tie, weight=weight, settled=settled, at=end)
        for end in ends
    ]
    for batch in source.batches():
        for accumulator in accumulators:
            accumulator.update(batch)
    found = [accumulator.scores() for accumulator in accumulators]
    return [between(best, worst) for best, worst in zip(found[0], found[-1], strict=True)]


def _refuse_by_rank(columns: Iterable[str | None]) -> None:
    """Refuse groups and sample weights that change with a rank: the ends of a metric would not be its limits."""
    if named := [column for column in columns if column in ("rank", "worst_rank")]:
        raise UsageError(
            f"ranks that may be intervals neither group nor weigh: {', '.join(named)}",
            remedy="use at_best() or at_worst(), which have exact ranks",
        )


def _to_settle(metric: Metric) -> tuple[Weighting, bool] | None:
    weighting = metric.weighting if isinstance(metric, MeanMetric) else None
    if not isinstance(weighting, PopularityWeight) or not weighting.columns:
        return None
    # A larger beta could leave nothing but zeros beside a heaviest weight that no query has.
    moderate = max(abs(weighting.beta_e), abs(weighting.beta_r)) <= _MODERATE_BETA
    return (weighting, metric.needs_alternatives) if moderate else None


def evaluate(
    ranks: Ranks | RankFile,
    metrics: str | Metric | Iterable[str | Metric],
    *,
    graph: KnowledgeGraph | None = None,
    macro: str | None = None,
    tie: Tie | str = Tie.mean,
    weight: str | None = None,
) -> dict[str, float]:
    """The value of each metric by canonical name; see `scores` for the arguments and for more detail.

    Example:
        >>> table = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
        ... )
        >>> evaluate(table, ["MRR", "Hits@1", "PROBE(alpha=1)"])
        {'MRR': 0.75, 'Hits@1': 0.5, 'PROBE(alpha=1,beta=0)': 0.6875}
    """
    refuse_intervals(ranks)
    found = scores(ranks, metrics, graph=graph, macro=macro, tie=tie, weight=weight)
    return {str(score.metric): score.value for score in found}
