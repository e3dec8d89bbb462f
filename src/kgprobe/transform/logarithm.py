"""Transformers by logarithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kgprobe.transform.base import Floats, Transformer


@dataclass(frozen=True)
class Log(Transformer):
    """``ln r``, whose mean is the log of the geometric mean rank: lower is better.

    Example:
        >>> Log()(np.array([1.0, math.e]), np.array([9.0, 9.0])).tolist()
        [0.0, 1.0]
    """

    optimum: ClassVar[float] = 0.0
    higher_is_better: ClassVar[bool] = False

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        """The logarithm of each rank."""
        return np.log(rank)


@dataclass(frozen=True)
class InverseLog(Transformer):
    """``ln 2 / ln(1 + r)``: the log-MRR transformer of Yang et al. (2022), 1 for rank 1.

    Example:
        >>> InverseLog()(np.array([1.0, 3.0]), np.array([9.0, 9.0])).round(12).tolist()
        [1.0, 0.5]
    """

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        """The inverse logarithm of each rank."""
        return math.log(2) / np.log1p(rank)
