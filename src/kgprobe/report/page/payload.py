"""A line-up and what is known about it, as the bytes that a page carries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate.weights import smallest_popularity
from kgprobe.compare.decision import map_band, widened
from kgprobe.compare.interval import FEWEST_QUERIES, FEWEST_VARYING
from kgprobe.compare.lineup import Lineup
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks
from kgprobe.ranks.schema import POPULARITY, package_version
from kgprobe.report.page.compress import compressed
from kgprobe.report.page.container import pack
from kgprobe.report.page.protocol import protocol, remarks, unweighed
from kgprobe.report.page.queries import Content, has_popularity, query_content
from kgprobe.report.page.reasons import Reasons, reasons_entry
from kgprobe.report.page.results import difference_entry, estimate_entry, finding_entry
from kgprobe.report.page.sample import draw_sample
from kgprobe.report.page.worlds import world_entry

if TYPE_CHECKING:
    from kgprobe.compare.audit import Finding
    from kgprobe.compare.outcome import Comparison
    from kgprobe.openworld.bench.bench import Bench

HISTOGRAM = {"1": 1.0, "2": 2.0, "3-10": 10.0, "11-100": 100.0, "101-1,000": 1000.0, ">1,000": math.inf}
"""The paper's bins of ranks by their upper ends; a mean rank over ties belongs to the next bin."""

MOST_RANKS = 2_500_000
"""Ranks of all runs that a page holds as they are: a browser goes through them while a slider moves."""
MOST_BYTES = 18_000_000
"""Of the packed data: written out and with all else that it needs, a page stays below 30 MB."""

_WIDE = ((-5.0, 5.0), (-2.0, 2.0))
"""How far alpha and beta can be set on the page."""
_QUANTILES = 1025
_MOST_FOR_BAND = 200_000


@dataclass(frozen=True)
class About:
    """What a page says besides the ranks.

    Attributes:
        title: What stands at its head.
        command: The command that made it.
        written: When it was made.
        level: Confidence of its intervals.
        graph: Gives names to entities and relations.
        files: The rank file of every model.
        findings: What the audit found.
        comparison: Estimates and differences by the metrics that were asked for.
        notes: Remarks, one sentence each.
        benches: Open worlds that it shows too, by name.
        reasons: Which rules put answers where they are, for models of rules.
    """

    title: str = "kgprobe report"
    command: str = ""
    written: str = ""
    level: float = 0.95
    graph: KnowledgeGraph | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    comparison: Comparison | None = None
    notes: Sequence[str] = ()
    benches: Mapping[str, Bench] = field(default_factory=dict)
    reasons: Sequence[Reasons] = ()


@dataclass(frozen=True)
class Payload:
    """Everything that a page holds.

    Attributes:
        packed: Its bytes.
        remarks: What a reader should know: what was left out, and what was compressed.
    """

    packed: bytes
    remarks: list[str]


def payload(lineup: Lineup, about: About) -> Payload:
    """Everything that a page holds: all ranks, unless they are too many.

    Example:
        >>> from kgprobe.compare import line_up
        >>> from kgprobe.report.page.container import unpack
        >>> ranks = Ranks.from_columns(
        ...     head=[7, 7], relation=[0, 0], tail=[9, 9], side=["head", "tail"], rank=[1, 2.5], candidates=[9, 8]
        ... )
        >>> header, arrays = unpack(payload(line_up({"mine": ranks}), About(title="Mine")).packed)
        >>> header["title"], header["models"][0]["name"], header["queries"], header["hasPopularity"]
        ('Mine', 'mine', 2, False)
    """
    described = Content(_described(lineup, about), _widths(lineup, about.level))
    for queries in _versions(lineup, about.graph, [model["epsilon"] for model in described.header["models"]]):
        content = described | queries
        packed = pack(content.header, content.arrays, content.steps)
        if len(packed) <= MOST_BYTES:
            break
    compression = content.header["compression"]
    return Payload(packed, [*content.header["notes"], *([compression] if compression else [])])


