"""Which rules put the answers of queries where they are, for the queries that a page lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgprobe.compare.lineup import Lineup
from kgprobe.report.page.sample import draw_sample

if TYPE_CHECKING:
    from kgprobe.models.rules.answers import Answer, Answers, Reason
    from kgprobe.models.rules.why import Explainer

MOST_EXPLAINED = 300
"""Queries of a model that are explained: each takes some hundredths of a second, and some hundred bytes of the page."""
_RULES = 3
_DIGITS = 4


@dataclass(frozen=True, eq=False)
class Reasons:
    """Why a model answers queries as it does.

    Attributes:
        model: What the line-up calls it.
        seed: The training run that is explained.
        rows: Rows of the line-up.
        targets: The answer that is ranked in each of these rows.
        answers: It and, where another one is above it, the best one.
    """

    model: str
    seed: int
    rows: Sequence[int]
    targets: Sequence[int]
    answers: Sequence[Answers]


def explained_rows(lineup: Lineup, most: int = MOST_EXPLAINED) -> list[int]:
    """The rows that are explained: all of a small line-up, else those that even the smallest page lists."""
    if len(lineup) <= most:
        return list(range(len(lineup)))
    # A smaller sample is part of every larger one.
    rows: list[int] = sorted(draw_sample(lineup, most * 5 // 6).rows.tolist())
    return rows


def explain_queries(
    lineup: Lineup, model: str, seed: int, explainer: Explainer, watch: Callable[[float], None] | None = None
) -> Reasons:
    """Why a model puts the answers of some queries where it does.

    Args:
        lineup: The models.
        model: What the line-up calls this one.
        seed: The training run that is explained.
        explainer: Explains it.
        watch: Called with how many queries have been explained since the last call.
    """
    from kgprobe.models.rules.question import Question

    rows, first = explained_rows(lineup), lineup.first
    answers, targets = [], []
    for row in rows:
        head, relation, tail = (int(column[row]) for column in (first.head, first.relation, first.tail))
        asked, target = (Question("tail", head, relation), tail)
        if not first.predicts_tail[row]:
            asked, target = Question("head", tail, relation), head
        answers.append(explainer.answers(asked, [target], top=1, rules=_RULES, new=True))
        targets.append(target)
        if watch is not None:
            watch(1)
    return Reasons(model, seed, rows, targets, answers)


def reasons_entry(reasons: Reasons, lineup: Lineup) -> dict[str, Any]:
    """All of it, as JSON can say it."""
    explained = zip(reasons.rows, reasons.targets, reasons.answers, strict=True)
    return {
        "model": lineup.models.index(reasons.model),
        "seed": reasons.seed,
        "queries": [{"row": row, **_query_entry(target, found)} for row, target, found in explained],
    }


def _query_entry(target: int, found: Answers) -> dict[str, Any]:
    own = next(answer for answer in found.answers if answer.entity == target)
    best = found.answers[0]
    return {"question": found.question, "answer": _entry(own), "best": None if best is own else _entry(best)}


def _entry(answer: Answer) -> dict[str, Any]:
    return {
        "name": answer.name,
        "rank": answer.rank,
        "ties": answer.ties,
        "candidates": answer.candidates,
        "score": round(answer.score, _DIGITS),
        "parts": [[name, round(value, _DIGITS)] for name, value in answer.parts.items()],
        "rules": [_rounded(reason) for reason in answer.reasons],
        "more": answer.more,
    }


def _rounded(reason: Reason) -> dict[str, Any]:
    return vars(reason) | {"gain": round(reason.gain, _DIGITS), "alone": round(reason.alone, _DIGITS)}
