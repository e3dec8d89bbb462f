"""pLogicNet as the trainer sees it: iterations, in each of which rules are weighed and then TransE is trained."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.markov_logic.logic import Logic
from kgprobe.models.plogicnet import PLogicNet
from kgprobe.train.embedding import open_run as open_embedding
from kgprobe.train.learner import Watch
from kgprobe.train.rules.plogicnet.choice import Choice
from kgprobe.train.rules.plogicnet.reason import Reasoner
from kgprobe.train.rules.plogicnet.run import EMBEDDING, LOGIC_WEIGHT, Run, embedding_settings
from kgprobe.train.rules.tensors import under
from kgprobe.train.settings import Settings


def open_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: torch.device
) -> PLogicNet:
    """The run that has these weights, as the engine ranks it.

    Raises:
        DataError: The weights are not those of such a model.
    """
    of_embedding = embedding_settings(settings, settings.seeds[0], settings.epochs)
    embedding = open_embedding(of_embedding, graph, under(EMBEDDING, tensors), device)
    try:
        logic = Logic.from_tensors(tensors, graph, settings.options.combine)
        weight = float(tensors[LOGIC_WEIGHT])
    except KeyError as missing:
        raise DataError(f"these are not the weights of {settings.model}", [f"there is no {missing}"]) from None
    return PLogicNet(embedding, logic.network, logic.found, logic.grounder, settings.options, weight)


class PLogicNetLearner:
    """One run for each seed, each with what it believes.

    Attributes:
        ready: It can be ranked from the start.

    Example:
        >>> from kgprobe.train.resolve import resolve
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2], [0, 1, 2]])
        >>> learner = PLogicNetLearner(resolve("plogicnet", []).settings, graph, torch.device("cpu"))
        >>> learner.epoch(0, lambda steps, phase: None).shape
        torch.Size([1])
        >>> len(learner.run(0).rules)
        6
    """

    ready = True

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        reasoner, choice = Reasoner(settings.options, graph), Choice(settings, graph, device)
        self.runs = [Run(settings, graph, seed, reasoner, choice, device) for seed in settings.seeds]

    @property
    def steps(self) -> int:
        """Number of steps in an epoch of all runs."""
        return sum(run.learner.steps for run in self.runs)

    def epoch(self, epoch: int, watch: Watch) -> Tensor:
        """Learn for an epoch; gives the mean losses of the runs."""
        return torch.cat([run.epoch(epoch, watch) for run in self.runs])

    def run(self, run: int) -> PLogicNet:
        """One of the runs, as the engine ranks it."""
        return self.runs[run].model

    def weights(self, run: int) -> dict[str, Tensor]:
        """What a checkpoint of one of the runs holds."""
        return self.runs[run].weights()

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        return {f"{run.seed}.{name}": own for run in self.runs for name, own in run.state().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for run in self.runs:
            run.load(under(f"{run.seed}.", state))
