"""Do all files answer the same queries, and are these the queries of the graph?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kgprobe.arrays import Flags, Ints, find
from kgprobe.audit.view import Finding, Severity, View
from kgprobe.graph import SPLITS, KnowledgeGraph

_SIDES = ("head", "tail")

_KIND = "queries"

_NEARLY_ALL = 0.99


def check_queries(view: View) -> Iterator[Finding]:
    """Queries that are missing, too many, of another split, of no split, or known from training.

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
        [(('three',), '1 of the 2 queries that the other files have are missing; rank all files on the same queries')]
    """
    if view.graph is None or not view.graph.splits:
        yield from _against_each_other(view)
    else:
        yield from _against_graph(view, _Membership.of(view, view.graph))


def check_misplaced(view: View) -> Iterator[Finding]:
    """Whole files that answer other queries, for one reason: another split, or head and tail in each other's column.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 2]])
        >>> turned = Ranks.from_columns(head=[2], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[2])
        >>> print(next(check_misplaced(prepare({"mine": turned}, graph))).message)
        head and tail are swapped: 0 of 1 rows are triples of the test split as they are, and 1 the other way round;...
    """
    graph = view.graph
    if graph is None or not graph.splits:
        return
    member, turned = (_Membership.of(view, graph, swapped) for swapped in (False, True))
    due = _due(view, member)
    for model, has in view.has.items():
        split = max(turned.inside, key=lambda split: turned.share(split, has))
        if turned.share(split, has) >= _NEARLY_ALL > max(member.share(name, has) for name in member.inside):
            yield _turned(view, model, split, *(_rows(view, model, m.inside[split]) for m in (member, turned)))
        elif has.any() and not (has & member.inside[due]).any():
            yield from (f for f in _foreign(view, member, model, has, due) if f.rows == _rows(view, model, has))


def _turned(view: View, model: str, split: str, right: int, turned: int) -> Finding:
    rows = _rows(view, model, view.has[model])
    return Finding(
        (model,),
        _KIND,
        f"head and tail are swapped: {right:,} of {rows:,} rows are triples of the {split} split as they are, and "
        f"{turned:,} the other way round; exchange the two columns",
        Severity.error,
        rows,
    )


def due_split(view: View) -> str:
    """The split that the files are of: the one that most files are mostly of, test where that is open."""
    return _due(view, _Membership.of(view, view.graph)) if view.graph is not None and view.graph.splits else SPLITS[-1]


@dataclass(frozen=True)
class _Membership:
    """Which splits hold the triple of each query, and which queries of a split no file has."""

    graph: KnowledgeGraph
    inside: dict[str, Flags]
    absent: dict[str, int]
    """For each split, how many of its triples are in no file at all (on either side)."""

    @classmethod
    def of(cls, view: View, graph: KnowledgeGraph, turned: bool = False) -> _Membership:
        """The splits of the queries, or of what they are with head and tail the other way round."""
        head, relation, tail = view.queries.triples[:: -1 if turned else 1]
        wanted = _keys(graph, head, relation, tail)
        seen = np.unique(wanted)
        inside, absent = {}, {}
        for split in graph.splits:
            known = np.unique(_keys(graph, *graph.triples(split).T.astype(np.int64)))
            inside[split] = find(known, wanted) >= 0
            absent[split] = len(known) - int((find(known, seen) >= 0).sum()) if view.one_in == 1 else 0
        return cls(graph, inside, absent)

    def share(self, split: str, has: Flags) -> float:
        """The share of queries whose triple is in a split."""
        return float(self.inside[split][has].mean()) if split in self.inside and has.any() else 0.0


def _keys(graph: KnowledgeGraph, head: Ints, relation: Ints, tail: Ints) -> Ints:
    """One number a triple; a graph too large for that is told apart by a number that wraps around."""
    with np.errstate(over="ignore"):
        return np.asarray((head * graph.num_relations + relation) * np.int64(graph.num_entities) + tail)


def _against_graph(view: View, member: _Membership) -> Iterator[Finding]:
    due = _due(view, member)
    for model, has in view.has.items():
        yield from _foreign(view, member, model, has, due)
    yield from _leaked(view, member, due)
    right = member.inside[due] & np.any(list(view.has.values()), axis=0)
    whole = not member.absent[due]
    chosen = all(info.graph_hash is not None and info.split is None for info in view.info.values())
    if not whole and right.any() and not chosen:
        count = member.absent[due]
        yield Finding(
            view.models,
            _KIND,
            f"{count:,} triples of the {due} split are in no file; rank the whole split",
            Severity.warning,
            None,
        )
    yield from _missing(view, right, f"queries of the {due} split")


def _due(view: View, member: _Membership) -> str:
    votes = dict.fromkeys((split for split in reversed(SPLITS) if split in member.inside), 0)
    for has in view.has.values():
        shares = {split: member.share(split, has) for split in votes}
        votes[max(shares, key=lambda split: shares[split])] += any(shares.values())
    return max(votes, key=lambda split: votes[split])


def _foreign(view: View, member: _Membership, model: str, has: Flags, due: str) -> Iterator[Finding]:
    """Queries of other splits, and of none."""
    rest = has & ~member.inside[due]
    for split in (split for split in SPLITS if split != due and split in member.inside):
        count = _rows(view, model, rest & member.inside[split])
        if count:
            all_of_it = "the queries are those" if count == _rows(view, model, has) else f"{count:,} queries are"
            yield Finding(
                (model,),
                _KIND,
                f"{all_of_it} of the {split} split, where the {due} split is due ({count:,} of "
                f"{_rows(view, model, has):,} rows); rank the {due} split",
                Severity.error,
                count,
            )
        rest = rest & ~member.inside[split]
    if count := _rows(view, model, rest):
        yield Finding(
            (model,),
            _KIND,
            f"the triples of {count:,} of {_rows(view, model, has):,} rows are in no split of {member.graph.name}; "
            "check that ids, head and tail mean the same as in the graph, or give the graph that was ranked",
            Severity.error,
            count,
        )


def _leaked(view: View, member: _Membership, due: str) -> Iterator[Finding]:
    if due == "train" or "train" not in member.inside:
        return
    both = member.inside[due] & member.inside["train"]
    models = tuple(model for model, has in view.has.items() if (has & both).any())
    if models:
        count = max(_rows(view, model, both) for model in models)
        yield Finding(
            models,
            _KIND,
            f"{int(both.sum()):,} queries of the {due} split ask for triples that are also in train (a leak); "
            "remove them from one of the two splits",
            Severity.warning,
            count,
        )


def _against_each_other(view: View) -> Iterator[Finding]:
    holders = np.sum(list(view.has.values()), axis=0)
    right = holders * 2 > len(view.models)
    if len(view.models) == 2:
        right = holders > 0  # neither of two is the majority, so each is held against both
    for model, has in view.has.items():
        if extra := _rows(view, model, has & ~right):
            yield Finding(
                (model,),
                _KIND,
                f"{extra:,} of {_rows(view, model, has):,} rows are of queries that most other files do not have; "
                "rank all files on the same queries",
                Severity.error,
                extra,
            )
    yield from _missing(view, right, "queries that the other files have")


def _missing(view: View, right: Flags, what: str) -> Iterator[Finding]:
    """Queries that are due and not there: whole sides first, then the rest."""
    for model, has in view.has.items():
        gone = right & ~has
        if not has.any() and right.any():
            yield Finding((model,), _KIND, "the file has none of the queries of the others", Severity.error, 0)
            continue
        if not (has & right).any():
            continue  # all of its queries are others, which has been said
        for side in _SIDES:
            on_side = view.queries.predicts_tail == (side == "tail")
            if (gone & on_side).any() and not (has & on_side).any():
                count = int((gone & on_side).sum())
                yield Finding(
                    (model,),
                    "sides",
                    f"the {side} side is missing: none of its {count:,} queries is there, which others have; "
                    f"rank both sides, or compare with --by side",
                    Severity.error,
                    count,
                )
                gone = gone & ~on_side
        if count := int(gone.sum()):
            yield Finding(
                (model,),
                _KIND,
                f"{count:,} of the {int(right.sum()):,} {what} are missing; rank all files on the same queries",
                Severity.error,
                count,
            )
    yield from _one_sided(view, right)


def _one_sided(view: View, right: Flags) -> Iterator[Finding]:
    sides: Sequence[str] = [s for s in _SIDES if (right & (view.queries.predicts_tail == (s == "tail"))).any()]
    if len(sides) == 1 and view.graph is not None:
        yield Finding(
            view.models,
            "sides",
            f"only the {sides[0]} side is predicted; scores of both sides are not comparable with these",
            Severity.note,
        )


def _rows(view: View, model: str, queries: Flags) -> int:
    """How many rows of a file are of these queries, all seeds counted."""
    return sum(int((run.has & queries).sum()) for run in view.runs[model])
