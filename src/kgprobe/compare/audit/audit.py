"""The audit: every check on the same view of the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from kgprobe.compare.audit.candidates import check_candidates, one_off
from kgprobe.compare.audit.finding import Finding, Severity, gravest_first
from kgprobe.compare.audit.metadata import check_metadata
from kgprobe.compare.audit.plausibility import check_plausibility
from kgprobe.compare.audit.popularity import check_popularity
from kgprobe.compare.audit.queries import check_misplaced, check_queries
from kgprobe.compare.audit.rank_values import check_rank_values
from kgprobe.compare.audit.rules import broken_rules, miscounted
from kgprobe.compare.audit.seeds import check_seeds
from kgprobe.compare.audit.ties import check_ties
from kgprobe.compare.audit.view import Source, View, prepare
from kgprobe.graph import KnowledgeGraph

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


def audit_files(files: Mapping[str, Source], graph: KnowledgeGraph | None = None) -> list[Finding]:
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
        >>> audit_files({"one": ranks(7, 8), "other": ranks(7, 8)})
        []
        >>> [finding.kind for finding in audit_files({"one": ranks(7, 8), "raw": ranks(9, 9)})]
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
