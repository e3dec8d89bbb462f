"""Training in one call: settings, run directory, training, test ranks of the best checkpoints, result.

`kp.fit` and `kgprobe train` both call `fit_from`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from kgprobe.errors import DataError, UsageError, naming
from kgprobe.graph import GraphLike, KnowledgeGraph, as_graph
from kgprobe.metrics import evaluate
from kgprobe.models.registry import model_kind
from kgprobe.predict import Model, rank
from kgprobe.predict.backends.backend import backend_for
from kgprobe.ranks import CheckpointInfo, Ranks, TrainingInfo, merge_seeds, read_ranks
from kgprobe.resources import Progress, Resources, peak_memory
from kgprobe.tables import Table
from kgprobe.train.checkpoints import MemoryStorage, Metadata, RunStorage, as_json
from kgprobe.train.learners import trained_run
from kgprobe.train.run_directory import RunDirectory
from kgprobe.train.run_files import ranks_path
from kgprobe.train.run_records import changes, environment
from kgprobe.train.setting_sources import SettingSource, from_file, from_values, known_settings, read_toml
from kgprobe.train.settings import Settings, resolve
from kgprobe.train.trainer import Interruption, OnProgress, Trained, TrainingResources, train
from kgprobe.train.validation import Best


@dataclass(frozen=True, eq=False)
class Fitted(Table):
    """A trained model.

    Attributes:
        settings: All settings, defaults included.
        trained: The best validations, the validation curve, and the training time.
        ranks: The test ranks of all seeds for each selection metric, by canonical name.
        storage: The checkpoints: a run directory, or memory.
    """

    settings: Settings
    trained: Trained
    ranks: Mapping[str, Ranks]
    storage: RunStorage

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each validation during the training, as in the log of a run."""
        return self.trained.rows

    def __repr__(self) -> str:
        seeds = len(self.settings.seeds)
        means = {metric: fmean(one.score for one in runs) for metric, runs in self.trained.best.items()}
        best = ", ".join(f"{metric} {mean:.4f}" for metric, mean in means.items())
        trained = f"{seeds} seed{'s' * (seeds > 1)}, {self.trained.epochs} epochs"
        return f"Fitted({self.settings.model}, {trained}, best validation {best})"

    def _shown_rows(self) -> list[dict[str, Any]]:
        """The best validation of every run."""
        return [
            {"seed": str(seed), "metric": metric, "validation": one.score, "epoch": one.epoch}
            for metric, runs in self.trained.best.items()
            for seed, one in zip(self.settings.seeds, runs, strict=True)
        ]


def fit(
    model: str,
    graph: GraphLike,
    output: str | os.PathLike[str] | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    threads: int | None = None,
    force: bool = False,
    resume: bool = False,
    progress: OnProgress | None = None,
    **settings: Any,
) -> Fitted:
    """Train a model, keep its best checkpoint for every metric of ``select``, and rank the test triples.

    Settings that are not given come from the file that ships with the package for this model and graph, or else from
    defaults for a graph of this size. See docs/settings.md for all of them.

    Args:
        model: Name of the model, such as "rotate".
        graph: The graph, its name or its directory.
        output: The run directory, as `kgprobe train` writes it; None to keep everything in memory. Ctrl-C then saves
            the epoch at its end and stops, and a second Ctrl-C stops at once.
        config: A TOML file with settings; arguments override them.
        device: "cpu", a torch device such as "cuda", or "auto" for a GPU where there is one.
        threads: Threads on the CPU; None for all cores.
        force: Whether to replace a run that is already in the directory.
        resume: Whether to continue the run that is in the directory.
        progress: Called with the progress of the training.
        settings: Settings of the training and of the model, by name.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], valid=[[2, 0, 3]], test=[[0, 0, 2]])
        >>> fitted = fit("complex", graph, select=["MRR", "MR"], seeds=[0, 1], dimension=2, epochs=3, validate_every=1)
        >>> {target: len(ranks) for target, ranks in fitted.ranks.items()}
        {'MRR': 4, 'MR': 4}
    """
    known = as_graph(graph)
    display, given = CallbackDisplay(progress), from_values("given", settings)
    resources = TrainingResources(device, threads)
    folder, file = (None if path is None else Path(path) for path in (output, config))
    return fit_from(
        model, known, given, folder, config=file, resources=resources, force=force, resume=resume, display=display
    )


class Display(Protocol):
    """Shows how a training proceeds."""

    def note(self, text: str) -> None:
        """Show a remark in one line."""
        ...

    def training(self, settings: Settings, graph: KnowledgeGraph) -> AbstractContextManager[OnProgress | None]:
        """Context of the training; gives the callback for its progress."""
        ...

    def ranking(self, queries: int) -> AbstractContextManager[Progress | None]:
        """Context of the ranking of the test triples; gives the callback for its progress."""
        ...


