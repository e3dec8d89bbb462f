"""``kgprobe eval``: metrics of rank files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.cli.console import Format, note, print_rows, watching
from kgprobe.cli.options import (
    ByOption,
    FormatOption,
    GraphOption,
    MetricOption,
    RanksArgument,
    TieOption,
    each_file,
    load,
)
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.metrics import Metric, Score


DEFAULT_METRICS = ["PROBE(alpha=1,beta=0)", "PROBE(alpha=0,beta=0)", "MRR", "Hits@1", "Hits@3", "Hits@10", "MR", "AMRI"]

_FEW = 0.05

"""Below this share of effective queries a score deserves a remark."""


def evaluate(
    ranks: RanksArgument,
    metric: MetricOption = None,
    graph: GraphOption = None,
    by: ByOption = None,
    macro: Annotated[str | None, typer.Option(help="Average per relation, entity or side first.")] = None,
    tie: TieOption = Tie.mean,
    weight: Annotated[str | None, typer.Option(help="A column of the file with a weight for each query.")] = None,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Evaluate rank files by any metrics."""
    from kgprobe.metrics import parse_all

    metrics = parse_all(metric or DEFAULT_METRICS)
    knowledge = load(graph)
    rows: list[Record] = []
    for path, found in each_file(ranks, lambda path: _evaluate(path, metrics, knowledge, by or [], macro, tie, weight)):
        model, scores = found
        rows += [_row(path, model, score, tie, macro, knowledge) for score in scores]
        _remark(path, scores)
    print_rows(_for_people(rows) if format in (Format.table, Format.markdown, Format.latex) else rows, format)


def _evaluate(
    path: Path,
    metrics: Sequence[Metric],
    graph: KnowledgeGraph | None,
    by: Sequence[str],
    macro: str | None,
    tie: Tie,
    weight: str | None,
) -> tuple[str | None, list[Score]]:
    from kgprobe.metrics import scores
    from kgprobe.ranks import RankFile

    with watching(path) as progress:
        file = RankFile(path, progress)
        return file.info.model, scores(file, metrics, graph=graph, by=by, macro=macro, tie=tie, weight=weight)


def _row(
    path: Path, model: str | None, score: Score, tie: Tie, macro: str | None, graph: KnowledgeGraph | None
) -> dict[str, Any]:
    group = dict(score.group)
    if graph is not None and graph.relation_labels is not None and "relation" in group:
        group["relation_label"] = graph.relation_label([group["relation"]])[0]
    return {
        "ranks": str(path),
        "model": model,
        **group,
        "metric": str(score.metric),
        "value": score.value,
        "low": score.low,
        "high": score.high,
        "std": score.std,
        "seeds": score.seeds,
        "queries": score.queries,
        "effective": score.effective,
        "left_out": score.left_out,
        "intervals": score.intervals,
        "tie": str(tie),
        "macro": macro,
    }


def _for_people(rows: list[Record]) -> list[Record]:
    """Without what says nothing: columns that are the same everywhere and known, digits of effective queries."""
    settled = not any(row["low"] < row["high"] for row in rows)
    uninteresting = {
        "low": settled,
        "high": settled,
        "intervals": all(row["intervals"] == 0 for row in rows),
        "ranks": len({row["ranks"] for row in rows}) == len({row["model"] for row in rows}),
        "std": all(row["std"] is None for row in rows),
        "seeds": all(row["seeds"] == 1 for row in rows),
        "left_out": all(row["left_out"] == 0 for row in rows),
        "tie": all(row["tie"] == Tie.mean for row in rows),
        "macro": all(row["macro"] is None for row in rows),
    }
    kept = [{key: value for key, value in row.items() if not uninteresting.get(key, False)} for row in rows]
    rounded = [{"effective": round(row["effective"]) if math.isfinite(row["effective"]) else None} for row in rows]
    return [row | whole | _blanks(row) for row, whole in zip(kept, rounded, strict=True)]


def _blanks(row: Record) -> dict[str, None]:
    """Nothing, where intervals leave nothing to say."""
    columns = [column for column in ("value", "low", "high") if column in row and row.get("intervals")]
    return {column: None for column in columns if math.isnan(row[column])}


def _remark(path: Path, scores: Sequence[Score]) -> None:
    if left_out := max((score.left_out for score in scores), default=0):
        note(f"{path}: {left_out:,} queries with a single candidate are left out of candidate-size-aware metrics")
    if any(score.low < score.high for score in scores):
        note(f"{path}: some ranks are intervals; a value that they leave open lies between low and high")
    for metric in dict.fromkeys(score.metric for score in scores if score.intervals):
        if not metric.facts.monotone:
            note(f"{path}: {metric} has no value where ranks are intervals: a worse rank may raise it or lower it")
    for score in scores:
        if not score.group and score.effective < _FEW * score.queries:
            note(f"{path}: {score.metric} rests on {score.effective:,.0f} effective of {score.queries:,} queries")
