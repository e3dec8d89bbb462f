"""The kinds of claims about ranks: each declares its fields, and states its claim as signs of differences.

A kind is a frozen dataclass. Its fields are the keys of a ``[[claims]]`` table in a study file, read by
`kgprobe.studies.study_file`. `RankClaim.stated` turns it into a `Statement` about the differences between models.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from kgprobe.metrics import Metric
from kgprobe.studies.claim_logic import AtLeast, Opposite, Provided, Sign, Statement, Unknown, all_of, any_of
from kgprobe.studies.evidence import Evidence, RankShare

Evidences = Mapping[str, Evidence]
"""The evidence of every graph that has ranks, by name."""


@dataclass(frozen=True)
class Claim(ABC):
    """A claim of a study.

    Attributes:
        name: A short name, unique in the study.
        statement: The claim in words.
        section: Where it is made, such as a section of a paper.
    """

    name: str
    statement: str
    section: str

    kind: ClassVar[str]
    about: ClassVar[str]
    """What a claim of this kind says, in one line."""


@dataclass(frozen=True)
class PlaceAt:
    """A place by a metric: 1 for the best model."""

    place: int
    metric: Metric


@dataclass(frozen=True)
class RankClaim(Claim):
    """A claim about the ranks of models, tested on differences between them.

    Attributes:
        graphs: The graphs that it is about; empty for all of the study.
    """

    graphs: tuple[str, ...]

    about_all_models: ClassVar[bool] = True
    """Whether it is about all models of a graph, those that it does not name included."""
    about_several_graphs: ClassVar[bool] = False
    """Whether it is about several graphs, and can be tested where only some of them have ranks."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that it names."""
        return tuple(getattr(self, name) for name in ("model", "other") if hasattr(self, name))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics among its fields."""
        values = [getattr(self, field.name) for field in fields(self)]
        each = [one for value in values for one in (value if isinstance(value, tuple) else (value,))]
        found = [one.metric if isinstance(one, PlaceAt) else one for one in each]
        return tuple(one for one in found if isinstance(one, Metric))

    @property
    def needs_popularity(self) -> bool:
        """Whether the popularity of the targets must be known."""
        return any(metric.columns for metric in self.metrics)

    @abstractmethod
    def stated(self, evidences: Evidences) -> Statement:
        """The claim as a statement about the models of its graphs.

        Args:
            evidences: The evidence of its graphs, or of some where it is about several.
        """

    def without(self, excluded: Sequence[str], evidences: Evidences) -> RankClaim | None:
        """The same claim about the other models; None where it names one of the excluded.

        Args:
            excluded: The models that are left out.
            evidences: The evidence with these models.
        """
        return None if set(excluded) & set(self.models) else self

    def numbers(self, evidences: Evidences) -> Iterator[str]:
        """The observed numbers behind the claim, in a few words each."""
        signs = list(self.stated(evidences).signs())
        if len(signs) <= _SHOWN:
            yield from (f"{sign.text}: {sign.value:+.4f}" for sign in signs)
        else:
            true = sum(sign.observed for sign in signs)
            yield f"{signs[0].text.split(' by ')[0]} at {true} of {len(signs)} points"


_SHOWN = 6


@dataclass(frozen=True)
class _OneGraph(RankClaim):
    @property
    def graph(self) -> str:
        return self.graphs[0]


@dataclass(frozen=True)
class _OfTwoModels(_OneGraph):
    model: str
    other: str

    about_all_models: ClassVar[bool] = False


def _ahead_of(model: str, evidence: Evidence, metric: Metric) -> list[Sign]:
    """For every other model, the statement that it is ahead of the model."""
    return [evidence.ahead(other, model, metric) for other in evidence.models if other != model]


@dataclass(frozen=True)
class Place(_OneGraph):
    """A model has a certain place at one or several points."""

    model: str
    at: tuple[PlaceAt, ...]

    kind: ClassVar[str] = "place"
    about: ClassVar[str] = "a model is the k-th best at one or several (alpha, beta)"

    def stated(self, evidences: Evidences) -> Statement:
        """At least k - 1 models are ahead of it, and at least n - k are behind it, at every point."""
        evidence = evidences[self.graph]
        parts: list[Statement] = []
        for one in self.at:
            ahead = _ahead_of(self.model, evidence, one.metric)
            behind = [evidence.ahead(self.model, name, one.metric) for name in evidence.models if name != self.model]
            if one.place > 1:
                parts.append(AtLeast(one.place - 1, ahead))
            if one.place <= len(ahead):
                parts.append(AtLeast(len(ahead) + 1 - one.place, behind))
        return all_of(parts)

    def without(self, excluded: Sequence[str], evidences: Evidences) -> RankClaim | None:
        """The place moves up by the number of excluded models that are ahead."""
        if self.model in excluded:
            return None
        evidence = evidences[self.graph]
        at = []
        for one in self.at:
            ahead = [name for name in excluded if evidence.ahead(name, self.model, one.metric).observed]
            at.append(PlaceAt(max(one.place - len(ahead), 1), one.metric))
        return replace(self, at=tuple(at))

    def numbers(self, evidences: Evidences) -> Iterator[str]:
        evidence = evidences[self.graph]
        for one in self.at:
            place = 1 + sum(sign.observed for sign in _ahead_of(self.model, evidence, one.metric))
            found = f"{ordinal(place)} of {len(evidence.models)} by {one.metric}"
            yield f"{found} ({evidence.value(self.model, one.metric):.4f}), claimed {ordinal(one.place)}"


def ordinal(number: int) -> str:
    """A place in words.

    Example:
        >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 22)]
        ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if 10 <= number % 100 <= 20 else endings.get(number % 10, 'th')}"


