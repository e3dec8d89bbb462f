"""Report: a comparison of models as a value that renders itself in a terminal, a notebook, a paper or a page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.comparison.lineup import Lineup, Source, line_up, whole_tables
from kgprobe.comparison.results import remarks
from kgprobe.errors import UsageError
from kgprobe.files import replacing, require_writable
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import Metric, parse_all
from kgprobe.ranks import RankFile, Ranks
from kgprobe.report.comparison_table import Style, comparison_grid
from kgprobe.report.grid import Grid, csv_text, json_text, terminal
from kgprobe.report.latex_tables import latex_table
from kgprobe.report.markup_tables import html, markdown
from kgprobe.report.standings import Placing, Question, check_correction, question, standings
from kgprobe.resources import Progress

if TYPE_CHECKING:
    from kgprobe.audit import Finding
    from kgprobe.comparison.intervals import Interval
    from kgprobe.comparison.results import Comparison, Difference, Estimate


Row = dict[str, Any]


def estimate_row(
    estimate: Estimate, standings: Mapping[Question, Mapping[str, Placing]], files: Mapping[str, str]
) -> Row:
    """A value of a model with its interval and its standing among the models."""
    standing = standings[question(estimate)][estimate.model]
    return {
        "kind": "estimate",
        "ranks": files.get(estimate.model),
        "model": estimate.model,
        **estimate.group,
        "metric": str(estimate.metric),
        "value": estimate.value,
        **_limits(estimate.interval),
        "std": estimate.std,
        "seeds": estimate.seeds,
        "queries": estimate.queries,
        "clusters": estimate.clusters,
        "effective": estimate.effective,
        "place": standing.place,
        "within_noise": standing.within_noise,
        "beats": ", ".join(standing.beats),
    }


def difference_row(difference: Difference) -> Row:
    """How much a model is above another, with interval and p values."""
    return {
        "kind": "difference",
        "first": difference.first,
        "second": difference.second,
        **difference.group,
        "metric": str(difference.metric),
        "value": difference.value,
        **_limits(difference.interval),
        "p": difference.p,
        "p_holm": difference.holm,
        "p_bh": difference.bh,
    }


def _limits(interval: Interval) -> Row:
    return {
        "low": interval.low,
        "high": interval.high,
        "level": interval.level,
        "method": interval.method,
        "trusted": interval.trusted,
        "remark": interval.remark,
    }


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report; the file appears under its name only when it is whole."""
    _WRITERS[ending_of(path)](report, Path(path))


def require_writing(path: str | os.PathLike[str]) -> None:
    """Complain now if a report cannot be written there later, after long work."""
    if ending_of(path) == ".html":
        from kgprobe.report.page.page_file import require_extras

        require_extras()
    require_writable(path)


def ending_of(path: str | os.PathLike[str]) -> str:
    """The ending of a file's name, if it is one that says how to write a report.

    Example:
        >>> ending_of("table.TEX")
        '.tex'
    """
    ending = Path(path).suffix.lower()
    if ending not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise UsageError(f"{path}: a report cannot be written to this kind of file", remedy=f"end its name in {known}")
    return ending


def _text(make: Callable[[Report], str]) -> Callable[[Report, Path], None]:
    def write(report: Report, path: Path) -> None:
        with replacing(path) as temporary:
            temporary.write_text(make(report), encoding="utf-8", newline="\n")

    return write


def _page(report: Report, path: Path) -> None:
    from kgprobe.report.page.page_file import write_page
    from kgprobe.report.page.payload import About

    about = About(
        written=date.today().isoformat(),
        level=report.comparison.settings.level,
        graph=report.graph,
        files=report.files,
        findings=report.findings,
        comparison=report.comparison,
    )
    write_page(path, report.lineup, about)


_WRITERS: dict[str, Callable[[Report, Path], None]] = {
    ".html": _page,
    ".md": _text(lambda report: report.to_markdown()),
    ".tex": _text(lambda report: report.to_latex()),
    ".csv": _text(lambda report: report.to_csv()),
    ".json": _text(lambda report: report.to_json()),
    ".txt": _text(str),
}


