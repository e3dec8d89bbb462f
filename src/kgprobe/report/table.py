"""The table of a paper: models down, metrics across, every number with its place and its marks, explained below."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgprobe.report.headings import headings
from kgprobe.report.notes import LOWER, UNTRUSTED, WITHIN_NOISE, notes
from kgprobe.report.render.grid import Cell, Column, Grid, Line
from kgprobe.report.render.text import as_text, one_line
from kgprobe.report.standing import Standing, letters, question, standings

if TYPE_CHECKING:
    from kgprobe.compare.outcome import Comparison, Estimate
    from kgprobe.metrics import Metric

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

    def made(self) -> tuple[list[Column], list[Line]]:
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

    def _block(self, groups: list[Group], *, named: bool) -> list[Line]:
        """A row for each model, with the numbers of these groups side by side."""
        names = [Cell(one_line(as_text(value))) for _, value in _seen(groups[0])] if named else []
        numbers = [self._numbers(metric, group) for group in groups for metric in self.metrics]
        lines = []
        for model, *cells in zip(self.models, *numbers, strict=True):
            letter = [Cell(self.letter[model])] if self.style.letters else []
            opens = named and model == self.models[0]
            lines.append(Line((*names, *letter, Cell(one_line(model)), *cells), opens))
        return lines

    def _numbers(self, metric: Metric, group: Group) -> list[Cell]:
        """A column of numbers, all with the same number of digits behind the point."""
        asked = (str(metric), group)
        estimates = [self.found[asked, model] for model in self.models]
        digits = _digits(e.value for e in estimates) if self.style.digits is None else self.style.digits
        return [self._cell(estimate, self.standings[asked][estimate.model], digits) for estimate in estimates]

    def _cell(self, estimate: Estimate, standing: Standing, digits: int) -> Cell:
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
