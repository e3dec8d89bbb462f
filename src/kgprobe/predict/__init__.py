"""Step 1, prediction: a scorer and a graph become ranks."""

from kgprobe.predict.candidate_sets import QueryCandidates, RelationCandidates
from kgprobe.predict.model import Model
from kgprobe.predict.rank import rank, rank_in
from kgprobe.predict.resources import Resources
from kgprobe.predict.scorer import EmbeddingScorer, RelationEmbeddingScorer, Scorer
from kgprobe.predict.setting import Setting
from kgprobe.predict.similarity import Dot, GroupNorm
from kgprobe.predict.sources.open import Opening, open_model

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
