"""The data of a report page, packed into bytes: ranks, protocol, findings, estimates and confidence bands."""

from __future__ import annotations

import gzip
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.aggregate.weights import resolve_epsilon
from kgprobe.audit import flags_of
from kgprobe.comparison.intervals import FEWEST_QUERIES, FEWEST_VARYING
from kgprobe.comparison.lineup import Lineup
from kgprobe.comparison.permutation_tests import different_candidates
from kgprobe.comparison.results import sampled
from kgprobe.comparison.unknown_ranks import verdicts
from kgprobe.decision import map_band, widened
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import End, Ranks
from kgprobe.ranks.metadata import RanksInfo, package_version
from kgprobe.ranks.schema import POPULARITY
from kgprobe.report.figures.style import looks
from kgprobe.report.grid import counted
from kgprobe.report.latex_tables import latex_text
from kgprobe.report.page.compression import compressed
from kgprobe.report.page.entries import (
    Reasons,
    difference_entry,
    estimate_entry,
    finding_entry,
    reasons_entry,
    world_entry,
)
from kgprobe.report.page.page_queries import Content, draw_sample, has_popularity, query_content

if TYPE_CHECKING:
    from kgprobe.audit import Finding
    from kgprobe.comparison.results import Comparison
    from kgprobe.openworld.benches import Bench

_ALIGNMENT = 8  # bytes: JavaScript's typed arrays must be aligned to the size of their numbers
_COMPRESSION_LEVEL = 6


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], steps: frozenset[str] = frozenset()) -> bytes:
    """A header and arrays as compressed bytes; the same input gives the same bytes.

    Args:
        header: JSON values; the position of each array is added under ``arrays``.
        arrays: Non-negative integers, stored in the smallest type that fits, or doubles.
        steps: Names of arrays that are stored as differences of neighbours, which compress better.

    Example:
        >>> packed = pack({"title": "mine"}, {"rank": np.array([1, 2]), "triple": np.array([4, 4, 5])}, {"triple"})
        >>> header, arrays = unpack(packed)
        >>> header, {name: (str(array.dtype), array.tolist()) for name, array in arrays.items()}
        ({'title': 'mine'}, {'rank': ('uint8', [1, 2]), 'triple': ('int32', [4, 4, 5])})
    """
    stored = {name: _steps(array) if name in steps else _narrow(array) for name, array in arrays.items()}
    places, body = {}, bytearray()
    for name, array in stored.items():
        places[name] = [array.dtype.str[1:], len(body), len(array), name in steps]
        body += array.astype(array.dtype.newbyteorder("<")).tobytes()
        body += bytes(-len(body) % _ALIGNMENT)
    # A file path may contain bytes that are not valid UTF-8.
    text = json.dumps({**header, "arrays": places}, ensure_ascii=False, allow_nan=False).encode(errors="replace")
    text += b" " * (-(len(text) + _ALIGNMENT) % _ALIGNMENT)
    return gzip.compress(len(text).to_bytes(_ALIGNMENT, "little") + text + bytes(body), _COMPRESSION_LEVEL, mtime=0)


