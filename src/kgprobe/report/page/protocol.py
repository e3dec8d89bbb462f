"""How the ranks of every model came about, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgprobe.compare.lineup import Lineup
from kgprobe.ranks import Ranks
from kgprobe.ranks.schema import POPULARITY, RanksInfo

Pairs = list[tuple[str, str]]
_NOT_RECORDED = "not recorded"


def protocol(runs: Sequence[Ranks]) -> Pairs:
    """What the file of a model says of itself, and what its ranks show, seed by seed.

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
        ranked with: kgprobe 0.1
        seeds: one run
        queries: 2
        candidates: 8 to 9
        ties: the mean rank of the tie group counts; how many there are is not recorded
    """
    return [*_told(runs[0].info), *_shown(runs)]


def remarks(lineup: Lineup, *, weighted: bool) -> list[str]:
    """What a reader should know before any number: queries that do not count, and weights that are not known.

    Example:
        >>> from kgprobe.compare import line_up
        >>> ranks = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[1])
        >>> for remark in remarks(line_up({"mine": ranks}), weighted=False):
        ...     print(remark)
        mine: 1 query with a single candidate is left out of the scores.
        Popularity is not recorded for all targets, so queries cannot be weighed by it.
    """
    found = []
    for model, runs in lineup.runs.items():
        single = max(int((run.candidates == 1).sum()) for run in runs)
        if single:
            found.append(f"{model}: {_queries(single)} with a single candidate {_are(single)} left out of the scores.")
        if other := lineup.left_out.get(model, 0):
            found.append(f"{model}: {_queries(other)} that not all models have {_are(other)} left out.")
    if not weighted:
        found.append(unweighed(lineup))
    return found


def unweighed(lineup: Lineup) -> str:
    """Why queries cannot be weighed by popularity."""
    counted = [(name, run.filter(run.candidates > 1)) for name, runs in lineup.runs.items() for run in runs]
    zero = [
        f"The {column.replace('_', ' ')} of all targets is recorded as 0 for {name}"
        for name, run in counted
        for column in POPULARITY
        if len(run) and not run.numbers(column).any()
    ]
    reason = (zero or ["Popularity is not recorded for all targets"])[0]
    return f"{reason}, so queries cannot be weighed by it."


def _told(info: RanksInfo) -> Pairs:
    filtered = None if info.filtered is None else "+".join(info.filtered) or "nothing"
    said = {
        "graph": info.graph,
        "graph hash": info.graph_hash,
        "split": info.split,
        "filtered by": filtered,
        "filter hash": info.filter_hash,
        "ranked with": f"kgprobe {info.kgprobe}" if info.kgprobe else None,
    }
    return [(key, text or _NOT_RECORDED) for key, text in said.items()] + [
        (str(key), str(value)) for key, value in sorted(info.settings.items())
    ]


def _shown(runs: Sequence[Ranks]) -> Pairs:
    first = runs[0]
    seeds = [int(run.seed[0]) for run in runs if run.seed is not None]
    pairs = {
        "seeds": ", ".join(map(str, seeds)) or "one run",
        "queries": f"{len(first):,}",
        "candidates": _between(min(run.candidates.min() for run in runs), max(run.candidates.max() for run in runs)),
        "ties": _ties(runs),
    }
    return list(pairs.items())


def _ties(runs: Sequence[Ranks]) -> str:
    """How ties are treated, and how frequent they are."""
    known = np.concatenate([run.ties[~np.isnan(run.ties)] for run in runs])
    share = f"{(known > 0).mean():.2%} of the ranks are tied" if len(known) else "how many there are is not recorded"
    return f"the mean rank of the tie group counts; {share}"


def _between(least: float, most: float) -> str:
    return f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number:,} queries"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
