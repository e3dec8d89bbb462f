"""The logic of claims: statements about signs of differences, and their p-values in both directions.

A claim is a statement such as "at least 3 of these 5 differences are positive". Each difference is a `Sign` with its
sources of variance. `AtLeast` combines statements by the partial conjunction test of Benjamini and Heller (2008): the
p-value of "at least u of n" is n - u + 1 times the u-th smallest of the n p-values. It is valid whatever the dependence
between the statements. With u = n it is the largest p-value (intersection-union test), with u = 1 the Bonferroni bound.

A statement has two p-values. ``supports`` is that of the null hypothesis that the statement is false; ``opposes`` is
that of the null hypothesis that it is true.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from kgprobe.comparison.intervals import Component, ContrastRuns, Uncertainty

_TINY = float(np.finfo(np.float64).tiny)


class PValues(NamedTuple):
    """One-sided p-values of a statement, in both directions.

    Attributes:
        supports: The probability of data that speak at least as clearly for the statement if it is false.
        opposes: The probability of data that speak at least as clearly against the statement if it is true.
    """

    supports: float
    opposes: float

    @property
    def swapped(self) -> PValues:
        """The p-values of the opposite statement."""
        return PValues(self.opposes, self.supports)


@dataclass(frozen=True)
class Sample:
    """The population that a p-value is about, and the size of the sample relative to the one at hand.

    Attributes:
        method: Whether other training runs of the same methods are meant, or else the same training runs.
        queries: The number of queries, relative to that at hand; of models where these are the sample.
        runs: The number of training runs of each model, relative to that at hand.
    """

    method: bool
    queries: float = 1.0
    runs: int = 1


THESE_RUNS, THE_METHOD = Sample(method=False), Sample(method=True)


class Statement(ABC):
    """A statement about differences that is true or false of the population."""

    @property
    @abstractmethod
    def observed(self) -> bool:
        """Whether it is true of the given numbers."""

    @abstractmethod
    def p(self, sample: Sample) -> PValues:
        """Its p-values in both directions."""

    @abstractmethod
    def signs(self) -> Iterator[Sign]:
        """The differences that it is about."""

    over_models: ClassVar[bool] = False
    """Whether models are its sample, instead of queries and training runs."""

    @property
    def has_runs(self) -> bool:
        """Whether every model has several training runs, so that methods can be compared."""
        return all(sign.runs for sign in self.signs())

    @property
    def fewest_runs(self) -> int:
        """The number of training runs of the model that has the fewest; 1 where a model has a single one."""
        return min((len(own.values) for sign in self.signs() for own in sign.runs), default=1)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why some of its parts cannot be tested; empty where all can."""
        return tuple(dict.fromkeys(sign.remark for sign in self.signs() if sign.remark))


@dataclass(frozen=True)
class Sign(Statement):
    """The statement that a difference is positive.

    Attributes:
        text: The statement in words.
        value: The difference.
        queries: Its variance over draws of test triples, with degrees of freedom.
        runs: The training runs of each model, where all have several.
        remark: Why its variance cannot be trusted; it then counts neither for nor against the statement.

    Example:
        >>> ahead = Sign("A is ahead of B", 0.02, Component(0.0001, 500.0))
        >>> ahead.observed, [round(p, 4) for p in ahead.p(THESE_RUNS)]
        (True, [0.023, 0.977])
    """

    text: str
    value: float
    queries: Component
    runs: tuple[ContrastRuns, ...] = ()
    remark: str | None = None

    @property
    def observed(self) -> bool:
        return self.value > 0

    def p(self, sample: Sample) -> PValues:
        if self.remark or not math.isfinite(self.value):
            return PValues(1.0, 1.0)
        queries = Component(self.queries.variance / sample.queries, self.queries.freedom * sample.queries)
        if sample.method:
            runs = self.runs if sample.runs == sample.queries == 1 else [_more(own, sample) for own in self.runs]
            both = Uncertainty.of(queries, runs).probability(self.value)
        else:
            both = queries.probability(self.value)
        tail = max(both / 2, _TINY)
        return PValues(tail, 1 - tail) if self.value > 0 else PValues(1 - tail, tail)

    def signs(self) -> Iterator[Sign]:
        yield self

    def turned(self, text: str) -> Sign:
        """The statement that the difference is negative."""
        return replace(self, text=text, value=-self.value)


def _more(own: ContrastRuns, sample: Sample) -> ContrastRuns:
    """The runs repeated, with the covariance of more queries: what more runs like these would give."""
    covariance = np.tile(own.covariance, (sample.runs, sample.runs)) / sample.queries
    return ContrastRuns(own.factor, np.tile(own.values, sample.runs), covariance)


