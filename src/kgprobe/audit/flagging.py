"""Rank tables for a comparison, with what the audit has against each of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kgprobe.audit.auditing import check
from kgprobe.audit.view import Finding, Severity
from kgprobe.comparison.lineup import Flag, Lineup, Models, NamedRanks, line_up, whole_tables
from kgprobe.errors import DataError
from kgprobe.graph import GraphLike, as_graph
from kgprobe.ranks import End, Ranks

_FEW_ROWS = 1_000_000  # a comparison audits a sample beyond this, so that the audit takes less time than the comparison


@dataclass(frozen=True)
class Audited:
    """Rank tables on the same queries, and what the audit has found.

    Attributes:
        lineup: The models, with a flag for each that the audit has errors or warnings for.
        tables: Their rank tables as given.
        findings: The findings of the audit, also about models that were left out.
    """

    lineup: Lineup
    tables: Mapping[str, Ranks]
    findings: list[Finding]


def audited(
    ranks: NamedRanks,
    *,
    graph: GraphLike | None = None,
    common: bool = False,
    exclude_flagged: bool = False,
    fewest: int = 1,
    at: End | str | None = None,
    unknown: bool = False,
) -> Audited:
    """Audit the rank tables of several models, and put them in the same order of queries.

    Args:
        ranks: The ranks of each model as tables, files or paths: by name, or in a list.
        graph: The graph that was ranked.
        common: Keep only the queries that all models have, instead of raising an error.
        exclude_flagged: Leave out models whose rank file has an error.
        fewest: The number of models that must be left then.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken.
        unknown: Keep both ends of ranks that are intervals, which are refused otherwise.

    Example:
        >>> def ranks(candidates):
        ...     return Ranks.from_columns(
        ...         head=[0, 1], relation=[0, 0], tail=[9, 9], side=["tail"] * 2, rank=[1, 2], candidates=candidates
        ...     )
        >>> files = {"one": ranks([7, 8]), "two": ranks([7, 8]), "raw": ranks([9, 9])}
        >>> found = audited(files, exclude_flagged=True)
        >>> found.lineup.models, found.lineup.excluded["raw"].reasons
        (('one', 'two'), ('1.5 more candidates on average than the other files: fewer triples were filtered (2 of 2 ...
    """
    graph = as_graph(graph)
    tables = whole_tables(ranks, graph)
    findings = check(tables, graph, most_rows=_FEW_ROWS) if tables else []
    flags = flags_of(findings, common=common)
    excluded = _excluded(tables, flags, fewest) if exclude_flagged else {}
    kept = {model: table for model, table in tables.items() if model not in excluded}
    lineup = line_up(kept, graph=graph, common=common, at=at, unknown=unknown)
    own = {model: flags[model] for model in kept if model in flags}
    return Audited(replace(lineup, flags=own, excluded=excluded), kept, findings)


def audited_lineup(
    ranks: Models,
    *,
    graph: GraphLike | None = None,
    exclude_flagged: bool = False,
    at: End | str | None = None,
) -> Lineup:
    """The audited line-up of rank tables, with both ends of intervals unless one is named.

    A `Lineup` keeps the flags that it has.
    """
    if not isinstance(ranks, Lineup):
        return audited(ranks, graph=graph, exclude_flagged=exclude_flagged, at=at, unknown=at is None).lineup
    excluded = _excluded(ranks.models, ranks.flags) if exclude_flagged else {}
    return replace(
        ranks,
        runs={model: own for model, own in ranks.runs.items() if model not in excluded},
        worst={model: own for model, own in ranks.worst.items() if model not in excluded},
        flags={model: flag for model, flag in ranks.flags.items() if model not in excluded},
        excluded={**ranks.excluded, **excluded},
    )


def _excluded(models: Collection[str], flags: Mapping[str, Flag], fewest: int = 1) -> dict[str, Flag]:
    """The models with an error; an error if fewer than some number of models would be left."""
    excluded = {model: flag for model, flag in flags.items() if flag.error}
    left = len(models) - len(excluded)
    if excluded and left < fewest:
        raise DataError(
            f"only {left} of {len(models)} models would be left without those that `kgprobe check` objects to",
            [f"{model}: {flag.text}" for model, flag in excluded.items()],
            "rank these models again, or do not use `exclude_flagged=True`",
        )
    return excluded


def flags_of(findings: Iterable[Finding], *, common: bool = False) -> dict[str, Flag]:
    """The errors and warnings about each model.

    Left out are warnings about the queries, since they are about the split and not about a file, and, where only
    common queries are used, errors about them. Wrong popularity counts as a warning: that of the graph is used instead.

    Example:
        >>> found = [Finding(("a", "b"), "candidates", "They differ.", "error"), Finding(("b",), "ties", "", "note")]
        >>> flags_of(found)["b"]
        Flag(model='b', reasons=('They differ',), error=True)
    """
    about: dict[str, list[Finding]] = {}
    for finding in findings:
        of_queries = finding.kind in ("queries", "sides")
        if finding.unclean and not (of_queries and (common or finding.severity is Severity.warning)):
            for model in finding.models:
                about.setdefault(model, []).append(finding)
    return {
        model: Flag(
            model,
            tuple(finding.summary for finding in own),
            any(finding.severity is Severity.error and finding.kind != "popularity" for finding in own),
        )
        for model, own in about.items()
    }
