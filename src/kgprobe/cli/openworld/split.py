"""``kgprobe openworld split``: remove triples from a graph that is taken as complete."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, graph_inputs, note, print_rows
from kgprobe.errors import DataError
from kgprobe.files import refuse_overwriting
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.arrays import Floats
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.openworld.world import OpenWorld

_POPULARITY = "popularity"


def split(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="Directory or name of the complete graph.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write.")],
    density: Annotated[float, typer.Option(metavar="SHARE", help="Share of the triples that is kept.")] = 0.75,
    train: Annotated[float, typer.Option(metavar="SHARE", help="Share of the kept triples for training.")] = 0.7,
    valid: Annotated[float, typer.Option(metavar="SHARE", help="Share of the training triples for validation.")] = 0.0,
    score: Annotated[
        str | None,
        typer.Option(metavar="SCORE", help="Score on which missing answers depend: popularity, or a rank file."),
    ] = None,
    odds: Annotated[
        float,
        typer.Option(
            metavar="X", help="Odds that the lowest-scored answer of a query is missing, relative to the highest."
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random split.")] = 0,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Remove triples from a graph, and write the remaining graph.

    All triples of GRAPH are taken to be all true triples. Each is kept with probability --density. Of the kept ones a
    share is for training, and the others are held out (known, the test split of the new graph). The rest is missing:
    true, but treated as false in evaluation. The folder is an ordinary graph for kgprobe train and rank, and kgprobe
    openworld evaluate ranks models with and without the missing triples. The training triples do not depend on
    --score: rank all hard triples of a split with a model, and give its rank file as the score.
    """
    from kgprobe.graph import load_graph
    from kgprobe.openworld.splits import split_world
    from kgprobe.openworld.world_files import ABOUT, require_free, write_world

    refuse_overwriting([output / ABOUT], graph_inputs(graph))
    require_free(output)
    complete = load_graph(graph)
    scores = None if score is None else _scores(score, complete)
    if score is not None and odds == 1:
        note("with --odds 1 the score has no effect: missing triples are random")
    world = split_world(complete, density, train, seed, scores, odds, valid)
    world = replace(world, settings={**world.settings, "score": score})
    write_world(world, output)
    print_rows(_rows(world), format)
    note(f"{world.shares['hard_missing']:.1%} of the triples outside the training set are missing")
    note(f"wrote {output}; train models on it, then run: kgprobe openworld evaluate MODEL --world {output}")


def _scores(score: str, graph: KnowledgeGraph) -> Floats:
    from kgprobe.openworld.splits import rank_scores, tail_popularity
    from kgprobe.ranks import read_ranks

    return tail_popularity(graph) if score == _POPULARITY else rank_scores(read_ranks(score), graph)


def _rows(world: OpenWorld) -> list[Record]:
    """Triples of each part, their share, and answers per tail query."""
    from kgprobe.openworld.world_tasks import answers_per_query, tail_task

    rows: list[Record] = [
        {"part": part, "facts": count, "share": world.shares[part]}
        for part, count in world.sizes.items()
        if count or part != "valid"
    ]
    try:
        answers = answers_per_query(world, tail_task(world))
    except DataError as error:
        note(f"{error.title}; rank all hard triples with --task all")
        return rows
    note(f"{answers['queries']:,} tail queries have at least 10 hard answers and would be ranked (--task tail)")
    return [{**row, "answers per tail query": answers[str(row["part"])]} for row in rows]
