"""``kgprobe openworld sensitivity``: the share of a true improvement that open-world scores show."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, MetricOption, note, print_rows
from kgprobe.errors import UsageError
from kgprobe.report.grid import Record

_NAMES = {
    "slope": "slope open",
    "closed_slope": "slope closed",
    "open": "value open",
    "closed": "value closed",
    "chance": "chance open",
}

_MEANING = (
    "shown: share of a true improvement that the open-world score shows (slope open / slope closed); slope: derivative "
    "of the expected score with respect to model strength; value: expected score at strength {:g}"
)


class Unlearned(StrEnum):
    """The score of an answer that the model has not learned."""

    nothing = "nothing"
    anywhere = "anywhere"
    below = "below"


def sensitivity(
    graph: Annotated[str, typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph.")],
    missing: Annotated[
        list[str], typer.Option(metavar="RATE", help="Share of all true triples that the graph lacks; comma-separated.")
    ],
    metric: MetricOption = None,
    strength: Annotated[
        float, typer.Option(help="Model strength: share of the true answers that it has learned.")
    ] = 0.9,
    split: Annotated[str, typer.Option(help="Split that is ranked.")] = "test",
    sides: Annotated[str, typer.Option(help="Sides to predict: both, head or tail.")] = "both",
    unlearned: Annotated[
        Unlearned,
        typer.Option(help="Score of other answers: nothing (as in the paper), or a random rank anywhere or below."),
    ] = Unlearned.below,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Compute the share of a true improvement that each metric shows, from the answer counts of the graph."""
    from kgprobe.graph import load_graph
    from kgprobe.openworld import expected_scores, sensitivities
    from kgprobe.openworld.world import OPEN_WORLD_METRICS

    found = sensitivities.sensitivity(
        load_graph(graph),
        _rates(missing),
        metric or OPEN_WORLD_METRICS,
        strength=strength,
        split=split,
        sides=sides,
        unlearned=expected_scores.Unlearned(unlearned),
    )
    rows = found.to_rows()
    if format.is_data:
        print_rows(rows, format)
    else:
        print_rows(_shortened(rows), format)
        note(_MEANING.format(strength))
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
        raise UsageError("invalid missing rates", problems, "for example --missing 0.1,0.25")
    return list(rates)


def _shortened(rows: Sequence[Record]) -> list[Record]:
    """Rows without constant columns, and without the flag that the warnings explain."""
    constant = {name for name in ("graph", "missing", "strength", "queries") if len({row[name] for row in rows}) == 1}
    return [{_NAMES.get(name, name): row[name] for name in row if name not in constant | {"flat"}} for row in rows]
