"""Candidate counts: were all files ranked against the same candidates, and which filter explains the counts?

With a graph, the candidates of each query are counted again under every filter. Without one, the files are compared
with each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Flags, Floats
from kgprobe.audit.query_sets import due_split
from kgprobe.audit.view import AuditedRun, AuditQueries, Finding, Severity, View
from kgprobe.graph import SPLITS, KnowledgeGraph
from kgprobe.graph.popularity import entity_degrees
from kgprobe.ranks import Basis, CandidatesInfo, RanksInfo

Counts = NDArray[np.int32]

_KIND = "candidates"
_NAMED = 3
_SAME_CANDIDATES = "Rank all files with the same candidates."
_ENOUGH = 0.9  # a convention explains a file if it explains this share of its rows


@dataclass(frozen=True)
class Convention:
    """A way to count the candidates of a query.

    Attributes:
        filtered: The splits whose triples are filtered.
        offset: Number of candidates in excess of what that filter leaves, the same in every query.
        swapped: Whether the count is that of the other side of the triple.

    Example:
        >>> str(Convention(("train",))), str(Convention(("train", "valid"), offset=-1))
        ('filtered by train only', 'filtered by train+valid, with one too few candidates in every query')
    """

    filtered: tuple[str, ...]
    offset: int = 0
    swapped: bool = False

    def __str__(self) -> str:
        only = " only" if len(self.filtered) == 1 else ""
        name = f"filtered by {'+'.join(self.filtered)}{only}" if self.filtered else "unfiltered"
        name += ", with head and tail side swapped" if self.swapped else ""
        return name + (f", with {_offset_text(self.offset)}" if self.offset else "")


def _offset_text(offset: int) -> str:
    other = f"{abs(offset):,} too {'few' if offset < 0 else 'many'}"
    return {-1: "one too few", 1: "one too many"}.get(offset, other) + " candidates in every query"


@dataclass(frozen=True)
class Fit:
    """How many of the rows a convention explains."""

    convention: Convention
    explained: int
    rows: int

    @property
    def share(self) -> float:
        return self.explained / self.rows if self.rows else 1.0


class Recount:
    """Candidate counts of the queries under every convention, counted from the graph and cached.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2]], test=[[0, 0, 3]])
        >>> queries = AuditQueries(np.array([0]), np.array([0]), np.array([3]), np.array([True]))
        >>> counted = Recount(graph, queries)
        >>> counted.left(("train",)).tolist(), counted.left(()).tolist()
        ([2], [4])
        >>> str(counted.best(np.array([3.0]), np.array([True]), ("train", "test")).convention)
        'filtered by train+test, with one too many candidates in every query'
    """

    def __init__(self, graph: KnowledgeGraph, queries: AuditQueries) -> None:
        self.graph, self.queries = graph, queries
        self.splits = tuple(split for split in SPLITS if split in graph.splits)
        self.left = cache(self._left)

    def _left(self, filtered: tuple[str, ...], swapped: bool = False) -> Counts:
        """How many candidates a filter leaves in each query."""
        left = np.full(len(self.queries), self.graph.num_entities, dtype=np.int32)
        if filtered:
            side = self.queries.predicts_tail ^ swapped
            left -= self.graph.known_answers(*filtered).others(*self.queries.triples, side).astype(np.int32)
        return left

    def fit(self, candidates: Floats, rows: Flags, filtered: tuple[str, ...], swapped: bool = False) -> Fit:
        """Fit a filter with its most frequent offset; of equally frequent offsets, with the smallest."""
        values, counts = np.unique((candidates - self.left(filtered, swapped))[rows], return_counts=True)
        if not len(values):
            return Fit(Convention(filtered, 0, swapped), 0, 0)
        top = max(range(len(values)), key=lambda i: (counts[i], values[i] == 0, -abs(values[i])))
        return Fit(Convention(filtered, int(values[top]), swapped), int(counts[top]), int(counts.sum()))

    def best(self, candidates: Floats, rows: Flags, usual: tuple[str, ...]) -> Fit:
        """The convention that explains most rows; of several, the usual one, or else the simplest."""
        fits = [self.fit(candidates, rows, *hypothesis) for hypothesis in self._hypotheses(usual)]
        return max(fits, key=lambda fit: (fit.explained, fit.convention.offset == 0, not fit.convention.swapped))

    def _hypotheses(self, usual: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Filters to try, likely mistakes first: of filters that explain equally many rows, the first is chosen."""
        subsets = [names for size in range(len(self.splits) + 1) for names in combinations(self.splits, size)]
        likely = [usual, *(self.splits[:size] for size in range(len(self.splits)))]
        ordered = [*dict.fromkeys(likely), *(names for names in subsets if names not in likely)]
        yield from ((names, False) for names in ordered)
        yield from ((names, True) for names in ordered if names)


