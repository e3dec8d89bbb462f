"""Match the answers of a system that writes names, such as a language model, to the entities of a graph."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from kgprobe.arrays import Ints
from kgprobe.errors import UsageError, shown
from kgprobe.graph.names import Labels, Names
from kgprobe.ranks import ListsInfo, UnmatchedAnswer

Name: TypeAlias = str | int


class _Choice(StrEnum):
    @classmethod
    def _missing_(cls, value: object) -> Self:
        name = cls.__name__.lower()
        raise UsageError(f"`{name}` cannot be {value!r}", [f"it can be {', '.join(cls)}"])


class Unlisted(_Choice):
    """How candidates that a list leaves out are ranked: unknown, or all with the same score."""

    unknown = "unknown"
    tied = "tied"


class Unknown(_Choice):
    """What becomes of an answer that is not exactly one entity of the graph."""

    error = "error"
    drop = "drop"
    """It is left out, and the answers after it move up."""
    keep_as_wrong = "keep-as-wrong"
    """It keeps its place, as a wrong answer."""


class Duplicates(_Choice):
    """What becomes of an answer that a list has twice."""

    error = "error"
    first = "first"
    """Only the first one counts."""


@dataclass(frozen=True)
class ListOptions:
    """How top-k lists are read and ranked.

    Attributes:
        unlisted: How candidates that a list leaves out are ranked.
        unknown: What becomes of answers that match no entity, or more than one.
        duplicates: What becomes of answers that a list has twice.
        nearest: Match an answer that is unknown otherwise to the entity with the most similar name, if the similarity
            (the ratio of `difflib.SequenceMatcher`) is at least this number; None to leave it unknown.

    Example:
        >>> ListOptions.of(unknown="drop").unknown
        <Unknown.drop: 'drop'>
    """

    unlisted: Unlisted = Unlisted.unknown
    unknown: Unknown = Unknown.error
    duplicates: Duplicates = Duplicates.error
    nearest: float | None = None

    def __post_init__(self) -> None:
        if self.nearest is not None and not 0 < self.nearest <= 1:
            remedy = "it is the least similarity of a name: above 0, at most 1; 0.9 for example"
            raise UsageError(f"`nearest` is {self.nearest}", remedy=remedy)

    @classmethod
    def of(
        cls,
        unlisted: str = "unknown",
        unknown: str = "error",
        duplicates: str = "error",
        nearest: float | None = None,
    ) -> ListOptions:
        """The options of these words."""
        return cls(Unlisted(unlisted), Unknown(unknown), Duplicates(duplicates), nearest)


class LineError(ValueError):
    """A problem with a line."""


class How(StrEnum):
    """How an answer was matched, by the first way that applies: the names of fields of `ListsInfo`."""

    label = "by_label"
    id = "by_id"
    name = "by_name"
    folded = "by_folding"
    unmarked = "without_marks"
    nearest = "by_nearest"
    ambiguous = "ambiguous"
    unknown = "not_found"


class Match(NamedTuple):
    """The entity of an answer, -1 if it is not exactly one."""

    id: int
    how: How


_AMBIGUOUS = -2
_SPACE = re.compile(r"[\s_]+")
_QUOTES = r"[\"'`*\u2018-\u201f\u00ab\u00bb]"
_MARKS = re.compile(rf"^(?:[0-9]{{1,3}}\s?[.):]|[-*\u2022\u2013])\s+|^{_QUOTES}|(?:{_QUOTES}|[.,;])$")
_FEW = 2000
"""The nearest name is suggested in messages only among this many, where the search is fast."""

_SHOWN = 3
_SUGGESTIONS = 20


def folded(text: str) -> str:
    r"""A text without differences of case, Unicode form, white space and underscores.

    Example:
        >>> folded("  Barack_OBAMA "), folded("Sa\u0303o Paulo") == folded("S\u00e3o Paulo")
        ('barack obama', True)
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _SPACE.sub(" ", plain).strip()


def unmarked(text: str) -> Iterator[str]:
    """A folded text with ever fewer marks: the number or bullet of a list item, quotation marks, the full stop.

    Example:
        >>> list(unmarked('1. "apple inc."'))
        ['"apple inc."', 'apple inc."', 'apple inc.', 'apple inc']
    """
    while (plain := _MARKS.sub("", text, count=1).strip()) != text:
        yield (text := plain)


