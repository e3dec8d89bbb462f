"""Who would I pick, from this perspective? The order of the models at one point, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.compare.comparison import compare_models
from kgprobe.compare.decision.build import PAPER_ALPHAS, PAPER_BETAS
from kgprobe.compare.decision.decision import Decision, Standing
from kgprobe.compare.decision.map import SAME
from kgprobe.compare.decision.reach import reach
from kgprobe.compare.lineup import Lineup, Models, line_up
from kgprobe.compare.outcome import Difference, Estimate
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.metrics.popularity import Probe


def decide(
    models: Models,
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
    graph: KnowledgeGraph | None = None,
    progress: Callable[[float], None] | None = None,
) -> Decision:
    """Which model to pick from one perspective, and which others might be as good.

    How far the winner is ahead is looked at along both axes through the point, over the ranges of the paper's tables
    (alpha from -1 to 1, beta from 0 to 0.8), widened to hold the point.

    Args:
        models: Their ranks by name, or lined up.
        alpha: Predictive sharpness: the higher, the more only the top of the ranking counts.
        beta: Popularity-bias robustness: the higher, the more rare entities and relations count.
        cluster: What queries that stand or fall together share: ``triple``, ``relation``, ``entity`` or ``query``.
        level: How often an interval should hold the true value.
        seeds: ``fixed`` speaks of these training runs, ``random`` of the method; by default of the method, where every
            model has at least two runs.
        tie: How ties are scored.
        replicates: How many times clusters are drawn anew for the intervals.
        permutations: How many random swaps of two models for the p values.
        seed: Makes the random draws repeatable.
        graph: Where the popularity of the targets comes from, unless they are lined up; without it, from the tables.
        progress: Is told how many replicates and permutations have been done since it was last told.

    Example:
        >>> from kgprobe.compare.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(*rank):
        ...     return Ranks.from_columns(
        ...         head=range(400), relation=[0] * 400, tail=[0] * 400, side=["tail"] * 400,
        ...         rank=rank * 100, candidates=[100] * 400,
        ...     )
        >>> lineup = line_up({"sharp": ranks(1, 1, 2, 80), "even": ranks(3, 4, 5, 6)})
        >>> print(decide(lineup, alpha=1, beta=0, replicates=999))  # doctest: +NORMALIZE_WHITESPACE
        For alpha 1 and beta 0, pick sharp: its PROBE 0.6244 is beyond noise above every other model; even comes next,
        0.3946 behind (95 % interval 0.3576 to 0.4294). sharp is ahead for alpha -0.116 to 1 (even below).
    """
    lineup = line_up(models, graph=graph)
    metric = Probe(alpha=alpha, beta=beta)
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
        progress=progress,
    )
    if none := [estimate.model for estimate in found.estimates if math.isnan(estimate.value)]:
        raise DataError(f"nothing can be said of {', '.join(none)}", ["no query has more than one candidate"])
    ordered = sorted(found.estimates, key=lambda estimate: -estimate.value)
    ahead = {difference.second: difference for difference in _from(found.differences, ordered[0].model)}
    point = {"alpha": float(alpha), "beta": float(beta)}
    limits = {"alpha": (min(PAPER_ALPHAS), max(PAPER_ALPHAS)), "beta": (min(PAPER_BETAS), max(PAPER_BETAS))}
    return Decision(
        **point,
        standings=tuple(_standing(estimate, ordered, ahead.get(estimate.model), level) for estimate in ordered),
        reaches=tuple(reach(lineup, ordered[0].model, axis, point, limits[axis], tie) for axis in _axes(lineup, point)),
        settings=found.settings,
    )


def _from(differences: Sequence[Difference], winner: str) -> list[Difference]:
    """The differences of the winner from every other model, the winner first."""
    given = [difference for difference in differences if difference.first == winner]
    turned = [_turned(difference) for difference in differences if difference.second == winner]
    return given + turned


def _turned(difference: Difference) -> Difference:
    low, high = difference.interval.low, difference.interval.high
    return replace(
        difference,
        first=difference.second,
        second=difference.first,
        value=-difference.value,
        interval=replace(difference.interval, low=-high, high=-low),
    )


def _standing(estimate: Estimate, ordered: Sequence[Estimate], behind: Difference | None, level: float) -> Standing:
    place = 1 + sum(other.value > estimate.value + SAME for other in ordered)
    return Standing(place, estimate, behind, behind is None or not behind.holm <= 1 - level)


def _axes(lineup: Lineup, point: dict[str, float]) -> list[str]:
    """The axes along which the perspective can move: beta needs popularity, and from infinity there is no way."""
    runs = [run for own in lineup.runs.values() for run in own]
    popular = all(
        np.isfinite(run.numbers(column)).all()
        for run in runs
        for column in ("entity_popularity", "relation_popularity")
    )
    movable = {"alpha": math.isfinite(point["alpha"]), "beta": popular}
    return [axis for axis, moves in movable.items() if moves and len(lineup.models) > 1]
