"""``kgprobe report``: an interactive HTML page, or a table, of rank files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kgprobe.cli.console import (
    MOST_DRAWS,
    AtOption,
    CommonOption,
    DifferentCandidatesOption,
    ExcludeFlaggedOption,
    GraphOption,
    NamesOption,
    RanksArgument,
    announcing,
    audit_hints,
    counting,
    graph_inputs,
    load,
    note,
    rank_files_below,
    read_models,
    shareable_command,
)
from kgprobe.cli.rules import require_models
from kgprobe.errors import UsageError
from kgprobe.files import refuse_overwriting
from kgprobe.report.grid import counted

if TYPE_CHECKING:
    from kgprobe.comparison import Lineup
    from kgprobe.comparison.results import Comparison
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.openworld import Bench
    from kgprobe.ranks import End, Ranks
    from kgprobe.report.comparison_report import PageTests
    from kgprobe.report.page.entries import Reasons

_SKIPPED = "Other metrics and their tests are skipped, because there are so many queries. Request them with --metric."


def report(
    ranks: RanksArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Page to write (.html), or its table as .md, .tex, .csv, .json or .txt.",
        ),
    ],
    graph: GraphOption = None,
    names: NamesOption = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the page.")] = "kgprobe report",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="Metric to test differences on; 'kgprobe metrics' lists all. May be repeated."
        ),
    ] = None,
    common: CommonOption = False,
    exclude_flagged: ExcludeFlaggedOption = False,
    allow_different_candidates: DifferentCandidatesOption = False,
    at: AtOption = None,
    level: Annotated[float, typer.Option(help="Confidence level of intervals and tests.")] = 0.95,
    replicates: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            max=MOST_DRAWS,
            help="Bootstrap draws, and permutations, for the tested metrics.",
            show_default="1,000 to 10,000",
        ),
    ] = None,
    open_world: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Add the open-world results of a folder that 'kgprobe openworld evaluate' wrote. May be repeated.",
        ),
    ] = None,
    rules: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="Add the rules behind the ranks of a rule-based model, from the run that wrote its rank file. "
            "May be repeated.",
        ),
    ] = None,
) -> None:
    """Write one self-contained HTML page to explore rank files with; it works offline.

    The page has sliders for alpha and beta, a decision map, confidence intervals, rank histograms, groups, all
    queries, significance tests, the findings of the audit, and the evaluation protocol.
    """
    from kgprobe.audit import audited
    from kgprobe.metrics import parse_all
    from kgprobe.report.comparison_report import PageTests, Report, require_writing
    from kgprobe.report.page.page_file import write_page
    from kgprobe.report.page.payload import About

    inputs = [*ranks, *graph_inputs(graph, names), *(rules or []), *rank_files_below(open_world or [])]
    refuse_overwriting([output], inputs)
    folders = [*([Path(graph)] if graph else []), *(open_world or []), *(rules or [])]
    is_page = require_writing(output) == ".html"
    for added, what in ((open_world, "open-world results (--open-world)"), (rules, "rules (--rules)")):
        if added and not is_page:
            raise UsageError(f"only an HTML page can show {what}", remedy="choose a file name that ends in .html")
    metrics = parse_all(metric) if metric else None
    knowledge = load(graph, names)
    tables, files = _named_by_tail(*read_models(ranks, knowledge))
    found = audited(tables, graph=knowledge, common=common, exclude_flagged=exclude_flagged, at=at, unknown=at is None)
    lineup, allowed = found.lineup, allow_different_candidates
    reasons = _reasons(rules or [], found.tables, lineup, knowledge)
    tests = PageTests.of(lineup, metrics, replicates)
    skipped = is_page and tests.too_many and metrics is None and replicates is None
    about = About(
        title=title,
        command=shareable_command(sys.argv[1:], [*ranks, output, *folders]),
        written=date.today().isoformat(),
        level=level,
        graph=knowledge,
        files=files,
        comparison=None if skipped else _compare(tests, level, allowed),
        findings=found.findings,
        allow_different_candidates=allowed,
        notes=[*([_SKIPPED] if skipped else []), *([] if at is None else _about_ends(found.tables, at))],
        at=at if any(table.has_intervals for table in found.tables.values()) else None,
        benches=_benches(open_world or []),
        reasons=reasons,
    )
    if is_page:
        remarks = write_page(output, lineup, about)
    else:
        assert about.comparison is not None
        table = Report(about.comparison, lineup, found.tables, knowledge, files=files, findings=found.findings)
        table.write(output)
        remarks = table.remarks
    for remark in remarks:
        note(remark)
    if unclean := sum(finding.unclean for finding in about.findings):
        note(f"The audit has {counted(unclean, 'finding')}. Run `kgprobe check` for details.")
    audit_hints(lineup, allowed)
    print(output)


_Table = TypeVar("_Table")


def _named_by_tail(tables: Mapping[str, _Table], files: Mapping[str, str]) -> tuple[dict[str, _Table], dict[str, str]]:
    """Models that are named by their path, because their names are equal, by the shortest end of it that differs."""
    by_path = [name for name in tables if name == files[name]]
    named = dict(zip(by_path, _tails(by_path), strict=True))
    short = {name: named.get(name, name) for name in tables}
    if len(set(short.values())) < len(short):
        return dict(tables), dict(files)
    return {short[name]: table for name, table in tables.items()}, {short[name]: files[name] for name in tables}


def _tails(paths: Sequence[str]) -> list[str]:
    """The shortest ends of the paths, of equally many parts, that differ from each other.

    Example:
        >>> _tails(["/runs/a/ranks.parquet", "/runs/b/ranks.parquet"])
        ['a/ranks.parquet', 'b/ranks.parquet']
    """
    parts = [Path(path).parts for path in paths]
    lengths = range(1, max(map(len, parts), default=1) + 1)
    tails = ([str(Path(*own[-length:])) for own in parts] for length in lengths)
    return next((found for found in tails if len(set(found)) == len(found)), list(paths))


def _about_ends(tables: Mapping[str, Ranks], at: End) -> list[str]:
    """A note for readers if one end of ranks that are intervals is shown."""
    unknown = [model for model, table in tables.items() if table.has_intervals]
    return (
        [f"Some ranks of {', '.join(unknown)} are intervals; this page uses the {at} end of each."] if unknown else []
    )


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
    """The rules behind the ranks of these runs."""
    if not runs:
        return []
    for run in runs:
        require_models(run)
    from kgprobe.models.rules.explanations import Explainer
    from kgprobe.report.page.entries import explain_queries, explained_rows
    from kgprobe.train.trained_models import rule_runs

    opened = rule_runs(runs, tables, graph)
    with counting("explaining", len(opened) * len(explained_rows(lineup)), "queries") as progress:
        return [
            explain_queries(lineup, name, run.seed, Explainer(run.scorer, run.graph), progress)
            for name, run in opened.items()
        ]


def _compare(tests: PageTests, level: float, allow_different_candidates: bool) -> Comparison:
    with counting("testing differences", tests.total, "draws") as bar:
        progress = announcing("testing differences", tests.total, "fewer --replicates take less", bar)
        return tests.compare(level=level, allow_different_candidates=allow_different_candidates, progress=progress)
