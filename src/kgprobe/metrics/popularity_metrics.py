"""Popularity-weighted metrics: PROBE in its forms, and the stratified metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from kgprobe.aggregate import PopularityWeight, StratumWeight, Weighting
from kgprobe.errors import UsageError
from kgprobe.metrics.metric import Facts, IndexMetric, MeanMetric, ZMetric, check_beta, check_number
from kgprobe.metrics.rank_metrics import MRR, Hits
from kgprobe.transform import AffinePower, Power, Transformer

PAPER = "PROBE"
MOHAMED = "Mohamed et al. 2020"
OURS = "kgprobe"


@dataclass(frozen=True)
class PROBE(MeanMetric):
    """The paper's metric: a rescaled power of the rank (sharpness alpha), weighted by unpopularity (robustness beta).

    ``beta`` sets both exponents; ``beta_e`` and ``beta_r`` set those of the entity and of the relation, and ``eps``
    works in the same way. The value is the weighted mean with weights that sum to 1: as in the paper's inner-product
    form and its published tables, the 1/n of its aggregation equation is not applied again.

    Example:
        >>> str(PROBE(alpha=0.5, beta=0.4)), str(PROBE(alpha=1, beta_e=0.2))
        ('PROBE(alpha=0.5,beta=0.4)', 'PROBE(alpha=1,beta_e=0.2,beta_r=0)')
    """

    name = "PROBE"
    facts = Facts("PROBE", 0, 1, True, PAPER)
    alpha: float = 1.0
    beta: float | None = None
    beta_e: float | None = None
    beta_r: float | None = None
    eps: float | None = None
    eps_e: float | None = None
    eps_r: float | None = None

    def __post_init__(self) -> None:
        check_number(self.name, "alpha", self.alpha, finite=False)
        for both in ("beta", "eps"):
            self._spread(both)
        for key in ("beta_e", "beta_r", "eps_e", "eps_r"):
            value = getattr(self, key)
            if value is not None:
                (check_beta if key.startswith("beta") else check_number)(self.name, key, value)
                if key.startswith("eps") and value < 0:
                    raise UsageError(f"{self.name}: {key} must not be negative, not {value}")

    def _spread(self, both: str) -> None:
        """Store the value for both columns under each column's own name."""
        common, parts = getattr(self, both), [getattr(self, f"{both}_e"), getattr(self, f"{both}_r")]
        if common is not None and any(part is not None for part in parts):
            raise UsageError(f"{self.name}: {both} sets both {both}_e and {both}_r, so give either it or them")
        missing = 0.0 if both == "beta" else None
        parts = [common, common] if common is not None else parts
        parts = [float(part) if part is not None else missing for part in parts]
        for key, part in zip((f"{both}_e", f"{both}_r"), parts, strict=True):
            object.__setattr__(self, key, part)
        object.__setattr__(self, both, None)
        object.__setattr__(self, "alpha", float(self.alpha))

    @property
    def parameters(self) -> dict[str, Any]:
        written: dict[str, Any] = {"alpha": self.alpha}
        for both in ("beta", "eps"):
            entity, relation = getattr(self, f"{both}_e"), getattr(self, f"{both}_r")
            written |= {both: entity} if entity == relation else {f"{both}_e": entity, f"{both}_r": relation}
        return written

    @property
    def transformer(self) -> Transformer:
        return AffinePower(self.alpha)

    @property
    def weighting(self) -> Weighting:
        return PopularityWeight(self.beta_e or 0.0, self.beta_r or 0.0, self.eps_e, self.eps_r)


@dataclass(frozen=True)
class rawPROBE(PROBE):  # noqa: N801 (the name in the grammar)
    """PROBE without the rescaling: the mean of ``rank ** -alpha``. MRR at alpha 1, MR at alpha -1."""

    name = "rawPROBE"
    synonyms: ClassVar[tuple[str, ...]] = ("raw probe", "raw_probe")
    facts = Facts("PROBE with the raw transformer", 0, math.inf, True, PAPER)

    @property
    def higher_is_better(self) -> bool:
        return self.alpha >= 0

    @property
    def transformer(self) -> Transformer:
        return Power(self.alpha)


@dataclass(frozen=True)
class APROBE(IndexMetric, PROBE):
    """PROBE, rescaled so that chance is 0 and perfect ranks are 1.

    The chance level of PROBE depends on alpha and on the candidate count of every query (0.5 at alpha -1, near 0 at
    alpha 1). It is the exact expectation for random ranks, query by query, with the same weights.
    """

    name = "APROBE"
    synonyms: ClassVar[tuple[str, ...]] = ("adjusted probe", "adjusted_probe")
    facts = Facts("Chance-adjusted PROBE", -math.inf, 1, True, OURS)


@dataclass(frozen=True)
class ZPROBE(ZMetric, PROBE):
    """PROBE in standard deviations from chance, with the exact variance of independent random ranks."""

    name = "ZPROBE"
    synonyms: ClassVar[tuple[str, ...]] = ("z probe", "z_probe")
    facts = Facts("z-scored PROBE", -math.inf, math.inf, True, OURS)


@dataclass(frozen=True)
class _Stratified(MeanMetric):
    beta_e: float = 1.0
    beta_r: float = 0.0

    def __post_init__(self) -> None:
        check_beta(self.name, "beta_e", self.beta_e)
        check_beta(self.name, "beta_r", self.beta_r)

    @property
    def weighting(self) -> Weighting:
        return StratumWeight(self.beta_e, self.beta_r)


@dataclass(frozen=True)
class StratMRR(_Stratified, MRR):
    """Stratified MRR: the weight of a query is ``delta(e)^-beta_e * n(r)^-beta_r``.

    The publication does not say which counts make a stratum popular; see `StratumWeight` for the choice made here.
    With both betas 0 it is the MRR; with ``beta_r=1, beta_e=0`` every relation has the same weight.
    """

    name = "StratMRR"
    synonyms: ClassVar[tuple[str, ...]] = ("strat-mrr", "strat_mrr", "stratified mrr")
    facts = Facts("Stratified mean reciprocal rank", 0, 1, True, MOHAMED)


@dataclass(frozen=True)
class StratHits(_Stratified, Hits):
    """Stratified Hits@k: weights as in `StratMRR`."""

    name = "StratHits"
    synonyms: ClassVar[tuple[str, ...]] = ("strat-hits", "strat_hits", "stratified hits")
    facts = Facts("Stratified hits at k", 0, 1, True, MOHAMED)

    def __post_init__(self) -> None:
        Hits.__post_init__(self)
        super().__post_init__()
