"""RNNLogic as the trainer sees it: epochs that find rules, then epochs that learn to reason with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.base import Sizes
from kgprobe.models.noise import Noise
from kgprobe.models.rnnlogic.grounded import Grounded
from kgprobe.models.rnnlogic.model import RNNLogic
from kgprobe.models.rnnlogic.scorer import RNNLogicScorer
from kgprobe.models.rules.adjacency import Adjacency
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from kgprobe.train.learner import Watch
from kgprobe.train.optimiser import Optimiser, learning_rate
from kgprobe.train.rules.rnnlogic_fit import fit_epoch
from kgprobe.train.rules.rnnlogic_queries import Amount, TrainingQueries, training_queries
from kgprobe.train.rules.rnnlogic_search import RuleSearch
from kgprobe.train.settings import Settings


class RNNLogicLearner:
    """One run for each seed, each with rules of its own.

    The first epochs are iterations of the search for rules. The others train the predictor with the rules found.
    """

    def __init__(self, settings: Settings, graph: KnowledgeGraph, device: torch.device) -> None:
        grounder = _grounder(graph)
        self.runs = [_Run(settings, grounder, seed, device) for seed in settings.seeds]
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

    def run(self, run: int) -> RNNLogicScorer:
        """One of the runs, as the engine ranks it."""
        return self.runs[run].scorer()

    def weights(self, run: int) -> dict[str, Tensor]:
        """The rules and the predictor of one of the runs."""
        return self.runs[run].weights()

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        return {f"{place}.{name}": own for place, run in enumerate(self.runs) for name, own in run.state().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for place, run in enumerate(self.runs):
            run.load(_under(f"{place}.", state))


def open_run(
    settings: Settings, graph: KnowledgeGraph, tensors: Mapping[str, Tensor], device: torch.device
) -> RNNLogicScorer:
    """The run that has these weights, as the engine ranks it.

    Raises:
        DataError: The weights are not those of such a model.
    """
    try:
        rules = Rules.from_tensors(_under("rules.", tensors))
        predictor = _predictor(settings, graph.num_entities, rules, Noise([0], "cpu"))
        predictor.load_state_dict(_under("model.", tensors))
    except (RuntimeError, KeyError) as error:
        title, *problems = (line.strip() for line in str(error).splitlines())
        raise DataError(f"these are not the weights of {settings.model}", problems or [title]) from None
    return RNNLogicScorer(predictor.to(device), Grounded(_grounder(graph), rules))


class _Run:
    """The run of one seed: a search for rules until they are chosen, a predictor from then on."""

    def __init__(self, settings: Settings, grounder: Grounder, seed: int, device: torch.device) -> None:
        self.settings, self.grounder, self.seed, self.device = settings, grounder, seed, device
        self.iterations = min(settings.options.em_iterations, settings.epochs - 1)
        self.noise = Noise([seed], device)
        self.ready = False
        self._search: RuleSearch | None = None
        self._reasoner: _Reasoner | None = None

    def epoch(self, epoch: int, watch: Watch) -> float:
        """An epoch of the search, or of the predictor."""
        self.noise.reseed(epoch)
        loss = 0.0
        if epoch == 0:
            self._search = self._new_search()
            self._search.begin(np.random.default_rng([self.seed, epoch, 1]), partial(watch, 0))
        if self._search is not None and epoch < self.iterations:
            loss = self._search.iterate(np.random.default_rng([self.seed, epoch]), partial(watch, 0))
        if self._search is not None and epoch + 1 >= self.iterations:
            self._reasoner = _Reasoner(self.settings, self.grounder, self._search.chosen(), self.seed, self.device)
            self._search = None
        if self._reasoner is not None and epoch >= self.iterations:
            loss = self._reasoner.epoch(epoch, self.noise, watch)
            self.ready = True
        return loss

    def scorer(self) -> RNNLogicScorer:
        """The run as the engine ranks it."""
        return self._learned.scorer()

    def weights(self) -> dict[str, Tensor]:
        """What a checkpoint holds."""
        return self._learned.weights()

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        search = self._search.state() if self._search is not None else {}
        reasoner = self._reasoner.state() if self._reasoner is not None else {}
        parts = {f"search.{name}": own for name, own in search.items()}
        parts |= {f"reasoner.{name}": own for name, own in reasoner.items()}
        return parts | {"ready": torch.tensor(self.ready)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.ready = bool(state["ready"])
        search, reasoner = _under("search.", state), _under("reasoner.", state)
        self._search = self._reasoner = None
        if search:
            self._search = self._new_search()
            self._search.load(search)
        if reasoner:
            rules = Rules.from_tensors(_under("rules.", reasoner))
            self._reasoner = _Reasoner(self.settings, self.grounder, rules, self.seed, self.device)
            self._reasoner.load(reasoner)

    def _new_search(self) -> RuleSearch:
        return RuleSearch(self.settings.options, self.grounder, self.noise, self.seed, self.device)

    @property
    def _learned(self) -> _Reasoner:
        if self._reasoner is None:
            raise RuntimeError("the rules have not been chosen yet")
        return self._reasoner


class _Reasoner:
    """A predictor that learns with rules that do not change any more."""

    def __init__(self, settings: Settings, grounder: Grounder, rules: Rules, seed: int, device: torch.device) -> None:
        self.settings, self.rules, self.seed, self.device = settings, rules, seed, device
        self.grounded = Grounded(grounder, rules)
        drawn = Noise([seed], "cpu")
        drawn.reseed(-1)
        self.model = _predictor(settings, grounder.adjacency.entities, rules, drawn).to(device)
        self.optimiser = Optimiser(settings, self.model)
        self._queries: TrainingQueries | None = None

    def epoch(self, epoch: int, noise: Noise, watch: Watch) -> float:
        """Ask every training query once; gives the mean loss."""
        self.optimiser.set_rate(learning_rate(self.settings, epoch))
        queries = self._grounded_queries(watch)
        tell = partial(watch, 1, "training")
        return float(fit_epoch(self.model, queries, self.settings.batch_size, noise, self.optimiser.step, tell))

    def scorer(self) -> RNNLogicScorer:
        """The predictor as the engine ranks it."""
        return RNNLogicScorer(self.model, self.grounded)

    def weights(self) -> dict[str, Tensor]:
        """The rules and the predictor."""
        model = {f"model.{name}": own.detach().clone() for name, own in self.model.state_dict().items()}
        return model | {f"rules.{name}": own for name, own in self.rules.tensors().items()}

    def state(self) -> dict[str, Tensor]:
        """All that the next epochs depend on."""
        return self.weights() | {f"optimiser.{name}": own for name, own in self.optimiser.state().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state with the same rules."""
        self.model.load_state_dict(_under("model.", state))
        self.optimiser.load(_under("optimiser.", state))

    def _grounded_queries(self, watch: Watch) -> TrainingQueries:
        """The training queries, grounded when they are first asked: the same ones in every session."""
        if self._queries is None:
            watch(0, "grounding")
            amount = Amount(groundings=self.settings.options.most_groundings)
            rng = np.random.default_rng(self.seed)
            found = training_queries(self.grounded.grounder, self.rules, amount, rng, partial(watch, 0, "grounding"))
            self._queries = found.to(self.device)
        return self._queries


def _predictor(settings: Settings, entities: int, rules: Rules, noise: Noise) -> RNNLogic:
    return RNNLogic(Sizes(entities, 2 * rules.relations), len(rules), settings.options, noise)


def _grounder(graph: KnowledgeGraph) -> Grounder:
    return Grounder(Adjacency(graph.triples("train"), graph.num_entities, graph.num_relations))


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): own for name, own in tensors.items() if name.startswith(prefix)}
