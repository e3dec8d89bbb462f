"""Were all files ranked against the same candidates, and which filter explains the counts?"""

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

Counts = NDArray[np.int32]


@dataclass(frozen=True)
class Convention:
    """A way to count the candidates of a query.

    Attributes:
        filtered: The splits whose facts are no candidates.
        offset: How many candidates there are more than that filter leaves, in every query.
        swapped: Whether the count is that of the other side of the triple.

    Example:
        >>> str(Convention(("train",))), str(Convention(("train", "valid"), offset=-1))
        ('filtered by train only', 'filtered by train+valid, with one too few candidates everywhere')
    """

    filtered: tuple[str, ...]
    offset: int = 0
    swapped: bool = False

    def __str__(self) -> str:
        only = " only" if len(self.filtered) == 1 else ""
        name = f"filtered by {'+'.join(self.filtered)}{only}" if self.filtered else "unfiltered"
        return name + self.oddities

    @property
    def oddities(self) -> str:
        """What deviates besides the filter."""
        amount = {-1: "one too few", 1: "one too many"}.get(
            self.offset, f"{abs(self.offset):,} too {'few' if self.offset < 0 else 'many'}"
        )
        offset = f", with {amount} candidates everywhere" if self.offset else ""
        return (", with head and tail side swapped" if self.swapped else "") + offset


@dataclass(frozen=True)
class Fit:
    """How well a convention explains some counts."""

    convention: Convention
    explained: int
    rows: int

    @property
    def share(self) -> float:
        """The share of rows that it explains."""
        return self.explained / self.rows if self.rows else 1.0


class Recount:
    """The candidates of the queries under every convention, counted again from the graph when asked for.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2]], test=[[0, 0, 3]])
        >>> queries = AuditQueries(np.array([0]), np.array([0]), np.array([3]), np.array([True]))
        >>> counted = Recount(graph, queries)
        >>> counted.left(("train",)).tolist(), counted.left(()).tolist()
        ([2], [4])
        >>> str(counted.best(np.array([3.0]), np.array([True]), ("train", "test")).convention)
        'filtered by train+test, with one too many candidates everywhere'
    """

    def __init__(self, graph: KnowledgeGraph, queries: AuditQueries) -> None:
        self.graph, self.queries = graph, queries
        self._left = cache(self._count)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that can be filtered by."""
        return tuple(split for split in SPLITS if split in self.graph.splits)

    def left(self, filtered: tuple[str, ...], swapped: bool = False) -> Counts:
        """How many candidates a filter leaves in each query."""
        return self._left(filtered, swapped)

    def _count(self, filtered: tuple[str, ...], swapped: bool) -> Counts:
        left = np.full(len(self.queries), self.graph.num_entities, dtype=np.int32)
        if filtered:
            side = self.queries.predicts_tail ^ swapped
            left -= self.graph.known_answers(*filtered).others(*self.queries.triples, side).astype(np.int32)
        return left

    def fit(self, candidates: Floats, rows: Flags, filtered: tuple[str, ...], swapped: bool = False) -> Fit:
        """The most frequent offset from what a filter leaves; none, where it is as frequent as any."""
        values, counts = np.unique((candidates - self.left(filtered, swapped))[rows], return_counts=True)
        if not len(values):
            return Fit(Convention(filtered, 0, swapped), 0, 0)
        top = max(range(len(values)), key=lambda i: (counts[i], values[i] == 0, -abs(values[i])))
        return Fit(Convention(filtered, int(values[top]), swapped), int(counts[top]), int(counts.sum()))

    def best(self, candidates: Floats, rows: Flags, due: tuple[str, ...]) -> Fit:
        """The convention that explains most rows; the one that is due, or else the least odd, where several do."""
        fits = [self.fit(candidates, rows, *hypothesis) for hypothesis in self._hypotheses(due)]
        return max(fits, key=lambda fit: (fit.explained, fit.convention.offset == 0, not fit.convention.swapped))

    def _hypotheses(self, due: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
        subsets = [names for size in range(len(self.splits) + 1) for names in combinations(self.splits, size)]
        # What several filters explain is taken for the one that is due, or else for the likeliest mistake.
        likely = [due, *(self.splits[:size] for size in range(len(self.splits)))]
        ordered = [*dict.fromkeys(likely), *(names for names in subsets if names not in likely)]
        yield from ((names, False) for names in ordered)
        yield from ((names, True) for names in ordered if names)


_KIND = "candidates"


def compare_candidates(view: View, models: list[str]) -> Iterator[Finding]:
    """Hold the counts of each file against those that most files have.

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
    found = [finding for i in range(len(models)) if (finding := _unlike_the_rest(models, table, i))]
    yield from found or _all_different(models, table)


