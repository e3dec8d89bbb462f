"""``kgprobe compare``: values with confidence intervals, and paired tests of the differences between models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.cli import console
from kgprobe.comparison.pair_tests import Correction
from kgprobe.errors import UsageError
from kgprobe.files import refuse_overwriting, replacing
from kgprobe.report.grid import Record, as_text, counted

if TYPE_CHECKING:
    from kgprobe.comparison.results import Difference
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.metrics import Metric
    from kgprobe.ranks import Ranks
    from kgprobe.report.comparison_report import Report

_MOST_NOTES = 12


def compare(
    ranks: console.RanksArgument,
    metric: console.MetricOption = None,
    graph: console.GraphOption = None,
    names: console.NamesOption = None,
    by: console.ByOption = None,
    cluster: console.ClusterOption = console.Cluster.triple,
    level: Annotated[float, typer.Option(help="Confidence level of intervals and tests.")] = 0.95,
    replicates: Annotated[
        int, typer.Option(max=console.MOST_DRAWS, help="Bootstrap draws for the intervals.")
    ] = 10_000,
    permutations: Annotated[int, typer.Option(max=console.MOST_DRAWS, help="Permutations for the p-values.")] = 10_000,
    seeds: console.SeedsOption = None,
    correction: Annotated[
        Correction,
        typer.Option(
            help="Correction for multiple testing over all pairs of models, for each metric by itself; max-t gives "
            "simultaneous intervals."
        ),
    ] = Correction.max_t,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also show the differences of all pairs.")] = False,
    intervals: Annotated[bool, typer.Option("--intervals", help="Show the confidence interval of each value.")] = False,
    letters: Annotated[
        bool,
        typer.Option(
            "--letters", help="Mark each value with the letters of the models that it is significantly better than."
        ),
    ] = False,
    common: console.CommonOption = False,
    exclude_flagged: console.ExcludeFlaggedOption = False,
    allow_different_candidates: console.DifferentCandidatesOption = False,
    at: console.AtOption = None,
    tie: console.TieOption = Tie.mean,
    seed: console.DrawOption = 0,
    format: console.FormatOption = console.Format.table,  # noqa: A002
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to a file instead: .html, .md, .tex, .csv, .json or .txt."
        ),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="LaTeX without colours: it needs only booktabs.")] = False,
    caption: Annotated[str | None, typer.Option(metavar="TEXT", help="Caption of the LaTeX table.")] = None,
    label: Annotated[str | None, typer.Option(metavar="NAME", help="Label of the LaTeX table.")] = None,
) -> None:
    """Compare models on the same queries: confidence intervals, paired differences and significance tests."""
    from kgprobe.metrics import parse_all
    from kgprobe.report import comparison_report as reports

    metrics = parse_all(metric) if metric else None
    in_latex = format is console.Format.latex if output is None else output.suffix.lower() == ".tex"
    of_latex = {"--plain": plain, "--caption": caption is not None, "--label": label is not None}
    if not in_latex and (unused := [option for option, given in of_latex.items() if given]):
        raise UsageError(f"{', '.join(unused)}: only for LaTeX", remedy="add -o table.tex or --format latex")
    if output is not None:
        refuse_overwriting([output], [*ranks, *console.graph_inputs(graph, names)])
        reports.require_writing(output)
    knowledge = console.load(graph, names)
    tables, files = console.read_models(ranks, knowledge)
    if len(tables) > 1 and all(table.is_estimated for table in tables.values()):
        if output is not None:
            title = "-o is not available for ranks that are estimates from a sample of candidates"
            raise UsageError(
                title, remedy="write the table of standard output to a file, for example with --format csv"
            )
        _print_sampled(tables, metrics, knowledge, tie, format)
        return
    with console.counting("comparing", 100, "%") as bar:
        progress = console.announcing("comparing", 100, "fewer --replicates and --permutations take less", bar)
        compared = reports.compare(
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
            exclude_flagged=exclude_flagged,
            allow_different_candidates=allow_different_candidates,
            at=at,
            seed=seed,
            progress=lambda share: progress(100 * share),
        )
    report = replace(compared, files=files).with_style(intervals=intervals or len(files) == 1, letters=letters)
    latex = report.to_latex(caption=caption, label=label, plain=plain) if in_latex else ""
    if output is not None:
        if in_latex:
            with replacing(output) as temporary:
                temporary.write_text(latex, encoding="utf-8", newline="\n")
        else:
            report.write(output)
        console.note(f"wrote {output}")
    else:
        _print(report, format, pairs, latex)
    if output is not None or format.is_data:  # other tables have these remarks among their notes
        for remark in report.remarks:
            console.note(remark)
    console.audit_hints(report.lineup, allow_different_candidates)


def _print_sampled(
    tables: Mapping[str, Ranks],
    metrics: Sequence[Metric] | None,
    graph: KnowledgeGraph | None,
    tie: Tie,
    format: console.Format,  # noqa: A002
) -> None:
    """The differences of models whose ranks are estimates from samples of candidates."""
    from kgprobe.comparison.sampled_differences import sampled_differences
    from kgprobe.metrics import DEFAULT_METRICS

    known = tables if graph is None else {name: own.with_popularity(graph.popularity) for name, own in tables.items()}
    differences = sampled_differences(known, metrics or DEFAULT_METRICS, tie)
    console.print_rows([difference.to_row() for difference in differences], format)
    for name, table in tables.items():
        if table.info.sample is not None:
            console.note(f"{name}: {table.info.sample.warning}")
    console.note("Queries are fixed: intervals are for the sampling of candidates alone, pair by pair.")
    for difference in differences:
        if not difference.settled:
            console.note(str(difference))


def _print(report: Report, format: console.Format, pairs: bool, latex: str) -> None:  # noqa: A002
    if format.is_data:
        console.print_rows(report.to_rows(), format)
        return
    if format is console.Format.table:
        console.print_terminal(report.grid)
    else:
        print(latex or report.to_markdown(), end="")
    if pairs and report.comparison.differences:
        print()
        console.print_rows(_pairs(report), format)
    elif not pairs:
        for line in _leads(report):
            console.note(line)


def _pairs(report: Report) -> list[Record]:
    """Differences without the columns that are constant or explained in the notes."""
    hidden = {"kind", "level", "method", "remark", "reason", "correction", "tests", "p_holm", "p_bh"}
    rows = [row for row in report.to_rows() if row["kind"] == "difference"]
    hidden |= {name for name in ("trusted", "tested") if all(row[name] for row in rows)}
    if all(row["least"] == row["most"] for row in rows):
        hidden |= {"least", "most"}
    return [{key: value for key, value in row.items() if key not in hidden} for row in rows]


def _leads(report: Report) -> Iterator[str]:
    """For each metric, the difference between the best model and the second best."""
    from kgprobe.comparison.unknown_ranks import verdicts
    from kgprobe.report.comparison_table import group_text, question

    if len(report.standings) > _MOST_NOTES:
        yield f"--pairs shows the differences of {counted(len(report.comparison.differences), 'pair')} of models"
        return
    yield from verdicts(report.comparison)
    for difference in (one for one in report.comparison.differences if one.unknown is None):
        standings = report.standings[question(difference)]
        order = sorted(filter(lambda model: standings[model].place, standings), key=lambda m: standings[m].place or 0)
        if {difference.first, difference.second} == set(order[:2]):
            asked = ", ".join(filter(None, [str(difference.metric), group_text(tuple(difference.group.items()))]))
            *others, last = [model for model in order if standings[model].place == 1]
            if others:
                first = ", ".join(map(report.lineup.named, others))
                yield f"{asked}: {first} and {report.lineup.named(last)} share the first place"
            else:
                yield f"{asked}: {_lead(report, difference, order[0])}"


def _lead(report: Report, difference: Difference, best: str) -> str:
    second = difference.second if best == difference.first else difference.first
    higher = difference.metric.higher_is_better
    sign = 1 if (best == difference.first) == higher else -1
    lead = f"{as_text(sign * difference.value)} {'higher' if higher else 'lower'} than {second}"
    scores = f"{report.lineup.named(best)} scores {lead}"
    if not difference.tested:
        return f"{scores}: not tested, because {difference.reason}"
    low, high = sorted(sign * limit for limit in (difference.interval.low, difference.interval.high))
    settings = report.comparison.settings
    p = "p" if settings.correction is Correction.none else "adjusted p"
    interval = f"{settings.correction.interval_name} {as_text(low)} to {as_text(high)}"
    return (
        f"{scores} ({100 * settings.level:g} % {interval}, "
        f"{p} {_p_text(difference.adjusted)}): {'significant' if difference.significant else 'not significant'}"
    )


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else as_text(p)
