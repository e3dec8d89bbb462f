"""Popularity columns: do they hold delta(e) and delta(r|e) of the target in the training triples?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kgprobe.arrays import Flags, Floats
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
        meanings = _Meanings(view, view.graph)
        for model, runs in view.runs.items():
            yield from _of_model(meanings, model, runs)
    except DataError:  # no training triples, or counts without these pairs: nothing to compare with
        return


class _Meanings:
    """The values that a popularity column should have, and those that known mistakes would give it."""

    def __init__(self, view: View, graph: KnowledgeGraph) -> None:
        self._queries, self._graph = view.queries, graph

    def due(self, column: str) -> Floats:
        return self._of(column, self._graph.popularity, self._queries.target)

    def wrong(self, column: str) -> Mapping[str, Callable[[], Floats]]:
        """The values that each known mistake gives, by the description of the mistake."""
        other = _COLUMNS[1 - _COLUMNS.index(column)]
        popularity, target = self._graph.popularity, self._queries.target
        shared: dict[str, Callable[[], Floats]] = {
            "the popularity of the given entity, not of the target": lambda: self._of(
                column, popularity, self._queries.given
            ),
            f"the value of {_SYMBOLS[other]} (the columns are swapped)": lambda: self.due(other),
            "counted on all splits, not on train only": lambda: self._of(
                column, self._counted(*self._graph.splits), target
            ),
            "counted on train and valid, not on train only": lambda: self._of(
                column, self._counted("train", "valid"), target
            ),
        }
        return shared | (self._entity() if column == "entity_popularity" else self._relation())

    def _entity(self) -> dict[str, Callable[[], Floats]]:
        counts = self._graph.popularity.counts
        degree = counts.degree[self._queries.target].astype(np.float64)
        triples = max(counts.num_triples, 1)
        return {
            "twice as large (the degree is divided by the number of training triples, not by twice that)": (
                lambda: degree / triples
            ),
            "the degree divided by the largest degree": lambda: degree / max(float(counts.degree.max()), 1.0),
            "the same for all entities": lambda: np.full(len(degree), 1 / self._graph.num_entities),
            "counted on the side of the target only": lambda: self._one_sided() / triples,
        }

    def _relation(self) -> dict[str, Callable[[], Floats]]:
        due, entity = self.due("relation_popularity"), self.due("entity_popularity")
        return {"the share of the pair in all triples, not in the triples of the entity": lambda: due * entity}

    def _one_sided(self) -> Floats:
        head, _, tail = self._graph.triples("train").T
        counts = [np.bincount(ids, minlength=self._graph.num_entities) for ids in (head, tail)]
        target = self._queries.target
        return np.where(self._queries.predicts_tail, counts[1][target], counts[0][target]).astype(np.float64)

    def _counted(self, *splits: str) -> Popularity:
        if not self._graph.has_train:
            raise DataError("the graph has no training triples")
        return Popularity.from_triples(
            self._graph.triples(*splits), self._graph.num_entities, self._graph.num_relations
        )

    def _of(self, column: str, popularity: Popularity, entities: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
        if column == "entity_popularity":
            return popularity.entity(entities)
        return popularity.relation(self._queries.relation, entities)


def _of_model(meanings: _Meanings, model: str, runs: tuple[AuditedRun, ...]) -> Iterator[Finding]:
    off = [np.zeros(len(run.has), dtype=bool) for run in runs]
    causes: dict[str, list[str]] = {}
    for column in _COLUMNS:
        due = meanings.due(column)
        wrong = [_differs(run.numbers(column), due) for run in runs]
        if any(flags.any() for flags in wrong):
            off = [before | now for before, now in zip(off, wrong, strict=True)]
            causes.setdefault(_cause(meanings, column, runs), []).append(_SYMBOLS[column])
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


def _cause(meanings: _Meanings, column: str, runs: tuple[AuditedRun, ...]) -> str:
    """The mistake that explains a column; empty if none does."""
    own = runs[0].numbers(column)
    known = ~np.isnan(own)
    for name, values in meanings.wrong(column).items():
        try:
            explained = ~_differs(own, values())[known]
        except DataError:
            continue
        if explained.mean() >= _ENOUGH:
            return name
    return ""


def _differs(own: Floats, due: Floats) -> Flags:
    """Where a recorded number differs from the correct one; a number that is not recorded (NaN) does not differ."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(own - due) > _SAME * due)
