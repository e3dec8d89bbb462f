"""Answers with their reasons, as people and programs read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from textwrap import indent
from typing import Any


@dataclass(frozen=True)
class Reason:
    """A rule that leads to a candidate.

    Attributes:
        rule: The rule, as it is read.
        paths: Along how many paths it does.
        gain: By how much the score would fall without it.
        alone: By how much one of its paths alone would raise a score.
        path: The facts along one of these paths.

    Example:
        >>> rule, path = "uncle(x, y) <- brother(x, z), parent(z, y)", "brother(Bob, Eve), parent(Eve, Ada)"
        >>> print(Reason(rule, paths=1, gain=2.5, alone=2.5, path=path))
        uncle(x, y) <- brother(x, z), parent(z, y)
          gain +2.5000, alone +2.5000, path: brother(Bob, Eve), parent(Eve, Ada)
    """

    rule: str
    paths: int
    gain: float
    alone: float
    path: str

    def __str__(self) -> str:
        paths = f"one of {self.paths:,} paths" if self.paths > 1 else "path"
        return f"{self.rule}\n  gain {self.gain:+.4f}, alone {self.alone:+.4f}, {paths}: {self.path}"


@dataclass(frozen=True, eq=False)
class Answer:
    """A candidate, and why it is where it is.

    Attributes:
        entity: The candidate.
        name: What it is called.
        rank: Its filtered rank, as `kgprobe rank` gives it: the mean over those that have the same score.
        ties: How many others have the same score.
        candidates: How many there are, itself included.
        score: Its score.
        parts: What the score is the sum of, by name.
        known: The splits in which it is a known answer.
        reasons: The strongest rules that lead to it.
        more: How many other rules lead to it.

    Example:
        >>> print(Answer(0, "Bob", 1.5, 1, 9, 0.25, {"rules": 0.0, "bias": 0.25}, ("train",), reasons=(), more=0))
        Bob: rank 1.5 of 9 (as 1 other), known from train
          score 0.2500 = rules 0.0000 + bias 0.2500
          no rule leads to it
    """

    entity: int
    name: str
    rank: float
    ties: int
    candidates: int
    score: float
    parts: Mapping[str, float]
    known: tuple[str, ...]
    reasons: tuple[Reason, ...]
    more: int

    def __str__(self) -> str:
        tied = f" (as {self.ties:,} {'other' if self.ties == 1 else 'others'})" if self.ties else ""
        known = f", known from {' and '.join(self.known)}" if self.known else ""
        parts = " + ".join(f"{name} {value:.4f}" for name, value in self.parts.items())
        lines = [f"{self.name}: rank {self.rank:,g} of {self.candidates:,}{tied}{known}"]
        lines.append(f"  score {self.score:.4f}{f' = {parts}' if parts else ''}")
        lines += [indent(str(reason), "  ") for reason in self.reasons]
        others = " more" if self.reasons else ""
        if self.more:
            lines.append(f"  {self.more:,}{others} {'rule leads' if self.more == 1 else 'rules lead'} to it")
        return "\n".join(lines if self.reasons or self.more else [*lines, "  no rule leads to it"])


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers to a question that were asked for, the best first.

    Attributes:
        question: What was asked, such as "parent(Ada, ?)".
        answers: The answers.

    Example:
        >>> Answers("parent(Ada, ?)", ()).to_rows()
        []
    """

    question: str
    answers: tuple[Answer, ...]

    def __str__(self) -> str:
        return "\n\n".join([self.question, *map(str, self.answers)])

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for every rule of every answer, and one for an answer without rules."""
        return [row for answer in self.answers for row in self._rows(answer)]

    def _rows(self, answer: Answer) -> Iterator[dict[str, Any]]:
        own = {
            "query": self.question,
            "candidate": answer.name,
            "known": " and ".join(answer.known),
            "rank": answer.rank,
            "ties": answer.ties,
            "candidates": answer.candidates,
            "score": answer.score,
            **{f"from {name}": value for name, value in answer.parts.items()},
        }
        for reason in answer.reasons:
            yield own | vars(reason)
        if not answer.reasons:
            yield own | dict.fromkeys(field.name for field in fields(Reason))
