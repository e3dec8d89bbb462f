"""``kgprobe openworld estimate``: estimate closed-world scores from open-world ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli import console
from kgprobe.errors import UsageError
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.openworld import Estimation


def estimate(
    ranks: console.RanksArgument,
    missing: Annotated[
        str,
        typer.Option(
            metavar="RATE", help="Share of all true triples that the graph lacks: a number, or LOWEST:HIGHEST."
        ),
    ],
    metric: console.MetricOption = None,
    graph: Annotated[
        str | None,
        typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph, to count known answers."),
    ] = None,
    entities: Annotated[int | None, typer.Option(metavar="N", help="Number of entities, if there is no graph.")] = None,
    odds: Annotated[
        str,
        typer.Option(
            metavar="ODDS",
            help="Odds that the last-ranked answer is missing, relative to the first-ranked; comma-separated.",
        ),
    ] = "1",
    held_out: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Held-out share of the known triples; needed if queries were selected by their number of answers.",
            show_default="not needed, or as the ranks say",
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of intervals.")] = 0.95,
    draws: Annotated[
        int, typer.Option(metavar="N", max=console.MOST_DRAWS, help="Random completions of the graph.")
    ] = 48,
    curve: Annotated[
        bool, typer.Option("--curve/--no-curve", help="Find the missing rate up to which the order of models holds.")
    ] = True,
    at: console.AtOption = None,
    seed: console.DrawOption = 0,
    format: console.FormatOption = console.Format.table,  # noqa: A002
) -> None:
    """Estimate the scores and the order of models as if no triple were missing.

    This needs filtered ranks of held-out triples. Missing triples are assumed to be like the known ones; --odds tests
    the case that triples which a model ranks low (above 1) or high (below 1) are missing more often.
    """
    from kgprobe.openworld import estimate_closed
    from kgprobe.openworld.closed_estimates import DEFAULT_METRICS, draws_needed

    rate, stresses = parse_missing(missing), console.parse_axis("odds", odds)
    knowledge = console.load(graph)
    tables, _ = console.read_models(ranks, knowledge)
    total = len(stresses) * draws_needed(len(tables), rate, draws, curve)
    with console.counting("completing", total, "draws") as progress:
        estimations = [
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
                at=at,
                seed=seed,
                progress=progress,
            )
            for stress in stresses
        ]
    _print(estimations, format)


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
        raise UsageError(
            f"--missing {text}: invalid missing rate", remedy="write a number, or LOWEST:HIGHEST as in 0.1:0.3"
        )
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def _print(estimations: list[Estimation], format: console.Format) -> None:  # noqa: A002
    if format.is_data:
        console.print_rows([row for one in estimations for row in one.to_rows()], format)
    else:
        stress = len(estimations) > 1
        for rows in ("estimate_rows", "order_rows"):
            printed = [
                ({"odds": f"{one.assumptions.odds:g}"} if stress else {}) | row
                for one in estimations
                for row in getattr(one, rows)()
            ]
            if printed:
                console.print_rows(_without_empty(printed), format)
                print()
    for remark in dict.fromkeys(remark for one in estimations for remark in one.remarks):
        console.note(remark)
    for order in (order for one in estimations for order in one.orders if len(estimations) == 1):
        console.note(str(order))


def _without_empty(rows: list[Record]) -> list[Record]:
    """Rows without the columns that are empty everywhere."""
    filled = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    return [{name: row[name] for name in filled} for row in rows]
