"""One line of a file of top-k lists: a query and the answers to it, still by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from kgprobe.predict.scorer import Side
from kgprobe.ranks.schema import SIDE_NAMES

Name: TypeAlias = str | int
Ints = NDArray[np.int64]

_SPELLINGS = {
    "head": ("head", "gold_head"),
    "relation": ("relation", "gold_relation", "gold_predicate"),
    "tail": ("tail", "gold_tail"),
    "side": ("side", "predict"),
    "predictions": ("predictions",),
}
"""Under which names each field is found; the second ones are those of KGxBoard."""


class LineError(ValueError):
    """What is wrong with a line."""


@dataclass(frozen=True, eq=False)
class Line:
    """A query and its answers.

    Attributes:
        side: The side that is asked for.
        given: The entity on the other side.
        relation: The relation.
        target: The true answer, where the line tells it.
        predictions: The answers, best first.
        levels: For each answer, a number that answers of equal score share and that rises along the list.
    """

    side: Side
    given: Name
    relation: Name
    target: Name | None
    predictions: Sequence[Name]
    levels: Ints


def parse_line(text: str) -> Line:
    """Take a line apart.

    Raises:
        LineError: It is not what it should be.

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
        raise LineError("not JSON that can be read (a number too long, or nested too deeply)") from None
    if not isinstance(entry, dict):
        raise LineError("not a JSON object")
    fields = {name: _field(entry, name) for name in _SPELLINGS}
    side = _side(fields)
    given, target = ("head", "tail") if side == "tail" else ("tail", "head")
    predictions, levels = _predictions(fields["predictions"])
    return Line(
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
    """The side that is asked for: the one that is named, else the one that is not given."""
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
    return type(value) in (str, int)  # not bool, which is an int to Python


def _predictions(answers: Any) -> tuple[Sequence[Name], Ints]:
    if not isinstance(answers, list):
        raise LineError("no list of predictions" if answers is None else "the predictions are not a list")
    names, scores = _names_and_scores(answers)
    wrong = next((place for place, name in enumerate(names) if not _is_name(name)), None)
    if wrong is not None:
        raise LineError(f"prediction {wrong + 1} is no name, id, [name, score] or {{entity, score}}")
    absent = [score is None for score in scores]
    if all(absent):
        return names, np.arange(len(names))
    if any(absent):
        raise LineError(f"prediction {absent.index(True) + 1} has no score, though others do")
    return names, _levels(scores)


def _names_and_scores(answers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Both, None where there is none."""
    if all(_is_name(answer) for answer in answers):
        return list(answers), [None] * len(answers)
    pairs = [_pair(answer) for answer in answers]
    return [name for name, _ in pairs], [score for _, score in pairs]


def _pair(answer: Any) -> tuple[Any, Any]:
    if isinstance(answer, dict):
        return answer.get("entity"), answer.get("score")
    if isinstance(answer, list):
        return (answer[0], answer[1]) if len(answer) == 2 else (None, None)
    return answer, None


def _levels(scores: Sequence[Any]) -> Ints:
    wrong = next((place for place, score in enumerate(scores) if type(score) not in (int, float)), None)
    if wrong is not None:
        raise LineError(f"the score of prediction {wrong + 1} is no number, but {_short(scores[wrong])}")
    try:
        values = np.array([float(score) for score in scores])
    except OverflowError:
        raise LineError("a score is too large for a number of 64 bits") from None
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
