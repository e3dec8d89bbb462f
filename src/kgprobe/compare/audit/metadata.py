"""Do the files say of themselves that they are of the same graph, split, filter and candidates?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from kgprobe.compare.audit.candidates import recountable
from kgprobe.compare.audit.finding import Finding, Severity
from kgprobe.compare.audit.view import View
from kgprobe.ranks import RanksInfo

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
        >>> from kgprobe.compare.audit.view import prepare
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
