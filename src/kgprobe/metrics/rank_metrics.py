"""Rank-based metrics: mean ranks, reciprocal ranks, hits, and their chance-adjusted forms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kgprobe.aggregate import CandidateWeight, Weighting
from kgprobe.arrays import Floats
from kgprobe.errors import UsageError
from kgprobe.metrics.metric import (
    DistributionMetric,
    Facts,
    IndexMetric,
    MeanMetric,
    RatioMetric,
    Sums,
    ZMetric,
    check_number,
)
from kgprobe.transform import AffinePower, TopK, Identity, InverseLog, Log, Power, Transformer

BORDES = "Bordes et al. 2013"

HOYT = "Hoyt et al. 2022"

YANG = "Yang et al. 2022"

VOORHEES = "Voorhees 1999"

PYKEEN = "Ali et al. 2021"


@dataclass(frozen=True)
class MR(MeanMetric):
    """Arithmetic mean of the ranks."""

    name: ClassVar[str] = "MR"
    synonyms: ClassVar[tuple[str, ...]] = ("mean rank", "mean_rank", "arithmetic_mean_rank")
    facts: ClassVar[Facts] = Facts("Mean rank", 1, math.inf, False, BORDES)

    @property
    def transformer(self) -> Transformer:
        """The rank itself."""
        return Identity()


@dataclass(frozen=True)
class IMR(MR):
    """One over the mean rank."""

    name: ClassVar[str] = "IMR"
    synonyms: ClassVar[tuple[str, ...]] = ("iamr", "inverse_arithmetic_mean_rank", "inverse mean rank")
    facts: ClassVar[Facts] = Facts("Inverse mean rank", 0, 1, True, HOYT)

    def finish(self, sums: Sums) -> Floats:
        """The reciprocal."""
        return sums.weight / sums.score


@dataclass(frozen=True)
class GMR(MeanMetric):
    """Geometric mean of the ranks. Under ``tie="expected"`` it is the exponential of the expected mean log."""

    name: ClassVar[str] = "GMR"
    synonyms: ClassVar[tuple[str, ...]] = ("geometric mean rank", "geometric_mean_rank")
    facts: ClassVar[Facts] = Facts("Geometric mean rank", 1, math.inf, False, HOYT)

    @property
    def transformer(self) -> Transformer:
        """The logarithm of the rank."""
        return Log()

    def finish(self, sums: Sums) -> Floats:
        """Back from the logarithm."""
        return np.exp(sums.score / sums.weight)


@dataclass(frozen=True)
class IGMR(GMR):
    """One over the geometric mean rank."""

    name: ClassVar[str] = "IGMR"
    synonyms: ClassVar[tuple[str, ...]] = ("inverse geometric mean rank", "inverse_geometric_mean_rank")
    facts: ClassVar[Facts] = Facts("Inverse geometric mean rank", 0, 1, True, HOYT)

    def finish(self, sums: Sums) -> Floats:
        """The reciprocal."""
        return np.exp(-sums.score / sums.weight)


@dataclass(frozen=True)
class MRR(MeanMetric):
    """Arithmetic mean of the reciprocal ranks."""

    name: ClassVar[str] = "MRR"
    synonyms: ClassVar[tuple[str, ...]] = ("mean reciprocal rank", "mean_reciprocal_rank", "inverse_harmonic_mean_rank")
    facts: ClassVar[Facts] = Facts("Mean reciprocal rank", 0, 1, True, VOORHEES)

    @property
    def transformer(self) -> Transformer:
        """The reciprocal of the rank."""
        return Power(1.0)


@dataclass(frozen=True)
class HMR(MRR):
    """Harmonic mean of the ranks: one over the MRR."""

    name: ClassVar[str] = "HMR"
    synonyms: ClassVar[tuple[str, ...]] = ("harmonic mean rank", "harmonic_mean_rank")
    facts: ClassVar[Facts] = Facts("Harmonic mean rank", 1, math.inf, False, HOYT)

    def finish(self, sums: Sums) -> Floats:
        """The reciprocal."""
        return sums.weight / sums.score


@dataclass(frozen=True)
class Hits(MeanMetric):
    """Share of the queries whose target is among the first k."""

    name: ClassVar[str] = "Hits"
    synonyms: ClassVar[tuple[str, ...]] = ("h", "hits_at", "h_at")
    facts: ClassVar[Facts] = Facts("Hits at k", 0, 1, True, BORDES)
    cutoff: ClassVar[bool] = True
    k: int = 10

    def __post_init__(self) -> None:
        if self.k < 1 or not float(self.k).is_integer():
            raise UsageError(f"{self.name}@{self.k}: k must be a whole number of at least 1")
        object.__setattr__(self, "k", int(self.k))

    @property
    def transformer(self) -> Transformer:
        """Inside the first k or not."""
        return TopK(self.k)


@dataclass(frozen=True)
class pMRR(MeanMetric):
    """Mean of ``rank ** -p``: a less sharp MRR for p below 1."""

    name: ClassVar[str] = "pMRR"
    synonyms: ClassVar[tuple[str, ...]] = ("p-mrr", "p_mrr")
    facts: ClassVar[Facts] = Facts("Power mean reciprocal rank", 0, 1, True, YANG)
    p: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.name, "p", self.p)
        if self.p <= 0:
            raise UsageError(f"pMRR: p must be above 0, not {self.p}", remedy="rawPROBE(alpha=p) takes any power")

    @property
    def transformer(self) -> Transformer:
        """A power of the reciprocal rank."""
        return Power(self.p)


@dataclass(frozen=True)
class logMRR(MeanMetric):
    """Mean of ``ln 2 / ln(1 + rank)``."""

    name: ClassVar[str] = "logMRR"
    synonyms: ClassVar[tuple[str, ...]] = ("log-mrr", "log_mrr")
    facts: ClassVar[Facts] = Facts("Logarithmic mean reciprocal rank", 0, 1, True, YANG)

    @property
    def transformer(self) -> Transformer:
        """The inverse logarithm."""
        return InverseLog()


@dataclass(frozen=True)
class MedianRank(DistributionMetric):
    """Median of the ranks: the mean of the two middle ones where their number is even.

    With weights it is the rank at which half of the weight is reached, or the mean of two where it is reached exactly.
    """

    name: ClassVar[str] = "MedianRank"
    synonyms: ClassVar[tuple[str, ...]] = ("median", "median rank", "median_rank")
    facts: ClassVar[Facts] = Facts("Median rank", 1, math.inf, False, HOYT)

    def of_distribution(self, rank: Floats, weight: Floats) -> float:
        """Where the cumulative weight crosses one half."""
        return weighted_median(rank, weight)


@dataclass(frozen=True)
class IMedianRank(MedianRank):
    """One over the median rank."""

    name: ClassVar[str] = "IMedianRank"
    synonyms: ClassVar[tuple[str, ...]] = ("inverse_median_rank", "inverse median rank")
    facts: ClassVar[Facts] = Facts("Inverse median rank", 0, 1, True, HOYT)

    def of_distribution(self, rank: Floats, weight: Floats) -> float:
        """The reciprocal."""
        return 1 / weighted_median(rank, weight)


@dataclass(frozen=True)
class VarRank(DistributionMetric):
    """Variance of the ranks (divided by their number, or by the sum of weights)."""

    name: ClassVar[str] = "VarRank"
    synonyms: ClassVar[tuple[str, ...]] = ("variance", "var", "rank_var")
    facts: ClassVar[Facts] = Facts("Variance of the ranks", 0, math.inf, False, PYKEEN, monotone=False)

    def of_distribution(self, rank: Floats, weight: Floats) -> float:
        """Mean squared distance from the mean."""
        mean = np.average(rank, weights=weight)
        return float(np.average(np.square(rank - mean), weights=weight))


@dataclass(frozen=True)
class StdRank(VarRank):
    """Standard deviation of the ranks: the root of their variance."""

    name: ClassVar[str] = "StdRank"
    synonyms: ClassVar[tuple[str, ...]] = ("standard_deviation", "std", "rank_std")
    facts: ClassVar[Facts] = Facts("Standard deviation of the ranks", 0, math.inf, False, PYKEEN, monotone=False)

    def of_distribution(self, rank: Floats, weight: Floats) -> float:
        """The root."""
        return math.sqrt(super().of_distribution(rank, weight))


@dataclass(frozen=True)
class MADRank(DistributionMetric):
    """Median absolute deviation of the ranks from their median, without a scale factor.

    PyKEEN multiplies by 1.4826 (the normal distribution's factor) when no weights are given, and not when they are;
    here the value never depends on whether weights of 1 were spelled out.
    """

    name: ClassVar[str] = "MADRank"
    synonyms: ClassVar[tuple[str, ...]] = ("median_absolute_deviation", "mad", "rank_mad")
    facts: ClassVar[Facts] = Facts("Median absolute deviation of the ranks", 0, math.inf, False, PYKEEN, monotone=False)

    def of_distribution(self, rank: Floats, weight: Floats) -> float:
        """The median of the distances."""
        distance = np.abs(rank - weighted_median(rank, weight))
        order = np.argsort(distance)
        return weighted_median(distance[order], weight[order])


def weighted_median(values: Floats, weight: Floats) -> float:
    """The value at which half of the weight is reached.

    Args:
        values: In ascending order.
        weight: The weight of each.

    Example:
        >>> weighted_median(np.array([1.0, 2.0, 9.0]), np.ones(3)), weighted_median(np.array([1.0, 3.0]), np.ones(2))
        (2.0, 2.0)
    """
    cumulative = np.cumsum(weight)
    half = cumulative[-1] / 2
    lower = int(np.searchsorted(cumulative, half * (1 - 1e-12)))
    upper = int(np.searchsorted(cumulative, half * (1 + 1e-12), side="right"))
    return float(values[lower] + values[min(upper, values.size - 1)]) / 2


BERRENDORF = "Berrendorf et al. 2020"

TIWARI = "Tiwari et al. 2021"


@dataclass(frozen=True)
class AMR(RatioMetric):
    """Mean rank divided by the mean rank expected of random ranks: 1 is chance, lower is better."""

    name: ClassVar[str] = "AMR"
    synonyms: ClassVar[tuple[str, ...]] = ("aamr", "adjusted mean rank", "adjusted_arithmetic_mean_rank")
    facts: ClassVar[Facts] = Facts("Adjusted mean rank", 0, 2, False, BERRENDORF)

    @property
    def transformer(self) -> Transformer:
        """The rank itself."""
        return Identity()


@dataclass(frozen=True)
class AMRI(IndexMetric):
    """Mean rank on the scale on which chance is 0 and perfection 1: a quotient of means over all queries."""

    name: ClassVar[str] = "AMRI"
    synonyms: ClassVar[tuple[str, ...]] = ("aamri", "adjusted mean rank index", "adjusted_arithmetic_mean_rank_index")
    facts: ClassVar[Facts] = Facts("Adjusted mean rank index", -1, 1, True, BERRENDORF)

    @property
    def transformer(self) -> Transformer:
        """The rank itself."""
        return Identity()


@dataclass(frozen=True)
class AMRR(IndexMetric):
    """MRR on the scale on which chance is 0 and perfection 1."""

    name: ClassVar[str] = "AMRR"
    synonyms: ClassVar[tuple[str, ...]] = (
        "adjusted mrr",
        "adjusted_mean_reciprocal_rank",
        "aihmr",
        "adjusted_inverse_harmonic_mean_rank",
    )
    facts: ClassVar[Facts] = Facts("Adjusted mean reciprocal rank", -math.inf, 1, True, HOYT)

    @property
    def transformer(self) -> Transformer:
        """The reciprocal of the rank."""
        return Power(1.0)


@dataclass(frozen=True)
class AHits(IndexMetric, Hits):
    """Hits@k on the scale on which chance is 0 and perfection 1."""

    name: ClassVar[str] = "AHits"
    synonyms: ClassVar[tuple[str, ...]] = ("ahk", "ah", "ah_at", "ahits_at", "adjusted hits", "adjusted_hits_at")
    facts: ClassVar[Facts] = Facts("Adjusted hits at k", -math.inf, 1, True, HOYT)


@dataclass(frozen=True)
class ZMR(ZMetric):
    """Mean rank in standard deviations from chance, turned so that larger is better."""

    name: ClassVar[str] = "ZMR"
    synonyms: ClassVar[tuple[str, ...]] = ("z mean rank", "zamr", "z_arithmetic_mean_rank")
    facts: ClassVar[Facts] = Facts("z-scored mean rank", -math.inf, math.inf, True, HOYT)

    @property
    def transformer(self) -> Transformer:
        """The rank itself."""
        return Identity()


@dataclass(frozen=True)
class ZMRR(ZMetric):
    """MRR in standard deviations from chance."""

    name: ClassVar[str] = "ZMRR"
    synonyms: ClassVar[tuple[str, ...]] = ("z mrr", "zihmr", "z_inverse_harmonic_mean_rank")
    facts: ClassVar[Facts] = Facts("z-scored mean reciprocal rank", -math.inf, math.inf, True, HOYT)

    @property
    def transformer(self) -> Transformer:
        """The reciprocal of the rank."""
        return Power(1.0)


@dataclass(frozen=True)
class ZHits(ZMetric, Hits):
    """Hits@k in standard deviations from chance."""

    name: ClassVar[str] = "ZHits"
    synonyms: ClassVar[tuple[str, ...]] = ("zahk", "z hits", "z_hits_at", "z_hits")
    facts: ClassVar[Facts] = Facts("z-scored hits at k", -math.inf, math.inf, True, HOYT)


@dataclass(frozen=True)
class WMR(MeanMetric):
    """Weighted geometric mean rank: each query counts as much as it has wrong candidates (E - 1)."""

    name: ClassVar[str] = "WMR"
    synonyms: ClassVar[tuple[str, ...]] = ("wgmr", "weighted geometric mean rank")
    facts: ClassVar[Facts] = Facts("Weighted geometric mean rank", 1, math.inf, False, TIWARI)

    @property
    def transformer(self) -> Transformer:
        """The logarithm of the rank."""
        return Log()

    @property
    def weighting(self) -> Weighting:
        """By the number of wrong candidates."""
        return CandidateWeight()

    @property
    def needs_alternatives(self) -> bool:
        """Yes: a single candidate weighs nothing."""
        return True

    def finish(self, sums: Sums) -> Floats:
        """Back from the logarithm."""
        return np.exp(sums.score / sums.weight)


@dataclass(frozen=True)
class nWMR(MeanMetric):
    """``1 - ln WMR / ln WMR_worst``, where WMR_worst has every target last: 1 is perfect, 0 the worst.

    The PROBE paper credits a normalised WMR with a fixed optimum and pessimum but defines none. This one is on the
    log scale, on which WMR is a mean, so that it stays a weighted mean of per-query scores: of ``1 - ln r / ln E``
    with weight ``(E - 1) ln E``.
    """

    name: ClassVar[str] = "nWMR"
    synonyms: ClassVar[tuple[str, ...]] = ("normalised wmr", "normalized wmr", "wmr-bar")
    facts: ClassVar[Facts] = Facts("Normalised weighted geometric mean rank", 0, 1, True, TIWARI)

    @property
    def transformer(self) -> Transformer:
        """The rescaled logarithm."""
        return AffinePower(0.0)

    @property
    def weighting(self) -> Weighting:
        """By the number of wrong candidates times the log of their number."""
        return CandidateWeight(in_log=True)
