"""JSON entries of a page: audit findings, estimates, differences, open-world benchmarks and explanations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgprobe.comparison.lineup import Lineup
from kgprobe.openworld.consistency import ranking
from kgprobe.report.figures.style import looks
from kgprobe.report.page.page_queries import draw_sample
from kgprobe.resources import Progress

if TYPE_CHECKING:
    from kgprobe.audit import Finding
    from kgprobe.comparison.intervals import Interval
    from kgprobe.comparison.results import Difference, Estimate
    from kgprobe.models.rules.explanations import Answer, Answers, Explainer, Reason
    from kgprobe.openworld.benches import Bench


def finding_entry(finding: Finding) -> dict[str, Any]:
    """The entry of a finding of the audit.

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
    """The entry of an estimate; numbers that are not finite are null, with a reason."""
    return {
        "model": estimate.model,
        "metric": str(estimate.metric),
        "higherIsBetter": estimate.metric.higher_is_better,
        "group": dict(estimate.group),
        "value": _finite(estimate.value),
        "ends": [_finite(end) for end in estimate.ends],
        "std": _finite(estimate.std),
        "seeds": estimate.seeds,
        "queries": estimate.queries,
        "effective": _finite(estimate.effective),
        **_interval_entry(estimate.interval),
        "reason": estimate.reason or estimate.interval.reason,
    }


def difference_entry(difference: Difference) -> dict[str, Any]:
    return {
        "first": difference.first,
        "second": difference.second,
        "metric": str(difference.metric),
        "group": dict(difference.group),
        "value": _finite(difference.value),
        "ends": [_finite(end) for end in difference.ends],
        "p": _finite(difference.p),
        "adjusted": _finite(difference.adjusted),
        "significant": difference.significant,
        "holm": _finite(difference.holm),
        "bh": _finite(difference.bh),
        **_interval_entry(difference.interval),
        "reason": difference.reason or difference.interval.reason,
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
    """The entry of an open-world benchmark: its points, statistics and notes."""
    points = bench.points
    return {
        "name": bench.world,
        "models": list(points.models),
        "looks": [{"colour": look.colour, "marker": look.marker} for look in looks(points.models).values()],
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
    points, order = bench.points, ranking(bench.points, number)
    return {
        "name": str(points.metrics[number]),
        "higherIsBetter": points.metrics[number].higher_is_better,
        "open": points.open[number].round(_WORLD_DIGITS).tolist(),
        "closed": points.closed[number].round(_WORLD_DIGITS).tolist(),
        "best": order.point.tolist(),
        "byOpen": order.by_open.tolist(),
        "byClosed": order.by_closed.tolist(),
        "statistics": bench.consistency[number].to_row(),
    }


MOST_EXPLAINED = 300  # explained queries per model
_RULES = 3
_REASON_DIGITS = 4


@dataclass(frozen=True, eq=False)
class Reasons:
    """Explanations of a rule-based model.

    Attributes:
        model: Its name in the line-up.
        seed: The seed of the explained training run.
        rows: The explained rows of the line-up.
        targets: The target of each of these rows.
        answers: The explained target and, if another candidate is ranked above it, the top candidate.
    """

    model: str
    seed: int
    rows: Sequence[int]
    targets: Sequence[int]
    answers: Sequence[Answers]


def explained_rows(lineup: Lineup, most: int = MOST_EXPLAINED) -> list[int]:
    """The rows to explain: all of a small line-up, else a sample that every version of the page lists."""
    if len(lineup) <= most:
        return list(range(len(lineup)))
    # A smaller sample is part of every larger one.
    rows: list[int] = sorted(draw_sample(lineup, most * 5 // 6).rows.tolist())
    return rows


def explain_queries(
    lineup: Lineup, model: str, seed: int, explainer: Explainer, progress: Progress | None = None
) -> Reasons:
    """Explain the ranks of some queries of a rule-based model."""
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
