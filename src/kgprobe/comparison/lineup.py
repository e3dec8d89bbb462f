"""Line up the rank tables of several models on the same queries; groups and clusters of these queries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from kgprobe.aggregate import parse_groupings
from kgprobe.arrays import Floats, Ints, codes_of, distinct, natural
from kgprobe.errors import DataError, UsageError, naming
from kgprobe.graph import GraphLike, KnowledgeGraph, as_graph
from kgprobe.ranks import (
    CandidatesInfo,
    End,
    RankFile,
    Ranks,
    RanksLike,
    SampleInfo,
    open_ranks,
    refuse_estimates,
    validate,
)

RunTables = Mapping[str, tuple[Ranks, ...]]


NamedRanks = Mapping[str, RanksLike] | Sequence[RanksLike] | RanksLike
"""The ranks of several models: by name, or a list that is named by `named_files`, or those of a single model."""

_KINDS = (Ranks, RankFile, str, PathLike)


def open_models(ranks: NamedRanks) -> dict[str, Ranks | RankFile]:
    """Rank tables and files by model name, opened but not read, after a check of the arguments' types.

    Example:
        >>> open_models({"mine": 5, "other": "ranks.parquet"})
        Traceback (most recent call last):
            ...
        kgprobe.errors.UsageError: `ranks` must be rank tables, files or paths, in a list or by model name
          - 'mine': int
        Remedy: write for example {"mine": ranks} or ["a.parquet", "b.parquet"]
    """
    if isinstance(ranks, Mapping):
        kinds = {name: isinstance(name, str) and isinstance(source, _KINDS) for name, source in ranks.items()}
        wrong = [f"{name!r}: {type(ranks[name]).__name__}" for name, fits in kinds.items() if not fits]
    else:
        listed: list[Any] = list(ranks) if isinstance(ranks, list | tuple) else [ranks]
        wrong = [f"one {type(source).__name__}" for source in listed if not isinstance(source, _KINDS)]
    if wrong:
        title = "`ranks` must be rank tables, files or paths, in a list or by model name"
        raise UsageError(title, wrong, 'write for example {"mine": ranks} or ["a.parquet", "b.parquet"]')
    if isinstance(ranks, Mapping):
        return {name: open_ranks(source) for name, source in ranks.items()}
    return named_files([open_ranks(source) for source in listed])


def whole_tables(ranks: NamedRanks, graph: KnowledgeGraph | None = None) -> dict[str, Ranks]:
    """The rank tables of several models in memory, those from files validated; with a graph, also against the graph."""
    opened = open_models(ranks)
    return {name: source if isinstance(source, Ranks) else source.read(graph) for name, source in opened.items()}


@dataclass(frozen=True)
class Clusters:
    """Clusters of queries: those of one cluster are not independent of each other.

    Attributes:
        codes: The cluster of every query, from 0.
        count: The number of clusters.
    """

    codes: Ints
    count: int


@dataclass(frozen=True)
class Flag:
    """What the audit has against the rank file of a model.

    Attributes:
        model: The model.
        reasons: One sentence for each finding, without its full stop; the most severe first.
        error: Whether a finding is an error, which makes numbers wrong or incomparable; else they are warnings.

    Example:
        >>> print(Flag("mine", ("Filtered by train only", "No rank is better than 2"), error=True))
        `kgprobe check` objects to mine: Filtered by train only; No rank is better than 2.
    """

    model: str
    reasons: tuple[str, ...]
    error: bool

    @property
    def in_brackets(self) -> str:
        """The most severe reason, to stand behind the name of the model."""
        return f"(but `kgprobe check` {'objects' if self.error else 'warns'}: {self.reasons[0]})"

    @property
    def text(self) -> str:
        """All reasons."""
        return "; ".join(self.reasons)

    def __str__(self) -> str:
        return f"`kgprobe check` {'objects to' if self.error else 'warns about'} {self.model}: {self.text}."


def flag_columns(flag: Flag | None) -> dict[str, Any]:
    """The columns of a row about a model: whether the audit has an error for its file, and all that it has found."""
    return {"flagged": flag is not None and flag.error, "objections": None if flag is None else flag.text}


@dataclass(frozen=True)
class Lineup:
    """The ranks of several models on the same queries, in the same order of rows.

    Attributes:
        runs: For every model one table for each seed, in ascending order of the seeds.
        left_out: For every model, the number of its queries that were left out because not all models have them.
        flags: What the audit has against models, by model; empty where there was no audit.
        excluded: The same for models that were left out because of it.
        worst: For every model whose ranks are intervals, the tables with their worst ends; ``runs`` has the best ends.

    Example:
        >>> def ranks(*rank):
        ...     return Ranks.from_columns(
        ...         head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=rank, candidates=[9, 9]
        ...     )
        >>> both = line_up({"one": ranks(1, 2), "other": ranks(3, 4)})
        >>> both.models, len(both), both.runs["other"][0].rank.tolist()
        (('one', 'other'), 2, [3.0, 4.0])
        >>> both.clusters("triple")
        Clusters(codes=array([0, 0]), count=1)
    """

    runs: RunTables
    left_out: Mapping[str, int]
    flags: Mapping[str, Flag] = field(default_factory=dict)
    excluded: Mapping[str, Flag] = field(default_factory=dict)
    worst: RunTables = field(default_factory=dict)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models, in the given order."""
        return tuple(self.runs)

    @property
    def first(self) -> Ranks:
        """The first run of the first model; all runs have the same queries."""
        return next(iter(self.runs.values()))[0]

    @property
    def single_runs(self) -> list[str]:
        """The models with a single training run."""
        return [model for model, own in self.runs.items() if len(own) < 2]

    @property
    def usual_seeds(self) -> str:
        """The default for ``seeds``: ``random``, or ``fixed`` where a model has a single run."""
        return "fixed" if self.single_runs else "random"

    @property
    def flagged(self) -> tuple[str, ...]:
        """The models with an error of the audit."""
        return tuple(model for model in self.models if model in self.flags and self.flags[model].error)

    @cached_property
    def candidate_differences(self) -> dict[tuple[str, str], int]:
        """For every two models with different candidate sets, the number of queries whose candidate counts differ.

        Where they were ranked among different samples of candidates, or only one of them was, these are all queries.
        """
        counts = {model: _distinct_counts(own) for model, own in self.runs.items()}
        found = {}
        for one, other in combinations(self.models, 2):
            pairs = [(a, b) for a in counts[one] for b in counts[other] if a is not b]
            if self._sampled_set(one) != self._sampled_set(other):
                found[one, other] = len(self)
            elif differing := int(np.any([a != b for a, b in pairs], axis=0).sum()):
                found[one, other] = differing
        return found

    def _sampled_set(self, model: str) -> CandidatesInfo | None:
        info = self.runs[model][0].info
        return info.candidates if info.sample else None

    @property
    def samples(self) -> dict[str, SampleInfo]:
        """The samples of candidates among which models were ranked, where these are not all candidates."""
        return {model: own[0].info.sample for model, own in self.runs.items() if own[0].info.sample}

    def named(self, model: str) -> str:
        """The name of a model, with what the audit has against it."""
        return f"{model} {self.flags[model].in_brackets}" if model in self.flags else model

    def __len__(self) -> int:
        return len(self.first)

    def at(self, end: End) -> Lineup:
        """The line-up in which every rank that is an interval is replaced by this end of it."""
        return replace(self, runs=self.runs if end is End.best else {**self.runs, **self.worst}, worst={})

    def clusters(self, by: str = "triple") -> Clusters:
        """Clusters by test triple, by relation, by target entity, or one for each query."""
        if by not in _SHARED:
            raise UsageError(f"unknown cluster '{by}'", [f"it can be {', '.join(_SHARED)}"])
        return _clusters(self.first, _SHARED[by])


