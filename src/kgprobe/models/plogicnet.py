"""pLogicNet (Qu and Tang 2019): TransE and a Markov logic network that learn from each other's facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array, eye_array
from torch import Tensor

from kgprobe.arrays import AnyInts, Floats
from kgprobe.models.markov_network import COMBINATIONS, Conclusions, Network, joined_pairs
from kgprobe.models.registry import option
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.rule_table import Rules
from kgprobe.models.transe import TransEOptions
from kgprobe.predict.scorers import Scorer, Side

if TYPE_CHECKING:
    from kgprobe.models.rules.explanations import Explanation


_AT_ONCE = 1 << 28

"""Numbers that the embeddings of some queries may take at a time, where no kernel reads them in place."""


@dataclass(frozen=True)
class PLogicNetOptions(TransEOptions):
    """The settings of pLogicNet: those of its TransE, and those of its rules."""

    iterations: int = option(3, "how often rules are weighed and TransE is trained, in equal shares of epochs", least=1)
    rule_length: int = option(2, "most relations in the body of a rule", least=1, most=4)
    reverse: bool = option(True, "whether bodies of several relations may follow them backwards")
    rule_threshold: tuple[float, ...] = option(
        (0.02,), "share of a rule's paths that must join facts; of several, validation facts choose", least=0, most=1
    )
    long_rules: int = option(200, "rules of three and more relations that are tried, by length and relation", least=1)
    groundings: int = option(20_000_000, "pairs that all rules together may join; imprecise rules go first", least=0)
    combine: str = option(
        "log",
        "what a rule's weight is multiplied with, from its paths to a candidate: 1, their log, number, or share",
        choices=tuple(COMBINATIONS),
    )
    prior: float = option(2.0, "how strongly the weights of rules are held near 0", least=0)
    weight_steps: int = option(40, "most steps in learning the weights of rules", least=1)
    annotation: float = option(0.0, "hidden facts that TransE expects for each fact while rules are weighed", least=0)
    fact_threshold: tuple[float, ...] = option(
        (0.3,), "how likely a hidden fact is by rules to be learned from; of several, validation facts choose", above=0
    )
    logic_weights: tuple[float, ...] = option(
        (1.0, 0.25, 0.5, 2.0, 4.0, 8.0), "weight of rules beside TransE; of several, validation facts choose", least=0
    )
    self_loop_penalty: float = option(0.0, "taken from an entity as its own answer, unless rules say so", least=0)

    MEMORY: ClassVar[tuple[str, ...]] = ("groundings", "dimension")

    @property
    def embedding(self) -> TransEOptions:
        """The settings of TransE alone."""
        return TransEOptions(**{own.name: getattr(self, own.name) for own in fields(TransEOptions)})

    def problems(self) -> Iterator[str]:
        """What is wrong with the settings taken together."""
        if any(least >= 1 for least in self.fact_threshold):
            yield "a value of fact_threshold is 1 or more, and must be less: nothing is as likely as that"

    def problems_with(self, settings: Any) -> Iterator[str]:
        """What is wrong with the settings of the trainer beside these."""
        if settings.epochs < self.iterations:
            yield f"epochs is {settings.epochs}, and must be at least iterations, which is {self.iterations}"


@dataclass(frozen=True, eq=False)
class PLogicNet:
    """score = that of TransE + logic_weight * by how much rules raise the log odds.

    Attributes:
        embedding: TransE.
        network: The rules and their weights.
        found: What follows from them.
        grounder: Follows rules through the training facts and the hidden facts that were learned from.
        options: The settings.
        logic_weight: How much rules count beside TransE.

    Example:
        >>> from kgprobe.models.rules.paths import Adjacency
        >>> from kgprobe.predict.adapters.opening import FunctionScorer
        >>> grounder = Grounder(Adjacency(np.array([[0, 0, 1], [1, 0, 2]]), entities=3, relations=2))
        >>> network = Network(Rules.from_bodies(2, [1], [[0, 0]]), np.array([3.0]), np.zeros(2))
        >>> alike = FunctionScorer(lambda side, given, relation: torch.zeros(len(given), 3))
        >>> found = Conclusions.of(network, grounder, "any")
        >>> model = PLogicNet(alike, network, found, grounder, PLogicNetOptions(combine="any"), logic_weight=2.0)
        >>> model.score("tail", np.array([0]), np.array([1])).tolist()
        [[0.0, 0.0, 6.0]]
    """

    embedding: Scorer
    network: Network
    found: Conclusions
    grounder: Grounder
    options: PLogicNetOptions
    logic_weight: float

    Options: ClassVar[type[PLogicNetOptions]] = PLogicNetOptions

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """The scores [queries, entities] of all entities as answers."""
        given, relation = np.asarray(given), np.asarray(relation)
        scores = self._embedded(side, given, relation)
        query, entity, value = self.found.rows(side, given, relation)
        if penalty := self.options.self_loop_penalty:
            led_back = query[(entity == given[query]) & (value > 0)]
            own = np.setdiff1d(np.arange(len(given)), led_back)
            scores[_ids(own, scores.device), _ids(given[own], scores.device)] -= penalty
        places = (_ids(query, scores.device), _ids(entity, scores.device))
        return scores.index_put_(places, torch.from_numpy(value).to(scores) * self.logic_weight, accumulate=True)

    @property
    def rules(self) -> Rules:
        """All rules, and after them the same rules read backwards, which conclude the reverse relations."""
        return self.network.rules.joined(self.network.rules.reversed())

    @property
    def weights(self) -> Floats:
        """By how much one path of a rule alone raises a score."""
        alone = COMBINATIONS[self.options.combine](eye_array(len(self.network.rules), format="csr"))
        return np.tile(self.logic_weight * (alone @ self.network.weights), 2)

    def explain(self, side: Side, given: int, relation: int, candidates: AnyInts) -> list[Explanation]:
        """What the scores of candidates are made of, and by how much each rule raises them, the strongest first.

        Args:
            side: The side that is asked for.
            given: The entity on the other side.
            relation: The relation.
            candidates: The entities to be explained.
        """
        graph, query = self.grounder.adjacency, (side, np.array([given]), np.array([relation]))
        rules, weights = self.network.of(relation if side == "tail" else graph.reverse(relation))
        first = int(np.searchsorted(self.network.rules.head, relation))
        number = first + np.arange(len(rules)) + (0 if side == "tail" else len(self.network.rules))
        pairs = joined_pairs(self.grounder, rules, np.array([given]))
        place = pairs.at(np.zeros(len(candidates), np.int64), np.asarray(candidates), graph.entities)
        scores, embedded = self.score(*query)[0].tolist(), self._embedded(*query)[0].tolist()
        found = []
        for candidate, at in zip(map(int, candidates), place, strict=True):
            paths = pairs.counts[[at]] if at >= 0 else csr_array((1, len(rules)))
            raised = _Raised(paths.indices, paths.data, self.options.combine, self.logic_weight * weights)
            parts = {"embedding": embedded[candidate], "rules": raised.total}
            if candidate == given and self.options.self_loop_penalty and not raised.total > 0:
                parts["penalty"] = -self.options.self_loop_penalty
            found.append(raised.explanation(candidate, scores[candidate], parts, number))
        return found

    def _embedded(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """The scores of TransE, some queries at a time, in memory of its own."""
        each = self.options.dimension * self.grounder.adjacency.entities
        rows = max(1, _AT_ONCE // each)
        parts = range(0, len(given), rows)
        return torch.cat([self.embedding.score(side, given[at : at + rows], relation[at : at + rows]) for at in parts])


def _ids(ids: AnyInts, device: torch.device) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64)).to(device)


class _Raised:
    """By how much rules raise the score of one candidate."""

    def __init__(self, rule: AnyInts, paths: Floats, combine: str, weights: Floats) -> None:
        self.rule, self.paths = rule, paths
        # The first row has all of its rules, every other one of them is without one.
        counts = np.tile(paths, (len(paths) + 1, 1))
        counts[np.arange(1, len(counts)), np.arange(len(paths))] = 0
        scores = COMBINATIONS[combine](csr_array(counts)) @ weights[rule]
        self.total, self.gain = float(scores[0]), scores[0] - scores[1:]

    def explanation(self, candidate: int, score: float, parts: dict[str, float], number: AnyInts) -> Explanation:
        """All of it, with the numbers that the rules have among all rules."""
        from kgprobe.models.rules.explanations import Explanation

        order = np.argsort(-self.gain, kind="stable")
        rule = number[self.rule[order]]
        return Explanation(candidate, score, parts, rule, self.paths[order], self.gain[order])
