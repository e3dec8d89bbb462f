"""The paper's own table of properties, and why the search disagrees with it where it does."""

from __future__ import annotations

from kgprobe.metrics.adjusted import AMRI, NormalisedWMR
from kgprobe.metrics.base import Metric
from kgprobe.metrics.plain import MR, MRR, PMRR, HitsAtK
from kgprobe.metrics.popularity import Probe, StratMRR
from kgprobe.metrics.properties.definitions import Property

# One line for each column of the table, its rows from top to bottom.
_TABLE: dict[type[Metric], str] = {
    MR: "yes no  no  no  no  no",
    MRR: "yes no  yes no  no  no",
    HitsAtK: "yes yes no  no  yes no",
    PMRR: "yes no  yes no  yes no",
    StratMRR: "yes no  yes no  no  no",
    NormalisedWMR: "yes yes yes yes no  no",
    AMRI: "yes yes yes yes no  no",
    Probe: "yes yes yes yes yes yes",
}

_REASONS: dict[tuple[type[Metric], Property], str] = {
    (HitsAtK, Property.fixed_pessimum): (
        "with at most K candidates even the last one is a hit; the claim needs more than K candidates everywhere"
    ),
    (HitsAtK, Property.sharpness): (
        "K moves only the ranks between the old and the new K, all others score as before; "
        "the paper's text, unlike its table, names p-MRR alone"
    ),
    (AMRI, Property.candidate_size): (
        "a quotient of two sums over all queries: beside others, a rank costs the same whatever the query's own "
        "candidates. The mean of the single queries' indices, 2 PROBE(alpha=-1) - 1, is size-aware"
    ),
    (NormalisedWMR, Property.candidate_size): (
        "its weights grow with E faster than its scores: beside others, a rank costs more in the larger set, not "
        "less. (The paper gives no definition of this metric; here it is 1 - ln WMR / ln WMR_worst)"
    ),
    (StratMRR, Property.popularity): (
        "its weights are powers of the target's popularity, as the paper's own related work says"
    ),
}


def claim(metric: Metric, about: Property) -> bool | None:
    """What the paper's table says; None where it has no such column.

    Example:
        >>> from kgprobe.metrics import parse
        >>> claim(parse("AMRI"), Property.candidate_size), claim(parse("ZMRR"), Property.candidate_size)
        (True, None)
    """
    column = _TABLE.get(type(metric))
    return None if column is None else column.split()[list(Property).index(about)] == "yes"


def reason(metric: Metric, about: Property) -> str:
    """Why a verdict other than the paper's is right.

    Example:
        >>> from kgprobe.metrics import parse
        >>> reason(parse("StratMRR"), Property.popularity)
        "its weights are powers of the target's popularity, as the paper's own related work says"
    """
    # Beyond the known reasons, a claim can only fail at extreme parameters: PROBE(alpha=inf) is no longer strict.
    extreme = "at these parameters, scores that should differ agree to 12 digits"
    return _REASONS.get((type(metric), about), extreme)
