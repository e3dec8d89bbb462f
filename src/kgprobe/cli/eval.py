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
from kgprobe.report.grid import Cell, Column, Grid, GridRow, Record, as_text, columns_of, counted, grid_of

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.metrics import Score
    from kgprobe.ranks import End

_LOW_EFFECTIVE_SHARE = 0.05  # below this share of effective queries a score gets a note


def evaluate(
    ranks: console.RanksArgument,
    metric: console.MetricOption = None,
    graph: console.GraphOption = None,
    names: console.NamesOption = None,
    by: console.ByOption = None,
    macro: Annotated[str | None, typer.Option(help="Average per relation, entity or side first.")] = None,
    tie: console.TieOption = Tie.mean,
    at: console.AtOption = None,
    weight: Annotated[str | None, typer.Option(help="Column of the file with a weight for each query.")] = None,
    format: console.FormatOption = console.Format.table,  # noqa: A002
) -> None:
    """Evaluate rank files with any metrics."""
    from kgprobe.comparison.lineup import named_files
    from kgprobe.metrics import DEFAULT_METRICS, parse_all, scores
    from kgprobe.ranks import RankFile

    metrics = parse_all(metric or DEFAULT_METRICS)
    knowledge = console.load(graph, names)

    def evaluated(path: Path) -> tuple[RankFile, list[Score]]:
        with console.watching(path) as progress:
            file = RankFile(path, progress)
            found = scores(file, metrics, graph=knowledge, by=by or [], macro=macro, tie=tie, weight=weight, at=at)
            if all(math.isnan(score.value) and math.isnan(score.low) for score in found):
                raise DataError("no metric has a value", _undefined(found))
            return file, found

    found = dict(result for _, result in console.each_file(ranks, evaluated))
    called = {file: name for name, file in named_files(list(found)).items()}
    rows = [
        {"name": called[file]} | _row(file.path, file.info.model, score, tie, macro, at, knowledge)
        for file, own in found.items()
        for score in own
    ]
    for file, own in found.items():
        _print_notes(called[file], own)
    estimated = {called[file]: file for file in found if file.is_estimated}
    if len(estimated) > 1 and not by:
        console.sampled_order({name: file.read(knowledge) for name, file in estimated.items()}, metrics, tie)
    if format.is_data:
        console.print_rows(console.without(rows, {"name": True}), format)
    else:
        console.print_grid(_grid(rows), format)


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
    if graph is not None and "relation" in group:
        group |= graph.relation_columns(group["relation"])
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
        "level": score.level,
        "sample": None if score.sample is None else str(score.sample),
        "tie": str(tie),
        "macro": macro,
        "at": None if at is None else str(at),
        "note": score.note,
        "reason": score.reason,
    }


_OF_SCORES = (
    *("name", "ranks", "model", "metric", "value", "low", "high", "std", "seeds", "queries", "effective"),
    *("left_out", "intervals", "level", "sample", "tie", "macro", "at", "note", "reason"),
)


def _grid(rows: Sequence[Record]) -> Grid:
    """A table with a line for each model and group, and a column for each metric; of one model, a line each metric."""
    groups = [key for key in columns_of(rows) if key not in _OF_SCORES]
    if "relation_name" in groups:
        groups.remove("relation_label")
    lines: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        lines.setdefault((row["name"], *(row.get(key) for key in groups)), []).append(row)
    if len(lines) == 1:
        grid = grid_of([{"model": row["name"], "metric": row["metric"]} for row in rows])
        columns = (*grid.columns, Column(("value",), numeric=True))
        cells = [(*line.cells, _cell(row)) for line, row in zip(grid.lines, rows, strict=True)]
    else:
        metrics = list(dict.fromkeys(row["metric"] for row in rows))
        keys = [dict(zip(("model", *groups), key, strict=True)) for key in lines]
        if len({row["queries"] for row in rows}) > 1:
            most = [max(row["queries"] for row in own) for own in lines.values()]
            keys = [key | {"queries": number} for key, number in zip(keys, most, strict=True)]
        grid = grid_of(keys)
        columns = (*grid.columns, *(Column((metric,), numeric=True) for metric in metrics))
        found = [{row["metric"]: _cell(row) for row in own} for own in lines.values()]
        cells = [
            (*line.cells, *(own.get(metric, Cell("")) for metric in metrics))
            for line, own in zip(grid.lines, found, strict=True)
        ]
    return Grid(
        columns, tuple(map(GridRow, cells)), tuple(_constants(rows)), keys=1 + (len(groups) if len(lines) > 1 else 1)
    )


