"""``kgprobe check``: audit rank files before they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kgprobe.cli.console import (
    Format,
    FormatOption,
    GraphOption,
    NamesOption,
    RanksArgument,
    file_size,
    load,
    note,
    print_rows,
    print_terminal,
    watching,
)
from kgprobe.errors import DataError
from kgprobe.report.grid import Record, grid_of
from kgprobe.resources import Progress

if TYPE_CHECKING:
    from kgprobe.audit import Finding
    from kgprobe.ranks import RankFile


def check(
    ranks: RanksArgument,
    graph: GraphOption = None,
    names: NamesOption = None,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Audit rank files: errors in each file, and differences that make them incomparable.

    The exit code is 0 when there is no error and no warning, else 1.
    """
    from kgprobe.audit import check, gravest_first

    knowledge = load(graph, names)
    with watching(max(ranks, key=file_size)) as progress:
        files, unreadable = _open(list(dict.fromkeys(ranks)), progress)
        findings = gravest_first([*unreadable, *check(files, knowledge)])
    paths = {model: str(file.path) for model, file in files.items()}
    if findings or format is not Format.table:
        rows = [_row(finding, paths) for finding in findings]
        if format is Format.table:
            print_terminal(grid_of([_shortened(row) for row in rows]), fold=True)
        else:
            print_rows(rows if format.is_data else [_shortened(row) for row in rows], format)
    unclean = [finding for finding in findings if finding.unclean]
    faulty = {model for finding in unclean for model in finding.models}
    for model in files:
        if model not in faulty:
            note(f"{model}: no problems found" + ("" if graph else "; with --graph more can be checked"))
    if unclean:
        raise typer.Exit(1)


def _open(paths: list[Path], progress: Progress | None) -> tuple[dict[str, RankFile], list[Finding]]:
    """The files by model name (by path where several have the same), and findings on files that cannot be read."""
    from kgprobe.audit import unreadable
    from kgprobe.comparison.lineup import named_files
    from kgprobe.ranks import RankFile

    files: list[RankFile] = []
    findings: list[Finding] = []
    for path in paths:
        try:
            files.append(RankFile(path, progress))
        except DataError as error:
            findings += unreadable(str(path), error)
    return named_files(files), findings


def _row(finding: Finding, paths: Mapping[str, str]) -> Record:
    return {
        "ranks": ", ".join(paths.get(model, model) for model in finding.models),
        "model": ", ".join(model for model in finding.models if paths.get(model, model) != model) or None,
        "severity": str(finding.severity),
        "kind": finding.kind,
        "finding": finding.message,
        "rows": finding.rows,
    }


def _shortened(row: Record) -> Record:
    """A row that names the model instead of its path."""
    return {"file": row["model"] or row["ranks"], **{key: row[key] for key in ("severity", "kind", "finding", "rows")}}
