"""Headings of columns: metrics that differ in one parameter share a heading, as in a table over alpha."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgprobe.metrics.base import Metric, spelled

_GREEK = {"alpha": "\N{GREEK SMALL LETTER ALPHA}", "beta": "β", "eps": "ε"}
_LOWER = " ↓"


def headings(metrics: Sequence[Metric]) -> list[tuple[str, str]]:
    """What stands above each column in two lines; the upper one is empty where no neighbour shares it.

    Example:
        >>> from kgprobe.metrics import parse_all
        >>> headings(parse_all("PROBE(alpha=1), PROBE(alpha=-1), MR"))
        [('PROBE(β=0)', 'α=1'), ('PROBE(β=0)', 'α=−1'), ('', 'MR ↓')]
    """
    found: list[tuple[str, str]] = []
    while len(found) < len(metrics):
        rest = metrics[len(found) :]
        run, name = _run(rest)
        if name is None:
            found.append(("", _written(rest[0], rest[0].parameters) + _arrow(rest[0])))
        else:
            shared = {key: value for key, value in rest[0].parameters.items() if key != name}
            above = _written(rest[0], shared) + _arrow(rest[0])
            found += [(above, _assigned(name, metric.parameters[name])) for metric in rest[:run]]
    return found


def _run(metrics: Sequence[Metric]) -> tuple[int, str | None]:
    """How many metrics from the first on differ in one parameter alone, and in which."""
    varies: str | None = None
    for number, metric in enumerate(metrics[1:], start=1):
        differing = _differing(metrics[0], metric)
        if len(differing) != 1 or (varies is not None and differing != [varies]):
            return number, varies
        varies = differing[0]
    return len(metrics), varies


def _differing(one: Metric, other: Metric) -> list[str]:
    if type(one) is not type(other) or one.cutoff or one.parameters.keys() != other.parameters.keys():
        return []
    return [key for key, value in one.parameters.items() if other.parameters[key] != value]


def _arrow(metric: Metric) -> str:
    return "" if metric.higher_is_better else _LOWER


def _written(metric: Metric, parameters: dict[str, Any]) -> str:
    if metric.cutoff:
        return str(metric)
    inside = ", ".join(_assigned(key, value) for key, value in parameters.items() if value is not None)
    return f"{metric.name}({inside})" if inside else metric.name


def _assigned(name: str, value: Any) -> str:
    stem, _, of = name.partition("_")
    letter = _GREEK.get(stem, stem) + (f"_{of}" if of else "")
    return f"{letter} by default" if value is None else f"{letter}={spelled(value)}".replace("-", "\N{MINUS SIGN}")
