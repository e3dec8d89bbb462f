"""Diagnoses of imported files that cannot be right as they stand: which reading would make all of their rows right.

A diagnosis is tried only if a file is refused, or if most of its triples are not in the graph. It is offered only if
all rows fit under it, so a file that is sound is never diagnosed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.arrays import Floats, codes_of
from kgprobe.ranks.importers.drafts import Draft, ImportOptions
from kgprobe.ranks.importers.triple_columns import invert_relations, read_triples, splits_of
from kgprobe.ranks.metadata import Assumption, Basis
from kgprobe.ranks.schema import Checker

_TRIPLE = ("head", "relation", "tail")
FEWEST_TRIPLES = 10
"""Fewer triples may be found in a graph by chance when they are read in another way."""
_ROUNDED = 1e-3  # relative error of ranks that are recovered from rounded fractions


@dataclass(frozen=True)
class Evidence:
    """The columns of a file and the rules that they break.

    Attributes:
        draft: The file.
        options: How it was read.
    """

    draft: Draft
    options: ImportOptions

    def numbers(self, name: str) -> Floats:
        """A column as float64, NaN where it is null or absent."""
        column = self.draft.columns.get(name, pa.nulls(self.draft.rows, pa.float64()))
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))

    @property
    def rank(self) -> Floats:
        return self.numbers("rank")

    @property
    def candidates(self) -> Floats:
        return self.numbers("candidates")

    @cached_property
    def broken(self) -> set[str]:
        """The rules of a rank table that the file breaks."""
        return self._broken(self.draft.table())

    def _broken(self, table: pa.Table) -> set[str]:
        checker = Checker(len(table), further=self.options.rules)
        checker.add(table)
        return {problem.partition(": ")[0] for problem in checker.problems(lambda: [table])}

    def fits(self, **columns: Floats) -> bool:
        """Whether the file breaks fewer rules with these columns, and none about ranks, ties and candidates."""
        if any(np.isnan(values).any() for values in columns.values()):
            return False
        table = self.draft.table()
        for name, values in columns.items():
            kind = table.schema.field(name).type
            whole = pa.types.is_integer(kind)
            if whole and (values != np.floor(values)).any():
                return False
            column = pa.array(values.astype(np.int64) if whole else values, kind)
            table = table.set_column(table.column_names.index(name), name, column)
        still = self._broken(table)
        return still < self.broken and not any(word in rule for rule in still for word in ("rank", "ties", "candidate"))

    @cached_property
    def ids(self) -> Mapping[str, pa.Array] | None:
        """The ids of the triples, if all can be read."""
        columns = {name: self.draft.columns.get(name) for name in _TRIPLE}
        complete = all(c is not None and pa.types.is_integer(c.type) and not c.null_count for c in columns.values())
        return columns if complete else None

    @cached_property
    def lost(self) -> bool:
        """Whether most triples are not in the graph, so that what the graph says about them means nothing."""
        graph = self.options.graph
        if graph is None or not graph.splits or self.ids is None:
            return False
        return bool(np.any(list(splits_of(graph, self.ids).values()), axis=0).mean() < 0.5)

    def in_graph(self, triples: Mapping[str, pa.Array] | None) -> bool:
        """Whether all of these triples are in the graph."""
        graph = self.options.graph
        if triples is None or graph is None or not graph.splits or set(triples) < set(_TRIPLE):
            return False
        if any(triples[name].null_count for name in _TRIPLE):
            return False
        found = np.any(list(splits_of(graph, triples).values()), axis=0)
        return len(found) >= FEWEST_TRIPLES and bool(found.all())


@dataclass(frozen=True)
class Diagnosis:
    """A mistake that files have, and how it is told.

    Attributes:
        name: The mistake.
        advice: What would make all rows right, with arguments of `import_ranks` in backticks; None if rows do not fit.
    """

    name: str
    advice: Callable[[Evidence], str | None]


def _when(test: Callable[[Evidence], bool], advice: str) -> Callable[[Evidence], str | None]:
    return lambda evidence: advice if test(evidence) else None


def _zero_based(evidence: Evidence) -> bool:
    shifted = {name: evidence.numbers(name) + 1 for name in ("rank", "worst_rank") if name in evidence.draft.columns}
    return bool(not evidence.options.zero_based and evidence.rank.min() == 0) and evidence.fits(**shifted)


def _raw(evidence: Evidence) -> bool:
    size = evidence.options.size
    assumed = Assumption.filtered in evidence.draft.assumed
    return (
        assumed
        and not evidence.lost
        and size is not None
        and evidence.fits(candidates=np.full(evidence.draft.rows, float(size)))
    )


def _tied(sign: int) -> Callable[[Evidence], bool]:
    def test(evidence: Evidence) -> bool:
        return "ties" in evidence.draft.columns and evidence.fits(
            rank=evidence.rank + sign * np.nan_to_num(evidence.numbers("ties")) / 2
        )

    return test


def _exchanged_bounds(evidence: Evidence) -> bool:
    return "ties" in evidence.draft.columns and evidence.fits(ties=-evidence.numbers("ties"))


def _filtered_counts(evidence: Evidence) -> str | None:
    """The column of candidates holds the number of filtered entities, or the reverse."""
    size, info = evidence.options.size, evidence.draft.candidates
    if size is None or info.basis is not Basis.recorded or not evidence.fits(candidates=size - evidence.candidates):
        return None
    wrong, right = ("candidates", "filtered") if info.counted == "as in the file" else ("filtered", "candidates")
    return f"all ranks fit if the column of {wrong} holds the number of {right} entities: name it so with `columns`"


def _uncounted_target(evidence: Evidence) -> bool:
    recorded = evidence.draft.candidates.basis is Basis.recorded
    return recorded and evidence.fits(candidates=evidence.candidates + 1)


def _recovered(evidence: Evidence, ranks: Floats) -> bool:
    """Whether these are ranks but for rounding, and fit."""
    halves = np.round(2 * ranks) / 2
    return bool((np.abs(ranks - halves) <= _ROUNDED * halves).all()) and evidence.fits(rank=halves)


def _is_fraction(evidence: Evidence) -> bool:
    rank = evidence.rank
    return bool(((rank >= 0) & (rank <= 1)).all() and ((rank > 0) & (rank < 1)).any())


def _reciprocal(evidence: Evidence) -> bool:
    return _is_fraction(evidence) and bool((evidence.rank > 0).all()) and _recovered(evidence, 1 / evidence.rank)


def _normalised(evidence: Evidence) -> str | None:
    """Ranks divided by the number of candidates, as fractions or in percent."""
    rank = evidence.rank
    for whole, what in ((1, "fractions"), (100, "percentages")):
        inside = bool(((rank > 0) & (rank <= whole)).all() and (rank % 1 != 0).any())
        if inside and _recovered(evidence, rank / whole * evidence.candidates):
            return (
                f"all values are ranks divided by the number of candidates, as {what}: multiply them by "
                f"{'it' if whole == 1 else 'it and divide by 100'}"
            )
    return None


def _scores(evidence: Evidence) -> bool:
    known = (evidence.broken & {"rank is below 1", "rank is larger than the number of candidates"}) != set()
    fraction = _is_fraction(evidence) or bool((evidence.rank % 0.5 != 0).all())
    return known and fraction and not _reciprocal(evidence) and not _normalised(evidence)


def _repeated(evidence: Evidence) -> str | None:
    """Queries that occur again: in several runs, or as copies of rows."""
    if evidence.ids is None or not any(rule.startswith("the same query") for rule in evidence.broken):
        return None
    side = pc.index_in(evidence.draft.columns["side"], pa.array(["head", "tail"])).to_numpy(zero_copy_only=False)
    query = [*(evidence.ids[name].to_numpy() for name in _TRIPLE), np.nan_to_num(side, nan=2).astype(np.int64)]
    (codes,) = codes_of([query])
    times = np.bincount(codes)
    times = times[times > 0]
    for name in ("seed", *evidence.draft.label_columns):
        if name not in evidence.draft.columns or name in evidence.options.columns.values():
            continue
        run = evidence.draft.columns[name].dictionary_encode()
        if run.null_count or len(run.dictionary) * len(times) != len(codes):
            continue
        (pairs,) = codes_of([[codes, run.indices.to_numpy().astype(np.int64)]])
        if len(np.unique(pairs)) == len(codes):
            return f"column {name!r} tells the repeated queries apart: is it the run? Name it seed with `columns`"
    order = np.lexsort((evidence.rank, codes))
    same = codes[order][1:] == codes[order][:-1]
    if (evidence.rank[order][1:] == evidence.rank[order][:-1])[same].all():
        return "the repeated queries have the same ranks: remove the copies"
    if len(set(times.tolist())) == 1:
        return f"every query occurs {times[0]} times: are they training runs? Give one file per run, or a column seed"
    return None


def _other_order(evidence: Evidence) -> str | None:
    """Head, relation and tail in another order."""
    ids = evidence.ids
    for order in permutations(_TRIPLE):
        if ids is not None and order != _TRIPLE:
            read = {name: ids[source] for name, source in zip(_TRIPLE, order, strict=True)}
            if evidence.in_graph(read):
                names = evidence.draft.names
                moved = [
                    f"`columns` {name}={names.get(source, source)}"
                    for name, source in zip(_TRIPLE, order, strict=True)
                    if name != source
                ]
                what = "head and tail" if order == _TRIPLE[::-1] else "the columns of the triples"
                return f"all triples are in the graph if {what} are exchanged: {', '.join(moved)}"
    return None


def _shifted(evidence: Evidence) -> str | None:
    """Ids that count from 1 instead of 0, or the reverse."""
    ids = evidence.ids
    for entity, relation in product((0, 1, -1), repeat=2):
        shifts = {"head": entity, "relation": relation, "tail": entity}
        if ids is None or not (entity or relation):
            continue
        if evidence.in_graph({name: pc.subtract(ids[name], by) for name, by in shifts.items()}):
            whose = " and ".join(kind for kind, by in (("entities", entity), ("relations", relation)) if by)
            how = "subtract 1" if (entity or relation) > 0 else "add 1"
            return f"all triples are in the graph if the ids of {whose} are off by one: {how}"
    return None


def _labels(evidence: Evidence) -> str | None:
    """Ids that are taken for labels, or labels that are taken for ids."""
    if not evidence.draft.triples:
        return None
    other = not evidence.options.labels
    attempt = Draft(evidence.draft.path, rows=evidence.draft.rows)
    read = read_triples(attempt, evidence.draft.triples, evidence.options.graph, labels=other)
    if attempt.problems or attempt.needs or not evidence.in_graph(read):
        return None
    if other:
        return "all triples are in the graph if they are labels: `labels=True`"
    return "all triples are in the graph if they are ids: leave out `labels=True`"


def _inverse(evidence: Evidence) -> bool:
    graph = evidence.options.graph
    if evidence.ids is None or graph is None or evidence.options.inverse_relations:
        return False
    tails = pa.repeat("tail", evidence.draft.rows)
    inverted = invert_relations(Draft(evidence.draft.path), evidence.ids, graph, tails)
    return bool(pc.any(pc.equal(inverted["side"], "head")).as_py()) and evidence.in_graph(inverted)


OF_VALUES = (
    Diagnosis("ranks from 0", _when(_zero_based, "all ranks fit if they count from 0: `zero_based=True`")),
    Diagnosis(
        "unfiltered ranks",
        _when(
            _raw,
            "ranks are larger than the filtered count of candidates, but not than the number of entities: "
            "unfiltered ranks? `raw=True`",
        ),
    ),
    Diagnosis(
        "optimistic ranks", _when(_tied(1), "all ranks fit if they are optimistic, with ties: `tie='optimistic'`")
    ),
    Diagnosis(
        "pessimistic ranks", _when(_tied(-1), "all ranks fit if they are pessimistic, with ties: `tie='pessimistic'`")
    ),
    Diagnosis(
        "exchanged bounds",
        _when(
            _exchanged_bounds,
            "all ranks fit if the optimistic and pessimistic ones are exchanged: name them with `columns`",
        ),
    ),
    Diagnosis("candidates and filtered", _filtered_counts),
    Diagnosis(
        "target not counted",
        _when(_uncounted_target, "all ranks fit if the candidate counts leave out the target: add 1 to them"),
    ),
    Diagnosis(
        "reciprocal ranks", _when(_reciprocal, "all values are 1/rank: they are reciprocal ranks, give the ranks")
    ),
    Diagnosis("normalised ranks", _normalised),
    Diagnosis("scores", _when(_scores, "these values look like scores: name the column of the ranks with `columns`")),
    Diagnosis("repeated queries", _repeated),
)
"""Mistakes that break rules of a rank table."""

OF_TRIPLES = (
    Diagnosis(
        "inverse relations",
        _when(
            _inverse,
            "all triples are in the graph if ids beyond its relations are inverse relations: `inverse_relations=True`",
        ),
    ),
    Diagnosis("order of columns", _other_order),
    Diagnosis("ids off by one", _shifted),
    Diagnosis("labels or ids", _labels),
)
"""Mistakes that leave few triples in the graph, or ids outside of it."""


def diagnose(draft: Draft, options: ImportOptions, *, triples_only: bool = False) -> list[str]:
    """What would make all rows of a file right; empty if no diagnosis fits.

    Args:
        draft: A file that is refused, or most of whose triples are not in the graph.
        options: How it was read.
        triples_only: Whether the file breaks no rule, so that only its triples are in doubt.

    Example:
        >>> from pathlib import Path
        >>> columns = {name: pa.array([0, 1]) for name in ("head", "relation", "tail")} | {
        ...     "side": pa.array(["tail", "tail"]), "rank": pa.array([0.0, 6.0]), "candidates": pa.array([9, 9])
        ... }
        >>> diagnose(Draft(Path("ranks.csv"), rows=2, columns=columns), ImportOptions())
        ['all ranks fit if they count from 0: `zero_based=True`']
    """
    if not draft.rows:
        return []
    evidence = Evidence(draft, options)
    of_triples = () if evidence.in_graph(evidence.ids) else OF_TRIPLES  # nothing is wrong with triples of the graph
    with np.errstate(invalid="ignore", divide="ignore"):
        return [
            advice
            for diagnosis in (*(() if triples_only else OF_VALUES), *of_triples)
            if (advice := diagnosis.advice(evidence)) is not None
        ]


def tie_doubts(draft: Draft) -> list[str]:
    """A note about recorded ties with which the ranks cannot be mean ranks, though they break no rule.

    Example:
        >>> from pathlib import Path
        >>> columns = {"rank": pa.array([2.0, 4.0]), "ties": pa.array([1, 0]), "candidates": pa.array([9, 9])}
        >>> tie_doubts(Draft(Path("ranks.csv"), rows=2, columns=columns))
        ["rank - ties/2 is no integer in 1 row: these are no mean ranks; `tie='optimistic'` or `tie='pessimistic'`?"]
    """
    evidence = Evidence(draft, ImportOptions())
    rank, ties, candidates = evidence.rank, np.nan_to_num(evidence.numbers("ties")), evidence.candidates
    odd = int(((rank - ties / 2) % 1 != 0).sum())
    if not odd or (rank % 1 != 0).any() or "ties" not in draft.columns:
        return []
    readings = {"optimistic": rank + ties <= candidates, "pessimistic": rank - ties >= 1}
    offered = " or ".join(f"`tie='{name}'`" for name, possible in readings.items() if possible.all())
    rows = "1 row" if odd == 1 else f"{odd:,} rows"
    return [f"rank - ties/2 is no integer in {rows}: these are no mean ranks{f'; {offered}?' if offered else ''}"]