def _versions(
    lineup: Lineup, graph: KnowledgeGraph | None, epsilons: Sequence[Sequence[float] | None]
) -> Iterator[Content]:
    """The queries as they are, then smaller and smaller."""
    if len(lineup) * len(_runs(lineup)) <= MOST_RANKS:
        exact = Content({"exact": True, "compression": None})
        yield query_content(lineup, graph, epsilons[0] is not None) | exact
    yield from compressed(lineup, graph, epsilons)


def _described(lineup: Lineup, about: About) -> dict[str, Any]:
    weighted = has_popularity(lineup)
    graph, comparison = about.graph, about.comparison
    return {
        "title": about.title,
        "command": about.command,
        "version": package_version(),
        "written": about.written,
        "level": about.level,
        "seeds": lineup.usual_seeds,
        "trust": {"queries": FEWEST_QUERIES, "varying": FEWEST_VARYING},
        "graph": graph and {"name": graph.name, "hash": graph.content_hash, "entities": graph.num_entities},
        "queries": len(lineup),
        "hasPopularity": weighted,
        "unweighed": None if weighted else unweighed(lineup),
        "hasLabels": graph is not None and graph.entity_labels is not None,
        "models": [_model(lineup, name, about, weighted) for name in lineup.models],
        "histogram": {"bins": list(HISTOGRAM), "counts": [_histogram(run) for run in _runs(lineup)]},
        "findings": [finding_entry(finding) for finding in about.findings],
        "estimates": [estimate_entry(estimate) for estimate in comparison.estimates] if comparison else [],
        "differences": [difference_entry(difference) for difference in comparison.differences] if comparison else [],
        "notes": [*remarks(lineup, weighted=weighted), *about.notes],
        "reasons": [reasons_entry(reasons, lineup) for reasons in about.reasons],
        "openWorld": [world_entry(bench) for bench in about.benches.values()],
    }


def _widths(lineup: Lineup, level: float) -> dict[str, NDArray[np.float64]]:
    """Standard errors to either side of a value: in an interval, in the band of the decision map, and in a wider one.

    All are quantiles of the t distribution at 1 / freedom from 0 to 1, so close that lines may be drawn between them.
    """
    from scipy.special import ndtri

    with np.errstate(divide="ignore"):
        freedom = 1 / np.linspace(0, 1, _QUANTILES)
    single = float(ndtri((1 + level) / 2))
    band, wide = _bands(lineup, level)
    return {
        "quantiles": widened(single, freedom),
        "bands": widened(max(single, band), freedom),
        "wideBands": widened(max(single, band, wide), freedom),
    }


def _bands(lineup: Lineup, level: float) -> tuple[float, float]:
    """Of the paper's plane, and of the wider one; 0 where there is nothing to compare."""
    if len(lineup.models) == 1 or not all((run.candidates > 1).any() for run in _runs(lineup)):
        return 0.0, 0.0
    sample = lineup if len(lineup) <= _MOST_FOR_BAND else draw_sample(lineup, _MOST_FOR_BAND).of(lineup)
    popular = has_popularity(lineup)
    return (
        map_band(sample, level=level, popular=popular),
        map_band(sample, *_WIDE, level=level, popular=popular),
    )


def _runs(lineup: Lineup) -> list[Ranks]:
    return [run for own in lineup.runs.values() for run in own]


def _model(lineup: Lineup, name: str, about: About, weighted: bool) -> dict[str, Any]:
    own = lineup.runs[name]
    return {
        "name": name,
        "file": about.files.get(name, ""),
        "seeds": len(own),
        "protocol": [list(pair) for pair in protocol(own)],
        "epsilon": [_epsilon(own, column) for column in POPULARITY] if weighted else None,
        "singleCandidate": max(int((run.candidates == 1).sum()) for run in own),
        "notShared": lineup.left_out.get(name, 0),
    }


def _epsilon(own: Sequence[Ranks], column: str) -> float:
    """What is added to a popularity: the smallest of the evaluated queries of a model, over all its seeds."""
    return smallest_popularity(column, np.concatenate([run.numbers(column)[run.candidates > 1] for run in own]))


def _histogram(run: Ranks) -> list[int]:
    which = np.searchsorted(list(HISTOGRAM.values()), run.rank[run.candidates > 1])
    counts: NDArray[np.int64] = np.bincount(which, minlength=len(HISTOGRAM))
    return [int(count) for count in counts]
