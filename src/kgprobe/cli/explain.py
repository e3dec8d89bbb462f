"""``kgprobe explain``: which rules put a candidate at its rank."""

from __future__ import annotations

from typing import Annotated

import typer

from kgprobe.cli.console import Format, print_rows
from kgprobe.cli.options import FormatOption
from kgprobe.cli.rules import RunArgument, RunGraphOption, RunSeedOption, RunSelectOption


def explain(
    run: RunArgument,
    query: Annotated[
        str,
        typer.Option(
            "--query",
            "-q",
            metavar="QUERY",
            help='"head, relation, ?" or "?, relation, tail", by names or ids; commas or tabs between the three.',
            show_default=False,
        ),
    ],
    candidate: Annotated[
        list[str] | None,
        typer.Option("--candidate", "-c", metavar="E", help="Show this answer too, wherever it is. May be repeated."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, metavar="N", help="How many of the best answers.")] = 5,
    rules: Annotated[int, typer.Option(min=0, metavar="N", help="How many rules of each answer.")] = 5,
    new: Annotated[
        bool, typer.Option("--new", help="Leave out answers that are known, unless they are named.")
    ] = False,
    graph: RunGraphOption = None,
    select: RunSelectOption = None,
    seed: RunSeedOption = None,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Show the best answers to a query, and the rules that put them there.

    Ranks are those of 'kgprobe rank': known answers of any split are no candidates, except the one that is ranked. A
    score is the sum of what is shown. Below it stand the strongest rules that lead to the answer, by how much the score
    would fall without each, and the facts along one path.
    """
    from kgprobe.train.trained_models import explain as explained

    found = explained(
        run,
        query,
        graph=graph,
        select=select,
        seed=seed,
        candidates=candidate or [],
        top=top,
        rules=rules,
        new=new,
    )
    if format is Format.table:
        print(found)
    else:
        print_rows(found.to_rows(), format)
