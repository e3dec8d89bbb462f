"""``kgprobe openworld sensitivity``: how much of a true improvement would show."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from kgprobe.cli.console import Format, note, print_rows
from kgprobe.cli.options import FormatOption, MetricOption
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
    "shown: the share of a true improvement that the score shows, slope open over slope closed; a slope is what a "
    "score is expected to gain per share of the answers that a model learns more, a value what it "
    "is where {:g} are learned"
)


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
    if format in (Format.json, Format.csv):
        print_rows(rows, format)
    else:
        print_rows(_for_people(rows), format)
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
        raise UsageError("the missing rates cannot be read", problems, "write for example --missing 0.1,0.25")
    return list(rates)


def _for_people(rows: Sequence[Record]) -> list[Record]:
    """Without what the warnings say, and columns in which every row says the same."""
    constant = {name for name in ("graph", "missing", "strength", "queries") if len({row[name] for row in rows}) == 1}
    return [{_NAMES.get(name, name): row[name] for name in row if name not in constant | {"flat"}} for row in rows]
