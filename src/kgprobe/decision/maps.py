"""Compute decision maps: scores, standard errors and simultaneous bands over a grid of (alpha, beta)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from kgprobe.aggregate import Tie
from kgprobe.aggregate.surfaces import PAPER_ALPHAS, PAPER_BETAS, grid_axis
from kgprobe.arrays import Floats
from kgprobe.audit.flagging import audited_lineup
from kgprobe.comparison.lineup import Lineup, Models
from kgprobe.comparison.model_comparison import wrong_settings
from kgprobe.comparison.permutation_tests import different_candidates
from kgprobe.comparison.unknown_ranks import both_ends
from kgprobe.decision.bands import SeedVariance, band_width, covariances, variances_of_differences, widened
from kgprobe.decision.influence import Influences, model_surface
from kgprobe.decision.plane import DecisionMap, MapSettings
from kgprobe.errors import UsageError
from kgprobe.graph import GraphLike
from kgprobe.ranks import End

if TYPE_CHECKING:
    pass

_REPLICATES = 2_000


def decision_map(
    ranks: Models,
    alphas: ArrayLike = PAPER_ALPHAS,
    betas: ArrayLike = PAPER_BETAS,
    *,
    cluster: str = "triple",
    level: float = 0.95,
    seeds: str | None = None,
    tie: Tie | str = Tie.mean,
    replicates: int = _REPLICATES,
    seed: int = 0,
    graph: GraphLike | None = None,
    exclude_flagged: bool = False,
    allow_different_candidates: bool = False,
    at: End | str | None = None,
) -> DecisionMap:
    """Evaluate every model at every point of a grid, with the significance of every difference.

    A lead is significant where it is larger than a band that is simultaneous for all pairs of models and the whole
    plane: with probability ``level``, none of the significant leads is due to the choice of the test triples (or of
    the training seeds, where ``seeds`` is ``random``).

    Args:
        ranks: The ranks of each model as tables, files or paths: by name, or in a list, or a `Lineup`.
        alphas: Predictive sharpness; by default that of the paper's tables.
        betas: Popularity-bias robustness; by default that of the paper's tables.
        cluster: What the queries of a cluster share: ``triple``, ``relation``, ``entity`` or ``query``.
        level: The confidence level.
        seeds: ``fixed`` compares these training runs, ``random`` the methods, whose variance includes that between
            runs; the default is ``random`` where every model has at least two runs.
        tie: How ties are scored.
        replicates: The number of bootstrap draws for the width of the band.
        seed: The seed of the random generator.
        graph: Gives the popularity of the targets, unless the models are a `Lineup`; without it, the tables' columns.
        exclude_flagged: Leave out models whose rank file has an error in `kgprobe.check`.
        allow_different_candidates: Also test models against each other whose candidate sets differ.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken; by default the map shows both
            ends as models of their own.

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
        >>> print(plane)
        sharp wins on 50 % of the line, even on 50 %; significantly sharp on 50 %, even on 50 %.
        >>> plane.beyond_noise[:, 0].tolist(), plane.crossing_alphas("sharp", "even", 0.0).round(3).tolist()
        ([True, True], [0.127])
    """
    given = audited_lineup(ranks, graph=graph, exclude_flagged=exclude_flagged, at=at)
    lineup = both_ends(given)[0] if given.worst else given
    grid = _axis("alphas", alphas), _axis("betas", betas)
    seeds = seeds or lineup.usual_seeds
    if problems := list(wrong_settings(lineup, seeds=seeds, level=level, seed=seed, replicates=(replicates, 1))):
        raise UsageError("invalid arguments of the decision map", problems)
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
    bands = np.where(errors > 0, widths * errors, np.inf)  # without variance, nothing is significant
    if not allow_different_candidates:
        for pair in different_candidates(lineup):
            bands[pair] = np.inf
    return DecisionMap(
        lineup,
        *grid,
        scores=np.stack([surface.mean for surface in found]),
        std=std,
        errors=errors,
        bands=bands,
        effective=np.stack([surface.effective for surface in found]),
        settings=MapSettings(cluster, level, seeds, Tie(tie), width, replicates, seed, allow_different_candidates),
        unknown=given if given.worst else None,
    )


def map_band(
    lineup: Lineup,
    alphas: ArrayLike = PAPER_ALPHAS,
    betas: ArrayLike = PAPER_BETAS,
    *,
    level: float = 0.95,
    popular: bool = True,
) -> float:
    """The simultaneous critical value of a lead, in standard errors, for all pairs of models and a whole plane.

    Args:
        lineup: The models.
        alphas: Predictive sharpness, from the smallest to the largest; by default that of the paper's tables.
        betas: Popularity-bias robustness, in the same way.
        level: The confidence level.
        popular: Whether popularity is known; without it, the plane is the line at beta 0.
    """
    plane = _axis("alphas", alphas), _axis("betas", betas if popular else 0.0)
    influences = Influences(lineup, lineup.clusters(), popular=popular, tie=Tie.mean)
    return band_width(influences, *plane, level=level, replicates=_REPLICATES, seed=0)


def _axis(name: str, values: ArrayLike) -> Floats:
    axis = grid_axis(name, values)
    if not np.isfinite(axis).all() or len(np.unique(axis)) < len(axis):
        raise UsageError(f"{name} must be a list of different finite numbers")
    return axis
