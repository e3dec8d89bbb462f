"""Decide between models at one (alpha, beta): their order, its significance, and the range in which it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.aggregate.surfaces import PAPER_ALPHAS, PAPER_BETAS
from kgprobe.audit.flagging import audited_lineup
from kgprobe.comparison.intervals import Interval
from kgprobe.comparison.lineup import Flag, Lineup, Models, flag_columns
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.comparison.results import ComparisonSettings, Difference, Estimate
from kgprobe.decision.influence import ScoreLine, roots, samples
from kgprobe.decision.plane import SAME
from kgprobe.errors import DataError
from kgprobe.graph import GraphLike
from kgprobe.metrics import parse
from kgprobe.ranks import End
from kgprobe.resources import Progress
from kgprobe.tables import Table


@dataclass(frozen=True)
class Crossing:
    """A point on an axis where another model has the score of the winner.

    Attributes:
        at: The alpha or beta of the point.
        model: The other model.
    """

    at: float
    model: str


@dataclass(frozen=True)
class Reach:
    """The interval of one axis, around the point of the decision, in which the winner stays ahead.

    Attributes:
        axis: ``alpha`` or ``beta``.
        low: Its lower end; None where the winner is ahead down to ``limits[0]``.
        high: Its upper end; None where the winner is ahead up to ``limits[1]``.
        limits: The range that was searched.
    """

    axis: str
    low: Crossing | None
    high: Crossing | None
    limits: tuple[float, float]

    def __str__(self) -> str:
        low, high = self.low.at if self.low else self.limits[0], self.high.at if self.high else self.limits[1]
        ends = [f"{end.model} {side}" for end, side in ((self.low, "below"), (self.high, "above")) if end]
        return f"{self.axis} {low:.3g} to {high:.3g}" + (f" ({', '.join(ends)})" if ends else "")


def reach(
    lineup: Lineup, winner: str, axis: str, point: dict[str, float], limits: tuple[float, float], tie: Tie | str
) -> Reach:
    """The interval of an axis in which a model stays ahead of all others.

    Args:
        lineup: The models.
        winner: The model that is ahead at the point.
        axis: The parameter that varies: ``alpha`` or ``beta``.
        point: Both parameters of the point.
        limits: The range of the axis to search; widened to contain the point.
        tie: How ties are scored.
    """
    here, low, high = point[axis], min(limits[0], point[axis]), max(limits[1], point[axis])
    line = ScoreLine(lineup, tie, **{name: value for name, value in point.items() if name != axis})
    points = samples(low, high)
    best = line.scores(winner, points)
    crossings = [
        Crossing(float(at), other)
        for other in lineup.models
        if other != winner
        for at in roots(line.difference(winner, other), points, best - line.scores(other, points))
    ]
    below = max((one for one in crossings if one.at <= here), key=lambda one: one.at, default=None)
    above = min((one for one in crossings if one.at > here), key=lambda one: one.at, default=None)
    return Reach(axis, below, above, (low, high))


@dataclass(frozen=True)
class Standing:
    """The place of a model in a decision.

    Attributes:
        place: 1 for the best; equal models share the better place.
        estimate: Its score with an interval.
        behind: The lead of the winner over it, with an interval and p-values; None for the winner.
        within_noise: Whether it is the winner or not significantly worse: the interval of the difference, simultaneous
            for all pairs of models, contains 0.
    """

    place: int
    estimate: Estimate
    behind: Difference | None
    within_noise: bool

    @property
    def model(self) -> str:
        return self.estimate.model

    @property
    def tested(self) -> bool:
        """Whether it was tested against the winner; False where their candidate sets differ."""
        return self.behind is None or self.behind.tested

    @property
    def distance(self) -> str:
        """Its distance from the winner in words."""
        if self.behind is not None and self.behind.unknown:
            return "between {:.4f} and {:.4f} behind".format(*self.behind.unknown)
        return "equal" if self.place == 1 or self.behind is None else f"{self.behind.value:.4f} behind"

    @property
    def doubt(self) -> str | None:
        """Why a significant lead of the winner over it cannot be trusted; None where it can."""
        return None if self.behind is None or self.within_noise else self.behind.interval.remark

    @property
    def reason(self) -> str | None:
        """Why a number of its row is missing; None where none is."""
        if self.estimate.reason:
            return self.estimate.reason
        if self.behind is None:
            return self.estimate.interval.reason or "the winner has no lead over itself"
        return self.behind.reason or self.estimate.interval.reason or self.behind.interval.reason


@dataclass(frozen=True)
class Decision(Table):
    """Which model to pick for one alpha and beta.

    Attributes:
        alpha: Predictive sharpness.
        beta: Popularity-bias robustness.
        standings: The models, best first.
        reaches: The intervals of alpha and beta in which the winner stays ahead; none for a single model.
        settings: The settings of the comparison.
        flags: What the audit has against models, by model.
    """

    alpha: float
    beta: float
    standings: tuple[Standing, ...]
    reaches: tuple[Reach, ...]
    settings: ComparisonSettings
    flags: Mapping[str, Flag] = field(default_factory=dict)

    @property
    def winner(self) -> str:
        """The model with the highest score."""
        return self.standings[0].model

    @property
    def choices(self) -> tuple[str, ...]:
        """The winner and all models that are not significantly worse, best first."""
        return tuple(standing.model for standing in self.standings if standing.within_noise)

    @property
    def beyond_noise(self) -> bool:
        """Whether the winner is significantly better than every other model; False for a single model."""
        return len(self.choices) == 1 < len(self.standings)

    @property
    def effective(self) -> float:
        """The effective number of queries of the winner's score."""
        return self.standings[0].estimate.effective

    @property
    def remark(self) -> str | None:
        """What cannot be trusted, and why: the interval of the winner, or a significant lead."""
        if reason := self.standings[0].estimate.interval.remark:
            return f"the intervals cannot be trusted: {reason}"
        doubted = [standing for standing in self.standings if standing.doubt]
        if not doubted:
            return None
        over = _listed([standing.model for standing in doubted], "and")
        return f"the lead over {over} cannot be trusted: {doubted[0].doubt}"

    def __str__(self) -> str:
        sentences = [self._answer()]
        if self.reaches:
            sentences.append(f"{self.winner} is ahead for {' and for '.join(map(str, self.reaches))}.")
        if self.remark:
            sentences.append(f"But {self.remark}.")
        return " ".join(sentences)

    def _answer(self) -> str:
        point = f"For alpha {self.alpha:g} and beta {self.beta:g}"
        first = self.standings[0].estimate
        winner = self._named(self.winner)
        score = "PROBE " + " to ".join(dict.fromkeys(f"{end:.4f}" for end in first.ends))
        if len(self.standings) == 1:
            return f"{point}, {winner} has {score}{_between(first.interval)}; there is no other model to pick."
        open_ranks = any(standing.estimate.unknown for standing in self.standings)
        best = f"has the highest score{' at its worst' if open_ranks else ''}, {score}"
        if not all(standing.tested for standing in self.standings):
            return f"{point}, {winner} {best}, but {self._without_test()}"
        close = [standing for standing in self.standings[1:] if standing.within_noise]
        if len(close) == len(self.standings) - 1 > 1:
            return (
                f"{point}, any model may be the best: {winner} {best}, "
                f"but none of the {len(close)} others is significantly worse."
            )
        if close:
            return (
                f"{point}, pick {_listed([self._named(model) for model in self.choices], 'or')}: {self.winner} {best}, "
                f"but {_not_worse(close)}."
            )
        lead = self.standings[1].behind
        assert lead is not None
        behind = f"{self.standings[1].distance}{_between(lead.interval, 'simultaneous CI')}"
        whatever = " whatever the unknown ranks" if open_ranks else ""
        return (
            f"{point}, pick {winner}: its {score} is significantly higher than that of every other model"
            f"{whatever}; {lead.second} comes next, {behind}."
        )

    def _without_test(self) -> str:
        """Which models the winner is not tested against, and how those stand that it is tested against."""
        others = self.standings[1:]
        missing = [standing for standing in others if not standing.tested]
        every = len(missing) == len(others) > 1
        whom = "any other model" if every else _listed([self._named(standing.model) for standing in missing], "and")
        untested = f"it is not tested against {whom}, because {missing[0].reason}"
        tested = [standing for standing in others if standing.tested]
        if not tested:
            return f"{untested}."
        close = [standing for standing in tested if standing.within_noise]
        if close:
            return f"{untested}; of the others, {_not_worse(close)}."
        return f"{untested}; {'all others are' if len(tested) > 1 else f'{tested[0].model} is'} significantly worse."

    def _named(self, model: str) -> str:
        return f"{model} {self.flags[model].in_brackets}" if model in self.flags else model

    def to_rows(self) -> list[dict[str, Any]]:
        """A flat row for every model, best first; ``lead`` is the lead of the winner over the model."""
        rows = []
        for standing in self.standings:
            estimate, behind = standing.estimate, standing.behind
            rows.append(
                {
                    "place": standing.place,
                    "model": standing.model,
                    "alpha": self.alpha,
                    "beta": self.beta,
                    "value": estimate.value,
                    "least": estimate.ends[0],
                    "most": estimate.ends[1],
                    "low": estimate.interval.low,
                    "high": estimate.interval.high,
                    "std": estimate.std,
                    "seeds": estimate.seeds,
                    "lead": behind and behind.value,
                    "lead_least": behind and behind.ends[0],
                    "lead_most": behind and behind.ends[1],
                    "lead_low": behind and behind.interval.low,
                    "lead_high": behind and behind.interval.high,
                    "p": behind and behind.p,
                    "p_adjusted": behind and behind.adjusted,
                    "holm": behind and behind.holm,
                    "within_noise": standing.within_noise,
                    "queries": estimate.queries,
                    "effective": estimate.effective,
                    "trusted": estimate.interval.trusted and standing.doubt is None,
                    "tested": standing.tested,
                    "reason": standing.reason,
                    **flag_columns(self.flags.get(standing.model)),
                }
            )
        return rows

    def __repr__(self) -> str:
        count = f"{len(self.standings)} model{'s' * (len(self.standings) > 1)}"
        return f"Decision(alpha={self.alpha:g}, beta={self.beta:g}: {' or '.join(self.choices)}, of {count})"

    def _shown_rows(self) -> list[dict[str, Any]]:
        kept = ("place", "model", "value", "low", "high", "lead", "p", "holm", "within_noise")
        return [{name: row[name] for name in kept if name in row} for row in self.to_rows()]

    def _notes(self) -> list[str]:
        return [str(self)]


