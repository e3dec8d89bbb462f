"""What the commands share: options, reading of rank files and axes, tables on stdout, notes and progress on stderr."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.errors import DataError, UsageError, naming, one_line
from kgprobe.ranks.rank_files import End
from kgprobe.report.grid import Grid, csv_text, grid_of, json_text, terminal, wrapped
from kgprobe.report.grid import Record as Row
from kgprobe.report.latex_tables import latex
from kgprobe.report.markup_tables import markdown
from kgprobe.resources import Progress

if TYPE_CHECKING:
    from kgprobe.comparison import Lineup
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.metrics import Metric
    from kgprobe.ranks import RankFile, Ranks

Result = TypeVar("Result")


class Format(StrEnum):
    """How results are written to standard output."""

    table = "table"
    json = "json"
    csv = "csv"
    latex = "latex"
    markdown = "markdown"

    @property
    def is_data(self) -> bool:
        """Whether programs read it: all columns, full precision."""
        return self in (Format.json, Format.csv)


class Cluster(StrEnum):
    """The unit that the bootstrap and the permutation tests resample."""

    triple = "triple"
    relation = "relation"
    entity = "entity"
    query = "query"


class Seeds(StrEnum):
    """Whether the training runs are a random sample of all possible runs, or fixed."""

    random = "random"
    fixed = "fixed"


RanksArgument = Annotated[list[Path], typer.Argument(metavar="RANKS", help="Rank files (Parquet).")]

GraphOption = Annotated[
    str | None,
    typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph, for entity popularity."),
]

NamesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--names",
        metavar="FILE",
        help="Names of entities and relations for people: TSV, CSV, JSON, Parquet, or a folder. May be repeated.",
    ),
]

MetricOption = Annotated[
    list[str] | None, typer.Option("--metric", "-m", help="Metric; 'kgprobe metrics' lists all. May be repeated.")
]

ByOption = Annotated[
    list[str] | None,
    typer.Option(help="Group by relation, side, popularity:5, candidates:4 or a label column; comma-separated."),
]

TieOption = Annotated[Tie, typer.Option(help="How ties are scored.")]
ClusterOption = Annotated[Cluster, typer.Option(help="Queries that share this are resampled together.")]

SeedsOption = Annotated[
    Seeds | None,
    typer.Option(help="Treat training runs as a random sample, or as fixed.", show_default="by their number"),
]

CommonOption = Annotated[
    bool, typer.Option("--common", help="Use only the queries that all models have, instead of an error.")
]

ExcludeFlaggedOption = Annotated[
    bool, typer.Option("--exclude-flagged", help="Leave out rank files that 'kgprobe check' has errors for.")
]

DifferentCandidatesOption = Annotated[
    bool,
    typer.Option(
        "--allow-different-candidates", help="Also test models against each other whose candidate sets differ."
    ),
]

AtOption = Annotated[
    End | None,
    typer.Option("--at", help="End of ranks that are intervals to use: best or worst."),
]

MOST_DRAWS = 10_000_000
"""Bootstrap draws or permutations of a command; more would take days."""

DrawOption = Annotated[int, typer.Option("--seed", help="Seed of the random generator.")]
FormatOption = Annotated[Format, typer.Option("--format", "-f", help="Output format.")]
_MOST_VALUES = 10_000


def parse_axis(name: str, text: str) -> list[float]:
    """The numbers of an axis; ``start:stop:step`` includes its end.

    Example:
        >>> parse_axis("alpha", "-1:1:0.5"), parse_axis("beta", "0, 0.4")
        ([-1.0, -0.5, 0.0, 0.5, 1.0], [0.0, 0.4])
    """
    try:
        if ":" not in text:
            values = [float(part) for part in text.split(",")]
        else:
            start, stop, step = (float(part) for part in text.split(":"))
            count = math.floor((stop - start) / step + 1e-9) + 1 if step else 0
            if count < 1:
                raise UsageError(f"--{name} {text}: no step leads from start to stop", remedy="for example -1:1:0.5")
            if count > _MOST_VALUES:
                problem = f"The grid has {count:,} points; at most {_MOST_VALUES:,} are allowed."
                raise UsageError(f"--{name} {text}: too many points", [problem])
            # Multiplying instead of adding keeps steps of 0.1 on round numbers.
            values = [round(start + i * step, 12) + 0.0 for i in range(count)]
    except (ValueError, OverflowError):
        raise UsageError(
            f"--{name} {text}: not numbers", remedy="write start:stop:step, or numbers separated by commas"
        ) from None
    if any(math.isnan(value) for value in values):
        raise UsageError(f"--{name} {text}: not a number")
    return values


def axis_value(number: float) -> float | str:
    """A number of an axis for JSON and CSV, which have no infinite numbers: these are written as text.

    Example:
        >>> axis_value(0.5), axis_value(-math.inf)
        (0.5, '-inf')
    """
    return number if math.isfinite(number) else f"{number:g}"


def load(graph: str | None, names: Sequence[Path] | None = None) -> KnowledgeGraph | None:
    """The graph of the option with the names of the option, if they are given.

    Example:
        >>> load(None, [Path("names.tsv")])
        Traceback (most recent call last):
        kgprobe.errors.UsageError: --names needs the graph whose entities and relations are named
        Remedy: give --graph
    """
    if graph is None:
        if names:
            raise UsageError("--names needs the graph whose entities and relations are named", remedy="give --graph")
        return None
    from kgprobe.graph import load_graph

    return load_graph(graph).with_names(*(names or []), note=note)


def graph_inputs(graph: str | None, names: Sequence[Path] | None = None) -> list[Path]:
    """The files of a graph or world and of names that no output may overwrite, existing or not.

    Example:
        >>> graph_inputs(None)
        []
    """
    from kgprobe.graph.name_files import recognised_files

    named = [file for path in names or [] for file in (recognised_files(path) if path.is_dir() else [path])]
    return [*named, *_graph_inputs(graph)]


def _graph_inputs(graph: str | None) -> list[Path]:
    if graph is None:
        return []
    from kgprobe.graph.load import graph_files
    from kgprobe.openworld.world_files import ABOUT, ANSWERS, MISSING, QUERIES

    files = graph_files(graph)
    return [*files, *(files[0].parent / name for name in (ABOUT, MISSING, QUERIES, ANSWERS))] if files else []


def rank_files_below(folders: Sequence[Path]) -> list[Path]:
    """All Parquet files in folders of rank files, which no output may overwrite.

    Example:
        >>> rank_files_below([Path("no such folder")])
        []
    """
    return [file for folder in folders for file in folder.rglob("*.parquet")]


def shareable_command(arguments: Sequence[str], paths: Sequence[Path]) -> str:
    """The command line with file names instead of paths: nobody else has these folders.

    Example:
        >>> shareable_command(
        ...     ["report", "/home/ada/a.parquet", "-o/tmp/x.html", "--graph=/g/umls"],
        ...     [Path("/tmp/x.html")],
        ... )
        'kgprobe report a.parquet -ox.html --graph=umls'
    """
    known = sorted({str(path) for path in paths}, key=len, reverse=True)
    return shlex.join(["kgprobe", *(_without_folder(argument, known) for argument in arguments)])


def _without_folder(argument: str, known: Sequence[str]) -> str:
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    if Path(value).is_absolute() or str(Path(value)) in known:
        return option + equals + Path(value).name
    return next((argument.removesuffix(path) + Path(path).name for path in known if argument.endswith(path)), argument)


def each_file(paths: Sequence[Path], work: Callable[[Path], Result]) -> list[tuple[Path, Result]]:
    """Each path with the result of the work on it; the problems of all files are reported together."""
    done, errors = [], []
    for path in paths:
        try:
            with naming(path):
                done.append((path, work(path)))
        except DataError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        lines = [line for error in errors for line in [error.title, *(f"  {problem}" for problem in error.problems)]]
        raise DataError(f"{len(errors)} of {len(paths)} files cannot be used", lines, errors[0].remedy)
    return done


def read_models(paths: Sequence[Path], graph: KnowledgeGraph | None = None) -> tuple[dict[str, Ranks], dict[str, str]]:
    """The rank table and the rank file of each model; every file is opened, read and validated once."""
    from kgprobe.comparison.lineup import named_files
    from kgprobe.ranks import RankFile

    tables: dict[RankFile, Ranks] = {}

    def read(path: Path) -> None:
        file = RankFile(path)
        table = read_file(file, graph)
        tables[file] = table.sharing(next(iter(tables.values()), table))

    each_file(paths, read)
    files = named_files(list(tables))
    return {name: tables[file] for name, file in files.items()}, {name: str(f.path) for name, f in files.items()}


def read_file(file: RankFile, graph: KnowledgeGraph | None = None) -> Ranks:
    """An open rank file as a table, with a progress bar if it is large."""
    with watching(file.path) as progress:
        return file.read(graph, progress)


_WRITERS: dict[Format, Callable[[Sequence[Row]], str]] = {Format.json: json_text, Format.csv: csv_text}


def print_rows(rows: Sequence[Row], format: Format) -> None:  # noqa: A002
    """Write rows to standard output.

    Example:
        >>> print_rows([{"metric": "MRR", "value": 0.25}], Format.markdown)
        | metric | value |
        | --- | ---: |
        | MRR | 0.2500 |
    """
    if format.is_data:
        sys.stdout.write(_WRITERS[format](rows))
    else:
        print_grid(grid_of(rows), format)


def print_grid(grid: Grid, format: Format) -> None:  # noqa: A002
    """Write a table to standard output, in a format for people."""
    if format is Format.table:
        print_terminal(grid)
    else:
        sys.stdout.write(latex(grid) if format is Format.latex else markdown(grid))


_COLUMNS = 100  # of text that is no terminal's


def print_terminal(grid: Grid, *, fold: bool = False) -> None:
    """Write a table to standard output; on a terminal in colour and folded to its width.

    Args:
        grid: The table.
        fold: Also fold it where standard output is no terminal, to COLUMNS or 100 columns.
    """
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((_COLUMNS, 24)).columns if is_terminal or fold else None
    sys.stdout.write(terminal(grid, width=width, colour=is_terminal))


def without(rows: Sequence[Row], hidden: dict[str, bool]) -> list[dict[str, Any]]:
    """Rows without the columns that are marked as hidden."""
    return [{name: value for name, value in row.items() if not hidden.get(name, False)} for row in rows]


def note(text: str) -> None:
    """Write a note to standard error: one line, or on a terminal as many as it takes.

    A note that cannot be written does not stop the work.
    """
    line = one_line(text)
    try:
        print(wrapped(line, shutil.get_terminal_size().columns) if sys.stderr.isatty() else line, file=sys.stderr)
    except OSError:
        discard(sys.stderr)


def audit_hints(lineup: Lineup, allow_different_candidates: bool) -> None:
    """Notes on the options for models that the audit objects to, and for different candidate sets."""
    if 1 < len(lineup.models) - len(lineup.flagged) < len(lineup.models):
        note(f"--exclude-flagged leaves out {', '.join(lineup.flagged)}.")
    if lineup.candidate_differences and not allow_different_candidates:
        note("--allow-different-candidates tests models with different candidate sets against each other.")


def sampled_order(models: Mapping[str, Ranks], metrics: Iterable[str | Metric], tie: Tie = Tie.mean) -> None:
    """Notes on models whose order is not settled by the samples of candidates that their ranks come from."""
    from kgprobe.comparison.sampled_differences import sampled_differences

    try:
        differences = sampled_differences(models, metrics, tie)
    except DataError as error:
        note(f"{error.title}: {'; '.join(error.problems)}")
        return
    for difference in differences:
        if not difference.settled:
            note(str(difference))


def discard(stream: TextIO) -> None:
    """Send a stream that cannot be written to nowhere, so that Python's last flush of it does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


