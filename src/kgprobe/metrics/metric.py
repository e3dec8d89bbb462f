"""The Metric base classes: sums over queries, how they become a number, and declared facts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from kgprobe.aggregate import Uniform, Weighting
from kgprobe.arrays import Floats
from kgprobe.errors import UsageError
from kgprobe.transform import Transformer


class Statistic(Enum):
    """What is summed of a transformer: its score, or the mean or variance of the score of a random rank."""

    score = "score"
    chance_mean = "chance mean"
    chance_variance = "chance variance"


Term = tuple[Transformer, Statistic]


@dataclass(frozen=True)
class Sums:
    """Sums over the queries of each slice; w is the weight of a query.

    Attributes:
        weight: Sum of w.
        squared_weight: Sum of w squared.
        score: Sum of w times the score.
        chance_mean: Sum of w times the mean score of a random rank.
        chance_variance: Sum of w squared times the variance of the score of a random rank.
    """

    weight: Floats
    squared_weight: Floats
    score: Floats
    chance_mean: Floats
    chance_variance: Floats


@dataclass(frozen=True)
class Facts:
    """What is known of a metric before it sees a rank.

    Attributes:
        title: Its name in words.
        low: Its smallest possible value.
        high: Its largest possible value.
        higher_is_better: Whether a larger value means a better model.
        reference: Where it comes from.
        monotone: Whether a worse rank of any query moves it in one direction only, or not at all: then the values at
            the best and at the worst ranks are the limits of all between them.
    """

    title: str
    low: float
    high: float
    higher_is_better: bool
    reference: str
    monotone: bool = True

    @property
    def range(self) -> str:
        """The interval of possible values, closed where the end is reached.

        Example:
            >>> Facts("Mean rank", 1, math.inf, False, "").range
            '[1, inf)'
        """
        left, right = "(" if math.isinf(self.low) else "[", ")" if math.isinf(self.high) else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"


class Metric(ABC):
    """Base of all metrics; subclasses are frozen dataclasses whose fields are the parameters in the name."""

    name: ClassVar[str]
    synonyms: ClassVar[tuple[str, ...]] = ()
    facts: ClassVar[Facts]
    cutoff: ClassVar[bool] = False
    """Whether the first parameter is written behind an @, as in Hits@10."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns of the rank table by which its sums are kept apart."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """What it sums over the queries."""
        return ()

    @property
    def needs_alternatives(self) -> bool:
        """Whether a query with a single candidate says nothing and is left out."""
        return False

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value means a better model."""
        return self.facts.higher_is_better

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as they are written in the name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __str__(self) -> str:
        written = {key: value for key, value in self.parameters.items() if value is not None}
        at = f"@{written.pop(next(iter(written)))}" if self.cutoff else ""
        inside = ",".join(f"{key}={spelled(value)}" for key, value in written.items())
        return f"{self.name}{at}" + (f"({inside})" if inside else "")


def spelled(number: float) -> str:
    """A number in its shortest exact form.

    Example:
        >>> spelled(1.0), spelled(-0.5), spelled(float("inf"))
        ('1', '-0.5', 'inf')
    """
    return str(int(number)) if float(number).is_integer() else repr(float(number))


class MeanMetric(Metric):
    """A weighted mean of transformed ranks, as it is or held against chance."""

    @property
    @abstractmethod
    def transformer(self) -> Transformer:
        """Step 2: rank to score."""

    @property
    def weighting(self) -> Weighting:
        """Step 3: what each query counts."""
        return Uniform()

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the weighting."""
        return self.weighting.columns

    @property
    def needs_alternatives(self) -> bool:
        """Where the score or the weight takes the candidate count into account."""
        return self.transformer.candidate_aware

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """What is summed of the transformer."""
        return (Statistic.score,)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The statistics of its transformer."""
        return tuple((self.transformer, statistic) for statistic in self.statistics)

    def finish(self, sums: Sums) -> Floats:
        """The value of each slice."""
        return sums.score / sums.weight


class RatioMetric(MeanMetric):
    """The mean score divided by its expectation for random ranks."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """Score and chance level."""
        return (Statistic.score, Statistic.chance_mean)

    @property
    def needs_alternatives(self) -> bool:
        """Yes: chance depends on the candidate count."""
        return True

    def finish(self, sums: Sums) -> Floats:
        """The quotient of means."""
        return sums.score / sums.chance_mean


class IndexMetric(RatioMetric):
    """The mean score on the scale on which random ranks are worth 0 and perfect ones 1."""

    def finish(self, sums: Sums) -> Floats:
        """(score - chance) / (optimum - chance)."""
        best = self.transformer.optimum * sums.weight
        return (sums.score - sums.chance_mean) / (best - sums.chance_mean)


class ZMetric(RatioMetric):
    """How many standard deviations the mean score lies above that of random ranks; larger is better."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """Score, chance level and its variance."""
        return tuple(Statistic)

    def finish(self, sums: Sums) -> Floats:
        """(score - chance) / standard deviation, turned so that larger is better."""
        sign = 1.0 if self.transformer.higher_is_better else -1.0
        return sign * (sums.score - sums.chance_mean) / np.sqrt(sums.chance_variance)


class DistributionMetric(Metric):
    """A statistic of the distribution of ranks that is no mean of scores, such as the median."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The rank itself: its distribution is kept."""
        return ("rank",)

    @abstractmethod
    def of_distribution(self, rank: Floats, weight: Floats) -> float:
        """The value for distinct ranks in ascending order with their weights."""


def check_number(metric: str, name: str, value: float, *, finite: bool = True) -> None:
    """Refuse a parameter that is not a number, or infinite where it may not be."""
    if math.isnan(value) or (finite and math.isinf(value)):
        raise UsageError(f"{metric}: {name} must be a {'finite ' if finite else ''}number, not {value}")
