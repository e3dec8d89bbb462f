"""Whether a file keeps the rules of a rank table; one that breaks them is looked at no further."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kgprobe.compare.audit.finding import Finding, Severity
from kgprobe.compare.audit.view import Source
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks.checks import Checker

_CAUSES = {
    "rank is below 1": "ranks count from 1, and not from 0",
    "a popularity is outside 0..1": (
        "delta(e) is the degree divided by twice the number of training triples, delta(r|e) a share of the degree"
    ),
    "more candidates than the graph has entities": "something is counted twice, or the target besides the others",
    "rank and ties place the tie group outside": "the rank must be the mean over the tie group, not its best or worst",
}
"""What often lies behind a broken rule, by how its description begins."""
_OF_COUNTS = (
    "rank is larger than the number of candidates",
    "rank and ties place the tie group outside",
    "fewer than 1 candidate",
    "more candidates than the graph has entities",
)
"""The rules that a file breaks in some rows when its candidates are wrong in all, by how they begin."""


def broken_rules(model: str, source: Source, graph: KnowledgeGraph | None) -> list[Finding]:
    """Every rule that a file breaks, or why it cannot be read; empty when it can be looked at.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> table = Ranks.from_columns(head=[7], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[2])
        >>> graph = KnowledgeGraph.from_triples(test=[[0, 0, 1]])
        >>> [finding.message for finding in broken_rules("mine", table, graph)]
        ['an entity id is outside the graph (0..1): 1 row (row 1)']
    """
    if not len(source):
        return [Finding((model,), "rules", "the file has no rows; rank again", Severity.error, 0)]
    checker = Checker(len(source), graph)

    def tables() -> Iterator[pa.Table]:
        return (batch.to_arrow() for batch in source.batches())

    try:
        for table in tables():
            checker.add(table)
        problems = checker.problems(tables)
    except DataError as error:
        return unreadable(model, error)
    return [Finding((model,), "rules", problem + _cause(problem), Severity.error) for problem in problems]


def miscounted(broken: list[Finding]) -> bool:
    """Whether all broken rules may come from candidates that are miscounted."""
    return bool(broken) and all(finding.message.startswith(_OF_COUNTS) for finding in broken)


def unreadable(model: str, error: DataError) -> list[Finding]:
    """What is wrong with a file that cannot be read, one finding for each problem."""
    return [Finding((model,), "unreadable", problem, Severity.error) for problem in error.problems or [error.title]]


def _cause(problem: str) -> str:
    return next((f"; {cause}" for begin, cause in _CAUSES.items() if problem.startswith(begin)), "")
