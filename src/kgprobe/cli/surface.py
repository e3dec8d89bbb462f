"""``kgprobe surface``: PROBE over a grid of perspectives."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.cli.console import Format, print_rows, watching
from kgprobe.cli.options import FormatOption, GraphOption, RanksArgument, TieOption, each_file, load
from kgprobe.errors import UsageError
from kgprobe.ranks.rank_files import End
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.aggregate import Surface
    from kgprobe.graph import KnowledgeGraph


_MOST_VALUES = 10_000


def surface(
    ranks: RanksArgument,
    alpha: Annotated[
        str, typer.Option(help="Sharpness: start:stop:step, or numbers separated by commas.")
    ] = "-1:1:0.5",
    beta: Annotated[str, typer.Option(help="Popularity-bias robustness, written likewise.")] = "0:0.8:0.2",
    graph: GraphOption = None,
    tie: TieOption = Tie.mean,
    eps_e: Annotated[float | None, typer.Option(help="Added to the popularity of the entity.")] = None,
    eps_r: Annotated[float | None, typer.Option(help="Added to the popularity of the relation.")] = None,
    at: Annotated[End | None, typer.Option(help="The end at which ranks that are intervals are taken.")] = None,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """PROBE(alpha, beta) over a grid."""
    alphas, betas = parse_axis("alpha", alpha), parse_axis("beta", beta)
    knowledge = load(graph)
    rows: list[Record] = []
    for path, (model, grid) in each_file(ranks, lambda p: _surface(p, alphas, betas, knowledge, tie, eps_e, eps_r, at)):
        if format in (Format.json, Format.csv):
            rows += [
                {
                    "ranks": str(path),
                    "model": model,
                    "alpha": a,
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
            rows += matrix(model, alphas, betas, grid)
    print_rows(rows, format)


def _surface(
    path: Path,
    alphas: list[float],
    betas: list[float],
    graph: KnowledgeGraph | None,
    tie: Tie,
    eps_e: float | None,
    eps_r: float | None,
    at: End | None,
) -> tuple[str | None, Surface]:
    from kgprobe.aggregate import surface
    from kgprobe.ranks import RankFile, validate

    with watching(path) as progress:
        file = RankFile(path, progress)
        validate(file, graph)
        source = file if graph is None else file.with_popularity(graph.popularity)
        source = source if at is None else at.of(source)
        return file.info.model, surface(source, alphas, betas, tie=tie, eps_e=eps_e, eps_r=eps_r)


def matrix(model: str | None, alphas: list[float], betas: list[float], grid: Surface) -> list[Record]:
    """A surface as rows for people: alpha down, beta across, the effective number of queries below."""
    lines: list[Record] = [
        {"model": model, "alpha": f"{a:g}"} | {f"beta={b:g}": float(grid[i, j]) for j, b in enumerate(betas)}
        for i, a in enumerate(alphas)
    ]
    effective = {f"beta={b:g}": round(float(grid.effective[j])) for j, b in enumerate(betas)}
    return [*lines, {"model": model, "alpha": "effective queries"} | effective]


def parse_axis(name: str, text: str) -> list[float]:
    """The numbers of an axis; ``start:stop:step`` includes its end.

    Example:
        >>> parse_axis("alpha", "-1:1:0.5"), parse_axis("beta", "0, 0.4")
        ([-1.0, -0.5, 0.0, 0.5, 1.0], [0.0, 0.4])
    """
    try:
        if ":" not in text:
            values = [float(part) for part in text.split(",")]
        else:
            start, stop, step = (float(part) for part in text.split(":"))
            count = math.floor((stop - start) / step + 1e-9) + 1 if step else 0
            if not 1 <= count <= _MOST_VALUES:
                raise UsageError(f"--{name} {text}: these steps lead nowhere", remedy="write them as -1:1:0.5")
            # Multiplying instead of adding keeps 0.1 steps on the numbers that people write.
            values = [round(start + i * step, 12) + 0.0 for i in range(count)]
    except (ValueError, OverflowError):
        raise UsageError(
            f"--{name} {text}: not numbers", remedy="write start:stop:step, or numbers separated by commas"
        ) from None
    if any(math.isnan(value) for value in values):
        raise UsageError(f"--{name} {text}: not a number")
    return values