def check_candidates(view: View) -> Iterator[Finding]:
    """Files whose candidate counts are not those of the usual filter, with the convention that explains them.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.graph import KnowledgeGraph
        >>> from kgprobe.ranks import Ranks
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]])
        >>> raw = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[2, 2], side=["tail", "head"], rank=[1, 1], candidates=[3, 3]
        ... )
        >>> print(next(check_candidates(prepare({"raw": raw}, graph))).message)
        Unfiltered: 1 of 2 rows have other candidate counts than filtering by train+test leaves. Rank again with ...
    """
    counted = recountable(view)
    if counted:
        yield from _against_graph(view, Recount(view.graph, view.queries), counted)  # type: ignore[arg-type]
    others = [model for model in view.models if model not in counted]
    alike: dict[CandidatesInfo | None, list[str]] = {}
    for model in others:
        alike.setdefault(view.info[model].candidates if view.info[model].sample else None, []).append(model)
    for models in alike.values():  # those of different samples are reported as such
        if not counted or len(models) > 1:
            yield from compare_candidates(view, models)


def check_samples(view: View) -> Iterator[Finding]:
    """Files whose candidates are a sample, where other files have all candidates or another sample.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks, SampleInfo
        >>> ranks = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
        >>> few = CandidatesInfo(Basis.given, "few.npz", sample=SampleInfo(8))
        >>> for finding in check_samples(prepare({"all": ranks, "few": ranks.with_info(candidates=few)}, None)):
        ...     print(finding.models, finding.message)
        ('few',) Sampled, 8 negatives, but all is ranked among all candidates: ranks among a sample are better, so ...
    """
    sampled = {model: info.candidates for model, info in view.info.items() if info.candidates and info.sample}
    full = [model for model in view.models if model not in sampled]
    if not sampled:
        return
    if full:
        for model, candidates in sampled.items():
            sample = candidates.sample
            assert sample is not None
            others = f"{', '.join(full[:_NAMED])}{' and others' if len(full) > _NAMED else ''}"
            why = (
                "their values have intervals that a comparison with exact ranks would ignore"
                if sample.estimates
                else "ranks among a sample are better, so that values cannot be compared"
            )
            are = "is" if len(full) == 1 else "are"
            message = f"{sample}, but {others} {are} ranked among all candidates: {why}. {_SAME_CANDIDATES}"
            yield Finding((model,), _KIND, _sentence(message), Severity.error)
        return
    kinds = {None if one.sample and one.sample.estimates else one for one in sampled.values()}
    if len(kinds) > 1:
        listed = "; ".join(f"{model}: {candidates}" for model, candidates in sampled.items())
        message = f"Candidates were sampled in different ways ({listed}): values cannot be compared. {_SAME_CANDIDATES}"
        yield Finding(tuple(sampled), _KIND, message, Severity.error)
        return
    for model, candidates in sampled.items():
        assert candidates.sample is not None
        yield Finding((model,), _KIND, _sentence(f"{candidates.sample.warning}."), Severity.note)


def one_off(view: View, model: str) -> bool:
    """Whether nearly all rows of a file have one candidate too many, or nearly all have one too few."""
    if model not in recountable(view):
        return _one_off_the_others(view, model)
    recount = Recount(view.graph, view.queries)  # type: ignore[arg-type]
    usual = _usual(view, recount)
    convention = _verdict(view, recount, model, usual, _claim(view, recount, model)).convention
    return convention in (Convention(usual, -1), Convention(usual, 1))


