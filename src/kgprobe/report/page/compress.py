"""More ranks than a page can hold: counts for the scores, a sample for the rest, and a sentence that says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgprobe.compare.lineup import Lineup
from kgprobe.graph import KnowledgeGraph
from kgprobe.report.page.cells import cell_content, deviation, histogram
from kgprobe.report.page.queries import Content, query_content
from kgprobe.report.page.sample import draw_sample

MOST_SAMPLED = 800_000
"""Ranks of all runs in the sample; about as many as a browser goes through while a slider moves."""
_SMALLER = (1, 4, 16, 64)


def compressed(
    lineup: Lineup, graph: KnowledgeGraph | None, epsilons: Sequence[Sequence[float] | None]
) -> Iterator[Content]:
    """The content of a page with compressed ranks, and smaller ones, should the names in it take too much room.

    Args:
        lineup: The models.
        graph: Gives names.
        epsilons: What is added to each popularity, for every model; None where popularity is not known.
    """
    weighted = all(epsilon is not None for epsilon in epsilons)
    found = histogram(lineup, epsilons)
    cells, error = cell_content(found), deviation(found, lineup, weighted)
    runs = len(found.cells)
    for smaller in _SMALLER:
        sample = draw_sample(lineup, MOST_SAMPLED // runs // smaller)
        content = query_content(sample.of(lineup), graph, weighted) | Content(
            {
                "exact": False,
                "counted": len(sample.random),
                "compression": _sentence(len(lineup) * runs, len(sample.random), len(sample.different), error),
            },
            {"row": sample.rows},
            frozenset({"row"}),
        )
        for run, own in zip(content.header["runs"], cells.header["cells"], strict=True):
            run["cells"] = own
        yield content | Content(arrays=cells.arrays, steps=cells.steps)


def _sentence(ranks: int, sampled: int, different: int, error: float) -> str:
    return (
        f"{ranks:,} ranks are too many for a page, so scores are computed from counts of queries with nearly equal "
        f"rank, candidate count and popularity (over the paper's grid of alpha and beta no score deviates by more "
        f"than {error:.1g} from the exact one), intervals and groups from a random sample of {sampled:,} queries, and "
        f"the table lists these and the {different:,} others on which the models differ most."
    )