def _distinct_counts(runs: Sequence[Ranks]) -> list[Floats]:
    """The candidate counts of the queries; several where training runs differ."""
    found: list[Floats] = []
    for run in runs:
        if not any(np.array_equal(run.candidates, known) for known in found):
            found.append(run.candidates)
    return found


def _clusters(ranks: Ranks, names: Sequence[str]) -> Clusters:
    """Rows with equal values in some columns, in ascending order of the last column, then of those before it.

    The order does not depend on that of the rows, so random draws do not either.
    """
    sizes = {name: int(getattr(ranks, name).max(initial=0)) + 1 for name in names}
    if math.prod(sizes.values()) > np.iinfo(np.int64).max:  # too many combinations for one integer: slower
        values, codes = distinct([getattr(ranks, name).astype(np.float64) for name in names], len(ranks))
        place = np.empty(len(values[0]), dtype=np.int64)
        place[np.lexsort(values)] = np.arange(len(place))
        return Clusters(place[codes], len(place))
    key = np.zeros(len(ranks), dtype=np.int64)
    for name in reversed(names):
        key *= sizes[name]
        key += getattr(ranks, name)
    order = np.argsort(key)
    key = key[order]
    new = np.empty(len(key), dtype=bool)
    new[:1] = False
    np.not_equal(key[1:], key[:-1], out=new[1:])
    codes = np.empty(len(key), dtype=np.int64)
    codes[order] = np.cumsum(new, out=key)
    return Clusters(codes, int(key[-1]) + 1 if len(key) else 0)


