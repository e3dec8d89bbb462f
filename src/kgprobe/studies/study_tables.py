"""Tables of a study: graphs, scores over alpha and beta, properties, verdicts, open-world consistency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from kgprobe.comparison.lineup import Lineup
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.comparison.results import Comparison, remarks
from kgprobe.errors import KgprobeError, one_line
from kgprobe.graph import KnowledgeGraph, statistics
from kgprobe.metrics import Metric
from kgprobe.metrics.property_search import check_properties
from kgprobe.metrics.six_properties import PropertyResult
from kgprobe.openworld.bench_points import Points
from kgprobe.openworld.benches import Bench
from kgprobe.report.bench_report import bench_grid, bench_rows
from kgprobe.report.comparison_table import (
    FLAGGED,
    LOWER,
    UNTESTED,
    UNTRUSTED,
    WITHIN_NOISE,
    Style,
    comparison_grid,
    headings,
    question,
    standings,
)
from kgprobe.report.grid import UNDEFINED, Cell, Column, Grid, GridRow, Record, as_text, csv_text
from kgprobe.report.latex_tables import latex_table, latex_text
from kgprobe.report.markup_tables import escaped, html, markdown
from kgprobe.studies.claim_kinds import Claim
from kgprobe.studies.fact_claims import HasProperties
from kgprobe.studies.study_file import Study
from kgprobe.studies.verdicts import OUT_OF_MEMORY, SourceRanks, Verdict

_NO_MEMORY = "O.O.M."
_DRAWS = 2_000
_GRAPHS_A_BLOCK = 3
_DIFFERS = "(!)"
_MARKS = (WITHIN_NOISE, UNTRUSTED, UNTESTED, FLAGGED, LOWER, _DIFFERS, _NO_MEMORY)
_DEVIATIONS = " ± standard deviation between them"  # of a note on numbers with deviations


@dataclass(frozen=True)
class StudyTable:
    """A table of a study, which renders itself in all formats.

    Attributes:
        title: What it shows, in one line.
        grids: The table, in one or several parts.
        rows: Its data in full precision.
        label: The label for references in LaTeX.
        long: Whether the LaTeX table may break across pages; texts are then wrapped.
    """

    title: str
    grids: tuple[Grid, ...]
    rows: Sequence[Record]
    label: str
    long: bool = False

    def text(self, ending: str) -> str:
        """The content of the file with this ending."""
        return _FORMATS[ending](self)


def _latex(table: StudyTable) -> str:
    make = _long_table if table.long else latex_table
    several = len(table.grids) > 1
    parts = []
    for number, grid in enumerate(table.grids, 1):
        part = f" ({number} of {len(table.grids)})" if several else ""
        label = f"tab:{table.label}" + (f"-{number}" if several else "")
        parts.append(make(grid, caption=f"{latex_text(table.title)}{part}.", label=label))
    return "\n".join(parts)


def _long_table(grid: Grid, *, caption: str, label: str) -> str:
    """A LaTeX table of texts over several pages; the columns of long texts are wrapped."""
    longest = [
        max([len(column.headings[-1]), *(len(line.cells[number].text) for line in grid.lines)])
        for number, column in enumerate(grid.columns)
    ]
    room = [_LONG if length > _LONG else min(length + 1, _SHORT) for length in longest]
    layout = "".join(
        rf">{{\raggedright\arraybackslash}}p{{\dimexpr {own / sum(room):.4f}\linewidth-2\tabcolsep\relax}}"
        for own in room
    )
    heads = " & ".join(latex_text(column.headings[-1]) for column in grid.columns)
    lines = [
        r"% needs \usepackage{array} \usepackage{booktabs} \usepackage{longtable}",
        r"{\footnotesize",
        rf"\begin{{longtable}}{{{layout}}}",
        rf"\caption{{{caption}}}\label{{{label}}}\\",
        r"\toprule",
        rf"{heads} \\",
        r"\midrule\endfirsthead",
        r"\toprule",
        rf"{heads} \\",
        r"\midrule\endhead",
        r"\bottomrule\endfoot",
    ]
    for number, line in enumerate(grid.lines):
        lines += [r"\addlinespace"] * bool(line.opens and number)
        lines.append(" & ".join(latex_text(cell.text) for cell in line.cells) + r" \\")
    notes = [latex_text(note) + r"\par" for note in grid.notes]
    return "\n".join([*lines, r"\end{longtable}", *notes, "}"]) + "\n"


def _folded(grid: Grid) -> str:
    """A table in HTML for the page: notes that explain marks are shown, and the others on demand."""
    marks = [note for note in grid.notes if note.startswith(_MARKS)]
    others = "".join(f"<li>{escape(note)}</li>\n" for note in grid.notes if note not in marks)
    more = f'<details class="table-notes"><summary>Notes</summary>\n<ul>\n{others}</ul></details>\n' if others else ""
    return html(replace(grid, notes=tuple(marks))) + more


_SHORT, _LONG = 18, 60  # room of columns of short texts, and of those of longer texts, relative to each other

_FORMATS: dict[str, Callable[[StudyTable], str]] = {
    ".csv": lambda table: csv_text(table.rows),
    ".tex": _latex,
    ".md": lambda table: f"{escaped(table.title)}\n\n" + "\n".join(map(markdown, table.grids)),
    ".html": lambda table: "".join(map(_folded, table.grids)),
}

ENDINGS = tuple(_FORMATS)
"""The formats of a table; the HTML is a part of the report's page."""


