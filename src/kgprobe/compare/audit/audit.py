"""The audit: every check on the same view of the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kgprobe.compare.audit.candidates import check_candidates
from kgprobe.compare.audit.finding import Finding, Severity, gravest_first
from kgprobe.compare.audit.metadata import check_metadata
from kgprobe.compare.audit.plausibility import check_plausibility
from kgprobe.compare.audit.popularity import check_popularity
from kgprobe.compare.audit.queries import check_queries
from kgprobe.compare.audit.rank_values import check_rank_values
from kgprobe.compare.audit.rules import broken_rules
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
    sound = {model: source for model, source in files.items() if not broken[model]}
    found = [finding for findings in broken.values() for finding in findings]
    if sound:
        view = prepare(sound, graph)
        found += [finding for check in CHECKS for finding in check(view)]
        if view.one_in > 1:
            found.append(_sampled(view))
    return gravest_first(found)


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
