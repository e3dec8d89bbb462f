"""``kgprobe openworld estimate``: what scores would be if no fact were missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, counting, note, print_rows
from kgprobe.cli.options import DrawOption, FormatOption, MetricOption, RanksArgument, load, read_models
from kgprobe.cli.surface import parse_axis
from kgprobe.errors import UsageError
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.openworld import Estimation


_DATA = (Format.json, Format.csv)


def estimate(
    ranks: RanksArgument,
    missing: Annotated[
        str,
        typer.Option(
            metavar="RATE",
            help="Share of all true facts that the graph lacks: a number, or LOWEST:HIGHEST.",
            show_default=False,
        ),
    ],
    metric: MetricOption = None,
    graph: Annotated[
        str | None,
        typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph; counts known answers."),
    ] = None,
    entities: Annotated[
        int | None, typer.Option(metavar="N", help="Number of entities, where there is no graph.")
    ] = None,
    odds: Annotated[
        str,
        typer.Option(
            metavar="ODDS",
            help="Stress: how much likelier the answer ranked last is missing than the first; several by commas.",
        ),
    ] = "1",
    held_out: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the known facts that is held out; needed where queries were chosen for having many answers.",
            show_default="not needed, or as the ranks say",
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence of intervals.")] = 0.95,
    draws: Annotated[int, typer.Option(metavar="N", help="How often the world is completed anew.")] = 48,
    curve: Annotated[
        bool, typer.Option("--curve/--no-curve", help="Find out up to which missing rate an order holds.")
    ] = True,
    seed: DrawOption = 0,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Estimate the scores of models, and their order, as they would be if no fact were missing.

    It needs the ranks of facts that training has not seen, filtered by all that is known. Missing facts are taken to be
    like the known ones; --odds says what if those that a model ranks low (above 1) or high (below 1) are missing more
    often.
    """
    from kgprobe.openworld import estimate_closed
    from kgprobe.openworld.closed_estimates import DEFAULT_METRICS, draws_needed

    rate, stresses = parse_missing(missing), parse_axis("odds", odds)
    knowledge = load(graph)
    tables = read_models(ranks)
    total = len(stresses) * draws_needed(len(tables), rate, draws, curve)
    with counting("completing", total, "draws") as progress:
        found = [
            estimate_closed(
                tables,
                metric or DEFAULT_METRICS,
                missing=rate,
                graph=knowledge,
                entities=entities,
                odds=stress,
                held_out=held_out,
                level=level,
                draws=draws,
                curve=curve,
                seed=seed,
                progress=progress,
            )
            for stress in stresses
        ]
    _print(found, format)


def parse_missing(text: str) -> float | tuple[float, float]:
    """A missing rate, or a range of them.

    Example:
        >>> parse_missing("0.25"), parse_missing("0.1:0.3")
        (0.25, (0.1, 0.3))
    """
    try:
        numbers = [float(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 2:
        raise UsageError(f"--missing {text}: no missing rate", remedy="write a number, or LOWEST:HIGHEST as in 0.1:0.3")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def _print(found: list[Estimation], format: Format) -> None:  # noqa: A002
    if format in _DATA:
        print_rows([row for one in found for row in one.to_rows()], format)
    else:
        stress = len(found) > 1
        for rows in ("estimate_rows", "order_rows"):
            printed = [
                ({"odds": f"{one.assumptions.odds:g}"} if stress else {}) | row
                for one in found
                for row in getattr(one, rows)()
            ]
            if printed:
                print_rows(_without_unasked(printed), format)
                print()
    for remark in dict.fromkeys(remark for one in found for remark in one.remarks):
        note(remark)
    for order in (order for one in found for order in one.orders if len(found) == 1):
        note(str(order))


def _without_unasked(rows: list[Record]) -> list[Record]:
    """Without the columns that nothing was asked for."""
    asked = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    return [{name: row[name] for name in asked} for row in rows]
