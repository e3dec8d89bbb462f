"""Training in one call: a model and a graph become the best checkpoints and their test ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.models.registry import model_kind

if TYPE_CHECKING:
    from kgprobe.ranks import Ranks
    from kgprobe.train.keep import Keep
    from kgprobe.train.progress import Trained, Watch
    from kgprobe.train.settings import Settings
    from kgprobe.train.trainer import TrainingResources


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
    keep: Keep


def fit(
    model: str,
    graph: KnowledgeGraph | str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    device: str = "cpu",
    threads: int | None = None,
    force: bool = False,
    watch: Watch | None = None,
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
        watch: Called with how far it is.
        settings: Settings of the training and of the model, by name.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], valid=[[2, 0, 3]], test=[[0, 0, 2]])
        >>> fitted = fit("complex", graph, select=["MRR", "MR"], seeds=[0, 1], dimension=2, epochs=3, validate_every=1)
        >>> {target: len(ranks) for target, ranks in fitted.ranks.items()}
        {'MRR': 4, 'MR': 4}
    """
    kind = model_kind(model)
    kind.load()
    from kgprobe.train.configs import known_settings
    from kgprobe.train.resolve import resolve
    from kgprobe.train.sources import from_values
    from kgprobe.train.trainer import TrainingResources

    known = graph if isinstance(graph, KnowledgeGraph) else load_graph(graph)
    given = from_values("given", settings)
    resolved = resolve(kind.name, [*known_settings(kind.name, known).sources, given]).settings
    resources = TrainingResources(device, threads)
    if output is None:
        return _in_memory(resolved, known, resources, watch)
    return _on_disk(resolved, known, resources, watch, Path(output), force)


def _in_memory(settings: Settings, graph: KnowledgeGraph, resources: TrainingResources, watch: Watch | None) -> Fitted:
    from kgprobe.train.keep import MemoryKeep
    from kgprobe.train.ranking import rank_best
    from kgprobe.train.trainer import train

    keep = MemoryKeep()
    trained = train(settings, graph, keep, resources, watch)
    ranking = resources.ranking(graph.num_entities)
    done: dict[tuple[int, int], Ranks] = {}
    targets = settings.select if len(graph.triples("test")) else ()
    ranks = {target: rank_best(keep, settings, graph, target, ranking, ranked=done) for target in targets}
    return Fitted(settings, trained, ranks, keep)


def _on_disk(
    settings: Settings,
    graph: KnowledgeGraph,
    resources: TrainingResources,
    watch: Watch | None,
    output: Path,
    force: bool,
) -> Fitted:
    from kgprobe.train.run.directory import RunDirectory
    from kgprobe.train.run.environment import environment
    from kgprobe.train.run.finish import finish
    from kgprobe.train.trainer import train

    ranking = resources.ranking(graph.num_entities)
    about = environment(graph, resources.device, ranking.workers)
    with RunDirectory.create(output, settings, graph, about, force=force) as run:
        trained = train(settings, graph, run, resources, watch)
        return Fitted(settings, trained, finish(run, graph, ranking, facts=trained.facts), run)
