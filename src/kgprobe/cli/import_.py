"""``kgprobe import``: convert ranks written by another program to a rank file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

import typer

from kgprobe.cli.console import GraphOption, graph_inputs, note
from kgprobe.errors import UsageError
from kgprobe.files import overwritten, require_writable


def import_ranks(
    format: Annotated[  # noqa: A002
        str,
        typer.Argument(
            metavar="FORMAT", help="csv, tsv, parquet, json, jsonl, probe-json, or auto: by name and content."
        ),
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
    zero_based: Annotated[bool, typer.Option("--zero-based", help="The ranks count from 0.")] = False,
    optimistic: Annotated[
        bool,
        typer.Option(
            "--optimistic", help="The ranks are the best of their tie groups; a column of ties converts them."
        ),
    ] = False,
    pessimistic: Annotated[
        bool, typer.Option("--pessimistic", help="The ranks are the worst of their tie groups.")
    ] = False,
    inverse_relations: Annotated[
        bool,
        typer.Option("--inverse-relations", help="Relation ids beyond those of the graph are inverse: head queries."),
    ] = False,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Model name for reports.")] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="SPLIT", help="Split that was ranked.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Training seed of a single file.")] = None,
) -> None:
    """Convert ranks written by another program to a rank file.

    Columns are recognised by their usual names, or named with --map. A row is a query, or a triple with head_rank and
    tail_rank. Instead of rank and ties, a file may have optimistic and pessimistic, or greater and equal. Instead of
    candidates, it may have filtered (with --entities or --graph), or neither (with --graph, whose known answers count
    as filtered, or with --raw). Sides may be head/tail, h/t, s/o, subject/object, lhs/rhs or head-batch/tail-batch.
    """
    from kgprobe.ranks.importers.drafts import ImportOptions
    from kgprobe.ranks.importers.rank_tables import import_ranks, request_problems

    columns, problems = _mapping(map or [])
    problems += overwritten([output], [*files, *graph_inputs(graph)])
    if optimistic and pessimistic:
        problems.append("--optimistic and --pessimistic exclude each other")
    options: dict[str, Any] = {
        "num_entities": entities,
        "columns": columns,
        "raw": raw,
        "labels": labels,
        "zero_based": zero_based,
        "tie": "optimistic" if optimistic else "pessimistic" if pessimistic else "mean",
        "inverse_relations": inverse_relations,
        "model": model,
        "split": split,
        "seed": seed,
    }
    if problems:
        problems += request_problems(files, format, ImportOptions(**options), has_graph=graph is not None)
        raise UsageError("invalid arguments", problems, "see 'kgprobe import --help'")
    require_writable(output)
    ranks = import_ranks(files, format, graph=graph, **options)
    ranks.write(output)
    seeds = "" if ranks.seed is None else f", seeds {', '.join(str(x) for x in sorted(set(ranks.seed.tolist())))}"
    rows = "1 row" if len(ranks) == 1 else f"{len(ranks):,} rows"
    candidates, imported = ranks.info.candidates, ranks.info.imported
    note(f"{output}: {rows}{seeds}, candidates: {candidates.counted if candidates else 'not recorded'}")
    if imported is not None:
        for line in (*imported.notes, *(f"assumed: {one.meaning}" for one in imported.assumed)):
            note(f"  {_with_options(line)}")


_OPTIONS = {
    "`labels=True`": "--labels",
    "`tie='optimistic'`": "--optimistic",
    "`tie='pessimistic'`": "--pessimistic",
}
"""The options of the arguments that notes name."""


def _with_options(line: str) -> str:
    return reduce(lambda text, argument: text.replace(argument, _OPTIONS[argument]), _OPTIONS, line)


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
