"""``kgprobe openworld bench``: which metrics keep the order of models when triples are missing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import (
    MOST_DRAWS,
    DrawOption,
    Format,
    FormatOption,
    MetricOption,
    counting,
    note,
    print_terminal,
    rank_files_below,
    shareable_command,
)
from kgprobe.files import refuse_overwriting

if TYPE_CHECKING:
    from kgprobe.openworld import Bench

_ENDINGS = {Format.json: ".json", Format.csv: ".csv", Format.latex: ".tex", Format.markdown: ".md"}


def bench(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER",
            help="Folders with open-world and closed-world ranks of a model, or folders of such folders.",
        ),
    ],
    metric: MetricOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Page to write (.html), or the table as .md, .tex, .csv, .json or .txt.",
        ),
    ] = None,
    figures: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw the figures into this folder.")] = None,
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help="File type of the figures.")] = "pdf",
    late: Annotated[float, typer.Option(help="Points with a higher closed-world MRR are late.")] = 0.5,
    replicates: Annotated[int, typer.Option(metavar="N", max=MOST_DRAWS, help="Bootstrap draws of models.")] = 2000,
    seed: DrawOption = 0,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Compare the order of models and checkpoints with and without missing triples, for each metric.

    Each point is a checkpoint of a model, ranked in the open world (missing triples count as false) and in the closed
    world (they count as true) by 'kgprobe openworld evaluate'. A metric is consistent if both orders agree, and useful
    only if it also discriminates between models.
    """
    from kgprobe.openworld import read_bench
    from kgprobe.openworld.benches import BenchSettings, find_pairs
    from kgprobe.openworld.world import OPEN_WORLD_METRICS
    from kgprobe.report.bench_report import TEXTS, bench_grid, write_bench
    from kgprobe.report.comparison_report import require_writing
    from kgprobe.report.figures.style import figure_type

    settings = BenchSettings(late=late, replicates=replicates, seed=seed)
    figure_type(f"figure.{type_}")
    if output is not None:
        refuse_overwriting([output], rank_files_below(folders))
        require_writing(output)
    with counting("evaluating", len(find_pairs(folders)), "checkpoints") as progress:
        benches = read_bench(folders, metric or OPEN_WORLD_METRICS, settings=settings, progress=progress)
    if figures is not None:
        _draw(benches, figures, type_)
    if output is not None:
        write_bench(benches, output, command=shareable_command(sys.argv[1:], [*folders, output]))
        note(f"wrote {output}")
        return
    if format is Format.table:
        print_terminal(bench_grid(benches))
    else:
        sys.stdout.write(TEXTS[_ENDINGS[format]](benches))


def _draw(benches: dict[str, Bench], folder: Path, ending: str) -> None:
    """Draw the figures of each world; with several worlds, the file name starts with the world."""
    from kgprobe.report.figures.openworld_figures import draw_rank_connections, draw_worlds
    from kgprobe.report.figures.style import save

    for world, one in benches.items():
        prefix = re.sub(r"[^\w.=-]+", "-", world).strip("-") + "-" if len(benches) > 1 else ""
        for name, draw in {"worlds": draw_worlds, "rank-connections": draw_rank_connections}.items():
            path = folder / f"{prefix}{name}.{ending}"
            save(draw(one.points), path)
            note(f"wrote {path}")
