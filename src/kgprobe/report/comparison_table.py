"""The table of a comparison: models down, metrics across, with places, marks of significance and notes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, zip_longest
from typing import TYPE_CHECKING, Any

from kgprobe.errors import one_line
from kgprobe.metrics import Metric
from kgprobe.metrics.metric import spelled
from kgprobe.report.grid import UNDEFINED, Cell, Column, Grid, GridRow, as_text, counted

if TYPE_CHECKING:
    from kgprobe.comparison.results import Comparison, Difference, Estimate

_ROUNDING = 1e-12  # values with a smaller relative difference are equal

Question = tuple[str, tuple[tuple[str, object], ...]]

"""A metric and a group of queries."""


@dataclass(frozen=True)
class Placing:
    """The place of a model among the others by one metric on one group of queries.

    Attributes:
        place: 1 for the best; models with equal values share a place; None where there is nothing to compare.
        within_noise: Whether it is not the best, but not significantly worse than the best.
        beats: The models that it is significantly better than.
        untested: Whether it is not the best, and not tested against the best, because their candidate sets differ.
    """

    place: int | None
    within_noise: bool
    beats: tuple[str, ...]
    untested: bool = False


def question(result: Estimate | Difference) -> Question:
    """The metric and group of an estimate or a difference."""
    return str(result.metric), tuple(result.group.items())


def standings(comparison: Comparison) -> dict[Question, dict[str, Placing]]:
    """The placing of every model by every metric in every group."""
    differences: dict[Question, list[Difference]] = {}
    for difference in comparison.differences:
        differences.setdefault(question(difference), []).append(difference)
    estimates: dict[Question, list[Estimate]] = {}
    for estimate in comparison.estimates:
        estimates.setdefault(question(estimate), []).append(estimate)
    return {asked: _standing(own, differences.get(asked, [])) for asked, own in estimates.items()}


def _standing(estimates: Sequence[Estimate], differences: Sequence[Difference]) -> dict[str, Placing]:
    higher = estimates[0].metric.higher_is_better
    ranges = any(estimate.unknown for estimate in estimates)  # unknown ranks leave the order open
    place = {} if ranges else places({estimate.model: estimate.value for estimate in estimates}, higher)
    better: set[tuple[str, str]] = set()
    undecided: set[tuple[str, str]] = set()
    untested: set[tuple[str, str]] = set()
    for difference in differences:
        pair = (difference.first, difference.second)
        if not difference.tested:
            untested |= {pair, pair[::-1]}
        elif difference.significant:
            better.add(pair if (difference.ends[0] > 0) == higher else pair[::-1])
        else:
            undecided |= {pair, pair[::-1]}
    best = [model for model, at in place.items() if at == 1]
    return {
        estimate.model: Placing(
            place=place.get(estimate.model),
            within_noise=place.get(estimate.model, 1) > 1 and any((b, estimate.model) in undecided for b in best),
            beats=tuple(other.model for other in estimates if (estimate.model, other.model) in better),
            untested=place.get(estimate.model, 1) > 1 and any((b, estimate.model) in untested for b in best),
        )
        for estimate in estimates
    }


def places(values: Mapping[str, float], higher_is_better: bool) -> dict[str, int]:
    """The place of every model that has a value; equal values share a place, and the following places stay empty.

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
    place = {order[0]: 1}
    for position, (before, model) in enumerate(pairwise(order), start=2):
        place[model] = place[before] if _equal(known[before], known[model]) else position
    return place


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=0.0)


def letters(models: Iterable[str]) -> dict[str, str]:
    """A letter for each model; two or more letters after the 26th.

    Example:
        >>> list(letters(f"model {i}" for i in range(28)).values())[24:]
        ['y', 'z', 'aa', 'ab']
    """
    return {model: _letter(number) for number, model in enumerate(models)}


def _letter(number: int) -> str:
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)


_GREEK = {"alpha": "\N{GREEK SMALL LETTER ALPHA}", "beta": "β", "eps": "ε"}
WITHIN_NOISE, UNTRUSTED, UNTESTED, FLAGGED, LOWER = "†", "‡", "§", "*", "↓"


def headings(metrics: Sequence[Metric]) -> list[tuple[str, str]]:
    """Two lines of headings for each metric; neighbours that differ in one parameter share the upper line.

    Example:
        >>> from kgprobe.metrics import parse_all
        >>> headings(parse_all("PROBE(alpha=1), PROBE(alpha=-1), MR"))
        [('PROBE(β=0)', 'α=1'), ('PROBE(β=0)', 'α=−1'), ('', 'MR ↓')]
    """
    lines: list[tuple[str, str]] = []
    while len(lines) < len(metrics):
        rest = metrics[len(lines) :]
        run, name = _run(rest)
        if name is None:
            lines.append(("", _written(rest[0], rest[0].parameters) + _arrow(rest[0])))
        else:
            shared = {key: value for key, value in rest[0].parameters.items() if key != name}
            above = _written(rest[0], shared) + _arrow(rest[0])
            lines += [(above, _assigned(name, metric.parameters[name])) for metric in rest[:run]]
    return lines


