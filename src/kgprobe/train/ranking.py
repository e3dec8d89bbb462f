"""The kept best checkpoints are ranked on the test facts, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Model, Resources, rank
from kgprobe.ranks import Ranks, merge_seeds
from kgprobe.train.keep import Facts, Keep, written
from kgprobe.train.learners import trained_run
from kgprobe.train.settings import Settings

CHECKPOINTS = "checkpoints"
"""The entry of a rank file's settings that says of which epochs its models are."""


def rank_best(
    keep: Keep,
    settings: Settings,
    graph: KnowledgeGraph,
    target: str,
    resources: Resources | None = None,
    watch: Callable[[float], None] | None = None,
    ranked: dict[tuple[int, int], Ranks] | None = None,
) -> Ranks:
    """The test ranks of the checkpoints that are the best by a target, one for each seed.

    Args:
        keep: Where the checkpoints are kept.
        settings: What they were trained with.
        graph: The graph.
        target: The metric.
        resources: Device, threads and memory; the ranks do not depend on it.
        watch: Called with how many queries have been ranked since the last call.
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
            ranked[checkpoint] = rank(model, graph, resources=computed, watch=watch)
        elif watch is not None:
            watch(len(ranked[checkpoint]))
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
        >>> from kgprobe.train.resolve import resolve
        >>> facts = training_facts(resolve("rotate", []).settings, "MRR", {0: {"epoch": 5, "score": 0.5}})
        >>> facts["training"]["model"], facts["selected_by"], facts["checkpoints"]
        ('RotatE', 'MRR', [{'seed': 0, 'epoch': 5, 'score': 0.5}])
    """
    found = [{"seed": seed, **facts} for seed, facts in checkpoints.items()]
    return written({"training": settings.flat(), "selected_by": target, CHECKPOINTS: found})


def model_name(settings: Settings, target: str) -> str:
    """What reports call a model: where a training has several targets, these tell its models apart.

    Example:
        >>> from kgprobe.train.resolve import resolve
        >>> settings = resolve("rotate", []).settings
        >>> model_name(settings, settings.select[0])
        'RotatE'
    """
    return settings.model if len(settings.select) == 1 else f"{settings.model} by {target}"


def _device(resources: Resources) -> str:
    return resources.device.removeprefix("torch:")
