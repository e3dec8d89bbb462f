"""kgprobe: how good is a knowledge graph completion model, from the perspective you need?

Example:
    >>> import kgprobe as kp
    >>> ranks = kp.Ranks.from_columns(
    ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
    ... )
    >>> kp.evaluate(ranks, ["MRR", "PROBE(alpha=0)"])
    {'MRR': 0.75, 'PROBE(alpha=0,beta=0)': 0.7846617...}
"""

from kgprobe.aggregate import Geometry, Surface, surface
from kgprobe.errors import DataError, KgprobeError, UsageError
from kgprobe.graph import KnowledgeGraph, Popularity, load_graph
from kgprobe.metrics import METRICS, Metric, RankAccumulator, Score, evaluate, parse, scores
from kgprobe.predict import (
    Dot,
    EmbeddingScorer,
    GroupNorm,
    Model,
    Opening,
    QueryCandidates,
    RelationCandidates,
    RelationEmbeddingScorer,
    Resources,
    Scorer,
    Setting,
    open_model,
    rank,
)
from kgprobe.ranks import RankFile, Ranks, RanksInfo, concatenate, merge_seeds, read_ranks

__all__ = [
    "METRICS",
    "DataError",
    "Dot",
    "EmbeddingScorer",
    "Geometry",
    "GroupNorm",
    "KgprobeError",
    "KnowledgeGraph",
    "Metric",
    "Model",
    "Opening",
    "Popularity",
    "QueryCandidates",
    "RankAccumulator",
    "RankFile",
    "Ranks",
    "RanksInfo",
    "RelationCandidates",
    "RelationEmbeddingScorer",
    "Resources",
    "Score",
    "Scorer",
    "Setting",
    "Surface",
    "UsageError",
    "concatenate",
    "evaluate",
    "load_graph",
    "merge_seeds",
    "open_model",
    "parse",
    "rank",
    "read_ranks",
    "scores",
    "surface",
]
