"""The figures of a study: what each shows, what it is drawn from, and why others cannot be drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kgprobe.comparison.lineup import Lineup
from kgprobe.decision import decision_map
from kgprobe.graph import KnowledgeGraph
from kgprobe.openworld.bench_points import Points
from kgprobe.report.figures import FIGURES, FigureKind, Inputs, Offer, case_figures, rank_figures
from kgprobe.report.figures.openworld_figures import draw_rank_connections, draw_worlds
from kgprobe.report.figures.plane_figures import draw_decision_map, draw_heat_map_grid
from kgprobe.report.figures.style import Look, looks
from kgprobe.report.page.page_queries import has_popularity
from kgprobe.studies.claim_kinds import MoreRanks, RankClaim, RareLoss
from kgprobe.studies.study_file import Study
from kgprobe.studies.study_folder import file_name
from kgprobe.studies.study_tables import absent, absent_text, shown_graphs
from kgprobe.studies.verdicts import SourceRanks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAP_GRID = tuple(i / 20 for i in range(-20, 21)), tuple(i / 40 for i in range(33))
"""Alphas and betas of the decision maps."""


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a study.

    Attributes:
        part: The part of the page that shows it, see `kgprobe.studies.study_site.PARTS`.
        name: The file name without its ending, with the folder of its source.
        title: What it shows, in one sentence.
        inputs: What it is drawn from, in types of JSON; equal inputs give equal figures.
        draw: Draws it.
        missing: Why it cannot be drawn; None where it can.
        wide: Whether it is as wide as a page, not as a column.
    """

    part: str
    name: str
    title: str
    inputs: Mapping[str, Any] = field(repr=False)
    draw: Callable[[], Figure] = field(repr=False)
    missing: str | None = None
    wide: bool = False


def lineup_digest(lineup: Lineup) -> str:
    """A hash of the ranks of all models, with their metadata and what the audit has against them."""
    found = hashlib.sha256()
    for model, own in lineup.runs.items():
        for run in (*own, *lineup.worst.get(model, ())):
            found.update(repr((model, run.info, run.column_names)).encode(errors="surrogatepass"))
            for name in run.column_names:
                for chunk in run.column(name).chunks:
                    values = chunk.to_numpy(zero_copy_only=False)
                    found.update(repr(values.tolist()).encode() if values.dtype == object else values.tobytes())
    found.update(repr([sorted(one.items()) for one in (lineup.flags, lineup.excluded, lineup.left_out)]).encode())
    return found.hexdigest()


def graph_digest(graph: KnowledgeGraph) -> str:
    """A hash of the triples of a graph, with its labels and names."""
    found = hashlib.sha256(f"{graph.name} {graph.content_hash}".encode(errors="surrogatepass"))
    for texts in (graph.entity_labels, graph.relation_labels, graph.entity_names, graph.relation_names):
        found.update(b"\n" if texts is None else repr(texts.to_pylist()).encode(errors="surrogatepass"))
    if graph.train_counts is not None:
        counts = graph.train_counts
        found.update(b"".join(values.tobytes() for values in (counts.degree, counts.pair_keys, counts.pair_counts)))
    return found.hexdigest()


def points_digest(points: Points) -> str:
    """A hash of the values of models in the open and the closed world."""
    found = hashlib.sha256(repr((points.metrics, points.models, points.checkpoints, points.queries)).encode())
    found.update(b"".join(v.tobytes() for v in (points.model, points.open, points.closed, points.mrr, points.room)))
    return found.hexdigest()


def study_figures(
    study: Study, graphs: Mapping[str, KnowledgeGraph], sources: Iterable[SourceRanks], digests: Mapping[str, str]
) -> list[StudyFigure]:
    """All figures of a study, those that cannot be drawn included.

    Args:
        study: The study.
        graphs: The graphs at hand.
        sources: The ranks.
        digests: The hash of every line-up by source and graph, ``SOURCE/GRAPH``, and of every graph by name.
    """
    found = [*_of_functions(), *_of_graphs(study, graphs, digests)]
    for source in sources:
        found += _Drawings(study, graphs, source, digests).figures()
    return found


