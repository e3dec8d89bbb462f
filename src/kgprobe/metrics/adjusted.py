"""Metrics that take the number of candidates into account: against chance, or as a weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kgprobe.aggregate import CandidateWeight, Weighting
from kgprobe.metrics.base import Facts, Floats, IndexMetric, MeanMetric, RatioMetric, Sums, ZMetric
from kgprobe.metrics.plain import HOYT, HitsAtK
from kgprobe.transform import AffinePower, Identity, Log, Power, Transformer

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
class AdjustedHits(IndexMetric, HitsAtK):
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
class ZHits(ZMetric, HitsAtK):
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
class NormalisedWMR(MeanMetric):
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
