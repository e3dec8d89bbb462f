"""The ComplEx beside the rules of RNNLogic: how it is trained, and how much it counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.complex import ComplExOptions
from kgprobe.models.rnnlogic.embedded import Beside, RNNLogicWithEmbedding
from kgprobe.models.rnnlogic.scorer import RNNLogicScorer
from kgprobe.predict.scorer import Scorer
from kgprobe.train.embedding import EmbeddingLearner
from kgprobe.train.rules.choice import Judge, Remembering
from kgprobe.train.rules.tensors import prefixed
from kgprobe.train.settings import Settings

EMBEDDING, EMBEDDING_WEIGHT = "embedding.", "embedding_weight"
_FACTS = 2000
"""So many validation facts choose a weight."""


def embedding_settings(settings: Settings, seed: int) -> Settings:
    """How the ComplEx of a run is trained: against all entities, kept small by the nuclear norm."""
    options = settings.options
    return Settings(
        "ComplEx",
        ComplExOptions(dimension=options.embedding_dimension, dropout=options.embedding_dropout),
        objective="one_vs_all",
        loss="cross_entropy",
        reciprocal=True,
        regulariser="n3",
        regularisation=options.embedding_regularisation,
        optimiser="adagrad",
        learning_rate=options.embedding_rate,
        batch_size=options.embedding_batch,
        epochs=options.embedding_epochs,
        seeds=(seed,),
    )


class EmbeddingChoice:
    """How much an embedding counts beside rules.

    Args:
        settings: The settings of the training.
        graph: The graph; without validation facts the first weight is chosen.
        device: Where the runs are.
    """

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        self.weights: tuple[float, ...] = settings.options.embedding_weights
        self._judge = Judge(settings, graph, device, _FACTS)

    def weighed(self, reasoning: RNNLogicScorer, embedding: Scorer) -> RNNLogicWithEmbedding:
        """Both together with the weight that the validation facts like best, the first of those as good."""
        rules, vectors = Remembering(reasoning), Remembering(embedding)
        best = self._judge.best([Beside(rules, vectors, weight) for weight in self.weights])
        return RNNLogicWithEmbedding(reasoning, embedding, self.weights[best])


@dataclass(frozen=True, eq=False)
class Embedding:
    """The embedding of a run.

    Attributes:
        learner: Trains it.
        choice: How much it counts.
    """

    learner: EmbeddingLearner
    choice: EmbeddingChoice

    def beside(self, reasoning: RNNLogicScorer) -> RNNLogicWithEmbedding:
        """What the rules say, and the embedding with the weight that is chosen for it now."""
        return self.choice.weighed(reasoning, self.learner.run(0))

    def weights(self, chosen: float) -> dict[str, Tensor]:
        """What a checkpoint holds of it, and of the weight that was chosen."""
        weight = torch.tensor(chosen, dtype=torch.float64)
        return prefixed(EMBEDDING, self.learner.weights(0)) | {EMBEDDING_WEIGHT: weight}
