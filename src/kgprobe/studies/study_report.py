"""Write the report of a study into one folder: a page with the verdicts, explorer pages, tables and figures.

index.html                      the verdicts, what is missing, all tables and figures
pages/SOURCE/GRAPH.html         the page of `kgprobe report`, for the ranks of one source on one graph
tables/, tables/SOURCE/         each table as .csv, .tex, .md, and as a part of the page
figures/, figures/SOURCE/       each figure in the chosen format, and as SVG for the page
report.json                     for every output the hash of all that it was made from
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.audit import check
from kgprobe.errors import DataError, KgprobeError, UsageError
from kgprobe.files import replacing, require_writable
from kgprobe.graph import KnowledgeGraph
from kgprobe.json_files import content_hash, read_json, write_json
from kgprobe.metrics import Metric
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.ranks import concatenate
from kgprobe.ranks.metadata import package_version
from kgprobe.report.comparison_report import PageTests
from kgprobe.report.figures import ENDINGS as FIGURE_TYPES
from kgprobe.report.figures import save
from kgprobe.report.page.page_file import require_extras, write_page
from kgprobe.report.page.payload import About
from kgprobe.resources import Progress
from kgprobe.studies.study_figures import StudyFigure, graph_digest, lineup_digest, points_digest, study_figures
from kgprobe.studies.study_folder import file_digest, file_name
from kgprobe.studies.study_site import SiteContent, SiteFigure, SiteTable, render_site
from kgprobe.studies.study_sources import why
from kgprobe.studies.study_tables import (
    ENDINGS,
    StudyTable,
    absent,
    consistency_table,
    graph_table,
    property_metrics,
    property_table,
    score_table,
    verdict_table,
)

if TYPE_CHECKING:
    from kgprobe.comparison.lineup import Lineup
    from kgprobe.studies.study_work import StudyResult
    from kgprobe.studies.verdicts import SourceRanks

MANIFEST = "report.json"
_SCHEMA = 1
"""To be raised whenever the same input leads to other files."""

_AUDITED_ROWS = 1_000_000
_SKIPPED = "Other metrics and their tests are left out, because there are so many queries."


@dataclass(frozen=True)
class Output:
    """A table, figure or page of a report, in one or several files.

    Attributes:
        name: Its name, which also names it where it cannot be written.
        files: Its files, relative to the folder of the report.
        inputs: All that it is made from, in types of JSON.
        write: Writes the files; called with the folder of the report.
    """

    name: str
    files: tuple[str, ...]
    inputs: Mapping[str, Any] = field(repr=False)
    write: Callable[[Path], None] = field(repr=False)


class Outputs:
    """The folder of a report, which is only written where something has changed.

    Args:
        folder: The folder.

    Example:
        >>> import tempfile
        >>> folder, made = Path(tempfile.mkdtemp()), []
        >>> def write(folder):
        ...     made.append((folder / "note.txt").write_text("new"))
        >>> for number in (1, 1, 2):
        ...     outputs = Outputs(folder)
        ...     outputs.write(Output("note", ("note.txt",), {"number": number}, write))
        ...     outputs.finish()
        >>> len(made)
        2
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._before = self._read()
        self._now: dict[str, dict[str, Any]] = {}
        if not (folder / MANIFEST).exists():
            self._save({})  # marks the folder, so that a report that was stopped can be continued

    def _read(self) -> dict[str, dict[str, Any]]:
        path = self.folder / MANIFEST
        try:
            found: dict[str, dict[str, Any]] = read_json(path, {"outputs": dict})["outputs"] if path.exists() else {}
        except DataError:  # damaged or not ours: everything is written again
            return {}
        return found

    def write(self, output: Output) -> None:
        """Write an output, unless its files are already there, unchanged and made from the same inputs."""
        key = content_hash(
            {"versions": [package_version(), _SCHEMA], "files": list(output.files), "inputs": output.inputs}
        )
        known = self._before.get(output.name, {})
        if known.get("key") != key or not self._unchanged(known["files"]):
            output.write(self.folder)
            known = {"key": key, "files": {name: file_digest(self.folder / name) for name in output.files}}
            self._now[output.name] = known
            self._save({**self._before, **self._now})
        self._now[output.name] = known

    def _unchanged(self, files: Mapping[str, str]) -> bool:
        return all(self._is_as_written(name, digest) for name, digest in files.items())

    def _is_as_written(self, name: str, digest: str) -> bool:
        path = self.folder / name
        return path.is_file() and file_digest(path) == digest

    def _save(self, outputs: Mapping[str, Any]) -> None:
        write_json(self.folder / MANIFEST, {"outputs": outputs})

    def finish(self) -> None:
        """Remove the files of outputs that this report does not have any more, unless they were changed by hand."""
        kept = {name for output in self._now.values() for name in output["files"]}
        for name, digest in ((n, d) for output in self._before.values() for n, d in output["files"].items()):
            if name not in kept and self._is_inside(name) and self._is_as_written(name, digest):
                (self.folder / name).unlink()
                with suppress(OSError):  # the folder has other files
                    (self.folder / name).parent.rmdir()
        if self._now != self._before:
            self._save(self._now)

    def _is_inside(self, name: str) -> bool:
        return (self.folder / name).resolve().is_relative_to(self.folder.resolve())


