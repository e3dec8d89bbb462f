"""Compare models whose ranks are partly unknown: intervals, such as those of targets beyond a top-k list.

A monotone metric is largest and smallest at the two ends of all intervals, so the difference of two models lies between
that of the first at its worst and the second at its best, and the other way round. Both are possible: the unknown ranks
of one model say nothing about those of another. One model beats another whatever the unknown ranks where it is
significantly better even at its worst.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from kgprobe.comparison.intervals import Interval, unknown
from kgprobe.comparison.lineup import Lineup
from kgprobe.comparison.pair_tests import Correction
from kgprobe.comparison.results import Comparison, Difference, Estimate
from kgprobe.ranks import End

_NOT_MONOTONE = "ranks are intervals, and the metric is not monotone in the rank"
_BETWEEN = "ranks are intervals; the value lies between least and most"

NamePair = tuple[str, str]


def end_of(model: str, end: End, lineup: Lineup) -> str:
    """The name of a model with one end of its unknown ranks; its own name if it has none."""
    return f"{model} at {end}" if model in lineup.worst else model


def both_ends(lineup: Lineup) -> tuple[Lineup, list[NamePair]]:
    """Every model at its best and at its worst as a model of its own, and the pairs of opposite ends."""
    runs = {}
    for model, best in lineup.runs.items():
        runs[end_of(model, End.best, lineup)] = best
        runs[end_of(model, End.worst, lineup)] = lineup.worst.get(model, best)
    pairs = [pair for models in combinations(lineup.models, 2) for pair in _opposite(*models, lineup)]
    left_out = {name: next(iter(lineup.left_out.values())) for name in runs}
    return Lineup(runs, left_out), pairs


def _opposite(first: str, second: str, lineup: Lineup) -> list[NamePair]:
    """The first model at its worst and the second at its best, and the other way round; one pair if all is known."""
    ends = ((End.worst, End.best), (End.best, End.worst))
    return list(dict.fromkeys((end_of(first, one, lineup), end_of(second, other, lineup)) for one, other in ends))


def over_unknown_ranks(lineup: Lineup, compared: Comparison) -> Comparison:
    """The comparison of the models themselves, from that of their two ends (see `both_ends`)."""
    estimates = {(str(one.metric), str(one.group), one.model): one for one in compared.estimates}
    differences = {(str(one.metric), str(one.group), one.first, one.second): one for one in compared.differences}
    asked = list(dict.fromkeys((str(one.metric), str(one.group)) for one in compared.estimates))
    pairs = list(combinations(lineup.models, 2))
    return replace(
        compared,
        estimates=[
            _joined(model, *(estimates[*question, end_of(model, end, lineup)] for end in End))
            for question in asked
            for model in lineup.models
        ],
        differences=[
            replace(
                _range(pair, [differences[*question, *ends] for ends in _opposite(*pair, lineup)]), tests=len(pairs)
            )
            for question in asked
            for pair in pairs
        ],
    )


def _joined(model: str, best: Estimate, worst: Estimate) -> Estimate:
    """A value with unknown ranks, from the values at both ends."""
    known = best.model == worst.model
    if known or (best.value == worst.value and best.metric.facts.monotone):
        return replace(best, model=model)
    if not best.metric.facts.monotone or best.reason or worst.reason:
        reason = best.reason or worst.reason or _NOT_MONOTONE
        interval = unknown(best.interval.level, reason)
        return replace(best, model=model, value=math.nan, std=None, interval=interval, reason=reason)
    least, most = sorted((best, worst), key=lambda one: one.value)
    return replace(
        best,
        model=model,
        value=math.nan,
        std=None,
        interval=_spanned(least.interval, most.interval),
        unknown=(least.value, most.value),
        reason=_BETWEEN,
    )


def _range(pair: NamePair, ends: list[Difference]) -> Difference:
    """The difference of two models over their unknown ranks, from those of opposite ends."""
    first, second = pair
    least, most = min(ends, key=lambda one: one.value), max(ends, key=lambda one: one.value)
    if len(ends) == 1 or any(one.reason for one in ends):
        return replace(next((one for one in ends if one.reason), least), first=first, second=second)
    if least.metric.facts.monotone and math.isclose(least.value, most.value, rel_tol=1e-12):
        return replace(least, first=first, second=second)  # the unknown ranks do not matter to this metric
    known = replace(
        least, first=first, second=second, value=math.nan, unknown=(least.value, most.value), reason=_BETWEEN
    )
    if not least.metric.facts.monotone:
        interval = unknown(least.interval.level, _NOT_MONOTONE)
        return replace(_untested(known, math.nan), unknown=None, interval=interval, reason=_NOT_MONOTONE)
    spanned = replace(known, interval=_spanned(least.interval, most.interval))
    if least.value <= 0 <= most.value:  # no test can reject that both are equal
        return _untested(spanned, 1.0)
    nearer = least if least.value > 0 else most
    return replace(
        spanned, p=nearer.p, adjusted=nearer.adjusted, holm=nearer.holm, bh=nearer.bh, significant=nearer.significant
    )


def _untested(difference: Difference, p: float) -> Difference:
    return replace(difference, p=p, adjusted=p, holm=p, bh=p, significant=False)


def _spanned(least: Interval, most: Interval) -> Interval:
    """From the lower limit of the smallest value to the upper limit of the largest."""
    remark = least.remark or most.remark
    return replace(least, high=most.high, trusted=least.trusted and most.trusted, remark=remark)


def verdicts(comparison: Comparison) -> Iterator[str]:
    """One sentence for each pair of models: whether one beats the other whatever the unknown ranks."""
    for one in comparison.differences:
        if one.unknown is not None:
            asked = str(one.metric) + "".join(f", {key} {value}" for key, value in one.group.items())
            yield f"{asked}: {_verdict(one, comparison.settings.correction)}"


def _verdict(difference: Difference, correction: Correction) -> str:
    least, most = difference.ends
    interval = f"{100 * difference.interval.level:g} % {correction.interval_name}"
    if least <= 0 <= most:
        return (
            f"the unknown ranks decide between {difference.first} and {difference.second}: the difference is between "
            f"{_number(least)} and {_number(most)} "
            f"({interval} {_number(difference.interval.low)} to {_number(difference.interval.high)})"
        )
    higher = difference.metric.higher_is_better
    ahead = difference if (least > 0) == higher else difference.turned()
    sign = 1 if higher else -1
    low, high = sorted(sign * end for end in ahead.ends)
    limits = sorted(sign * limit for limit in (ahead.interval.low, ahead.interval.high))
    text = f"{_number(low)} to {_number(high)} {'higher' if higher else 'lower'}"
    p = "< 0.001" if difference.adjusted < 0.001 else f"{difference.adjusted:.4f}"
    tested = f"({interval} {_number(limits[0])} to {_number(limits[1])}, adjusted p {p})"
    if difference.significant:
        return f"{ahead.first} beats {ahead.second} whatever the unknown ranks: it scores {text} {tested}: significant"
    return f"{ahead.first} scores {text} than {ahead.second} whatever the unknown ranks {tested}: not significant"


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"
