"""Train a model on a graph, rank its best checkpoints on the test triples, and write the result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.metrics import evaluate
from kgprobe.models.registry import model_kind
from kgprobe.predict import Model, rank
from kgprobe.ranks import Ranks, merge_seeds, read_ranks
from kgprobe.resources import Progress, Resources, peak_memory
from kgprobe.train import run_directory
from kgprobe.train.checkpoints import Facts, RunStorage, written
from kgprobe.train.learners import trained_run
from kgprobe.train.run_directory import RunDirectory
from kgprobe.train.settings import Settings

if TYPE_CHECKING:
    from kgprobe.train.trainer import OnProgress, Trained, TrainingResources


CHECKPOINTS = "checkpoints"

"""The entry of a rank file's settings that says of which epochs its models are."""


def rank_best(
    keep: RunStorage,
    settings: Settings,
    graph: KnowledgeGraph,
    target: str,
    resources: Resources | None = None,
    progress: Progress | None = None,
    ranked: dict[tuple[int, int], Ranks] | None = None,
) -> Ranks:
    """The test ranks of the checkpoints that are the best by a target, one for each seed.

    Args:
        keep: Where the checkpoints are kept.
        settings: What they were trained with.
        graph: The graph.
        target: The metric.
        resources: Device, threads and memory; the ranks do not depend on it.
        progress: Called with how many queries have been ranked since the last call.
        ranked: What is ranked already, by seed and epoch: checkpoints that are the best by several targets are ranked
            once. What is ranked now is added to it.
    """
    computed, ranked = resources or Resources(), {} if ranked is None else ranked
    runs, facts = {}, {}
    for seed in settings.seeds:
        tensors, facts[seed] = keep.load_best(target, seed)
        checkpoint = seed, int(facts[seed]["epoch"])
        if checkpoint not in ranked:
            model = Model(settings.model, trained_run(settings, graph, tensors, _device(computed)))
            ranked[checkpoint] = rank(model, graph, resources=computed, progress=progress)
        elif progress is not None:
            progress(len(ranked[checkpoint]))
        runs[seed] = ranked[checkpoint]
    ranks = merge_seeds(runs)
    about = ranks.info.settings | training_facts(settings, target, facts)
    return ranks.with_info(model=model_name(settings, target), settings=about)


def training_facts(settings: Settings, target: str, checkpoints: Mapping[int, Mapping[str, Any]]) -> Facts:
    """What a rank file says about the training of its model.

    Args:
        settings: The settings of the training.
        target: The metric that the checkpoints were selected by.
        checkpoints: What is known of the checkpoint of each seed.

    Example:
        >>> from kgprobe.train.settings import resolve
        >>> facts = training_facts(resolve("rotate", []).settings, "MRR", {0: {"epoch": 5, "score": 0.5}})
        >>> facts["training"]["model"], facts["selected_by"], facts["checkpoints"]
        ('RotatE', 'MRR', [{'seed': 0, 'epoch': 5, 'score': 0.5}])
    """
    found = [{"seed": seed, **facts} for seed, facts in checkpoints.items()]
    return written({"training": settings.flat(), "selected_by": target, CHECKPOINTS: found})


def model_name(settings: Settings, target: str) -> str:
    """What reports call a model: where a training has several targets, these tell its models apart.

    Example:
        >>> from kgprobe.train.settings import resolve
        >>> settings = resolve("rotate", []).settings
        >>> model_name(settings, settings.select[0])
        'RotatE'
    """
    return settings.model if len(settings.select) == 1 else f"{settings.model} by {target}"


def _device(resources: Resources) -> str:
    return resources.device.removeprefix("torch:")


def finish_run(
    run: RunDirectory,
    graph: KnowledgeGraph,
    resources: Resources | None = None,
    progress: Progress | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Ranks]:
    """Rank the test facts by the best checkpoints of every target, and write what came out.

    What has been ranked already, before the run was interrupted, is not ranked again. A graph without test facts
    leaves nothing to rank.

    Args:
        run: The run, trained to its end.
        graph: The graph.
        resources: Device, threads and memory; the ranks do not depend on it.
        progress: Called with how many queries have been ranked since the last call, of `ranking_queries` in all.
        facts: What else is to be remembered of the run, such as how long it took.

    Returns:
        For every target the ranks of all seeds.
    """
    has_test = len(graph.triples("test")) > 0
    checkpoints: dict[tuple[int, int], Ranks] = {}
    rank_target = partial(
        rank_best, run, run.settings, graph, resources=resources, progress=progress, ranked=checkpoints
    )
    ranked = {target: _ranked(run, target, rank_target) for target in run.settings.select if has_test}
    result = {target: _result(run, target, ranks) for target, ranks in ranked.items()}
    run.save_result({**(facts or {}), "peak_memory": peak_memory(), "targets": result})
    return ranked


def ranking_queries(settings: Settings, graph: KnowledgeGraph) -> int:
    """How many queries are ranked at the end of a run."""
    return 2 * len(graph.triples("test")) * len(settings.seeds) * len(settings.select)


