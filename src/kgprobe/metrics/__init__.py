"""Metrics as values, the grammar of their names, and `evaluate`.

A metric is a transformer (step 2), a weighting (step 3) and declared facts. Its class has the name of the grammar;
where a name has a cut-off, as in Hits@10, the class is the part before the @. ``METRICS`` lists all classes.

Example:
    >>> import kgprobe as kp
    >>> kp.metrics.PROBE(alpha=0.5, beta=0.4) == kp.parse("PROBE(alpha=0.5,beta=0.4)")
    True
    >>> kp.metrics.Hits(k=3) == kp.parse("Hits@3"), kp.metrics.pMRR(p=0.33) == kp.parse("pMRR(p=0.33)")
    (True, True)
    >>> str(kp.metrics.StratHits(k=1, beta_e=0.5))
    'StratHits@1(beta_e=0.5,beta_r=0)'
"""

from kgprobe.metrics.catalogue import METRICS, parse, parse_all
from kgprobe.metrics.cubes import Score, Scores
from kgprobe.metrics.evaluation import DEFAULT_METRICS, RankAccumulator, evaluate, scores
from kgprobe.metrics.metric import Metric
from kgprobe.metrics.popularity_metrics import APROBE, PROBE, ZPROBE, StratHits, StratMRR, rawPROBE
from kgprobe.metrics.rank_metrics import (
    AMR,
    AMRI,
    AMRR,
    GMR,
    HMR,
    IGMR,
    IMR,
    MR,
    MRR,
    WMR,
    ZMR,
    ZMRR,
    AHits,
    Hits,
    IMedianRank,
    MADRank,
    MedianRank,
    StdRank,
    VarRank,
    ZHits,
    logMRR,
    nWMR,
    pMRR,
)

# fmt: off
__all__ = [
    "AMR", "AMRI", "AMRR", "APROBE", "DEFAULT_METRICS", "GMR", "HMR", "IGMR", "IMR", "METRICS", "MR", "MRR", "PROBE",
    "WMR", "ZMR", "ZMRR", "ZPROBE", "AHits", "Hits", "IMedianRank", "MADRank", "MedianRank", "Metric",
    "RankAccumulator", "Score", "Scores", "StdRank", "StratHits", "StratMRR", "VarRank", "ZHits", "evaluate", "logMRR",
    "nWMR", "pMRR", "parse", "parse_all", "rawPROBE", "scores",
]
# fmt: on