@dataclass(frozen=True)
class Better(_OfTwoModels):
    """A model is better than another one at a share of the points."""

    at: tuple[Metric, ...]
    share: float = 1.0

    kind: ClassVar[str] = "better"
    about: ClassVar[str] = "a model is better than another one, at all or at a share of the given points"

    def stated(self, evidences: Evidences) -> Statement:
        signs = [evidences[self.graph].ahead(self.model, self.other, metric) for metric in self.at]
        return AtLeast(_share_of(self.share, len(signs)), signs)


def _share_of(share: float, count: int) -> int:
    """The number of items that are at least this share of them, and at least one."""
    return max(math.ceil(share * count - 1e-9), 1)


@dataclass(frozen=True)
class Overtakes(_OfTwoModels):
    """A model is behind another one at a first point, and ahead of it at a second one."""

    start: Metric
    end: Metric

    kind: ClassVar[str] = "overtakes"
    about: ClassVar[str] = "a model is behind another one at one point and ahead of it at another point"

    def stated(self, evidences: Evidences) -> Statement:
        evidence = evidences[self.graph]
        return all_of(
            [evidence.ahead(self.other, self.model, self.start), evidence.ahead(self.model, self.other, self.end)]
        )


def _swap(evidence: Evidence, one: str, other: str, start: Metric, end: Metric) -> Statement:
    """The statement that two models change places between two points."""
    return any_of(
        [
            all_of([evidence.ahead(first, second, start), evidence.ahead(second, first, end)])
            for first, second in ((one, other), (other, one))
        ]
    )


@dataclass(frozen=True)
class OrderChanges(_OneGraph):
    """At least a share of the pairs of models change places between two points."""

    start: Metric
    end: Metric
    share: float

    kind: ClassVar[str] = "order-changes"
    about: ClassVar[str] = "at least a share of the pairs of models change places between two points (Kendall distance)"

    def stated(self, evidences: Evidences) -> Statement:
        evidence = evidences[self.graph]
        pairs = _pairs(evidence.models)
        swaps = [_swap(evidence, one, other, self.start, self.end) for one, other in pairs]
        return AtLeast(_share_of(self.share, len(swaps)), swaps)

    def numbers(self, evidences: Evidences) -> Iterator[str]:
        evidence = evidences[self.graph]
        pairs = _pairs(evidence.models)
        swapped = [pair for pair in pairs if _swap(evidence, *pair, self.start, self.end).observed]
        named = f" ({', '.join(f'{one} and {other}' for one, other in swapped)})" if 0 < len(swapped) <= _SHOWN else ""
        yield f"{len(swapped)} of {len(pairs)} pairs of models change places{named}"


def _pairs(models: Sequence[str]) -> list[tuple[str, str]]:
    return [(one, other) for i, one in enumerate(models) for other in models[i + 1 :]]


@dataclass(frozen=True)
class BestChanges(_OneGraph):
    """The best model at a first point is not the best at a second one."""

    start: Metric
    end: Metric

    kind: ClassVar[str] = "best-changes"
    about: ClassVar[str] = "the best model at one point is not the best at another point"

    def stated(self, evidences: Evidences) -> Statement:
        """The model that is observed to be the best at the first point is, and it is not at the second one."""
        evidence = evidences[self.graph]
        best = _observed_best(evidence, self.start)
        return Provided(_is_best(evidence, best, self.start), Opposite(_is_best(evidence, best, self.end)))

    def numbers(self, evidences: Evidences) -> Iterator[str]:
        evidence = evidences[self.graph]
        for metric in (self.start, self.end):
            best = _observed_best(evidence, metric)
            yield f"{best} is best by {metric} ({evidence.value(best, metric):.4f})"


def _is_best(evidence: Evidence, model: str, metric: Metric) -> Statement:
    return all_of([evidence.ahead(model, other, metric) for other in evidence.models if other != model])


def _observed_best(evidence: Evidence, metric: Metric) -> str:
    """The model with the best value; the first one of several."""
    return next(
        model for model in evidence.models if not any(sign.observed for sign in _ahead_of(model, evidence, metric))
    )


