"""Steps of a predictor over training queries."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kgprobe.models.noise import Noise
from kgprobe.models.rnnlogic.model import RNNLogic
from kgprobe.train.rules.rnnlogic.chunk import Chunk, scored
from kgprobe.train.rules.rnnlogic.loss import fact_losses
from kgprobe.train.rules.rnnlogic.queries import TrainingQueries

_ON_CPU, _ON_GPU = 1 << 17, 1 << 20


def scores_at_once(device: torch.device) -> int:
    """How many scores of candidates are held at once: the parts of a step that is larger follow each other."""
    return _ON_CPU if device.type == "cpu" else _ON_GPU


def fit_epoch(
    model: RNNLogic,
    queries: TrainingQueries,
    batch: int,
    noise: Noise,
    step: Callable[[], None],
    watch: Callable[[], None] = lambda: None,
) -> Tensor:
    """Ask every query once, in random order; gives the mean loss of the steps.

    Args:
        model: The predictor.
        queries: What it is asked.
        batch: Queries in a step.
        noise: The order, and what is left out.
        step: Follows the gradient, and forgets it.
        watch: Called after each step.
    """
    model.train()
    total, steps = torch.zeros((), dtype=torch.float64, device=model.rule.device), 0
    for chosen in torch.split(noise.order(len(queries))[0], batch):
        asked = queries.asked[chosen].sum()
        for some in queries.chunks(chosen, scores_at_once(model.rule.device)):
            chunk = Chunk(queries, some)
            losses = fact_losses(chunk, scored(model, chunk, noise), *model.base(chunk.relation))
            loss = losses.sum() / asked
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        step()
        steps += 1
        watch()
    return total / max(steps, 1)
