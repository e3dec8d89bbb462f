"""Reports of open-world benchmarks: tables and a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from os import PathLike
from typing import TYPE_CHECKING, Any

from kgprobe.files import replacing
from kgprobe.ranks.metadata import package_version
from kgprobe.report.grid import (
    Cell,
    Column,
    Grid,
    GridRow,
    as_text,
    counted,
    csv_text,
    ending_of,
    json_text,
    one_line,
    terminal,
)
from kgprobe.report.latex_tables import latex
from kgprobe.report.markup_tables import markdown
from kgprobe.report.page.entries import world_entry
from kgprobe.report.page.page_file import write_rendered
from kgprobe.report.page.payload import pack

if TYPE_CHECKING:
    from kgprobe.openworld.benches import Bench

Benches = Mapping[str, "Bench"]

_COLUMNS: dict[tuple[str, str], Callable[[Mapping[str, Any]], Any]] = {
    ("all points", "tau"): lambda row: row["tau"],
    ("all points", "rho"): lambda row: row["rho"],
    ("all points", "discordant"): lambda row: row["discordant"],
    ("all points", "tied %"): lambda row: f"{100 * row['tied'] / row['pairs']:.1f}",
    ("late points", "tau"): lambda row: row["late_tau"],
    ("late points", "residual"): lambda row: row["residual"],
    ("late points", "spread"): lambda row: row["spread"],
    ("late points", "tau to MRR"): lambda row: row["late_tau_mrr"],
    ("models", "inverted"): lambda row: row["inverted"],
    ("models", "discrimination"): lambda row: row["discrimination"],
    ("models", "gap"): lambda row: row["gap"],
}

_MEANINGS = (
    "All points: Kendall's tau and Spearman's rho between both worlds, discordant pairs, and tied pairs.",
    "Late points: residual is the distance of closed-world values from a monotone fit on open-world values, relative "
    "to their range; spread is the open-world difference between models with equal closed-world values, relative to "
    "the open-world gain; tau to MRR is between the open-world value and the closed-world MRR.",
    "Models: inverted is the number of discordant pairs, each model at its best open-world checkpoint; discrimination "
    "is the range of open-world values at the last checkpoints; gap is the difference between the worlds, on a scale "
    "where chance to perfect is 1.",
)


def bench_grid(benches: Benches) -> Grid:
    """The statistics of each metric in each world, with notes."""
    several = len(benches) > 1
    names = [Column(("", "world"))] * several + [Column(("", "metric"))]
    numbers = [Column(headings, numeric=True) for headings in _COLUMNS]
    lines = []
    for bench in benches.values():
        for number, row in enumerate(bench.to_rows()):
            first = [row["world"]] * several + [row["metric"]]
            texts = [*first, *(as_text(value(row)) for value in _COLUMNS.values())]
            lines.append(GridRow(tuple(Cell(one_line(text)) for text in texts), opens=number == 0))
    return Grid((*names, *numbers), tuple(lines), (*bench_notes(benches), *_MEANINGS))


def bench_notes(benches: Benches) -> list[str]:
    """Results and limits of the benchmarks, one sentence each."""
    several = len(benches) > 1
    notes = ["Worlds are evaluated separately: scores of different worlds are not comparable."] * several
    for name, bench in benches.items():
        points = bench.points
        of = counted(len(points.models), "model"), counted(points.queries, "known answer")
        made = f"{counted(len(points), 'point')} of {', '.join(of)}."
        notes += [one_line(f"{name}: {text}") if several else text for text in [made, *bench.verdict, *bench.notes]]
    return notes


def bench_rows(benches: Benches) -> list[dict[str, Any]]:
    """Flat rows of each world, of kind ``consistency``, ``difference`` and ``point``."""
    rows: list[dict[str, Any]] = []
    for bench in benches.values():
        rows += [{"kind": "consistency", **row} for row in bench.to_rows()]
        rows += [{"kind": "difference", "world": bench.world, **one.to_row()} for one in bench.differences]
        rows += [{"kind": "point", "world": bench.world, **row} for row in bench.points.to_rows()]
    return rows


TEXTS: dict[str, Callable[[Benches], str]] = {
    ".md": lambda benches: markdown(bench_grid(benches)),
    ".tex": lambda benches: latex(bench_grid(benches)),
    ".csv": lambda benches: csv_text(bench_rows(benches)),
    ".json": lambda benches: json_text(bench_rows(benches)),
    ".txt": lambda benches: terminal(bench_grid(benches)),
}
"""Writers of text formats, by file ending."""


def write_bench(benches: Benches, path: str | PathLike[str], title: str = "Open world", command: str = "") -> None:
    """Write benchmarks as a page (.html), a table or data, chosen by the file ending."""
    ending = ending_of(path, [".html", *TEXTS])
    if ending == ".html":
        header = {
            "title": title,
            "command": command,
            "version": package_version(),
            "written": date.today().isoformat(),
            "openWorld": [world_entry(bench) for bench in benches.values()],
        }
        write_rendered(path, pack(header, {}), title, ranks=False, open_world=True)
        return
    with replacing(path) as temporary:
        temporary.write_text(TEXTS[ending](benches), encoding="utf-8", newline="\n")
