"""Rank-based metrics: mean ranks, reciprocal ranks, hits, and their chance-adjusted forms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kgprobe.aggregate import CandidateWeight, Sums
from kgprobe.arrays import Floats
from kgprobe.errors import UsageError
from kgprobe.metrics.metric import (
    DistributionMetric,
    Facts,
    IndexMetric,
    MeanMetric,
    RatioMetric,
    ZMetric,
    check_number,
)
from kgprobe.transform import AffinePower, Identity, InverseLog, Log, Power, TopK, Transformer

BERRENDORF = "Berrendorf et al. 2020"
BORDES = "Bordes et al. 2013"
HOYT = "Hoyt et al. 2022"
PYKEEN = "Ali et al. 2021"
TIWARI = "Tiwari et al. 2021"
VOORHEES = "Voorhees 1999"
YANG = "Yang et al. 2022"

_LARGEST_K = 2**53  # larger whole numbers are not exact in float64


@dataclass(frozen=True)
class MR(MeanMetric):
    """Arithmetic mean of the ranks."""

    name = "MR"
    synonyms: ClassVar[tuple[str, ...]] = ("mean rank", "mean_rank", "arithmetic_mean_rank")
    facts = Facts("Mean rank", 1, math.inf, False, BORDES)
    transformer = Identity()


@dataclass(frozen=True)
class IMR(MR):
    """One over the mean rank."""

    name = "IMR"
    synonyms: ClassVar[tuple[str, ...]] = ("iamr", "inverse_arithmetic_mean_rank", "inverse mean rank")
    facts = Facts("Inverse mean rank", 0, 1, True, HOYT)

    def finish(self, sums: Sums) -> Floats:
        return 1 / sums.mean


@dataclass(frozen=True)
class GMR(MeanMetric):
    """Geometric mean of the ranks. Under ``tie="expected"`` it is the exponential of the expected mean log."""

    name = "GMR"
    synonyms: ClassVar[tuple[str, ...]] = ("geometric mean rank", "geometric_mean_rank")
    facts = Facts("Geometric mean rank", 1, math.inf, False, HOYT)
    transformer = Log()

    def finish(self, sums: Sums) -> Floats:
        return np.exp(sums.mean)


@dataclass(frozen=True)
class IGMR(GMR):
    """One over the geometric mean rank."""

    name = "IGMR"
    synonyms: ClassVar[tuple[str, ...]] = ("inverse geometric mean rank", "inverse_geometric_mean_rank")
    facts = Facts("Inverse geometric mean rank", 0, 1, True, HOYT)

    def finish(self, sums: Sums) -> Floats:
        return np.exp(-sums.mean)


@dataclass(frozen=True)
class MRR(MeanMetric):
    """Arithmetic mean of the reciprocal ranks."""

    name = "MRR"
    synonyms: ClassVar[tuple[str, ...]] = ("mean reciprocal rank", "mean_reciprocal_rank", "inverse_harmonic_mean_rank")
    facts = Facts("Mean reciprocal rank", 0, 1, True, VOORHEES)
    transformer = Power(1.0)


@dataclass(frozen=True)
class HMR(MRR):
    """Harmonic mean of the ranks: one over the MRR."""

    name = "HMR"
    synonyms: ClassVar[tuple[str, ...]] = ("harmonic mean rank", "harmonic_mean_rank")
    facts = Facts("Harmonic mean rank", 1, math.inf, False, HOYT)

    def finish(self, sums: Sums) -> Floats:
        return 1 / sums.mean


@dataclass(frozen=True)
class Hits(MeanMetric):
    """Share of the queries whose target is among the first k."""

    name = "Hits"
    synonyms: ClassVar[tuple[str, ...]] = ("h", "hits_at", "h_at")
    facts = Facts("Hits at k", 0, 1, True, BORDES)
    cutoff = True
    k: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.k <= _LARGEST_K or not float(self.k).is_integer():
            shown = f"@{self.k}" if abs(self.k) <= _LARGEST_K else ""  # Python refuses to write out a huge number
            raise UsageError(f"{self.name}{shown}: k must be a whole number of at least 1 and at most {_LARGEST_K:,}")
        object.__setattr__(self, "k", int(self.k))

    @property
    def transformer(self) -> Transformer:
        return TopK(self.k)


@dataclass(frozen=True)
class pMRR(MeanMetric):  # noqa: N801 (the name in the grammar)
    """Mean of ``rank ** -p``: a less sharp MRR for p below 1."""

    name = "pMRR"
    synonyms: ClassVar[tuple[str, ...]] = ("p-mrr", "p_mrr")
    facts = Facts("Power mean reciprocal rank", 0, 1, True, YANG)
    p: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.name, "p", self.p)
        if self.p <= 0:
            raise UsageError(f"pMRR: p must be above 0, not {self.p}", remedy="rawPROBE(alpha=p) takes any power")

    @property
    def transformer(self) -> Transformer:
        return Power(self.p)


@dataclass(frozen=True)
class logMRR(MeanMetric):  # noqa: N801 (the name in the grammar)
    """Mean of ``ln 2 / ln(1 + rank)``."""

    name = "logMRR"
    synonyms: ClassVar[tuple[str, ...]] = ("log-mrr", "log_mrr")
    facts = Facts("Logarithmic mean reciprocal rank", 0, 1, True, YANG)
    transformer = InverseLog()


@dataclass(frozen=True)
class MedianRank(DistributionMetric):
    """Median of the ranks: the mean of the two middle ones where their number is even.

    With weights it is the rank at which half of the weight is reached, or the mean of two where it is reached exactly.
    """

    name = "MedianRank"
    synonyms: ClassVar[tuple[str, ...]] = ("median", "median rank", "median_rank")
    facts = Facts("Median rank", 1, math.inf, False, HOYT)

    def of_distribution(self, rank: Floats, weight: Floats) -> Floats:
        return weighted_median(rank, weight)


@dataclass(frozen=True)
class IMedianRank(MedianRank):
    """One over the median rank."""

    name = "IMedianRank"
    synonyms: ClassVar[tuple[str, ...]] = ("inverse_median_rank", "inverse median rank")
    facts = Facts("Inverse median rank", 0, 1, True, HOYT)

    def of_distribution(self, rank: Floats, weight: Floats) -> Floats:
        return 1 / weighted_median(rank, weight)


@dataclass(frozen=True)
class VarRank(DistributionMetric):
    """Variance of the ranks (divided by their number, or by the sum of weights)."""

    name = "VarRank"
    synonyms: ClassVar[tuple[str, ...]] = ("variance", "var", "rank_var")
    facts = Facts("Variance of the ranks", 0, math.inf, False, PYKEEN, monotone=False)

    def of_distribution(self, rank: Floats, weight: Floats) -> Floats:
        share = weight / weight.sum(axis=-1, keepdims=True)
        deviation = rank - (share @ rank)[..., None]
        return np.asarray((share * np.square(deviation)).sum(axis=-1))


@dataclass(frozen=True)
class StdRank(VarRank):
    """Standard deviation of the ranks: the root of their variance."""

    name = "StdRank"
    synonyms: ClassVar[tuple[str, ...]] = ("standard_deviation", "std", "rank_std")
    facts = Facts("Standard deviation of the ranks", 0, math.inf, False, PYKEEN, monotone=False)

    def of_distribution(self, rank: Floats, weight: Floats) -> Floats:
        return np.sqrt(super().of_distribution(rank, weight))


@dataclass(frozen=True)
class MADRank(DistributionMetric):
    """Median absolute deviation of the ranks from their median, without a scale factor.

    PyKEEN multiplies by 1.4826 (the normal distribution's factor) when no weights are given, and not when they are;
    here weights of 1 give the same value as no weights.
    """

    name = "MADRank"
    synonyms: ClassVar[tuple[str, ...]] = ("median_absolute_deviation", "mad", "rank_mad")
    facts = Facts("Median absolute deviation of the ranks", 0, math.inf, False, PYKEEN, monotone=False)

    def of_distribution(self, rank: Floats, weight: Floats) -> Floats:
        median = weighted_median(rank, weight)
        result = np.empty(median.shape)
        for centre in np.unique(median):  # bootstrap draws have few distinct medians
            distance = np.abs(rank - centre)
            order, own = np.argsort(distance), median == centre
            result[own] = weighted_median(distance[order], weight[own][..., order])
        return result


def weighted_median(values: Floats, weight: Floats) -> Floats:
    """The value at which half of the weight is reached, or the mean of two where it is reached exactly.

    Args:
        values: Values in ascending order.
        weight: Their weights, [..., values]: one or several distributions.

    Example:
        >>> weighted_median(np.array([1.0, 2.0, 9.0]), np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 2.0]])).tolist()
        [2.0, 5.0]
    """
    cumulative = np.cumsum(weight, axis=-1)
    half = cumulative[..., -1:] / 2
    lower = (cumulative < half * (1 - 1e-12)).sum(axis=-1)
    upper = (cumulative <= half * (1 + 1e-12)).sum(axis=-1)
    return np.asarray(values[lower] + values[np.minimum(upper, len(values) - 1)]) / 2


@dataclass(frozen=True)
class AMR(RatioMetric):
    """Mean rank divided by the mean rank expected of random ranks: 1 is chance, lower is better."""

    name = "AMR"
    synonyms: ClassVar[tuple[str, ...]] = ("aamr", "adjusted mean rank", "adjusted_arithmetic_mean_rank")
    facts = Facts("Adjusted mean rank", 0, 2, False, BERRENDORF)
    transformer = Identity()


@dataclass(frozen=True)
class AMRI(IndexMetric):
    """Mean rank, rescaled so that chance is 0 and perfect ranks are 1: a quotient of means over all queries."""

    name = "AMRI"
    synonyms: ClassVar[tuple[str, ...]] = ("aamri", "adjusted mean rank index", "adjusted_arithmetic_mean_rank_index")
    facts = Facts("Adjusted mean rank index", -1, 1, True, BERRENDORF)
    transformer = Identity()


@dataclass(frozen=True)
class AMRR(IndexMetric):
    """MRR, rescaled so that chance is 0 and perfect ranks are 1."""

    name = "AMRR"
    synonyms: ClassVar[tuple[str, ...]] = (
        "adjusted mrr",
        "adjusted_mean_reciprocal_rank",
        "aihmr",
        "adjusted_inverse_harmonic_mean_rank",
    )
    facts = Facts("Adjusted mean reciprocal rank", -math.inf, 1, True, HOYT)
    transformer = Power(1.0)


@dataclass(frozen=True)
class AHits(IndexMetric, Hits):
    """Hits@k, rescaled so that chance is 0 and perfect ranks are 1.

    Queries with at most k candidates are hits whatever their rank. They are left out, which does not change the value.
    Where no other query is left, the value is undefined; PyKEEN gives 0.
    """

    name = "AHits"
    synonyms: ClassVar[tuple[str, ...]] = ("ahk", "ah", "ah_at", "ahits_at", "adjusted hits", "adjusted_hits_at")
    facts = Facts("Adjusted hits at k", -math.inf, 1, True, HOYT)

    @property
    def fewest_candidates(self) -> int:
        return self.k + 1


@dataclass(frozen=True)
class ZMR(ZMetric):
    """Mean rank in standard deviations from chance; larger is better."""

    name = "ZMR"
    synonyms: ClassVar[tuple[str, ...]] = ("z mean rank", "zamr", "z_arithmetic_mean_rank")
    facts = Facts("z-scored mean rank", -math.inf, math.inf, True, HOYT)
    transformer = Identity()


@dataclass(frozen=True)
class ZMRR(ZMetric):
    """MRR in standard deviations from chance."""

    name = "ZMRR"
    synonyms: ClassVar[tuple[str, ...]] = ("z mrr", "zihmr", "z_inverse_harmonic_mean_rank")
    facts = Facts("z-scored mean reciprocal rank", -math.inf, math.inf, True, HOYT)
    transformer = Power(1.0)


@dataclass(frozen=True)
class ZHits(ZMetric, Hits):
    """Hits@k in standard deviations from chance; queries with at most k candidates are left out, as in `AHits`."""

    name = "ZHits"
    synonyms: ClassVar[tuple[str, ...]] = ("zahk", "z hits", "z_hits_at", "z_hits")
    facts = Facts("z-scored hits at k", -math.inf, math.inf, True, HOYT)

    @property
    def fewest_candidates(self) -> int:
        return self.k + 1


@dataclass(frozen=True)
class WMR(GMR):
    """Weighted geometric mean rank: the weight of a query is its number of wrong candidates, E - 1."""

    name = "WMR"
    synonyms: ClassVar[tuple[str, ...]] = ("wgmr", "weighted geometric mean rank")
    facts = Facts("Weighted geometric mean rank", 1, math.inf, False, TIWARI)
    weighting = CandidateWeight()
    fewest_candidates = 2


@dataclass(frozen=True)
class nWMR(MeanMetric):  # noqa: N801 (the name in the grammar)
    """``1 - ln WMR / ln WMR_worst``, where WMR_worst has every target last: 1 is perfect, 0 the worst.

    The PROBE paper mentions a normalised WMR with a fixed optimum and pessimum but does not define it. This one is on
    the log scale, on which WMR is a mean: it is the mean of ``1 - ln r / ln E`` with weight ``(E - 1) ln E``.
    """

    name = "nWMR"
    synonyms: ClassVar[tuple[str, ...]] = ("normalised wmr", "normalized wmr", "wmr-bar")
    facts = Facts("Normalised weighted geometric mean rank", 0, 1, True, TIWARI)
    transformer = AffinePower(0.0)
    weighting = CandidateWeight(in_log=True)
