"""``kgprobe eval``: metrics of rank files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.cli import console
from kgprobe.errors import DataError
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.metrics import Score
    from kgprobe.ranks import End

DEFAULT_METRICS = ["PROBE(alpha=1,beta=0)", "PROBE(alpha=0,beta=0)", "MRR", "Hits@1", "Hits@3", "Hits@10", "MR", "AMRI"]
_LOW_EFFECTIVE_SHARE = 0.05  # below this share of effective queries a score gets a note


def evaluate(
    ranks: console.RanksArgument,
    metric: console.MetricOption = None,
    graph: console.GraphOption = None,
    by: console.ByOption = None,
    macro: Annotated[str | None, typer.Option(help="Average per relation, entity or side first.")] = None,
    tie: console.TieOption = Tie.mean,
    at: console.AtOption = None,
    weight: Annotated[str | None, typer.Option(help="Column of the file with a weight for each query.")] = None,
    format: console.FormatOption = console.Format.table,  # noqa: A002
) -> None:
    """Evaluate rank files with any metrics."""
    from kgprobe.metrics import parse_all, scores
    from kgprobe.ranks import RankFile

    metrics = parse_all(metric or DEFAULT_METRICS)
    knowledge = console.load(graph)

    def evaluated(path: Path) -> tuple[str | None, list[Score]]:
        with console.watching(path) as progress:
            file = RankFile(path, progress)
            found = scores(file, metrics, graph=knowledge, by=by or [], macro=macro, tie=tie, weight=weight, at=at)
            if all(math.isnan(score.value) and math.isnan(score.low) for score in found):
                raise DataError("no metric has a value", _undefined(found))
            return file.info.model, found

    rows: list[Record] = []
    for path, (model, found) in console.each_file(ranks, evaluated):
        rows += [_row(path, model, score, tie, macro, at, knowledge) for score in found]
        _print_notes(path, found)
    console.print_rows(rows if format.is_data else _shortened(rows), format)


def _row(
    path: Path,
    model: str | None,
    score: Score,
    tie: Tie,
    macro: str | None,
    at: End | None,
    graph: KnowledgeGraph | None,
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
        "at": None if at is None else str(at),
        "note": score.note,
        "reason": score.reason,
    }


def _shortened(rows: list[Record]) -> list[Record]:
    """Rows without columns that hold the default everywhere, and with a rounded number of effective queries."""
    exact = not any(row["low"] < row["high"] for row in rows)
    hidden = {
        "low": exact,
        "high": exact,
        "intervals": all(row["intervals"] == 0 for row in rows),
        "ranks": len({row["ranks"] for row in rows}) == len({row["model"] for row in rows}),
        "std": all(row["std"] is None for row in rows),
        "seeds": all(row["seeds"] == 1 for row in rows),
        "left_out": all(row["left_out"] == 0 for row in rows),
        "tie": all(row["tie"] == Tie.mean for row in rows),
        "macro": all(row["macro"] is None for row in rows),
        "at": all(row["at"] is None for row in rows),
        "note": True,  # printed below the table
        "reason": True,
    }
    return [row | {"effective": round(row["effective"])} for row in console.without(rows, hidden)]


def _left_out(scores: Sequence[Score]) -> Iterator[str]:
    """What the values leave out, a sentence for each kind of queries, macro groups and training runs."""
    for fewest in sorted({score.metric.fewest_candidates for score in scores if score.left_out}):
        own = [score for score in scores if score.metric.fewest_candidates == fewest]
        metrics = ", ".join(dict.fromkeys(str(score.metric) for score in own))
        yield (
            f"{'candidate-size-aware metrics' if fewest == 2 else metrics} leave out "
            f"{max(score.left_out for score in own):,} queries with {own[0].metric.left_out}"
        )
    if cells := max((score.empty_cells for score in scores), default=0):
        yield f"the macro average leaves out {cells:,} groups without any weight"
    if seeds := max((score.empty_seeds for score in scores), default=0):
        yield f"the mean over seeds leaves out {seeds:,} training runs without any weight"


def _undefined(scores: Sequence[Score]) -> list[str]:
    """The metrics whose value is undefined or infinite, with the reason, and in how many groups."""
    reasons = Counter((score.metric, score.reason) for score in scores if score.reason and not score.low < score.high)
    groups = len({tuple(score.group.items()) for score in scores})
    return [
        f"{metric} is undefined{f' in {count:,} of {groups:,} groups' if groups > 1 else ''}: {reason}"
        for (metric, reason), count in reasons.items()
    ]


def _print_notes(path: Path, scores: Sequence[Score]) -> None:
    for line in [*_left_out(scores), *_undefined(scores)]:
        console.note(f"{path}: {line}")
    if any(score.low < score.high for score in scores):
        console.note(f"{path}: some ranks are intervals; the exact value lies between low and high")
    for score in scores:
        if not score.group and score.effective < _LOW_EFFECTIVE_SHARE * score.queries:
            console.note(
                f"{path}: {score.metric} has an effective sample size of {score.effective:,.0f} of {score.queries:,}"
            )
