"""How good each model is at each query, on scales on which chance is 0 and the first place is 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kgprobe.compare.audit.view import Codes, Flags, Floats, Run, View

_FEWEST_CANDIDATES = 5
"""Among fewer candidates, a rank says little about a model."""
_ABLE = 0.1
"""A model whose skill is below this share of the way from chance to the first place says nothing about others."""


@dataclass(frozen=True)
class Skills:
    """The skill of several models at the queries that all of them have.

    Attributes:
        models: Their names.
        scales: Two scales [2, models, queries]: the logarithm of the rank, to which every place counts, and the
            reciprocal rank, to which the first places count. A fault of the ranks shows on both.
        reciprocal_rank: The mean reciprocal rank over the runs [models, queries], as people know it.
        relation: The relation of each query.
        predicts_tail: Whether the tail is asked for.
    """

    models: tuple[str, ...]
    scales: Floats
    reciprocal_rank: Floats
    relation: Codes
    predicts_tail: Flags

    def without(self, model: int) -> Skills:
        """The other models."""
        kept = np.arange(len(self.models)) != model
        names = tuple(name for name, keep in zip(self.models, kept, strict=True) if keep)
        return replace(self, models=names, scales=self.scales[:, kept], reciprocal_rank=self.reciprocal_rank[kept])

    @cached_property
    def cells(self) -> Cells:
        """The queries by relation and side."""
        values, which, size = np.unique(self.relation * 2 + self.predicts_tail, return_inverse=True, return_counts=True)
        return Cells(values // 2, values % 2 == 1, which, size)


@dataclass(frozen=True)
class Cells:
    """Queries grouped by relation and side.

    Attributes:
        relation: The relation of each cell.
        predicts_tail: The side of each cell.
        which: The cell of each query.
        size: The number of queries of each cell.
    """

    relation: Codes
    predicts_tail: Flags
    which: Codes
    size: Codes

    def mean(self, values: Floats) -> Floats:
        """The mean of each cell."""
        return np.asarray(np.bincount(self.which, weights=values, minlength=len(self.size)) / self.size)


def skills_of(view: View) -> Skills:
    """The skills of the models that have exact ranks and are better than chance.

    Example:
        >>> from kgprobe.compare.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 1], relation=[0, 0], tail=[1, 0], side=["tail"] * 2, rank=[1, 2], candidates=[9, 9]
        ... )
        >>> np.sort(skills_of(prepare({"mine": ranks}, None)).scales).round(3).tolist()
        [[[0.513, 1.0]], [[0.271, 1.0]]]
    """
    exact = [model for model, runs in view.runs.items() if not any(run.intervals for run in runs)]
    able = {model: scales for model in exact if _is_able(scales := _scales(view.runs[model]))}
    shared = np.all([~np.isnan(scales[0]) for scales in able.values()] or [np.zeros(len(view.queries), bool)], axis=0)
    reciprocal = [_over_runs([1 / run.rank for run in view.runs[model]])[shared] for model in able]
    return Skills(
        tuple(able),
        np.stack([scales[:, shared] for scales in able.values()], axis=1) if able else np.empty((2, 0, 0)),
        np.stack(reciprocal) if able else np.empty((0, 0)),
        view.queries.relation[shared],
        view.queries.predicts_tail[shared],
    )


def _is_able(scales: Floats) -> bool:
    known = scales[0][~np.isnan(scales[0])]
    return bool(len(known) and known.mean() >= _ABLE)


def _scales(runs: tuple[Run, ...]) -> Floats:
    """Both scales [2, queries], mean over the runs; NaN where a run has no rank or few candidates."""
    from scipy.special import digamma, gammaln  # slow to load, and the rest of the audit does without

    logarithm, reciprocal = [], []
    for run in runs:
        size = np.where(run.candidates >= _FEWEST_CANDIDATES, run.candidates, np.nan)
        by_chance = gammaln(size + 1) / size
        logarithm.append(1 - np.log(run.rank) / by_chance)
        by_chance = (digamma(size + 1) + np.euler_gamma) / size
        reciprocal.append((1 / run.rank - by_chance) / (1 - by_chance))
    return np.stack([_over_runs(logarithm), _over_runs(reciprocal)])


def _over_runs(values: list[Floats]) -> Floats:
    return np.asarray(np.mean(values, axis=0))
