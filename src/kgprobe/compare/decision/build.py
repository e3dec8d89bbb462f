"""The map of all perspectives, from the ranks of several models."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgprobe.aggregate import Tie
from kgprobe.compare.decision.influence import Influences
from kgprobe.compare.decision.map import DecisionMap
from kgprobe.compare.decision.noise import SeedNoise, band_width, covariances, variances_of_differences, widened
from kgprobe.compare.decision.surfaces import model_surface
from kgprobe.compare.lineup import Lineup, Models, line_up
from kgprobe.compare.requests import wrong_numbers
from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph

Floats = NDArray[np.float64]

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
        >>> from kgprobe.compare.lineup import line_up
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
    between = SeedNoise(std, np.array([len(surface.runs) for surface in found]))
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