def _not_worse(close: Sequence[Standing]) -> str:
    behind = _listed([f"{standing.model} ({standing.distance})" for standing in close], "and")
    return f"{behind} {'is' if len(close) == 1 else 'are'} not significantly worse"


def _between(interval: Interval, kind: str = "CI") -> str:
    return f" ({100 * interval.level:.4g} % {kind} {interval.low:.4f} to {interval.high:.4f})"


def _listed(names: Sequence[str], conjunction: str) -> str:
    *others, last = names
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def decide(
    ranks: Models,
    alpha: float,
    beta: float,
    *,
    cluster: str = "triple",
    level: float = 0.95,
    seeds: str | None = None,
    tie: Tie | str = Tie.mean,
    replicates: int = 10_000,
    permutations: int = 10_000,
    seed: int = 0,
    graph: GraphLike | None = None,
    exclude_flagged: bool = False,
    allow_different_candidates: bool = False,
    at: End | str | None = None,
    progress: Progress | None = None,
) -> Decision:
    """Decide which model to pick at one (alpha, beta), and which others are not significantly worse.

    The intervals in which the winner stays ahead are searched along both axes through the point, over the ranges of
    the paper's tables (alpha from -1 to 1, beta from 0 to 0.8), widened to contain the point.

    Args:
        ranks: The ranks of each model as tables, files or paths: by name, or in a list, or a `Lineup`.
        alpha: Predictive sharpness: the higher, the more only the top of the ranking counts.
        beta: Popularity-bias robustness: the higher, the more rare entities and relations count.
        cluster: What the queries of a cluster share: ``triple``, ``relation``, ``entity`` or ``query``.
        level: The confidence level of each interval.
        seeds: ``fixed`` compares these training runs, ``random`` the methods; the default is ``random`` where every
            model has at least two runs.
        tie: How ties are scored.
        replicates: The number of bootstrap draws for the intervals.
        permutations: The number of random swaps of two models for the p-values.
        seed: The seed of the random generator.
        graph: Gives the popularity of the targets, unless the models are a `Lineup`; without it, the tables' columns.
        exclude_flagged: Leave out models whose rank file has an error in `kgprobe.check`.
        allow_different_candidates: Also test models against each other whose candidate sets differ.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken; by default scores are ranges,
            and a model is picked if it is significantly better whatever the unknown ranks.
        progress: Called with the number of new bootstrap draws and permutations.

    Example:
        >>> from kgprobe.comparison.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(*rank):
        ...     return Ranks.from_columns(
        ...         head=range(400), relation=[0] * 400, tail=[0] * 400, side=["tail"] * 400,
        ...         rank=rank * 100, candidates=[100] * 400,
        ...     )
        >>> lineup = line_up({"sharp": ranks(1, 1, 2, 80), "even": ranks(3, 4, 5, 6)})
        >>> print(decide(lineup, alpha=1, beta=0, replicates=999))  # doctest: +NORMALIZE_WHITESPACE
        For alpha 1 and beta 0, pick sharp: its PROBE 0.6244 is significantly higher than that of every other model;
        even comes next, 0.3946 behind (95 % simultaneous CI 0.3593 to 0.4299). sharp is ahead for alpha -0.116 to 1
        (even below).
    """
    lineup = audited_lineup(ranks, graph=graph, exclude_flagged=exclude_flagged, at=at)
    metric = parse(f"PROBE(alpha={alpha},beta={beta})")
    found = compare_models(
        lineup,
        [metric],
        cluster=cluster,
        level=level,
        replicates=replicates,
        permutations=permutations,
        seeds=seeds,
        tie=tie,
        seed=seed,
        allow_different_candidates=allow_different_candidates,
        progress=progress,
    )
    if none := [
        f"{estimate.model}: {estimate.reason}"
        for estimate in found.estimates
        if estimate.reason and not estimate.unknown
    ]:
        raise DataError(f"{metric} is undefined for {len(none)} of {len(lineup.models)} models", none)
    ordered = sorted(found.estimates, key=lambda estimate: -estimate.ends[0])
    ahead = {difference.second: difference for difference in _from(found.differences, ordered[0].model)}
    point = {"alpha": float(alpha), "beta": float(beta)}
    limits = {"alpha": (min(PAPER_ALPHAS), max(PAPER_ALPHAS)), "beta": (min(PAPER_BETAS), max(PAPER_BETAS))}
    return Decision(
        **point,
        standings=tuple(_standing(estimate, ordered, ahead.get(estimate.model)) for estimate in ordered),
        reaches=tuple(reach(lineup, ordered[0].model, axis, point, limits[axis], tie) for axis in _axes(lineup, point)),
        settings=found.settings,
        flags=lineup.flags,
    )


def _from(differences: Sequence[Difference], winner: str) -> list[Difference]:
    """The differences between the winner and every other model, with the winner first."""
    leads = [difference for difference in differences if difference.first == winner]
    return leads + [difference.turned() for difference in differences if difference.second == winner]


def _standing(estimate: Estimate, ordered: Sequence[Estimate], behind: Difference | None) -> Standing:
    place = 1 + sum(other.ends[0] > estimate.ends[1] + SAME for other in ordered)
    return Standing(place, estimate, behind, behind is None or not behind.significant)


def _axes(lineup: Lineup, point: dict[str, float]) -> list[str]:
    """The axes that can be searched: beta needs popularity, alpha must be finite, ranks must be known."""
    runs = [run for own in lineup.runs.values() for run in own]
    popular = all(
        np.isfinite(run.numbers(column)).all()
        for run in runs
        for column in ("entity_popularity", "relation_popularity")
    )
    movable = {"alpha": math.isfinite(point["alpha"]), "beta": popular}
    return [axis for axis, moves in movable.items() if moves and len(lineup.models) > 1 and not lineup.worst]
