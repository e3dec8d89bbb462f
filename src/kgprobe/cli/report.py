"""``kgprobe report``: rank files as one page to look at."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import counting, note
from kgprobe.cli.options import CommonOption, GraphOption, RanksArgument, load, read_models
from kgprobe.cli.rules import require_models
from kgprobe.errors import UsageError

if TYPE_CHECKING:
    from kgprobe.audit import Finding
    from kgprobe.comparison import Lineup
    from kgprobe.comparison.results import Comparison
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.metrics import Metric
    from kgprobe.openworld import Bench
    from kgprobe.ranks import Ranks
    from kgprobe.report.page.entries import Reasons
    from kgprobe.report.page.payload import About


_MOST_QUERIES = 300_000

_SKIPPED = "Other metrics and their tests are left out, for so many queries take minutes: ask for them with --metric."

_FEW_MODELS, _FEW_QUERIES = 6, 100_000

"""Beyond these only the best model of every metric is tested against the others."""

_LEAST_DRAWS, _MOST_DRAWS = 1_000, 10_000

_MOST_PRODUCTS = 2_500_000_000

"""Replicates times queries times pairs of models: a few seconds for all metrics."""

_SWAPS_PER_TEST = 40

"""The smallest p value that so many random swaps can give stays below 0.025 when it is corrected for all tests."""


def report(
    ranks: RanksArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The page to write (.html), or its table as .md, .tex, .csv, .json or .txt.",
            show_default=False,
        ),
    ],
    graph: GraphOption = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What stands at its head.")] = "kgprobe report",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="Metrics whose differences are tested; 'kgprobe metrics' lists all. May be repeated."
        ),
    ] = None,
    common: CommonOption = False,
    level: Annotated[float, typer.Option(help="Confidence of intervals and tests.")] = 0.95,
    replicates: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How often queries are drawn, and models swapped, for the tested metrics.",
            show_default=f"{_LEAST_DRAWS:,} to {_MOST_DRAWS:,}",
        ),
    ] = None,
    open_world: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Show what missing facts do to the order of models, from folders that 'kgprobe openworld evaluate' "
            "wrote. May be repeated.",
            show_default=False,
        ),
    ] = None,
    rules: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="Show which rules put answers at their ranks, from runs of models of rules whose rank files are here. "
            "May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write one page to explore rank files with: it works offline and computes every score itself.

    It has sliders for alpha and beta, the decision map, intervals, rank histograms, groups, all queries, tested
    differences, the audit's findings, and the protocol.
    """
    from kgprobe.audit import check
    from kgprobe.comparison.lineup import line_up, named_files
    from kgprobe.metrics import parse_all
    from kgprobe.report.comparison_report import ending_of, require_writing
    from kgprobe.report.page.payload import About

    require_writing(output)
    is_page = ending_of(output) == ".html"
    for given, what in ((open_world, "the open world"), (rules, "the rules behind ranks")):
        if given and not is_page:
            raise UsageError(f"only a page shows {what}", remedy="end the name of the file in .html")
    metrics = parse_all(metric) if metric else None
    knowledge = load(graph)
    tables = read_models(ranks)
    lineup = line_up(tables, graph=knowledge, common=common)
    reasons = _reasons(rules or [], tables, lineup, knowledge)
    skipped = is_page and len(lineup) > _MOST_QUERIES and metrics is None and replicates is None
    about = About(
        title=title,
        command=shlex.join(["kgprobe", *sys.argv[1:]]),
        written=date.today().isoformat(),
        level=level,
        graph=knowledge,
        files={name: str(file.path) for name, file in named_files(ranks).items()},
        comparison=None if skipped else _compared(lineup, metrics, level, replicates),
        findings=check(tables, knowledge),
        notes=[_SKIPPED] if skipped else [],
        benches=_benches(open_world or []),
        reasons=reasons,
    )
    for remark in (_write_page if is_page else _write_table)(output, lineup, tables, about):
        note(remark)
    _remark(about.findings)
    print(output)


def _benches(folders: Sequence[Path]) -> dict[str, Bench]:
    if not folders:
        return {}
    from kgprobe.openworld import read_bench
    from kgprobe.openworld.benches import find_pairs

    with counting("evaluating", len(find_pairs(folders)), "checkpoints") as progress:
        return read_bench(folders, progress=progress)


def _reasons(
    runs: Sequence[Path], tables: Mapping[str, Ranks], lineup: Lineup, graph: KnowledgeGraph | None
) -> list[Reasons]:
    """Why the models of these runs answer as they do."""
    if not runs:
        return []
    for run in runs:
        require_models(run)
    from kgprobe.models.rules.explanations import Explainer
    from kgprobe.report.page.entries import explain_queries, explained_rows
    from kgprobe.train.trained_models import rule_runs

    found = rule_runs(runs, tables, graph)
    with counting("explaining", len(found) * len(explained_rows(lineup)), "queries") as progress:
        return [
            explain_queries(lineup, name, run.seed, Explainer(run.scorer, run.graph), progress)
            for name, run in found.items()
        ]


def _write_page(path: Path, lineup: Lineup, tables: Mapping[str, Ranks], about: About) -> list[str]:
    from kgprobe.report.page.page_file import write_page

    return write_page(path, lineup, about)


def _write_table(path: Path, lineup: Lineup, tables: Mapping[str, Ranks], about: About) -> list[str]:
    from kgprobe.report.comparison_report import Report

    assert about.comparison is not None
    report = Report(about.comparison, lineup, tables, about.graph, files=about.files)
    report.write(path)
    return report.remarks


def _compared(lineup: Lineup, asked: list[Metric] | None, level: float, replicates: int | None) -> Comparison:
    from kgprobe.comparison.model_comparison import compare_models
    from kgprobe.report.comparison_report import default_metrics

    metrics = asked or default_metrics(lineup)
    models = len(lineup.models)
    few = models <= _FEW_MODELS and len(lineup) <= _FEW_QUERIES
    tests = len(metrics) * (models * (models - 1) // 2 if few else models - 1)
    products = len(lineup) * models * (models + 1) // 2
    drawn = _moderate(_MOST_PRODUCTS // products) if replicates is None else replicates
    swapped = _moderate(_SWAPS_PER_TEST * tests) if replicates is None else replicates
    with counting("testing differences", drawn + swapped, "draws") as progress:
        return compare_models(
            lineup,
            metrics,
            level=level,
            replicates=drawn,
            permutations=swapped,
            pairs="all" if few else "best",
            progress=progress,
        )


def _moderate(number: int) -> int:
    return min(max(number, _LEAST_DRAWS), _MOST_DRAWS)


def _remark(findings: Sequence[Finding]) -> None:
    if unclean := sum(finding.unclean for finding in findings):
        found = "1 finding" if unclean == 1 else f"{unclean} findings"
        note(f"the audit has {found}: see 'kgprobe check'")