def _ranked(run: RunDirectory, target: str, rank_target: Callable[[str], Ranks]) -> Ranks:
    path = _ranks_path(run, target)
    checkpoints = {seed: run.load_best(target, seed)[1] for seed in run.settings.seeds}
    wanted = training_facts(run.settings, target, checkpoints)[CHECKPOINTS]
    if (kept := _kept(path, wanted)) is not None:
        return kept
    ranks = rank_target(target)
    ranks.write(path)
    return ranks


def _kept(path: Path, checkpoints: list[Facts]) -> Ranks | None:
    """The ranks of these checkpoints, if they have been written."""
    try:
        ranks = read_ranks(path) if path.exists() else None
    except DataError:  # a disk that failed; they can be computed again
        return None
    return ranks if ranks is not None and ranks.info.settings.get(CHECKPOINTS) == checkpoints else None


def _result(run: RunDirectory, target: str, ranks: Ranks) -> Facts:
    sides = {"both": ranks, "head": ranks.filter(~ranks.predicts_tail), "tail": ranks.filter(ranks.predicts_tail)}
    return {
        "ranks": _ranks_path(run, target).name,
        CHECKPOINTS: ranks.info.settings[CHECKPOINTS],
        "test": {side: _by_seed(rows, run.settings) for side, rows in sides.items()},
    }


def _by_seed(ranks: Ranks, settings: Settings) -> dict[str, list[float]]:
    """The value of each target, seed by seed."""
    if ranks.seed is None:
        raise TypeError("ranks of a training without a seed")
    found = [evaluate(ranks.filter(ranks.seed == seed), settings.select) for seed in settings.seeds]
    return {name: [values[name] for values in found] for name in found[0]}


def _ranks_path(run: RunDirectory, target: str) -> Path:
    return run_directory.ranks_path(run.path, target, first=target == run.settings.select[0])


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model that has been trained.

    Attributes:
        settings: All settings, with those that nobody gave.
        trained: The best validations, the validation curve, and how long it took.
        ranks: The test ranks of all seeds for each target, by canonical name.
        keep: Where the checkpoints are kept.
    """

    settings: Settings
    trained: Trained
    ranks: Mapping[str, Ranks]
    keep: RunStorage


def fit(
    model: str,
    graph: KnowledgeGraph | str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    device: str = "cpu",
    threads: int | None = None,
    force: bool = False,
    progress: OnProgress | None = None,
    **settings: Any,
) -> Fitted:
    """Train a model, keep its best checkpoint by every target of ``select``, and rank the test facts.

    Settings that are not given are those that were searched for this graph and come with the package, or else are
    sensible for its size. See docs/settings.md for all of them.

    Args:
        model: Name of the model, such as "rotate".
        graph: The graph, its name or its directory.
        output: The directory of the run, as `kgprobe train` writes it; None to keep it in memory.
        device: "cpu", or a device of torch such as "cuda".
        threads: Threads on the CPU; None for all cores.
        force: Whether a run that is in the directory already is thrown away.
        progress: Called with how far it is.
        settings: Settings of the training and of the model, by name.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], valid=[[2, 0, 3]], test=[[0, 0, 2]])
        >>> fitted = fit("complex", graph, select=["MRR", "MR"], seeds=[0, 1], dimension=2, epochs=3, validate_every=1)
        >>> {target: len(ranks) for target, ranks in fitted.ranks.items()}
        {'MRR': 4, 'MR': 4}
    """
    kind = model_kind(model)
    kind.load()
    from kgprobe.train.setting_sources import from_values, known_settings
    from kgprobe.train.settings import resolve
    from kgprobe.train.trainer import TrainingResources

    known = graph if isinstance(graph, KnowledgeGraph) else load_graph(graph)
    given = from_values("given", settings)
    resolved = resolve(kind.name, [*known_settings(kind.name, known).sources, given]).settings
    resources = TrainingResources(device, threads)
    if output is None:
        return _in_memory(resolved, known, resources, progress)
    return _on_disk(resolved, known, resources, progress, Path(output), force)


def _in_memory(
    settings: Settings, graph: KnowledgeGraph, resources: TrainingResources, progress: OnProgress | None
) -> Fitted:
    from kgprobe.train.checkpoints import MemoryStorage
    from kgprobe.train.trainer import train

    keep = MemoryStorage()
    trained = train(settings, graph, keep, resources, progress)
    ranking = resources.ranking(graph.num_entities)
    done: dict[tuple[int, int], Ranks] = {}
    targets = settings.select if len(graph.triples("test")) else ()
    ranks = {target: rank_best(keep, settings, graph, target, ranking, ranked=done) for target in targets}
    return Fitted(settings, trained, ranks, keep)


def _on_disk(
    settings: Settings,
    graph: KnowledgeGraph,
    resources: TrainingResources,
    progress: OnProgress | None,
    output: Path,
    force: bool,
) -> Fitted:
    from kgprobe.train.run_directory import RunDirectory
    from kgprobe.train.run_records import environment
    from kgprobe.train.trainer import train

    ranking = resources.ranking(graph.num_entities)
    about = environment(graph, resources.device, ranking.workers)
    with RunDirectory.create(output, settings, graph, about, force=force) as run:
        trained = train(settings, graph, run, resources, progress)
        return Fitted(settings, trained, finish_run(run, graph, ranking, facts=trained.facts), run)
