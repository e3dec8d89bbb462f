"""Which model wins where: the scores of several models over the (alpha, beta) plane, held against their noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.compare.decision.crossings import curves, roots, samples
from kgprobe.compare.decision.pareto import not_dominated
from kgprobe.compare.decision.surfaces import Line
from kgprobe.compare.interval import FEWEST_QUERIES
from kgprobe.compare.lineup import Lineup
from kgprobe.errors import UsageError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]

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
    def winner(self) -> Codes:
        """Which model has the highest score, [alphas, betas]; the first of those that share it."""
        return np.asarray(self._order[0])

    @cached_property
    def runner_up(self) -> Codes:
        """Which model comes second, [alphas, betas]; the winner itself where there is no other."""
        return np.asarray(self._order[min(1, len(self.models) - 1)])

    @cached_property
    def _order(self) -> Codes:
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

    def places(self) -> Codes:
        """The place of every model at every point, 1 for the best; equal models share the better place."""
        return np.asarray(1 + (self.scores[None, :] > self.scores[:, None] + SAME).sum(axis=1))

    def place_ranges(self) -> tuple[Codes, Codes]:
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
        difference = Line(self.lineup, self.settings["tie"], beta=beta).difference(*self._names(first, second))
        return roots(difference, samples(self.alphas.min(), self.alphas.max()))

    def crossing_betas(self, first: str, second: str, alpha: float) -> Floats:
        """Every beta in the range of the map at which two models are equal and change order, to the last digits."""
        difference = Line(self.lineup, self.settings["tie"], alpha=alpha).difference(*self._names(first, second))
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


def _pick(scores: Floats, *which: Codes) -> list[Floats]:
    return [np.take_along_axis(scores, models[None], axis=0)[0] for models in which]


def _listed(axis: Floats) -> str:
    shown = ", ".join(f"{value:g}" for value in axis[:8])
    return shown + (", ..." if len(axis) > 8 else "")