@dataclass(frozen=True)
class CallbackDisplay:
    """Shows nothing, and passes the progress of the training to a callback."""

    progress: OnProgress | None = None

    def note(self, text: str) -> None:
        pass

    def training(self, settings: Settings, graph: KnowledgeGraph) -> AbstractContextManager[OnProgress | None]:
        return nullcontext(self.progress)

    def ranking(self, queries: int) -> AbstractContextManager[Progress | None]:
        return nullcontext()


def fit_from(
    model: str,
    graph: KnowledgeGraph,
    given: SettingSource,
    output: Path | None = None,
    *,
    config: Path | None = None,
    resources: TrainingResources,
    force: bool = False,
    resume: bool = False,
    display: Display | None = None,
) -> Fitted:
    """Train a model as `fit` does, with settings from any source; a resumed run must agree with those given.

    Raises:
        UsageError: Settings, device or run directory cannot be used as requested.
        DataError: The graph has no training triples, the run is damaged, the training diverges, or memory is short.
    """
    display = display or CallbackDisplay()
    kind = model_kind(model)
    kind.load()
    check_splits(graph, display)
    if resume and (force or output is None):
        raise UsageError(
            "invalid arguments", ["`resume=True` needs `output`, the run directory, and excludes `force=True`"]
        )
    resources = resources.resolved()
    backend_for(resources.device)  # refuses a device that cannot be used
    display.note(f"device: {resources.device} ({resources.ranking(0).workers} threads)")
    about = environment(graph, resources.device, resources.ranking(0).workers)
    if resume and output is not None:
        sources = [given] if config is None else [from_file(read_toml(config)), given]
        run = RunDirectory.resume(output, graph, resolve(kind.name, sources).given)
        for change in changes(run.environment, about):
            display.note(f"{change} since the run began: results may differ in the last digits")
        with run, naming(run.path):
            return _fit_run(run, graph, resources, display)
    known = known_settings(kind.name, graph, config)
    settings = resolve(kind.name, [*known.sources, given]).settings
    for text in known.notes:
        display.note(text)
    if output is None:
        return _fit_in_memory(settings, graph, resources, display)
    with RunDirectory.create(output, settings, graph, about, force=force) as run:
        return _fit_run(run, graph, resources, display)


def check_splits(graph: KnowledgeGraph, display: Display) -> None:
    """Refuse a graph without training triples, and tell what follows from other missing splits."""
    if not len(graph.triples("train")):
        problem = "it has only their counts" if graph.train_counts else "its train split is missing or empty"
        raise DataError(f"{graph.name}: no training triples", [problem], "use a graph that has its train split")
    if not len(graph.triples("valid")):
        display.note(f"{graph.name} has no validation triples: no checkpoint can be selected, the last epoch is kept")
    if not len(graph.triples("test")):
        display.note(f"{graph.name} has no test triples: there will be no ranks")


def _fit_in_memory(settings: Settings, graph: KnowledgeGraph, resources: TrainingResources, display: Display) -> Fitted:
    storage = MemoryStorage()
    with display.training(settings, graph) as progress:
        trained = train(settings, graph, storage, resources, progress)
    ranking, ranked = resources.ranking(graph.num_entities), dict[tuple[int, int], Ranks]()
    targets = settings.select if len(graph.triples("test")) else ()
    ranks = {target: rank_best(storage, settings, graph, target, ranking, ranked=ranked) for target in targets}
    return Fitted(settings, trained, ranks, storage)


def _fit_run(run: RunDirectory, graph: KnowledgeGraph, resources: TrainingResources, display: Display) -> Fitted:
    settings, ranking = run.settings, resources.ranking(graph.num_entities)
    if run.finished:
        display.note(f"{run.path} is finished already")
        return Fitted(settings, _trained_before(run), _rank_all(run, graph, ranking, None), run)
    interruption = Interruption()
    with display.training(settings, graph) as progress, interruption.watched():
        trained = train(settings, graph, run, resources, progress, interruption)
    display.note(f"trained {trained.epochs} of {settings.epochs} epochs in {trained.seconds:,.1f} s")
    with display.ranking(ranking_queries(settings, graph)) as ranked:
        ranks = finish_run(run, graph, ranking, ranked, trained.times)
    return Fitted(settings, trained, ranks, run)


def _trained_before(run: RunDirectory) -> Trained:
    """The outcome of a finished run, from its files."""
    result = run.read_result()
    best: dict[str, list[Best]] = {}
    for target in run.settings.select:
        found = [run.load_best(target, seed)[1] for seed in run.settings.seeds]
        best[target] = [Best(one["score"] if one.get("score") is not None else math.nan, one["epoch"]) for one in found]
    epochs, seconds, training_seconds = (result[name] for name in ("epochs", "seconds", "training_seconds"))
    return Trained(best, epochs, seconds, training_seconds, run.log_file.rows())


