"""RNNLogic as the trainer sees it: epochs that find rules, then epochs that learn to reason with them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.noise import Noise
from kgprobe.models.rnnlogic.embedded import RNNLogicWithEmbedding
from kgprobe.models.rnnlogic.grounded import Grounded
from kgprobe.models.rnnlogic.scorer import RNNLogicScorer
from kgprobe.models.rules.adjacency import Adjacency
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from kgprobe.train.embedding import EmbeddingLearner
from kgprobe.train.embedding import open_run as open_embedding
from kgprobe.train.learner import Watch
from kgprobe.train.rules.rnnlogic.embedding import (
    EMBEDDING,
    EMBEDDING_WEIGHT,
    Embedding,
    EmbeddingChoice,
    embedding_settings,
)
from kgprobe.train.rules.rnnlogic.reasoner import MODEL, RULES, new_predictor
from kgprobe.train.rules.rnnlogic.run import Run
from kgprobe.train.rules.tensors import prefixed, under
from kgprobe.train.settings import Settings


class RNNLogicLearner:
    """One run for each seed, each with rules of its own.

    The first epochs train embeddings, where there are any, the next ones are iterations of the search for rules. The
    others train the predictor with the rules found.
    """

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        grounder, embeddings = _grounder(graph), _embeddings(settings, graph, device)
        self.runs = [
            Run(settings, grounder, seed, embedding, device)
            for seed, embedding in zip(settings.seeds, embeddings, strict=True)
        ]
        x, r, y = grounder.adjacency.triples.T.astype(np.int64)
        queries = sum(len(np.unique(r * graph.num_entities + given)) for given in (x, y))
        self._steps = -(-queries // settings.batch_size) * len(self.runs)

    @property
    def steps(self) -> int:
        """Number of steps in an epoch of the predictors."""
        return self._steps

    @property
    def ready(self) -> bool:
        """Whether the predictors have learned anything."""
        return all(run.ready for run in self.runs)

    def epoch(self, epoch: int, watch: Watch) -> Tensor:
        """Learn for an epoch; gives the mean losses of the runs."""
        return torch.tensor([run.epoch(epoch, watch) for run in self.runs])

    def run(self, run: int) -> RNNLogicScorer | RNNLogicWithEmbedding:
        """One of the runs, as the engine ranks it."""
        return self.runs[run].scorer()

    def weights(self, run: int) -> dict[str, Tensor]:
        """The rules, the predictor and the embedding of one of the runs."""
        return self.runs[run].weights()

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        tensors: dict[str, Tensor] = {}
        for place, run in enumerate(self.runs):
            tensors |= prefixed(f"{place}.", run.state())
        return tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for place, run in enumerate(self.runs):
            run.load(under(f"{place}.", state))


def open_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: torch.device
) -> RNNLogicScorer | RNNLogicWithEmbedding:
    """The run that has these weights, as the engine ranks it.

    Raises:
        DataError: The weights are not those of such a model.
    """
    try:
        rules = Rules.from_tensors(under(RULES, tensors))
        predictor = new_predictor(settings, graph.num_entities, rules, Noise([0], "cpu"))
        predictor.load_state_dict(under(MODEL, tensors))
        weight = float(tensors[EMBEDDING_WEIGHT]) if settings.options.embedding_dimension else 0.0
    except (RuntimeError, KeyError) as error:
        title, *problems = (line.strip() for line in str(error).splitlines())
        raise DataError(f"these are not the weights of {settings.model}", problems or [title]) from None
    reasoning = RNNLogicScorer(predictor.to(device), Grounded(_grounder(graph), rules))
    if not settings.options.embedding_dimension:
        return reasoning
    of_embedding = embedding_settings(settings, settings.seeds[0])
    embedding = open_embedding(of_embedding, graph, under(EMBEDDING, tensors), device)
    return RNNLogicWithEmbedding(reasoning, embedding, weight)


def _embeddings(settings: Settings, graph: KnowledgeGraph, device: torch.device) -> list[Embedding | None]:
    """The embedding of each run, if there are any."""
    if not settings.options.embedding_dimension:
        return [None] * len(settings.seeds)
    choice = EmbeddingChoice(settings, graph, device)
    each = (EmbeddingLearner(embedding_settings(settings, seed), graph, device) for seed in settings.seeds)
    return [Embedding(learner, choice) for learner in each]


def _grounder(graph: KnowledgeGraph) -> Grounder:
    return Grounder(Adjacency(graph.triples("train"), graph.num_entities, graph.num_relations))
