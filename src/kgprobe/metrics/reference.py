"""The table of metrics, from the metrics themselves."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

from kgprobe.metrics.base import Metric
from kgprobe.metrics.catalogue import METRICS, usage


def reference_row(metric: type[Metric]) -> dict[str, Any]:
    """What is declared of a metric, as a flat row.

    Example:
        >>> from kgprobe.metrics.plain import MRR
        >>> reference_row(MRR)["range"], reference_row(MRR)["better"]
        ('[0, 1]', 'higher')
    """
    example = metric()
    return {
        "metric": usage(metric),
        "meaning": metric.facts.title,
        "range": metric.facts.range,
        "better": "higher" if example.higher_is_better else "lower",
        "candidate_aware": example.needs_alternatives,
        "parameters": ", ".join(field.name for field in fields(metric)),  # type: ignore[arg-type]
        "reference": metric.facts.reference,
        "synonyms": ", ".join(metric.synonyms),
    }


def reference_page() -> str:
    """The metric reference of the documentation, in Markdown.

    Example:
        >>> reference_page().splitlines()[0]
        '# Metric reference'
    """
    columns = ["metric", "meaning", "range", "better", "reference"]
    lines = [
        "# Metric reference",
        "",
        "Generated from the code by `make docs`; do not edit. A name is written as in the first column; case, spaces,",
        "hyphens and underscores do not matter, and the parameters shown are the defaults.",
        "",
        "| " + " | ".join(columns) + " |",
        "|" + " --- |" * len(columns),
    ]
    for metric in METRICS:
        row = reference_row(metric)
        lines.append("| " + " | ".join(f"`{row[c]}`" if c == "metric" else str(row[c]) for c in columns) + " |")
    for metric in METRICS:
        row = reference_row(metric)
        lines += ["", f"## {row['metric']}", "", inspect.cleandoc(metric.__doc__ or "").split("\nExample:")[0].strip()]
        lines += ["", f"- range: {row['range']}, {row['better']} is better", f"- reference: {row['reference']}"]
        lines += [f"- parameters: {row['parameters']}"] if row["parameters"] else []
        lines += [f"- also written: {row['synonyms']}"] if row["synonyms"] else []
        if row["candidate_aware"]:
            lines.append("- leaves out queries with a single candidate, and says how many")
    return "\n".join(lines) + "\n"