def rank_best(
    storage: RunStorage,
    settings: Settings,
    graph: KnowledgeGraph,
    target: str,
    resources: Resources | None = None,
    progress: Progress | None = None,
    ranked: dict[tuple[int, int], Ranks] | None = None,
) -> Ranks:
    """The test ranks of the best checkpoints for a selection metric, one checkpoint for each seed.

    Args:
        storage: Where the checkpoints are.
        settings: The settings they were trained with.
        graph: The graph.
        target: The selection metric.
        resources: Device, threads and memory; the ranks do not depend on it.
        progress: Called with the number of queries ranked since the last call.
        ranked: Ranks by seed and epoch, to which new ones are added: each checkpoint is ranked once.
    """
    computed, ranked = resources or Resources(), {} if ranked is None else ranked
    runs, checkpoints = {}, {}
    for seed in settings.seeds:
        tensors, checkpoints[seed] = storage.load_best(target, seed)
        checkpoint = seed, int(checkpoints[seed]["epoch"])
        if checkpoint not in ranked:
            scorer = trained_run(settings, graph, tensors, computed.device.removeprefix("torch:"))
            ranked[checkpoint] = rank(Model(settings.model, scorer), graph, resources=computed, progress=progress)
        elif progress is not None:
            progress(len(ranked[checkpoint]))
        runs[seed] = ranked[checkpoint]
    ranks = merge_seeds(runs)
    return ranks.with_info(model=model_name(settings, target), training=training_info(settings, target, checkpoints))


def training_info(settings: Settings, target: str, checkpoints: Mapping[int, Mapping[str, Any]]) -> TrainingInfo:
    """What a rank file records about the training of its model and the checkpoint of each seed."""
    every = (CheckpointInfo(seed, about["epoch"], about.get("score")) for seed, about in checkpoints.items())
    return TrainingInfo(target, tuple(every), as_json(settings.flat()))


def model_name(settings: Settings, target: str) -> str:
    """The model's name in reports; with several selection metrics, it includes the metric."""
    return settings.model if len(settings.select) == 1 else f"{settings.model} by {target}"


def finish_run(
    run: RunDirectory,
    graph: KnowledgeGraph,
    resources: Resources | None = None,
    progress: Progress | None = None,
    times: Mapping[str, Any] | None = None,
) -> dict[str, Ranks]:
    """Rank the test triples with the best checkpoints of every selection metric, and write ranks and result.

    Ranks that were written before the run was interrupted are not computed again. Without test triples there are none.

    Returns:
        The ranks of all seeds for every selection metric.
    """
    ranked = _rank_all(run, graph, resources, progress)
    result = {target: _result(run, target, ranks) for target, ranks in ranked.items()}
    run.save_result({**(times or {}), "peak_memory": peak_memory(), "targets": result})
    return ranked


def ranking_queries(settings: Settings, graph: KnowledgeGraph) -> int:
    """Number of queries ranked at the end of a run."""
    return 2 * len(graph.triples("test")) * len(settings.seeds) * len(settings.select)


def _rank_all(
    run: RunDirectory, graph: KnowledgeGraph, resources: Resources | None, progress: Progress | None
) -> dict[str, Ranks]:
    rank_target = partial(rank_best, run, run.settings, graph, resources=resources, progress=progress, ranked={})
    targets = run.settings.select if len(graph.triples("test")) else ()
    return {target: _ranked(run, target, rank_target) for target in targets}


def _ranked(run: RunDirectory, target: str, rank_target: Callable[[str], Ranks]) -> Ranks:
    path = _ranks_path(run, target)
    checkpoints = {seed: run.load_best(target, seed)[1] for seed in run.settings.seeds}
    expected = training_info(run.settings, target, checkpoints)
    try:
        written = read_ranks(path) if path.exists() else None
    except DataError:  # damaged; the ranks can be computed again
        written = None
    if written is not None and written.info.training == expected:
        return written
    ranks = rank_target(target)
    ranks.write(path)
    return ranks


def _result(run: RunDirectory, target: str, ranks: Ranks) -> Metadata:
    sides = {"both": ranks, "head": ranks.filter(~ranks.predicts_tail), "tail": ranks.filter(ranks.predicts_tail)}
    return {
        "ranks": _ranks_path(run, target).name,
        "checkpoints": [asdict(one) for one in ranks.info.training.checkpoints] if ranks.info.training else [],
        "test": {side: _by_seed(rows, run.settings) for side, rows in sides.items()},
    }


def _by_seed(ranks: Ranks, settings: Settings) -> dict[str, list[float]]:
    """The value of every selection metric for each seed."""
    if ranks.seed is None:
        raise TypeError("ranks of a training without a seed")
    values = [evaluate(ranks.filter(ranks.seed == seed), settings.select) for seed in settings.seeds]
    return {name: [one[name] for one in values] for name in values[0]}


def _ranks_path(run: RunDirectory, target: str) -> Path:
    return ranks_path(run.path, target, first=target == run.settings.select[0])
