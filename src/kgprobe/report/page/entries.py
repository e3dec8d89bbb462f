"""Findings, estimates, explanations and benches as JSON entries of a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgprobe.comparison.lineup import Lineup
from kgprobe.openworld.consistency import ranking
from kgprobe.report.page.page_queries import draw_sample
from kgprobe.resources import Progress

if TYPE_CHECKING:
    from kgprobe.audit import Finding
    from kgprobe.comparison.intervals import Interval
    from kgprobe.comparison.results import Difference, Estimate
    from kgprobe.models.rules.explanations import Answer, Answers, Explainer, Reason
    from kgprobe.openworld.benches import Bench


def finding_entry(finding: Finding) -> dict[str, Any]:
    """A finding of the audit.

    Example:
        >>> from kgprobe.audit import Finding
        >>> finding_entry(Finding(("mine",), "seeds", "seeds 1 and 2 are copies", "warning"))
        {'models': ['mine'], 'kind': 'seeds', 'severity': 'warning', 'message': 'seeds 1 and 2 are copies'}
    """
    return {
        "models": list(finding.models),
        "kind": finding.kind,
        "severity": str(finding.severity),
        "message": finding.message,
    }


def estimate_entry(estimate: Estimate) -> dict[str, Any]:
    """The value of a metric for a model; null where it is no finite number."""
    return {
        "model": estimate.model,
        "metric": str(estimate.metric),
        "group": dict(estimate.group),
        "value": _finite(estimate.value),
        "std": _finite(estimate.std),
        "seeds": estimate.seeds,
        "queries": estimate.queries,
        "effective": _finite(estimate.effective),
        **_interval_entry(estimate.interval),
    }


def difference_entry(difference: Difference) -> dict[str, Any]:
    """The difference of two models, with its p values."""
    return {
        "first": difference.first,
        "second": difference.second,
        "metric": str(difference.metric),
        "group": dict(difference.group),
        "value": _finite(difference.value),
        "p": _finite(difference.p),
        "holm": _finite(difference.holm),
        "bh": _finite(difference.bh),
        **_interval_entry(difference.interval),
    }


def _interval_entry(interval: Interval) -> dict[str, Any]:
    return {
        "low": _finite(interval.low),
        "high": _finite(interval.high),
        "trusted": interval.trusted,
        "remark": interval.remark,
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


_WORLD_DIGITS = 6


def world_entry(bench: Bench) -> dict[str, Any]:
    """All points of a bench and what was found about them."""
    points = bench.points
    return {
        "name": bench.world,
        "models": list(points.models),
        "model": points.model.tolist(),
        "checkpoints": list(points.checkpoints),
        "queries": points.queries,
        "late": bench.settings.late,
        "metrics": [_metric_entry(bench, number) for number in range(len(points.metrics))],
        "differences": [one.to_row() for one in bench.differences],
        "verdict": bench.verdict,
        "notes": bench.notes,
    }


def _metric_entry(bench: Bench, number: int) -> dict[str, Any]:
    points, found = bench.points, ranking(bench.points, number)
    return {
        "name": str(points.metrics[number]),
        "higherIsBetter": points.metrics[number].higher_is_better,
        "open": points.open[number].round(_WORLD_DIGITS).tolist(),
        "closed": points.closed[number].round(_WORLD_DIGITS).tolist(),
        "best": found.point.tolist(),
        "byOpen": found.by_open.tolist(),
        "byClosed": found.by_closed.tolist(),
        "statistics": bench.consistency[number].to_row(),
    }


MOST_EXPLAINED = 300

"""Queries of a model that are explained: each takes some hundredths of a second, and some hundred bytes of the page."""

_RULES = 3

_REASON_DIGITS = 4


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
    lineup: Lineup, model: str, seed: int, explainer: Explainer, progress: Progress | None = None
) -> Reasons:
    """Why a model puts the answers of some queries where it does.

    Args:
        lineup: The models.
        model: What the line-up calls this one.
        seed: The training run that is explained.
        explainer: Explains it.
        progress: Called with how many queries have been explained since the last call.
    """
    from kgprobe.models.rules.written_queries import WrittenQuery

    rows, first = explained_rows(lineup), lineup.first
    answers, targets = [], []
    for row in rows:
        head, relation, tail = (int(column[row]) for column in (first.head, first.relation, first.tail))
        asked, target = (WrittenQuery("tail", head, relation), tail)
        if not first.predicts_tail[row]:
            asked, target = WrittenQuery("head", tail, relation), head
        answers.append(explainer.answers(asked, [target], top=1, rules=_RULES, new=True))
        targets.append(target)
        if progress is not None:
            progress(1)
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
        "score": round(answer.score, _REASON_DIGITS),
        "parts": [[name, round(value, _REASON_DIGITS)] for name, value in answer.parts.items()],
        "rules": [_rounded(reason) for reason in answer.reasons],
        "more": answer.more,
    }


def _rounded(reason: Reason) -> dict[str, Any]:
    return vars(reason) | {"gain": round(reason.gain, _REASON_DIGITS), "alone": round(reason.alone, _REASON_DIGITS)}