_QUERY = ("head", "relation", "tail", "predicts_tail")
_SHARED = {"triple": ("head", "relation", "tail"), "relation": ("relation",), "entity": ("target",), "query": _QUERY}
"""The columns that are equal within a cluster."""


def line_up(
    ranks: Models,
    *,
    graph: GraphLike | None = None,
    common: bool = False,
    at: End | str | None = None,
    unknown: bool = False,
) -> Lineup:
    """Put the tables of several models in the same order of queries.

    Args:
        ranks: The ranks of every model, as tables, files or paths: by name, or in a list; the column ``seed``
            separates training runs. A `Lineup` is returned unchanged, or at one end of its intervals.
        graph: Gives the popularity of the targets; without it, the tables' own columns are used.
        common: Keep only the queries that all models and seeds have, instead of refusing models that have others.
        at: The end, ``best`` or ``worst``, at which ranks that are intervals are taken.
        unknown: Keep both ends of ranks that are intervals, which are refused otherwise.

    Example:
        >>> def ranks(*heads):
        ...     n = len(heads)
        ...     return Ranks.from_columns(
        ...         head=heads, relation=[0] * n, tail=[9] * n, side=["tail"] * n, rank=heads, candidates=[9] * n
        ...     )
        >>> shared = line_up({"one": ranks(1, 2, 3), "other": ranks(3, 2)}, common=True)
        >>> [shared.runs[model][0].rank.tolist() for model in shared.models], shared.left_out
        ([[2.0, 3.0], [2.0, 3.0]], {'one': 1, 'other': 0})
    """
    if isinstance(ranks, Lineup):
        given = ranks if at is None else ranks.at(End(at))
        if not unknown:
            _refuse_intervals(given)
        return given
    graph = as_graph(graph)
    whole = whole_tables(ranks, graph)
    if not whole:
        raise UsageError("there is no model to compare", remedy="give at least one rank table")
    runs: dict[str, tuple[Ranks, ...]] = {}
    for model, table in whole.items():
        validate(table, graph)
        with naming(model):
            refuse_estimates(table)
        runs[model] = by_seed(table if at is None else End(at).of(table))
    if empty := [f"{model}: the table is empty" for model, own in runs.items() if not all(map(len, own))]:
        raise DataError("there is no query to compare", empty, "check that the rank files have rows")
    lined = _in_one_order(runs, common)
    if graph is not None:
        lined = {model: tuple(run.with_popularity(graph.popularity) for run in own) for model, own in lined.items()}
    most = {model: max(map(len, own)) for model, own in runs.items()}
    kept = len(next(iter(lined.values()))[0])
    left_out = {model: count - kept for model, count in most.items()}
    open_ends = [model for model, own in lined.items() if any(run.has_intervals for run in own)]
    made = Lineup(
        {model: tuple(run.at_best() for run in own) for model, own in lined.items()},
        left_out,
        worst={model: tuple(run.at_worst() for run in lined[model]) for model in open_ends},
    )
    if not unknown:
        _refuse_intervals(made)
    return made


