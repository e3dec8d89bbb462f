"""pLogicNet (Qu and Tang 2019): the sum of a TransE score and the log odds of a Markov logic network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array, eye_array
from torch import Tensor

from kgprobe.arrays import AnyInts, Floats
from kgprobe.models.markov_network import COMBINATIONS, Conclusions, Network, connected_pairs
from kgprobe.models.registry import option
from kgprobe.models.rules.explanations import Explanation
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.rule_table import Rules
from kgprobe.models.transe import TransEOptions
from kgprobe.predict.scorers import Scorer, Side

_BATCH_NUMBERS = 1 << 28  # largest tensor [queries, entities, coordinates] if TransE has no fused scorer


@dataclass(frozen=True)
class PLogicNetOptions(TransEOptions):
    """The settings of TransE and of the rules."""

    iterations: int = option(
        3, "EM iterations: rule weights and TransE learn in turns, in equal shares of epochs", least=1
    )
    rule_length: int = option(2, "maximum length of a rule body", least=1, most=4)
    reverse: bool = option(True, "whether bodies of several atoms may contain reverse relations")
    rule_threshold: tuple[float, ...] = option(
        (0.02,), "minimum precision (share of paths) of a rule; of several, validation triples choose", least=0, most=1
    )
    long_rules: int = option(200, "rules of three and more atoms that are mined, by length and relation", least=1)
    groundings: int = option(20_000_000, "maximum number of pairs of all rules; imprecise rules are dropped", least=0)
    combine: str = option(
        "log",
        "feature of a rule from its number of paths: any (1), log(1 + number), count, or mean (share of all paths)",
        choices=tuple(COMBINATIONS),
    )
    prior: float = option(2.0, "inverse variance of the Gaussian prior of rule weights", least=0)
    weight_steps: int = option(40, "maximum number of optimiser steps for the rule weights", least=1)
    annotation: float = option(
        0.0, "hidden triples expected from TransE per known triple when weights are learned", least=0
    )
    fact_threshold: tuple[float, ...] = option(
        (0.3,), "minimum probability of a hidden triple by rules; of several, validation triples choose", above=0
    )
    logic_weights: tuple[float, ...] = option(
        (1.0, 0.25, 0.5, 2.0, 4.0, 8.0), "weight of rules beside TransE; of several, validation triples choose", least=0
    )
    self_loop_penalty: float = option(
        0.0, "subtracted from the query's own entity unless rules raise its score", least=0
    )

    MEMORY: ClassVar[tuple[str, ...]] = ("groundings", "dimension")

    @property
    def embedding(self) -> TransEOptions:
        """The settings of TransE alone."""
        return TransEOptions(**{own.name: getattr(self, own.name) for own in fields(TransEOptions)})

    def problems(self) -> Iterator[str]:
        if any(least >= 1 for least in self.fact_threshold):
            yield "a value of fact_threshold is 1 or more, and must be a probability below 1"

    def problems_with(self, settings: Any) -> Iterator[str]:
        if settings.epochs < self.iterations:
            yield f"epochs is {settings.epochs}, and must be at least iterations, which is {self.iterations}"


@dataclass(frozen=True, eq=False)
class PLogicNet:
    """score = TransE score + logic_weight * increase in log odds by rules.

    Attributes:
        embedding: TransE.
        network: The rules and their weights.
        conclusions: The log odds of pairs by these rules.
        grounder: Counts paths in the training triples and the hidden triples.
        options: The settings.
        logic_weight: Weight of the rules.
    """

    embedding: Scorer
    network: Network
    conclusions: Conclusions
    grounder: Grounder
    options: PLogicNetOptions
    logic_weight: float

    Options: ClassVar[type[PLogicNetOptions]] = PLogicNetOptions

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """Scores [queries, entities] of all entities."""
        given, relation = np.asarray(given), np.asarray(relation)
        scores = self._embedding_scores(side, given, relation)
        query, entity, value = self.conclusions.rows(side, given, relation)
        if penalty := self.options.self_loop_penalty:
            led_back = query[(entity == given[query]) & (value > 0)]
            own = np.setdiff1d(np.arange(len(given)), led_back)
            scores[_ids(own, scores.device), _ids(given[own], scores.device)] -= penalty
        index = (_ids(query, scores.device), _ids(entity, scores.device))
        return scores.index_put_(index, torch.from_numpy(value).to(scores) * self.logic_weight, accumulate=True)

    @property
    def rules(self) -> Rules:
        """All rules, then the same rules reversed, whose heads are the reverse relations."""
        return self.network.rules.joined(self.network.rules.reversed())

    @property
    def weights(self) -> Floats:
        """The increase in score by a single path of each rule alone."""
        alone = COMBINATIONS[self.options.combine](eye_array(len(self.network.rules), format="csr"))
        return np.tile(self.logic_weight * (alone @ self.network.weights), 2)

    def explain(self, side: Side, given: int, relation: int, candidates: AnyInts) -> list[Explanation]:
        """Explain the scores of candidates; see `RuleScorer.explain`."""
        graph, query = self.grounder.adjacency, (side, np.array([given]), np.array([relation]))
        rules, weights = self.network.of(relation if side == "tail" else graph.reverse(relation))
        first = int(np.searchsorted(self.network.rules.head, relation))
        number = first + np.arange(len(rules)) + (0 if side == "tail" else len(self.network.rules))
        pairs = connected_pairs(self.grounder, rules, np.array([given]))
        position = pairs.at(np.zeros(len(candidates), np.int64), np.asarray(candidates), graph.entities)
        scores, embedded = self.score(*query)[0].tolist(), self._embedding_scores(*query)[0].tolist()
        explanations = []
        for candidate, at in zip(map(int, candidates), position, strict=True):
            paths = pairs.counts[[at]] if at >= 0 else csr_array((1, len(rules)))
            total, gain = _gains(paths.data, self.options.combine, (self.logic_weight * weights)[paths.indices])
            parts = {"embedding": embedded[candidate], "rules": total}
            if candidate == given and self.options.self_loop_penalty and not total > 0:
                parts["penalty"] = -self.options.self_loop_penalty
            order = np.argsort(-gain, kind="stable")
            rule = number[paths.indices[order]]
            explanations.append(Explanation(candidate, scores[candidate], parts, rule, paths.data[order], gain[order]))
        return explanations

    def _embedding_scores(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """The scores of TransE, computed in batches."""
        batch = max(1, _BATCH_NUMBERS // (self.options.dimension * self.grounder.adjacency.entities))
        parts = (slice(at, at + batch) for at in range(0, len(given), batch))
        return torch.cat([self.embedding.score(side, given[part], relation[part]) for part in parts])


def _ids(ids: AnyInts, device: torch.device) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64)).to(device)


def _gains(paths: Floats, combine: str, weights: Floats) -> tuple[float, Floats]:
    """The increase in a candidate's score by all its rules, and the decrease without each of them."""
    # The first row has all rules; each other row lacks one of them.
    counts = np.tile(paths, (len(paths) + 1, 1))
    counts[np.arange(1, len(counts)), np.arange(len(paths))] = 0
    scores = COMBINATIONS[combine](csr_array(counts)) @ weights
    return float(scores[0]), scores[0] - scores[1:]
