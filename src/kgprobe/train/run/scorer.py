"""Kept weights become a model that can be ranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.reciprocal import RankedRun, ranked_run
from kgprobe.train.learner import build_model
from kgprobe.train.settings import Settings


def trained_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: str = "cpu"
) -> RankedRun:
    """The run that has these weights, as the engine ranks it.

    Args:
        settings: What it was trained with.
        graph: What it was trained on.
        tensors: Its weights.
        device: Where it computes.

    Raises:
        DataError: The weights are not those of such a model.

    Example:
        >>> from kgprobe.train.resolve import resolve
        >>> settings = resolve("distmult", []).settings
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]])
        >>> weights = {"entity": torch.ones(1, 2, 128), "relation": torch.ones(1, 1, 128)}
        >>> trained_run(settings, graph, weights).candidates("tail").shape
        torch.Size([2, 128])
    """
    model = build_model(replace(settings, seeds=settings.seeds[:1]), graph, torch.device(device))
    try:
        model.load_state_dict(dict(tensors))
    except RuntimeError as error:
        title, *problems = (line.strip() for line in str(error).splitlines())
        raise DataError(f"these are not the weights of {settings.model}", problems or [title]) from None
    return ranked_run(model.one_run(0), graph.num_relations if settings.reciprocal else None)
