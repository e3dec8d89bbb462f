"""The decision map: which model wins where in the (alpha, beta) plane, and where two models are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.aggregate import Tie
from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.comparison.intervals import FEWEST_QUERIES
from kgprobe.comparison.lineup import Lineup, Models, line_up
from kgprobe.comparison.model_comparison import wrong_numbers
from kgprobe.decision.bands import SeedVariance, band_width, covariances, variances_of_differences, widened
from kgprobe.decision.influence import Influences, ScoreLine, model_surface
from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph


def not_dominated(scores: NDArray[np.float64], same: float = 0.0) -> NDArray[np.bool_]:
    """Which rows no other row is at least as high as everywhere and higher somewhere.

    Args:
        scores: One row for each model, one column for each perspective.
        same: Numbers that differ by no more are equal.

    Example:
        >>> not_dominated(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5]])).tolist()
        [True, True, False]
    """
    kept = np.ones(len(scores), dtype=bool)
    for i, own in enumerate(scores):
        nowhere_worse = (scores >= own - same).all(axis=1)
        somewhere_better = (scores > own + same).any(axis=1)
        kept[i] = not (nowhere_worse & somewhere_better).any()
    return kept


_STEPS = 128

"""Pieces of a line; two crossings within one piece may go unseen."""

_ROUNDING = 1e-14


def curves(alphas: Floats, betas: Floats, difference: Floats) -> list[Floats]:
    """The lines along which a difference [alphas, betas] is 0: arrays [points, 2] of alpha and beta.

    Example:
        >>> alphas, betas = np.array([-1.0, 0.0, 1.0]), np.array([0.0, 0.8])
        >>> [line.tolist() for line in curves(alphas, betas, np.array([[1.0, 1.0], [1.0, 1.0], [-3.0, -1.0]]))]
        [[[0.25, 0.0], [0.5, 0.8]]]
    """
    try:
        from contourpy import contour_generator
    except ImportError:
        raise UsageError("curves need contourpy", remedy="pip install 'kgprobe[report]'") from None
    if len(alphas) < 2 or len(betas) < 2 or not difference.any():
        return []
    rows, columns = np.argsort(alphas), np.argsort(betas)
    ordered = difference[np.ix_(rows, columns)]
    return [np.asarray(line) for line in contour_generator(alphas[rows], betas[columns], ordered.T).lines(0.0)]


def samples(low: float, high: float) -> Floats:
    """Points of a line that are near enough to each other to see every crossing between them, or nearly so."""
    return np.linspace(low, high, _STEPS + 1)


def roots(difference: Callable[[Floats], Floats], points: Floats, values: Floats | None = None) -> Floats:
    """Where a smooth function of one number changes its sign.

    Args:
        difference: The function.
        points: Ascending points, between two of which a crossing is looked for.
        values: The function there, if it is known.

    Example:
        >>> roots(lambda x: (x - 0.3) * (x + 0.5), samples(-1.0, 1.0)).round(9).tolist()
        [-0.5, 0.3]
    """
    from scipy.optimize import brentq  # takes long to import

    values = difference(points) if values is None else values
    told = np.abs(values) > _ROUNDING  # where it is 0, the sign comes from the neighbours
    points, values = points[told], values[told]
    changes = np.flatnonzero(np.sign(values[1:]) != np.sign(values[:-1]))
    ends = [(float(points[i]), float(points[i + 1])) for i in changes]
    return np.array([brentq(lambda x: float(difference(np.array([x]))[0]), *end, xtol=1e-14) for end in ends])


SAME = 1e-12

"""Scores that differ by less are equal, and rounding the only difference."""


@dataclass(frozen=True)
class DecisionMap:
    """Scores over a grid of perspectives, and what they decide.

    Attributes:
        lineup: The models.
        alphas: Predictive sharpness, in the order in which it was given.
        betas: Popularity-bias robustness, likewise.
        scores: PROBE, [models, alphas, betas]; with several seeds the mean over them.
        std: The standard deviation over the seeds; NaN where there is one seed only.
        errors: The standard error of the difference between every two models, [models, models, alphas, betas].
        bands: How large a difference must be to be beyond noise, likewise: for all pairs of models and the whole plane
            at once. Infinite where differences do not vary between clusters, so that nothing is known of their noise.
        effective: The effective number of queries, [models, betas].
        settings: How noise was reckoned: ``cluster``, ``level``, ``seeds``, ``replicates``, ``seed``, ``tie``.
    """

    lineup: Lineup = field(repr=False)
    alphas: Floats
    betas: Floats
    scores: Floats
    std: Floats = field(repr=False)
    errors: Floats = field(repr=False)
    bands: Floats = field(repr=False)
    effective: Floats = field(repr=False)
    settings: dict[str, Any]

    @property
    def models(self) -> tuple[str, ...]:
        """Their names, in the order of the first axis of `scores`."""
        return self.lineup.models

    @cached_property
    def winner(self) -> Ints:
        """Which model has the highest score, [alphas, betas]; the first of those that share it."""
        return np.asarray(self._order[0])

    @cached_property
    def runner_up(self) -> Ints:
        """Which model comes second, [alphas, betas]; the winner itself where there is no other."""
        return np.asarray(self._order[min(1, len(self.models) - 1)])

    @cached_property
    def _order(self) -> Ints:
        """The models from best to worst, [places, alphas, betas]."""
        return np.argsort(-self.scores, axis=0, kind="stable")

    @cached_property
    def lead(self) -> Floats:
        """How far the winner is above the runner-up, [alphas, betas]."""
        return np.asarray(np.subtract(*_pick(self.scores, self.winner, self.runner_up)))

    @cached_property
    def lead_error(self) -> Floats:
        """The standard error of the lead, [alphas, betas]."""
        rows, columns = np.indices(self.winner.shape)
        return np.asarray(self.errors[self.winner, self.runner_up, rows, columns])

    @cached_property
    def beats(self) -> Flags:
        """Whether the first model is above the second beyond noise, [models, models, alphas, betas].

        No model is, for betas at which there are too few queries to tell noise from more.
        """
        above = self.scores[:, None] - self.scores[None, :] > np.maximum(self.bands, SAME)
        return np.asarray(above & self.trusted)

    @cached_property
    def beyond_noise(self) -> Flags:
        """Where the winner leads every other model beyond noise, [alphas, betas]; nowhere, if it is alone."""
        beaten = np.take_along_axis(self.beats, self.winner[None, None], axis=0)[0].sum(axis=0)
        return np.asarray((beaten == len(self.models) - 1) & (len(self.models) > 1))

    @property
    def trusted(self) -> Flags:
        """For which betas there are effective queries enough, of every model, for the level to be true."""
        return np.asarray(self.effective.min(axis=0) >= FEWEST_QUERIES)

    def normalised(self) -> Floats:
        """Scores on the scale from the worst model (0) to the best (1) of each point; 0.5 where all are equal."""
        low, high = self.scores.min(axis=0), self.scores.max(axis=0)
        equal = high - low <= SAME
        return np.where(equal, 0.5, (self.scores - low) / np.where(equal, 1.0, high - low))

    def places(self) -> Ints:
        """The place of every model at every point, 1 for the best; equal models share the better place."""
        return np.asarray(1 + (self.scores[None, :] > self.scores[:, None] + SAME).sum(axis=1))

    def place_ranges(self) -> tuple[Ints, Ints]:
        """The best and the worst place that noise leaves to every model: those beyond noise above and below it."""
        return 1 + self.beats.sum(axis=0), len(self.models) - self.beats.sum(axis=1)

    def share(self, *, beyond_noise: bool = False) -> dict[str, float]:
        """The share of the points of the map that each model wins; models that win together share the point."""
        first = self.places() == 1
        won = first / first.sum(axis=0)
        kept = won * self.beyond_noise if beyond_noise else won
        return dict(zip(self.models, kept.mean(axis=(1, 2)).tolist(), strict=True))

    def pareto(self, *, beyond_noise: bool = False) -> tuple[str, ...]:
        """The models that no other is at least as good as everywhere and better somewhere.

        Args:
            beyond_noise: Only rule out a model where another one beats it beyond noise everywhere.
        """
        if beyond_noise:
            kept = np.asarray(~self.beats.all(axis=(2, 3)).any(axis=0))
        else:
            kept = not_dominated(self.scores.reshape(len(self.models), -1), SAME)
        return tuple(model for model, stays in zip(self.models, kept, strict=True) if stays)

    def crossings(self, first: str, second: str) -> list[Floats]:
        """The curves along which two models are equal: arrays [points, 2] of alpha and beta, as fine as the grid."""
        difference = self.scores[self._index(first)] - self.scores[self._index(second)]
        return curves(self.alphas, self.betas, np.where(np.abs(difference) <= SAME, 0.0, difference))

    def crossing_alphas(self, first: str, second: str, beta: float) -> Floats:
        """Every alpha in the range of the map at which two models are equal and change order, to the last digits."""
        difference = ScoreLine(self.lineup, self.settings["tie"], beta=beta).difference(*self._names(first, second))
        return roots(difference, samples(self.alphas.min(), self.alphas.max()))

    def crossing_betas(self, first: str, second: str, alpha: float) -> Floats:
        """Every beta in the range of the map at which two models are equal and change order, to the last digits."""
        difference = ScoreLine(self.lineup, self.settings["tie"], alpha=alpha).difference(*self._names(first, second))
        return roots(difference, samples(self.betas.min(), self.betas.max()))

    def at(self, alpha: float, beta: float) -> list[dict[str, Any]]:
        """The rows of one point of the grid, best model first."""
        rows = [row for row in self.to_rows() if np.isclose(row["alpha"], alpha) and np.isclose(row["beta"], beta)]
        if not rows:
            known = f"alpha {_listed(self.alphas)}; beta {_listed(self.betas)}"
            raise UsageError(f"alpha {alpha:g}, beta {beta:g} is no point of the map", [known], "use decide()")
        return sorted(rows, key=lambda row: row["place"])

    def to_rows(self) -> list[dict[str, Any]]:
        """A flat row for every model at every point.

        ``lead`` is what the winner has before the runner-up, and what another model has before the winner: nothing, or
        less. ``beyond_noise`` says whether that difference is; of a winner, whether it leads every other model so.
        """
        places, normalised, (best, worst) = self.places(), self.normalised(), self.place_ranges()
        rows = []
        for i, alpha in enumerate(self.alphas.tolist()):
            for j, beta in enumerate(self.betas.tolist()):
                winner, second = int(self.winner[i, j]), int(self.runner_up[i, j])
                for m, model in enumerate(self.models):
                    other = second if m == winner else winner
                    rows.append(
                        {
                            "model": model,
                            "alpha": alpha,
                            "beta": beta,
                            "value": float(self.scores[m, i, j]),
                            "std": None if np.isnan(self.std[m, i, j]) else float(self.std[m, i, j]),
                            "seeds": len(self.lineup.runs[model]),
                            "place": int(places[m, i, j]),
                            "best_place": int(best[m, i, j]),
                            "worst_place": int(worst[m, i, j]),
                            "normalised": float(normalised[m, i, j]),
                            "lead": float(self.scores[m, i, j] - self.scores[other, i, j]),
                            "error": float(self.errors[m, other, i, j]),
                            "band": float(self.bands[m, other, i, j]),
                            "beyond_noise": bool(
                                self.beyond_noise[i, j] if m == winner else self.beats[winner, m, i, j]
                            ),
                            "effective": float(self.effective[m, j]),
                        }
                    )
        return rows

    def _index(self, model: str) -> int:
        return self.models.index(self._names(model)[0])

    def _names(self, *models: str) -> tuple[str, ...]:
        if unknown := [model for model in models if model not in self.models]:
            raise UsageError(f"not in the map: {', '.join(unknown)}", [f"its models are {', '.join(self.models)}"])
        return models


def _pick(scores: Floats, *which: Ints) -> list[Floats]:
    return [np.take_along_axis(scores, models[None], axis=0)[0] for models in which]


def _listed(axis: Floats) -> str:
    shown = ", ".join(f"{value:g}" for value in axis[:8])
    return shown + (", ..." if len(axis) > 8 else "")


PAPER_ALPHAS = (1.0, 0.5, 0.0, -0.5, -1.0)

PAPER_BETAS = (0.0, 0.2, 0.4, 0.6, 0.8)

_REPLICATES = 2_000


def decision_map(
    models: Models,
    alphas: ArrayLike = PAPER_ALPHAS,
    betas: ArrayLike = PAPER_BETAS,
    *,
    cluster: str = "triple",
    level: float = 0.95,
    seeds: str | None = None,
    tie: Tie | str = Tie.mean,
    replicates: int = _REPLICATES,
    seed: int = 0,
    graph: KnowledgeGraph | None = None,
) -> DecisionMap:
    """Evaluate every model at every point of a grid, and tell leads from noise.

    A lead is beyond noise where it is larger than a band that holds for all pairs of models and the whole plane at
    once: with probability ``level`` none of the leads so marked is owed to the choice of the test triples (or to that
    of the training seeds, where ``seeds`` is ``random``).

    Args:
        models: Their ranks by name, or lined up.
        alphas: Predictive sharpness; by default that of the paper's tables.
        betas: Popularity-bias robustness, likewise.
        cluster: Which queries stand or fall together: ``triple``, ``relation``, ``entity`` or ``query``.
        level: How sure one wants to be.
        seeds: ``fixed`` speaks of these training runs, ``random`` of the method, to whose noise it adds the variation
            between runs; by default of the method, where every model has at least two runs.
        tie: How ties are scored.
        replicates: How often the clusters are drawn anew to find the width of the band.
        seed: Makes the draw repeatable.
        graph: Where the popularity of the targets comes from, unless they are lined up; without it, from the tables.

    Example:
        >>> from kgprobe.comparison.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(rank):
        ...     n = len(rank)
        ...     return Ranks.from_columns(
        ...         head=range(n), relation=[0] * n, tail=[0] * n, side=["tail"] * n, rank=rank, candidates=[100] * n
        ...     )
        >>> sharp, even = [1] * 120 + [80] * 80, [4] * 120 + [5] * 80
        >>> plane = decision_map(line_up({"sharp": ranks(sharp), "even": ranks(even)}), [1.0, -1.0], [0.0])
        >>> plane.scores.round(3).tolist(), [plane.models[i] for i in plane.winner[:, 0]]
        ([[[0.601], [0.681]], [[0.222], [0.966]]], ['sharp', 'even'])
        >>> plane.beyond_noise[:, 0].tolist(), plane.crossing_alphas("sharp", "even", 0.0).round(3).tolist()
        ([True, True], [0.127])
    """
    lineup = line_up(models, graph=graph)
    grid = _axis("alpha", alphas), _axis("beta", betas)
    seeds = seeds or lineup.usual_seeds
    _check(lineup, seeds, wrong_numbers(level=level, seed=seed, replicates=(replicates, 1)))
    found = [model_surface(lineup, model, *grid, tie=tie) for model in lineup.models]
    influences = Influences(lineup, lineup.clusters(cluster), popular=bool(grid[1].any()), tie=tie)
    variance = variances_of_differences(covariances(influences, *grid))
    width = band_width(influences, *grid, level=level, replicates=replicates, seed=seed)
    std = np.stack([surface.std for surface in found])
    between = SeedVariance(std, np.array([len(surface.runs) for surface in found]))
    if seeds == "random":
        variance = variance + (between.variance[:, None] + between.variance[None, :])
        variance[np.arange(len(found)), np.arange(len(found))] = 0.0
        widths = widened(width, between.freedom(variance))
    else:
        widths = np.full(variance.shape, width)
    errors = np.sqrt(variance)
    return DecisionMap(
        lineup,
        *grid,
        scores=np.stack([surface.mean for surface in found]),
        std=std,
        errors=errors,
        bands=np.where(errors > 0, widths * errors, np.inf),  # what never varies tells nothing of its noise
        effective=np.stack([surface.effective for surface in found]),
        settings={
            "cluster": cluster,
            "level": level,
            "seeds": seeds,
            "tie": str(Tie(tie)),
            "width": width,
            "replicates": replicates,
            "seed": seed,
        },
    )


def map_band(
    lineup: Lineup,
    alphas: ArrayLike = PAPER_ALPHAS,
    betas: ArrayLike = PAPER_BETAS,
    *,
    level: float = 0.95,
    popular: bool = True,
) -> float:
    """How many standard errors a lead must have to be beyond noise for all models and a whole plane.

    Args:
        lineup: The models.
        alphas: Predictive sharpness; the plane reaches from the least to the largest, by default as in the paper.
        betas: Popularity-bias robustness, likewise.
        level: How sure one wants to be.
        popular: Whether popularity is known, without which the plane is the line at beta 0.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(rank):
        ...     n = len(rank)
        ...     return Ranks.from_columns(
        ...         head=range(n), relation=[0] * n, tail=[0] * n, side=["tail"] * n, rank=rank, candidates=[100] * n
        ...     )
        >>> lineup = line_up({"one": ranks([1, 2, 3, 4] * 50), "other": ranks([3, 1, 4, 1] * 50)})
        >>> 1.96 < map_band(lineup, popular=False) < 4
        True
    """
    plane = _axis("alpha", alphas), _axis("beta", betas if popular else 0.0)
    influences = Influences(lineup, lineup.clusters(), popular=popular, tie=Tie.mean)
    return band_width(influences, *plane, level=level, replicates=_REPLICATES, seed=0)


def _axis(name: str, values: ArrayLike) -> Floats:
    try:
        axis = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        axis = np.empty(0)
    if axis.ndim > 1 or not axis.size or not np.isfinite(axis).all() or len(np.unique(axis)) < len(axis):
        raise UsageError(f"{name} must be a list of different finite numbers")
    return axis


def _check(lineup: Lineup, seeds: str, wrong: Iterable[str]) -> None:
    problems = [*wrong]
    if seeds not in ("random", "fixed"):
        problems.append(f"seeds can be fixed or random, not '{seeds}'")
    if seeds == "random" and lineup.single_runs:
        problems.append(f"random seeds need two runs of {', '.join(lineup.single_runs)}")
    if problems:
        raise UsageError("the noise cannot be reckoned so", problems)
