"""``kgprobe graph``: statistics of knowledge graphs, and their conversion to Parquet, arrays or labelled text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, graph_inputs, note, print_rows
from kgprobe.files import refuse_overwriting

app = typer.Typer(no_args_is_help=True)


@app.callback()
def graph() -> None:
    """Inspect and convert knowledge graphs."""


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


@app.command()
def write(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="Directory, or name looked up in KGPROBE_DATA.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Directory to write.")],
    format: Annotated[  # noqa: A002
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="parquet, npy for arrays that are memory-mapped, or tsv for labelled text.",
        ),
    ] = "parquet",
) -> None:
    """Write a graph as Parquet, as NumPy arrays or as labelled text; its ids stay the same."""
    from kgprobe.graph import load_graph

    refuse_overwriting([output / "train.parquet"], graph_inputs(graph))
    loaded = load_graph(graph)
    loaded.write(output, format=format)
    sizes = ", ".join(f"{len(triples):,} {split}" for split, triples in loaded.splits.items())
    note(f"wrote {output}: {loaded.num_entities:,} entities, {loaded.num_relations:,} relations, triples: {sizes}")
