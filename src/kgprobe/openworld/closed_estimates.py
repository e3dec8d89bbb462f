"""Closed-world scores estimated from open-world ranks, with intervals and the order of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from kgprobe.arrays import Floats
from kgprobe.comparison.lineup import Lineup, Source, line_up
from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics import Metric, RankAccumulator, parse_all
from kgprobe.openworld.closed_ranks import WEIGHT, Assumptions, Completion
from kgprobe.openworld.missing_answers import HeldOut
from kgprobe.ranks import Ranks
from kgprobe.resources import Progress, Resources


@dataclass(frozen=True)
class ClosedEstimate:
    """A metric of a model, as it is and as it would be without missing facts.

    Attributes:
        model: The model.
        metric: The metric.
        open: Its value on the ranks as they are.
        closed: The estimate of its value if no fact were missing.
        low: Where the interval of the estimate begins; over all missing rates, if they are a range.
        high: Where it ends.
        most: Its value if as many answers as may well be missing all stood before every target: the most that they
            explain, as long as the missing ones are ranked no better than others (odds of at least 1).
        queries: How many ranks it rests on.
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
    """Two models, the one that is better in the open world first, and whether it would be so in the closed world.

    Attributes:
        first: The model that is better as the ranks are.
        second: The other one.
        metric: The metric.
        open: By how much the first is better.
        closed: By how much it would be better if no fact were missing, as estimated; negative where it would be worse.
        low: Where the interval of that begins.
        high: Where it ends.
        probability: The probability that the first would be better.
        holds_up_to: The missing rate up to which the first is estimated to be better; None where it was not asked.
        surely_up_to: The missing rate up to which the probability of that is at least the level.
        tried_up_to: The largest missing rate that was tried.
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
class Estimation:
    """All that an estimation finds.

    Attributes:
        estimates: For every model and metric.
        orders: For every pair of models and metric.
        assumptions: What is assumed.
        remarks: What to bear in mind, one sentence each.
    """

    estimates: list[ClosedEstimate]
    orders: list[ClosedOrder]
    assumptions: Assumptions
    remarks: list[str] = field(default_factory=list)

    def estimate_rows(self) -> list[dict[str, Any]]:
        """The estimates as flat rows."""
        return [_row(found) for found in self.estimates]

    def order_rows(self) -> list[dict[str, Any]]:
        """The orders as flat rows."""
        return [_row(found) for found in self.orders]

    def to_rows(self) -> list[dict[str, Any]]:
        """All of it as flat rows of kind ``estimate`` and ``order``, with what is assumed."""
        given = {
            "missing": self.assumptions.rates[0],
            "missing_high": self.assumptions.rates[-1],
            "odds": self.assumptions.odds,
            "held_out": self.assumptions.held_out,
        }
        return [
            {"kind": kind, **row, **given}
            for kind, rows in (("estimate", self.estimate_rows()), ("order", self.order_rows()))
            for row in rows
        ]


def _row(found: ClosedEstimate | ClosedOrder) -> dict[str, Any]:
    values = {name: getattr(found, name) for name in found.__dataclass_fields__}
    return values | {"metric": str(found.metric)}


DEFAULT_METRICS = (
    "PROBE(alpha=1,beta=0)",
    "PROBE(alpha=0,beta=0)",
    "PROBE(alpha=-1,beta=0)",
    "MRR",
    "Hits@1",
    "Hits@10",
)

# Draws spread less than estimates do around the truth, by this factor in simulations where the truth is known.
CAUTION = 1.3

# Missing rates at which it is tried how long an order holds, each with half as many draws.
_CURVE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


def estimate_closed(
    tables: Lineup | Mapping[str, Source],
    metrics: str | Metric | Iterable[str | Metric] = DEFAULT_METRICS,
    *,
    missing: float | tuple[float, float],
    graph: KnowledgeGraph | None = None,
    entities: int | None = None,
    odds: float = 1.0,
    held_out: float | None = None,
    level: float = 0.95,
    draws: int = 48,
    curve: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Estimation:
    """Estimate what metrics of models would be if no fact were missing.

    Args:
        tables: The open ranks of every model by its name: a table, a file or its path; filtered by all known facts.
        metrics: Names or metric values.
        missing: The share of all true facts that the graph lacks, or the lowest and the highest that it may be.
        graph: Counts the known answers of every query.
        entities: The number of entities, where there is no graph: filtered candidates tell the same.
        odds: How much likelier the answer that a model ranks last is missing than the one that it ranks first; 1 where
            missing answers are like any others.
        held_out: The share of the known facts that is held out, to be given where queries were chosen for the number
            of their held-out answers; without it, the ranks' own record of how they were made is asked.
        level: Confidence of the intervals.
        draws: How often the world is completed anew.
        curve: Whether it is found out up to which missing rate the order of two models holds.
        seed: Repeats the same draws.
        progress: Is told how many draws have been made since it was last told, of `draws_needed` in all.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> rank = 1 + np.sort(rng.integers(0, 5, (50, 4)), axis=1).ravel()
        >>> ranks = Ranks.from_columns(
        ...     head=np.repeat(np.arange(50), 4), relation=[0] * 200, tail=np.tile(np.arange(4), 50),
        ...     side=["tail"] * 200, rank=rank, candidates=[490] * 200,
        ... )
        >>> (found,) = estimate_closed({"mine": ranks}, "MRR", missing=0.25, entities=500).estimates
        >>> found.open < found.low < found.closed < found.high
        True
    """
    rates = _rates(missing)
    wanted = parse_all(metrics)
    if draws < 4 or not 0 < level < 1:
        raise UsageError(f"an interval at level {level} of {draws} draws is none", remedy="ask for 0.95 and 48 draws")
    if seed < 0:
        raise UsageError(f"seed is {seed}", remedy="give 0 or more")
    lineup = line_up(tables, graph=graph)
    given = Assumptions.of(lineup.first, rates, odds, held_out)
    answers = {model: [HeldOut.of(run, graph, entities) for run in runs] for model, runs in lineup.runs.items()}
    worlds = _Worlds(answers, wanted, given, seed, progress or (lambda done: None))
    at_rates = [worlds.at(rate, draws) for rate in rates]
    width = float(ndtri((1 + level) / 2)) * CAUTION
    pairs = list(combinations(answers, 2))
    points = worlds.along(draws // 2) if curve and pairs else []
    most = {model: worlds.most(model, rates[-1]) for model in answers}
    return Estimation(
        estimates=[
            _estimate(model, metric, number, worlds, at_rates, most[model], width)
            for model in answers
            for number, metric in enumerate(wanted)
        ],
        orders=[
            _order(pair, metric, number, worlds, at_rates, points, width, level)
            for pair in pairs
            for number, metric in enumerate(wanted)
        ],
        assumptions=given,
        remarks=given.remarks(next(iter(answers.values()))[0]),
    )


def draws_needed(models: int, missing: float | tuple[float, float], draws: int, curve: bool) -> int:
    """How many draws `estimate_closed` makes.

    Example:
        >>> draws_needed(2, (0.1, 0.3), 48, curve=False)
        288
    """
    return models * (draws * len(_rates(missing)) + (draws // 2 * len(_CURVE) if curve and models > 1 else 0))


def _rates(missing: float | tuple[float, float]) -> tuple[float, ...]:
    if not isinstance(missing, tuple):
        return (missing,)
    low, high = missing
    return (low,) if low == high else (low, (low + high) / 2, high)


@dataclass(frozen=True, eq=False)
class _Point:
    """What is estimated at one missing rate: for each model the value, and the draws, of every metric."""

    rate: float
    values: Mapping[str, Floats]
    draws: Mapping[str, Floats]


class _Worlds:
    """Completes the tables of all models, at any missing rate."""

    def __init__(
        self,
        answers: Mapping[str, Sequence[HeldOut]],
        metrics: Sequence[Metric],
        given: Assumptions,
        seed: int,
        progress: Progress,
    ) -> None:
        self.answers, self.metrics, self.given = answers, metrics, given
        self._seed, self._progress = seed, progress
        self.open = {
            model: np.mean([self._evaluated([run.ranks]) for run in runs], axis=0) for model, runs in answers.items()
        }

    def completions(self, model: str, rate: float) -> list[Completion]:
        return [Completion(run, rate, self.given.odds, self.given.held_out) for run in self.answers[model]]

    def most(self, model: str, rate: float) -> Floats:
        tables = ([one.at_most()] for one in self.completions(model, rate))
        return np.asarray(np.mean([self._evaluated(table, WEIGHT) for table in tables], axis=0))

    def along(self, draws: int) -> list[_Point]:
        """From no missing fact, where nothing is left to chance, to many."""
        return [_Point(0.0, self.open, {}), *(self.at(rate, draws) for rate in _CURVE)]

    def at(self, rate: float, draws: int) -> _Point:
        values, drawn = {}, {}
        for number, model in enumerate(self.answers):
            runs = self.completions(model, rate)
            values[model] = np.mean([self._evaluated(run.layers(), WEIGHT) for run in runs], axis=0)
            with ThreadPoolExecutor(Resources().workers) as threads:
                drawn[model] = np.array(list(threads.map(partial(self._draw, runs, number), range(draws))))
        return _Point(rate, values, drawn)

    def _draw(self, runs: Sequence[Completion], model: int, draw: int) -> Floats:
        """One draw: the same queries and answers for all models and runs, and for each where it ranks the missing."""
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
        accumulator = RankAccumulator(self.metrics, weight=weight)
        for table in tables:
            accumulator.update(table)
        return np.array(list(accumulator.compute().values()))


def _estimate(
    model: str,
    metric: Metric,
    number: int,
    worlds: _Worlds,
    at_rates: Sequence[_Point],
    most: Floats,
    width: float,
) -> ClosedEstimate:
    values = np.array([point.values[model][number] for point in at_rates])
    spread = width * np.array([point.draws[model][:, number].std(ddof=1) for point in at_rates])
    low, high = max((values - spread).min(), metric.facts.low), min((values + spread).max(), metric.facts.high)
    return ClosedEstimate(
        model=model,
        metric=metric,
        open=float(worlds.open[model][number]),
        closed=float(values[len(values) // 2]),
        low=float(low),
        high=float(high),
        most=float(most[number]),
        queries=len(worlds.answers[model][0].ranks),
    )


def _order(
    pair: tuple[str, str],
    metric: Metric,
    number: int,
    worlds: _Worlds,
    at_rates: Sequence[_Point],
    points: Sequence[_Point],
    width: float,
    level: float,
) -> ClosedOrder:
    """The two models, the one that is better in the open world first."""
    sign = 1.0 if metric.higher_is_better else -1.0
    lead = sign * (worlds.open[pair[0]][number] - worlds.open[pair[1]][number])
    first, second = pair if lead >= 0 else pair[::-1]
    gains = [_gain(point, first, second, number, sign) for point in at_rates]
    gain = np.array([value for value, _ in gains])
    spread = width * np.array([error for _, error in gains])
    found = ClosedOrder(
        first=first,
        second=second,
        metric=metric,
        open=abs(float(lead)),
        closed=float(gain[len(gain) // 2]),
        low=float((gain - spread).min()),
        high=float((gain + spread).max()),
        probability=float(np.mean([_surely(value, CAUTION * error) for value, error in gains])),
    )
    if not points:
        return found
    along = [_gain(point, first, second, number, sign) for point in points]
    rates = np.array([point.rate for point in points])
    sure = np.array([_surely(value, CAUTION * error) for value, error in along])
    return replace(
        found,
        holds_up_to=_crossing(rates, np.array([value for value, _ in along])),
        surely_up_to=_crossing(rates, sure - level),
        tried_up_to=float(rates[-1]),
    )


def _gain(point: _Point, first: str, second: str, number: int, sign: float) -> tuple[float, float]:
    """By how much the first model is better, and the spread of that over the draws."""
    value = sign * (point.values[first][number] - point.values[second][number])
    if not point.draws:
        return float(value), 0.0
    return float(value), float((point.draws[first][:, number] - point.draws[second][:, number]).std(ddof=1))


def _surely(gain: float, error: float) -> float:
    """The probability that a gain with this standard error is one."""
    return float(ndtr(gain / error)) if error > 0 else 0.5 + 0.5 * float(np.sign(gain))


def _crossing(rates: Floats, values: Floats) -> float:
    """The first rate at which values that are positive fall to 0, between two rates on a line; the last, if none do."""
    below = np.flatnonzero(values <= 0)
    if not len(below):
        return float(rates[-1])
    at = int(below[0])
    if at == 0:
        return 0.0
    share = values[at - 1] / (values[at - 1] - values[at])
    return float(rates[at - 1] + share * (rates[at] - rates[at - 1]))