def write_report(
    result: StudyResult,
    output: str | os.PathLike[str],
    *,
    figure_type: str = "pdf",
    progress: Progress | None = None,
) -> list[str]:
    """Write the report of a study: one folder with a page, explorer pages, tables and figures.

    A second call only writes what has changed. The same result gives the same files.

    Args:
        result: The ranks and the verdicts.
        output: The folder to write.
        figure_type: The format of the figures: "pdf", "svg" or "png". The page always has SVG.
        progress: Called with the additional share of the work that is done.

    Returns:
        What could not be had and why, one sentence each.
    """
    if figure_type not in FIGURE_TYPES:
        raise UsageError(f"unknown figure type '{figure_type}'", remedy=f"choose one of {', '.join(FIGURE_TYPES)}")
    require_extras()
    folder = Path(output)
    _require_room(folder)
    report = _Report(result, folder, figure_type)
    jobs = report.outputs()
    for number, job in enumerate(jobs, 1):
        report.write(job)
        if progress is not None:
            progress(1 / len(jobs) if number < len(jobs) else 1 - (len(jobs) - 1) / len(jobs))
    return report.finish()


def _require_room(folder: Path) -> None:
    """Raise an error if a folder cannot be written, or holds something else than a report."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: it is a file, not a folder", remedy="choose another `output`")
    if folder.is_dir() and not (folder / MANIFEST).exists():
        others = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        if others:
            problem = ", ".join(others[:5]) + (f" and {len(others) - 5:,} more" if len(others) > 5 else "")
            remedy = "choose a new or an empty folder as `output`"
            raise UsageError(f"{folder}: it holds other files than those of a report", [problem], remedy)
    require_writable(folder / MANIFEST)


@dataclass(frozen=True)
class _Table:
    """A table of the report, with its title and the part of the page that shows it."""

    part: str
    title: str
    output: Output


def _table(part: str, name: str, title: str, inputs: Mapping[str, Any], make: Callable[[str], StudyTable]) -> _Table:
    """A table that is made by a function of its title."""
    path = f"tables/{name}"

    def write(folder: Path) -> None:
        table = make(title)
        for ending in ENDINGS:
            _write_text(f"{path}{ending}", table.text(ending), folder)

    files = tuple(f"{path}{ending}" for ending in ENDINGS)
    return _Table(part, title, Output(path, files, {"title": title, **inputs}, write))


class _Report:
    """The writing of one report."""

    def __init__(self, result: StudyResult, folder: Path, figure_type: str) -> None:
        self.result, self.study = result, result.study
        self.figure_type = figure_type
        self.folder = Outputs(folder)
        self.failed: dict[str, list[str]] = {}
        self.written: set[str] = set()
        self.digests = {name: graph_digest(graph) for name, graph in result.graphs.items()}
        for source, ranks in result.sources.items():
            for graph, lineup in ranks.lineups.items():
                self.digests[f"{source}/{graph}"] = lineup_digest(lineup)
        self.figures = study_figures(self.study, result.graphs, result.sources.values(), self.digests)
        self.tables = list(self._tables())
        self.pages = {
            (source, graph): f"pages/{file_name(source)}/{file_name(graph)}.html"
            for source, ranks in result.sources.items()
            for graph in ranks.lineups
        }

    def outputs(self) -> list[Output]:
        """All outputs but the page that shows them."""
        drawable = [figure for figure in self.figures if figure.missing is None]
        for figure in self.figures:
            if figure.missing is not None:
                self.failed.setdefault(figure.missing, []).append(f"figures/{figure.name}")
        tables = [table.output for table in self.tables]
        return [*tables, *map(self._figure, drawable), *(self._page(*cell) for cell in self.pages)]

    def write(self, output: Output) -> None:
        """Write an output, or note why it cannot be written."""
        try:
            self.folder.write(output)
            self.written.add(output.name)
        except KgprobeError as error:
            self.failed.setdefault(why(error), []).append(output.name)

    def finish(self) -> list[str]:
        """Write the page, and return what could not be had."""
        html = render_site(self._content())
        name = "index.html"
        digest = hashlib.sha256(html.encode(errors="replace")).hexdigest()
        self.folder.write(Output(name, (name,), {"html": digest}, partial(_write_text, name, html)))
        self.folder.finish()
        return [
            *self.result.left_out(),
            *(f"{reason}; not written: {', '.join(own)}" for reason, own in self.failed.items()),
        ]

    def _content(self) -> SiteContent:
        tables = [self._site_table(table) for table in self.tables if table.output.name in self.written]
        figures = [
            SiteFigure(figure.part, figure.title, f"figures/{figure.name}.svg", self._figure_files(figure), figure.wide)
            for figure in self.figures
            if f"figures/{figure.name}" in self.written
        ]
        pages = {cell: path for cell, path in self.pages.items() if path in self.written}
        return SiteContent(
            self.study,
            list(self.result.sources),
            self.result.verdicts,
            tables,
            figures,
            pages,
            self.result.left_out(),
            self.failed,
        )

    def _site_table(self, table: _Table) -> SiteTable:
        files = {Path(name).suffix.removeprefix("."): name for name in table.output.files}
        html = (self.folder.folder / files.pop("html")).read_text(encoding="utf-8")
        return SiteTable(table.part, table.title, html, files)

    def _tables(self) -> Iterator[_Table]:
        study, graphs, verdicts = self.study, self.result.graphs, self.result.verdicts
        if verdicts:
            rows = {"verdicts": [verdict.to_row() for verdict in verdicts]}
            yield _table("verdicts", "verdicts", "Verdicts on the claims", rows, partial(verdict_table, verdicts))
        if graphs:
            own = {"graphs": {name: self.digests[name] for name in graphs}}
            yield _table("graphs", "graph-statistics", "Statistics of the graphs", own, partial(graph_table, graphs))
        if metrics := property_metrics(study.claims):
            names = {"metrics": [str(metric) for metric in metrics]}
            make = partial(property_table, metrics)
            yield _table("properties", "properties", "The six properties of each metric", names, make)
        for source in self.result.sources.values():
            yield from self._source_tables(source)

    def _source_tables(self, source: SourceRanks) -> Iterator[_Table]:
        study, folder = self.study, file_name(source.name)
        points: dict[str, tuple[str, list[Metric]]] = {
            "rq1": ("PROBE by predictive sharpness alpha, at beta 0", [PROBE(alpha=a, beta=0.0) for a in study.alphas]),
            "rq2": ("PROBE by robustness beta, at alpha 1", [PROBE(alpha=1.0, beta=b) for b in study.betas]),
            "metrics": ("Other metrics", list(study.metrics)),
        }
        if source.lineups:
            ranks = {graph: self.digests[f"{source.name}/{graph}"] for graph in source.lineups}
            reasons = [absent(source, graph, model) for graph in study.graphs for model in study.models]
            cells = {"graphs": list(study.graphs), "models": list(study.models), "absent": reasons}
            for name, (title, metrics) in points.items():
                if metrics:
                    inputs = {"ranks": ranks, "level": study.level, "metrics": list(map(str, metrics)), **cells}
                    make = partial(score_table, study, source, metrics, name)
                    yield _table(name, f"{folder}/{name}", f"{title} ({source.name})", inputs, make)
        if source.worlds:
            given = {"worlds": {str(rate): points_digest(own) for rate, own in source.worlds.items()}}
            title = f"Consistency of metrics in the open and the closed world ({source.name})"
            yield _table("rq4", f"{folder}/consistency", title, given, partial(consistency_table, source.worlds))

    def _figure_files(self, figure: StudyFigure) -> dict[str, str]:
        return {kind: f"figures/{figure.name}.{kind}" for kind in dict.fromkeys((self.figure_type, "svg"))}

    def _figure(self, figure: StudyFigure) -> Output:
        files = self._figure_files(figure)

        def write(folder: Path) -> None:
            drawn = figure.draw()
            for path in files.values():
                save(drawn, folder / path)

        return Output(f"figures/{figure.name}", tuple(files.values()), figure.inputs, write)

    def _page(self, source: str, graph: str) -> Output:
        path = self.pages[source, graph]
        lineup, knowledge = self.result.sources[source].lineups[graph], self.result.graphs.get(graph)
        title, level = f"{graph}: {source}", self.study.level
        inputs = {
            "ranks": self.digests[f"{source}/{graph}"],
            "graph": self.digests.get(graph),
            "title": title,
            "level": level,
        }
        return Output(path, (path,), inputs, partial(_write_explorer, path, lineup, knowledge, title, level))


def _write_text(name: str, text: str, folder: Path) -> None:
    with replacing(folder / name) as temporary:
        # A title or a name may contain bytes that are not valid UTF-8.
        temporary.write_text(text, encoding="utf-8", errors="replace", newline="\n")


def _write_explorer(
    name: str, lineup: Lineup, graph: KnowledgeGraph | None, title: str, level: float, folder: Path
) -> None:
    """Write the page of `kgprobe report` for one graph, without a date, so that equal ranks give equal pages."""
    tables = {model: concatenate(own) for model, own in lineup.runs.items()}
    tests = PageTests.of(lineup)
    about = About(
        title=title,
        level=level,
        graph=graph,
        findings=check(tables, graph, most_rows=_AUDITED_ROWS),
        comparison=None if tests.too_many else tests.compare(level=level),
        notes=[_SKIPPED] if tests.too_many else [],
    )
    write_page(folder / name, lineup, about)
