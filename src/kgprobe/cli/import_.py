"""``kgprobe import``: convert ranks written by another program to a rank file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kgprobe.cli.console import GraphOption, note
from kgprobe.errors import UsageError


def import_ranks(
    format: Annotated[  # noqa: A002
        str, typer.Argument(metavar="FORMAT", help="probe-json, csv, tsv or parquet.")
    ],
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="One file, or one per training run.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Rank file to write.")],
    graph: GraphOption = None,
    entities: Annotated[int | None, typer.Option(metavar="N", help="Number of entities, if there is no graph.")] = None,
    map: Annotated[  # noqa: A002
        list[str] | None,
        typer.Option(metavar="NAME=COLUMN", help="Column that holds the head, rank, side, ... May be repeated."),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Unfiltered ranks: all entities are candidates.")] = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="Heads, relations and tails are labels, even if they look like ids.")
    ] = False,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Model name for reports.")] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="SPLIT", help="Split that was ranked.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Training seed of a single file.")] = None,
) -> None:
    """Convert ranks written by another program to a rank file.

    Columns are recognised by their usual names, or named with --map. Instead of rank and ties, a file may have
    optimistic and pessimistic, or greater and equal. Instead of candidates, it may have filtered (with --entities or
    --graph), or neither (with --graph, whose known answers count as filtered, or with --raw). Sides may be head/tail,
    h/t, s/o, subject/object, lhs/rhs or head-batch/tail-batch.
    """
    from kgprobe.ranks.importers.drafts import ImportOptions
    from kgprobe.ranks.importers.rank_tables import import_ranks, request_problems

    columns, problems = _mapping(map or [])
    problems += [f"{output} is both input and output" for file in files if _same(file, output)]
    if problems:
        options = ImportOptions(None, entities, columns, raw, labels, model, split, seed)
        problems += request_problems(files, format, options, has_graph=graph is not None)
        raise UsageError("invalid arguments", problems, "see 'kgprobe import --help'")
    ranks = import_ranks(
        files,
        format,
        graph=graph,
        num_entities=entities,
        columns=columns,
        raw=raw,
        labels=labels,
        model=model,
        split=split,
        seed=seed,
    )
    ranks.write(output)
    seeds = "" if ranks.seed is None else f", seeds {', '.join(str(x) for x in sorted(set(ranks.seed.tolist())))}"
    rows = "1 row" if len(ranks) == 1 else f"{len(ranks):,} rows"
    candidates, imported = ranks.info.candidates, ranks.info.imported
    note(f"{output}: {rows}{seeds}, candidates: {candidates.counted if candidates else 'not recorded'}")
    for line in imported.notes if imported else ():
        note(f"  {line.replace('`labels=True`', '--labels')}")


def _mapping(texts: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    columns: dict[str, str] = {}
    problems = []
    for text in texts:
        name, sign, column = (part.strip() for part in text.partition("="))
        if not (name and sign and column):
            problems.append(f"--map {text!r} is not of the form NAME=COLUMN")
        elif name in columns:
            problems.append(f"--map names {name!r} twice")
        else:
            columns[name] = column
    return columns, problems


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them does not exist
        return False
