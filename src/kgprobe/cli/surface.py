"""``kgprobe surface``: PROBE over a grid of alpha and beta."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.cli import console
from kgprobe.report.grid import Record, counted

if TYPE_CHECKING:
    from kgprobe.aggregate import Surface


def surface(
    ranks: console.RanksArgument,
    alpha: Annotated[
        str, typer.Option(help="Sharpness: start:stop:step, or numbers separated by commas.")
    ] = "-1:1:0.5",
    beta: Annotated[str, typer.Option(help="Popularity-bias robustness, in the same notation.")] = "0:0.8:0.2",
    graph: console.GraphOption = None,
    tie: console.TieOption = Tie.mean,
    eps_e: Annotated[float | None, typer.Option(help="Epsilon of the entity popularity.")] = None,
    eps_r: Annotated[float | None, typer.Option(help="Epsilon of the relation popularity.")] = None,
    at: console.AtOption = None,
    format: console.FormatOption = console.Format.table,  # noqa: A002
) -> None:
    """Compute PROBE(alpha, beta) over a grid."""
    from kgprobe.aggregate import surface
    from kgprobe.comparison.lineup import named_files
    from kgprobe.ranks import RankFile

    alphas, betas = console.parse_axis("alpha", alpha), console.parse_axis("beta", beta)
    knowledge = console.load(graph)

    def computed(path: Path) -> tuple[RankFile, Surface]:
        with console.watching(path) as progress:
            file = RankFile(path, progress)
            return file, surface(file, alphas, betas, graph=knowledge, tie=tie, eps_e=eps_e, eps_r=eps_r, at=at)

    found = dict(result for _, result in console.each_file(ranks, computed))
    rows: list[Record] = []
    for name, file in named_files(list(found)).items():
        grid = found[file]
        if file.info.sample is not None:
            console.note(f"{name}: {file.info.sample.warning}")
        if grid.left_out:
            left_out = counted(grid.left_out, "query with a single candidate is", "queries with a single candidate are")
            console.note(f"{name}: {left_out} left out")
        if format.is_data:
            rows += [
                {
                    "ranks": str(file.path),
                    "model": file.info.model,
                    "alpha": console.axis_value(a),
                    "beta": b,
                    "value": float(grid[i, j]),
                    "effective": float(grid.effective[j]),
                    "left_out": grid.left_out,
                    "tie": str(tie),
                    "at": None if at is None else str(at),
                }
                for i, a in enumerate(alphas)
                for j, b in enumerate(betas)
            ]
        else:
            rows += matrix(name, alphas, betas, grid)
    console.print_rows(rows, format)


def matrix(model: str, alphas: list[float], betas: list[float], grid: Surface) -> list[Record]:
    """A surface as table rows: one per alpha, beta across, then the effective sample sizes."""
    lines: list[Record] = [
        {"model": model, "alpha": f"{a:g}"} | {f"beta={b:g}": float(grid[i, j]) for j, b in enumerate(betas)}
        for i, a in enumerate(alphas)
    ]
    effective = {f"beta={b:g}": round(float(grid.effective[j])) for j, b in enumerate(betas)}
    return [*lines, {"model": model, "alpha": "effective queries"} | effective]
