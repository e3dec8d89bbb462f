"""``kgprobe import``: convert ranks written by another program to a rank file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgprobe.cli.console import GraphOption, load, note
from kgprobe.errors import UsageError, nearest

if TYPE_CHECKING:
    from kgprobe.ranks import Ranks


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
    from kgprobe.ranks.importers import IMPORTERS
    from kgprobe.ranks.importers.column_mapping import mapping_problems
    from kgprobe.ranks.importers.drafts import option_problems

    importer = IMPORTERS.get(format)
    columns, problems = _mapping(map or [])
    problems += mapping_problems(columns)
    options: dict[str, Any] = {"columns": columns, "raw": raw, "labels": labels}
    if importer is None:
        problems.append(f"unknown format {format!r}{nearest(format, IMPORTERS)}; {_formats(IMPORTERS)}")
    else:
        unused = [name for name, value in options.items() if value and name not in importer.options]
        problems += [f"{_FLAGS[name]} is not an option of {format}" for name in unused]
        if importer.needs_size and graph is None and entities is None:
            problems.append(f"{format} needs the graph (--graph) or its number of entities (--entities)")
    problems += option_problems(
        has_graph=graph is not None, entities=entities, split=split, seed=seed, files=len(files)
    )
    problems += [f"{output} is both input and output" for file in files if _same(file, output)]
    if problems or importer is None:
        raise UsageError("invalid arguments", problems, "see 'kgprobe import --help'")
    ranks = importer.read(
        files,
        graph=load(graph),
        num_entities=entities,
        model=model,
        split=split,
        seed=seed,
        **{name: value for name, value in options.items() if name in importer.options},
    )
    ranks.write(output)
    _report(ranks, output)


_FLAGS = {"columns": "--map", "raw": "--raw", "labels": "--labels"}


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


def _formats(importers: Mapping[str, Any]) -> str:
    return "the formats are " + ", ".join(f"{name} ({importer.summary})" for name, importer in importers.items())


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them does not exist
        return False


def _report(ranks: Ranks, output: Path) -> None:
    seeds = "" if ranks.seed is None else f", seeds {', '.join(map(str, sorted(set(ranks.seed.tolist()))))}"
    rows = "1 row" if len(ranks) == 1 else f"{len(ranks):,} rows"
    note(f"{output}: {rows}{seeds}, candidates: {ranks.info.settings['candidates']}")
    for line in ranks.info.settings["notes"]:
        note(f"  {line}")
