"""DecisionMap: which model wins where in the (alpha, beta) plane, and whether its lead is significant."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.aggregate import Tie
from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.comparison.intervals import FEWEST_QUERIES
from kgprobe.comparison.lineup import Lineup, flag_columns
from kgprobe.comparison.permutation_tests import different_candidates
from kgprobe.comparison.results import sets_differ
from kgprobe.comparison.unknown_ranks import end_of
from kgprobe.decision.influence import ScoreLine, curves, roots, samples
from kgprobe.errors import UsageError
from kgprobe.ranks import End
from kgprobe.tables import Table, in_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME = 1e-12
"""Scores that differ by less are equal up to rounding."""

_ALONE = "there is no other model"


@dataclass(frozen=True)
class MapSettings:
    """How a decision map was computed.

    Attributes:
        cluster: Queries that share this are resampled together.
        level: The confidence level of the band.
        seeds: Whether training runs are a "random" sample or "fixed".
        tie: How ties are scored.
        width: The width of the band, in standard errors.
        replicates: Number of bootstrap draws.
        seed: Seed of the random generator.
        allow_different_candidates: Whether differences between models with different candidate sets can be
            significant.
    """

    cluster: str
    level: float
    seeds: str
    tie: Tie
    width: float
    replicates: int
    seed: int
    allow_different_candidates: bool = False


@dataclass(frozen=True)
class DecisionMap(Table):
    """PROBE of every model over a grid of (alpha, beta), with the significance of differences.

    Attributes:
        lineup: The models.
        alphas: Predictive sharpness, in the given order.
        betas: Popularity-bias robustness, in the given order.
        scores: PROBE, [models, alphas, betas]; with several seeds the mean over them.
        std: The standard deviation over the seeds; NaN for a single seed.
        errors: The standard error of the difference between every two models, [models, models, alphas, betas].
        bands: The smallest significant difference between every two models, [models, models, alphas, betas]:
            simultaneous for all pairs of models and the whole plane. Infinite where differences do not vary between
            clusters, so that their variance is not known, and between models with different candidate sets.
        effective: The effective number of queries, [models, betas].
        settings: How the scores and the band were computed.
        unknown: The models themselves, where ranks are intervals: the models of the map are then their two ends.
    """

    lineup: Lineup = field(repr=False)
    alphas: Floats
    betas: Floats
    scores: Floats
    std: Floats = field(repr=False)
    errors: Floats = field(repr=False)
    bands: Floats = field(repr=False)
    effective: Floats = field(repr=False)
    settings: MapSettings
    unknown: Lineup | None = field(default=None, repr=False)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models, in the order of the first axis of `scores`."""
        return self.lineup.models

    @cached_property
    def winner(self) -> Ints:
        """The model with the highest score, [alphas, betas]; of equal models, the first."""
        return np.asarray(self._order[0])

    @cached_property
    def runner_up(self) -> Ints:
        """The second model, [alphas, betas]; the winner itself where there is no other."""
        return np.asarray(self._order[min(1, len(self.models) - 1)])

    @cached_property
    def _order(self) -> Ints:
        """The models from best to worst, [places, alphas, betas]."""
        return np.argsort(-self.scores, axis=0, kind="stable")

    @cached_property
    def lead(self) -> Floats:
        """The difference between the winner and the runner-up, [alphas, betas]."""
        first, second = (np.take_along_axis(self.scores, at[None], axis=0)[0] for at in (self.winner, self.runner_up))
        return np.asarray(first - second)

    @cached_property
    def lead_error(self) -> Floats:
        """The standard error of the lead, [alphas, betas]."""
        rows, columns = np.indices(self.winner.shape)
        return np.asarray(self.errors[self.winner, self.runner_up, rows, columns])

    @cached_property
    def beats(self) -> Flags:
        """Whether the first model is significantly better than the second, [models, models, alphas, betas].

        Nothing is significant at a beta with too few effective queries.
        """
        above = self.scores[:, None] - self.scores[None, :] > np.maximum(self.bands, SAME)
        return np.asarray(above & self.trusted)

    @cached_property
    def beyond_noise(self) -> Flags:
        """Where the winner is significantly better than every other model, [alphas, betas]; nowhere for one model."""
        beaten = np.take_along_axis(self.beats, self.winner[None, None], axis=0)[0].sum(axis=0)
        return np.asarray((beaten == len(self.models) - 1) & (len(self.models) > 1))

    @property
    def trusted(self) -> Flags:
        """The betas at which every model has enough effective queries for the bands to have their level."""
        return np.asarray(self.effective.min(axis=0) >= FEWEST_QUERIES)

    def normalised(self) -> Floats:
        """Scores rescaled from the worst model (0) to the best (1) of each point; 0.5 where all are equal."""
        low, high = self.scores.min(axis=0), self.scores.max(axis=0)
        equal = high - low <= SAME
        return np.where(equal, 0.5, (self.scores - low) / np.where(equal, 1.0, high - low))

    def places(self) -> Ints:
        """The place of every model at every point, 1 for the best; equal models share the better place."""
        return np.asarray(1 + (self.scores[None, :] > self.scores[:, None] + SAME).sum(axis=1))

    def place_ranges(self) -> tuple[Ints, Ints]:
        """The best and the worst possible place of every model: those above and below it are significantly so."""
        return 1 + self.beats.sum(axis=0), len(self.models) - self.beats.sum(axis=1)

    def share(self, *, beyond_noise: bool = False) -> dict[str, float]:
        """The share of the points of the map that each model wins; equal winners share a point.

        Args:
            beyond_noise: Only count points where the winner is significantly better than every other model.
        """
        first = self.places() == 1
        won = first / first.sum(axis=0)
        kept = won * self.beyond_noise if beyond_noise else won
        return dict(zip(self.models, kept.mean(axis=(1, 2)).tolist(), strict=True))

    def pareto(self, *, beyond_noise: bool = False) -> tuple[str, ...]:
        """The Pareto-optimal models: no other model is at least as good everywhere and better somewhere.

        Args:
            beyond_noise: Only exclude a model where another one is significantly better everywhere.
        """
        if beyond_noise:
            kept = np.asarray(~self.beats.all(axis=(2, 3)).any(axis=0))
        else:
            kept = not_dominated(self.scores.reshape(len(self.models), -1), SAME)
        return tuple(model for model, stays in zip(self.models, kept, strict=True) if stays)

    def __str__(self) -> str:
        """Who wins where, in sentences."""
        if len(self.models) == 1:
            return "There is only one model to choose from."
        if self.unknown is not None:
            return self._over_unknown_ranks(self.unknown)
        won, sure = self.share(), self.share(beyond_noise=True)
        winners = sorted((model for model in self.models if won[model]), key=lambda model: -won[model])
        plane = "plane" if min(self.scores.shape[1:]) > 1 else "line"
        if len(winners) == 1:
            return f"{self.lineup.named(winners[0])} wins everywhere, {_significantly(sure[winners[0]], plane)}."
        named = winners if len(winners) <= _MOST_NAMED + 1 else winners[:_MOST_NAMED]
        shares = [f"{self.lineup.named(model)} on {_percent(won[model])}" for model in named]
        shares[0] = f"{self.lineup.named(winners[0])} wins on {_percent(won[winners[0]])} of the {plane}"
        if rest := winners[len(named) :]:
            shares.append(f"{len(rest)} others on {_percent(sum(won[model] for model in rest))}")
        found = [f"{model} on {_percent(sure[model])}" for model in named if sure[model]]
        return f"{', '.join(shares)}; {'significantly ' + ', '.join(found) if found else 'nowhere significantly'}."

    def dominates(self, model: str) -> Flags:
        """Where a model is significantly better than every other whatever the unknown ranks, [alphas, betas]."""
        named = self.unknown or self.lineup
        own = self.beats[self._index(end_of(model, End.worst, named))]
        others = [self._index(end_of(other, End.best, named)) for other in named.models if other != model]
        return np.asarray(own[others].all(axis=0))

    def _over_unknown_ranks(self, lineup: Lineup) -> str:
        shares = {model: float(self.dominates(model).mean()) for model in lineup.models}
        found = [
            f"{lineup.named(model)} beats every other model on {_percent(share)} of the points"
            for model, share in shares.items()
            if share
        ]
        rest = 1 - sum(shares.values())
        said = f"Whatever the unknown ranks, {'; '.join(found) or 'no model beats every other anywhere'}."
        return (
            f"{said} On the other {_percent(rest)}, they or the sample of queries decide." if found and rest else said
        )

    def crossings(self, first: str, second: str) -> list[Floats]:
        """The curves along which two models are equal: arrays [points, 2] of alpha and beta, as fine as the grid."""
        difference = self.scores[self._index(first)] - self.scores[self._index(second)]
        return curves(self.alphas, self.betas, np.where(np.abs(difference) <= SAME, 0.0, difference))

    def crossing_alphas(self, first: str, second: str, beta: float) -> Floats:
        """Every alpha in the range of the map at which two models change order."""
        difference = ScoreLine(self.lineup, self.settings.tie, beta=beta).difference(*self._names(first, second))
        return roots(difference, samples(self.alphas.min(), self.alphas.max()))

    def crossing_betas(self, first: str, second: str, alpha: float) -> Floats:
        """Every beta in the range of the map at which two models change order."""
        difference = ScoreLine(self.lineup, self.settings.tie, alpha=alpha).difference(*self._names(first, second))
        return roots(difference, samples(self.betas.min(), self.betas.max()))

    def at(self, alpha: float, beta: float) -> list[dict[str, Any]]:
        """The rows of one point of the grid, best model first."""
        rows = [row for row in self.to_rows() if np.isclose(row["alpha"], alpha) and np.isclose(row["beta"], beta)]
        if not rows:
            known = f"alpha {_listed(self.alphas)}; beta {_listed(self.betas)}"
            raise UsageError(f"alpha {alpha:g}, beta {beta:g} is not a point of the map", [known], "use decide()")
        return sorted(rows, key=lambda row: row["place"])

    def to_rows(self) -> list[dict[str, Any]]:
        """A flat row for every model at every point.

        ``lead`` is the difference of the winner from the runner-up, and of every other model from the winner.
        ``beyond_noise`` is whether that difference is significant; for a winner, whether all its leads are.
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
                            "reason": self._reason(m, other, i, j),
                            **flag_columns(self.lineup.flags.get(model)),
                        }
                    )
        return rows

    @cached_property
    def _untested(self) -> dict[tuple[int, int], int]:
        """The pairs of models that are not tested, with the number of queries in which their candidate sets differ."""
        return {} if self.settings.allow_different_candidates else different_candidates(self.lineup)

    def _reason(self, first: int, second: int, *point: int) -> str | None:
        """Why the error or the band of a difference is not a finite number; None where both are."""
        if math.isnan(self.errors[first, second, *point]):
            return "a single cluster of queries has no variance"
        if math.isfinite(self.bands[first, second, *point]):
            return None
        if (first, second) in self._untested:
            return sets_differ(self._untested[first, second])
        return (
            "the difference is the same in every cluster, so its variance is not known" if first != second else _ALONE
        )

    def _index(self, model: str) -> int:
        return self.models.index(self._names(model)[0])

    def plot(self) -> Figure:
        """Draw the winner over the plane with matplotlib, hatched where its lead is not significant."""
        figure: Figure = in_report("figures.plane_figures").draw_decision_map(self)
        return figure

    def __repr__(self) -> str:
        shares = ", ".join(f"{model} {share:.0%}" for model, share in self._shares().items())
        return f"DecisionMap({len(self.alphas)} alphas x {len(self.betas)} betas, wins: {shares})"

    def _shares(self) -> dict[str, float]:
        """The shares of the models that win anywhere, the largest first."""
        won = sorted(self.share().items(), key=lambda item: -item[1])
        return {model: share for model, share in won if share}

    def _shown_rows(self) -> list[dict[str, Any]]:
        """The winner of every point, with a star where its lead is significant: alpha across, beta downwards."""
        alphas, betas = (_some(axis) for axis in (self.alphas, self.betas))

        def won(i: int, j: int) -> str:
            return f"{self.models[self.winner[i, j]]}{' *' if self.beyond_noise[i, j] else ''}"

        return [
            {"beta": f"{self.betas[j]:g}", **{f"alpha={self.alphas[i]:g}": won(i, j) for i in alphas}} for j in betas
        ]

    def _notes(self) -> list[str]:
        significant = self.share(beyond_noise=True)
        shares = (
            f"{model} wins {share:.0%} of the plane, {significant[model]:.0%} significantly"
            for model, share in self._shares().items()
        )
        star = f"* significantly better than every other model ({self.settings.level:.0%}, over the whole plane)."
        return [star, f"{'; '.join(shares)}."]

    def _names(self, *models: str) -> tuple[str, ...]:
        if unknown := [model for model in models if model not in self.models]:
            raise UsageError(f"not in the map: {', '.join(unknown)}", [f"its models are {', '.join(self.models)}"])
        return models


_MOST_NAMED = 3


def _significantly(share: float, plane: str) -> str:
    if share in (0, 1):
        return "significantly so" if share else "nowhere significantly"
    return f"significantly on {_percent(share)} of the {plane}"


def _percent(share: float) -> str:
    """A share in percent; one that is not all or nothing is never shown as 0 or 100 %."""
    shown = round(100 * share)
    if 0 < share < 1 and shown in (0, 100):
        return "less than 1 %" if shown == 0 else "more than 99 %"
    return f"{shown} %"


def _listed(axis: Floats) -> str:
    shown = ", ".join(f"{value:g}" for value in axis[:8])
    return shown + (", ..." if len(axis) > 8 else "")


def not_dominated(scores: Floats, same: float = 0.0) -> Flags:
    """The Pareto-optimal rows: no other row is at least as high everywhere and higher somewhere.

    Args:
        scores: One row for each model, one column for each (alpha, beta).
        same: Numbers that differ by no more are equal.
    """
    kept = np.ones(len(scores), dtype=bool)
    for i, own in enumerate(scores):
        nowhere_worse = (scores >= own - same).all(axis=1)
        somewhere_better = (scores > own + same).any(axis=1)
        kept[i] = not (nowhere_worse & somewhere_better).any()
    return kept


def _some(axis: Floats) -> list[int]:
    """The places of at most nine values of an axis, in ascending order of the values."""
    order = np.argsort(axis)
    return [int(i) for i in order[np.unique(np.linspace(0, len(axis) - 1, min(len(axis), 9)).round().astype(int))]]
