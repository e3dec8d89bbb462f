"""``kgprobe study``: repeat a whole evaluation from a file, with a verdict on every claim."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, counting, note, print_rows
from kgprobe.errors import one_line
from kgprobe.files import refuse_overwriting
from kgprobe.report.grid import Record, counted

if TYPE_CHECKING:
    from kgprobe.studies.study_work import StudyResult, StudyWork
    from kgprobe.studies.study_workers import OnStudyProgress, StudyProgress

app = typer.Typer(no_args_is_help=True)

_SHORT = 70  # characters of a statement on a terminal


class FigureType(StrEnum):
    """File types of figures."""

    pdf = "pdf"
    svg = "svg"
    png = "png"


@app.callback()
def study() -> None:
    """Repeat a whole evaluation: models x graphs x seeds, every table and figure, and a verdict on every claim."""


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="probe-paper: the PROBE paper's own study.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Study file to write.")] = Path(
        "study.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a study that comes with kgprobe, to be run or changed."""
    from kgprobe.studies import init_study

    note(f"wrote {init_study(name, output, force=force)}; next: kgprobe study run {output} -o FOLDER")


@app.command()
def run(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (TOML).")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for all work, new or of earlier runs.")
    ],
    ranks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of rank files GRAPH/MODEL.parquet, or NAME=FOLDER: a source of its own, or of all folders "
            "with this NAME. May be repeated.",
        ),
    ] = None,
    pairs: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Folder that 'kgprobe openworld evaluate' wrote. May be repeated."),
    ] = None,
    train: Annotated[
        bool | None,
        typer.Option("--train/--no-train", help="Whether to train models.", show_default="train without --ranks"),
    ] = None,
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="cpu, cuda, or auto for GPUs where there are any.")
    ] = "auto",
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Threads of each training.", show_default="1 on a CPU")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Trainings at a time.", show_default="by cores and device")
    ] = None,
    graph: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Do only the work for this graph. May be repeated.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Do only the work for this model. May be repeated.")
    ] = None,
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Continue in the folder of a study that has changed since, with the folders given now; finished work "
            "that still applies is kept.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the work, with the time that it has taken elsewhere.")
    ] = False,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Train and rank what is missing, and test all claims on the ranks of every source.

    Each folder of --ranks is one source; the study's own models are another one, which are then trained with --train
    only. Finished work is kept in the folder and never repeated: after Ctrl-C or a crash, the same command continues.
    What cannot be had is named and left out.
    """
    from kgprobe.studies.study_work import StudyStopped, plan_study, run_study

    folders, worlds = ranks or [], pairs or []
    if dry_run:
        work = plan_study(
            study, output, ranks=folders, pairs=worlds, train=train, graphs=graph, models=model, update=update
        )
        _print_work(work, format)
        return
    try:
        with _bar() as progress:
            result = run_study(
                study,
                output,
                ranks=folders,
                pairs=worlds,
                train=train,
                device=device,
                threads=threads,
                jobs=jobs,
                graphs=graph,
                models=model,
                update=update,
                progress=progress,
                note=note,
            )
    except StudyStopped as stopped:
        note(str(stopped))
        raise typer.Exit(130) from None
    _print(result, format)
    note(f"wrote {output}; next: kgprobe study report {output}")


def _print_work(work: StudyWork, format: Format) -> None:  # noqa: A002
    print_rows(work.to_rows(), format)
    by_reason: dict[tuple[str, str], list[str]] = {}
    for (graph, model), reason in work.impossible.items():
        by_reason.setdefault((graph, reason), []).append(str(model))
    for (graph, reason), models in by_reason.items():
        note(f"{', '.join(models)} on {graph}: cannot be done: {reason}")
    for text in work.notes:
        note(text)
    seconds, unknown = work.seconds
    left = sum(task.state != "finished" for task in work.tasks)
    time = f", {seconds / 60:,.0f} minutes one after another where they were measured" if seconds else ""
    more = f", unknown time for {unknown:,}" if unknown else ""
    note(f"{counted(left, 'task')} of {len(work.tasks):,} to do{time}{more}")


def _print(result: StudyResult, format: Format) -> None:  # noqa: A002
    from kgprobe.studies.verdicts import summary

    rows: Sequence[Record] = result.to_rows() if format.is_data else result.by_claim()
    if format is Format.table:
        rows = [{**row, "statement": _short(row["statement"])} for row in rows]
    print_rows(rows, format)
    for line in result.left_out():
        note(line)
    for name in result.sources:
        own = [verdict for verdict in result.verdicts if verdict.source == name]
        counts = ", ".join(f"{count} {answer}" for answer, count in summary(own).items())
        note(f"{name}: {counted(len(own), 'claim')}{': ' if counts else ''}{counts}")


def _short(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


@contextmanager
def _bar() -> Iterator[OnStudyProgress | None]:
    """Progress bar over the whole study; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def show(progress: StudyProgress) -> None:
            more = f" and {len(progress.running) - 2} more" if len(progress.running) > 2 else ""
            running = one_line(", ".join(progress.running[:2]) + more)
            bar.update(task, completed=progress.done, total=progress.total, description=running)

        yield show


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of 'kgprobe study run'.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write.", show_default="FOLDER/report"),
    ] = None,
    type_: Annotated[FigureType, typer.Option("--type", metavar="TYPE", help="File type of the figures.")] = (
        FigureType.pdf
    ),
) -> None:
    """Write all tables, figures and pages of a study, with the verdicts first, from what is in its folder."""
    from kgprobe.studies.study_folder import StudyFolder
    from kgprobe.studies.study_report import write_report
    from kgprobe.studies.study_work import open_study

    target = folder / "report" if output is None else output
    refuse_overwriting([target / "index.html"], StudyFolder(folder).inputs)
    result = open_study(folder)
    with counting("writing", 100, "%") as bar:
        progress = None if bar is None else lambda share: bar(100 * share)
        remarks = write_report(result, target, figure_type=str(type_), progress=progress)
    for remark in remarks:
        note(remark)
    print(target / "index.html")