def explained_filters(view: View) -> dict[str, tuple[str, ...] | None]:
    """For each file, the splits that its counts or its metadata show to be filtered; None if they do not tell."""
    filters = {model: info.filtered for model, info in view.info.items()}
    if counted := recountable(view):
        recount = Recount(view.graph, view.queries)  # type: ignore[arg-type]
        usual = _usual(view, recount)
        for model in counted:
            verdict = _verdict(view, recount, model, usual, _claim(view, recount, model))
            convention = None if verdict.seeds else verdict.convention
            filters[model] = None if convention is None else convention.filtered
    return filters


def recountable(view: View) -> list[str]:
    """Models whose candidates can be counted from the graph: neither extra filter triples nor given candidates."""
    graph = view.graph
    if graph is None or not graph.has_train:
        return []
    return [
        model
        for model, info in view.info.items()
        if _basis(info) is not Basis.given and set(info.filtered or ()) <= set(graph.splits)
    ]


def _basis(info: RanksInfo) -> Basis | None:
    return None if info.candidates is None else info.candidates.basis


@dataclass(frozen=True)
class _Verdict:
    """The conventions that explain the counts of a file.

    Attributes:
        model: The model.
        sides: The best convention of "both" sides, or of "head" and "tail" separately.
        off: Number of rows whose counts differ from those of the usual filter.
        rows: Number of rows.
        seeds: Text that names the deviating runs; empty if all runs deviate.
    """

    model: str
    sides: Mapping[str, Fit]
    off: int
    rows: int
    seeds: str

    @property
    def convention(self) -> Convention | None:
        """The convention of both sides; None if the sides differ or no convention explains them."""
        conventions = {fit.convention for fit in self.sides.values()}
        clear = all(fit.share >= _ENOUGH for fit in self.sides.values())
        return conventions.pop() if len(conventions) == 1 and clear else None

    @property
    def unexplained(self) -> int:
        """Number of rows that no convention explains."""
        return sum(fit.rows - fit.explained for fit in self.sides.values())


def _against_graph(view: View, recount: Recount, models: list[str]) -> Iterator[Finding]:
    usual = _usual(view, recount)
    claims = {model: _claim(view, recount, model) for model in models}
    verdicts = {model: _verdict(view, recount, model, usual, claims[model]) for model in models}
    shared = {verdict.convention for verdict in verdicts.values()}
    alike = len(shared) == 1 and len(view.models) == len(models)
    for model, verdict in verdicts.items():
        claimed, convention = claims[model], verdict.convention
        believable = claimed is None or not any(_off(recount, view.runs[model], claimed.filtered))
        if convention == Convention(usual) and (believable or claimed == convention):
            if verdict.off:
                message = (
                    f"{verdict.seeds}{verdict.off:,} of {verdict.rows:,} rows have candidate counts that no filter "
                    f"explains. All other rows are filtered by {'+'.join(usual)}. Rank these queries again."
                )
                yield Finding((model,), _KIND, _sentence(message), Severity.error, verdict.off)
        elif convention is not None and claimed == convention and alike:
            how = "assumed at import" if _basis(view.info[model]) is Basis.assumed else "recorded in the metadata"
            message = f"{convention}, as {how}. The usual filter is {'+'.join(usual)}."
            yield Finding((model,), _KIND, _sentence(message), Severity.note, verdict.off)
        else:
            yield _deviation(recount, verdict, usual, claimed)


def _usual(view: View, recount: Recount) -> tuple[str, ...]:
    """The splits that are usually filtered when this split is ranked."""
    last = SPLITS.index(due_split(view))
    return tuple(split for split in recount.splits if SPLITS.index(split) <= last)


def _claim(view: View, recount: Recount, model: str) -> Convention | None:
    """The filter that the metadata of a file record."""
    claim = view.info[model].filtered
    return None if claim is None else Convention(tuple(split for split in recount.splits if split in claim))


def _off(recount: Recount, runs: tuple[AuditedRun, ...], splits: tuple[str, ...]) -> list[int]:
    """For each run, the number of rows whose candidate counts differ from those of a filter."""
    return [int((run.candidates[run.has] != recount.left(splits)[run.has]).sum()) for run in runs]