class Ids:
    """Looks up the ids of entities or relations.

    A number is an id. A text is a label (the id, where there is no label); else a name; else a label or a name after
    folding; and last, if it is asked for, the nearest name. A text that stands for more than one id in the first of
    these ways that knows it is ambiguous. The target of a query is never looked at.

    Args:
        labels: The labels in id order.
        names: Their names for people, if there are any.
        nearest: Least similarity of the nearest name; None to match no such names.

    Example:
        >>> import pyarrow as pa
        >>> ids = Ids(Names.build("entity", 3, pa.array(["Q1", "Q2", "Q3"])), pa.array(["Paris", "Rome", "Rome"]))
        >>> [(match.id, str(match.how)) for match in map(ids.find, ["Q3", "Paris", " PARIS", "Rome", "Bonn"])]
        [(2, 'by_label'), (0, 'by_name'), (0, 'by_folding'), (-1, 'ambiguous'), (-1, 'not_found')]
    """

    def __init__(self, labels: Names, names: Labels | None = None, nearest: float | None = None) -> None:
        self._labels, self._size = labels, len(labels.names)
        self._names, self._cutoff = names, nearest
        self._found: dict[Name, Match] = {}
        self._suggestions = 0

    def of(self, names: Sequence[Name]) -> list[int]:
        """The id of each name.

        Raises:
            LineError: Some names are unknown or ambiguous.
        """
        matches = [self.find(name) for name in names]
        self.require(names, matches)
        return [match.id for match in matches]

    def require(self, names: Sequence[Name], matches: Sequence[Match]) -> None:
        """Raise a LineError if some names are unknown or ambiguous."""
        unknown = [name for name, match in zip(names, matches, strict=True) if match.id < 0]
        if unknown:
            more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
            raise LineError(", ".join(self._problem(name) for name in unknown[:_SHOWN]) + more)

    def find(self, name: Name) -> Match:
        """The id of a name, and how it was found."""
        match = self._found.get(name)
        if match is None:
            match = self._found[name] = self._search(name)
        return match

    def _search(self, name: Name) -> Match:
        if isinstance(name, int):
            return Match(name, How.id) if 0 <= name < self._size else Match(-1, How.unknown)
        for how, known in ((How.label, self._by_label), (How.name, self._by_name)):
            if name in known:
                return _match(known[name], how)
        plain = folded(name)
        if plain in self._by_folded:
            return _match(self._by_folded[plain], How.folded)
        for text in unmarked(plain):
            if text in self._by_folded:
                return _match(self._by_folded[text], How.unmarked)
        near = None if self._cutoff is None else self._similar.nearest(plain, self._cutoff)
        return Match(-1, How.unknown) if near is None else _match(near, How.nearest)

    @cached_property
    def _by_label(self) -> dict[str, int]:
        texts = self._labels.names
        ids = self._labels.ids(texts)
        return dict(zip(texts.to_pylist(), np.where(ids < 0, _AMBIGUOUS, ids).tolist(), strict=True))

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {} if self._names is None else _ids_of(enumerate(self._names.to_pylist()))

    @cached_property
    def _by_folded(self) -> dict[str, int]:
        texts = [self._labels.names.to_pylist(), [] if self._names is None else self._names.to_pylist()]
        pairs = (pair for column in texts for pair in enumerate(column))
        ids = _ids_of((i, folded(text)) for i, text in pairs if text is not None)
        ids.pop("", None)
        return ids

    @cached_property
    def _similar(self) -> _Similar:
        return _Similar(self._by_folded)

    def _problem(self, name: Name) -> str:
        if isinstance(name, int):
            return f"{shown(name)} is outside the {self._labels.kind} ids 0..{self._size - 1}"
        if self.find(name).how is How.ambiguous:
            return f"{name[:40]!r} is the name of more than one {self._labels.kind}"
        return f"{name[:40]!r} is no known {self._labels.kind}{self._suggestion(name)}"

    def _suggestion(self, name: str) -> str:
        if self._size > _FEW or self._suggestions == _SUGGESTIONS:
            return ""
        self._suggestions += 1
        near = difflib.get_close_matches(name, [*self._by_label, *self._by_name], n=1)
        return f" (nearest: {near[0]!r})" if near else ""


def _ids_of(pairs: Iterable[tuple[int, str | None]]) -> dict[str, int]:
    """The id of each text of (id, text) pairs, `_AMBIGUOUS` if it has several."""
    ids: dict[str, int] = {}
    for i, text in pairs:
        if text is not None and ids.setdefault(text, i) != i:
            ids[text] = _AMBIGUOUS
    return ids