def absent(source: SourceRanks, graph: str, model: str) -> str | None:
    """Why a source has no ranks of a model on a graph; None where it has."""
    if graph in source.lineups and model in source.lineups[graph].models:
        return None
    known = source.missing.get((graph, model)) or source.missing.get((graph, None))
    return known or f"no ranks of {model} on {graph}"


def absent_text(reason: str, otherwise: str = UNDEFINED) -> str:
    """What stands in the cell of a model without ranks.

    Example:
        >>> absent_text("out of memory: 94 GiB"), absent_text("no rank file")
        ('O.O.M.', '–')
    """
    return _NO_MEMORY if reason.startswith(OUT_OF_MEMORY) else otherwise


def shown_graphs(study: Study, source: SourceRanks) -> list[str]:
    """The graphs that tables of a source show: those with ranks, or with a model that ran out of memory."""
    reasons = {graph: [absent(source, graph, model) for model in study.models] for graph in study.graphs}
    return [
        graph
        for graph, found in reasons.items()
        if any(reason is None or absent_text(reason) == _NO_MEMORY for reason in found)
    ]


def score_table(study: Study, source: SourceRanks, metrics: Sequence[Metric], label: str, title: str) -> StudyTable:
    """Models down, graphs and metrics across, with places, marks of significance, and why scores are missing.

    Args:
        study: The study.
        source: The ranks.
        metrics: The columns of each graph.
        label: The label for references in LaTeX.
        title: The title of the table.
    """
    found = [_GraphScores.of(study, source, graph, metrics) for graph in shown_graphs(study, source)]
    blocks = [found[start : start + _GRAPHS_A_BLOCK] for start in range(0, len(found), _GRAPHS_A_BLOCK)]
    grids = [_block(block, list(study.models), metrics) for block in blocks]
    if grids:
        grids[-1] = replace(grids[-1], notes=tuple(_merged_notes(found)))
    rows = [row for one in found for row in one.rows]
    return StudyTable(title, tuple(grids), rows, label)


