"""``kgprobe openworld sensitivity``: how much of a true improvement would show."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from kgprobe.cli.options import FormatOption, MetricOption
from kgprobe.cli.output import Format, Row, note, print_rows
from kgprobe.errors import UsageError


class Unlearned(StrEnum):
    """What an answer scores that the model has not learned."""

    nothing = "nothing"
    anywhere = "anywhere"
    below = "below"


def sensitivity(
    graph: Annotated[str, typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph.")],
    missing: Annotated[
        list[str],
        typer.Option(metavar="RATE", help="Share of all true facts that the graph lacks; several separated by commas."),
    ],
    metric: MetricOption = None,
    strength: Annotated[float, typer.Option(help="Share of the true answers that the model has learned.")] = 0.9,
    split: Annotated[str, typer.Option(help="The facts that are ranked.")] = "test",
    sides: Annotated[str, typer.Option(help="The sides that are predicted: both, head or tail.")] = "both",
    unlearned: Annotated[
        Unlearned,
        typer.Option(help="What other answers score: nothing (as in the paper), or a random rank anywhere or below."),
    ] = Unlearned.below,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Tell how much of a true improvement each metric would show, from the answer counts of the graph alone."""
    from kgprobe.graph import load_graph
    from kgprobe.openworld import theory

    found = theory.sensitivity(
        load_graph(graph),
        _rates(missing),
        metric or theory.SENSITIVITY_METRICS,
        strength=strength,
        split=split,
        sides=sides,
        unlearned=theory.Unlearned(unlearned),
    )
    rows = found.to_rows()
    print_rows(rows if format in (Format.json, Format.csv) else _for_people(rows), format)
    for warning in found.warnings:
        note(warning)


def _rates(texts: list[str]) -> list[float]:
    parts = [part.strip() for text in texts for part in text.split(",")]
    problems = []
    rates: dict[float, None] = {}
    for part in parts:
        try:
            rates[float(part)] = None
        except ValueError:
            problems.append(f"'{part}' is not a number")
    if problems:
        raise UsageError("the missing rates cannot be read", problems, "write for example --missing 0.1,0.25")
    return list(rates)


def _for_people(rows: Sequence[Row]) -> list[Row]:
    """Without columns in which every row says the same."""
    constant = {name for name in ("graph", "missing", "strength", "queries") if len({row[name] for row in rows}) == 1}
    return [{name: value for name, value in row.items() if name not in constant} for row in rows]
