"""Step 1, prediction: a scorer and a graph become ranks."""

from kgprobe.predict.adapters.opening import Model, Opening, open_model
from kgprobe.predict.candidates import QueryCandidates, RelationCandidates
from kgprobe.predict.ranking import Setting, rank, rank_in
from kgprobe.predict.scorers import Dot, EmbeddingScorer, GroupNorm, RelationEmbeddingScorer, Scorer
from kgprobe.resources import Resources

__all__ = [
    "Dot",
    "EmbeddingScorer",
    "GroupNorm",
    "Model",
    "Opening",
    "QueryCandidates",
    "RelationCandidates",
    "RelationEmbeddingScorer",
    "Resources",
    "Scorer",
    "Setting",
    "open_model",
    "rank",
    "rank_in",
]
