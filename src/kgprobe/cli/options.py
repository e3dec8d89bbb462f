"""Arguments and options that several commands share, and what they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kgprobe.aggregate.ties import Tie
from kgprobe.cli.output import Format
from kgprobe.errors import DataError

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph

Found = TypeVar("Found")

RanksArgument = Annotated[list[Path], typer.Argument(metavar="RANKS", help="Rank files (Parquet).")]
GraphOption = Annotated[
    str | None,
    typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph; gives the popularity."),
]
TieOption = Annotated[Tie, typer.Option(help="How ties are scored.")]
FormatOption = Annotated[Format, typer.Option("--format", "-f", help="How results are written.")]


def load(graph: str | None) -> KnowledgeGraph | None:
    """The graph of the option, if it is given."""
    if graph is None:
        return None
    from kgprobe.graph import load_graph

    return load_graph(graph)


def each_file(paths: Sequence[Path], work: Callable[[Path], Found]) -> Iterator[tuple[Path, Found]]:
    """Work on every file first, so that the problems of all of them are reported together."""
    done, errors = [], []
    for path in paths:
        try:
            done.append((path, work(path)))
        except DataError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        lines = [line for error in errors for line in [error.title, *(f"  {problem}" for problem in error.problems)]]
        raise DataError(f"{len(errors)} of {len(paths)} files cannot be used", lines, errors[0].remedy)
    yield from done