def _refuse_intervals(lineup: Lineup) -> None:
    """Raise a DataError that names the models whose ranks are intervals."""
    if not lineup.worst:
        return
    counts = {
        model: sum(int((best.rank < worst.rank).sum()) for best, worst in zip(lineup.runs[model], own, strict=True))
        for model, own in lineup.worst.items()
    }
    some = [f"{model}: {count:,} of {len(lineup) * len(lineup.runs[model]):,} ranks" for model, count in counts.items()]
    remedy = "choose one end of them: `at='worst'` or `at='best'`"
    raise DataError("some ranks are intervals, so there is no single value", some, remedy)


def by_seed(ranks: Ranks) -> tuple[Ranks, ...]:
    """One table for each training run, in ascending order of the seeds."""
    if ranks.seed is None:
        return (ranks,)
    seeds = np.unique(ranks.seed)
    return (ranks,) if len(seeds) <= 1 else tuple(ranks.filter(ranks.seed == seed) for seed in seeds)


Models = Lineup | NamedRanks
"""The models of a comparison: a `Lineup`, or their ranks."""

Opened = TypeVar("Opened", bound=Ranks | RankFile)


def named_files(files: Sequence[Opened]) -> dict[str, Opened]:
    """Rank files and tables by the name of their model.

    Where several have the same name, files are named by their path, and tables by their place in the list.

    Example:
        >>> table = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[1], candidates=[9])
        >>> list(named_files([table, table, table.with_info(model="mine")]))
        ['ranks 1', 'ranks 2', 'mine']
    """
    paths = [str(file.path) for file in files if isinstance(file, RankFile)]
    if twice := [path for path, number in Counter(paths).items() if number > 1]:
        raise UsageError("the same file is given twice", twice, "name every file once")
    names = [file.info.model or (file.path.stem if isinstance(file, RankFile) else "ranks") for file in files]
    often = Counter(names)
    alike = [
        str(file.path) if isinstance(file, RankFile) else f"{name} {place}"
        for place, (name, file) in enumerate(zip(names, files, strict=True), 1)
    ]
    chosen = [name if often[name] == 1 else other for name, other in zip(names, alike, strict=True)]
    if len(set(chosen)) < len(chosen):
        raise UsageError("the models have no different names", chosen, 'write for example {"mine": ranks}')
    return dict(zip(chosen, files, strict=True))


def _in_one_order(runs: RunTables, common: bool) -> dict[str, tuple[Ranks, ...]]:
    """The runs with the queries that all of them have, in the order of the first."""
    every = [run for own in runs.values() for run in own]
    if all(run.same_queries(every[0]) for run in every[1:]):
        return dict(runs)
    codes = codes_of([_query(run) for run in every])
    holders = np.bincount(np.concatenate(codes))
    if not common and (holders < len(every)).any():
        raise _different(runs, codes, holders)
    shared = codes[0][holders[codes[0]] == len(every)]
    if not len(shared):
        raise DataError("the models have no query in common", remedy="check that the files are of the same graph")
    row_of = np.empty(len(holders), dtype=np.int64)

    def reordered(run: Ranks, own: Ints) -> Ranks:
        row_of[own] = np.arange(len(own))
        return run.take(row_of[shared])

    rows = iter(codes)
    return {model: tuple(reordered(run, next(rows)) for run in own) for model, own in runs.items()}