_DEFAULT = ("PROBE(alpha=1,beta=0)", "PROBE(alpha=0,beta=0)", "PROBE(alpha=-1,beta=0)")

_DEFAULT_WEIGHTED = ("PROBE(alpha=1,beta=0.8)",)

_DEFAULT_USUAL = ("MRR", "Hits@1", "Hits@10", "MR")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """Several models compared: values with intervals, differences with p values, and every way to show them.

    Attributes:
        comparison: The estimates and differences.
        lineup: The ranks of all models on the same queries.
        tables: The rank tables as they were given.
        graph: Where popularity and names come from.
        correction: The correction for many tests by which marks are set.
        files: The rank file of every model that has one.
        style: What tables show.
    """

    comparison: Comparison
    lineup: Lineup
    tables: Mapping[str, Ranks]
    graph: KnowledgeGraph | None = None
    correction: str = "holm"
    files: Mapping[str, str] = field(default_factory=dict)
    style: Style = field(default_factory=Style)

    @cached_property
    def findings(self) -> list[Finding]:
        """What an audit of the rank tables finds; nothing, where there is neither a graph nor a second model."""
        if self.graph is None and len(self.tables) < 2:
            return []
        from kgprobe.audit import check

        return check(self.tables, self.graph)

    @cached_property
    def standings(self) -> dict[Question, dict[str, Placing]]:
        """Places, and who is better than whom beyond noise."""
        return standings(self.comparison, correction=self.correction, level=self.comparison.settings.level)

    def with_style(self, *, intervals: bool = False, letters: bool = False, digits: int | None = None) -> Report:
        """The same report, whose tables show intervals, letters of the models beaten, or other digits."""
        return replace(self, style=Style(intervals, letters, digits))

    @property
    def grid(self) -> Grid:
        """The table that all writers for people are given."""
        return comparison_grid(self.comparison, self.correction, self.style, self.remarks)

    @property
    def remarks(self) -> list[str]:
        """What limits the comparison, one sentence each."""
        return remarks(self.lineup, self.comparison.settings.seeds)

    def to_rows(self) -> list[dict[str, Any]]:
        """Flat rows: those of kind ``estimate``, then those of kind ``difference``."""
        estimates = [estimate_row(e, self.standings, self.files) for e in self.comparison.estimates]
        return estimates + [difference_row(difference) for difference in self.comparison.differences]

    def to_json(self) -> str:
        """The rows as JSON."""
        return json_text(self.to_rows())

    def to_csv(self) -> str:
        """The rows as comma-separated values."""
        return csv_text(self.to_rows())

    def to_markdown(self) -> str:
        """The table in Markdown."""
        return markdown(self.grid)

    def to_latex(self, *, caption: str | None = None, label: str | None = None, standalone: bool = False) -> str:
        """The table in LaTeX; see `latex_table`."""
        return latex_table(self.grid, caption=caption, label=label, standalone=standalone)

    def __str__(self) -> str:
        return terminal(self.grid)

    def __repr__(self) -> str:
        metrics = len({estimate.metric for estimate in self.comparison.estimates})
        return f"Report({len(self.lineup.models)} models, {metrics} metrics, {len(self.lineup):,} queries)"

    def _repr_html_(self) -> str:
        return html(self.grid)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report as what the ending of the file's name says: a page (.html), a table, or data."""
        write_report(self, path)


