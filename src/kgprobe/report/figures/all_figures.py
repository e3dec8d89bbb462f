"""The registry of figures: name, content, required input and drawing function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from kgprobe.errors import UsageError, nearest
from kgprobe.report.figures import case_figures, function_figures, geometry_figures, popularity_figures, rank_figures
from kgprobe.report.figures.plane_figures import draw_bands, draw_decision_map, draw_heat_maps
from kgprobe.report.figures.style import Look, looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kgprobe.comparison import Lineup
    from kgprobe.decision import DecisionMap
    from kgprobe.graph import KnowledgeGraph

Axis = tuple[float, ...]


@dataclass(frozen=True)
class Offer:
    """The available input, as far as it is known without reading rank files."""

    models: tuple[str, ...] = ()
    popularity: bool = False
    graph: bool = False
    alphas: Axis | None = None
    betas: Axis | None = None
    metric: str | None = None


@dataclass(frozen=True)
class Inputs:
    """The input of a figure: the offer with the line-up and the graph."""

    offer: Offer
    lineup: Lineup | None
    graph: KnowledgeGraph | None

    @cached_property
    def looks(self) -> dict[str, Look]:
        """The look of each model, the same in all figures."""
        return looks(self.offer.models)

    @property
    def ranks(self) -> Lineup:
        """The line-up, for figures that require rank files."""
        assert self.lineup is not None
        return self.lineup

    @property
    def pair(self) -> tuple[str, str]:
        first, second, *_ = self.offer.models
        return first, second

    @property
    def pair_alone(self) -> Lineup:
        """The line-up of the first two models."""
        from kgprobe.comparison import Lineup

        kept = self.pair
        return Lineup(
            {model: self.ranks.runs[model] for model in kept}, {model: self.ranks.left_out[model] for model in kept}
        )

    def alphas(self, default: Axis) -> Axis:
        return self.offer.alphas or default

    def betas(self, default: Axis) -> Axis:
        return self.offer.betas or default


Need = Callable[[Offer], bool]


def _never(offer: Offer) -> bool:
    return False


def _always(offer: Offer) -> bool:
    return True


def _unless_beta_is_0(offer: Offer) -> bool:
    return offer.betas is None or any(offer.betas)


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure.

    Attributes:
        name: Its name on the command line.
        shows: One line on its content.
        draw: The drawing function.
        models: The minimum number of models.
        pair: Whether it shows exactly two models.
        popular: Whether it needs the popularity of the queries, given the offer.
        graph: Whether it needs the graph.
        options: Which of ``alpha``, ``beta`` and ``metric`` it uses.
    """

    name: str
    shows: str
    draw: Callable[[Inputs], Figure] = field(repr=False)
    models: int = 0
    pair: bool = False
    popular: Need = _never
    graph: bool = False
    options: tuple[str, ...] = ()

    def missing(self, offer: Offer) -> list[str]:
        """The missing input of this figure.

        Example:
            >>> find_figure("rank-histogram").missing(Offer(models=("RotatE",)))
            ['rank files of at least 2 models (1 is given)']
        """
        count = len(offer.models)
        known = {
            f"rank files of at least {self.models} model{'s' * (self.models > 1)} ({_given(count)})": count
            >= self.models,
            "the popularity of the queries (give `graph`, or rank files with popularity)": offer.popularity
            or not self.popular(offer),
            "the graph with its training triples (give `graph`)": offer.graph or not self.graph,
        }
        return [need for need, met in known.items() if not met]


def _given(count: int) -> str:
    return f"{count or 'none'} {'is' if count <= 1 else 'are'} given"


def find_figure(name: str) -> FigureKind:
    if name not in FIGURES:
        raise UsageError(
            f"unknown figure '{name}'{nearest(name, FIGURES)}", remedy=f"choose one of {', '.join(FIGURES)}, or all"
        )
    return FIGURES[name]


def _popularities(inputs: Inputs) -> popularity_figures.Popularities:
    if inputs.lineup is not None:
        return popularity_figures.Popularities.of_queries(inputs.lineup.first)
    assert inputs.graph is not None
    return popularity_figures.Popularities.of_graph(inputs.graph)


def _decide(lineup: Lineup, alphas: Axis, betas: Axis) -> DecisionMap:
    from kgprobe.decision import decision_map

    return decision_map(lineup, alphas, betas)


def _by_popularity(inputs: Inputs) -> rank_figures.GroupScores:
    from kgprobe.comparison.model_comparison import compare_models

    metric, by = inputs.offer.metric or rank_figures.METRIC, f"popularity:{rank_figures.BANDS}"
    # The figure shows intervals of values only, so no permutation tests are needed.
    comparison = compare_models(inputs.ranks, metric, by=[by], pairs="best", replicates=2_000, permutations=1)
    return rank_figures.compared_groups(comparison)


