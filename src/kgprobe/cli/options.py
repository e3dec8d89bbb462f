"""Arguments and options that several commands share, and what they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.cli.console import Format, watching
from kgprobe.errors import DataError

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.ranks import Ranks


Found = TypeVar("Found")


class Cluster(StrEnum):
    """What queries share that makes them vary together."""

    triple = "triple"
    relation = "relation"
    entity = "entity"
    query = "query"


class Seeds(StrEnum):
    """Whether training runs are a sample of all that might have been, or the only ones of interest."""

    random = "random"
    fixed = "fixed"


RanksArgument = Annotated[list[Path], typer.Argument(metavar="RANKS", help="Rank files (Parquet).")]

GraphOption = Annotated[
    str | None,
    typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph; gives the popularity."),
]

MetricOption = Annotated[
    list[str] | None, typer.Option("--metric", "-m", help="Metrics; 'kgprobe metrics' lists all. May be repeated.")
]

ByOption = Annotated[
    list[str] | None,
    typer.Option(help="Groups: relation, side, popularity:5, candidates:4, a label column; comma-separated."),
]

TieOption = Annotated[Tie, typer.Option(help="How ties are scored.")]

ClusterOption = Annotated[Cluster, typer.Option(help="What queries share that makes them vary together.")]

SeedsOption = Annotated[
    Seeds | None, typer.Option(help="Training runs: a random sample, or fixed.", show_default="by their number")
]

CommonOption = Annotated[
    bool, typer.Option("--common", help="Compare on the queries that all models have, instead of refusing others.")
]

DrawOption = Annotated[int, typer.Option("--seed", help="Repeats the same draws.")]

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


def read_models(paths: Sequence[Path]) -> dict[str, Ranks]:
    """The ranks of every file by the name of its model."""
    from kgprobe.comparison.lineup import named_files, whole_table
    from kgprobe.ranks import RankFile

    def read(path: Path) -> Ranks:
        with watching(path) as progress:
            return whole_table(RankFile(path, progress))

    tables = dict(each_file(paths, read))
    return {name: tables[file.path] for name, file in named_files(paths).items()}
