"""The rules of a model as rows: one for every rule as it is read, whichever side it predicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.rules.explain import RuleScorer
from kgprobe.models.rules.measure import Measure
from kgprobe.models.rules.rule import Floats, Rules
from kgprobe.models.rules.text import rule_text

Key: TypeAlias = Callable[[Rules, Floats], NDArray[np.float64]]

SORTS: Mapping[str, Key] = {
    "weight": lambda rules, weight: np.fmax(weight[0], weight[1]),
    "confidence": lambda rules, weight: rules.confidence,
    "support": lambda rules, weight: rules.support,
}
"""What rules can be put in order by: the larger weight, or a statistic of the training facts."""

_STARTS = 1_000
"""From so many entities at most a body is followed to count what nobody has counted."""


def rule_rows(
    scorer: RuleScorer,
    graph: KnowledgeGraph,
    *,
    relations: Sequence[int] | None = None,
    sort: str = "weight",
    top: int = 20,
) -> list[dict[str, Any]]:
    """The first rules of each relation, largest first.

    A rule that predicts tails and one that predicts heads may be the same when they are read, with a weight for each
    side; they make one row.

    Args:
        scorer: The model.
        graph: Gives names.
        relations: The relations that are wanted; None for all.
        sort: What decides which rules are first; see `SORTS`.
        top: How many rules of each relation.
    """
    rules, weight = _upright(scorer.rules, scorer.weights)
    wanted = np.arange(graph.num_relations) if relations is None else np.asarray(relations)
    chosen = np.flatnonzero(np.isin(rules.head, wanted))
    rules, weight = rules.at(chosen), weight[:, chosen]
    measure = Measure(scorer.grounder.adjacency, _STARTS)
    if sort != "weight":
        rules = _measured(rules, measure)
    value = SORTS[sort](rules, weight)
    by_relation = (np.flatnonzero(rules.head == relation) for relation in wanted)
    first = [own[np.argsort(-value[own], kind="stable")][:top] for own in by_relation]
    shown = np.concatenate([np.empty(0, np.int64), *first])
    rules, weight = _measured(rules.at(shown), measure), weight[:, shown]
    return [_row(rules, weight[:, i], i, graph) for i in range(len(rules))]


def _measured(rules: Rules, measure: Measure) -> Rules:
    """The rules with the statistics that they do not have: a generator writes rules that nobody has counted."""
    lacking = rules.pairs == 0
    if not lacking.any():
        return rules
    found = measure.of(rules.at(lacking))
    columns = {}
    for name in ("support", "pairs", "path_support", "paths"):
        columns[name] = getattr(rules, name).copy()
        columns[name][lacking] = getattr(found, name)
    return replace(rules, **columns)


def _upright(rules: Rules, weights: NDArray[np.float64]) -> tuple[Rules, Floats]:
    """The distinct rules as they are read, and their weights for tails and for heads: [2, rules], or no number."""
    for_heads = rules.head >= rules.relations
    turned = rules.reversed()
    head = np.where(for_heads, turned.head, rules.head)
    body = np.where(for_heads[:, None], turned.body, rules.body)
    _, first, which = np.unique(np.column_stack([head, body]), axis=0, return_index=True, return_inverse=True)
    weight = np.full((2, len(first)), np.nan)
    weight[for_heads.astype(int), which.ravel()] = weights
    return replace(rules.at(first), head=head[first], body=body[first]), weight


def _row(rules: Rules, weight: Floats, i: int, graph: KnowledgeGraph) -> dict[str, Any]:
    tail, head = (None if np.isnan(own) else float(own) for own in weight)
    return {
        "relation": graph.relation_label([rules.head[i]])[0],
        "rule": rule_text(rules, i, lambda relation: graph.relation_label([relation])[0]),
        "predicts": "tail" if head is None else "head" if tail is None else "both",
        "tail weight": tail,
        "head weight": head,
        "confidence": float(rules.confidence[i]),
        "support": round(float(rules.support[i])),
    }
