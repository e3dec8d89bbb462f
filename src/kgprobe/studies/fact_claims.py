"""Claims about metrics: the six properties, the open-world theory, and the order of models when triples are missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.metrics import Metric
from kgprobe.metrics.property_search import check_properties
from kgprobe.metrics.six_properties import Property, PropertyResult
from kgprobe.openworld.bench_points import Points
from kgprobe.openworld.claims import Claim as TheoryResult
from kgprobe.openworld.claims import check_claims
from kgprobe.openworld.consistency import PairCounts
from kgprobe.studies.claim_kinds import Claim
from kgprobe.studies.claim_logic import PValues, Sample, Sign, Statement

_DRAWS = 20_000


class Proof(NamedTuple):
    """The answer to a claim that needs no data.

    Attributes:
        holds: Whether no counterexample was found.
        reason: What was searched, or the counterexample.
    """

    holds: bool
    reason: str


@dataclass(frozen=True)
class HasProperties(Claim):
    """A metric has some of the paper's six properties, and lacks others."""

    metric: Metric
    has: tuple[Property, ...]
    lacks: tuple[Property, ...] = ()

    kind: ClassVar[str] = "property"
    about: ClassVar[str] = "a metric has some of the six properties, and lacks others"

    def proof(self) -> Proof:
        """The verdict of the search for counterexamples."""
        results = {result.about: result for result in _properties(self.metric)}
        wrong = [
            f"{'has not' if claimed else 'has'} {about}: {_why(results[about])}"
            for claimed, group in ((True, self.has), (False, self.lacks))
            for about in group
            if results[about].holds != claimed
        ]
        searched = sum(result.searched for result in results.values())
        return Proof(not wrong, "; ".join(wrong) or f"no counterexample in {searched:,} comparisons")


@cache
def _properties(metric: Metric) -> list[PropertyResult]:
    return check_properties([metric])


def _why(result: PropertyResult) -> str:
    shown = result.counterexample or result.witness
    return result.reason or (shown.text if shown else "no counterexample was found")


@dataclass(frozen=True)
class Theory(Claim):
    """A sentence of the open-world theory, tested numerically."""

    sentence: str
    """The beginning of a sentence of `kgprobe openworld lemma`."""

    kind: ClassVar[str] = "theory"
    about: ClassVar[str] = "a sentence of the open-world theory ('kgprobe openworld lemma' lists them)"

    def results(self) -> list[TheoryResult]:
        """The tested sentences that begin so."""
        return [one for one in _theory() if one.claim.startswith(self.sentence)]

    def proof(self) -> Proof:
        """Whether the sentence holds in every setting, with the worst one."""
        found = self.results()
        failed = [one for one in found if one.holds == "no"]
        shown = failed or found
        reason = "; ".join(f"{one.claim}: {one.violations} of {one.settings} settings violate it" for one in shown)
        return Proof(not failed, f"{reason}; worst case {shown[0].worst}")


@cache
def _theory() -> list[TheoryResult]:
    return check_claims()


@dataclass(frozen=True)
class KeepsOrder(Claim):
    """A metric keeps the closed-world order of models better than another one, at a missing rate."""

    metric: Metric
    than: Metric
    missing: float
    late: bool = False

    kind: ClassVar[str] = "keeps-order"
    about: ClassVar[str] = "a metric keeps the closed-world order of models better than another one"

    def stated(self, points: Points) -> DrawnSign:
        """The difference of Kendall's tau between open- and closed-world values, with draws of models."""
        kept = points.mrr > 0.5 if self.late else np.full(len(points), True)
        present, model = np.unique(points.model[kept], return_inverse=True)
        random = np.random.default_rng(0)
        drawn = random.multinomial(len(present), np.full(len(present), 1 / len(present)), size=_DRAWS)
        weights = np.concatenate([np.ones((1, len(present))), drawn])
        taus = []
        for metric in (self.metric, self.than):
            own = points.metrics.index(metric)
            counts = PairCounts.of(points.open[own, kept], points.closed[own, kept], model, len(present))
            taus.append(counts.tau(weights))
        first, second = float(taus[0][0]), float(taus[1][0])
        difference = taus[0][1:] - taus[1][1:]
        text = f"Kendall's tau {first:.3f} of {self.metric}, {second:.3f} of {self.than}, {len(present)} models"
        return DrawnSign(text, first - second, difference[np.isfinite(difference)])


@dataclass(frozen=True, eq=False)
class DrawnSign(Statement):
    """The statement that a difference is positive, tested by bootstrap draws of it.

    Attributes:
        text: The numbers in words.
        value: The difference.
        draws: Bootstrap draws of the difference.

    Example:
        >>> sure = DrawnSign("tau", 0.1, np.full(999, 0.1))
        >>> sure.p(Sample(method=True)).supports
        0.001
    """

    text: str
    value: float
    draws: Floats = field(repr=False)

    over_models: ClassVar[bool] = True

    @property
    def observed(self) -> bool:
        return self.value > _ROUNDING

    def p(self, sample: Sample) -> PValues:
        # With more models, draws would be closer to the difference.
        draws = self.value + (self.draws - self.value) / math.sqrt(sample.queries)
        total = len(draws) + 1
        # Two metrics with the same order in every draw do not differ: the strict claim is then false.
        against = (draws > _ROUNDING) if self.equal else (draws >= -_ROUNDING)
        return PValues(float((draws <= _ROUNDING).sum() + 1) / total, float(against.sum() + 1) / total)

    @property
    def equal(self) -> bool:
        """Whether the difference is zero in every draw."""
        return bool((np.abs(self.draws) <= _ROUNDING).all())

    def signs(self) -> Iterator[Sign]:
        return iter(())


_ROUNDING = 1e-12

FACT_CLAIMS: dict[str, type[Claim]] = {kind.kind: kind for kind in (HasProperties, Theory, KeepsOrder)}


def open_world_metrics(claims: Sequence[Claim]) -> tuple[Metric, ...]:
    """The metrics that claims about the open world need."""
    asked = [metric for claim in claims if isinstance(claim, KeepsOrder) for metric in (claim.metric, claim.than)]
    return tuple(dict.fromkeys(asked))
