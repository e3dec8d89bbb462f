"""Settings that no column shows: what an import assumed, and what ranks alone betray about filter and candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Flags, Floats, Ints, codes_of, pair_keys
from kgprobe.audit.candidate_counts import explained_filters
from kgprobe.audit.query_sets import due_split
from kgprobe.audit.view import AuditedRun, Finding, Severity, View
from kgprobe.ranks import Assumption, Basis, RanksInfo

_KIND = "candidates"
_ERROR = 1e-6
"""Largest probability that a sound file is accused by one of these tests."""


def check_assumptions(view: View) -> Iterator[Finding]:
    """Notes about imported files: what their import had to assume, which no check can verify.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import ImportInfo, Ranks
        >>> ranks = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
        >>> ranks = ranks.with_info(imported=ImportInfo(("a.csv",), "csv", assumed=(Assumption.zero_based,)))
        >>> print(next(iter(check_assumptions(prepare({"mine": ranks}, None)))).message)
        Assumed at import, not verified: the ranks of the file count from 0. No check can show that it is so. ...
    """
    for model, info in view.info.items():
        if assumed := _assumed(info):
            listed = "; ".join(one.meaning for one in assumed)
            filters = {Assumption.filtered, Assumption.unfiltered} & set(assumed)
            counted = info.candidates.counted if filters and info.candidates is not None else None
            message = (
                f"Assumed at import, not verified: {listed}{f'; candidates: {counted}' if counted else ''}. "
                "No check can show that it is so. Import the file with its candidate counts and ties, if there are any."
            )
            yield Finding((model,), "unverifiable", message, Severity.note)


def _assumed(info: RanksInfo) -> tuple[Assumption, ...]:
    """What the import of a file assumed; older files record only that the candidates were assumed."""
    if info.imported is not None and info.imported.assumed:
        return info.imported.assumed
    if info.candidates is not None and info.candidates.basis is Basis.assumed:
        return (Assumption.unfiltered if info.filtered == () else Assumption.filtered,)
    return ()


def check_implied_settings(view: View) -> Iterator[Finding]:
    """Files whose ranks betray another filter than they claim, or that they are ranks among sampled candidates."""
    due, filters = due_split(view), explained_filters(view)
    for model, runs in view.runs.items():
        yield from _shared_ranks(view, model, due, filters[model])
        yield from _sampled(model, runs)


@dataclass(frozen=True)
class _Neighbours:
    """The two best targets of each query with several targets, whose ranks are neighbours.

    Attributes:
        gap: Difference of their ranks.
        shared_first: Whether they certainly share the first place: both have rank 1, and no tie explains it.
        pair: A number for the two targets.
    """

    gap: Floats
    shared_first: Flags
    pair: Ints

    @classmethod
    def of(cls, view: View, run: AuditedRun) -> _Neighbours:
        rows = np.flatnonzero(~np.isnan(run.rank))
        queries = view.queries
        (query,) = codes_of(
            [[queries.given[rows], queries.relation[rows], queries.predicts_tail[rows].astype(np.int64)]]
        )
        rank, ties = run.rank[rows], np.nan_to_num(run.numbers("ties")[rows])
        order = np.lexsort((rank, query))
        query, rank, target, ties = query[order], rank[order], queries.target[rows][order], ties[order]
        again = query[1:] == query[:-1]
        best = np.flatnonzero(again & ~np.r_[False, again[:-1]])  # the first two of each query
        ends = np.sort(np.stack([target[best], target[best + 1]]), axis=0)
        return cls(
            rank[best + 1] - rank[best],
            (rank[best + 1] == 1) & (ties[best] == 0) & (ties[best + 1] == 0),
            pair_keys(ends[0], ends[1], int(queries.target.max(initial=0)) + 1),
        )

    def pairs_apart(self, gap: float) -> Ints:
        """The pairs of targets whose ranks differ by this much, each once."""
        return np.unique(self.pair[self.gap == gap])


def _shared_ranks(view: View, model: str, due: str, claimed: tuple[str, ...] | None) -> Iterator[Finding]:
    """Whether answers of one query share ranks as often as the filter that is claimed lets them.

    If the answers of the ranked split are filtered, two of them share a rank whenever no other candidate lies between
    them. If they are not, each is a candidate of the other's query, and they share a rank only if they tie.
    """
    own = [_Neighbours.of(view, run) for run in view.runs[model]]
    if claimed is None or due in claimed:
        yield from _never_shared(view, model, own, due)
        return
    first = sum(int(run.shared_first.sum()) for run in own)
    info = view.info[model].imported
    if first and not (info and Assumption.optimistic_ranks in info.assumed):
        name = f"filtered by {'+'.join(claimed)}" if claimed else "unfiltered"
        message = (
            f"Two answers of one query share rank 1 in {first:,} queries. Ranks that are {name}, as this file claims, "
            f"cannot do that: the answers of the {due} split were filtered, or the ranks are optimistic. "
            "Find out which filter and tie rule were used, and rank again."
        )
        yield Finding((model,), _KIND, message, Severity.warning, first)


def _never_shared(view: View, model: str, own: list[_Neighbours], due: str) -> Iterator[Finding]:
    """Ranks that are shared far less often than next to each other: the other answers took places of their own."""
    # Runs of one model, and queries with the same two targets, are no independent evidence: a pair counts once.
    shared, next_to = (
        len(np.unique(np.concatenate([run.pairs_apart(gap) for run in own]))) if own else 0 for gap in (0.0, 1.0)
    )
    if _at_most_half(shared, shared + next_to) > _ERROR:
        return
    message = (
        f"Answers of one query hardly ever share a rank: {shared:,} pairs do, and {next_to:,} are one rank apart. If "
        f"answers of the {due} split were filtered, they would share ranks at least as often (probability below "
        f"{_ERROR:g}). The ranks are unfiltered, or filtered by train (and valid) only. Rank again with the usual "
        "filter, or say which filter was used."
    )
    yield Finding((model,), _KIND, message, Severity.warning, sum(len(run.gap) for run in own))


def _at_most_half(successes: int, trials: int) -> float:
    """Upper bound (Hoeffding) of the probability of so few successes, if each has probability 1/2 or more.

    Example:
        >>> _at_most_half(0, 40) < 1e-6 < _at_most_half(10, 40)
        True
    """
    if not trials or 2 * successes >= trials:
        return 1.0
    return math.exp(-2 * trials * (0.5 - successes / trials) ** 2)


_LAST = 0.1  # of the largest rank: the width of the last bin below it, and of the bin beyond it
_HALVED = 1.5  # 1 / (1 - 1/3): if the density at most halves, a rank of the two bins lies beyond with probability 1/3
_SPREAD = 0.8  # of the distinct values that ranks by chance would have
_TIED = 0.05  # half-integers beyond this share are mean ranks of tie groups, which pile up anywhere
_ROUND = {digits * 10**power for digits in (1, 2, 5, 25) for power in range(1, 7)} | {2**k for k in range(4, 20)}


def _sampled(model: str, runs: tuple[AuditedRun, ...]) -> Iterator[Finding]:
    """A largest rank far below the number of candidates at which the ranks end abruptly: they come from a sample.

    Ranks among n sampled candidates end at n + 1, and the queries that a model cannot answer fill the places before it.
    Ranks among all candidates thin out instead.
    """
    rank, candidates = (np.concatenate([run.numbers(name)[run.has] for run in runs]) for name in ("rank", "candidates"))
    if not len(rank) or np.isnan(rank).all():
        return
    largest = np.nanmax(rank)
    last = (rank >= (1 - _LAST) * largest) & (rank < largest) & (candidates >= (1 + _LAST) * largest)
    count = last.sum() / len(runs)  # runs of one model are no independent evidence
    # Any rank might have been the largest, hence the number of candidates as a factor.
    if count < math.log(np.nanmax(candidates) / _ERROR) / math.log(_HALVED) or (candidates < largest).all():
        return
    values = rank[last]
    if (values % 1 != 0).mean() > _TIED or largest % 1 or not (_is_sample_size(largest) or _spread(values, largest)):
        return
    message = (
        f"No rank is larger than {largest:,.0f}, though there are up to {np.nanmax(candidates):,.0f} candidates, and "
        f"{int(last.sum()):,} ranks lie in the last tenth before it (probability below {_ERROR:g} for ranks that thin "
        "out). The ranks were computed among sampled candidates. Rank against all candidates, or record the number of "
        "candidates of each query."
    )
    yield Finding((model,), _KIND, message, Severity.warning, int((candidates > largest).sum()))


def _is_sample_size(largest: float) -> bool:
    """Whether the largest rank is that of a sample of a usual size, with the target or without it."""
    return largest in _ROUND or largest - 1 in _ROUND


def _spread(values: NDArray[np.float64], largest: float) -> bool:
    """Whether ranks take nearly as many distinct values as they would by chance."""
    width = max(1.0, largest - math.ceil((1 - _LAST) * largest))
    expected = width * -math.expm1(len(values) * math.log1p(-1 / width)) if width > 1 else 1.0
    return len(np.unique(values)) >= _SPREAD * expected
