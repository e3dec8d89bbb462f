"""``kgprobe check``: can this rank file be trusted?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kgprobe.cli.options import FormatOption, GraphOption, RanksArgument, load
from kgprobe.cli.output import Format, Row, note, print_rows
from kgprobe.cli.progress import watching
from kgprobe.errors import DataError

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


def check(
    ranks: RanksArgument,
    graph: GraphOption = None,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Look for faults in rank files; exit 0 when they are clean, 1 with findings."""
    knowledge = load(graph)
    rows: list[Row] = [
        {"ranks": str(path), "finding": finding} for path in ranks for finding in _findings(path, knowledge)
    ]
    if rows or format is not Format.table:
        print_rows(rows, format)
    faulty = {row["ranks"] for row in rows}
    for path in ranks:
        if str(path) not in faulty:
            note(f"{path}: nothing wrong was found" + ("" if graph else "; --graph would allow a closer look"))
    if rows:
        raise typer.Exit(1)


def _findings(path: Path, graph: KnowledgeGraph | None) -> list[str]:
    from kgprobe.ranks import RankFile
    from kgprobe.ranks.audit import audit

    try:
        with watching(path) as watch:
            return audit(RankFile(path, watch), graph)
    except DataError as error:
        return error.problems or [error.title]