_LARGE_FILE = 16 << 20  # bytes: smaller files are read in a moment


def file_size(path: Path) -> int:
    """The bytes of a file; 0 if there is no such file, or cannot be."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # a name that is too long
        return 0


@contextmanager
def watching(path: Path) -> Iterator[Progress | None]:
    """Progress bar for reading a rank file; None for a small file, or where stderr is no terminal.

    A file may be read in several passes (validation, weights, sums), so the bar counts rows and time, without a total.

    Example:
        >>> with watching(Path("small.parquet")) as progress:
        ...     print(progress)
        None
    """
    if not sys.stderr.isatty() or file_size(path) < _LARGE_FILE:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    name = TextColumn(one_line(path.name), markup=False)
    columns = (name, BarColumn(), TextColumn("{task.completed:,.0f} rows read"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda rows: bar.advance(task, rows)


_LONG = 10.0  # seconds: longer work is announced


def announcing(what: str, total: float, remedy: str, progress: Progress | None = None) -> Progress:
    """A progress callback that says once how long the work will take, if it is long, and what takes less.

    Args:
        what: The work.
        total: The sum of all progress.
        remedy: What takes less time.
        progress: Another callback to call as well.

    Example:
        >>> announcing("comparing", 100, "fewer --replicates take less")(50)
    """
    started, done, decided = 0.0, 0.0, False

    def advance(more: float) -> None:
        nonlocal started, done, decided
        if progress is not None:
            progress(more)
        if not started:  # the first step may have waited for other work
            started = time.monotonic()
            return
        done += more
        elapsed = time.monotonic() - started
        if decided or elapsed < 1 or not done:
            return
        decided = True
        if (seconds := elapsed / done * total) > _LONG:
            note(f"{what} will take about {seconds:,.0f} s; {remedy}")

    return advance


@contextmanager
def counting(what: str, total: int, unit: str) -> Iterator[Progress | None]:
    """Progress bar with a total, for long computations; None where stderr is no terminal.

    Example:
        >>> with counting("ranking", 10, "queries") as progress:
        ...     print(progress)
        None
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, rate="")

        def progress(done: float) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, advance=done, rate=f"{speed:,.0f} a second," if speed else "")

        yield progress
