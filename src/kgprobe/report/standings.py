"""Places of models by each metric, and which differences are statistically significant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from kgprobe.errors import UsageError

if TYPE_CHECKING:
    from kgprobe.comparison.results import Comparison, Difference, Estimate


_SAME = 1e-12

"""Values that differ by less than this share of them differ by rounding alone."""

CORRECTIONS = {"holm": "Holm", "bh": "Benjamini and Hochberg"}

Question = tuple[str, tuple[tuple[str, object], ...]]

"""A metric and a group of queries: what models are compared by."""


@dataclass(frozen=True)
class Placing:
    """How a model stands among the others by one metric on one group of queries.

    Attributes:
        place: 1 for the best; models of equal value share a place; none where there is nothing to compare.
        within_noise: Whether it is not the best, but not significantly worse either.
        beats: The models that it is significantly better than.
    """

    place: int | None
    within_noise: bool
    beats: tuple[str, ...]


def question(of: Estimate | Difference) -> Question:
    """What an estimate or a difference answers."""
    return str(of.metric), tuple(of.group.items())


def standings(comparison: Comparison, *, correction: str, level: float) -> dict[Question, dict[str, Placing]]:
    """The standing of every model by every metric in every group.

    Args:
        comparison: The estimates and differences.
        correction: Which corrected p value decides: ``holm`` or ``bh``.
        level: A difference is beyond noise when its p value is at most 1 - level.
    """
    check_correction(correction)
    differences: dict[Question, list[Difference]] = {}
    for difference in comparison.differences:
        differences.setdefault(question(difference), []).append(difference)
    estimates: dict[Question, list[Estimate]] = {}
    for estimate in comparison.estimates:
        estimates.setdefault(question(estimate), []).append(estimate)
    return {asked: _standing(own, differences.get(asked, []), correction, level) for asked, own in estimates.items()}


def check_correction(correction: str) -> None:
    """Refuse a correction that is not known."""
    if correction not in CORRECTIONS:
        raise UsageError(f"correction '{correction}' is not known", [f"it can be {', '.join(CORRECTIONS)}"])


def beyond_noise(difference: Difference, correction: str, level: float) -> bool:
    """Whether a difference is significant at this level after the correction."""
    p: float = getattr(difference, correction)
    return difference.value != 0 and p + level <= 1


def _standing(
    estimates: Sequence[Estimate], differences: Sequence[Difference], correction: str, level: float
) -> dict[str, Placing]:
    higher = estimates[0].metric.higher_is_better
    place = places({estimate.model: estimate.value for estimate in estimates}, higher)
    beyond: set[tuple[str, str]] = set()
    unsettled: set[tuple[str, str]] = set()
    for difference in differences:
        pair = (difference.first, difference.second)
        if beyond_noise(difference, correction, level):
            beyond.add(pair if (difference.value > 0) == higher else pair[::-1])
        else:
            unsettled |= {pair, pair[::-1]}
    best = [model for model, at in place.items() if at == 1]
    return {
        estimate.model: Placing(
            place=place.get(estimate.model),
            within_noise=place.get(estimate.model, 1) > 1 and any((b, estimate.model) in unsettled for b in best),
            beats=tuple(other.model for other in estimates if (estimate.model, other.model) in beyond),
        )
        for estimate in estimates
    }


def places(values: Mapping[str, float], higher_is_better: bool) -> dict[str, int]:
    """The place of every model that has a value; equal values share a place and leave the next ones free.

    Example:
        >>> places({"a": 0.5, "b": 0.7, "c": 0.5, "d": 0.1}, higher_is_better=True)
        {'b': 1, 'a': 2, 'c': 2, 'd': 4}
        >>> places({"alone": 0.5}, higher_is_better=True)
        {}
    """
    known = {model: value for model, value in values.items() if not math.isnan(value)}
    if len(known) < 2:
        return {}
    order = sorted(known, key=lambda model: -known[model] if higher_is_better else known[model])
    found = {order[0]: 1}
    for position, (before, model) in enumerate(pairwise(order), start=2):
        found[model] = found[before] if _same(known[before], known[model]) else position
    return found


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME, abs_tol=0.0)


def letters(models: Iterable[str]) -> dict[str, str]:
    """A letter for every model, or two where there are many.

    Example:
        >>> list(letters(f"model {i}" for i in range(28)).values())[24:]
        ['y', 'z', 'aa', 'ab']
    """
    return {model: _letter(number) for number, model in enumerate(models)}


def _letter(number: int) -> str:
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)