def _verdict(view: View, recount: Recount, model: str, usual: tuple[str, ...], claimed: Convention | None) -> _Verdict:
    """One convention for both sides, unless separate conventions explain more rows.

    The usual filter is tried first, then the recorded one: with few rows, several filters may explain the same counts.
    """
    tail = view.queries.predicts_tail
    runs = view.runs[model]
    offs = _off(recount, runs, usual)
    off, rows = sum(offs), sum(run.rows for run in runs)
    if not off:
        return _Verdict(model, {"both": Fit(Convention(usual), rows, rows)}, off, rows, "")
    if claimed is not None and not any(_off(recount, runs, claimed.filtered)):
        return _Verdict(model, {"both": Fit(claimed, rows, rows)}, off, rows, "")
    odd = [str(run.seed) for run, count in zip(runs, offs, strict=True) if count]
    seeds = f"seed {', '.join(odd)} only: " if len(odd) < len(runs) else ""
    both = {"both": _explained(recount, runs, tail | ~tail, usual)}
    apart = {"head": _explained(recount, runs, ~tail, usual), "tail": _explained(recount, runs, tail, usual)}
    better = sum(fit.explained for fit in apart.values()) > both["both"].explained
    return _Verdict(model, apart if better else both, off, rows, seeds)


def _explained(recount: Recount, runs: tuple[AuditedRun, ...], queries: Flags, usual: tuple[str, ...]) -> Fit:
    """The convention of the first unusual run, and how many rows the conventions of all runs explain."""
    fits = [recount.best(run.candidates, run.has & queries, usual) for run in runs]
    odd = next((fit.convention for fit in fits if fit.convention != Convention(usual)), Convention(usual))
    return Fit(odd, sum(fit.explained for fit in fits), sum(fit.rows for fit in fits))


def _deviation(recount: Recount, verdict: _Verdict, usual: tuple[str, ...], claimed: Convention | None) -> Finding:
    recorded = "" if claimed in (None, verdict.convention) else f", but the metadata record {claimed}"
    odd = verdict.unexplained if verdict.convention is not None else 0
    message = (
        f"{verdict.seeds}{_named(recount, verdict)}{recorded}: {verdict.off:,} of {verdict.rows:,} rows have other "
        f"candidate counts than filtering by {'+'.join(usual) or 'nothing'} leaves"
        f"{f'; no filter explains {odd:,} rows' if odd else ''}. "
        "Rank again with the usual filter, or compare only files with the same filter."
    )
    return Finding((verdict.model,), _KIND, _sentence(message), Severity.error, verdict.off)


def _named(recount: Recount, verdict: _Verdict) -> str:
    if verdict.convention is not None:
        return _with_cause(recount, verdict.convention)
    named = {
        side: _with_cause(recount, fit.convention) if fit.share >= _ENOUGH else "explained by no filter"
        for side, fit in verdict.sides.items()
    }
    if len(set(named.values())) == 1:
        return "explained by no filter"
    return ", ".join(f"{side} side {name}" for side, name in named.items())


def _with_cause(recount: Recount, convention: Convention) -> str:
    """A convention with the likely cause of its offset."""
    offset = convention.offset
    if not convention.filtered and offset < -1:
        return f"exactly {recount.graph.num_entities + offset:,} candidates in every query (sampled candidates?)"
    unseen = int((entity_degrees(recount.graph.triples("train"), recount.graph.num_entities) == 0).sum())
    causes = {
        -unseen: " (the number of entities that are not in train)",
        0: "",
        -1: " (the target was removed or not counted)",
        1: " (a candidate is counted twice)",
    }
    return str(convention) + causes.get(offset, " (another list of entities?)")