def compare(
    tables: Mapping[str, Source],
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    *,
    graph: KnowledgeGraph | None = None,
    by: str | Iterable[str] = (),
    cluster: str = "triple",
    level: float = 0.95,
    replicates: int = 10_000,
    permutations: int = 10_000,
    seeds: str | None = None,
    correction: str = "holm",
    pairs: str = "all",
    tie: Tie | str = Tie.mean,
    common: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Compare models on the same queries: is a difference real, or noise?

    Args:
        tables: The ranks of every model by its name: a table, a file or its path.
        metrics: Names or metric values; without them, PROBE from several perspectives and the usual ones.
        graph: Where the popularity of the targets comes from; without it, the tables' own columns are used.
        by: Groupings such as ``relation``, ``side`` or ``popularity:5``; models are compared within each group.
        cluster: What queries share that makes them vary together: ``triple``, ``relation``, ``entity`` or ``query``
            (nothing).
        level: Confidence of the intervals; a difference is beyond noise when its corrected p value is at most one
            less this.
        replicates: How often queries are drawn again for the intervals.
        permutations: How often models are swapped for the p values.
        seeds: Whether training runs are ``random``, a sample of all that might have been, or ``fixed``.
        correction: ``holm`` (any false finding is unlikely) or ``bh`` (few of the findings are false).
        pairs: Test ``all`` pairs of models, or only the ``best`` of every metric against the others.
        tie: How ties are scored.
        common: Keep the queries that all models have, instead of refusing models that have others.
        seed: Repeats the same draws.
        progress: Is told which further share of the work has been done.

    Example:
        >>> def ranks(*rank):
        ...     n = len(rank)
        ...     return Ranks.from_columns(
        ...         head=range(n), relation=[0] * n, tail=[9] * n, side=["tail"] * n, rank=rank, candidates=[9] * n
        ...     )
        >>> report = compare({"one": ranks(1, 2, 1, 4), "other": ranks(3, 4, 1, 9)}, ["MRR"], replicates=100)
        >>> [(row["model"], row["value"], row["place"]) for row in report.to_rows() if row["kind"] == "estimate"]
        [('one', 0.6875, 1), ('other', 0.4236111111111111, 2)]
    """
    from kgprobe.comparison.lineup import groups
    from kgprobe.comparison.model_comparison import compare_models

    check_correction(correction)
    wanted = None if metrics is None else parse_all(metrics)
    whole = whole_tables(tables, graph)
    lineup = line_up(whole, graph=graph, common=common)
    by = by if isinstance(by, str) else list(by)
    comparison = compare_models(
        lineup,
        default_metrics(lineup) if wanted is None else wanted,
        by=by,
        cluster=cluster,
        level=level,
        replicates=replicates,
        permutations=permutations,
        seeds=seeds,
        pairs=pairs,
        tie=tie,
        seed=seed,
        progress=progress and _shares(progress, len(groups(lineup, by)) * (replicates + permutations)),
    )
    return Report(_labelled(comparison, graph), lineup, whole, graph, correction, files=_files(tables))


def _shares(progress: Progress, total: int) -> Progress:
    return lambda done: progress(done / total)


def _labelled(comparison: Comparison, graph: KnowledgeGraph | None) -> Comparison:
    """The comparison with the names of relations beside their numbers, where the graph has them."""
    if graph is None or graph.relation_labels is None or not any("relation" in e.group for e in comparison.estimates):
        return comparison

    def named(group: dict[str, Any]) -> dict[str, Any]:
        return group | {"relation_label": graph.relation_label([group["relation"]])[0]}

    return replace(
        comparison,
        estimates=[replace(estimate, group=named(estimate.group)) for estimate in comparison.estimates],
        differences=[replace(difference, group=named(difference.group)) for difference in comparison.differences],
    )


def default_metrics(lineup: Lineup) -> list[Metric]:
    """PROBE from several perspectives and the usual metrics; weighted by popularity where that is known."""
    columns = [
        run.numbers(column)
        for own in lineup.runs.values()
        for run in own
        for column in ("entity_popularity", "relation_popularity")
    ]
    known = all(column.any() for column in columns)
    complete = not any(np.isnan(column).any() for column in columns)
    return parse_all([*_DEFAULT, *(_DEFAULT_WEIGHTED if known and complete else ()), *_DEFAULT_USUAL])


def _files(tables: Mapping[str, Source]) -> dict[str, str]:
    paths = {name: source.path if isinstance(source, RankFile) else source for name, source in tables.items()}
    return {name: str(path) for name, path in paths.items() if not isinstance(path, Ranks)}
