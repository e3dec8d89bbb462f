"""Figures of entity popularity against relation popularity: crossing lines, and density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.arrays import Floats
from kgprobe.errors import DataError
from kgprobe.report.figures.style import COLUMN, HEAT, MINUS, in_style, log_axis, panels, place_of_zero

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kgprobe.graph import KnowledgeGraph
    from kgprobe.ranks import Ranks

_LINES = 300
_BINS = 60
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Popularities:
    """delta(e) and delta(r|e) of the target of every query.

    Example:
        >>> both = Popularities(np.array([0.1, 0.2, 0.3]), np.array([0.9, 0.5, 0.1]))
        >>> round(both.correlation, 3)
        -1.0
    """

    entity: Floats
    relation: Floats

    def __post_init__(self) -> None:
        unknown = int((np.isnan(self.entity) | np.isnan(self.relation)).sum())
        if unknown or not self.entity.size:
            problem = f"{unknown:,} of {self.entity.size:,} queries have none" if unknown else "there is no query"
            raise DataError("every query needs a popularity", [problem], "give `graph`")

    @classmethod
    def of_queries(cls, ranks: Ranks) -> Popularities:
        """The popularity columns of a rank table."""
        return cls(ranks.numbers("entity_popularity"), ranks.numbers("relation_popularity"))

    @classmethod
    def of_graph(cls, graph: KnowledgeGraph) -> Popularities:
        """Popularities of both sides of the test triples of a graph; of its training triples without a test split."""
        triples = graph.triples("test" if "test" in graph.splits else "train")
        targets = np.concatenate([triples[:, 0], triples[:, 2]])
        relations = np.concatenate([triples[:, 1], triples[:, 1]])
        return cls(graph.popularity.entity(targets), graph.popularity.relation(relations, targets))

    @property
    def correlation(self) -> float:
        """Kendall's tau-b over all queries: -1 if all lines cross, 1 if none does; NaN if all values are equal."""
        from scipy.stats import kendalltau

        if not (np.ptp(self.entity) and np.ptp(self.relation)):
            return float("nan")
        return float(kendalltau(self.entity, self.relation).statistic)

    def sample(self, most: int, seed: int = 0) -> Popularities:
        """A random sample without replacement."""
        if self.entity.size <= most:
            return self
        rows = np.random.default_rng(seed).choice(self.entity.size, most, replace=False)
        return Popularities(self.entity[rows], self.relation[rows])


@in_style
def draw_crossing_lines(popularities: Popularities, lines: int = _LINES, seed: int = 0) -> Figure:
    """One line per query from delta(e) below to delta(r|e) above; crossing lines show discordant pairs.

    Args:
        popularities: The popularities of all queries.
        lines: The maximum number of lines; the correlation is over all queries.
        seed: Seed of the sample.

    Example:
        >>> figure = draw_crossing_lines(Popularities(np.array([0.1, 0.2]), np.array([0.9, 0.5])))
        >>> len(figure.axes[0].collections[0].get_segments())
        2
    """
    from matplotlib.collections import LineCollection

    figure, (below,) = panels(COLUMN, 2.4)
    shown = popularities.sample(lines, seed)
    above = below.twiny()
    places = []
    for axes, values, every in (
        (below, shown.entity, popularities.entity),
        (above, shown.relation, popularities.relation),
    ):
        zero, low, high = _extent(every)
        log_axis(axes, "x", low, high, zero_at=zero)
        drawable = values if zero is None else np.where(values > 0, values, zero)
        # Positions in axes coordinates, because the two ends of a line are on different axes.
        places.append(np.log(drawable / low) / np.log(high / low))
    ends = [np.stack([places[0], np.zeros(len(places[0]))], 1), np.stack([places[1], np.ones(len(places[1]))], 1)]
    drawn = LineCollection(
        list(np.stack(ends, 1)), transform=below.transAxes, cmap=HEAT, linewidths=0.5, alpha=0.7, array=places[0]
    )
    drawn.set_clim(0, 1.25)  # omits the brightest colours, which are hard to see on white
    below.add_collection(drawn, autolim=False)
    below.set_ylim(0, 1)
    below.set_yticks([])
    above.set_title(_remark(popularities, len(shown.entity)), fontsize=7)
    below.set_xlabel("entity popularity δ(e)")
    above.set_xlabel("relation popularity at the entity δ(r|e)")
    for axes in (below, above):
        axes.spines[["left", "right"]].set_visible(False)
    above.spines["top"].set_visible(True)
    return figure


