"""What figures are drawn from, and what is known of it before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kgprobe.report.figures.style import Look, looks

if TYPE_CHECKING:
    from kgprobe.compare import Lineup
    from kgprobe.graph import KnowledgeGraph

Axis = tuple[float, ...]


@dataclass(frozen=True)
class Offer:
    """What a user gives to draw from, as far as it is known without reading it.

    Attributes:
        models: The names of the models whose ranks are given.
        popularity: Whether the popularity of their queries is known, from their files or from a graph.
        graph: Whether a graph is given.
        alphas: Values of alpha, where they are given.
        betas: Values of beta, likewise.
        metric: The name of a metric, likewise.
    """

    models: tuple[str, ...] = ()
    popularity: bool = False
    graph: bool = False
    alphas: Axis | None = None
    betas: Axis | None = None
    metric: str | None = None


@dataclass(frozen=True)
class Inputs:
    """What a user gives to draw from, read."""

    offer: Offer
    lineup: Lineup | None
    graph: KnowledgeGraph | None

    @cached_property
    def looks(self) -> dict[str, Look]:
        """One look for each model, the same in all figures."""
        return looks(self.offer.models)

    @property
    def ranks(self) -> Lineup:
        """The lined-up models, where a figure cannot be without."""
        assert self.lineup is not None
        return self.lineup

    @property
    def pair(self) -> tuple[str, str]:
        """The first two models."""
        first, second, *_ = self.offer.models
        return first, second

    @property
    def pair_alone(self) -> Lineup:
        """The first two models without the others."""
        from kgprobe.compare import Lineup

        kept = self.pair
        return Lineup(
            {model: self.ranks.runs[model] for model in kept}, {model: self.ranks.left_out[model] for model in kept}
        )

    def alphas(self, default: Axis) -> Axis:
        """Those that are given, or else the default."""
        return self.offer.alphas or default

    def betas(self, default: Axis) -> Axis:
        """Those that are given, or else the default."""
        return self.offer.betas or default
