"""Whether the ranks of a model belong to their queries: which query is hard is something that models agree on.

Ranks that are shuffled over the rows of a file keep every mean, but agree with no other model's. So does an honest
model that knows something else than the others, and is therefore better or worse than they are: it is suspected only
where it is about as good, which it can hardly be at queries that have nothing to do with those the others are good at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgprobe.compare.audit.skill import Skills
from kgprobe.compare.audit.view import Flags, Floats

_FEWEST_MODELS = 3
_FEWEST_QUERIES = 1000
_CLEAR = 0.2
"""The least correlation of the other models with each other; also 15 standard errors, so that none is clear."""
_CLEAR_ERRORS = 15
_NONE = 0.2
"""Whoever reaches this share of the others' correlation is of their kind; sound models have at least 0.25."""
_NONE_ERRORS = 3.5
_VARIES = 0.5
"""A model that varies less than this share of what is usual, such as a perfect one, leaves nothing to agree with."""
_AS_GOOD = (0.75, 1.25)
"""Skill as a share of the others' median, within which disagreement is implausible."""


@dataclass(frozen=True)
class Stranger:
    """A model whose ranks have nothing to do with those of the others.

    Attributes:
        model: Which of the models.
        side: "head" or "tail", or "both".
        queries: How many queries are concerned.
        own: The largest of its correlations with another model.
        others: The median correlation of the others with each other.
    """

    model: int
    side: str
    queries: int
    own: float
    others: float


def strangers(skills: Skills) -> Iterator[Stranger]:
    """The models that agree with nobody, on both sides or on one, though they are as good as the others.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> hard = rng.random(4000)
        >>> scale = np.stack([hard, hard, rng.permutation(hard)]) + rng.normal(0, 0.1, (3, 4000))
        >>> side = np.arange(4000) < 2000
        >>> skills = Skills(("A", "B", "shuffled"), np.stack([scale, scale]), scale, np.zeros(4000, int), side)
        >>> [(found.model, found.side) for found in strangers(skills)]
        [(2, 'both')]
    """
    if len(skills.models) < _FEWEST_MODELS:
        return
    scale = skills.scales[0]
    within = np.stack([skill - skills.cells.mean(skill)[skills.cells.which] for skill in scale])
    tail = skills.predicts_tail
    sides = {"both": tail | ~tail, "head": ~tail, "tail": tail}
    found = {
        side: _on_side(scale[:, queries], within[:, queries], side)
        for side, queries in sides.items()
        if queries.sum() >= _FEWEST_QUERIES
    }
    everywhere = found.get("both", {})
    yield from everywhere.values()
    for side in ("head", "tail"):
        yield from (stranger for model, stranger in found.get(side, {}).items() if model not in everywhere)


def _on_side(scale: Floats, within: Floats, side: str) -> dict[int, Stranger]:
    queries = scale.shape[1]
    error = 1 / np.sqrt(queries)
    correlation, level, spread = _correlations(within), scale.mean(axis=1), within.std(axis=1)
    found = {}
    for model in range(len(scale)):
        rest = np.arange(len(scale)) != model
        own, others = float(correlation[model, rest].max()), _median_of_pairs(correlation, rest)
        clear = others >= max(_CLEAR, _CLEAR_ERRORS * error)
        strange = own < min(_NONE * others, _NONE_ERRORS * error)
        as_good = _AS_GOOD[0] <= level[model] / np.median(level[rest]) <= _AS_GOOD[1]
        if clear and strange and as_good and spread[model] >= _VARIES * np.median(spread[rest]):
            found[model] = Stranger(model, side, queries, own, others)
    return found


def _correlations(within: Floats) -> Floats:
    """Pearson's, 0 where a model is the same everywhere in its cells."""
    centred = within - within.mean(axis=1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    return np.asarray(unit @ unit.T)


def _median_of_pairs(correlation: Floats, models: Flags) -> float:
    own = correlation[np.ix_(models, models)]
    return float(np.median(own[np.triu_indices(len(own), 1)]))
