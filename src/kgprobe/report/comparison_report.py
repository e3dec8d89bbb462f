"""`compare`, and `Report`: a comparison of models that renders itself as text, Markdown, LaTeX, CSV, JSON or HTML."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.comparison.lineup import Flag, Lineup, NamedRanks, flag_columns, open_models
from kgprobe.comparison.pair_tests import Correction, correction_named
from kgprobe.comparison.results import remarks
from kgprobe.files import replacing, require_writable
from kgprobe.graph import GraphLike, KnowledgeGraph, as_graph
from kgprobe.metrics import Metric, parse_all
from kgprobe.ranks import End, RankFile, Ranks
from kgprobe.ranks.schema import POPULARITY
from kgprobe.report.comparison_table import (
    Placing,
    Question,
    Style,
    comparison_grid,
    question,
    standings,
)
from kgprobe.report.grid import Grid, csv_text, ending_of, json_text, terminal
from kgprobe.report.latex_tables import latex_table
from kgprobe.report.markup_tables import html, markdown
from kgprobe.resources import Progress
from kgprobe.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kgprobe.audit import Finding
    from kgprobe.comparison.results import Comparison, Difference, Estimate

Row = dict[str, Any]


def estimate_row(
    estimate: Estimate,
    standings: Mapping[Question, Mapping[str, Placing]],
    files: Mapping[str, str],
    flags: Mapping[str, Flag],
) -> Row:
    """The row of a value with its interval and its place among the models."""
    placing = standings[question(estimate)][estimate.model]
    return {
        "kind": "estimate",
        "ranks": files.get(estimate.model),
        "model": estimate.model,
        **estimate.group,
        "metric": str(estimate.metric),
        "value": estimate.value,
        "least": estimate.ends[0],
        "most": estimate.ends[1],
        **vars(estimate.interval),
        "std": estimate.std,
        "seeds": estimate.seeds,
        "queries": estimate.queries,
        "clusters": estimate.clusters,
        "effective": estimate.effective,
        "place": placing.place,
        "within_noise": placing.within_noise,
        "beats": ", ".join(placing.beats),
        "reason": estimate.reason or estimate.interval.reason,
        **flag_columns(flags.get(estimate.model)),
    }


def difference_row(difference: Difference, correction: Correction) -> Row:
    """The row of a difference between two models, with its interval and p-values."""
    return {
        "kind": "difference",
        "first": difference.first,
        "second": difference.second,
        **difference.group,
        "metric": str(difference.metric),
        "value": difference.value,
        "least": difference.ends[0],
        "most": difference.ends[1],
        **vars(difference.interval),
        "p": difference.p,
        "p_adjusted": difference.adjusted,
        "significant": difference.significant,
        "correction": str(correction),
        "tests": difference.tests,
        "p_holm": difference.holm,
        "p_bh": difference.bh,
        "tested": difference.tested,
        "reason": difference.reason or difference.interval.reason,
    }


def require_writing(path: str | os.PathLike[str]) -> str:
    """The ending of a report's file name; an error before long work if the report cannot be written there."""
    ending = ending_of(path, _WRITERS)
    if ending == ".html":
        from kgprobe.report.page.page_file import require_extras

        require_extras()
    require_writable(path)
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
        allow_different_candidates=report.comparison.settings.allow_different_candidates,
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
class Report(Table):
    """A comparison of several models: values with intervals, differences with p-values, and their renderings.

    Attributes:
        comparison: The estimates and differences.
        lineup: The ranks of all models on the same queries.
        tables: The rank tables, by model.
        graph: The graph that popularity and labels come from.
        files: The rank file of every model that has one.
        style: What tables show.
        findings: The findings of the audit.
    """

    comparison: Comparison
    lineup: Lineup
    tables: Mapping[str, Ranks]
    graph: KnowledgeGraph | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    style: Style = field(default_factory=Style)
    findings: Sequence[Finding] = ()

    @cached_property
    def standings(self) -> dict[Question, dict[str, Placing]]:
        """The placing of each model by each metric and group."""
        return standings(self.comparison)

    def with_style(self, *, intervals: bool = False, letters: bool = False, digits: int | None = None) -> Report:
        """The same report with intervals, letters of significantly worse models, or another number of digits."""
        return replace(self, style=Style(intervals, letters, digits))

    @property
    def grid(self) -> Grid:
        """The table that the text formats render."""
        return comparison_grid(self.comparison, self.style, self.remarks, self.lineup.flagged)

    @property
    def remarks(self) -> list[str]:
        """Limits of the comparison, one sentence each."""
        metrics = dict.fromkeys(estimate.metric for estimate in self.comparison.estimates)
        settings = self.comparison.settings
        allowed = settings.allow_different_candidates
        limits = remarks(self.lineup, settings.seeds, metrics, allow_different_candidates=allowed)
        return [*limits, *self.comparison.grouping]

    def to_rows(self) -> list[dict[str, Any]]:
        """Flat rows: those of kind ``estimate``, then those of kind ``difference``."""
        estimates = [estimate_row(e, self.standings, self.files, self.lineup.flags) for e in self.comparison.estimates]
        correction = self.comparison.settings.correction
        return estimates + [difference_row(difference, correction) for difference in self.comparison.differences]

    def to_json(self) -> str:
        return json_text(self.to_rows())

    def to_csv(self) -> str:
        return csv_text(self.to_rows())

    def to_markdown(self) -> str:
        return markdown(self.grid)

    def to_latex(
        self, *, caption: str | None = None, label: str | None = None, plain: bool = False, standalone: bool = False
    ) -> str:
        """The table in LaTeX; see `latex_table`."""
        return latex_table(self.grid, caption=caption, label=label, plain=plain, standalone=standalone)

    def __str__(self) -> str:
        return terminal(self.grid)

    def __repr__(self) -> str:
        metrics = len({estimate.metric for estimate in self.comparison.estimates})
        return f"Report({len(self.lineup.models)} models, {metrics} metrics, {len(self.lineup):,} queries)"

    def _repr_html_(self) -> str:
        return html(self.grid)

    def plot(self) -> Figure:
        """Draw the values with their confidence intervals, one panel per metric."""
        from kgprobe.report.figures.score_figures import draw_comparison

        return draw_comparison(self.comparison)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a page (.html), a table (.md, .tex, .txt) or data (.csv, .json), atomically."""
        _WRITERS[ending_of(path, _WRITERS)](self, Path(path))


def compare(
    ranks: NamedRanks,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    *,
    graph: GraphLike | None = None,
    by: str | Iterable[str] = (),
    cluster: str = "triple",
    level: float = 0.95,
    replicates: int = 10_000,
    permutations: int = 10_000,
    seeds: str | None = None,
    correction: Correction | str = Correction.max_t,
    pairs: str = "all",
    tie: Tie | str = Tie.mean,
    common: bool = False,
    exclude_flagged: bool = False,
    allow_different_candidates: bool = False,
    at: End | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Compare models on the same queries: confidence intervals, paired differences and significance tests.

    Args:
        ranks: The ranks of each model as tables, files or paths: by name, or in a list.
        metrics: Names or metric values; by default PROBE at several alphas, MRR, Hits@1, Hits@10 and MR.
        graph: The graph for the popularity of the targets; by default the columns of the tables are used.
        by: Groupings such as ``relation``, ``side`` or ``popularity:5``; models are compared within each group.
        cluster: Queries that share this are resampled together: ``triple``, ``relation``, ``entity`` or ``query``
            (each query alone).
        level: Confidence level; a difference is significant if its adjusted p-value is at most 1 - level, and its
            interval then excludes 0.
        replicates: Bootstrap draws for the intervals.
        permutations: Permutations for the p-values.
        seeds: Whether training runs are a ``random`` sample of all possible runs, or ``fixed``.
        correction: The correction for multiple testing over all pairs of models, for each metric and group by itself:
            ``max-t`` (simultaneous intervals), ``holm`` (no false finding either), ``bh`` (false discovery rate) or
            ``none``.
        pairs: Report ``all`` pairs of models, or only the ``best`` of each metric against the others.
        tie: How ties are scored.
        common: Use only the queries that all models have, instead of raising an error.
        exclude_flagged: Leave out models whose rank file has an error in `kgprobe.check`.
        allow_different_candidates: Also test models against each other whose candidate sets differ.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken. By default values and
            differences are ranges over all ranks that the intervals allow, and a difference is significant if it is so
            whatever the unknown ranks.
        seed: Seed of the random generator.
        progress: Called with the additional share of the work that is done.

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
    from kgprobe.audit import audited
    from kgprobe.comparison.lineup import groups
    from kgprobe.comparison.model_comparison import compare_models, draws_of

    correction = correction_named(correction)
    parsed = None if metrics is None else parse_all(metrics)
    graph = as_graph(graph)
    opened = open_models(ranks)
    found = audited(
        opened, graph=graph, common=common, exclude_flagged=exclude_flagged, fewest=2, at=at, unknown=at is None
    )
    lineup = found.lineup
    by = by if isinstance(by, str) else list(by)
    asked = default_metrics(lineup) if parsed is None else parsed
    draws = draws_of(lineup, len(asked), len(groups(lineup, by)), replicates + permutations)
    comparison = compare_models(
        lineup,
        asked,
        by=by,
        cluster=cluster,
        level=level,
        replicates=replicates,
        permutations=permutations,
        seeds=seeds,
        correction=correction,
        pairs=pairs,
        tie=tie,
        seed=seed,
        allow_different_candidates=allow_different_candidates,
        progress=progress and (lambda done: progress(done / draws)),
    )
    return Report(
        _labelled(comparison, graph),
        lineup,
        found.tables,
        graph,
        files=_files(opened),
        findings=found.findings,
    )


def _labelled(comparison: Comparison, graph: KnowledgeGraph | None) -> Comparison:
    """The comparison with labels and names of relations beside their ids, if the graph has them."""
    if graph is None or not any("relation" in e.group for e in comparison.estimates):
        return comparison

    def named(group: dict[str, Any]) -> dict[str, Any]:
        return group | graph.relation_columns(group["relation"])

    return replace(
        comparison,
        estimates=[replace(estimate, group=named(estimate.group)) for estimate in comparison.estimates],
        differences=[replace(difference, group=named(difference.group)) for difference in comparison.differences],
    )


def default_metrics(lineup: Lineup) -> list[Metric]:
    """PROBE at several alphas, with beta if popularity is known, and the usual metrics."""
    columns = (run.numbers(column) for own in lineup.runs.values() for run in own for column in POPULARITY)
    known = all(column.any() and not np.isnan(column).any() for column in columns)
    return parse_all([*_DEFAULT, *(_DEFAULT_WEIGHTED if known else ()), *_DEFAULT_USUAL])


def _files(opened: Mapping[str, Ranks | RankFile]) -> dict[str, str]:
    return {name: str(source.path) for name, source in opened.items() if isinstance(source, RankFile)}


_MOST_QUERIES = 300_000  # above this, a page has no tests unless they are asked for
_FEW_MODELS, _FEW_QUERIES = 6, 100_000  # above these, only the best model of each metric is tested against the others
_LEAST_DRAWS, _MOST_DRAWS = 1_000, 10_000
_MOST_PRODUCTS = 2_500_000_000  # draws x queries x pairs of models: a few seconds for all metrics


@dataclass(frozen=True)
class PageTests:
    """The tests of differences on a page: fewer draws and pairs where there are many queries or models.

    Attributes:
        lineup: The models.
        metrics: The metrics that differences are tested on.
        draws: The number of bootstrap draws, and of permutations.
    """

    lineup: Lineup
    metrics: Sequence[Metric]
    draws: int

    @classmethod
    def of(cls, lineup: Lineup, metrics: Sequence[Metric] | None = None, draws: int | None = None) -> PageTests:
        """The tests of these models; by default on the usual metrics, with as many draws as take a few seconds."""
        models = len(lineup.models)
        fitting = _MOST_PRODUCTS // (len(lineup) * models * (models + 1) // 2)
        usual = min(max(fitting, _LEAST_DRAWS), _MOST_DRAWS)
        return cls(lineup, metrics or default_metrics(lineup), usual if draws is None else draws)

    @property
    def too_many(self) -> bool:
        """Whether there are so many queries that a page leaves the tests out unless they are asked for."""
        return len(self.lineup) > _MOST_QUERIES

    @property
    def total(self) -> int:
        """The number of draws that `compare` reports in all."""
        from kgprobe.comparison.model_comparison import draws_of

        return draws_of(self.lineup, len(self.metrics), 1, 2 * self.draws)

    def compare(
        self, *, level: float = 0.95, allow_different_candidates: bool = False, progress: Progress | None = None
    ) -> Comparison:
        """Run the tests; see `compare_models`."""
        from kgprobe.comparison.model_comparison import compare_models

        few = len(self.lineup.models) <= _FEW_MODELS and len(self.lineup) <= _FEW_QUERIES
        return compare_models(
            self.lineup,
            self.metrics,
            level=level,
            replicates=self.draws,
            permutations=self.draws,
            pairs="all" if few else "best",
            allow_different_candidates=allow_different_candidates,
            progress=progress,
        )