def one_off_the_others(view: View, model: str) -> bool:
    """Whether a file has one candidate more, or one fewer, than the middle of the other files has, everywhere."""
    others = [_counts(runs) for name, runs in view.runs.items() if name != model]
    if not others:
        return False
    difference = _counts(view.runs[model]) - _lower_median(np.stack(others))
    return set(difference[~np.isnan(difference)].tolist()) in ({-1.0}, {1.0})


def _unlike_the_rest(models: list[str], table: Floats, which: int) -> Finding | None:
    own, others = table[which], np.delete(table, which, axis=0)
    middle = _lower_median(others)
    known = ~np.isnan(own) & ~np.isnan(middle)
    agreed = known & _agreement(others, middle)
    difference = (own - middle)[agreed]
    # Others that agree here and there by chance are no majority.
    blamed = (difference != 0).any() and 2 * agreed.sum() > known.sum()
    return _unlike(models[which], difference) if blamed else None


def _all_different(models: list[str], table: Floats) -> Iterator[Finding]:
    """Counts that differ where no two files agree, so that nobody can say who is right."""
    known = ~np.isnan(table)
    low, high = (edge(np.where(known, table, worst), axis=0) for edge, worst in ((np.min, np.inf), (np.max, -np.inf)))
    if count := int((low < high).sum()):
        yield Finding(
            tuple(models),
            _KIND,
            f"the files have different numbers of candidates in {count:,} of {table.shape[1]:,} queries, and no two "
            "are alike; give --graph to name the filters, and rank all files with the same one",
            Severity.error,
            count,
        )


def _counts(runs: tuple[AuditedRun, ...]) -> Floats:
    counts = np.full(len(runs[0].has), np.nan)
    for run in runs:
        counts = np.where(np.isnan(counts), run.candidates, counts)
    return counts


