"""Step 1, prediction: rank the targets of a graph's triples by the scores of a model."""

from kgprobe.predict.adapters.opening import Model, Opening, open_model
from kgprobe.predict.blocks.ray_executor import Ray
from kgprobe.predict.ranking import count_blocks, rank, rank_in
from kgprobe.predict.sampled_ranking import Sampling
from kgprobe.predict.scorers import Dot, EmbeddingScorer, GroupNorm, RelationEmbeddingScorer, Scorer
from kgprobe.predict.setting import Setting
from kgprobe.predict.tasks import QueryCandidates, RelationCandidates
from kgprobe.resources import Resources

__all__ = [
    "Dot",
    "EmbeddingScorer",
    "GroupNorm",
    "Model",
    "Opening",
    "QueryCandidates",
    "Ray",
    "RelationCandidates",
    "RelationEmbeddingScorer",
    "Resources",
    "Sampling",
    "Scorer",
    "Setting",
    "count_blocks",
    "open_model",
    "rank",
    "rank_in",
]
