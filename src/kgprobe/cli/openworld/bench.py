"""``kgprobe openworld bench``: which metrics keep the order of models when facts are missing."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, counting, note, print_terminal
from kgprobe.cli.options import DrawOption, FormatOption, MetricOption

if TYPE_CHECKING:
    from kgprobe.openworld import Bench


_ENDINGS = {Format.json: ".json", Format.csv: ".csv", Format.latex: ".tex", Format.markdown: ".md"}


def bench(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER",
            help="Folders of rank tables in both worlds, one for each model, or folders that hold such folders.",
            show_default=False,
        ),
    ],
    metric: MetricOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A page to look at (.html), or the table as .md, .tex, .csv, .json or .txt.",
            show_default=False,
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw the figures into this folder.", show_default=False)
    ] = None,
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help="The kind of file of the figures.")] = "pdf",
    late: Annotated[float, typer.Option(help="Points with a larger closed-world MRR are late.")] = 0.5,
    replicates: Annotated[int, typer.Option(metavar="N", help="How often models are drawn for intervals.")] = 2000,
    seed: DrawOption = 0,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Compare how metrics order models and checkpoints when facts are missing and when they are not.

    Every point is a checkpoint of a model, ranked in the open world (missing facts count as false) and in the closed
    one (they count as true) by 'kgprobe openworld evaluate'. A metric is consistent if both orders are the same, and
    of use only if it still tells models apart.
    """
    from kgprobe.openworld import read_bench
    from kgprobe.openworld.benches import BenchSettings, find_pairs
    from kgprobe.openworld.world import OPEN_WORLD_METRICS
    from kgprobe.report.bench_report import TEXTS, bench_grid, write_bench
    from kgprobe.report.comparison_report import require_writing
    from kgprobe.report.figures.style import ending_of

    settings = BenchSettings(late=late, replicates=replicates, seed=seed)
    if output is not None:
        require_writing(output)
    ending_of(f"figure.{type_}")
    with counting("evaluating", len(find_pairs(folders)), "checkpoints") as progress:
        benches = read_bench(folders, metric or OPEN_WORLD_METRICS, settings=settings, progress=progress)
    if figures is not None:
        _draw(benches, figures, type_)
    if output is not None:
        write_bench(benches, output, command=shlex.join(["kgprobe", *sys.argv[1:]]))
        note(f"wrote {output}")
        return
    if format is Format.table:
        print_terminal(bench_grid(benches))
    else:
        sys.stdout.write(TEXTS[_ENDINGS[format]](benches))


def _draw(benches: dict[str, Bench], folder: Path, ending: str) -> None:
    """The figures of every world, under its name where there are several."""
    from kgprobe.report.figures.openworld_figures import draw_rank_connections, draw_worlds
    from kgprobe.report.figures.style import save

    for world, one in benches.items():
        before = re.sub(r"[^\w.=-]+", "-", world).strip("-") + "-" if len(benches) > 1 else ""
        for name, draw in {"worlds": draw_worlds, "rank-connections": draw_rank_connections}.items():
            path = folder / f"{before}{name}.{ending}"
            save(draw(one.points), path)
            note(f"wrote {path}")