def compare_candidates(view: View, models: list[str]) -> Iterator[Finding]:
    """Files whose candidate counts differ from those of most other files.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(*candidates):
        ...     return Ranks.from_columns(
        ...         head=[0, 1], relation=[0, 0], tail=[1, 0], side=["tail"] * 2, rank=[1, 2], candidates=candidates
        ...     )
        >>> files = {"one": ranks(7, 8), "two": ranks(7, 8), "raw": ranks(9, 9)}
        >>> [finding.models for finding in compare_candidates(prepare(files, None), list(files))]
        [('raw',)]
    """
    if len(models) < 2:
        return
    table = np.stack([_counts(view.runs[model]) for model in models])
    if len(models) == 2:
        yield from _pair(models, table)
        return
    findings = [finding for i in range(len(models)) if (finding := _unlike_the_rest(models, table, i))]
    yield from findings or _all_different(models, table)


def _one_off_the_others(view: View, model: str) -> bool:
    """Whether a file has one candidate more, or one fewer, than the median of the other files in every query."""
    others = [_counts(runs) for name, runs in view.runs.items() if name != model]
    if not others:
        return False
    difference = _counts(view.runs[model]) - _lower_median(np.stack(others))
    return set(difference[~np.isnan(difference)].tolist()) in ({-1.0}, {1.0})


def _counts(runs: tuple[AuditedRun, ...]) -> Floats:
    counts = np.full(len(runs[0].has), np.nan)
    for run in runs:
        counts = np.where(np.isnan(counts), run.candidates, counts)
    return counts


def _lower_median(table: Floats) -> Floats:
    """The median count of each query, the smaller of two: always the count of some file."""
    ordered = np.sort(table, axis=0)  # NaN comes last
    known = (~np.isnan(table)).sum(axis=0)
    middle = np.maximum((known - 1) // 2, 0)
    return np.asarray(np.take_along_axis(ordered, middle[None], axis=0)[0])


def _unlike_the_rest(models: list[str], table: Floats, which: int) -> Finding | None:
    own, others = table[which], np.delete(table, which, axis=0)
    middle = _lower_median(others)
    known = ~np.isnan(own) & ~np.isnan(middle)
    # Only queries count in which more than half of the other files have the median count.
    agreed = known & ((others == middle).sum(axis=0) * 2 > (~np.isnan(others)).sum(axis=0))
    difference = (own - middle)[agreed]
    off = difference != 0
    if not off.any() or 2 * agreed.sum() <= known.sum():
        return None
    if len(set(difference.tolist())) == 1:
        how = f"{_offset_text(int(difference[0]))} compared with the other files"
    else:
        more = difference[off].mean()
        word, filtered = ("more", "fewer") if more > 0 else ("fewer", "more")
        how = f"{abs(more):.1f} {word} candidates on average than the other files: {filtered} triples were filtered"
    message = (
        f"{how} ({int(off.sum()):,} of {len(difference):,} queries differ). "
        "Give the graph to identify the filter, and rank all files with the same filter."
    )
    return Finding((models[which],), _KIND, _sentence(message), Severity.error, int(off.sum()))


def _all_different(models: list[str], table: Floats) -> Iterator[Finding]:
    """Counts that differ without a majority, so that no file can be singled out."""
    known = ~np.isnan(table)
    low, high = (edge(np.where(known, table, worst), axis=0) for edge, worst in ((np.min, np.inf), (np.max, -np.inf)))
    if count := int((low < high).sum()):
        message = (
            f"Candidate counts differ between the files in {count:,} of {table.shape[1]:,} queries, without a "
            "majority. Give the graph to identify the filters, and rank all files with the same filter."
        )
        yield Finding(tuple(models), _KIND, message, Severity.error, count)


def _pair(models: list[str], table: Floats) -> Iterator[Finding]:
    difference = table[0] - table[1]
    difference = difference[~np.isnan(difference)]
    off = difference != 0
    if not off.any():
        return
    more, less = models if difference.sum() > 0 else models[::-1]
    if len(set(difference.tolist())) == 1:
        how = f"{abs(difference[0]):,.0f} more in every query"
    else:
        how = f"{abs(difference[off].mean()):.1f} more on average in {int(off.sum()):,} of {len(difference):,} queries"
    message = (
        f"{more} has more candidates than {less} ({how}): fewer triples were filtered. "
        "Give the graph to identify the filters, and rank both files with the same filter."
    )
    yield Finding(tuple(models), _KIND, message, Severity.error, int(off.sum()))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
