"""Evidence for claims: differences between the models of one graph, with their variance over queries and runs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.arrays import Floats
from kgprobe.comparison.estimator_families import estimator_family
from kgprobe.comparison.estimators import estimators
from kgprobe.comparison.inference import Hypotheses, variance_sources
from kgprobe.comparison.intervals import Component
from kgprobe.comparison.lineup import Lineup, grouped
from kgprobe.metrics import Metric
from kgprobe.metrics.metric import Facts, MeanMetric
from kgprobe.studies.claim_logic import Sign
from kgprobe.transform import Transformer


@dataclass(frozen=True)
class RankRange(Transformer):
    """1 for a rank from ``low`` to ``high``, else 0.

    Example:
        >>> RankRange(3, 10)(np.array([2.0, 3.0, 10.0, 10.5]), np.full(4, 99.0)).tolist()
        [0.0, 1.0, 1.0, 0.0]
    """

    low: float
    high: float

    def __call__(self, rank: Floats, candidates: Floats) -> Floats:
        return np.where((rank >= self.low) & (rank <= self.high), 1.0, 0.0)


@dataclass(frozen=True)
class RankShare(MeanMetric):
    """Share of the queries whose target has a rank from ``low`` to ``high``; without a better direction of its own."""

    name = "RankShare"
    facts = Facts("Share of ranks", 0, 1, True, "", monotone=False)
    low: float = 1.0
    high: float = 1.0

    @property
    def transformer(self) -> Transformer:
        return RankRange(self.low, self.high)


def group_name(number: int, groups: int) -> str:
    """What a group of queries by popularity is called; group 1 is the rarest.

    Example:
        >>> group_name(1, 4), group_name(2, 4), group_name(4, 4)
        ('the rarest quarter', 'group 2 of 4 by popularity', 'the most popular quarter')
    """
    part = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 10: "tenth"}.get(groups, f"{groups}th")
    ends = {1: f"the rarest {part}", groups: f"the most popular {part}"}
    return ends.get(number, f"group {number} of {groups} by popularity")


class Evidence:
    """The differences between the models of one graph, each computed once.

    Args:
        lineup: The models on the same queries.
        tie: How ties are scored.

    Attributes:
        lineup: The models.
    """

    def __init__(self, lineup: Lineup, *, tie: Tie = Tie.mean) -> None:
        self.lineup, self._tie = lineup, tie
        self._known: dict[tuple[Metric, int], list[_Group]] = {}

    @property
    def models(self) -> tuple[str, ...]:
        return self.lineup.models

    def size(self, groups: int) -> int:
        """The number of groups by popularity that the queries really have, where this many are asked for."""
        return len(grouped(self.lineup, _by(groups), self.lineup.clusters()).groups)

    def ahead(self, model: str, other: str, metric: Metric, *, group: int = 1, groups: int = 1) -> Sign:
        """The statement that a model has a better value than another one.

        Args:
            model: The model.
            other: The other model.
            metric: The metric.
            group: The group of queries, 1 for the rarest.
            groups: The number of groups of about equal size by the popularity of the triple.
        """
        known = self._groups(metric, groups)[group - 1]
        inside = f" in {group_name(group, groups)} of the queries" if groups > 1 else ""
        return known.ahead(self.models.index(model), self.models.index(other), self.models, f" by {metric}{inside}")

    def value(self, model: str, metric: Metric, *, group: int = 1, groups: int = 1) -> float:
        """The value of a model."""
        return float(self._groups(metric, groups)[group - 1].values[self.models.index(model)])

    def _groups(self, metric: Metric, groups: int) -> list[_Group]:
        key = metric, groups
        if key not in self._known:
            cells = grouped(self.lineup, _by(groups), self.lineup.clusters())
            own = [estimators(self.lineup, model, metric, cells=cells, tie=self._tie) for model in self.models]
            pairs = tuple(combinations(range(len(self.models)), 2))
            families = [estimator_family(some) for some in zip(*own, strict=True)]
            self._known[key] = [_Group(Hypotheses(metric, family, pairs)) for family in families]
        return self._known[key]


def _by(groups: int) -> tuple[str, ...]:
    return () if groups == 1 else (f"popularity:{groups}",)


class _Group:
    """The differences by one metric in one group of queries."""

    def __init__(self, question: Hypotheses) -> None:
        self._question = question
        self.values = question.family.estimate
        self._runs = [len(one.parts) for one in question.family.estimators]
        self._precision = question.precision(over_runs=True)
        contrasts = question.contrasts()[len(self.values) :]
        self._contrasts = dict(zip(question.pairs, contrasts, strict=True))
        evidence = self._precision.evidence[len(self.values) :]
        self._evidence = dict(zip(question.pairs, evidence, strict=True))

    def ahead(self, i: int, j: int, names: tuple[str, ...], where: str) -> Sign:
        pair = (i, j) if i < j else (j, i)
        evidence, contrast = self._evidence[pair], self._contrasts[pair]
        assert self._precision.run_covariance is not None  # claims have smooth metrics only
        freedom = evidence.freedom(self._precision.clusters)
        queries, runs = variance_sources(contrast, self._precision.run_covariance, freedom)
        better = 1.0 if self._question.metric.higher_is_better else -1.0
        sign = Sign(
            f"{names[pair[0]]} is ahead of {names[pair[1]]}{where}",
            better * contrast.estimate,
            Component(queries.variance, queries.freedom),
            tuple(runs) if min(self._runs[i], self._runs[j]) > 1 else (),
            evidence.remark,
        )
        return sign if pair == (i, j) else sign.turned(f"{names[i]} is ahead of {names[j]}{where}")
