"""A trained RNNLogic predictor as a scorer with explanations, alone or combined with an embedding model."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.arrays import AnyInts
from kgprobe.models.rnnlogic import RNNLogic
from kgprobe.models.rules.explanations import Explanation
from kgprobe.models.rules.groundings import Grounder, Grounding
from kgprobe.models.rules.rule_table import Rules
from kgprobe.predict.scorers import Scorer, Side

_PAIRS = 1 << 17  # pairs that are scored at once
_QUERIES = 128  # queries of a relation that are scored at once


class GroundingCache:
    """Groundings of queries, cached up to a size, since every validation has the same queries.

    Args:
        grounder: Grounds the rules.
        rules: Rules of all relations, ordered by head.
        memory: Size of the cache in bytes.

    Attributes:
        first: Index of the first rule of each relation: [relations + 1].
    """

    def __init__(self, grounder: Grounder, rules: Rules, memory: int = 1 << 30) -> None:
        self.grounder, self.rules = grounder, rules
        self.first = np.searchsorted(rules.head, np.arange(2 * rules.relations + 1))
        self._free = memory
        self._cache: dict[bytes, Grounding] = {}

    def of(self, relation: int, given: AnyInts) -> Grounding:
        """The groundings of queries; rules are numbered from the first rule of the relation."""
        key = np.array([relation, *given], dtype=np.int64).tobytes()
        if key in self._cache:
            return self._cache[key]
        rules = self.rules.at(np.arange(self.first[relation], self.first[relation + 1]))
        grounding = self.grounder.paths(rules, np.asarray(given, dtype=np.int64))
        size = sum(column.nbytes for column in vars(grounding).values())
        # Entries are never evicted: with LRU, a cyclic pass over more queries than fit would never hit.
        if size <= self._free:
            self._cache[key] = grounding
            self._free -= size
        return grounding


class RNNLogicScorer:
    """Scores of a trained predictor: computed in float64, then rounded, so that candidates with equal evidence tie.

    Args:
        model: The predictor, which is copied.
        grounded: The groundings of its rules.
    """

    def __init__(self, model: RNNLogic, grounded: GroundingCache) -> None:
        self.model = deepcopy(model).double().eval()
        self.grounded = grounded
        self.rules, self.grounder = grounded.rules, grounded.grounder
        self.device = self.model.rule.device

    @torch.no_grad()
    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """Scores [queries, entities] of all entities."""
        relations, entities = self._directed(side, relation), np.asarray(given, dtype=np.int64)
        scores = torch.empty(len(relations), self.model.sizes.entities, device=self.device)
        order = np.argsort(relations, kind="stable")
        for same in np.split(order, np.flatnonzero(np.diff(relations[order])) + 1):
            for start in range(0, len(same), _QUERIES):
                rows = same[start : start + _QUERIES]
                self._fill(scores, rows, int(relations[rows[0]]), entities[rows])
        return scores

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The change in score by a single path of each rule alone."""
        with torch.no_grad():
            one = self.model.weigh(torch.ones(1, device=self.device))
            scores: NDArray[np.float64] = (
                self.model.rule_scores(self.model.rule * one, self._ids(self.rules.head)).cpu().numpy()
            )
        return scores

    @torch.no_grad()
    def explain(self, side: Side, given: int, relation: int, candidates: AnyInts) -> list[Explanation]:
        """Explain the scores of candidates; see `RuleScorer.explain`."""
        directed = int(self._directed(side, np.array([relation]))[0])
        grounding = self.grounded.of(directed, np.array([given]))
        return [self._explanation(grounding, directed, int(candidate)) for candidate in np.asarray(candidates)]

    def _explanation(self, grounding: Grounding, relation: int, candidate: int) -> Explanation:
        pair = int(np.searchsorted(grounding.candidate, candidate))
        reached = pair < len(grounding.candidate) and grounding.candidate[pair] == candidate
        entries = slice(*grounding.rules_at[pair : pair + 2]) if reached else slice(0, 0)
        rule = grounding.rule[entries].astype(np.int64) + self.grounded.first[relation]
        gain, total = self._gains(relation, rule, grounding.count[entries])
        parts, bias = {"rules": total}, self.model.bias
        if bias is not None:
            parts["bias"] = float(bias[relation if len(bias) > 1 else 0, candidate])
        order = np.argsort(-gain, kind="stable")
        paths = grounding.count[entries].astype(np.float64)
        score = float(np.float32(sum(parts.values())))
        return Explanation(candidate, score, parts, rule[order], paths[order], gain[order])

    def _gains(self, relation: int, rule: AnyInts, count: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
        """The decrease in score without each rule of a pair, and the score of all its rules."""
        if not len(rule):
            return np.zeros(0), 0.0
        weight = self.model.weigh(torch.from_numpy(count).to(self.device))
        each = self.model.rule[self._ids(rule)] * weight[:, None]
        evidence = torch.cat([each.sum(0)[None], each.sum(0) - each])
        scores = self.model.rule_scores(evidence, torch.full((len(evidence),), relation, device=self.device))
        without = scores[1:] if len(rule) > 1 else torch.zeros_like(scores[1:])
        return (scores[0] - without).cpu().numpy(), float(scores[0])

    def _fill(self, scores: Tensor, rows: AnyInts, relation: int, given: AnyInts) -> None:
        """Write the scores of queries of one relation into rows of ``scores``."""
        base, row = self.model.base(torch.full((len(given),), relation, device=self.device))
        at = torch.from_numpy(np.asarray(rows)).to(self.device)
        scores[at] = base[row].float()
        grounding = self.grounded.of(relation, given)
        query = self._ids(np.repeat(np.arange(len(given)), np.diff(grounding.candidates_at)))
        candidate = self._ids(grounding.candidate)
        for start in range(0, len(candidate), _PAIRS):
            pairs = slice(start, min(start + _PAIRS, len(candidate)))
            own = base[row[query[pairs]], candidate[pairs]] + self._pair_scores(grounding, pairs, relation)
            scores[at[query[pairs]], candidate[pairs]] = own.float()

    def _pair_scores(self, grounding: Grounding, pairs: slice, relation: int) -> Tensor:
        """The scores that the rules give to some pairs."""
        starts = grounding.rules_at[pairs.start : pairs.stop + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        rule = torch.from_numpy(grounding.rule[entries] + np.int32(self.grounded.first[relation])).to(self.device)
        count = torch.from_numpy(grounding.count[entries]).to(self.device)
        offsets = torch.from_numpy(starts[:-1] - starts[0]).to(self.device)
        evidence = self.model.evidence(rule, self.model.weigh(count), offsets)
        return self.model.rule_scores(evidence, torch.full((len(offsets),), relation, device=self.device))

    def _directed(self, side: Side, relation: AnyInts) -> NDArray[np.int64]:
        """Relations of tail queries, reverse relations of head queries."""
        return np.asarray(relation, dtype=np.int64) + (self.rules.relations if side == "head" else 0)

    def _ids(self, ids: AnyInts) -> Tensor:
        return torch.from_numpy(ids.astype(np.int64)).to(self.device)


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """score = score of the first scorer + weight * score of the second."""

    first: Scorer
    second: Scorer
    weight: float

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """Scores [queries, entities] of all entities."""
        first: Tensor = self.first.score(side, given, relation)
        second: Tensor = self.second.score(side, given, relation)
        return first + self.weight * second


@dataclass(frozen=True, eq=False)
class RNNLogicWithEmbedding(WeightedSum):
    """The weighted sum of RNNLogic and an embedding model; explanations are those of RNNLogic."""

    first: RNNLogicScorer

    @property
    def rules(self) -> Rules:
        return self.first.rules

    @property
    def grounder(self) -> Grounder:
        return self.first.grounder

    @property
    def weights(self) -> NDArray[np.float64]:
        return self.first.weights

    def explain(self, side: Side, given: int, relation: int, candidates: AnyInts) -> list[Explanation]:
        """Explain the scores of candidates; see `RuleScorer.explain`."""
        query = side, np.array([given]), np.array([relation])
        scores = self.score(*query)[0].tolist()
        embedded = (self.weight * self.second.score(*query))[0].tolist()
        return [
            replace(why, score=scores[why.candidate], parts={**why.parts, "embedding": embedded[why.candidate]})
            for why in self.first.explain(side, given, relation, candidates)
        ]
