"""``kgprobe graph stats``: statistics of knowledge graphs."""

from __future__ import annotations

from typing import Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, print_rows

app = typer.Typer(no_args_is_help=True)


@app.callback()
def graph() -> None:
    """Inspect knowledge graphs."""


@app.command()
def stats(
    graphs: Annotated[
        list[str], typer.Argument(metavar="GRAPH", help="Directories, or names looked up in KGPROBE_DATA.")
    ],
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Print sizes, degrees and problems: duplicates, overlapping splits, unseen entities, leakage."""
    from kgprobe.graph import load_graph, statistics

    rows = [statistics(load_graph(source)) for source in graphs]
    if format is Format.table and len(rows) == 1:
        # One line per property, because a single wide row is hard to read.
        name, *properties = rows[0].items()
        print_rows([{"graph": key, str(name[1]): value} for key, value in properties], format)
    else:
        print_rows(rows, format)