def _extent(values: Floats) -> tuple[float | None, float, float]:
    """The position of 0, and the limits of a logarithmic axis with a margin."""
    zero = place_of_zero(values)
    positive = values[values > 0]
    if not positive.size:
        raise DataError("no query has a positive popularity", remedy="check that the graph is the one trained on")
    return zero, (zero or positive.min()) / 1.2, positive.max() * 1.2


def _remark(popularities: Popularities, shown: int) -> str:
    count = popularities.entity.size
    queries = "query" if count == 1 else "queries"
    number = f"{count:,} {queries}" if shown == count else f"{shown:,} of {count:,} queries"
    tau = popularities.correlation
    return number if np.isnan(tau) else f"{number}; Kendall's τ = {tau:.2f}".replace("-", MINUS)


@dataclass(frozen=True)
class Density:
    """Two-dimensional histogram of both popularities; 0 is in the lowest cell."""

    counts: Floats
    entity_edges: Floats
    relation_edges: Floats

    @classmethod
    def of(cls, popularities: Popularities, bins: int = _BINS) -> Density:
        """Count queries in cells of equal log width, in chunks.

        Example:
            >>> density = Density.of(Popularities(np.array([0.1, 0.2, 0.2]), np.array([0.9, 0.5, 0.5])), bins=2)
            >>> density.counts.tolist()
            [[0.0, 1.0], [2.0, 0.0]]
        """
        columns = (popularities.entity, popularities.relation)
        places = [place_of_zero(values) for values in columns]
        extents = [_extent(values) for values in columns]
        edges = [np.geomspace(low, high, bins + 1) for _, low, high in extents]
        counts = np.zeros((bins, bins))
        for start in range(0, popularities.entity.size, _CHUNK):
            rows = slice(start, start + _CHUNK)
            drawable = [
                values[rows] if zero is None else np.where(values[rows] > 0, values[rows], zero)
                for values, zero in zip(columns, places, strict=True)
            ]
            counts += np.histogram2d(drawable[0], drawable[1], bins=edges)[0]
        return cls(counts, *edges)


@in_style
def draw_popularity_density(popularities: Popularities, bins: int = _BINS) -> Figure:
    """Density of queries over delta(e) and delta(r|e), for any number of queries.

    Example:
        >>> figure = draw_popularity_density(Popularities(np.array([0.1, 0.2]), np.array([0.9, 0.5])), bins=4)
        >>> float(figure.axes[0].collections[0].get_array().sum())
        2.0
    """
    from matplotlib.colors import LogNorm

    figure, (axes,) = panels(COLUMN, 2.7)
    density = Density.of(popularities, bins)
    mesh = axes.pcolormesh(
        density.entity_edges,
        density.relation_edges,
        np.ma.masked_equal(density.counts.T, 0),
        norm=LogNorm(1, max(10.0, density.counts.max())),
        cmap=f"{HEAT}_r",  # dark for many queries, white for none
        rasterized=True,
    )
    zero, low, high = _extent(popularities.entity)
    log_axis(axes, "x", low, high, zero_at=zero)
    zero, low, high = _extent(popularities.relation)
    log_axis(axes, "y", low, high, zero_at=zero)
    axes.set_title(_remark(popularities, popularities.entity.size), fontsize=7)
    axes.set_xlabel("entity popularity δ(e)")
    axes.set_ylabel("relation popularity δ(r|e)")
    bar = figure.colorbar(mesh, ax=axes, label="queries")
    log_axis(bar.ax, "y", 1, max(10.0, density.counts.max()))
    return figure
