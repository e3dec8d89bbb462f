"""The paper's six properties of a rank-based metric: definitions, evidence and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import Floats
from kgprobe.metrics.evaluation import scores
from kgprobe.metrics.metric import Metric, spelled
from kgprobe.metrics.popularity_metrics import PROBE, StratMRR
from kgprobe.metrics.rank_metrics import AMRI, MR, MRR, Hits, nWMR, pMRR
from kgprobe.ranks import Ranks
from kgprobe.ranks.schema import POPULARITY

RARE = 0.1
"""The smallest popularity in every table, so that the default epsilon is the same whether tables are evaluated together
or each alone."""


@dataclass(frozen=True)
class Query:
    """A row of a rank table, with the columns that metrics read.

    Example:
        >>> str(Query(3, 10)), str(Query(1.5, 1000, entity_popularity=0.4))
        ('3 of 10', '1.5 of 1,000 (entity popularity 0.4)')
    """

    rank: float
    candidates: int
    entity_popularity: float = RARE
    relation_popularity: float = RARE

    def __str__(self) -> str:
        popularities = {name.replace("_", " "): getattr(self, name) for name in POPULARITY}
        unusual = ", ".join(f"{name} {value:g}" for name, value in popularities.items() if value != RARE)
        return f"{self.rank:,g} of {self.candidates:,}" + (f" ({unusual})" if unusual else "")


Table = tuple[Query, ...]


def as_ranks(tables: Sequence[Table]) -> Ranks:
    """All tables as one, with the label column ``table``."""
    queries = [query for table in tables for query in table]
    ids = np.arange(len(queries))
    return Ranks.from_columns(
        head=ids,
        relation=np.zeros_like(ids),
        tail=ids,
        side=["tail"] * len(queries),
        rank=[float(query.rank) for query in queries],
        candidates=[query.candidates for query in queries],
        entity_popularity=[query.entity_popularity for query in queries],
        relation_popularity=[query.relation_popularity for query in queries],
        labels={"table": np.repeat(np.arange(len(tables)), [len(table) for table in tables])},
    )


def measure(metrics: Sequence[Metric], tables: Sequence[Table]) -> Floats:
    """The value of each metric (row) on each table (column)."""
    row = {metric: i for i, metric in enumerate(metrics)}
    values = np.full((len(metrics), len(tables)), np.nan)
    for score in scores(as_ranks(tables), metrics, by=["table"]):
        values[row[score.metric], score.group["table"]] = score.value
    return values


def same(first: Floats, second: Floats) -> NDArray[np.bool_]:
    """Where two values agree to 12 digits; undefined values are equal."""
    return np.isclose(first, second, rtol=1e-12, atol=0.0, equal_nan=True)


class Property(StrEnum):
    """The six properties in the paper's order, each with the definition that is tested.

    A property is about the values of a metric on small rank tables. Where the paper's sentence contradicts itself or
    another property, the nearest consistent definition is tested, and the literal one beside it.
    """

    fixed_optimum = "fixed optimum"
    """When every target is first, the value is the same, whatever the numbers of candidates (all above 1)."""

    fixed_pessimum = "fixed pessimum"
    """When every target is last, the value is the same, whatever the numbers of candidates (all above 1)."""

    anti_monotone = "anti-monotonicity"
    """A worse rank among equally many candidates gives a strictly lower value, for a query alone and beside others."""

    candidate_size = "candidate-size awareness"
    """The same rank among more candidates gives a strictly higher value: for a query alone, and where two queries
    share a table, one of them first and the other at rank r > 1 of its candidates, when it is the larger set in which
    r was reached. Literally this includes rank 1, which contradicts the fixed optimum."""

    sharpness = "sharpness awareness"
    """There is a parameter, no two values of which give a rank 1 < r < E the same score. Literally this includes the
    first and the last rank, which contradicts the fixed optimum and the fixed pessimum."""

    popularity = "popularity awareness"
    """For some value of the parameters the popularity of the targets changes the value while all ranks stay.
    Literally the weight is proportional to popularity, so that whatever a popular target does must count more."""

    @property
    def short(self) -> str:
        """One word, for the head of a column."""
        return _SHORT[self]

    @property
    def literally(self) -> str:
        """What the paper's sentence requires beyond the tested definition; empty where nothing."""
        return _LITERALLY.get(self, "")


_SHORT = dict(zip(Property, ("optimum", "pessimum", "anti-monotone", "size", "sharpness", "popularity"), strict=True))

_LITERALLY = {
    Property.candidate_size: "for rank 1 too",
    Property.sharpness: "for the first and the last rank too",
    Property.popularity: "as a weight that grows with popularity",
}


@dataclass(frozen=True)
class Observation:
    """The value of a metric on a table."""

    metric: Metric
    table: Table
    value: float


@dataclass(frozen=True)
class Evidence:
    """Observations that prove or refute a property, and their description.

    Example:
        >>> from kgprobe.metrics import parse
        >>> hits = parse("Hits@10")
        >>> Evidence.of(hits, *(Observation(hits, (Query(e, e),), v) for e, v in [(10, 1.0), (11, 0.0)])).text
        'rank 10 of 10 scores 1, rank 11 of 11 scores 0'
    """

    text: str
    observations: tuple[Observation, ...] = ()

    @classmethod
    def of(cls, metric: Metric, *observations: Observation) -> Evidence:
        """Describe observations of a metric or of its family."""
        clauses = []
        previous: Table = ()
        for observation, label in zip(observations, labels(metric, [o.metric for o in observations]), strict=True):
            verb, value = (
                ("is", "undefined") if math.isnan(observation.value) else ("scores", f"{observation.value:.6g}")
            )
            clause = value if observation.table == previous else f"{_subject(observation.table, verb)} {value}"
            clauses.append(clause + (f" at {label}" if label else ""))
            previous = observation.table
        return cls(", ".join(clauses), observations)

    @classmethod
    def joined(cls, parts: Sequence[Evidence]) -> Evidence:
        observations = tuple(observation for part in parts for observation in part.observations)
        return cls("; ".join(part.text for part in parts), observations)


