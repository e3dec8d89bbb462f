"""The table of metrics, from the metrics themselves."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

from kgprobe.metrics.base import Metric
from kgprobe.metrics.catalogue import METRICS, usage

CITATIONS = {
    "PROBE": "the paper that this package implements, which extends Moon and Ko, How Sharp and Bias-Robust is a Model? "
    "Dual Evaluation Perspectives on Knowledge Graph Completion, WSDM 2026",
    "kgprobe": "defined here; see [formula by formula](formulas.md)",
    "Ali et al. 2021": "PyKEEN 1.0: A Python Library for Training and Evaluating Knowledge Graph Embeddings, "
    "JMLR 22(82)",
    "Berrendorf et al. 2020": "On the Ambiguity of Rank-Based Evaluation of Entity Alignment or Link Prediction "
    "Methods, arXiv:2002.06914",
    "Bordes et al. 2013": "Translating Embeddings for Modeling Multi-relational Data, NeurIPS 26",
    "Hoyt et al. 2022": "A Unified Framework for Rank-based Evaluation Metrics for Link Prediction in Knowledge "
    "Graphs, arXiv:2203.07544",
    "Mohamed et al. 2020": "Popularity Agnostic Evaluation of Knowledge Graph Embeddings, UAI 2020",
    "Tiwari et al. 2021": "Revisiting the Evaluation Protocol of Knowledge Graph Completion Methods for Link "
    "Prediction, WWW 2021",
    "Voorhees 1999": "The TREC-8 Question Answering Track Report, TREC 8",
    "Yang et al. 2022": "Rethinking Knowledge Graph Evaluation Under the Open-World Assumption, NeurIPS 35",
}


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
        "monotone": metric.facts.monotone,
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
        if not row["monotone"]:
            lines.append("- not monotone in the ranks: has no value and no interval where ranks are intervals")
    lines += ["", "## References", "", *(f"- {short}: {citation}" for short, citation in CITATIONS.items())]
    return "\n".join(lines) + "\n"