def _of_functions() -> Iterator[StudyFigure]:
    """The figures of the method, which need no input."""
    for name, more in (("transformers", ""), ("weights", ""), ("weight-surface", ""), ("geometry", _EXAMPLE)):
        kind = FIGURES[name]
        draw = _drawing(kind, Inputs(Offer(), None, None))
        yield StudyFigure("method", name, _sentence(more or kind.shows), {}, draw, wide=name != "weights")


_EXAMPLE = "models as vectors of scores, weights as a direction: the PROBE paper's example"


def _of_graphs(study: Study, graphs: Mapping[str, KnowledgeGraph], digests: Mapping[str, str]) -> Iterator[StudyFigure]:
    """The figures of the popularity of the test queries."""
    for name in study.graphs:
        graph = graphs.get(name)
        for kind in (FIGURES["crossing-lines"], FIGURES["popularity-density"]):
            yield StudyFigure(
                "graphs",
                f"{kind.name}-{file_name(name)}",
                _sentence(f"{kind.shows}: {name}"),
                {"graph": digests.get(name)},
                _drawing(kind, Inputs(Offer(popularity=True, graph=True), None, graph)),
                None if graph is not None else f"the graph {name} is not at hand",
            )


def _drawing(kind: FigureKind, inputs: Inputs) -> Callable[[], Figure]:
    return lambda: kind.draw(inputs)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


