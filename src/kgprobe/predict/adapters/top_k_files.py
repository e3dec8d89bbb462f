"""Read top-k lists: JSON Lines with one query per line, or records in Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from kgprobe.arrays import Ints
from kgprobe.bounded_files import UNREADABLE, bounded_lines, disguise, open_bytes
from kgprobe.errors import DataError, shown
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.text_files import Complaints
from kgprobe.predict.adapters.list_matching import Answers, Ids, LineError, ListOptions, Name
from kgprobe.predict.adapters.top_k import SideLists, TopKLists
from kgprobe.predict.scorers import SIDES, Side
from kgprobe.ranks.schema import SIDE_NAMES

_SPELLINGS = {
    "head": ("head", "subject", "gold_head"),
    "relation": ("relation", "predicate", "gold_relation", "gold_predicate"),
    "tail": ("tail", "object", "gold_tail"),
    "side": ("side", "predict"),
    "predictions": ("predictions", "answers"),
}
"""The names of each field; those that begin with gold are of KGxBoard."""

_FORMAT = (
    'each line is a query with its predictions, best first: {"head": "a", "relation": "r", "predictions": ["b", "c"]}; '
    "an array of such objects becomes lines with jq -c '.[]'"
)


_UNMATCHED = (
    "`unknown='drop'` leaves unknown answers out, `unknown='keep-as-wrong'` keeps them as wrong answers; "
    "`duplicates='first'` counts repeated answers once"
)


def open_top_k(path: str | PathLike[str], graph: KnowledgeGraph, options: ListOptions | None = None) -> TopKLists:
    r"""Read top-k lists, one query per line.

    A line is a JSON object: ``relation``, ``predictions`` and either ``head`` (to predict the tail) or ``tail`` (to
    predict the head); or both and the predicted ``side``. Predictions are names, best first, or ``[name, score]``, or
    ``{"entity": name, "score": score}``; predictions with equal scores tie. A text is matched to a label of the graph
    (an id if the graph has no labels) or to a name; see `Ids`. A number is an id. The file may be compressed (.gz).

    Args:
        path: The file.
        graph: The graph.
        options: What becomes of answers that match no entity, and of candidates that a list leaves out.

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
    file = Path(path)
    collected = _Collected(graph, options or ListOptions())
    complaints = Complaints(file.name)
    unreadable: list[str] = []
    try:
        if kind := disguise(file) if file.suffix != ".gz" else None:
            raise DataError(f"{file}: this is {kind}, not a file of top-k lists", remedy=_FORMAT)
        with open_bytes(file) as lines:
            for number, raw in enumerate(bounded_lines(lines), 1):
                try:
                    if raw.strip():
                        collected.add(number, parse_line(_decoded(number, raw)))
                except LineError as bad:
                    complaints.add(number, str(bad), raw.decode("utf-8", "backslashreplace").strip())
    except UNREADABLE as error:
        unreadable = [f"{file.name}: cannot be read ({error})"]
    return collected.lists(file, complaints.lines() + unreadable)


def lists_of(records: Sequence[Any], graph: KnowledgeGraph, options: ListOptions | None = None) -> TopKLists:
    """Top-k lists from Python: one dictionary per query, with the fields of a line of `open_top_k`.

    Raises:
        DataError: Some records are not valid; all of them are named.

    Example:
        >>> graph = KnowledgeGraph.from_triples(entity_labels=["Ada", "Bob", "Cy"], relation_labels=["knows"])
        >>> record = {"head": "Ada", "relation": "knows", "answers": ["cy", "Zoe", "Bob"]}
        >>> lists_of([record], graph, ListOptions.of(unknown="drop")).sides["tail"].entities.tolist()
        [2, 1]
    """
    collected, complaints = _Collected(graph, options or ListOptions()), Complaints("records")
    for number, record in enumerate(records, 1):
        try:
            collected.add(number, _parsed(record))
        except LineError as bad:
            complaints.add(number, str(bad), shown(record))
    return collected.lists(Path("records"), complaints.lines())


def _decoded(number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})") from None


class _Collected:
    """The lists that have been read so far, by query: the number of the line, the predictions, and their levels."""

    def __init__(self, graph: KnowledgeGraph, options: ListOptions) -> None:
        self._graph, self._options = graph, options
        self._entities = Ids(graph.entity_index(), graph.entity_names)
        self._relations = Ids(graph.relation_index(), graph.relation_names)
        answers = Ids(graph.entity_index(), graph.entity_names, options.nearest) if options.nearest else self._entities
        self._answers = Answers(answers, options)
        self._seen: dict[tuple[Side, int], tuple[int, Ints, Ints]] = {}
        self._unmatched = False

    def add(self, number: int, line: TopKLine) -> None:
        given, *_ = self._entities.of([line.given, *([] if line.target is None else [line.target])])
        (relation,) = self._relations.of([line.relation])
        try:
            ids, levels = self._answers.match(line.predictions, line.levels)
        except LineError:
            self._unmatched = True
            raise
        query = line.side, given * self._graph.num_relations + relation
        first, *before = self._seen.setdefault(query, (number, ids, levels))
        if not all(np.array_equal(one, other) for one, other in zip(before, (ids, levels), strict=True)):
            raise LineError(f"line {first} has a different list for the same query")

    def lists(self, path: Path, problems: list[str]) -> TopKLists:
        """All lists, if there are no problems."""
        if not problems and not self._seen:
            problems = [f"{path.name}: empty"]
        if self._unmatched:
            problems = [*problems, f"{path.name}: {self._answers.info()}"]
        if problems:
            raise DataError(f"{path}: these lists cannot be used", problems, _UNMATCHED if self._unmatched else _FORMAT)
        sides = {side: self._side(side) for side in SIDES}
        return TopKLists(path, self._graph, sides, self._options.unlisted, self._answers.info())

    def _side(self, side: Side) -> SideLists:
        own = [(key, *entry[1:]) for (asked, key), entry in self._seen.items() if asked == side]
        keys, predictions, levels = zip(*own, strict=True) if own else ((), (), ())
        return SideLists.build(keys, predictions, levels)


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
    return _parsed(entry)


def _parsed(entry: Any) -> TopKLine:
    if not isinstance(entry, Mapping):
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