def _match(found: int, how: How) -> Match:
    return Match(-1, How.ambiguous) if found == _AMBIGUOUS else Match(found, how)


_COUNTED = 64  # characters are counted modulo this number


class _Similar:
    """Finds the most similar of many names, by the ratio of `difflib.SequenceMatcher`.

    The characters that two texts have in common bound the ratio, and are counted for all names at once. So only the
    few names that may be the nearest are compared in full.
    """

    def __init__(self, ids: dict[str, int]) -> None:
        self._names, self._ids = list(ids), list(ids.values())
        self._length = np.array([len(name) for name in self._names], dtype=np.int64)
        self._counts = np.array([_characters(name) for name in self._names], dtype=np.uint8).reshape(-1, _COUNTED)

    def nearest(self, text: str, cutoff: float) -> int | None:
        """The id of the most similar name, `_AMBIGUOUS` if several ids are; None if none reaches the cutoff."""
        if not text:
            return None
        common = np.minimum(self._counts, _characters(text)).sum(axis=1, dtype=np.int64)
        bound = 2 * np.minimum(common, self._length) / (self._length + len(text))
        possible = np.flatnonzero(bound >= cutoff)
        matcher = difflib.SequenceMatcher(None, autojunk=False)
        matcher.set_seq2(text)
        best, found = cutoff, set[int]()
        for i in possible[np.argsort(-bound[possible], kind="stable")].tolist():
            if bound[i] < best:
                break
            matcher.set_seq1(self._names[i])
            ratio = matcher.ratio()
            if ratio > best:
                best, found = ratio, {self._ids[i]}
            elif ratio == best:
                found.add(self._ids[i])
        return None if not found else found.pop() if len(found) == 1 else _AMBIGUOUS


def _characters(text: str) -> Ints:
    counts = np.bincount([ord(character) % _COUNTED for character in text], minlength=_COUNTED)
    return np.minimum(counts, 255)


_FREQUENT, _LONGEST = 5, 100  # how many unmatched answers are recorded, and how many characters of each


def _text(name: Name) -> str:
    return name if isinstance(name, str) else shown(name)


def _recorded(text: str) -> str:
    """The beginning of a text, with what is no Unicode written as escapes."""
    return text[:_LONGEST].encode("utf-8", "backslashreplace").decode()


@dataclass
class Answers:
    """Matches the answers of lists, one list after the other, and counts how.

    Attributes:
        ids: Looks up entities.
        options: What becomes of unknown and repeated answers.
    """

    ids: Ids
    options: ListOptions
    _counts: Counter[How] = field(default_factory=Counter)
    _repeated: int = 0
    _unmatched: Counter[str] = field(default_factory=Counter)

    def match(self, names: Sequence[Name], levels: Ints) -> tuple[Ints, Ints]:
        """The entities of a list, -1 for a wrong answer that is kept, and the levels of their scores.

        Raises:
            LineError: An answer is unknown or repeated, which is an error.
        """
        matches = [self.ids.find(name) for name in names]
        self._counts.update(match.how for match in matches)
        self._unmatched.update(_text(name) for name, match in zip(names, matches, strict=True) if match.id < 0)
        if self.options.unknown is Unknown.error:
            self.ids.require(names, matches)
        entities, kept, seen = [], [], set[int | str]()
        for place, (name, match) in enumerate(zip(names, matches, strict=True)):
            if match.id < 0 and self.options.unknown is Unknown.drop:
                continue
            own = match.id if match.id >= 0 else folded(_text(name))
            if own in seen:
                self._repeated += 1
                if self.options.duplicates is Duplicates.error:
                    raise LineError(f"{shown(name)} is predicted twice")
                continue
            seen.add(own)
            entities.append(match.id)
            kept.append(place)
        return np.array(entities, dtype=np.int64), levels[np.array(kept, dtype=np.int64)]

    def info(self) -> ListsInfo:
        """How the answers were matched."""
        return ListsInfo(
            unlisted=str(self.options.unlisted),
            unknown=str(self.options.unknown),
            duplicates=str(self.options.duplicates),
            nearest=self.options.nearest,
            answers=self._counts.total(),
            repeated=self._repeated,
            frequent=tuple(UnmatchedAnswer(_recorded(text), n) for text, n in self._unmatched.most_common(_FREQUENT)),
            **{str(how): count for how, count in self._counts.items()},
        )
