"""Popularity columns: do they hold delta(e) and delta(r|e) of the target in the training triples?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kgprobe.arrays import Flags, Floats, Ints
from kgprobe.audit.view import AuditedRun, Finding, Severity, View
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.popularity import Popularity

_KIND = "popularity"
_COLUMNS = ("entity_popularity", "relation_popularity")
_SYMBOLS = {"entity_popularity": "delta(e)", "relation_popularity": "delta(r|e)"}
_SAME = 1e-6  # relative difference that is ignored: float32 columns are off by less
_ENOUGH = 0.99  # a cause is named if it explains this share of the rows
_REMEDY = "Replace the columns with Ranks.with_popularity(), or give the graph to every function that needs popularity."


def check_popularity(view: View) -> Iterator[Finding]:
    """Popularity columns that differ from the popularity in the graph, with the likely cause.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2]], test=[[1, 0, 2]])
        >>> ranks = Ranks.from_columns(
        ...     head=[1], relation=[0], tail=[2], side=["tail"], rank=[1], candidates=[2], entity_popularity=[0.5]
        ... )
        >>> print(next(check_popularity(prepare({"mine": ranks}, graph))).message)
        Popularity differs from the graph in 1 of 1 rows: delta(e) is twice as large (the degree is divided by ...
    """
    if view.graph is None:
        return
    try:
        for model, runs in view.runs.items():
            yield from _of_model(view, view.graph, model, runs)
    except DataError:  # no training triples, or counts without these pairs: nothing to compare with
        return


def _popularity(view: View, column: str, popularity: Popularity, entities: Ints) -> Floats:
    if column == "entity_popularity":
        return popularity.entity(entities)
    return popularity.relation(view.queries.relation, entities)


def _mistakes(view: View, graph: KnowledgeGraph, column: str) -> dict[str, Callable[[], Floats]]:
    """The values that each known mistake gives a column, by the description of the mistake."""
    queries, popularity = view.queries, graph.popularity
    due = {name: _popularity(view, name, popularity, queries.target) for name in _COLUMNS}
    other = _COLUMNS[1 - _COLUMNS.index(column)]

    def counted(*splits: str) -> Floats:
        if not graph.has_train:
            raise DataError("the graph has no training triples")
        on_splits = Popularity.from_triples(graph.triples(*splits), graph.num_entities, graph.num_relations)
        return _popularity(view, column, on_splits, queries.target)

    def one_sided() -> Floats:
        head, _, tail = graph.triples("train").T
        heads, tails = (np.bincount(ids, minlength=graph.num_entities)[queries.target] for ids in (head, tail))
        return np.where(queries.predicts_tail, tails, heads) / triples

    degree = popularity.counts.degree[queries.target].astype(np.float64)
    triples = max(popularity.counts.num_triples, 1)
    shared = {
        "the popularity of the given entity, not of the target": lambda: _popularity(
            view, column, popularity, queries.given
        ),
        f"the value of {_SYMBOLS[other]} (the columns are swapped)": lambda: due[other],
        "counted on all splits, not on train only": lambda: counted(*graph.splits),
        "counted on train and valid, not on train only": lambda: counted("train", "valid"),
    }
    if column == "relation_popularity":
        joint = "the share of the pair in all triples, not in the triples of the entity"
        return shared | {joint: lambda: due["relation_popularity"] * due["entity_popularity"]}
    twice = "twice as large (the degree is divided by the number of training triples, not by twice that)"
    return shared | {
        twice: lambda: degree / triples,
        "the degree divided by the largest degree": lambda: degree / max(float(popularity.counts.degree.max()), 1.0),
        "the same for all entities": lambda: np.full(len(degree), 1 / graph.num_entities),
        "counted on the side of the target only": one_sided,
    }


def _of_model(view: View, graph: KnowledgeGraph, model: str, runs: tuple[AuditedRun, ...]) -> Iterator[Finding]:
    off = [np.zeros(len(run.has), dtype=bool) for run in runs]
    causes: dict[str, list[str]] = {}
    for column in _COLUMNS:
        due = _popularity(view, column, graph.popularity, view.queries.target)
        wrong = [_differs(run.numbers(column), due) for run in runs]
        if any(flags.any() for flags in wrong):
            off = [before | now for before, now in zip(off, wrong, strict=True)]
            cause = _cause(_mistakes(view, graph, column), runs[0].numbers(column))
            causes.setdefault(cause, []).append(_SYMBOLS[column])
    count, rows = sum(int(flags.sum()) for flags in off), sum(run.rows for run in runs)
    if count:
        told = "; ".join(
            f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} {cause}"
            for cause, names in causes.items()
            if cause
        )
        message = (
            f"Popularity differs from the graph in {count:,} of {rows:,} rows{f': {told}' if told else ''}. {_REMEDY}"
        )
        yield Finding((model,), _KIND, message, Severity.error, count)


def _cause(mistakes: Mapping[str, Callable[[], Floats]], recorded: Floats) -> str:
    """The mistake that explains a column; empty if none does."""
    known = ~np.isnan(recorded)
    for name, values in mistakes.items():
        try:
            explained = ~_differs(recorded, values())[known]
        except DataError:
            continue
        if explained.mean() >= _ENOUGH:
            return name
    return ""


def _differs(own: Floats, due: Floats) -> Flags:
    """Where a recorded number differs from the correct one; a number that is not recorded (NaN) does not differ."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(own - due) > _SAME * due)
