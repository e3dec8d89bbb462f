"""Relations in which a model often fails by chance at what everybody else finds easy, and it itself elsewhere.

Ranks that are partly random or of other queries look like this, though their mean may be that of a modest model: a
model that is modest in earnest seldom places an answer as chance does that all others place among the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgprobe.compare.audit.skill import Skills

_FEWEST_MODELS = 3
_FEWEST_EASY = 100
_EASY = 0.7
"""The least skill of all other models: a rank of 25 among 40,000 candidates, of 4 among 130."""
_CHANCE = 0.3
"""Skill below this is that of chance: a rank above 1,700 among 40,000 candidates, above 31 among 130."""
_OFTEN = 0.35
"""This share of the easy queries of a cell is not failed in earnest; sound models stay below 0.25."""
_SELDOM = 0.04
"""The most that a model fails at in other relations. One that fails more often has other limits than the others."""


@dataclass(frozen=True)
class Blunders:
    """A relation and side that a model fails at as chance does.

    Attributes:
        model: Which of the models.
        cell: Which of the cells.
        easy: How many of its queries are easy to all other models.
        share: The share of these at which the model fails.
        elsewhere: The same share in all other relations.
    """

    model: int
    cell: int
    easy: int
    share: float
    elsewhere: float


def blunders(skills: Skills) -> Iterator[Blunders]:
    """Where models fail at easy queries, and only there.

    Example:
        >>> scale = np.full((3, 2000), 0.9)
        >>> scale[2, :200] = np.where(np.arange(200) % 2, 0.9, 0.1)
        >>> relation, side = np.arange(2000) // 200, np.ones(2000, bool)
        >>> skills = Skills(("A", "B", "C"), np.stack([scale, scale]), scale, relation, side)
        >>> [(found.model, found.cell, found.share, found.elsewhere) for found in blunders(skills)]
        [(2, 0, 0.5, 0.0)]
    """
    if len(skills.models) < _FEWEST_MODELS:
        return
    scale, cells = skills.scales[0], skills.cells
    for model in range(len(scale)):
        easy = (np.delete(scale, model, axis=0) >= _EASY).all(axis=0)
        many, failed = (
            np.bincount(cells.which, weights=flags, minlength=len(cells.size))
            for flags in (easy, easy & (scale[model] < _CHANCE))
        )
        share = failed / np.maximum(many, 1)
        for cell in np.flatnonzero((many >= _FEWEST_EASY) & (share >= _OFTEN)):
            other = cells.relation != cells.relation[cell]
            if many[other].sum() < _FEWEST_EASY:
                continue
            elsewhere = float(failed[other].sum() / many[other].sum())
            if elsewhere <= _SELDOM:
                yield Blunders(model, int(cell), int(many[cell]), float(share[cell]), elsewhere)
