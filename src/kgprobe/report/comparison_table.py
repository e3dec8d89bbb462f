"""The table of a comparison: models down, metrics across, with places, marks and notes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from kgprobe.metrics import Metric
from kgprobe.metrics.metric import spelled
from kgprobe.report.grid import Cell, Column, Grid, GridRow, as_text, counted, one_line
from kgprobe.report.standings import CORRECTIONS, Placing, letters, question, standings

if TYPE_CHECKING:
    from kgprobe.comparison.results import Comparison, Estimate


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


WITHIN_NOISE, UNTRUSTED, LOWER = "†", "‡", "↓"

_MOST_REMARKS = 3

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*\b")


def notes(
    comparison: Comparison,
    correction: str,
    marks: Collection[str],
    *,
    behind: bool,
    intervals: bool,
    letters: bool,
) -> Iterator[str]:
    """Everything that a reader who has only the table needs to know.

    Args:
        comparison: What the table shows.
        correction: The correction for many tests by which its marks are set.
        marks: The marks that it has.
        behind: Whether any model is behind the best.
        intervals: Whether it shows intervals.
        letters: Whether it shows the letters of the models that each is better than.
    """
    settings = comparison.settings
    yield from _about_queries(comparison)
    if LOWER in marks:
        yield f"{LOWER} lower is better."
    if comparison.differences:
        within = f"{WITHIN_NOISE} not significantly worse than the best" if WITHIN_NOISE in marks else ""
        better = "raised letters are those of the models that this one is significantly better than" if letters else ""
        explained = "; ".join(filter(None, (within, better))) or _UNMARKED[behind]
        tests = _TESTS[settings.seeds].format(**vars(settings))
        yield (
            f"{explained[0].upper()}{explained[1:]} (p at most {1 - settings.level:.3g} by {tests},"
            f" corrected after {CORRECTIONS[correction]} for {counted(len(comparison.differences), 'test')})."
        )
    if intervals:
        how = _INTERVALS[settings.seeds].format(**vars(settings))
        yield f"In brackets: {100 * settings.level:.4g} % confidence intervals, {how}."
    if UNTRUSTED in marks:
        yield _about_trust(comparison)


def _about_queries(comparison: Comparison) -> Iterator[str]:
    largest = max(comparison.estimates, key=lambda estimate: estimate.queries)
    within = " in the largest group" if largest.group else ""
    by = comparison.settings.cluster
    clusters = f" in {counted(largest.clusters, 'cluster')} by {by}" if by != "query" else ""
    yield f"{counted(largest.queries, 'query', 'queries')}{clusters}{within}; ties: {comparison.settings.tie}."
    seeds = sorted({estimate.seeds for estimate in comparison.estimates})
    if seeds[-1] > 1:
        number = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        yield f"Mean over {number} seeds ± standard deviation between them; {_SEEDS[comparison.settings.seeds]}."


_UNMARKED = {
    True: "All others are significantly worse than the best",
    False: "No model is significantly worse than another",
}

_SEEDS = {
    "fixed": "uncertainty is that of the queries, for these training runs",
    "random": "uncertainty is that of queries and training runs",
}


_TESTS = {
    "fixed": "paired permutation tests, {permutations:,} permutations of clusters",
    "random": "paired t tests over clusters and seeds",
}

_INTERVALS = {
    "fixed": "by bootstrap, {replicates:,} draws of clusters",
    "random": "by the t distribution over clusters and seeds",
}


def _grouped(remarks: Iterable[str]) -> list[str]:
    """Remarks that differ in their numbers alone as one, each number from the least to the largest."""
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for remark in remarks:
        alike.setdefault(tuple(_NUMBER.split(remark)), []).append(_NUMBER.findall(remark))
    return [
        "".join(chain.from_iterable(zip_longest(between, map(_range, zip(*numbers, strict=True)), fillvalue="")))
        for between, numbers in alike.items()
    ]


def _range(numbers: Sequence[str]) -> str:
    ordered = sorted(numbers, key=lambda number: int(number.replace(",", "")))
    return " to ".join(dict.fromkeys((ordered[0], ordered[-1])))


def _about_trust(comparison: Comparison) -> str:
    doubted = [estimate.interval.remark for estimate in comparison.estimates if not estimate.interval.trusted]
    remarks = _grouped(filter(None, doubted))
    more = [f"and {len(remarks) - _MOST_REMARKS:,} more"] if len(remarks) > _MOST_REMARKS else []
    reasons = "; ".join([*remarks[:_MOST_REMARKS], *more])
    return f"{UNTRUSTED} the interval cannot be trusted" + (f": {reasons}." if reasons else ".")


_MOST_COLUMNS = 12

"""Groups stand side by side as long as that makes no more columns of numbers than this; then below each other."""

_ALPHABET = 26

Group = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Style:
    """What a table shows besides values, deviations, places and the mark of those within noise.

    Attributes:
        intervals: Whether to show the confidence interval of every value.
        letters: Whether to raise the letters of the models that each is better than beyond noise.
        digits: Digits behind the point; by default fewer for large numbers.
    """

    intervals: bool = False
    letters: bool = False
    digits: int | None = None


def comparison_grid(
    comparison: Comparison, correction: str, style: Style | None = None, remarks: Iterable[str] = ()
) -> Grid:
    """A comparison as a table for people.

    Args:
        comparison: The estimates and differences.
        correction: The correction for many tests by which marks are set: ``holm`` or ``bh``.
        style: What to show.
        remarks: Further notes.
    """
    shown = style or Style()
    columns, lines = _Layout(comparison, correction, shown).made()
    marks = {mark for line in lines for cell in line.cells for mark in cell.marks}
    behind = any((cell.place or 1) > 1 for line in lines for cell in line.cells)
    marks |= {LOWER for column in columns if any(LOWER in heading for heading in column.headings)}
    below = notes(comparison, correction, marks, behind=behind, intervals=shown.intervals, letters=shown.letters)
    return Grid(tuple(columns), tuple(lines), tuple(one_line(note) for note in (*below, *remarks)))


class _Layout:
    """Where each estimate stands."""

    def __init__(self, comparison: Comparison, correction: str, style: Style) -> None:
        estimates = comparison.estimates
        self.style = style
        self.standings = standings(comparison, correction=correction, level=comparison.settings.level)
        self.models = list(dict.fromkeys(estimate.model for estimate in estimates))
        self.metrics = list(dict.fromkeys(estimate.metric for estimate in estimates))
        self.groups: list[Group] = list(dict.fromkeys(tuple(estimate.group.items()) for estimate in estimates))
        self.found = {(question(estimate), estimate.model): estimate for estimate in estimates}
        self.letter = letters(self.models)

    def made(self) -> tuple[list[Column], list[GridRow]]:
        """Columns and rows: groups across where they have room, else down."""
        down = len(self.groups) > 1 and len(self.groups) * len(self.metrics) > _MOST_COLUMNS
        blocks = [[group] for group in self.groups] if down else [self.groups]
        names = [key for key, _ in _seen(self.groups[0])] if down else []
        above = [("" if down else _named(group), *lines) for group in blocks[0] for lines in headings(self.metrics)]
        kept = [level for level in range(3) if any(lines[level] for lines in above)]
        firsts = [*map(one_line, names), *([""] if self.style.letters else []), "model"]
        columns = [Column(("",) * (len(kept) - 1) + (first,)) for first in firsts]
        columns += [Column(tuple(one_line(lines[level]) for level in kept), numeric=True) for lines in above]
        return columns, [line for groups in blocks for line in self._block(groups, named=down)]

    def _block(self, groups: list[Group], *, named: bool) -> list[GridRow]:
        """A row for each model, with the numbers of these groups side by side."""
        names = [Cell(one_line(as_text(value))) for _, value in _seen(groups[0])] if named else []
        numbers = [self._numbers(metric, group) for group in groups for metric in self.metrics]
        lines = []
        for model, *cells in zip(self.models, *numbers, strict=True):
            letter = [Cell(self.letter[model])] if self.style.letters else []
            opens = named and model == self.models[0]
            lines.append(GridRow((*names, *letter, Cell(one_line(model)), *cells), opens))
        return lines

    def _numbers(self, metric: Metric, group: Group) -> list[Cell]:
        """A column of numbers, all with the same number of digits behind the point."""
        asked = (str(metric), group)
        estimates = [self.found[asked, model] for model in self.models]
        digits = _digits(e.value for e in estimates) if self.style.digits is None else self.style.digits
        return [self._cell(estimate, self.standings[asked][estimate.model], digits) for estimate in estimates]

    def _cell(self, estimate: Estimate, standing: Placing, digits: int) -> Cell:
        limits = [_number(limit, digits) for limit in (estimate.interval.low, estimate.interval.high)]
        marks = [WITHIN_NOISE] * standing.within_noise + [UNTRUSTED] * (not estimate.interval.trusted)
        if self.style.letters:
            apart = "," if len(self.models) > _ALPHABET else ""
            marks.append(apart.join(self.letter[model] for model in standing.beats))
        return Cell(
            text=_number(estimate.value, digits),
            deviation="" if estimate.std is None else _number(estimate.std, digits),
            interval=f"[{', '.join(limits)}]" if self.style.intervals and all(limits) else "",
            place=standing.place,
            marks=" ".join(filter(None, marks)),
        )


def _seen(group: Group) -> Group:
    """What tells a group from others for people: the name of a relation instead of its number."""
    named = dict(group)
    if "relation_label" in named:
        named["relation"] = named.pop("relation_label")
    return tuple(named.items())


def _named(group: Group) -> str:
    return ", ".join(f"{key} {as_text(value)}" for key, value in _seen(group))


def _digits(values: Iterable[float]) -> int:
    """Four digits behind the point, fewer where the largest number has many in front of it."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 4 if largest < 10 else 2 if largest < 1000 else 1


def _number(value: float, digits: int) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.{digits}f}" if abs(value) < 1e9 else f"{value:.4g}"
