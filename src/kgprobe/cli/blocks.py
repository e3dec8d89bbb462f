"""``kgprobe blocks``: merge the blocks of a ranking into a rank file, or show how far it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, note, print_rows
from kgprobe.files import refuse_overwriting, require_writable
from kgprobe.report.grid import counted

app = typer.Typer(no_args_is_help=True)

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory of a ranking: the DIR of kgprobe rank --blocks DIR.")
]


@app.callback()
def blocks() -> None:
    """Rankings by blocks, which kgprobe rank --blocks makes."""


@app.command()
def merge(
    directory: DirectoryArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Rank file to write.")],
) -> None:
    """Write the rank file of a ranking whose blocks are all counted.

    It has the same bytes as the file of kgprobe rank without blocks. Each block is verified, and read once.
    """
    from kgprobe.predict.blocks.ranking_directory import RankingDirectory

    refuse_overwriting([output], [directory])
    require_writable(output)
    ranking, start = RankingDirectory.open(directory), time.monotonic()
    ranks = ranking.merged()
    ranks.write(output)
    read = counted(len(ranking.plan.blocks), "block")
    note(f"wrote {output}: {len(ranks):,} queries of {read} in {time.monotonic() - start:,.1f} s")


@app.command()
def status(directory: DirectoryArgument, format: FormatOption = Format.table) -> None:  # noqa: A002
    """Show how many blocks are done, running and missing, the rate, and the time left."""
    from kgprobe.predict.blocks.ranking_directory import RankingDirectory

    found = RankingDirectory.open(directory).status()
    row = {name: value for name, value in vars(found).items() if name != "signs"}
    if format is Format.table:
        print_rows([{"ranking": name.replace("_", " "), str(directory): value} for name, value in row.items()], format)
    else:
        print_rows([row], format)
    for block, sign in found.signs:
        state = "is counted" if sign.is_alive else "was counted, and has stopped:"
        note(f"{block}: {state} by {sign.place}, last sign of life {sign.silent:,.0f} s ago")