@dataclass(frozen=True)
class _GraphScores:
    """The columns of one graph in a table of scores."""

    graph: str
    cells: Mapping[str, Sequence[Cell]]
    rows: Sequence[Record]
    notes: Sequence[str]

    @classmethod
    def of(cls, study: Study, source: SourceRanks, graph: str, metrics: Sequence[Metric]) -> _GraphScores:
        cells: dict[str, Sequence[Cell]] = {}
        rows: list[Record] = []
        notes: list[str] = []
        lineup = source.lineups.get(graph)
        if lineup is not None:
            try:
                comparison = compare_models(lineup, metrics, level=study.level, replicates=_DRAWS, permutations=_DRAWS)
            except KgprobeError as error:
                notes.append(one_line(f"there are no scores: {error.title} ({'; '.join(error.problems)})"))
            else:
                grid = comparison_grid(comparison, Style(digits=4), remarks(lineup, comparison.settings.seeds, metrics))
                cells, notes = dict(_cells(grid, lineup)), [note.replace(_DEVIATIONS, "") for note in grid.notes]
                rows = list(_score_rows(graph, comparison, lineup))
        for model in study.models:
            if reason := absent(source, graph, model):
                cells[model] = [Cell(absent_text(reason))] * len(metrics)
                rows += [
                    {"graph": graph, "model": model, "metric": str(metric), "reason": reason} for metric in metrics
                ]
        return cls(graph, cells, rows, notes)


def _cells(grid: Grid, lineup: Lineup) -> Iterator[tuple[str, list[Cell]]]:
    """The numbers of each model, without deviations: there is no room for them where graphs are side by side."""
    for model, line in zip(lineup.models, grid.lines, strict=True):
        flag = FLAGGED if model in lineup.flagged else ""
        numbers = line.cells[-(len(grid.columns) - 1) :]
        yield model, [replace(cell, deviation="", marks=" ".join(filter(None, (cell.marks, flag)))) for cell in numbers]


def _score_rows(graph: str, comparison: Comparison, lineup: Lineup) -> Iterator[Record]:
    placings = standings(comparison)
    for estimate in comparison.estimates:
        placing = placings[question(estimate)][estimate.model]
        yield {
            "graph": graph,
            "model": estimate.model,
            **_point(estimate.metric),
            "value": estimate.value,
            "low": estimate.interval.low,
            "high": estimate.interval.high,
            "std": estimate.std,
            "seeds": estimate.seeds,
            "queries": estimate.queries,
            "place": placing.place,
            "within_noise": placing.within_noise,
            "untested": placing.untested,
            "flagged": estimate.model in lineup.flagged,
            "reason": estimate.reason,
        }


def _point(metric: Metric) -> dict[str, Any]:
    """The columns that name a metric, with its alpha and beta."""
    return {"metric": str(metric)} | {key: metric.parameters[key] for key in _AXES if key in metric.parameters}


_AXES = ("alpha", "beta")


def _block(found: Sequence[_GraphScores], models: Sequence[str], metrics: Sequence[Metric]) -> Grid:
    columns = [Column(("", "model"))]
    for one in found:
        columns += [Column((one_line(one.graph), lower or upper), numeric=True) for upper, lower in headings(metrics)]
    empty = [Cell(UNDEFINED)] * len(metrics)
    lines = [
        GridRow((Cell(one_line(model)), *(cell for one in found for cell in one.cells.get(model, empty))))
        for model in models
    ]
    return Grid(tuple(columns), tuple(lines))


def _merged_notes(found: Sequence[_GraphScores]) -> Iterator[str]:
    """The notes of all graphs: those that all of them have once, others with the name of their graph."""
    every = dict.fromkeys(note for one in found for note in one.notes)
    for note in every:
        graphs = [one.graph for one in found if note in one.notes]
        yield note if len(graphs) == len(found) or note.startswith(_MARKS) else one_line(f"{', '.join(graphs)}: {note}")
    marks = {cell.marks for one in found for cells in one.cells.values() for cell in cells}
    if any(FLAGGED in mark for mark in marks):
        yield f"{FLAGGED} `kgprobe check` objects to the rank file of the model on this graph."
    if any(cell.text == _NO_MEMORY for one in found for cells in one.cells.values() for cell in cells):
        yield f"{_NO_MEMORY}: the training ran out of memory."