def labels(metric: Metric, members: Sequence[Metric]) -> list[str]:
    """The parameters in which members of a metric's family differ from each other and from the metric."""
    written = [member.parameters for member in members]
    common = {item for item in metric.parameters.items() if all(item in p.items() for p in written)}
    return [
        ",".join(
            f"{key}={_brief(value)}" for key, value in p.items() if value is not None and (key, value) not in common
        )
        for p in written
    ]


def _brief(number: float) -> str:
    exact = spelled(number)
    return exact if len(exact) <= 8 else f"{number:.6g}"


def _subject(table: Table, verb: str) -> str:
    *front, last = map(str, table)
    plural = {"is": "are", "scores": "score"}[verb]
    return f"ranks {', '.join(front)} and {last} {plural}" if front else f"rank {last} {verb}"


# The paper's table: one line for each of its columns, with the rows from top to bottom.
_TABLE: dict[type[Metric], str] = {
    MR: "yes no  no  no  no  no",
    MRR: "yes no  yes no  no  no",
    Hits: "yes yes no  no  yes no",
    pMRR: "yes no  yes no  yes no",
    StratMRR: "yes no  yes no  no  no",
    nWMR: "yes yes yes yes no  no",
    AMRI: "yes yes yes yes no  no",
    PROBE: "yes yes yes yes yes yes",
}

_REASONS: dict[tuple[type[Metric], Property], str] = {
    (Hits, Property.fixed_pessimum): (
        "with at most K candidates even the last one is a hit; the claim needs more than K candidates everywhere"
    ),
    (Hits, Property.sharpness): (
        "K moves only the ranks between the old and the new K, all others score as before; "
        "the paper's text, unlike its table, names p-MRR alone"
    ),
    (AMRI, Property.candidate_size): (
        "a quotient of two sums over all queries: beside others, a rank costs the same whatever the query's own "
        "candidates. The mean of the single queries' indices, 2 PROBE(alpha=-1) - 1, is size-aware"
    ),
    (nWMR, Property.candidate_size): (
        "its weights grow with E faster than its scores: beside others, a rank costs more in the larger set, not "
        "less. (The paper gives no definition of this metric; here it is 1 - ln WMR / ln WMR_worst)"
    ),
    (StratMRR, Property.popularity): (
        "its weights are powers of the target's popularity, as the paper's own related work says"
    ),
}


def claim(metric: Metric, about: Property) -> bool | None:
    """The verdict of the paper's table; None where it has no such column."""
    column = _TABLE.get(type(metric))
    return None if column is None else column.split()[list(Property).index(about)] == "yes"


def reason(metric: Metric, about: Property) -> str:
    """Why a verdict differs from the paper's table."""
    # Otherwise a claim can only fail at extreme parameters: PROBE(alpha=inf) is no longer strict.
    extreme = "at these parameters, scores that should differ agree to 12 digits"
    return _REASONS.get((type(metric), about), extreme)


@dataclass(frozen=True)
class PropertyResult:
    """The verdict on one property of a metric.

    Attributes:
        metric: The metric.
        about: The property, as defined in `Property`.
        searched: The number of comparisons.
        counterexample: What refutes the property; None where it holds.
        witness: An example that shows that it holds, where there is one: that popularity changes the value.
        literal: A counterexample to the paper's literal sentence, where only that fails.
        exceptions: Members of the metric's family with the opposite verdict.
        alone: Whether it fails, but holds for queries that are alone in their table.
        reversed: Whether every comparison is reversed: the metric is consistent, but lower is better.
    """

    metric: Metric
    about: Property
    searched: int
    counterexample: Evidence | None = None
    witness: Evidence | None = None
    literal: Evidence | None = None
    exceptions: tuple[Metric, ...] = ()
    alone: bool = False
    reversed: bool = False

    @property
    def holds(self) -> bool:
        return self.counterexample is None

    @property
    def paper(self) -> bool | None:
        """The verdict of the paper's table; None where it does not have the metric."""
        return claim(self.metric, self.about)

    @property
    def agrees(self) -> bool | None:
        """Whether the paper's table agrees; None where it does not have the metric."""
        return None if self.paper is None else self.paper == self.holds

    @property
    def reason(self) -> str:
        """Why the verdict differs from the paper's table; empty where it does not."""
        return reason(self.metric, self.about) if self.agrees is False else ""

    @property
    def note(self) -> str:
        """Further remarks: an example, the literal reading, exceptions in the family."""
        remarks = []
        if self.witness and self.witness != self.literal:
            remarks.append(f"for example, {self.witness.text}")
        if self.literal:
            remarks.append(f"taken literally, {self.about.literally}, it fails: {self.literal.text}")
        if self.alone:
            remarks.append("it holds for a query that is alone in its table")
        if self.exceptions:
            remarks.append(f"otherwise at {', '.join(labels(self.metric, self.exceptions))}")
        if self.reversed:
            remarks.append("always the other way round: here lower is better")
        return "; ".join(remarks)

    def row(self) -> dict[str, Any]:
        """The result as a flat row."""
        return {
            "metric": str(self.metric),
            "property": str(self.about),
            "holds": self.holds,
            "searched": self.searched,
            "counterexample": self.counterexample.text if self.counterexample else None,
            "paper": self.paper,
            "agrees": self.agrees,
            "reason": self.reason or None,
            "note": self.note or None,
        }
