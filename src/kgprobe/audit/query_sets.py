"""Query sets: do all files rank the same queries, and are these the queries of a split of the graph?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgprobe.arrays import Flags, codes_of
from kgprobe.audit.view import Finding, Severity, View
from kgprobe.graph import SPLITS, KnowledgeGraph

_SIDES = ("head", "tail")
_KIND = "queries"
_NEARLY_ALL = 0.99


def check_queries(view: View) -> Iterator[Finding]:
    """Queries that are missing, that other files lack, of another split, of no split, or also in train.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> def ranks(*heads):
        ...     n = len(heads)
        ...     return Ranks.from_columns(
        ...         head=heads, relation=[0] * n, tail=[9] * n, side=["tail"] * n, rank=[1] * n, candidates=[9] * n
        ...     )
        >>> view = prepare({"one": ranks(1, 2), "two": ranks(1, 2), "three": ranks(1)}, None)
        >>> [(finding.models, finding.message) for finding in check_queries(view)]
        [(('three',), '1 of the 2 queries of the other files are missing. Rank all files on the same queries.')]
    """
    if view.graph is None or not view.graph.splits:
        yield from _against_each_other(view)
    else:
        yield from _against_graph(view, _Membership.of(view, view.graph))


def check_misplaced(view: View) -> Iterator[Finding]:
    """Files all of whose queries are wrong for one reason: another split, no split, or head and tail swapped.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 2]])
        >>> swapped = Ranks.from_columns(head=[2], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[2])
        >>> print(next(check_misplaced(prepare({"mine": swapped}, graph))).message)
        Head and tail are swapped: 0 of 1 rows are triples of the test split as they stand, 1 with head and tail ...
    """
    graph = view.graph
    if graph is None or not graph.splits:
        return
    member, swapped = (_Membership.of(view, graph, flag) for flag in (False, True))
    due = _due(view, member)
    for model, has in view.has.items():
        split = max(swapped.inside, key=lambda split: swapped.share(split, has))
        rows = _rows(view, model, has)
        if swapped.share(split, has) >= _NEARLY_ALL > max(member.share(name, has) for name in member.inside):
            right, exchanged = (_rows(view, model, m.inside[split]) for m in (member, swapped))
            message = (
                f"Head and tail are swapped: {right:,} of {rows:,} rows are triples of the {split} split as they "
                f"stand, {exchanged:,} with head and tail exchanged. Exchange the two columns."
            )
            yield Finding((model,), _KIND, message, Severity.error, rows)
        elif has.any() and not (has & member.inside[due]).any():
            yield from (f for f in _foreign(view, member, model, has, due) if f.rows == rows)


def due_split(view: View) -> str:
    """The split that the files rank: the one to which most queries of most files belong, by default test."""
    return _due(view, _Membership.of(view, view.graph)) if view.graph is not None and view.graph.splits else SPLITS[-1]


@dataclass(frozen=True)
class _Membership:
    """For each split, which queries have their triple in it (inside), and how many of its triples no file ranks."""

    graph: KnowledgeGraph
    inside: dict[str, Flags]
    absent: dict[str, int]

    @classmethod
    def of(cls, view: View, graph: KnowledgeGraph, swapped: bool = False) -> _Membership:
        """The splits of the triples of the queries, optionally with head and tail swapped."""
        ranked = view.queries.triples[:: -1 if swapped else 1]
        ours, *codes = codes_of([ranked, *(list(graph.triples(split).T) for split in graph.splits)])
        inside = {split: np.isin(ours, own) for split, own in zip(graph.splits, codes, strict=True)}
        absent = {
            split: len(np.setdiff1d(own, ours)) if view.one_in == 1 else 0
            for split, own in zip(graph.splits, codes, strict=True)
        }
        return cls(graph, inside, absent)

    def share(self, split: str, has: Flags) -> float:
        """The share of queries whose triple is in a split."""
        return float(self.inside[split][has].mean()) if split in self.inside and has.any() else 0.0


def _due(view: View, member: _Membership) -> str:
    votes = dict.fromkeys((split for split in reversed(SPLITS) if split in member.inside), 0)
    for has in view.has.values():
        shares = {split: member.share(split, has) for split in votes}
        votes[max(shares, key=lambda split: shares[split])] += any(shares.values())
    return max(votes, key=lambda split: votes[split])


def _against_graph(view: View, member: _Membership) -> Iterator[Finding]:
    due = _due(view, member)
    for model, has in view.has.items():
        yield from _foreign(view, member, model, has, due)
    yield from _leaked(view, member, due)
    right = member.inside[due] & np.any(list(view.has.values()), axis=0)
    chosen = all(info.graph_hash is not None and info.split is None for info in view.info.values())
    if member.absent[due] and right.any() and not chosen:
        message = f"{member.absent[due]:,} triples of the {due} split are in no file. Rank the whole split."
        yield Finding(view.models, _KIND, message, Severity.warning)
    yield from _missing(view, right, f"of the {due} split")


def _foreign(view: View, member: _Membership, model: str, has: Flags, due: str) -> Iterator[Finding]:
    """Queries of other splits than the due one, and of none."""
    rest, rows = has & ~member.inside[due], _rows(view, model, has)
    for split in (split for split in SPLITS if split != due and split in member.inside):
        if count := _rows(view, model, rest & member.inside[split]):
            what = "The queries are those" if count == rows else f"{count:,} queries are"
            message = (
                f"{what} of the {split} split instead of the {due} split ({count:,} of {rows:,} rows). "
                f"Rank the {due} split."
            )
            yield Finding((model,), _KIND, message, Severity.error, count)
        rest = rest & ~member.inside[split]
    if count := _rows(view, model, rest):
        message = (
            f"The triples of {count:,} of {rows:,} rows are in no split of {member.graph.name}. Check that ids, head "
            "and tail have the same meaning as in the graph, or give the graph that was ranked."
        )
        yield Finding((model,), _KIND, message, Severity.error, count)


def _leaked(view: View, member: _Membership, due: str) -> Iterator[Finding]:
    if due == "train" or "train" not in member.inside:
        return
    both = member.inside[due] & member.inside["train"]
    if models := tuple(model for model, has in view.has.items() if (has & both).any()):
        message = (
            f"The triples of {int(both.sum()):,} queries of the {due} split are also in train (a leak). "
            "Remove them from one of the two splits."
        )
        yield Finding(models, _KIND, message, Severity.warning, max(_rows(view, model, both) for model in models))


def _against_each_other(view: View) -> Iterator[Finding]:
    holders = np.sum(list(view.has.values()), axis=0)
    # Two files have no majority, so each is compared with the union of both.
    right = holders > 0 if len(view.models) == 2 else holders * 2 > len(view.models)
    for model, has in view.has.items():
        if extra := _rows(view, model, has & ~right):
            message = (
                f"{extra:,} of {_rows(view, model, has):,} rows are queries that most other files do not have. "
                "Rank all files on the same queries."
            )
            yield Finding((model,), _KIND, message, Severity.error, extra)
    yield from _missing(view, right, "of the other files")


def _missing(view: View, right: Flags, whose: str) -> Iterator[Finding]:
    """Expected queries that a file does not have: whole sides first, then the rest."""
    on_sides = {side: view.queries.predicts_tail == (side == "tail") for side in _SIDES}
    for model, has in view.has.items():
        gone = right & ~has
        if not has.any() and right.any():
            message = "The file has none of the queries of the other files. Rank all files on the same queries."
            yield Finding((model,), _KIND, message, Severity.error, 0)
            continue
        if not (has & right).any():
            continue  # all its queries are wrong, which is already reported
        for side, on_side in on_sides.items():
            if (gone & on_side).any() and not (has & on_side).any():
                count = int((gone & on_side).sum())
                message = (
                    f"The {side} side is missing: the file has none of its {count:,} queries, but other files do. "
                    "Rank both sides, or compare the sides separately."
                )
                yield Finding((model,), "sides", message, Severity.error, count)
                gone = gone & ~on_side
        if count := int(gone.sum()):
            expected = f"{int(right.sum()):,} queries {whose}"
            message = f"{count:,} of the {expected} are missing. Rank all files on the same queries."
            yield Finding((model,), _KIND, message, Severity.error, count)
    ranked = [side for side, on_side in on_sides.items() if (right & on_side).any()]
    if len(ranked) == 1 and view.graph is not None:
        message = f"Only the {ranked[0]} side is ranked. These scores are not comparable with scores over both sides."
        yield Finding(view.models, "sides", message, Severity.note)


def _rows(view: View, model: str, queries: Flags) -> int:
    """Number of rows of a file, over all seeds, that belong to these queries."""
    return sum(int((run.has & queries).sum()) for run in view.runs[model])
