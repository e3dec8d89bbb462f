"""The engine: scores in tiles that stay in cache, counted, never sorted."""

from __future__ import annotations

from kgprobe.predict.arithmetic import arithmetic_for
from kgprobe.predict.counts import Counts
from kgprobe.predict.engine.embedding import count_embedding
from kgprobe.predict.engine.matrix import count_matrix
from kgprobe.predict.engine.task import Task, Watch
from kgprobe.predict.resources import Resources
from kgprobe.predict.scorer import AnyScorer, EmbeddingScorer, RelationEmbeddingScorer
from kgprobe.predict.threads import one_thread_of_blas

__all__ = ["Task", "Watch", "count"]


def count(scorer: AnyScorer, task: Task, resources: Resources, watch: Watch = lambda targets: None) -> Counts:
    """Count, for every target of the task, the candidates that are better, equal, or there at all.

    The result does not depend on the resources. Counts over disjoint ranges of entities add up to those over their
    union.
    """
    arithmetic = arithmetic_for(resources.device)
    if not isinstance(scorer, EmbeddingScorer | RelationEmbeddingScorer):
        return count_matrix(scorer, task, arithmetic, resources, watch)
    with one_thread_of_blas():
        return count_embedding(scorer, task, arithmetic, resources, watch)
