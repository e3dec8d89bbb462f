"""Base classes of the metrics: how sums over queries become a value, and the declared facts of a metric."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from kgprobe.aggregate import Statistic, Sums, Uniform, Weighting
from kgprobe.aggregate.weights import LARGEST_BETA
from kgprobe.arrays import Flags, Floats
from kgprobe.errors import UsageError
from kgprobe.transform import Transformer

Term = tuple[Transformer, Statistic]

_undefined_is_nan = np.errstate(divide="ignore", invalid="ignore")  # `Metric.why_undefined` gives the reason


@dataclass(frozen=True)
class Facts:
    """Declared properties of a metric.

    Attributes:
        title: Its name in words.
        low: Its smallest possible value.
        high: Its largest possible value.
        higher_is_better: Whether a larger value means a better model.
        reference: The publication it comes from.
        monotone: Whether a worse rank of any query never moves the value in the better direction. Then the values at
            the best and at the worst ranks bound all values between them.
    """

    title: str
    low: float
    high: float
    higher_is_better: bool
    reference: str
    monotone: bool = True

    @property
    def range(self) -> str:
        """The interval of possible values, closed where the end is finite."""
        left, right = "(" if math.isinf(self.low) else "[", ")" if math.isinf(self.high) else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"


class Metric(ABC):
    """Base of all metrics; subclasses are frozen dataclasses whose fields are the parameters in the name.

    Example:
        >>> from kgprobe.metrics import PROBE, parse
        >>> PROBE(alpha=0.5, beta=0.4) == parse("PROBE(alpha=0.5,beta=0.4)")
        True
    """

    name: ClassVar[str]
    synonyms: ClassVar[tuple[str, ...]] = ()
    facts: ClassVar[Facts]
    cutoff: ClassVar[bool] = False
    """Whether the first parameter is written after an @, as in Hits@10."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns of the rank table by which its sums are kept apart."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """What it sums over the queries."""
        return ()

    @property
    def fewest_candidates(self) -> int:
        """Queries with fewer candidates are left out: whatever their rank, they carry no information."""
        return 1

    def counted(self, candidates: Floats) -> Flags:
        """Which queries are evaluated, by their numbers of candidates."""
        return np.asarray(candidates >= self.fewest_candidates)

    @property
    def left_out(self) -> str:
        """The queries that are left out, in words."""
        most = self.fewest_candidates - 1
        return "a single candidate" if most == 1 else f"at most {most:,} candidates"

    def why_undefined(self, value: float, queries: int, weight: float) -> str | None:
        """The reason why a value is not a finite number; None for a finite one.

        Args:
            value: The value of the metric.
            queries: The number of queries that were evaluated.
            weight: The sum of their sample weights.

        Example:
            >>> from kgprobe.metrics import MR
            >>> MR().why_undefined(math.nan, queries=4, weight=0.0)
            'all sample weights are 0'
        """
        if math.isfinite(value):
            return None
        if not queries:
            return f"every query has {self.left_out}" if self.fewest_candidates > 1 else "there is no query"
        if not weight:
            return "all sample weights are 0"
        return "the value is infinite, or too large for double precision" if math.isinf(value) else self._degenerate

    _degenerate: ClassVar[str] = "sums of the scores overflow double precision"
    """Why the value is NaN although queries have weight."""

    @property
    def higher_is_better(self) -> bool:
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
    """A weighted mean of transformed ranks, or a function of it and of its chance level."""

    statistics: ClassVar[tuple[Statistic, ...]] = (Statistic.score,)
    """What is summed of the transformer."""

    @property
    @abstractmethod
    def transformer(self) -> Transformer:
        """Step 2: rank to score."""

    @property
    def weighting(self) -> Weighting:
        """Step 3: the weight of each query."""
        return Uniform()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.weighting.columns

    @property
    def fewest_candidates(self) -> int:
        return 2 if self.transformer.candidate_aware else 1

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple((self.transformer, statistic) for statistic in self.statistics)

    def finish(self, sums: Sums) -> Floats:
        """The value of each slice."""
        return sums.mean


class RatioMetric(MeanMetric):
    """The mean score divided by its expectation for random ranks."""

    statistics: ClassVar[tuple[Statistic, ...]] = (Statistic.score, Statistic.chance_mean)

    _degenerate: ClassVar[str] = "the scores cannot be told apart from those of random ranks in double precision"

    @property
    def fewest_candidates(self) -> int:
        return 2  # a query with a single candidate has no chance level to compare with

    @_undefined_is_nan
    def finish(self, sums: Sums) -> Floats:
        return sums.score / sums.chance_mean


class IndexMetric(RatioMetric):
    """The mean score rescaled so that random ranks have the value 0 and perfect ranks 1."""

    @_undefined_is_nan
    def finish(self, sums: Sums) -> Floats:
        best = self.transformer.optimum * sums.weight
        return (sums.score - sums.chance_mean) / (best - sums.chance_mean)


class ZMetric(RatioMetric):
    """The number of standard deviations by which the mean score is better than that of random ranks."""

    statistics = tuple(Statistic)

    @_undefined_is_nan
    def finish(self, sums: Sums) -> Floats:
        sign = 1.0 if self.transformer.higher_is_better else -1.0
        return sign * (sums.score - sums.chance_mean) / np.sqrt(sums.chance_variance)


class DistributionMetric(Metric):
    """A statistic of the distribution of ranks that is no mean of scores, such as the median."""

    @property
    def columns(self) -> tuple[str, ...]:
        return ("rank",)

    @abstractmethod
    def of_distribution(self, rank: Floats, weight: Floats) -> Floats:
        """The value for distinct ranks in ascending order with weights [..., ranks]: one or several distributions."""


def check_beta(metric: str, name: str, value: float) -> None:
    """Refuse an exponent of popularity that is not a number, or so large that weights would overflow."""
    check_number(metric, name, value)
    if abs(value) > LARGEST_BETA:
        raise UsageError(f"{metric}: {name} must be between -{LARGEST_BETA:g} and {LARGEST_BETA:g}, not {value}")


def check_number(metric: str, name: str, value: float, *, finite: bool = True) -> None:
    """Refuse a parameter that is not a number, or infinite where it may not be."""
    if math.isnan(value) or (finite and math.isinf(value)):
        raise UsageError(f"{metric}: {name} must be a {'finite ' if finite else ''}number, not {value}")
