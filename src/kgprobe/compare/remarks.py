"""What a reader of a comparison should know of the models, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kgprobe.compare.lineup import Lineup

_FEW_RUNS = 5
"""With fewer runs than this, t quantiles are so large that only large differences are beyond noise."""


def remarks(lineup: Lineup, seeds: str) -> list[str]:
    """One sentence for each thing that limits what can be said.

    Args:
        lineup: The models.
        seeds: Whether training runs are ``random`` or ``fixed``.

    Example:
        >>> from kgprobe.compare.lineup import line_up
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(candidates):
        ...     return Ranks.from_columns(
        ...         head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[candidates]
        ...     )
        >>> remarks(line_up({"one": ranks(9), "other": ranks(5)}), seeds="fixed")
        ["1 query has other candidates in other models: 'kgprobe check' says why that matters."]
    """
    return [*_left_out(lineup), *_candidates(lineup), *_runs(lineup, seeds)]


def _left_out(lineup: Lineup) -> Iterator[str]:
    for model, count in lineup.left_out.items():
        if count:
            yield f"{_queries(count)} of {model} that not all models have {'is' if count == 1 else 'are'} left out."


def _candidates(lineup: Lineup) -> Iterator[str]:
    differing = np.zeros(len(lineup), dtype=bool)
    for own in lineup.runs.values():
        differing |= own[0].candidates != lineup.first.candidates
    if count := int(differing.sum()):
        have = "has" if count == 1 else "have"
        yield f"{_queries(count)} {have} other candidates in other models: 'kgprobe check' says why that matters."


def _runs(lineup: Lineup, seeds: str) -> Iterator[str]:
    fewest = min(map(len, lineup.runs.values()))
    if seeds == "random" and fewest < _FEW_RUNS and len(lineup.models) > 1:
        yield (
            f"With {fewest} training runs of a model, a difference must be large to be beyond the noise of training; "
            "fixed seeds speak of these runs alone."
        )


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"