def _lower_median(table: Floats) -> Floats:
    """The middle count of each query, the smaller of two: a count that some file has."""
    ordered = np.sort(table, axis=0)  # NaN comes last
    known = (~np.isnan(table)).sum(axis=0)
    middle = np.maximum((known - 1) // 2, 0)
    return np.asarray(np.take_along_axis(ordered, middle[None], axis=0)[0])


def _agreement(table: Floats, middle: Floats) -> Flags:
    """Where more than half of the files have the middle count, so that it is clear who differs."""
    return np.asarray((table == middle).sum(axis=0) * 2 > (~np.isnan(table)).sum(axis=0))


def _unlike(model: str, difference: Floats) -> Finding:
    off = difference != 0
    constant = len(set(difference.tolist())) == 1
    if constant:
        how = f"{Convention((), int(difference[0])).oddities.removeprefix(', with ')}, against the other files"
    else:
        more = difference[off].mean()
        word, filtered = ("more", "less") if more > 0 else ("fewer", "more")
        how = f"{abs(more):.1f} {word} candidates on average than the other files: filtered by {filtered}"
    return Finding(
        (model,),
        _KIND,
        f"{how} ({int(off.sum()):,} of {len(difference):,} queries differ); give --graph to name the filter, "
        "and rank all files with the same one",
        Severity.error,
        int(off.sum()),
    )


def _pair(models: list[str], table: Floats) -> Iterator[Finding]:
    difference = table[0] - table[1]
    difference = difference[~np.isnan(difference)]
    off = difference != 0
    if not off.any():
        return
    first, second = models
    more, less = (first, second) if difference.sum() > 0 else (second, first)
    everywhere = (
        f"{abs(difference[0]):,.0f} more everywhere"
        if len(set(difference.tolist())) == 1
        else (f"{abs(difference[off].mean()):.1f} more on average in {int(off.sum()):,} of {len(difference):,} queries")
    )
    yield Finding(
        (first, second),
        _KIND,
        f"{more} has more candidates than {less} ({everywhere}): it was filtered by less; give --graph to name the "
        "filters, and rank both with the same one",
        Severity.error,
        int(off.sum()),
    )


_ENOUGH = 0.9

"""A convention explains a file when it explains this share of its rows; the rest are rows that none explains."""


def check_candidates(view: View) -> Iterator[Finding]:
    """Name the convention of every file whose candidate counts are not those of the usual filter.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.graph import KnowledgeGraph
        >>> from kgprobe.ranks import Ranks
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]])
        >>> raw = Ranks.from_columns(
        ...     head=[0, 0], relation=[0, 0], tail=[2, 2], side=["tail", "head"], rank=[1, 1], candidates=[3, 3]
        ... )
        >>> print(next(check_candidates(prepare({"raw": raw}, graph))).message)
        unfiltered: the candidates of 1 of 2 rows are not those that filtering by train+test leaves; rank again with ...
    """
    counted = recountable(view)
    if counted:
        yield from _against_graph(view, Recount(view.graph, view.queries), counted)  # type: ignore[arg-type]
    others = [model for model in view.models if model not in counted]
    if not counted or len(others) > 1:
        yield from compare_candidates(view, [model for model in view.models if not counted or model in others])


def one_off(view: View, model: str) -> bool:
    """Whether a file has one candidate too many, or too few, in nearly all rows."""
    if model not in recountable(view):
        return one_off_the_others(view, model)
    recount = Recount(view.graph, view.queries)  # type: ignore[arg-type]
    usual = _usual(view, recount)
    convention = _verdict(view, recount, model, usual, _claim(view, recount, model)).convention
    return convention in (Convention(usual, -1), Convention(usual, 1))


def recountable(view: View) -> list[str]:
    """The models whose candidates the graph can tell: not those with extra triples or given candidates."""
    graph = view.graph
    if graph is None or not graph.has_train:
        return []
    return [
        model
        for model, info in view.info.items()
        if "candidates" not in info.settings and set(info.filtered or ()) <= set(graph.splits)
    ]


@dataclass(frozen=True)
class _Verdict:
    """What the candidates of a file are, side by side."""

    model: str
    sides: Mapping[str, Fit]
    off: int
    rows: int
    seeds: str
    """Which runs deviate, where it is not all of them."""

    @property
    def convention(self) -> Convention | None:
        """The convention of both sides; None where they differ or none explains them."""
        found = {fit.convention for fit in self.sides.values()}
        clear = all(fit.share >= _ENOUGH for fit in self.sides.values())
        return found.pop() if len(found) == 1 and clear else None

    @property
    def unexplained(self) -> int:
        """Rows that no convention explains."""
        return sum(fit.rows - fit.explained for fit in self.sides.values())


def _against_graph(view: View, recount: Recount, models: list[str]) -> Iterator[Finding]:
    usual = _usual(view, recount)
    claims = {model: _claim(view, recount, model) for model in models}
    verdicts = {model: _verdict(view, recount, model, usual, claims[model]) for model in models}
    shared = {verdict.convention for verdict in verdicts.values()}
    alike = len(shared) == 1 and len(view.models) == len(models)
    for model, verdict in verdicts.items():
        claimed, convention = claims[model], verdict.convention
        believable = claimed is None or _off(recount, view.runs[model], claimed.filtered) == [0] * len(view.runs[model])
        if convention == Convention(usual) and (believable or claimed == convention):
            yield from _odd_rows(verdict, usual)
            continue
        if convention is not None and claimed == convention and alike:
            yield Finding(
                (model,),
                _KIND,
                f"{convention}, as the file says; the usual filter is {'+'.join(usual)}",
                Severity.note,
                verdict.off,
            )
            continue
        yield _deviation(recount, verdict, usual, claimed)


def _usual(view: View, recount: Recount) -> tuple[str, ...]:
    """The filter that is usual for the split."""
    last = SPLITS.index(due_split(view))
    return tuple(split for split in recount.splits if SPLITS.index(split) <= last)


def _claim(view: View, recount: Recount, model: str) -> Convention | None:
    """What a file says of its filter."""
    claim = view.info[model].filtered
    return None if claim is None else Convention(tuple(split for split in recount.splits if split in claim))


def _off(recount: Recount, runs: tuple[AuditedRun, ...], splits: tuple[str, ...]) -> list[int]:
    """How many rows of every run have other candidates than a filter leaves."""
    return [int((run.candidates[run.has] != recount.left(splits)[run.has]).sum()) for run in runs]


def _verdict(view: View, recount: Recount, model: str, usual: tuple[str, ...], claimed: Convention | None) -> _Verdict:
    """One convention for both sides, unless one for each explains more rows: one of them may be the odd one.

    The usual filter is believed first and then what the file says, for on few rows several may explain the same counts.
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
    seeds = f"seed {', '.join(odd)} alone: " if len(odd) < len(runs) else ""
    both = {"both": _explained(recount, runs, tail | ~tail, usual)}
    apart = {"head": _explained(recount, runs, ~tail, usual), "tail": _explained(recount, runs, tail, usual)}
    better = sum(fit.explained for fit in apart.values()) > both["both"].explained
    return _Verdict(model, apart if better else both, off, rows, seeds)


def _explained(recount: Recount, runs: tuple[AuditedRun, ...], queries: Flags, usual: tuple[str, ...]) -> Fit:
    """The convention of the run that deviates most, and how many rows the conventions of all runs explain."""
    fits = [recount.best(run.candidates, run.has & queries, usual) for run in runs]
    odd = next((fit.convention for fit in fits if fit.convention != Convention(usual)), Convention(usual))
    return Fit(odd, sum(fit.explained for fit in fits), sum(fit.rows for fit in fits))


def _odd_rows(verdict: _Verdict, usual: tuple[str, ...]) -> Iterator[Finding]:
    if verdict.off:
        yield Finding(
            (verdict.model,),
            _KIND,
            f"{verdict.seeds}{verdict.off:,} of {verdict.rows:,} rows have candidates that no filter explains; all "
            f"others are filtered by {'+'.join(usual)}",
            Severity.error,
            verdict.off,
        )


def _deviation(recount: Recount, verdict: _Verdict, usual: tuple[str, ...], claimed: Convention | None) -> Finding:
    name = _named(recount, verdict)
    counts = f"the candidates of {verdict.off:,} of {verdict.rows:,} rows are not those that filtering by "
    counts += f"{'+'.join(usual) or 'nothing'} leaves"
    said = "" if claimed in (None, verdict.convention) else f", though the file says that it is {claimed}"
    odd = verdict.unexplained
    rest = f"; {odd:,} rows fit no filter at all" if odd and verdict.convention is not None else ""
    remedy = "; rank again with the usual filter, or compare only files with the same one"
    return Finding(
        (verdict.model,), _KIND, f"{verdict.seeds}{name}{said}: {counts}{rest}{remedy}", Severity.error, verdict.off
    )


def _named(recount: Recount, verdict: _Verdict) -> str:
    convention = verdict.convention
    if convention is not None:
        return _with_cause(recount, convention)
    named = {
        side: _with_cause(recount, fit.convention) if fit.share >= _ENOUGH else "explained by no filter"
        for side, fit in verdict.sides.items()
    }
    if len(set(named.values())) == 1:
        return "explained by no filter"
    return ", ".join(f"{side} side {name}" for side, name in named.items())


def _with_cause(recount: Recount, convention: Convention) -> str:
    """A convention and what may lie behind its offset."""
    offset = convention.offset
    if not convention.filtered and offset < -1:
        return f"exactly {recount.graph.num_entities + offset:,} candidates in every query (a sample?)"
    unseen = int((entity_degrees(recount.graph.triples("train"), recount.graph.num_entities) == 0).sum())
    causes = {
        -unseen: " (as many as there are entities that train does not contain)",
        0: "",
        -1: " (the target itself was removed, or is not counted)",
        1: " (something is counted twice)",
    }
    return str(convention) + causes.get(offset, " (another list of entities?)")
