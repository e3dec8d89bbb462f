"""``kgprobe train``: a model learns a graph, and is kept where it is best from the perspectives you name."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgprobe.cli.console import Format, FormatOption, counting, note, print_rows
from kgprobe.cli.training_output import result_rows, tied_share, training_bar
from kgprobe.errors import DataError, UsageError
from kgprobe.models.registry import MODELS, model_kind

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.train.run_directory import RunDirectory
    from kgprobe.train.setting_sources import SettingSource
    from kgprobe.train.settings import Resolved
    from kgprobe.train.trainer import TrainingResources


_SETTING = "Settings"

"""The panel of help that holds the settings that people change most."""


def _setting(metavar: str, text: str) -> Any:
    return typer.Option(metavar=metavar, help=text, rich_help_panel=_SETTING, show_default=False)


def train(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=f"One of {', '.join(MODELS)}.", show_default=False)],
    graph: Annotated[
        str, typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="RUN", help="Folder of the run: settings, log, checkpoints, ranks."),
    ] = None,
    select: Annotated[
        list[str] | None,
        _setting("METRIC", "Metrics of the validation facts that choose a checkpoint each. May be repeated."),
    ] = None,
    seeds: Annotated[str | None, _setting("0,1,2", "One run for each seed, all at once.")] = None,
    epochs: Annotated[str | None, _setting("N", "Passes over the training facts, at most.")] = None,
    dimension: Annotated[str | None, _setting("N", "Coordinates of a vector.")] = None,
    learning_rate: Annotated[str | None, _setting("X", "Step size at the start.")] = None,
    batch_size: Annotated[str | None, _setting("N", "Queries in a step.")] = None,
    validate_every: Annotated[str | None, _setting("N", "Epochs between validations.")] = None,
    patience: Annotated[str | None, _setting("N", "Validations without gain until it stops; 0 for never.")] = None,
    set: Annotated[  # noqa: A002
        list[str] | None, _setting("KEY=VALUE", "Any other setting; --dry-run shows them. May be repeated.")
    ] = None,
    config: Annotated[Path | None, _setting("FILE", "Settings (TOML); what is not in it is chosen as usual.")] = None,
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="cpu, cuda, or auto for a GPU where there is one.")
    ] = "auto",
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads on the CPU.", show_default="all")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Throw away the run that is in the folder.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the settings, and where each comes from.")
    ] = False,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Train a model on a graph, and rank its test facts.

    Settings come from the command line, then from the file of --config, then from those that were searched for this
    graph and come with the package, then from defaults for a graph of its size. Validation facts choose the
    checkpoint, one for each metric of --select; test facts are ranked once, at the end.
    """
    from kgprobe.graph import load_graph
    from kgprobe.train.setting_sources import known_settings

    kind = model_kind(model)
    kind.load()  # before what needs it, and before anything that takes time: torch may not be installed
    from kgprobe.train.run_directory import RunDirectory
    from kgprobe.train.run_records import environment
    from kgprobe.train.settings import resolve

    common = {
        "select": select,
        "seeds": seeds,
        "epochs": epochs,
        "dimension": dimension,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "validate_every": validate_every,
        "patience": patience,
    }
    given = _from_options(set or [], common)
    folder = _folder(output, resume=resume, force=force, dry_run=dry_run)
    resources = _resources(device, threads)
    knowledge = load_graph(graph)
    _check_facts(knowledge)
    if resume:
        run = _resumed(folder, knowledge, _given_again(kind.name, config, given), resources)
    else:
        known = known_settings(kind.name, knowledge, config)
        found = resolve(kind.name, [*known.sources, given])
        for text in known.notes:
            note(text)
        if dry_run:
            _print_settings(found, known.measured)
            return
        about = environment(knowledge, resources.device, resources.ranking(0).workers)
        run = RunDirectory.create(folder, found.settings, knowledge, about, force=force)
    with run:
        if run.finished:
            note(f"{folder} is finished already")
        else:
            _train(run, knowledge, resources)
        print_rows(result_rows(run), format)