def unpack(packed: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays of packed data, as the page reads them."""
    content = gzip.decompress(packed)
    start = _ALIGNMENT + int.from_bytes(content[:_ALIGNMENT], "little")
    header: dict[str, Any] = json.loads(content[_ALIGNMENT:start])
    arrays = {}
    for name, (kind, offset, length, stepped) in header.pop("arrays").items():
        array = np.frombuffer(content, f"<{kind}", length, start + offset)
        arrays[name] = np.cumsum(array, dtype=array.dtype) if stepped else array
    return header, arrays


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def _steps(array: NDArray[Any]) -> NDArray[Any]:
    return np.diff(array, prepend=0).astype(np.int32)


Pairs = list[tuple[str, str]]
_NOT_RECORDED = "not recorded"


def protocol(runs: Sequence[Ranks]) -> Pairs:
    """The evaluation protocol of a model: the metadata of its file, and counts of its ranks.

    Example:
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2.5], candidates=[9, 8],
        ...     info=RanksInfo(graph="tiny", filtered=("train", "test"), kgprobe="0.1"),
        ... )
        >>> for key, text in protocol([ranks]):
        ...     print(f"{key}: {text}")
        graph: tiny
        graph hash: not recorded
        split: not recorded
        filtered by: train+test
        filter hash: not recorded
        candidate set: not recorded
        ranked with: kgprobe 0.1
        seeds: one run
        queries: 2
        candidates: 8 to 9
        ties: ties get their mean rank; their number is not recorded
    """
    return [*_metadata(runs[0].info), *_counts(runs)]


def remarks(lineup: Lineup, *, weighted: bool) -> list[str]:
    """Notes on queries that are left out, and on unknown popularity.

    Example:
        >>> from kgprobe.comparison import line_up
        >>> ranks = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[1])
        >>> for remark in remarks(line_up({"mine": ranks}), weighted=False):
        ...     print(remark)
        mine: 1 query with a single candidate is left out of the scores.
        Every query of mine has a single candidate, so queries cannot be weighted by popularity.
    """
    notes = list(sampled(lineup))
    for model, runs in lineup.runs.items():
        single = max(int((run.candidates == 1).sum()) for run in runs)
        if single:
            number = counted(single, "query", "queries")
            notes.append(f"{model}: {number} with a single candidate {_are(single)} left out of the scores.")
        if other := lineup.left_out.get(model, 0):
            number = counted(other, "query", "queries")
            notes.append(f"{model}: {number} that not all models have {_are(other)} left out.")
    if not weighted:
        notes.append(unweighed(lineup))
    return notes


def unweighed(lineup: Lineup) -> str:
    """The reason why queries cannot be weighted by popularity."""
    evaluated = [(name, run.filter(run.candidates > 1)) for name, runs in lineup.runs.items() for run in runs]
    zero = [
        f"The {column.replace('_', ' ')} of all targets is recorded as 0 for {name}"
        for name, run in evaluated
        for column in POPULARITY
        if len(run) and not run.numbers(column).any()
    ]
    alone = [f"Every query of {name} has a single candidate" for name, run in evaluated if not len(run)]
    reason = (alone or zero or ["Popularity is not recorded for all targets"])[0]
    return f"{reason}, so queries cannot be weighted by {'popularity' if alone else 'it'}."


def _metadata(info: RanksInfo) -> Pairs:
    filtered = None if info.filtered is None else "+".join(info.filtered) or "nothing"
    texts = {
        "graph": info.graph,
        "graph hash": info.graph_hash,
        "split": info.split,
        "filtered by": filtered,
        "filter hash": info.filter_hash,
        "candidate set": _candidate_set(info),
        "ranked with": f"kgprobe {info.kgprobe}" if info.kgprobe else None,
    }
    recorded = [(key, text or _NOT_RECORDED) for key, text in texts.items()]
    settings = [(str(key), str(value)) for key, value in sorted(info.settings.items())]
    return [(key, without_folders(text)) for key, text in [*recorded, *settings]]


_ABSOLUTE = re.compile(r"""(?<![^\s'"(\[=,])(?:~|[A-Za-z]:)?[/\\][^\s'"()\[\],;]*[/\\]""")


def without_folders(text: str) -> str:
    """A text with the names of files instead of absolute paths, because a page is made to be shared.

    Example:
        >>> without_folders("/home/ada/ranks.parquet"), without_folders("a/b of ['/data/x.npz']")
        ('ranks.parquet', "a/b of ['x.npz']")
    """
    return _ABSOLUTE.sub("", text)


def _candidate_set(info: RanksInfo) -> str | None:
    candidates = info.candidates
    if candidates is None:
        return None
    return f"{candidates}, {candidates.basis}" + (f": {candidates.counted}" if candidates.counted else "")


def _counts(runs: Sequence[Ranks]) -> Pairs:
    first = runs[0]
    seeds = [int(run.seed[0]) for run in runs if run.seed is not None]
    pairs = {
        "seeds": ", ".join(map(str, seeds)) or "one run",
        "queries": f"{len(first):,}",
        "candidates": _range(min(run.candidates.min() for run in runs), max(run.candidates.max() for run in runs)),
        "ties": _ties(runs),
    }
    return list(pairs.items())


def _ties(runs: Sequence[Ranks]) -> str:
    known = sum(int((~np.isnan(run.ties)).sum()) for run in runs)
    tied = sum(int((run.ties > 0).sum()) for run in runs)
    share = f"{tied / known:.2%} of the ranks are tied" if known else "their number is not recorded"
    return f"ties get their mean rank; {share}"


def _range(least: float, most: float) -> str:
    return f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


HISTOGRAM = {"1": 1.0, "2": 2.0, "3-10": 10.0, "11-100": 100.0, "101-1,000": 1000.0, ">1,000": math.inf}
"""The paper's rank bins by upper end; a fractional mean rank of ties belongs to the next bin."""

MOST_RANKS = 2_500_000  # with more ranks over all runs they are compressed, so that the sliders stay responsive
MOST_BYTES = 18_000_000  # of packed data: the whole page stays below 30 MB
_WIDE = ((-5.0, 5.0), (-2.0, 2.0))  # the wide ranges of alpha and beta on the page
_QUANTILES = 1025
_MOST_FOR_BAND = 200_000


@dataclass(frozen=True)
class About:
    """The content of a page besides the ranks.

    Attributes:
        title: The title.
        command: The command that wrote the page.
        written: The date.
        level: Confidence level of the intervals.
        graph: The graph, for labels of entities and relations.
        files: The rank file of each model.
        findings: The findings of the audit.
        comparison: Estimates and differences by the tested metrics.
        notes: Additional notes, one sentence each.
        benches: Open-world benchmarks by name.
        reasons: Explanations of rule-based models.
        allow_different_candidates: Whether differences between models with different candidate sets can be
            significant.
        at: The end at which ranks that are intervals were taken; None where there are none.
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
    allow_different_candidates: bool = False
    at: End | None = None


_INTERVALS = (
    "Some ranks of {} are intervals. Scores, charts and the map of this page use the worst end of each; the estimates "
    "and differences of the metrics are ranges over all ranks that the intervals allow."
)


@dataclass(frozen=True)
class Payload:
    """The data of a page."""

    packed: bytes
    remarks: list[str]


def payload(lineup: Lineup, about: About) -> Payload:
    """The data of a page: all ranks, or compressed ranks if there are too many.

    Ranks that are intervals are taken at their worst end; the comparison has the ranges of values.

    Example:
        >>> from kgprobe.comparison import line_up
        >>> ranks = Ranks.from_columns(
        ...     head=[7, 7], relation=[0, 0], tail=[9, 9], side=["head", "tail"], rank=[1, 2.5], candidates=[9, 8]
        ... )
        >>> header, arrays = unpack(payload(line_up({"mine": ranks}), About(title="Mine")).packed)
        >>> header["title"], header["models"][0]["name"], header["queries"], header["hasPopularity"]
        ('Mine', 'mine', 2, False)
    """
    if lineup.worst:
        notes = [*about.notes, _INTERVALS.format(", ".join(lineup.worst))]
        about = replace(about, notes=notes, at=End.worst)
        lineup = lineup.at(End.worst)
    described = Content(_header(lineup, about), _widths(lineup, about.level))
    for queries in _versions(lineup, about.graph, [model["epsilon"] for model in described.header["models"]]):
        content = described | queries
        content.header["latex"] = _latex_letters(content.header)
        packed = pack(content.header, content.arrays, content.steps)
        if len(packed) <= MOST_BYTES:
            break
    compression = content.header["compression"]
    return Payload(packed, [*content.header["notes"], *([compression] if compression else [])])


def _versions(
    lineup: Lineup, graph: KnowledgeGraph | None, epsilons: Sequence[Sequence[float] | None]
) -> Iterator[Content]:
    """The exact queries if they are few enough, then ever smaller compressed versions."""
    if len(lineup) * len(_runs(lineup)) <= MOST_RANKS:
        exact = Content({"exact": True, "compression": None})
        yield query_content(lineup, graph, epsilons[0] is not None) | exact
    yield from compressed(lineup, graph, epsilons)


def _header(lineup: Lineup, about: About) -> dict[str, Any]:
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
        "at": None if about.at is None else str(about.at),
        "hasPopularity": weighted,
        "unweighed": None if weighted else unweighed(lineup),
        "hasLabels": graph is not None and (graph.entity_labels is not None or graph.entity_names is not None),
        "models": [_model(lineup, name, about, weighted) for name in lineup.models],
        "histogram": {
            "bins": list(HISTOGRAM),
            "limits": list(HISTOGRAM.values())[:-1],
            "counts": [_histogram(run) for run in _runs(lineup)],
        },
        "findings": [finding_entry(_naming_files(finding, about.files)) for finding in about.findings],
        "estimates": [estimate_entry(estimate) for estimate in comparison.estimates] if comparison else [],
        "differences": [difference_entry(difference) for difference in comparison.differences] if comparison else [],
        "family": comparison.family if comparison and comparison.differences else None,
        "verdicts": list(verdicts(comparison)) if comparison else [],
        "notes": [*remarks(lineup, weighted=weighted), *about.notes],
        "reasons": [reasons_entry(reasons, lineup) for reasons in about.reasons],
        "openWorld": [world_entry(bench) for bench in about.benches.values()],
    }


def _naming_files(finding: Finding, files: Mapping[str, str]) -> Finding:
    """The finding with the names of the rank files instead of their paths."""
    message = finding.message
    for path in files.values():
        message = message.replace(path, Path(path).name)
    return replace(finding, message=message)


_PAGE_SIGNS = '&%$#_{}\\~^`<>|"[]*\N{MINUS SIGN}\N{EN DASH}\N{PLUS-MINUS SIGN}'


def _latex_letters(header: Mapping[str, Any]) -> dict[str, str]:
    """LaTeX of the characters that the tables of the page may contain, where it differs from the character.

    The page writes other characters as code points, as `latex_text` does.
    """
    names = [model["name"] for model in header["models"]] + [estimate["metric"] for estimate in header["estimates"]]
    listed = [text for key in ("bandWords", "entities", "relations") for text in header.get(key, ())]
    letters = sorted(set(unicodedata.normalize("NFC", "".join([_PAGE_SIGNS, *names, *listed]))) - {"\0"})
    found = {letter: latex_text(letter) for letter in letters}
    return {letter: text for letter, text in found.items() if text != letter and "texttt{U+" not in text}


def _widths(lineup: Lineup, level: float) -> dict[str, NDArray[np.float64]]:
    """Critical values of an interval, of the band of the decision map and of the band of the wide map.

    Each is a table over 1 / degrees of freedom from 0 to 1, fine enough for linear interpolation.
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
    """Simultaneous critical values of the paper's plane and of the wide one; 0 if there is nothing to compare."""
    if len(lineup.models) == 1 or not all((run.candidates > 1).any() for run in _runs(lineup)):
        return 0.0, 0.0
    sample = lineup if len(lineup) <= _MOST_FOR_BAND else draw_sample(lineup, _MOST_FOR_BAND).of(lineup)
    popular = has_popularity(lineup)
    return (map_band(sample, level=level, popular=popular), map_band(sample, *_WIDE, level=level, popular=popular))


def _runs(lineup: Lineup) -> list[Ranks]:
    return [run for own in lineup.runs.values() for run in own]


def _model(lineup: Lineup, name: str, about: About, weighted: bool) -> dict[str, Any]:
    own = lineup.runs[name]
    look = looks(lineup.models)[name]
    return {
        "name": name,
        "colour": look.colour,
        "marker": look.marker,
        "file": Path(about.files.get(name, "")).name,
        "seeds": len(own),
        "protocol": [list(pair) for pair in protocol(own)],
        "epsilon": [_epsilon(own, column) for column in POPULARITY] if weighted else None,
        "singleCandidate": max(int((run.candidates == 1).sum()) for run in own),
        "notShared": lineup.left_out.get(name, 0),
        "flag": _flag(lineup, name, about),
        "untested": [] if about.allow_different_candidates else _untested(lineup, name),
    }


def _flag(lineup: Lineup, name: str, about: About) -> dict[str, Any] | None:
    """What the audit has against a model: the most severe reason in one sentence, and whether it is an error."""
    flag = flags_of(about.findings, common=any(lineup.left_out.values())).get(name)
    return None if flag is None else {"error": flag.error, "reason": flag.reasons[0]}


def _untested(lineup: Lineup, name: str) -> list[int]:
    """The positions of the models that have other candidate sets, and are therefore not tested against a model."""
    at = lineup.models.index(name)
    return [other for one, other in different_candidates(lineup) if one == at]


def _epsilon(own: Sequence[Ranks], column: str) -> float:
    """The epsilon of a popularity: the smallest non-zero one among the evaluated queries of all seeds of a model."""
    return resolve_epsilon(column, np.concatenate([run.numbers(column)[run.candidates > 1] for run in own]))


def _histogram(run: Ranks) -> list[int]:
    which = np.searchsorted(list(HISTOGRAM.values()), run.rank[run.candidates > 1])
    counts: NDArray[np.int64] = np.bincount(which, minlength=len(HISTOGRAM))
    return [int(count) for count in counts]
