"""The command line: one file for each command, errors without a traceback."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from kgprobe.cli import graph, openworld
from kgprobe.cli.check import check
from kgprobe.cli.compare import compare
from kgprobe.cli.console import note
from kgprobe.cli.decide import decide
from kgprobe.cli.demo import demo
from kgprobe.cli.eval import evaluate
from kgprobe.cli.explain import explain
from kgprobe.cli.figure import figure
from kgprobe.cli.import_ import import_ranks
from kgprobe.cli.metrics import metrics
from kgprobe.cli.properties import properties
from kgprobe.cli.rank import rank
from kgprobe.cli.report import report
from kgprobe.cli.rules import rules
from kgprobe.cli.surface import surface
from kgprobe.cli.train import train
from kgprobe.errors import KgprobeError

app = typer.Typer(
    name="kgprobe",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("eval")(evaluate)

app.command("surface")(surface)

app.command("compare")(compare)

app.command("decide")(decide)

app.command("report")(report)

app.command("figure")(figure)

app.command("check")(check)

app.command("train")(train)

app.command("rank")(rank)

app.command("rules")(rules)

app.command("explain")(explain)

app.command("import")(import_ranks)

app.command("metrics")(metrics)

app.command("properties")(properties)

app.command("demo")(demo)

app.add_typer(graph.app, name="graph")

app.add_typer(openworld.app, name="openworld")


def _version(wanted: bool) -> None:
    if wanted:
        from kgprobe.ranks.schema import package_version

        print(package_version())
        raise typer.Exit


@app.callback()
def kgprobe(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """How good is a knowledge graph completion model, from the perspective you need?"""


def _run() -> None:
    """Run the command; a reader that went away (`kgprobe ... | head`) ends it without a complaint."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # results are the same bytes under every locale
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more on its way out, which would complain after all.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def main() -> None:
    """Run the command line; exit 0 when all is well, 1 for bad data, 2 for bad usage, 130 for Ctrl-C."""
    # Threads of torch that wait must not keep a core busy that another one, or another program, needs.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        _run()
    except KgprobeError as error:
        note(f"Error: {error}")
        sys.exit(error.exit_code)