def _from_options(pairs: Sequence[str], common: Mapping[str, str | list[str] | None]) -> SettingSource:
    """What the command line says of settings, with all that cannot be read of it."""
    from kgprobe.train.setting_sources import from_command_line

    strange = [f"--set {pair}" for pair in pairs if not re.fullmatch(r"\s*\w+\s*=.*", pair, re.DOTALL)]
    if strange:
        raise UsageError("these settings cannot be read", strange, "write --set KEY=VALUE, as in --set gamma=6")
    texts = {
        key: [value] if isinstance(value, str) else list(value) for key, value in common.items() if value is not None
    }
    for key, value in (pair.split("=", 1) for pair in pairs):
        texts.setdefault(key.strip(), []).append(value.strip())
    return from_command_line(texts)


def _folder(output: Path | None, *, resume: bool, force: bool, dry_run: bool) -> Path:
    """The folder of the run, which need not be given where settings are only shown."""
    problems = ["--resume goes on with a run, and --force throws it away"] if resume and force else []
    if resume and dry_run:
        problems.append("--resume goes on with the settings in the folder of the run, and --dry-run shows new ones")
    if output is None and not dry_run:
        problems.append("--output is missing: the folder of the run")
    if problems:
        raise UsageError("this cannot be done", problems, "write it as in: kgprobe train rotate --graph umls -o run")
    return output or Path()


def _resources(device: str, threads: int | None) -> TrainingResources:
    """The device that is asked for, if it can be used."""
    import torch

    from kgprobe.predict.backends.backend import backend_for
    from kgprobe.train.trainer import TrainingResources

    chosen = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    backend_for(chosen)
    resources = TrainingResources(chosen, threads)
    note(f"device: {chosen} ({resources.ranking(0).workers} threads)")
    return resources


def _check_facts(graph: KnowledgeGraph) -> None:
    if not len(graph.triples("train")):
        there = "there are only counts of them" if graph.train_counts else "its train split is missing or empty"
        raise DataError(
            f"{graph.name}: no training facts to learn from", [there], "use a graph that has its train split"
        )
    if not len(graph.triples("valid")):
        note(f"{graph.name} has no validation facts: nothing can be selected, so the last epoch is kept")
    if not len(graph.triples("test")):
        note(f"{graph.name} has no test facts: there will be no ranks")


def _print_settings(found: Resolved, measured: Mapping[str, Any]) -> None:
    from kgprobe.train.setting_sources import MEASURED, toml_text

    tables = {MEASURED: measured} if measured else {}
    sys.stdout.write(toml_text(found.settings.flat() | tables, found.origins))


def _given_again(model: str, config: Path | None, given: SettingSource) -> dict[str, Any]:
    """The settings that are given for a run that has its own already."""
    from kgprobe.train.setting_sources import from_file, read_toml
    from kgprobe.train.settings import resolve

    file = [] if config is None else [from_file(read_toml(config))]
    return resolve(model, [*file, given]).given


def _resumed(
    folder: Path, graph: KnowledgeGraph, given: Mapping[str, Any], resources: TrainingResources
) -> RunDirectory:
    from kgprobe.train.run_directory import RunDirectory
    from kgprobe.train.run_records import changes, environment

    run = RunDirectory.resume(folder, graph, given)
    now = environment(graph, resources.device, resources.ranking(0).workers)
    for change in changes(run.environment, now):
        note(f"{change} since the run began: last digits may come out otherwise")
    return run


def _train(run: RunDirectory, graph: KnowledgeGraph, resources: TrainingResources) -> None:
    """Train and rank; a run that is stopped by hand says how to go on."""
    from kgprobe.train.fitting import finish_run, ranking_queries
    from kgprobe.train.trainer import train

    ranking = resources.ranking(graph.num_entities)
    try:
        with training_bar(run.settings.model, validates=len(graph.triples("valid")) > 0) as progress:
            trained = train(run.settings, graph, run, resources, progress)
        note(f"trained {trained.epochs} of {run.settings.epochs} epochs in {trained.seconds:,.1f} s")
        with counting("ranking", ranking_queries(run.settings, graph), "queries") as ranked:
            tables = finish_run(run, graph, ranking, ranked, trained.facts)
    except KeyboardInterrupt:
        note(f"stopped; the same command with --resume goes on with {run.path}")
        raise typer.Exit(130) from None
    for target, ranks in tables.items():
        note(f"{target}: {tied_share(ranks):.2%} of the test queries tie with another candidate")
    note(f"wrote {run.path}")
