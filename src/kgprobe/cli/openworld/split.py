"""``kgprobe openworld split``: hide facts of a graph that is taken as complete."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, note, print_rows
from kgprobe.cli.options import FormatOption
from kgprobe.errors import DataError
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.arrays import Floats
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.openworld.world import OpenWorld


_POPULARITY = "popularity"


def split(
    graph: Annotated[
        str, typer.Argument(metavar="GRAPH", help="Directory or name of a graph, all of it.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the world.", show_default=False)
    ],
    density: Annotated[float, typer.Option(metavar="SHARE", help="Share of the facts that is kept.")] = 0.75,
    train: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the kept facts that models are trained on.")
    ] = 0.7,
    valid: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of these that is set aside to select models by.")
    ] = 0.0,
    score: Annotated[
        str | None,
        typer.Option(
            metavar="SCORE",
            help="What decides which answers are missing: popularity, or a rank file.",
            show_default=False,
        ),
    ] = None,
    odds: Annotated[
        float,
        typer.Option(
            metavar="X", help="Odds of the lowest-scored answer of a query to be missing, over those of the highest."
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed is another split.")] = 0,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Hide facts of a graph, and write what is left as a graph.

    All facts of GRAPH are taken as all that is true. Each is kept with the probability --density; of the kept ones,
    models are trained on a share (train), and the others are held out (known, the test split of the new graph). The
    rest is missing: true, but an evaluator takes it for false. The folder is a graph as any other for kgprobe train
    and rank, and kgprobe openworld evaluate ranks models with and without the missing facts. Which facts are trained
    on does not depend on --score: rank all hard facts of a split with a model, and give its ranks as the score.
    """
    from kgprobe.graph import load_graph
    from kgprobe.openworld.splits import split_world
    from kgprobe.openworld.world_files import require_free, write_world

    require_free(output)
    complete = load_graph(graph)
    scores = None if score is None else _scores(score, complete)
    if score is not None and odds == 1:
        note("with --odds 1 the score does not matter: the missing facts are random")
    world = split_world(complete, density, train, seed, scores, odds, valid)
    world = replace(world, settings={**world.settings, "score": score})
    write_world(world, output)
    print_rows(_rows(world), format)
    note(f"{world.shares['hard_missing']:.1%} of the facts that no model is trained on are missing")
    note(f"wrote {output}: train on it as on any graph, then: kgprobe openworld evaluate MODEL --world {output}")


def _scores(score: str, graph: KnowledgeGraph) -> Floats:
    from kgprobe.openworld.splits import rank_scores, tail_popularity
    from kgprobe.ranks import read_ranks

    return tail_popularity(graph) if score == _POPULARITY else rank_scores(read_ranks(score), graph)


def _rows(world: OpenWorld) -> list[Record]:
    """Facts of each part, their share, and answers of the tail queries that would be ranked."""
    from kgprobe.openworld.world_tasks import answers_per_query, tail_task

    rows: list[Record] = [
        {"part": part, "facts": count, "share": world.shares[part]}
        for part, count in world.sizes.items()
        if count or part != "valid"
    ]
    try:
        answers = answers_per_query(world, tail_task(world))
    except DataError as error:
        note(f"{error.title}; rank all hard facts with --task all")
        return rows
    note(f"{answers['queries']:,} tail queries with at least 10 hard answers would be ranked (--task tail)")
    return [{**row, "answers per tail query": answers[str(row["part"])]} for row in rows]