class _Drawings:
    """The figures of one source."""

    def __init__(
        self, study: Study, graphs: Mapping[str, KnowledgeGraph], source: SourceRanks, digests: Mapping[str, str]
    ) -> None:
        self.study, self.graphs, self.source, self.digests = study, graphs, source, digests
        self.folder = file_name(source.name)
        self.looks: dict[str, Look] = looks(list(study.models))

    def figures(self) -> Iterator[StudyFigure]:
        yield from self._pairs(MoreRanks, self._rank_histogram)
        yield from self._pairs(RareLoss, self._popularity_ranks, self._case_studies)
        yield self._heat_maps()
        yield from (self._decision_map(graph) for graph in self.study.graphs)
        for rate, points in self.source.worlds.items():
            yield from self._worlds(rate, points)

    def _figure(
        self,
        part: str,
        name: str,
        title: str,
        inputs: Mapping[str, Any],
        draw: Callable[[], Figure],
        missing: str | None = None,
        *,
        wide: bool = True,
    ) -> StudyFigure:
        given = {"models": list(self.study.models), **inputs}
        return StudyFigure(part, f"{self.folder}/{name}", title, given, draw, missing, wide)

    def _digest(self, *graphs: str) -> dict[str, Any]:
        return {graph: self.digests.get(f"{self.source.name}/{graph}") for graph in graphs}

    def _pairs(
        self, kind: type[RankClaim], *make: Callable[[str, str, str, RankClaim], StudyFigure]
    ) -> Iterator[StudyFigure]:
        """The figures of every pair of models that claims of a kind name, each once."""
        seen = set()
        for claim in self.study.claims:
            if isinstance(claim, kind):
                graph, (first, second) = claim.graphs[0], claim.models
                pair = graph, frozenset((first, second))
                if pair not in seen:
                    seen.add(pair)
                    yield from (draw(graph, first, second, claim) for draw in make)

    def _rank_histogram(self, graph: str, first: str, second: str, claim: RankClaim) -> StudyFigure:
        return self._figure(
            "rq1",
            f"rank-histogram-{_joined(graph, first, second)}",
            f"Ranks of {first} and {second} on {graph}, and their difference ({self.source.name}).",
            {"ranks": self._digest(graph), "pair": [first, second]},
            lambda: rank_figures.draw_rank_histogram(self.source.lineups[graph], first, second, self.looks),
            self.source.unavailable(claim),
        )

    def _popularity_ranks(self, graph: str, first: str, second: str, claim: RankClaim) -> StudyFigure:
        groups = claim.groups if isinstance(claim, RareLoss) else 4
        return self._figure(
            "rq2",
            f"popularity-ranks-{_joined(graph, first, second)}",
            f"Ranks of {first} and {second} on {graph} by the popularity of the triple ({self.source.name}).",
            {"ranks": self._digest(graph), "pair": [first, second], "groups": groups},
            lambda: rank_figures.draw_popularity_ranks(
                rank_figures.rank_shares(self.source.lineups[graph], first, second, groups=groups)
            ),
            self.source.unavailable(claim),
        )

    def _case_studies(self, graph: str, first: str, second: str, claim: RankClaim) -> StudyFigure:
        def draw() -> Figure:
            found = case_figures.case_study(self.source.lineups[graph], self.graphs[graph], first, second)
            return case_figures.draw_case_studies(found, self.looks)

        unknown = None if graph in self.graphs else f"the graph {graph} is not at hand"
        return self._figure(
            "rq2",
            f"case-studies-{_joined(graph, first, second)}",
            f"The queries of {graph} on which {first} and {second} differ most, by quarter of popularity "
            f"({self.source.name}).",
            {"ranks": self._digest(graph), "graph": self.digests.get(graph), "pair": [first, second]},
            draw,
            self.source.unavailable(claim) or unknown,
        )

    def _no_plane(self, graph: str) -> str | None:
        """Why models cannot be compared over alpha and beta on a graph; None where they can."""
        lineup = self.source.lineups.get(graph)
        if lineup is None or len(lineup.models) < 2:
            return self.source.missing.get((graph, None), f"there are no ranks of two models on {graph}")
        return None if has_popularity(lineup) else f"the popularity of the targets of {graph} is not known"

    def _heat_maps(self) -> StudyFigure:
        shown = [graph for graph in shown_graphs(self.study, self.source) if self._no_plane(graph) is None]
        models = list(self.study.models)
        why = {(graph, model): absent(self.source, graph, model) for graph in shown for model in models}
        texts = {cell: absent_text(reason, "no ranks") for cell, reason in why.items() if reason}
        alphas, betas = list(self.study.alphas), list(self.study.betas)

        def draw() -> Figure:
            planes = {graph: decision_map(self.source.lineups[graph], alphas, betas, replicates=1) for graph in shown}
            return draw_heat_map_grid(planes, models, texts)

        return self._figure(
            "rq3",
            "heat-maps",
            f"PROBE over alpha and beta, rescaled at each point to 0 for the worst and 1 for the best model "
            f"({self.source.name}).",
            {
                "ranks": self._digest(*shown),
                "alphas": alphas,
                "betas": betas,
                "absent": [[*cell, text] for cell, text in texts.items()],
            },
            draw,
            None if shown else "; ".join(dict.fromkeys(filter(None, map(self._no_plane, self.study.graphs)))),
        )

    def _decision_map(self, graph: str) -> StudyFigure:
        level = self.study.level
        return self._figure(
            "rq3",
            f"decision-map-{file_name(graph)}",
            f"The best model on {graph} over alpha and beta, hatched where its lead is not significant "
            f"({self.source.name}).",
            {"ranks": self._digest(graph), "level": level},
            lambda: draw_decision_map(decision_map(self.source.lineups[graph], *_MAP_GRID, level=level), self.looks),
            self._no_plane(graph),
            wide=False,
        )

    def _worlds(self, rate: float, points: Points) -> Iterator[StudyFigure]:
        titles = {
            "worlds": ("Values in the open world against those in the closed world", draw_worlds),
            "rank-connections": ("Order of the models in the open and in the closed world", draw_rank_connections),
        }
        for kind, (title, draw) in titles.items():
            yield self._figure(
                "rq4",
                f"{kind}-{rate:g}",
                f"{title}, missing rate {rate:g} ({self.source.name}).",
                {"points": points_digest(points)},
                partial(draw, points),
            )


def _joined(graph: str, *models: str) -> str:
    return "-".join(map(file_name, (graph, *models)))