def _run(metrics: Sequence[Metric]) -> tuple[int, str | None]:
    """The number of metrics from the first on that differ only in one parameter, and its name."""
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
    return "" if metric.higher_is_better else f" {LOWER}"


def _written(metric: Metric, parameters: dict[str, Any]) -> str:
    if metric.cutoff:
        return str(metric)
    inside = ", ".join(_assigned(key, value) for key, value in parameters.items() if value is not None)
    return f"{metric.name}({inside})" if inside else metric.name


def _assigned(name: str, value: Any) -> str:
    stem, _, of = name.partition("_")
    letter = _GREEK.get(stem, stem) + (f"_{of}" if of else "")
    return f"{letter} by default" if value is None else f"{letter}={spelled(value)}".replace("-", "\N{MINUS SIGN}")


_MOST_REMARKS = 3
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*\b")


def notes(
    comparison: Comparison, marks: Collection[str], *, behind: bool, intervals: bool, letters: bool
) -> Iterator[str]:
    """The notes below a table: queries, marks, tests and intervals."""
    settings = comparison.settings
    yield from _about_queries(comparison)
    if LOWER in marks:
        yield f"{LOWER} lower is better."
    if comparison.tests:
        within = f"{WITHIN_NOISE} not significantly worse than the best" if WITHIN_NOISE in marks else ""
        better = "superscript letters name the models that this one is significantly better than" if letters else ""
        unmarked = "Unmarked models are significantly worse than the best"
        explained = "; ".join(filter(None, (within, better))) or (unmarked if UNTESTED in marks else _UNMARKED[behind])
        tests = _TESTS[settings.seeds].format(**vars(settings))
        yield f"{explained[0].upper()}{explained[1:]} (p <= {1 - settings.level:.3g}, {tests})."
        yield comparison.family
    if UNTESTED in marks:
        yield f"{UNTESTED} not tested against the best, because their candidate sets differ."
    if intervals:
        how = _INTERVALS[settings.seeds].format(**vars(settings))
        yield f"In brackets: {100 * settings.level:.4g} % confidence intervals, {how}."
    if FLAGGED in marks:
        yield f"{FLAGGED} `kgprobe check` objects to the rank file, see below."
    if UNTRUSTED in marks:
        yield _about_trust(comparison)
    yield from _about_undefined(comparison)


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
    "fixed": "intervals and tests reflect the sampling of queries, for these training runs",
    "random": "intervals and tests reflect the sampling of queries and of training runs",
}

_TESTS = {
    "fixed": "paired permutation tests, {permutations:,} permutations of clusters",
    "random": "paired t-tests over clusters and seeds",
}

_INTERVALS = {
    "fixed": "bootstrap, {replicates:,} draws of clusters",
    "random": "t distribution over clusters and seeds",
}


def _grouped(remarks: Iterable[str]) -> list[str]:
    """Remarks that differ only in their numbers, merged into one with ranges of numbers."""
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
    return f"{UNTRUSTED} the interval is not reliable" + (f": {reasons}." if reasons else ".")


def _about_undefined(comparison: Comparison) -> Iterator[str]:
    """A note for each metric and reason for which a value is undefined or infinite."""
    if comparison.has_unknown:
        yield "Some ranks are intervals: values lie between the two numbers, and places are open."
    reasons = dict.fromkeys((str(e.metric), e.reason) for e in comparison.estimates if e.reason and not e.unknown)
    for metric, reason in reasons:
        yield f"{metric} has no finite value{' in some groups' if comparison.estimates[0].group else ''}: {reason}."


_MOST_COLUMNS = 12  # with more columns, groups are shown below each other instead of side by side
_ALPHABET = 26
Group = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Style:
    """Options of a table: confidence intervals, letters of the significantly worse models, number of decimals."""

    intervals: bool = False
    letters: bool = False
    digits: int | None = None


def comparison_grid(
    comparison: Comparison,
    style: Style | None = None,
    remarks: Iterable[str] = (),
    flagged: Collection[str] = (),
) -> Grid:
    """A comparison as a table; models that the audit objects to are marked."""
    shown = style or Style()
    columns, lines = _Layout(comparison, shown, flagged).table()
    marks = {mark for line in lines for cell in line.cells for mark in cell.marks}
    behind = any((cell.place or 1) > 1 for line in lines for cell in line.cells)
    marks |= {FLAGGED} if flagged else set()
    marks |= {LOWER for column in columns if any(LOWER in heading for heading in column.headings)}
    below = notes(comparison, marks, behind=behind, intervals=shown.intervals, letters=shown.letters)
    return Grid(tuple(columns), tuple(lines), tuple(one_line(note) for note in (*below, *remarks)))


