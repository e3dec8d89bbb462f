"""Read files of top-k lists: JSON Lines with one query per line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from kgprobe.arrays import Ints
from kgprobe.bounded_files import UNREADABLE, bounded_lines, disguise, open_bytes
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.names import Names
from kgprobe.graph.text_files import Complaints
from kgprobe.predict.adapters.top_k import SideLists, TopKLists, Unlisted
from kgprobe.predict.scorers import SIDES, Side
from kgprobe.ranks.schema import SIDE_NAMES

Name: TypeAlias = str | int

_SPELLINGS = {
    "head": ("head", "subject", "gold_head"),
    "relation": ("relation", "predicate", "gold_relation", "gold_predicate"),
    "tail": ("tail", "object", "gold_tail"),
    "side": ("side", "predict"),
    "predictions": ("predictions",),
}
"""The names of each field; the later ones are those of KGxBoard."""

_FEW = 2000
"""The nearest name is suggested only among this many, where the search is fast."""

_SHOWN = 3
_SUGGESTIONS = 20

_FORMAT = (
    'each line is a query with its predictions, best first: {"head": "a", "relation": "r", "predictions": ["b", "c"]}; '
    "an array of such objects becomes lines with jq -c '.[]'"
)


class LineError(ValueError):
    """A problem with a line."""


def open_top_k(
    path: str | PathLike[str], graph: KnowledgeGraph, unlisted: Unlisted | str = Unlisted.unknown
) -> TopKLists:
    r"""Read top-k lists, one query per line.

    A line is a JSON object: ``relation``, ``predictions`` and either ``head`` (to predict the tail) or ``tail`` (to
    predict the head); or both and the predicted ``side``. Predictions are names, best first, or ``[name, score]``, or
    ``{"entity": name, "score": score}``; predictions with equal scores tie. A text is a label of the graph (an id if
    the graph has no labels), a number is an id. The file may be compressed (.gz).

    Args:
        path: The file.
        graph: The graph.
        unlisted: How candidates that a list leaves out are ranked; see `TopKLists`.

    Raises:
        DataError: Some lines are not valid; all of them are named.

    Example:
        >>> import tempfile
        >>> graph = KnowledgeGraph.from_triples(entity_labels=["Ada", "Bob", "Cy"], relation_labels=["knows"])
        >>> path = Path(tempfile.mkdtemp()) / "predictions.jsonl"
        >>> _ = path.write_text('{"head": "Ada", "relation": "knows", "predictions": ["Cy", "Bob"]}\n')
        >>> lists = open_top_k(path, graph)
        >>> len(lists), lists.sides["tail"].entities.tolist()
        (1, [2, 1])
    """
    file, unlisted = Path(path), Unlisted(unlisted)
    collected = _Collected(Ids(graph.entity_index()), Ids(graph.relation_index()), graph.num_relations)
    complaints = Complaints(file.name)
    unreadable: list[str] = []
    try:
        if kind := disguise(file) if file.suffix != ".gz" else None:
            raise DataError(f"{file}: this is {kind}, not a file of top-k lists", remedy=_FORMAT)
        with open_bytes(file) as lines:
            for number, raw in enumerate(bounded_lines(lines), 1):
                try:
                    if raw.strip():
                        collected.add(number, _decoded(number, raw))
                except LineError as bad:
                    complaints.add(number, str(bad), raw.decode("utf-8", "backslashreplace").strip())
    except UNREADABLE as error:
        unreadable = [f"{file.name}: cannot be read ({error})"]
    problems = complaints.lines() + unreadable
    if not problems and not collected.seen:
        problems = [f"{file.name}: empty"]
    if problems:
        raise DataError(f"{file}: these lists cannot be used", problems, _FORMAT)
    return TopKLists(file, graph, {side: collected.lists(side) for side in SIDES}, unlisted)


def _decoded(number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})") from None


@dataclass
class _Collected:
    """The lists that have been read so far, by query: the number of the line, the predictions, and their levels."""

    entities: Ids
    relations: Ids
    num_relations: int
    seen: dict[tuple[Side, int], tuple[int, Ints, Ints]] = field(default_factory=dict)

    def add(self, number: int, text: str) -> None:
        line = parse_line(text)
        given, *_ = self.entities.of([line.given, *([] if line.target is None else [line.target])])
        (relation,) = self.relations.of([line.relation])
        ids = np.array(self.entities.of(line.predictions), dtype=np.int64)
        if len(set(ids.tolist())) < len(ids):
            place = next(place for place in range(len(ids)) if ids[place] in ids[:place])
            raise LineError(f"{line.predictions[place]!r} is predicted twice")
        query = line.side, given * self.num_relations + relation
        first, predictions, levels = self.seen.setdefault(query, (number, ids, line.levels))
        if not (np.array_equal(predictions, ids) and np.array_equal(levels, line.levels)):
            raise LineError(f"line {first} has a different list for the same query")

    def lists(self, side: Side) -> SideLists:
        own = [(key, *entry[1:]) for (asked, key), entry in self.seen.items() if asked == side]
        keys, predictions, levels = zip(*own, strict=True) if own else ((), (), ())
        return SideLists.build(keys, predictions, levels)


class Ids:
    """Looks up the ids of entities or relations.

    Args:
        names: The names in id order.
    """

    def __init__(self, names: Names) -> None:
        self._names, self._size = names, len(names.names)
        self._suggestions = 0

    def of(self, names: Sequence[Name]) -> list[int]:
        """The id of each name.

        Raises:
            LineError: Some names are unknown or ambiguous.
        """
        ids = [self._id(name) for name in names]
        if -1 in ids:
            unknown = [name for name, found in zip(names, ids, strict=True) if found < 0]
            more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
            raise LineError(", ".join(self._problem(name) for name in unknown[:_SHOWN]) + more)
        return ids

    def _id(self, name: Name) -> int:
        if isinstance(name, int):
            return name if 0 <= name < self._size else -1
        return self._by_name.get(name, -1)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        """The id of each name, -1 if it is ambiguous."""
        texts = self._names.names
        return dict(zip(texts.to_pylist(), self._names.ids(texts).tolist(), strict=True))

    def _problem(self, name: Name) -> str:
        if isinstance(name, int):
            return f"{_short(name)} is outside the {self._names.kind} ids 0..{self._size - 1}"
        return f"{self._names.problem(name)}{self._nearest(name)}"

    def _nearest(self, name: str) -> str:
        if self._size > _FEW or self._suggestions == _SUGGESTIONS or name in self._by_name:
            return ""
        self._suggestions += 1
        near = difflib.get_close_matches(name, self._by_name, n=1)
        return f" (nearest: {near[0]!r})" if near else ""


@dataclass(frozen=True, eq=False)
class TopKLine:
    """A query and its predictions.

    Attributes:
        side: The predicted side.
        given: The entity on the other side.
        relation: The relation.
        target: The target, if the line has it.
        predictions: The predictions, best first.
        levels: For each prediction, an increasing number that predictions with equal scores share.
    """

    side: Side
    given: Name
    relation: Name
    target: Name | None
    predictions: Sequence[Name]
    levels: Ints


def parse_line(text: str) -> TopKLine:
    """Parse a line.

    Raises:
        LineError: The line is not valid.

    Example:
        >>> line = parse_line('{"head": "Ada", "relation": "knows", "predictions": [["Bob", 2], ["Cy", 1], ["Di", 1]]}')
        >>> line.side, line.given, line.predictions, line.levels.tolist()
        ('tail', 'Ada', ['Bob', 'Cy', 'Di'], [0, 1, 1])
    """
    try:
        entry = json.loads(text)
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON ({error.msg}, column {error.colno})") from None
    except (ValueError, RecursionError):
        raise LineError("not readable as JSON (a number too long, or nested too deeply)") from None
    if not isinstance(entry, dict):
        raise LineError("not a JSON object")
    fields = {name: _field(entry, name) for name in _SPELLINGS}
    side = _side(fields)
    given, target = ("head", "tail") if side == "tail" else ("tail", "head")
    predictions, levels = _predictions(fields["predictions"])
    return TopKLine(
        side=side,
        given=_name(given, fields[given]),
        relation=_name("relation", fields["relation"]),
        target=None if fields[target] is None else _name(target, fields[target]),
        predictions=predictions,
        levels=levels,
    )


def _field(entry: Mapping[str, Any], name: str) -> Any:
    found = [spelling for spelling in _SPELLINGS[name] if entry.get(spelling) is not None]
    if len(found) > 1:
        raise LineError(f"{' and '.join(found)} are the same field")
    return entry[found[0]] if found else None


def _side(fields: Mapping[str, Any]) -> Side:
    """The predicted side: the one that is named, else the one that is missing."""
    named = fields["side"]
    if named is not None:
        side = SIDE_NAMES.get(named.lower()) if isinstance(named, str) else None
        if side is None:
            raise LineError(f"the side is neither 'head' nor 'tail', but {_short(named)}")
        return cast("Side", side)
    open_sides = [side for side in ("head", "tail") if fields[side] is None]
    if len(open_sides) != 1:
        raise LineError("neither head nor tail is given" if open_sides else "head and tail are given, but not the side")
    return cast("Side", open_sides[0])


def _name(field: str, value: Any) -> Name:
    if value is None:
        raise LineError(f"no {field}")
    if not _is_name(value):
        raise LineError(f"the {field} is neither a name nor an id, but {_short(value)}")
    return cast("Name", value)


def _is_name(value: Any) -> bool:
    return type(value) in (str, int)  # not bool, which is an int in Python


def _predictions(values: Any) -> tuple[Sequence[Name], Ints]:
    if not isinstance(values, list):
        raise LineError("no list of predictions" if values is None else "the predictions are not a list")
    names, scores = _names_and_scores(values)
    wrong = next((place for place, name in enumerate(names) if not _is_name(name)), None)
    if wrong is not None:
        raise LineError(f"prediction {wrong + 1} is not a name, id, [name, score] or {{entity, score}}")
    absent = [score is None for score in scores]
    if all(absent):
        return names, np.arange(len(names))
    if any(absent):
        raise LineError(f"prediction {absent.index(True) + 1} has no score, though others do")
    return names, _levels(scores)


def _names_and_scores(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The names and the scores, None where there is none."""
    if all(_is_name(value) for value in values):
        return list(values), [None] * len(values)
    pairs = [_pair(value) for value in values]
    return [name for name, _ in pairs], [score for _, score in pairs]


def _pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, dict):
        return value.get("entity"), value.get("score")
    if isinstance(value, list):
        return (value[0], value[1]) if len(value) == 2 else (None, None)
    return value, None


def _levels(scores: Sequence[Any]) -> Ints:
    wrong = next((place for place, score in enumerate(scores) if type(score) not in (int, float)), None)
    if wrong is not None:
        raise LineError(f"the score of prediction {wrong + 1} is not a number, but {_short(scores[wrong])}")
    try:
        values = np.array([float(score) for score in scores])
    except OverflowError:
        raise LineError("a score is too large for float64") from None
    if np.isnan(values).any():
        raise LineError(f"the score of prediction {np.isnan(values).argmax() + 1} is NaN")
    rises = values[1:] > values[:-1]
    if rises.any():
        place = int(rises.argmax())
        raise LineError(
            f"the best must come first, but the score rises from {values[place]:g} to {values[place + 1]:g} "
            f"at prediction {place + 2}"
        )
    return np.concatenate([[0], np.cumsum(values[1:] != values[:-1])])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
