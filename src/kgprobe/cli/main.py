"""The `kgprobe` command: one file per subcommand; user errors are printed without a traceback."""

from __future__ import annotations

import errno
import inspect
import io
import os
import re
import shutil
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from kgprobe.cli import blocks, graph, openworld, study
from kgprobe.cli.check import check
from kgprobe.cli.compare import compare
from kgprobe.cli.console import discard, note
from kgprobe.cli.decide import decide
from kgprobe.cli.demo import demo
from kgprobe.cli.eval import evaluate
from kgprobe.cli.explain import explain
from kgprobe.cli.figure import figure
from kgprobe.cli.import_ import import_ranks
from kgprobe.cli.metrics import metrics
from kgprobe.cli.properties import properties
from kgprobe.cli.rank import LOCAL, rank
from kgprobe.cli.report import report
from kgprobe.cli.rules import rules
from kgprobe.cli.surface import surface
from kgprobe.cli.train import train
from kgprobe.errors import DataError, KgprobeError

_ROOM_FOR_BOXES = 70

app = typer.Typer(
    name="kgprobe",
    no_args_is_help=True,
    # The boxes of rich cut off texts where there is little room.
    rich_markup_mode="rich" if shutil.get_terminal_size().columns >= _ROOM_FOR_BOXES else None,
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
app.add_typer(blocks.app, name="blocks")
app.add_typer(graph.app, name="graph")
app.add_typer(openworld.app, name="openworld")
app.add_typer(study.app, name="study")


def _version(asked: bool) -> None:
    if asked:
        from kgprobe.ranks.metadata import package_version

        print(package_version())
        raise typer.Exit


@app.callback()
def kgprobe(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Read files that unpack to up to this size, such as 64GB.", show_default="half of all"
        ),
    ] = None,
) -> None:
    """Evaluate knowledge graph completion models from rank files."""
    if memory is not None:
        from kgprobe.resources import parse_memory, raise_unpacking_limit

        raise_unpacking_limit(parse_memory(memory))


def _reflowed(used: Any) -> Any:
    """A command whose help has one line for each paragraph, which is then wrapped to the width of the terminal."""
    if used.help:
        used.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(used.help).split("\n\n"))
    for below in getattr(used, "commands", {}).values():
        _reflowed(below)
    return used


command = _reflowed(typer.main.get_command(app))


class _StandardOutput(io.FileIO):
    """Standard output whose write errors, such as a full disk, are reported as errors of the user's making."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            problem = "it is closed" if error.errno == errno.EBADF else os.strerror(error.errno or 0)
            remedy = "send the results to a file or program that takes them"
            raise DataError("standard output: cannot be written", [problem], remedy) from None


def _open_streams() -> None:
    """Prepare standard output and standard error: the same bytes under every locale, and errors that are understood.

    A stream that the shell closed (`>&-`) is taken by the null device. Otherwise the next file that is opened would get
    its number, and with it whatever is printed. Writing results to a closed stream fails; notes are dropped.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, mode), number)
    if sys.stdout is sys.__stdout__:  # not under a test that captures it
        at_once = any(getattr(sys.stdout, name, False) for name in ("line_buffering", "write_through"))
        buffer = io.BufferedWriter(_StandardOutput(1, "w", closefd=False))
        # The name of a file may hold bytes that are not UTF-8; these are printed as they are.
        sys.stdout = io.TextIOWrapper(buffer, "utf-8", "surrogateescape", line_buffering=at_once)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (until the process ends)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")


_VALUES = {"--ray": LOCAL}
"""The values of options that are given without one."""


def with_values(arguments: Sequence[str]) -> list[str]:
    """The words of the command line, with the values of options that may be given without one.

    Example:
        >>> with_values(["rank", "run", "--ray", "-o", "ranks.parquet"]), with_values(["--ray", "auto"])
        (['rank', 'run', '--ray=local', '-o', 'ranks.parquet'], ['--ray', 'auto'])
    """
    words = list(arguments)
    for i, word in enumerate(words):
        if word in _VALUES and (i + 1 == len(words) or words[i + 1].startswith("-")):
            words[i] = f"{word}={_VALUES[word]}"
    return words


def _run() -> None:
    """Run the command; end quietly if the reader of its output is gone (`kgprobe ... | head`)."""
    try:
        try:
            command(args=with_values(sys.argv[1:]))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
        sys.exit(1)


_usual_warning = warnings.showwarning


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
    """Print a warning of kgprobe as a note; those of Python and NumPy are printed with their place in the code."""
    if category is UserWarning:
        note(f"Warning: {message}")
    else:
        _usual_warning(message, category, *place, **options)


def main() -> None:
    """Run the command line; exit 0 on success, 1 for bad data, 2 for bad usage, 130 for Ctrl-C."""
    # Waiting threads of torch must not occupy a core.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    _open_streams()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            _run()
    except KgprobeError as error:
        for line in f"Error: {with_options(str(error), sys.argv[1:])}".split("\n"):
            note(line)
        try:
            sys.stdout.flush()
        except KgprobeError:
            discard(sys.stdout)
        sys.exit(error.exit_code)


_OPTION_OF = {
    "alphas": "alpha",
    "betas": "beta",
    "columns": "map",
    "graphs": "graph",
    "metrics": "metric",
    "models": "model",
    "num_entities": "entities",
    "sides": "side",
    "train_share": "train",
    "valid_share": "valid",
}
"""Arguments of library functions whose option has another name."""

_ARGUMENT = re.compile(r"(?:\bargument )?`(\w+)(?:=([^`]*))?`")


def with_options(message: str, arguments: Sequence[str]) -> str:
    """A message of the library with the command's options in place of Python arguments in backticks.

    Args:
        message: The text of an error.
        arguments: The words of the command line, which say whose options are meant.

    Example:
        >>> with_options("popularity is not recorded: give `graph`, or set `common=True`", ["compare", "a.parquet"])
        'popularity is not recorded: give --graph, or set --common'
    """
    used: Any = command  # of click, or of the copy of click in newer versions of typer
    for word in arguments:
        used = getattr(used, "commands", {}).get(word, used)
    options = {
        parameter.name: max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.metavar
        for parameter in used.params
    }

    def option(match: re.Match[str]) -> str:
        name, value = match[1], (match[2] or "True").strip("\"'")
        # A value may be an option of its own: `tie='optimistic'` is --optimistic.
        if name not in options and value in options:
            return str(options[value])
        written = options.get(name) or options.get(_OPTION_OF.get(name))
        if written is None:
            return match[0]
        return written if value == "True" else f"{written} {value}"

    return _ARGUMENT.sub(option, message)