class _Layout:
    """The columns and rows of the table of a comparison."""

    def __init__(self, comparison: Comparison, style: Style, flagged: Collection[str] = ()) -> None:
        estimates = comparison.estimates
        self.flagged = flagged
        self.style = style
        self.standings = standings(comparison)
        self.models = list(dict.fromkeys(estimate.model for estimate in estimates))
        self.metrics = list(dict.fromkeys(estimate.metric for estimate in estimates))
        self.groups: list[Group] = list(dict.fromkeys(tuple(estimate.group.items()) for estimate in estimates))
        self.estimates = {(question(estimate), estimate.model): estimate for estimate in estimates}
        self.letter = letters(self.models)

    def table(self) -> tuple[list[Column], list[GridRow]]:
        """Columns and rows; groups are side by side if there is room, else below each other."""
        down = len(self.groups) > 1 and len(self.groups) * len(self.metrics) > _MOST_COLUMNS
        blocks = [[group] for group in self.groups] if down else [self.groups]
        names = [key for key, _ in _labelled(self.groups[0])] if down else []
        above = [("" if down else group_text(group), *lines) for group in blocks[0] for lines in headings(self.metrics)]
        kept = [level for level in range(3) if any(lines[level] for lines in above)]
        firsts = [*map(one_line, names), *([""] if self.style.letters else []), "model"]
        columns = [Column(("",) * (len(kept) - 1) + (first,)) for first in firsts]
        columns += [Column(tuple(one_line(lines[level]) for level in kept), numeric=True) for lines in above]
        return columns, [line for groups in blocks for line in self._block(groups, named=down)]

    def _block(self, groups: list[Group], *, named: bool) -> list[GridRow]:
        """One row per model, with the values of these groups side by side."""
        names = [Cell(one_line(as_text(value))) for _, value in _labelled(groups[0])] if named else []
        numbers = [self._numbers(metric, group) for group in groups for metric in self.metrics]
        lines = []
        for model, *cells in zip(self.models, *numbers, strict=True):
            letter = [Cell(self.letter[model])] if self.style.letters else []
            opens = named and model == self.models[0]
            name = one_line(model) + (f" {FLAGGED}" if model in self.flagged else "")
            lines.append(GridRow((*names, *letter, Cell(name), *cells), opens))
        return lines

    def _numbers(self, metric: Metric, group: Group) -> list[Cell]:
        """A column of values with the same number of decimals."""
        asked = (str(metric), group)
        estimates = [self.estimates[asked, model] for model in self.models]
        digits = _digits(end for e in estimates for end in e.ends) if self.style.digits is None else self.style.digits
        return [self._cell(estimate, self.standings[asked][estimate.model], digits) for estimate in estimates]

    def _cell(self, estimate: Estimate, placing: Placing, digits: int) -> Cell:
        interval = estimate.interval
        known = not (math.isnan(interval.low) or math.isnan(interval.high))
        limits = [_number(limit, digits) for limit in (interval.low, interval.high)]
        marks = [WITHIN_NOISE] * placing.within_noise + [UNTESTED] * placing.untested
        marks += [UNTRUSTED] * (not interval.trusted)
        if self.style.letters:
            comma = "," if len(self.models) > _ALPHABET else ""
            marks.append(comma.join(self.letter[model] for model in placing.beats))
        return Cell(
            text=" to ".join(dict.fromkeys(_number(end, digits) for end in estimate.ends)),
            deviation="" if estimate.std is None or math.isnan(estimate.std) else _number(estimate.std, digits),
            interval=f"[{', '.join(limits)}]" if self.style.intervals and known else "",
            place=placing.place,
            marks=" ".join(filter(None, marks)),
        )


def _labelled(group: Group) -> Group:
    """A group with the name of a relation, else its label, in place of its id."""
    columns = dict(group)
    for text in ("relation_label", "relation_name"):
        if text in columns:
            columns["relation"] = columns.pop(text)
    return tuple(columns.items())


def group_text(group: Group) -> str:
    """A group in words."""
    return ", ".join(f"{key} {as_text(value)}" for key, value in _labelled(group))


def _digits(values: Iterable[float]) -> int:
    """The number of decimals: four, fewer if the largest number is large."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 4 if largest < 10 else 2 if largest < 1000 else 1


def _number(value: float, digits: int) -> str:
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) >= 1e9:
        return f"{value:.4g}"
    return f"{round(value, digits) + 0.0:,.{digits}f}"  # a value that rounds to 0 has no sign
