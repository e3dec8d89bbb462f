"""`estimate_closed`: closed-world metrics estimated from open-world ranks, with intervals and the order of models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, ndtri

from kgprobe.arrays import Floats
from kgprobe.comparison.lineup import Models, line_up
from kgprobe.errors import UsageError
from kgprobe.graph import GraphLike, as_graph
from kgprobe.metrics import Metric, RankAccumulator, parse_all
from kgprobe.openworld.completions import WEIGHT, Assumptions, Completion
from kgprobe.openworld.missing_answers import HeldOut
from kgprobe.ranks import End, Ranks
from kgprobe.resources import Progress, Resources
from kgprobe.tables import Table, in_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT_METRICS = (*(f"PROBE(alpha={alpha},beta=0)" for alpha in (1, 0, -1)), "MRR", "Hits@1", "Hits@10")
CAUTION = 1.3  # intervals are widened by this factor: in simulations, draws spread less than estimates around the truth
_CURVE = (0.1, 0.2, 0.3, 0.4, 0.5)  # missing rates at which the order of models is estimated
_STEPS = 1000  # steps of missing rates between which the order is interpolated linearly


@dataclass(frozen=True)
class ClosedEstimate:
    """A metric of a model in the open world, and its estimate in the closed world.

    Attributes:
        model: The model.
        metric: The metric.
        open: Its value on the given ranks.
        closed: Its estimated value without missing triples.
        low: Lower end of the confidence interval of the estimate; over all missing rates, if they are a range.
        high: Upper end.
        most: Its value if an unusually large number of missing answers all stood before every target: an upper bound,
            if missing answers are ranked no better than others (odds of at least 1).
        queries: Number of ranks.
    """

    model: str
    metric: Metric
    open: float
    closed: float
    low: float
    high: float
    most: float
    queries: int


@dataclass(frozen=True)
class ClosedOrder:
    """Whether the better of two models in the open world would also be better in the closed world.

    Attributes:
        first: The model that is better in the open world.
        second: The other model.
        metric: The metric.
        open: By how much the first is better in the open world.
        closed: By how much it is estimated to be better in the closed world; negative if it would be worse.
        low: Lower end of the confidence interval of that.
        high: Upper end.
        probability: Probability that the first would be better.
        holds_up_to: Missing rate up to which the first is estimated to be better; None if not computed.
        surely_up_to: Missing rate up to which the probability of that is at least the level.
        tried_up_to: The largest missing rate tried.
    """

    first: str
    second: str
    metric: Metric
    open: float
    closed: float
    low: float
    high: float
    probability: float
    holds_up_to: float | None = None
    surely_up_to: float | None = None
    tried_up_to: float | None = None

    def __str__(self) -> str:
        if self.holds_up_to is None or self.tried_up_to is None:
            return f"{self.first} beats {self.second} by {self.metric} with probability {self.probability:.0%}"
        least = "at least " if self.holds_up_to >= self.tried_up_to else ""
        return (
            f"{self.first} before {self.second} by {self.metric}: this order holds up to a missing rate of "
            f"{least}{self.holds_up_to:.2f}, surely up to {self.surely_up_to:.2f}"
        )


@dataclass(frozen=True)
class Estimation(Table):
    """The result of `estimate_closed`.

    Attributes:
        estimates: For every model and metric.
        orders: For every pair of models and metric.
        assumptions: The assumptions about missing triples.
        remarks: Notes on the assumptions and their limits, one sentence each.
    """

    estimates: list[ClosedEstimate]
    orders: list[ClosedOrder]
    assumptions: Assumptions
    remarks: list[str] = field(default_factory=list)

    def estimate_rows(self) -> list[dict[str, Any]]:
        return [_row(estimate) for estimate in self.estimates]

    def order_rows(self) -> list[dict[str, Any]]:
        return [_row(order) for order in self.orders]

    def to_rows(self) -> list[dict[str, Any]]:
        """Estimates and orders as flat rows of kind ``estimate`` and ``order``, with the assumptions."""
        assumed = {
            "missing": self.assumptions.rates[0],
            "missing_high": self.assumptions.rates[-1],
            "odds": self.assumptions.odds,
            "held_out": self.assumptions.held_out,
        }
        return [
            {"kind": kind, **row, **assumed}
            for kind, rows in (("estimate", self.estimate_rows()), ("order", self.order_rows()))
            for row in rows
        ]

    def plot(self) -> Figure:
        """Draw the closed-world estimates with their intervals beside the open-world values, one panel per metric."""
        figure: Figure = in_report("figures.score_figures").draw_estimation(self)
        return figure

    def __repr__(self) -> str:
        models, metrics = ({getattr(one, name) for one in self.estimates} for name in ("model", "metric"))
        first, *_, last = [*self.assumptions.rates, *self.assumptions.rates]
        rates = f"{first:g}" + (f" to {last:g}" if last > first else "")
        return f"Estimation({len(models)} models, {len(metrics)} metrics, missing {rates})"

    def _shown_rows(self) -> list[dict[str, Any]]:
        return self.estimate_rows()

    def _notes(self) -> list[str]:
        return [*(f"{order}." for order in self.orders), *self.remarks]


def _row(result: ClosedEstimate | ClosedOrder) -> dict[str, Any]:
    return {one.name: getattr(result, one.name) for one in fields(result)} | {"metric": str(result.metric)}


def estimate_closed(
    ranks: Models,
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    missing: float | tuple[float, float],
    graph: GraphLike | None = None,
    entities: int | None = None,
    odds: float = 1.0,
    held_out: float | None = None,
    level: float = 0.95,
    draws: int = 48,
    curve: bool = True,
    at: End | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Estimation:
    """Estimate the metrics of models without missing triples.

    Args:
        ranks: The open-world ranks of every model as tables, files or paths, by name or in a list; filtered by all
            known triples.
        metrics: Names or metric values.
        missing: The missing rate (share of all true triples that the graph lacks), or its lowest and highest value.
        graph: The graph that was ranked, which gives the number of known answers of every query.
        entities: Number of entities, if there is no graph; then the candidate counts give the known answers.
        odds: Odds of being missing of the answer that a model ranks last, over those of the one that it ranks first; 1
            if missing answers are like any others.
        held_out: Share of the known triples that is held out. Needed if queries were chosen by the number of their
            held-out answers; by default it is read from the metadata of the ranks.
        level: Confidence level of the intervals.
        draws: Number of random completions of the world.
        curve: Whether to estimate up to which missing rate the order of two models holds.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken.
        seed: Random seed.
        progress: Called with the number of draws made since the last call, of `draws_needed` in all.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> rank = 1 + np.sort(rng.integers(0, 5, (50, 4)), axis=1).ravel()
        >>> ranks = Ranks.from_columns(
        ...     head=np.repeat(np.arange(50), 4), relation=[0] * 200, tail=np.tile(np.arange(4), 50),
        ...     side=["tail"] * 200, rank=rank, candidates=[490] * 200,
        ... )
        >>> (estimate,) = estimate_closed({"mine": ranks}, "MRR", missing=0.25, entities=500).estimates
        >>> estimate.open < estimate.low < estimate.closed < estimate.high
        True
    """
    rates = _rates(missing)
    parsed = parse_all(metrics)
    valid = {
        f"draws is {draws}; it must be at least 4": draws >= 4,
        f"level is {level}; it must be between 0 and 1": 0 < level < 1,
        f"seed is {seed}; it must be at least 0": seed >= 0,
        "entities has more than 63 bits": entities is None or entities < 1 << 63,
    }
    if problems := [problem for problem, met in valid.items() if not met]:
        raise UsageError("invalid settings of the estimation", problems, "use for example level=0.95 and draws=48")
    graph = as_graph(graph)
    lineup = line_up(ranks, graph=graph, at=at)
    assumptions = Assumptions.of(lineup.first, rates, odds, held_out)
    answers = {model: [HeldOut.of(run, graph, entities) for run in runs] for model, runs in lineup.runs.items()}
    estimator = _Estimator(answers, parsed, assumptions, level, seed, progress or (lambda done: None))
    at_rates = [estimator.at(rate, draws) for rate in rates]
    pairs = list(combinations(answers, 2))
    along = estimator.curve(at_rates, _draws_along(draws)) if curve and pairs else []
    numbers = range(len(parsed))
    return Estimation(
        [estimate for model in answers for estimate in estimator.estimates(model, at_rates)],
        [estimator.order(pair, number, at_rates, along) for pair in pairs for number in numbers],
        assumptions,
        assumptions.remarks(next(iter(answers.values()))[0]) + _remarks_on(along, _draws_along(draws)),
    )


def draws_needed(models: int, missing: float | tuple[float, float], draws: int, curve: bool) -> int:
    """The number of draws that `estimate_closed` makes.

    Example:
        >>> draws_needed(2, (0.1, 0.3), 48, curve=False)
        288
    """
    rates = _rates(missing)
    return models * (draws * len(rates) + (_draws_along(draws) * len(_others(rates)) if curve and models > 1 else 0))


def _rates(missing: float | tuple[float, float]) -> tuple[float, ...]:
    if not isinstance(missing, tuple):
        return (missing,)
    low, high = missing
    return (low,) if low == high else (low, (low + high) / 2, high)


def _draws_along(draws: int) -> int:
    """Number of draws at each other rate of the curve, which need only their standard deviation."""
    return max(draws // 3, 2)


def _others(rates: Sequence[float]) -> list[float]:
    """The missing rates of the curve besides those that are estimated anyway."""
    return [rate for rate in _CURVE if rate not in rates]


def _remarks_on(along: Sequence[_Point], draws: int) -> list[str]:
    if not along:
        return []
    rates = ", ".join(f"{point.rate:g}" for point in along[1:])
    error = 1 / math.sqrt(2 * (draws - 1))
    return [
        f"the order is estimated at the missing rates {rates}, and interpolated between them; the standard errors "
        f"there come from {draws} draws or more, so they are accurate to about {error:.0%}"
    ]


@dataclass(frozen=True, eq=False)
class _Point:
    """Estimates at one missing rate: for each model the values [metrics], and the draws [draws, metrics]."""

    rate: float
    values: Mapping[str, Floats]
    draws: Mapping[str, Floats]

    def gain(self, first: str, second: str, number: int, sign: float) -> tuple[float, float]:
        """By how much the first model is better, and the standard deviation of that over the draws."""
        value = sign * (self.values[first][number] - self.values[second][number])
        if not self.draws:
            return float(value), 0.0
        return float(value), float((self.draws[first][:, number] - self.draws[second][:, number]).std(ddof=1))


class _Estimator:
    """Completes the tables of all models at any missing rate, and evaluates the metrics on them."""

    def __init__(
        self,
        answers: Mapping[str, Sequence[HeldOut]],
        metrics: Sequence[Metric],
        assumptions: Assumptions,
        level: float,
        seed: int,
        progress: Progress,
    ) -> None:
        self._answers, self._metrics, self._assumptions = answers, metrics, assumptions
        self._level, self._seed, self._progress = level, seed, progress
        self._width = float(ndtri((1 + level) / 2)) * CAUTION
        values = {
            model: np.mean([self._evaluated([run.ranks]) for run in runs], axis=0) for model, runs in answers.items()
        }
        self.open = _Point(0.0, values, {})

    def at(self, rate: float, draws: int) -> _Point:
        values, drawn = {}, {}
        for number, model in enumerate(self._answers):
            runs = self._completions(model, rate)
            values[model] = np.mean([self._evaluated(run.layers(), WEIGHT) for run in runs], axis=0)
            with ThreadPoolExecutor(Resources().workers) as threads:
                drawn[model] = np.array(list(threads.map(partial(self._draw, runs, number), range(draws))))
        return _Point(rate, values, drawn)

    def curve(self, at_rates: Sequence[_Point], draws: int) -> list[_Point]:
        """Points from the open world to the largest missing rate, those already estimated among them."""
        others = _others([point.rate for point in at_rates])
        known = [point for point in at_rates if point.rate > 0]
        return [self.open, *sorted([*known, *(self.at(rate, draws) for rate in others)], key=lambda point: point.rate)]

    def _completions(self, model: str, rate: float) -> list[Completion]:
        assumed = self._assumptions
        return [Completion(run, rate, assumed.odds, assumed.held_out) for run in self._answers[model]]

    def _draw(self, runs: Sequence[Completion], model: int, draw: int) -> Floats:
        """One draw: queries and answers are shared by all models and runs, the ranks of missing answers are not."""
        tables = (
            run.draw(
                np.random.default_rng([self._seed, draw]), np.random.default_rng([self._seed, draw, model, number])
            )
            for number, run in enumerate(runs)
        )
        value = np.mean([self._evaluated([table], WEIGHT) for table in tables], axis=0)
        self._progress(1)
        return np.asarray(value)

    def _evaluated(self, tables: Iterable[Ranks], weight: str | None = None) -> Floats:
        accumulator = RankAccumulator(self._metrics, weight=weight)
        for table in tables:
            accumulator.update(table)
        return np.array(list(accumulator.compute().values()))

    def estimates(self, model: str, at_rates: Sequence[_Point]) -> list[ClosedEstimate]:
        """The estimates of all metrics of a model."""
        highest = self._completions(model, at_rates[-1].rate)
        most = np.mean([self._evaluated([one.at_most()], WEIGHT) for one in highest], axis=0)
        result = []
        for number, metric in enumerate(self._metrics):
            values = np.array([point.values[model][number] for point in at_rates])
            spread = self._width * np.array([point.draws[model][:, number].std(ddof=1) for point in at_rates])
            estimate = ClosedEstimate(
                model=model,
                metric=metric,
                open=float(self.open.values[model][number]),
                closed=float(values[len(values) // 2]),
                low=float(max((values - spread).min(), metric.facts.low)),
                high=float(min((values + spread).max(), metric.facts.high)),
                most=float(most[number]),
                queries=len(self._answers[model][0].ranks),
            )
            result.append(estimate)
        return result

    def order(
        self, pair: tuple[str, str], number: int, at_rates: Sequence[_Point], along: Sequence[_Point]
    ) -> ClosedOrder:
        """The order of two models by one metric at the given missing rates, and along the curve of rates."""
        metric = self._metrics[number]
        sign = 1.0 if metric.higher_is_better else -1.0
        lead, _ = self.open.gain(*pair, number, sign)
        first, second = pair if lead >= 0 else pair[::-1]
        gain, error = np.array([point.gain(first, second, number, sign) for point in at_rates]).T
        order = ClosedOrder(
            first=first,
            second=second,
            metric=metric,
            open=abs(lead),
            closed=float(gain[len(gain) // 2]),
            low=float((gain - self._width * error).min()),
            high=float((gain + self._width * error).max()),
            probability=float(np.mean(_probability(gain, error))),
        )
        if not along:
            return order
        rates = np.array([point.rate for point in along])
        points = np.array([point.gain(first, second, number, sign) for point in along])
        # The gain and its variance are smooth in the missing rate; the probability of a gain is steep near 0.
        between = np.linspace(0, rates[-1], _STEPS + 1)
        gain, variance = PchipInterpolator(rates, points ** [1, 2])(between).T
        return replace(
            order,
            holds_up_to=_crossing(between, gain),
            surely_up_to=_crossing(between, _probability(gain, np.sqrt(variance)) - self._level),
            tried_up_to=float(rates[-1]),
        )


def _probability(gain: Floats, error: Floats) -> Floats:
    """The probability that gains with these standard errors are positive, with some caution."""
    certain = 0.5 + 0.5 * np.sign(gain)
    return np.where(error > 0, ndtr(gain / np.where(error > 0, CAUTION * error, 1.0)), certain)


def _crossing(rates: Floats, values: Floats) -> float:
    """The first rate at which values fall to 0, by linear interpolation; the last rate if they stay positive."""
    below = np.flatnonzero(values <= 0)
    if not len(below):
        return float(rates[-1])
    at = int(below[0])
    if at == 0:
        return 0.0
    share = values[at - 1] / (values[at - 1] - values[at])
    return float(rates[at - 1] + share * (rates[at] - rates[at - 1]))
