"""`check`: run every audit check on the same rank files. Also the checks of table validity and of metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from kgprobe.audit.candidate_counts import check_candidates, check_samples, one_off, recountable
from kgprobe.audit.implied_settings import check_assumptions, check_implied_settings
from kgprobe.audit.plausibility import check_plausibility
from kgprobe.audit.query_sets import check_misplaced, check_queries
from kgprobe.audit.rank_values import check_rank_values, check_ties
from kgprobe.audit.recorded_popularity import check_popularity
from kgprobe.audit.training_runs import check_seeds
from kgprobe.audit.view import MOST_ROWS, Audit, Finding, Severity, Source, View, gravest_first, prepare
from kgprobe.comparison.lineup import NamedRanks, open_models
from kgprobe.errors import DataError
from kgprobe.graph import GraphLike, KnowledgeGraph, as_graph
from kgprobe.ranks import Ranks, RanksInfo
from kgprobe.ranks.schema import Checker

# Likely cause of a validation problem, by how the message of the problem begins.
_CAUSES = {
    "rank is below 1": "ranks start at 1, not at 0",
    "a popularity is outside 0..1": (
        "delta(e) is the degree divided by twice the number of training triples, delta(r|e) a share of that degree"
    ),
    "more candidates than the graph has entities": "some candidates are counted twice, possibly the target",
    "rank and ties place the tie group outside": "the rank must be the mean rank of the tie group, not its best",
}

# Problems that wrong candidate counts in all rows cause in some rows, by how their message begins.
_OF_COUNTS = (
    "rank is larger than the number of candidates",
    "rank and ties place the tie group outside",
    "fewer than 1 candidate",
    "more candidates than the graph has entities",
)


def broken_rules(model: str, source: Source, graph: KnowledgeGraph | None) -> list[Finding]:
    """Validation problems of a file, or why it cannot be read; empty for a valid file.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> table = Ranks.from_columns(head=[7], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[2])
        >>> graph = KnowledgeGraph.from_triples(test=[[0, 0, 1]])
        >>> [finding.message for finding in broken_rules("mine", table, graph)]
        ['an entity id is outside the graph (0..1): 1 row (row 1)']
    """
    if not len(source):
        return [Finding((model,), "rules", "The file has no rows. Rank again.", Severity.error, 0)]
    if isinstance(source, Ranks) and source.is_validated(graph):
        return []
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


def unreadable(model: str, error: DataError) -> list[Finding]:
    """One finding for each problem of a file that cannot be read."""
    return [Finding((model,), "unreadable", problem, Severity.error) for problem in error.problems or [error.title]]


def _cause(problem: str) -> str:
    return next((f"; {cause}" for begin, cause in _CAUSES.items() if problem.startswith(begin)), "")


_KIND = "metadata"
_ONLY_SAME = "Compare only files with the same setting."

Field = Callable[[RanksInfo], Any]

# Metadata on which comparable files agree; None where a file does not record it.
_FIELDS: dict[str, Field] = {
    "graph (content hash)": lambda info: info.graph_hash and info.graph_hash[:12],
    "split": lambda info: info.split,
    "candidates": lambda info: (
        str(info.candidates) if info.candidates and info.imported is None and info.sample is None else None
    ),
}

# Metadata about the filter. They are compared only if the filter cannot be inferred from the candidate counts.
_FILTER_FIELDS: dict[str, Field] = {
    "filter": lambda info: None if info.filtered is None else "+".join(info.filtered) or "none",
    "filter (hash of its triples)": lambda info: info.filter_hash and info.filter_hash[:12],
}


def check_metadata(view: View) -> Iterator[Finding]:
    """Files whose metadata record another graph, split, filter or candidate set than the others, or than the graph.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(split):
        ...     table = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
        ...     return table.with_info(split=split)
        >>> view = prepare({"one": ranks("test"), "two": ranks("test"), "three": ranks("valid")}, None)
        >>> [(finding.models, finding.message) for finding in check_metadata(view)]
        [(('three',), 'Recorded split: valid; most other files: test. Compare only files with the same setting.')]
    """
    reported: set[str] = set()  # files of another graph differ in everything else too
    if view.graph is not None:
        for model, info in view.info.items():
            if info.graph_hash is not None and info.graph_hash != view.graph.content_hash:
                reported.add(model)
                message = (
                    f"The file was ranked on graph {info.graph or 'unnamed'} (content hash {info.graph_hash[:12]}), "
                    f"not on the given graph {view.graph.name} (content hash {view.graph.content_hash[:12]}). "
                    "Give the graph that was ranked."
                )
                yield Finding((model,), _KIND, message, Severity.error)
    for name, field in (_FIELDS | ({} if recountable(view) else _FILTER_FIELDS)).items():
        for finding in _disagreement(view, name, field, reported):
            reported.update(finding.models)
            yield finding


def _disagreement(view: View, name: str, field: Field, reported: set[str]) -> Iterator[Finding]:
    recorded = {model: field(info) for model, info in view.info.items() if model not in reported}
    recorded = {model: value for model, value in recorded.items() if value is not None}
    counts = Counter(recorded.values())
    if len(counts) < 2:
        return
    (most, votes), (_, next_votes) = counts.most_common(2)
    if votes == next_votes:
        listed = "; ".join(f"{model}: {value}" for model, value in recorded.items())
        message = f"The files record different values of {name} ({listed}). {_ONLY_SAME}"
        yield Finding(tuple(recorded), _KIND, message, Severity.error)
        return
    for model, value in recorded.items():
        if value != most:
            message = f"Recorded {name}: {value}; most other files: {most}. {_ONLY_SAME}"
            yield Finding((model,), _KIND, message, Severity.error)


Check = Callable[[View], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    check_metadata,
    check_queries,
    check_samples,
    check_candidates,
    check_implied_settings,
    check_assumptions,
    check_popularity,
    check_rank_values,
    check_plausibility,
    check_seeds,
    check_ties,
)

# Checks that still apply to a file that ranks other queries than it should.
OWN_CHECKS: tuple[Check, ...] = (check_metadata, check_assumptions, check_rank_values, check_seeds, check_ties)


def check(ranks: NamedRanks, graph: GraphLike | None = None, *, most_rows: int = MOST_ROWS) -> Audit:
    """Check that rank files are valid and comparable; return the findings, most severe first.

    Args:
        ranks: The ranks of each model as tables, files or paths: by name, or in a list.
        graph: The graph that was ranked; with it, many more problems can be found.
        most_rows: If there are more rows in all, every check but that of validity uses a sample of the queries.

    Returns:
        The findings. A file without errors and warnings is clean.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(*candidates):
        ...     n = len(candidates)
        ...     query = {"head": list(range(n)), "relation": [0] * n, "tail": [9] * n, "side": ["tail"] * n}
        ...     return Ranks.from_columns(**query, rank=[1] * n, candidates=candidates)
        >>> check({"one": ranks(7, 8), "other": ranks(7, 8)})
        Audit(no findings)
        >>> [finding.kind for finding in check({"one": ranks(7, 8), "raw": ranks(9, 9)})]
        ['candidates']
    """
    graph = as_graph(graph)
    files = open_models(ranks)
    broken = {model: broken_rules(model, source, graph) for model, source in files.items()}
    for model in _one_off(files, broken, graph):
        broken[model] = []  # the finding about its candidate counts explains these problems
    valid = {model: source for model, source in files.items() if not broken[model]}
    findings = [finding for own in broken.values() for finding in own]
    return Audit(gravest_first([*findings, *(_checked(valid, graph, most_rows) if valid else ())]))


def _checked(valid: Mapping[str, Source], graph: KnowledgeGraph | None, most_rows: int) -> Iterator[Finding]:
    view = prepare(valid, graph, most_rows)
    misplaced = {finding.models[0]: finding for finding in check_misplaced(view)}
    for model, finding in misplaced.items():
        alone = prepare({model: valid[model]}, graph, most_rows)
        yield finding
        yield from (further for check in OWN_CHECKS for further in check(alone))
    if misplaced:
        view = prepare({model: source for model, source in valid.items() if model not in misplaced}, graph, most_rows)
    if view.runs:
        yield from (finding for check in CHECKS for finding in check(view))
        if view.one_in > 1:
            rows = sum(run.rows for runs in view.runs.values() for run in runs)
            message = (
                f"The files are large. All rows were validated; the other checks used one in {view.one_in} queries "
                f"(the same in all files, {rows:,} rows), and their numbers of rows refer to this sample."
            )
            yield Finding(view.models, "sample", message, Severity.note, rows)


def _one_off(
    files: Mapping[str, Source], broken: Mapping[str, list[Finding]], graph: KnowledgeGraph | None
) -> list[str]:
    """Files that are invalid only because every query has one candidate too many or too few."""
    invalid = {model: findings for model, findings in broken.items() if findings}
    doubtful = [model for model, own in invalid.items() if all(one.message.startswith(_OF_COUNTS) for one in own)]
    if not doubtful:
        return []
    view = prepare({model: files[model] for model in files if model in doubtful or not broken[model]}, graph)
    return [model for model in doubtful if one_off(view, model)]
