"""Were all files ranked against the same candidates, and which filter left them?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kgprobe.compare.audit.conventions import Convention, Fit, Recount
from kgprobe.compare.audit.finding import Finding, Severity
from kgprobe.compare.audit.peers import compare_candidates, one_off_the_others
from kgprobe.compare.audit.queries import due_split
from kgprobe.compare.audit.view import Flags, Run, View
from kgprobe.graph import SPLITS
from kgprobe.graph.train_counts import entity_degrees

_KIND = "candidates"
_ENOUGH = 0.9
"""A convention explains a file when it explains this share of its rows; the rest are rows that none explains."""


def check_candidates(view: View) -> Iterator[Finding]:
    """Name the convention of every file whose candidate counts are not those of the usual filter.

    Example:
        >>> from kgprobe.compare.audit.view import prepare
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


def _off(recount: Recount, runs: tuple[Run, ...], splits: tuple[str, ...]) -> list[int]:
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


def _explained(recount: Recount, runs: tuple[Run, ...], queries: Flags, usual: tuple[str, ...]) -> Fit:
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