_STATISTICS = {
    "entities": "entities",
    "relations": "relations",
    "train": "train",
    "valid": "valid",
    "test": "test",
    "mean degree": "mean_degree",
    "max degree": "max_degree",
    "unseen entities": "unseen_entities",
    "inverse leakage": "inverse_leakage",
}


def graph_table(graphs: Mapping[str, KnowledgeGraph], title: str) -> StudyTable:
    """The statistics of the graphs; degrees are those in the training triples."""
    rows = [{**statistics(graph), "graph": name} for name, graph in graphs.items()]
    columns = (Column(("graph",)), *(Column((name,), numeric=True) for name in _STATISTICS))
    lines = [
        GridRow((Cell(one_line(str(row["graph"]))), *(Cell(_statistic(row[key])) for key in _STATISTICS.values())))
        for row in rows
    ]
    notes = (
        "Degrees count the training triples of an entity as head or tail. Unseen entities are in valid or test, not in "
        "train. Inverse leakage is the share of the test triples (h, r, t) with some (t, r', h) in train.",
    )
    return StudyTable(title, (Grid(columns, tuple(lines), notes),), rows, "graphs")


def _statistic(value: Any) -> str:
    if value is None:
        return UNDEFINED
    return f"{value:,.2f}" if isinstance(value, float) else as_text(value)


def property_metrics(claims: Iterable[Claim]) -> list[Metric]:
    """The metrics that claims about properties are about."""
    return list(dict.fromkeys(claim.metric for claim in claims if isinstance(claim, HasProperties)))


def property_table(metrics: Sequence[Metric], title: str) -> StudyTable:
    """The six properties (down) of metrics (across)."""
    results = check_properties(metrics)
    by_property: dict[str, list[PropertyResult]] = {}
    for result in results:
        by_property.setdefault(str(result.about), []).append(result)
    columns = (Column(("property",)), *(Column((str(metric),)) for metric in metrics))
    lines = [
        GridRow((Cell(name), *(Cell(_property_text(result)) for result in own))) for name, own in by_property.items()
    ]
    searched = sum(result.searched for result in results)
    notes = [f"yes: no counterexample in {searched:,} comparisons of small rank tables, all metrics together."]
    if differing := [result for result in results if result.agrees is False]:
        notes.append(f"{_DIFFERS} differs from the table of the PROBE paper, see the notes.")
        notes += [one_line(f"{result.metric}, {result.about}: {result.reason}") for result in differing]
    rows = [result.row() for result in results]
    return StudyTable(title, (Grid(columns, tuple(lines), tuple(notes)),), rows, "properties")


def _property_text(result: PropertyResult) -> str:
    return ("yes" if result.holds else "no") + f" {_DIFFERS}" * (result.agrees is False)


def verdict_table(verdicts: Sequence[Verdict], title: str) -> StudyTable:
    """The verdicts on all claims, one column per source."""
    sources = list(dict.fromkeys(verdict.source for verdict in verdicts))
    by_claim: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        by_claim.setdefault(verdict.claim.name, {})[verdict.source] = verdict
    lines, before = [], None
    for own in by_claim.values():
        claim = next(iter(own.values())).claim
        answers = [str(own[source].answer) if source in own else UNDEFINED for source in sources]
        texts = (claim.section, claim.name, claim.statement, *answers)
        lines.append(GridRow(tuple(Cell(one_line(text)) for text in texts), opens=claim.section != before))
        before = claim.section
    columns = tuple(Column((one_line(name),)) for name in ("section", "claim", "statement", *sources))
    rows = [verdict.to_row() for verdict in verdicts]
    return StudyTable(title, (Grid(columns, tuple(lines)),), rows, "verdicts", long=True)


def consistency_table(worlds: Mapping[float, Points], title: str) -> StudyTable:
    """How well metrics keep the order of models when triples are missing, by missing rate."""
    benches = {f"{rate:g}": Bench.of(points, f"missing rate {rate:g}") for rate, points in worlds.items()}
    return StudyTable(title, (bench_grid(benches),), bench_rows(benches), "consistency")
