"""Run every audit check on the same rank files; checks of validity and metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from kgprobe.audit.candidate_counts import check_candidates, one_off, recountable
from kgprobe.audit.plausibility import check_plausibility
from kgprobe.audit.query_sets import check_misplaced, check_queries
from kgprobe.audit.rank_values import check_rank_values, check_ties
from kgprobe.audit.recorded_popularity import check_popularity
from kgprobe.audit.training_runs import check_seeds
from kgprobe.audit.view import Finding, Severity, Source, View, gravest_first, prepare
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks, RanksInfo
from kgprobe.ranks.schema import Checker

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


def miscounted(broken: list[Finding]) -> bool:
    """Whether all broken rules may come from candidates that are miscounted."""
    return bool(broken) and all(finding.message.startswith(_OF_COUNTS) for finding in broken)


def unreadable(model: str, error: DataError) -> list[Finding]:
    """What is wrong with a file that cannot be read, one finding for each problem."""
    return [Finding((model,), "unreadable", problem, Severity.error) for problem in error.problems or [error.title]]


def _cause(problem: str) -> str:
    return next((f"; {cause}" for begin, cause in _CAUSES.items() if problem.startswith(begin)), "")


_KIND = "metadata"

Fact = Callable[[RanksInfo], Any]

_FACTS: dict[str, Fact] = {
    "graph (content hash)": lambda info: info.graph_hash and info.graph_hash[:12],
    "split": lambda info: info.split,
    "candidates": lambda info: info.settings.get("candidates", "all entities") if info.graph_hash else None,
}

"""What files must agree on to be comparable, as they say it; None where a file does not say."""

_FILTER: dict[str, Fact] = {
    "filter": lambda info: None if info.filtered is None else "+".join(info.filtered) or "none",
    "filter (hash of its facts)": lambda info: info.filter_hash and info.filter_hash[:12],
}

"""The same of the filter: what is said counts only where it cannot be seen from the candidates."""


def check_metadata(view: View) -> Iterator[Finding]:
    """Files that name another graph, split, filter or candidates than the others, or another graph than the one given.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(split):
        ...     table = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
        ...     return table.with_info(split=split)
        >>> view = prepare({"one": ranks("test"), "two": ranks("test"), "three": ranks("valid")}, None)
        >>> [(finding.models, finding.message) for finding in check_metadata(view)]
        [(('three',), 'the file says split: valid, most others say test; compare only files with the same')]
    """
    other_graph: set[str] = set()
    if view.graph is not None:
        for model, info in view.info.items():
            if info.graph_hash is not None and info.graph_hash != view.graph.content_hash:
                other_graph.add(model)
                yield Finding(
                    (model,),
                    _KIND,
                    f"the file was ranked on another graph ({info.graph or 'unnamed'}, content {info.graph_hash[:12]}) "
                    f"than the one given ({view.graph.name}, content {view.graph.content_hash[:12]}); "
                    "give the graph that was ranked",
                    Severity.error,
                )
    reported: set[str] = set(other_graph)  # of files of different graphs, all else differs too
    facts = _FACTS | ({} if recountable(view) else _FILTER)
    for name, fact in facts.items():
        for finding in _disagreement(view, name, fact, reported):
            reported.update(finding.models)
            yield finding


def _disagreement(view: View, name: str, fact: Fact, reported: set[str]) -> Iterator[Finding]:
    said = {model: fact(info) for model, info in view.info.items() if model not in reported}
    said = {model: value for model, value in said.items() if value is not None}
    counts = Counter(said.values())
    if len(counts) < 2:
        return
    (most, votes), (_, next_votes) = counts.most_common(2)
    if votes == next_votes:
        listed = "; ".join(f"{model} says {value}" for model, value in said.items())
        message = f"the files disagree about the {name}: {listed}; compare only files with the same"
        yield Finding(tuple(said), _KIND, message, Severity.error)
        return
    for model, value in said.items():
        if value != most:
            message = f"the file says {name}: {value}, most others say {most}; compare only files with the same"
            yield Finding((model,), _KIND, message, Severity.error)


Check = Callable[[View], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    check_metadata,
    check_queries,
    check_candidates,
    check_popularity,
    check_rank_values,
    check_plausibility,
    check_seeds,
    check_ties,
)

OWN_CHECKS: tuple[Check, ...] = (check_metadata, check_rank_values, check_seeds, check_ties)

"""What can be said of a file that answers other queries than it should."""


def check(files: Mapping[str, Source], graph: KnowledgeGraph | None = None) -> list[Finding]:
    """Whether rank files are sound, and may be compared: everything that deserves a second look, the gravest first.

    Args:
        files: Rank files or tables by the name of their model.
        graph: The graph that was ranked, which allows a much closer look.

    Returns:
        The findings; files without an error or a warning are clean.

    Example:
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(*candidates):
        ...     n = len(candidates)
        ...     query = {"head": list(range(n)), "relation": [0] * n, "tail": [9] * n, "side": ["tail"] * n}
        ...     return Ranks.from_columns(**query, rank=[1] * n, candidates=candidates)
        >>> check({"one": ranks(7, 8), "other": ranks(7, 8)})
        []
        >>> [finding.kind for finding in check({"one": ranks(7, 8), "raw": ranks(9, 9)})]
        ['candidates']
    """
    broken = {model: broken_rules(model, source, graph) for model, source in files.items()}
    for model in _one_off(files, broken, graph):
        broken[model] = []  # their candidates are named, from which these rows follow
    sound = {model: source for model, source in files.items() if not broken[model]}
    found = [finding for findings in broken.values() for finding in findings]
    if sound:
        found += _looked_at(sound, graph)
    return gravest_first(found)


def _looked_at(sound: Mapping[str, Source], graph: KnowledgeGraph | None) -> Iterator[Finding]:
    view = prepare(sound, graph)
    misplaced = {finding.models[0]: finding for finding in check_misplaced(view)}
    for model, finding in misplaced.items():
        alone = prepare({model: sound[model]}, graph)
        yield finding
        yield from (further for check in OWN_CHECKS for further in check(alone))
    if misplaced:
        view = prepare({model: source for model, source in sound.items() if model not in misplaced}, graph)
    if view.runs:
        yield from (finding for check in CHECKS for finding in check(view))
        if view.one_in > 1:
            yield _sampled(view)


def _one_off(
    files: Mapping[str, Source], broken: Mapping[str, list[Finding]], graph: KnowledgeGraph | None
) -> list[str]:
    """The files that break rules only because they have one candidate too many, or too few, everywhere."""
    doubtful = [model for model in files if miscounted(broken[model])]
    if not doubtful:
        return []
    view = prepare({model: files[model] for model in files if model in doubtful or not broken[model]}, graph)
    return [model for model in doubtful if one_off(view, model)]


def _sampled(view: View) -> Finding:
    looked = sum(run.rows for runs in view.runs.values() for run in runs)
    return Finding(
        view.models,
        "sample",
        f"the files are large: apart from the rules of a rank table, one in {view.one_in} queries was looked at (the "
        f"same in all files, {looked:,} rows), and numbers of rows are of these",
        Severity.note,
        looked,
    )