def _query(run: Ranks) -> list[Ints]:
    return [getattr(run, name).astype(np.int64) for name in _QUERY]


def _different(runs: RunTables, codes: list[Ints], holders: Ints) -> DataError:
    names = [
        f"{model}, seed {int(run.seed[0])}" if run.seed is not None and len(own) > 1 else model
        for model, own in runs.items()
        for run in own
    ]
    lines = [
        f"{name}: {len(own):,} queries, {int((holders[own] < len(codes)).sum()):,} of them not in all"
        for name, own in zip(names, codes, strict=True)
    ]
    remedy = "rank the same queries with every model, or compare only the common queries (`common=True`)"
    return DataError("the models do not rank the same queries", lines, remedy)


@dataclass(frozen=True)
class Group:
    """A group of queries.

    Attributes:
        name: The name of the group by column.
        queries: The rows of its queries: their indices, or a slice of all.
        cells: Its clusters, among the cells of all groups.
    """

    name: dict[str, Any]
    queries: Ints | slice
    cells: slice

    @property
    def clusters(self) -> int:
        """The number of its clusters."""
        return int(self.cells.stop - self.cells.start)


@dataclass(frozen=True)
class GroupCells:
    """Cells of queries with the same group and cluster, so that one pass over the queries serves all groups.

    Attributes:
        clusters: The cell of every query; the cells of a group are consecutive, in the order of the clusters.
        groups: The groups.
    """

    clusters: Clusters
    groups: Sequence[Group]


def whole(clusters: Clusters) -> GroupCells:
    """All queries as a single group without a name."""
    return GroupCells(clusters, [Group({}, slice(None), slice(0, clusters.count))])


def grouped(lineup: Lineup, by: str | Iterable[str], clusters: Clusters) -> GroupCells:
    """The groups of a line-up, with the clusters of each."""
    found = groups(lineup, by)
    if len(found) == 1:
        return GroupCells(clusters, [Group(found[0][0], slice(None), slice(0, clusters.count))])
    place = np.empty(len(lineup), dtype=np.int64)
    for i, (_, rows) in enumerate(found):
        place[rows] = i
    pairs, cell = np.unique(place * clusters.count + clusters.codes, return_inverse=True)
    ends = np.searchsorted(pairs, np.arange(len(found) + 1) * clusters.count).tolist()
    return GroupCells(
        Clusters(cell, len(pairs)),
        [Group(name, rows, slice(*ends[i : i + 2])) for i, (name, rows) in enumerate(found)],
    )


def groups(lineup: Lineup, by: str | Iterable[str]) -> list[tuple[dict[str, Any], Ints]]:
    """Name and rows of every group, in the order of `kgprobe.scores`; without ``by``, one group of all queries."""
    names = [by] if isinstance(by, str) else list(by)
    groupings = parse_groupings(names) if names else []
    if not groupings:
        return [({}, np.arange(len(lineup)))]
    ranked = [grouping.name for grouping in groupings if grouping.name in ("rank", "worst_rank", "seed", "ties")]
    if ranked:
        raise UsageError(
            f"groups by {', '.join(ranked)} differ between models", remedy="group by a column of the queries"
        )
    for grouping in groupings:
        grouping.learn(lineup.first)
    values, which = distinct([grouping.codes(lineup.first) for grouping in groupings], len(lineup))
    rows = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    labels = [
        {grouping.name: grouping.label(code) for grouping, code in zip(groupings, codes, strict=True)}
        for codes in zip(*values, strict=True)
    ]
    found = list(zip(labels, rows, strict=True))
    return sorted(found, key=lambda group: [natural(name) for name in group[0].values()])