@dataclass(frozen=True)
class AtLeast(Statement):
    """The statement that at least some number of statements are true.

    Attributes:
        needed: How many.
        parts: The statements.

    Example:
        >>> signs = [Sign("ahead", value, Component(1.0, math.inf)) for value in (3.0, 4.0, 0.1)]
        >>> two = AtLeast(2, signs)
        >>> two.observed, round(two.p(THESE_RUNS).supports, 5)  # (3 - 2 + 1) times the second smallest
        (True, 0.0027)
    """

    needed: int
    parts: Sequence[Statement]

    @property
    def observed(self) -> bool:
        return sum(part.observed for part in self.parts) >= self.needed

    def p(self, sample: Sample) -> PValues:
        found = [part.p(sample) for part in self.parts]
        failing = len(found) - self.needed + 1  # the statement is false where this many parts are
        return PValues(
            _partial_conjunction([p.supports for p in found], self.needed),
            _partial_conjunction([p.opposes for p in found], failing),
        )

    def signs(self) -> Iterator[Sign]:
        for part in self.parts:
            yield from part.signs()

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(remark for part in self.parts for remark in part.remarks))


@dataclass(frozen=True)
class Unknown(Statement):
    """A statement that cannot be tested, beside others that can.

    Attributes:
        reason: Why.
    """

    reason: str

    @property
    def observed(self) -> bool:
        return False

    def p(self, sample: Sample) -> PValues:
        return PValues(1.0, 1.0)

    def signs(self) -> Iterator[Sign]:
        return iter(())

    @property
    def remarks(self) -> tuple[str, ...]:
        return (self.reason,)


def _partial_conjunction(p: Sequence[float], needed: int) -> float:
    """The p-value of the null hypothesis that fewer than ``needed`` of the null hypotheses are false."""
    if needed <= 0:
        return 0.0
    if needed > len(p):
        return 1.0
    return min(1.0, (len(p) - needed + 1) * sorted(p)[needed - 1])


def all_of(parts: Sequence[Statement]) -> Statement:
    """The statement that all parts are true."""
    return parts[0] if len(parts) == 1 else AtLeast(len(parts), parts)


def any_of(parts: Sequence[Statement]) -> Statement:
    """The statement that at least one part is true."""
    return parts[0] if len(parts) == 1 else AtLeast(1, parts)


@dataclass(frozen=True)
class Opposite(Statement):
    """The statement that another one is false."""

    part: Statement

    @property
    def observed(self) -> bool:
        return not self.part.observed

    def p(self, sample: Sample) -> PValues:
        return self.part.p(sample).swapped

    def signs(self) -> Iterator[Sign]:
        return self.part.signs()


@dataclass(frozen=True)
class Provided(Statement):
    """A statement that is tested only where a condition is established, which was chosen because it is observed.

    That a model which is observed to be the best is the best can be tested without a correction for the choice, by the
    largest two-sided p-value of its differences from the others (Gutmann and Maymin 1987; for any covariance arXiv
    2503.01065). Here p-values are one-sided, but a claim counts the smaller of its two p-values twice.

    Attributes:
        condition: The condition.
        part: The statement.

    Example:
        >>> best, kept = (Sign("ahead", value, Component(1.0, math.inf)) for value in (3.0, 4.0))
        >>> [round(p, 5) for p in Provided(best, kept).p(THESE_RUNS)]  # the p-value of the condition limits both
        [0.00135, 0.99997]
    """

    condition: Statement
    part: Statement

    @property
    def observed(self) -> bool:
        return self.part.observed

    def p(self, sample: Sample) -> PValues:
        established, found = self.condition.p(sample).supports, self.part.p(sample)
        return PValues(max(established, found.supports), max(established, found.opposes))

    def signs(self) -> Iterator[Sign]:
        yield from self.condition.signs()
        yield from self.part.signs()


class Needed(NamedTuple):
    """How large a sample would decide a statement if the observed differences were the true ones.

    Attributes:
        queries: The factor by which the number of queries would have to grow; infinite where none decides it.
        runs: The factor by which the number of training runs would have to grow; None where that is not a question,
            infinite where no number of runs decides it without more queries.
    """

    queries: float
    runs: float | None


def needed_sample(statement: Statement, threshold: float, *, method: bool) -> Needed:
    """The sample that would decide a statement, at a p-value of at most ``threshold``.

    Args:
        statement: An undecided statement.
        threshold: The largest one-sided p-value that decides it.
        method: Whether it is about methods, so that more training runs can decide it too.

    Example:
        >>> found = needed_sample(Sign("A", 1.0, Component(1.0, math.inf)), 0.025, method=False)
        >>> round(found.queries, 1)  # 3.84 rounded up to the next step
        4.2
    """

    def decided(runs: int, queries: float) -> bool:
        return min(statement.p(Sample(method, queries, runs))) <= threshold

    runs: float | None = None
    if method:
        runs = _first(_MOST_RUNS, lambda factor: decided(factor, 1.0))
        if math.isfinite(runs):
            return Needed(1.0, runs)
    many = _MOST_RUNS if method else 1
    return Needed(_first(_MOST_STEPS, lambda steps: decided(many, _STEP**steps), _STEP), runs)


_MOST_RUNS = 32
_STEP, _MOST_STEPS = 1.1, 97
"""Numbers of queries are tried in steps of a tenth, up to ten thousand times as many."""

NEVER = f"not even {_MOST_RUNS} times as many training runs and 10,000 times as many queries would decide it"


def _first(most: int, decided: Callable[[int], bool], base: float | None = None) -> float:
    """The smallest number from 1 on that decides, by bisection, or the base raised to it; infinite where none does."""
    if not decided(most):
        return math.inf
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return float(high) if base is None else base**high