@dataclass(frozen=True)
class MoreRanks(_OfTwoModels):
    """A model has more predictions than another one in a range of ranks."""

    low: float
    high: float

    kind: ClassVar[str] = "more-ranks"
    about: ClassVar[str] = "a model has more predictions than another one at ranks from low to high"

    def stated(self, evidences: Evidences) -> Statement:
        return evidences[self.graph].ahead(self.model, self.other, RankShare(self.low, self.high))

    def numbers(self, evidences: Evidences) -> Iterator[str]:
        evidence, share = evidences[self.graph], RankShare(self.low, self.high)
        ranks = f"rank {self.low:g}" if self.low == self.high else f"ranks {self.low:g} to {self.high:g}"
        both = [f"{model} {evidence.value(model, share):.1%}" for model in self.models]
        yield f"predictions at {ranks}: {', '.join(both)}"


@dataclass(frozen=True)
class RareLoss(_OfTwoModels):
    """A model is better than another one on popular queries, and worse on rare ones."""

    at: Metric
    groups: int = 4

    kind: ClassVar[str] = "rare-loss"
    about: ClassVar[str] = "a model is better than another one on the most popular queries, and worse on the rarest"

    @property
    def needs_popularity(self) -> bool:
        return True

    def stated(self, evidences: Evidences) -> Statement:
        evidence = evidences[self.graph]
        last = evidence.size(self.groups)
        return all_of(
            [
                evidence.ahead(self.model, self.other, self.at, group=last, groups=self.groups),
                evidence.ahead(self.other, self.model, self.at, group=1, groups=self.groups),
            ]
        )

    def numbers(self, evidences: Evidences) -> Iterator[str]:
        evidence = evidences[self.graph]
        for group in range(evidence.size(self.groups), 0, -1):
            both = [
                f"{model} {evidence.value(model, self.at, group=group, groups=self.groups):.4f}"
                for model in self.models
            ]
            yield f"popularity group {group} of {self.groups}: {', '.join(both)}"


@dataclass(frozen=True)
class _OfGraphs(RankClaim):
    about_several_graphs: ClassVar[bool] = True

    def known(self, evidences: Evidences) -> list[str]:
        """Its graphs that have evidence."""
        return [graph for graph in self.graphs if graph in evidences]

    def unknown(self, evidences: Evidences) -> list[Statement]:
        """What is not known about its other graphs."""
        return [Unknown(f"nothing is known of {graph}") for graph in self.graphs if graph not in evidences]


@dataclass(frozen=True)
class NoBest(_OfGraphs):
    """No model is the best at every point of every graph."""

    at: tuple[Metric, ...]

    kind: ClassVar[str] = "no-best"
    about: ClassVar[str] = "no model is the best at every point of every given graph"

    def stated(self, evidences: Evidences) -> Statement:
        """For every model there is a graph and a point where another model is ahead of it."""
        every = dict.fromkeys(model for graph in self.known(evidences) for model in evidences[graph].models)
        return all_of([any_of(list(self._beaten(model, evidences))) for model in every])

    def _beaten(self, model: str, evidences: Evidences) -> Iterator[Statement]:
        for evidence in (evidences[graph] for graph in self.known(evidences)):
            if model in evidence.models:
                for metric in self.at:
                    yield from _ahead_of(model, evidence, metric)
        yield from self.unknown(evidences)

    def numbers(self, evidences: Evidences) -> Iterator[str]:
        for graph in self.known(evidences):
            yield f"{graph}: {_wins_text(evidences[graph], self.at)}"


def _wins_text(evidence: Evidence, metrics: Iterable[Metric]) -> str:
    """How many points each model wins."""
    wins: dict[str, int] = {}
    for metric in metrics:
        best = _observed_best(evidence, metric)
        wins[best] = wins.get(best, 0) + 1
    ordered = sorted(wins.items(), key=lambda one: -one[1])
    return ", ".join(f"{model} best at {count}" for model, count in ordered) + f" of {sum(wins.values())} points"


@dataclass(frozen=True)
class Wins(_OfGraphs):
    """A model is the best at a share of the points, on a share of the graphs."""

    model: str
    at: tuple[Metric, ...]
    share: float
    graph_share: float

    kind: ClassVar[str] = "wins"
    about: ClassVar[str] = "a model is the best at a share of the points, on a share of the graphs"

    def stated(self, evidences: Evidences) -> Statement:
        parts = self.unknown(evidences)
        for graph in self.known(evidences):
            best = [_is_best(evidences[graph], self.model, metric) for metric in self.at]
            parts.append(AtLeast(_share_of(self.share, len(best)), best))
        return AtLeast(_share_of(self.graph_share, len(parts)), parts)

    def numbers(self, evidences: Evidences) -> Iterator[str]:
        for graph in self.known(evidences):
            yield f"{graph}: {_wins_text(evidences[graph], self.at)}"


RANK_CLAIMS: dict[str, type[RankClaim]] = {
    kind.kind: kind for kind in (Place, Better, Overtakes, OrderChanges, BestChanges, MoreRanks, RareLoss, NoBest, Wins)
}