def _geometry(inputs: Inputs) -> Figure:
    lineup, eps = (
        (inputs.lineup, None) if inputs.lineup else (geometry_figures.paper_example(), geometry_figures.PAPER_EPS)
    )
    alphas, betas = inputs.alphas(geometry_figures.ALPHAS), inputs.betas(geometry_figures.BETAS)
    planes = [geometry_figures.plane(lineup, alpha, beta, eps) for beta in betas for alpha in alphas]
    return geometry_figures.draw_geometry(planes, inputs.looks or None)


_PAPER_GRID: tuple[Axis, Axis] = (-1.0, -0.5, 0.0, 0.5, 1.0), (0.0, 0.2, 0.4, 0.6, 0.8)
_FINE_GRID: tuple[Axis, Axis] = tuple(i / 20 for i in range(-20, 21)), tuple(i / 40 for i in range(33))
_BAND_BETAS: Axis = (0.0, 0.4, 0.8)

_ALL = (
    FigureKind(
        "transformers",
        "score by rank for several alpha, raw and affine",
        lambda inputs: function_figures.draw_transformers(inputs.alphas(function_figures.ALPHAS)),
        options=("alpha",),
    ),
    FigureKind(
        "weights",
        "weight by popularity for several beta",
        lambda inputs: function_figures.draw_weights(inputs.betas(function_figures.BETAS)),
        options=("beta",),
    ),
    FigureKind(
        "weight-surface",
        "weight of a triple over both popularities",
        lambda inputs: function_figures.draw_weight_surface(inputs.betas(function_figures.SURFACE_BETAS)),
        options=("beta",),
    ),
    FigureKind(
        "crossing-lines",
        "one line per query from entity to relation popularity",
        lambda inputs: popularity_figures.draw_crossing_lines(_popularities(inputs)),
        popular=_always,
    ),
    FigureKind(
        "popularity-density",
        "density of queries over both popularities",
        lambda inputs: popularity_figures.draw_popularity_density(_popularities(inputs)),
        popular=_always,
    ),
    FigureKind(
        "rank-histogram",
        "rank histogram of two models, and their difference",
        lambda inputs: rank_figures.draw_rank_histogram(inputs.ranks, *inputs.pair, inputs.looks),
        models=2,
        pair=True,
    ),
    FigureKind(
        "popularity-groups",
        "a metric by the popularity of the triple",
        lambda inputs: rank_figures.draw_popularity_groups(_by_popularity(inputs), inputs.looks),
        models=1,
        popular=_always,
        options=("metric",),
    ),
    FigureKind(
        "heat-maps",
        "scores over alpha and beta, normalised over the models",
        lambda inputs: draw_heat_maps(
            _decide(inputs.ranks, inputs.alphas(_PAPER_GRID[0]), inputs.betas(_PAPER_GRID[1]))
        ),
        models=2,
        popular=_unless_beta_is_0,
        options=("alpha", "beta"),
    ),
    FigureKind(
        "decision-map",
        "the best model over alpha and beta, and whether its lead is significant",
        lambda inputs: draw_decision_map(
            _decide(inputs.ranks, inputs.alphas(_FINE_GRID[0]), inputs.betas(_FINE_GRID[1])), inputs.looks
        ),
        models=2,
        popular=_unless_beta_is_0,
        options=("alpha", "beta"),
    ),
    FigureKind(
        "bands",
        "scores of two models over alpha, and their difference with a simultaneous band",
        lambda inputs: draw_bands(
            _decide(inputs.pair_alone, inputs.alphas(_FINE_GRID[0]), inputs.betas(_BAND_BETAS)),
            *inputs.pair,
            inputs.looks,
        ),
        models=2,
        pair=True,
        popular=_unless_beta_is_0,
        options=("alpha", "beta"),
    ),
    FigureKind(
        "geometry",
        "models as vectors, beta as a direction; without ranks the paper's example",
        _geometry,
        popular=lambda offer: bool(offer.models),
        options=("alpha", "beta"),
    ),
    FigureKind(
        "case-studies",
        "queries on which two models differ most, with the relations of their entities",
        lambda inputs: case_figures.draw_case_studies(
            case_figures.case_study(inputs.ranks, inputs.graph, *inputs.pair),  # type: ignore[arg-type]
            inputs.looks,
        ),
        models=2,
        pair=True,
        popular=_always,
        graph=True,
    ),
)

FIGURES = {kind.name: kind for kind in _ALL}
