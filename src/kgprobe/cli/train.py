"""``kgprobe train``: train a model on a graph and rank its test triples."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from kgprobe.cli.console import Format, FormatOption, note, print_rows
from kgprobe.cli.training_output import TerminalDisplay, result_rows, tied_share
from kgprobe.errors import UsageError
from kgprobe.files import refuse_overwriting
from kgprobe.models.registry import MODELS, model_kind

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.train.setting_sources import SettingSource


def _setting(metavar: str, text: str) -> Any:
    return typer.Option(metavar=metavar, help=text, rich_help_panel="Settings", show_default=False)


# Built once, when the module is imported: typer evaluates the annotations of all commands at every start.
_Model: TypeAlias = Annotated[
    str, typer.Argument(metavar="MODEL", help=f"One of {', '.join(MODELS)}.", show_default=False)
]
_Graph: TypeAlias = Annotated[
    str, typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph.", show_default=False)
]
_Output: TypeAlias = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="RUN", help="Run directory: settings, log, checkpoints, ranks."),
]
_Select: TypeAlias = Annotated[
    list[str] | None,
    _setting("METRIC", "Selection metrics: each keeps its best checkpoint on the validation triples. May be repeated."),
]
_Seeds: TypeAlias = Annotated[str | None, _setting("0,1,2", "Training seeds; all runs are trained together.")]
_Epochs: TypeAlias = Annotated[str | None, _setting("N", "Passes over the training triples, at most.")]
_Dimension: TypeAlias = Annotated[str | None, _setting("N", "Embedding dimension.")]
_LearningRate: TypeAlias = Annotated[str | None, _setting("X", "Initial learning rate.")]
_BatchSize: TypeAlias = Annotated[str | None, _setting("N", "Queries in a step.")]
_ValidateEvery: TypeAlias = Annotated[str | None, _setting("N", "Epochs between validations.")]
_Patience: TypeAlias = Annotated[
    str | None, _setting("N", "Early stopping: validations without improvement; 0 for never.")
]
_Set: TypeAlias = Annotated[
    list[str] | None, _setting("KEY=VALUE", "Any other setting; --dry-run lists them. May be repeated.")
]
_Config: TypeAlias = Annotated[Path | None, _setting("FILE", "TOML file with settings; the others are set as usual.")]
_Device: TypeAlias = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="cpu, cuda, or auto for a GPU where there is one.")
]
_Threads: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Threads on the CPU.", show_default="all cores")
]
_Resume: TypeAlias = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")]
_Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace the run that is in the directory.")]
_DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Only print the settings and their origins.")]


def train(
    model: _Model,
    graph: _Graph,
    output: _Output = None,
    select: _Select = None,
    seeds: _Seeds = None,
    epochs: _Epochs = None,
    dimension: _Dimension = None,
    learning_rate: _LearningRate = None,
    batch_size: _BatchSize = None,
    validate_every: _ValidateEvery = None,
    patience: _Patience = None,
    set: _Set = None,  # noqa: A002
    config: _Config = None,
    device: _Device = "auto",
    threads: _Threads = None,
    resume: _Resume = False,
    force: _Force = False,
    dry_run: _DryRun = False,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Train a model on a graph, and rank its test triples.

    Settings come from the command line, then from the file of --config, then from the file that ships with the package
    for this model and graph, then from defaults for a graph of this size. The validation triples select a checkpoint
    for each metric of --select; the test triples are ranked once, at the end.
    """
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
    display, texts = TerminalDisplay(), _option_texts(set or [], common)
    kind = model_kind(model)
    kind.load()  # before other imports, because it says what to install where torch is missing
    folder = _folder(output, resume=resume, force=force, dry_run=dry_run)

    from kgprobe.graph import load_graph
    from kgprobe.train.fitting import fit_from
    from kgprobe.train.run_files import SETTINGS
    from kgprobe.train.setting_sources import from_command_line
    from kgprobe.train.trainer import TrainingResources

    if config is not None and not (resume or dry_run):
        refuse_overwriting([folder / SETTINGS], [config])
    known, given = load_graph(graph), from_command_line(texts)
    if dry_run:
        _print_settings(kind.name, known, config, given)
        return
    resources = TrainingResources(device, threads)
    modes: dict[str, Any] = {"config": config, "resources": resources, "force": force, "resume": resume}
    try:
        fitted = fit_from(kind.name, known, given, folder, display=display, **modes)
    except KeyboardInterrupt as stopped:
        if display.started:
            going_on = str(stopped).replace("`resume=True`", "the same command with --resume")
            note(f"{folder}: stopped; {going_on or 'the same command with --resume ranks the test triples'}")
        raise typer.Exit(130) from None
    if display.started:
        for target, ranks in fitted.ranks.items():
            note(f"{target}: {tied_share(ranks):.2%} of the test queries tie with another candidate")
        note(f"wrote {folder}")
    print_rows(result_rows(folder, fitted), format)


def _option_texts(pairs: Sequence[str], common: Mapping[str, str | list[str] | None]) -> dict[str, list[str]]:
    """The texts given for each setting; refuses all that cannot be parsed."""
    malformed = [f"--set {pair}" for pair in pairs if not re.fullmatch(r"\s*\w+\s*=.*", pair, re.DOTALL)]
    if malformed:
        raise UsageError("malformed settings", malformed, "write --set KEY=VALUE, as in --set gamma=6")
    texts = {
        key: [value] if isinstance(value, str) else list(value) for key, value in common.items() if value is not None
    }
    for key, value in (pair.split("=", 1) for pair in pairs):
        texts.setdefault(key.strip(), []).append(value.strip())
    return texts


def _folder(output: Path | None, *, resume: bool, force: bool, dry_run: bool) -> Path:
    """The run directory, which --dry-run does not need."""
    problems = ["--resume continues a run and --force replaces it: give one of them"] if resume and force else []
    if resume and dry_run:
        problems.append("--resume uses the settings of the run, --dry-run prints those of a new one: give one of them")
    if output is None and not dry_run:
        problems.append("--output is missing: the run directory")
    if problems:
        raise UsageError("invalid options", problems, "write it as in: kgprobe train rotate --graph umls -o run")
    return output or Path()


def _print_settings(model: str, graph: KnowledgeGraph, config: Path | None, given: SettingSource) -> None:
    from kgprobe.train.fitting import check_splits
    from kgprobe.train.setting_sources import MEASURED, known_settings, toml_text
    from kgprobe.train.settings import resolve

    check_splits(graph, TerminalDisplay())
    known = known_settings(model, graph, config)
    resolved = resolve(model, [*known.sources, given])
    for text in known.notes:
        note(text)
    tables = {MEASURED: known.measured} if known.measured else {}
    sys.stdout.write(toml_text(resolved.settings.flat() | tables, resolved.origins))
