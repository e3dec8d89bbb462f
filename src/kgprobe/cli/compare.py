"""``kgprobe compare``: is one model better than another, or is it noise?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.cli.console import Format, counting, note, print_rows, print_terminal
from kgprobe.cli.options import (
    ByOption,
    Cluster,
    ClusterOption,
    CommonOption,
    DrawOption,
    FormatOption,
    GraphOption,
    MetricOption,
    RanksArgument,
    SeedsOption,
    TieOption,
    load,
    read_models,
)
from kgprobe.report.grid import Record, as_text

if TYPE_CHECKING:
    from kgprobe.comparison.results import Difference
    from kgprobe.report.comparison_report import Report


_MOST_NOTES = 12

"""More remarks than this are no help."""


class Correction(StrEnum):
    """How p values are corrected for many tests."""

    holm = "holm"
    bh = "bh"


def compare(
    ranks: RanksArgument,
    metric: MetricOption = None,
    graph: GraphOption = None,
    by: ByOption = None,
    cluster: ClusterOption = Cluster.triple,
    level: Annotated[float, typer.Option(help="Confidence of intervals and tests.")] = 0.95,
    replicates: Annotated[int, typer.Option(help="How often queries are drawn again for the intervals.")] = 10_000,
    permutations: Annotated[int, typer.Option(help="How often models are swapped for the p values.")] = 10_000,
    seeds: SeedsOption = None,
    correction: Annotated[Correction, typer.Option(help="Correction of p values for many tests.")] = Correction.holm,
    pairs: Annotated[bool, typer.Option("--pairs", help="Show the difference of every two models too.")] = False,
    intervals: Annotated[bool, typer.Option("--intervals", help="Show the interval of every value.")] = False,
    letters: Annotated[
        bool, typer.Option("--letters", help="Raise the letters of the models that each is better than.")
    ] = False,
    common: CommonOption = False,
    tie: TieOption = Tie.mean,
    seed: DrawOption = 0,
    format: FormatOption = Format.table,  # noqa: A002
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write .html, .md, .tex, .csv, .json or .txt instead."),
    ] = None,
) -> None:
    """Compare models on the same queries: intervals, paired differences, and which are beyond noise."""
    from kgprobe.comparison.lineup import named_files
    from kgprobe.metrics import parse_all
    from kgprobe.report import comparison_report as reports
    from kgprobe.report.comparison_report import require_writing

    metrics = parse_all(metric) if metric else None
    if output is not None:
        require_writing(output)
    knowledge = load(graph)
    tables = read_models(ranks)
    with counting("comparing", 100, "%") as progress:
        made = reports.compare(
            tables,
            metrics,
            graph=knowledge,
            by=by or [],
            cluster=cluster,
            level=level,
            replicates=replicates,
            permutations=permutations,
            seeds=seeds,
            correction=correction,
            tie=tie,
            common=common,
            seed=seed,
            progress=progress and (lambda share: progress(100 * share)),
        )
    files = {name: str(file.path) for name, file in named_files(ranks).items()}
    report = replace(made, files=files).with_style(intervals=intervals or len(files) == 1, letters=letters)
    if output is not None:
        report.write(output)
        note(f"wrote {output}")
    else:
        _print(report, format, pairs)
    if output is not None or format in (Format.json, Format.csv):  # other tables have remarks among their notes
        for remark in report.remarks:
            note(remark)


def _print(report: Report, format: Format, pairs: bool) -> None:  # noqa: A002
    if format in (Format.json, Format.csv):
        print_rows(report.to_rows(), format)
        return
    if format is Format.table:
        print_terminal(report.grid)
    else:
        print(report.to_latex() if format is Format.latex else report.to_markdown(), end="")
    if pairs and report.comparison.differences:
        print()
        print_rows(_pairs(report), format)
    elif not pairs:
        for line in _leads(report):
            note(line)


def _pairs(report: Report) -> list[Record]:
    """Differences without what is the same in all of them or is said in the notes."""
    hidden = {"kind", "level", "method", "remark"}
    rows = [row for row in report.to_rows() if row["kind"] == "difference"]
    if all(row["trusted"] for row in rows):
        hidden.add("trusted")
    return [{key: value for key, value in row.items() if key not in hidden} for row in rows]


def _leads(report: Report) -> Iterator[str]:
    """For every metric, how far the best model is ahead of the second best."""
    from kgprobe.report.standings import question

    if len(report.standings) > _MOST_NOTES:
        yield f"--pairs shows {len(report.comparison.differences):,} differences of two models"
        return
    for difference in report.comparison.differences:
        standings = report.standings[question(difference)]
        order = sorted(filter(lambda model: standings[model].place, standings), key=lambda m: standings[m].place or 0)
        if {difference.first, difference.second} == set(order[:2]):
            equal = [model for model in order if standings[model].place == 1]
            yield _shared(difference, equal) if len(equal) > 1 else _lead(report, difference, order[0])


def _shared(difference: Difference, equal: Sequence[str]) -> str:
    *others, last = equal
    return f"{_asked(difference)}: {', '.join(others)} and {last} share the first place"


def _asked(difference: Difference) -> str:
    return str(difference.metric) + "".join(f", {key} {value}" for key, value in difference.group.items())


def _lead(report: Report, difference: Difference, best: str) -> str:
    from kgprobe.report.standings import beyond_noise

    second = difference.second if best == difference.first else difference.first
    ahead = 1 if (best == difference.first) == difference.metric.higher_is_better else -1
    low, high = sorted(ahead * limit for limit in (difference.interval.low, difference.interval.high))
    noise = "beyond" if beyond_noise(difference, report.correction, report.comparison.settings.level) else "within"
    return (
        f"{_asked(difference)}: {best} is ahead of {second} by {as_text(ahead * difference.value)} "
        f"[{as_text(low)}, {as_text(high)}], corrected p {as_text(getattr(difference, report.correction))}: "
        f"{noise} noise"
    )
