"""``kgprobe explain``: the rules behind the scores of candidates."""

from __future__ import annotations

from typing import Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, NamesOption, print_rows
from kgprobe.cli.rules import RunArgument, RunGraphOption, RunSeedOption, RunSelectOption
from kgprobe.errors import one_line


def explain(
    run: RunArgument,
    query: Annotated[
        str,
        typer.Option(
            "--query",
            "-q",
            metavar="QUERY",
            help='"head, relation, ?" or "?, relation, tail", with names, labels or ids, separated by commas or tabs.',
        ),
    ],
    candidate: Annotated[
        list[str] | None,
        typer.Option("--candidate", "-c", metavar="E", help="Also show this candidate. May be repeated."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, metavar="N", help="Number of top candidates.")] = 5,
    rules: Annotated[int, typer.Option(min=0, metavar="N", help="Rules per candidate.")] = 5,
    new: Annotated[bool, typer.Option("--new", help="Leave out known answers, except given candidates.")] = False,
    graph: RunGraphOption = None,
    names: NamesOption = None,
    select: RunSelectOption = None,
    seed: RunSeedOption = None,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Show the top candidates of a query, and the rules behind their scores.

    Ranks are those of 'kgprobe rank': known answers of all splits are filtered, except the one that is ranked. A score
    is the sum of the terms shown. Below it are the rules that contribute most, each with the decrease of the score
    without it and the triples of one grounding.
    """
    from kgprobe.train.trained_models import explain as explain_query

    explanation = explain_query(
        run,
        query,
        graph=graph,
        names=names or (),
        select=select,
        seed=seed,
        candidates=candidate or [],
        top=top,
        rules=rules,
        new=new,
    )
    if format is Format.table:
        for line in str(explanation).split("\n"):
            print(one_line(line))
    else:
        print_rows(explanation.to_rows(), format)
