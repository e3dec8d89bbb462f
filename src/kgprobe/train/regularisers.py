"""What keeps vectors small."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from kgprobe.models.base import EmbeddingModel
from kgprobe.train.queries import Queries

Regulariser: TypeAlias = Callable[[EmbeddingModel, Queries], Tensor]


def n3(model: EmbeddingModel, asked: Queries) -> Tensor:
    """The cubes of the moduli of the facts of a step, per fact: [S] (Lacroix et al. 2018)."""
    cubes = [factor.abs().pow(3).sum((1, 2)) / factor.shape[1] for factor in model.factors(*asked.facts)]
    return torch.stack(cubes).sum(0)


def l3(model: EmbeddingModel, asked: Queries) -> Tensor:
    """The cubes of all coordinates of all tables: [S]."""
    cubes = [own.abs().pow(3).flatten(1).sum(1) for own in model.parameters()]
    return torch.stack(cubes).sum(0)


def norm(model: EmbeddingModel, asked: Queries) -> Tensor:
    """The mean length of the entities' vectors: [S]."""
    lengths: Tensor = torch.linalg.vector_norm(model.entity, dim=-1)
    return lengths.mean(-1)


REGULARISERS: Mapping[str, Regulariser] = {"n3": n3, "l3": l3, "norm": norm}