def _cell(row: Record) -> Cell:
    if row["level"] is not None and row["low"] < row["high"]:
        return Cell(f"{as_text(row['value'])} [{as_text(row['low'])}, {as_text(row['high'])}]")
    if row["low"] < row["high"]:
        return Cell(f"{as_text(row['low'])} to {as_text(row['high'])}")
    digits = "," + (".4f" if abs(row["value"]) < 1e6 else ".4g")
    return Cell(as_text(row["value"]), deviation="" if row["std"] is None else format(row["std"], digits))


def _constants(rows: Sequence[Record]) -> Iterator[str]:
    """What all values of a table share, and the effective sample sizes of the metrics that weight queries."""
    queries, seeds = ({row[key] for row in rows} for key in ("queries", "seeds"))
    of_one = "" if len({row["name"] for row in rows}) == 1 else " of each model"
    if len(queries) == 1:
        yield f"{counted(max(queries), 'query', 'queries')}{' in each row' if len(rows) > 1 else ''}"
    if max(seeds) > 1:
        runs = counted(max(seeds), "training run") if len(seeds) == 1 else "Several training runs"
        yield f"{runs}{of_one}; \N{PLUS-MINUS SIGN} is the standard deviation over them"
    for metric in dict.fromkeys(row["metric"] for row in rows):
        shares = [row["effective"] / row["queries"] for row in rows if row["metric"] == metric and row["queries"]]
        if shares and min(shares) < 0.995:
            low, high = (f"{100 * share:.2g}" for share in (min(shares), max(shares)))
            span = low if low == high else f"{low} to {high}"
            yield f"{metric}: effective sample size {span} % of the queries"
    if levels := {row["level"] for row in rows if row["level"] is not None}:
        yield f"In [brackets]: {100 * max(levels):g} % intervals for the sampling of candidates"
    if unknown := max(row["intervals"] for row in rows):
        yield f"Ranks of up to {counted(unknown, 'query', 'queries')} are intervals, so that some values are"
    settings = [("Ties", row["tie"]) for row in rows if row["tie"] != Tie.mean]
    settings += [("Macro average by", row["macro"]) for row in rows if row["macro"]]
    settings += [("Ranks that are intervals are taken at their", row["at"]) for row in rows if row["at"]]
    yield from dict.fromkeys(f"{name} {value}" for name, value in settings)


def _left_out(scores: Sequence[Score]) -> Iterator[str]:
    """What the values leave out, a sentence for each kind of queries, macro groups and training runs."""
    for fewest in sorted({score.metric.fewest_candidates for score in scores if score.left_out}):
        own = [score for score in scores if score.metric.fewest_candidates == fewest]
        metrics = ", ".join(dict.fromkeys(str(score.metric) for score in own))
        yield (
            f"{'candidate-size-aware metrics' if fewest == 2 else metrics} leave out "
            f"{counted(max(score.left_out for score in own), 'query', 'queries')} with {own[0].metric.left_out}"
        )
    if cells := max((score.empty_cells for score in scores), default=0):
        yield f"the macro average leaves out {cells:,} groups without any weight"
    if seeds := max((score.empty_seeds for score in scores), default=0):
        yield f"the mean over seeds leaves out {seeds:,} training runs without any weight"


def _undefined(scores: Sequence[Score]) -> list[str]:
    """The metrics whose value is undefined or infinite, with the reason, and in how many groups."""
    reasons = Counter((score.metric, score.reason) for score in scores if score.reason and not score.is_range)
    groups = len({tuple(score.group.items()) for score in scores})
    return [
        f"{metric} is undefined{f' in {count:,} of {groups:,} groups' if groups > 1 else ''}: {reason}"
        for (metric, reason), count in reasons.items()
    ]


def _print_notes(name: str, scores: Sequence[Score]) -> None:
    for line in [*_left_out(scores), *_undefined(scores)]:
        console.note(f"{name}: {line}")
    if scores and scores[0].sample is not None:
        console.note(f"{name}: {scores[0].sample.warning}")
    if any(score.is_range for score in scores):
        console.note(f"{name}: some ranks are intervals; the exact value lies between low and high")
    for score in scores:
        if not score.group and score.effective < _LOW_EFFECTIVE_SHARE * score.queries:
            console.note(
                f"{name}: {score.metric} has an effective sample size of {score.effective:,.0f} of {score.queries:,}"
            )
