"""kgprobe: how good is a knowledge graph completion model, from the perspective you need?

Example:
    >>> import kgprobe as kp
    >>> ranks = kp.Ranks.from_columns(
    ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
    ... )
    >>> kp.evaluate(ranks, ["MRR", "PROBE(alpha=0)"])
    {'MRR': 0.75, 'PROBE(alpha=0,beta=0)': 0.7846617...}
"""

from typing import TYPE_CHECKING

from kgprobe.aggregate import Geometry, Surface, surface
from kgprobe.audit import check
from kgprobe.comparison import Lineup, line_up
from kgprobe.decision import decide, decision_map
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
    Scorer,
    Setting,
    open_model,
    rank,
)
from kgprobe.ranks import RankFile, Ranks, RanksInfo, concatenate, merge_seeds, read_ranks
from kgprobe.report import Report, compare
from kgprobe.resources import Resources
from kgprobe.train.fitting import Fitted, fit
from kgprobe.train.trained_models import explain, register_trained

if TYPE_CHECKING:
    from kgprobe.openworld import OpenWorld, estimate_closed, read_world, sensitivity, split_world
else:
    _OPEN_WORLD = ("OpenWorld", "estimate_closed", "read_world", "sensitivity", "split_world")

    def __getattr__(name):
        """Names of the open world are loaded when they are first asked for: they need scipy."""
        if name not in _OPEN_WORLD:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from kgprobe import openworld

        return getattr(openworld, name)


register_trained()

__all__ = [
    "METRICS",
    "DataError",
    "Dot",
    "EmbeddingScorer",
    "Fitted",
    "Geometry",
    "GroupNorm",
    "KgprobeError",
    "KnowledgeGraph",
    "Lineup",
    "Metric",
    "Model",
    "OpenWorld",
    "Opening",
    "Popularity",
    "QueryCandidates",
    "RankAccumulator",
    "RankFile",
    "Ranks",
    "RanksInfo",
    "RelationCandidates",
    "RelationEmbeddingScorer",
    "Report",
    "Resources",
    "Score",
    "Scorer",
    "Setting",
    "Surface",
    "UsageError",
    "check",
    "compare",
    "concatenate",
    "decide",
    "decision_map",
    "estimate_closed",
    "evaluate",
    "explain",
    "fit",
    "line_up",
    "load_graph",
    "merge_seeds",
    "open_model",
    "parse",
    "rank",
    "read_ranks",
    "read_world",
    "scores",
    "sensitivity",
    "split_world",
    "surface",
]
