"""A trained RNNLogic predictor as a scorer that explains itself, alone or beside an embedding model."""

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


class GroundingCache:
    """Groundings of queries, kept while there is room: every validation asks the same ones.

    Args:
        grounder: Follows the rules.
        rules: Rules of all relations, ordered by what they conclude.
        memory: How many bytes are kept.

    Attributes:
        first: Where the rules of each relation begin: [relations + 1].
    """

    def __init__(self, grounder: Grounder, rules: Rules, memory: int = 1 << 30) -> None:
        self.grounder, self.rules = grounder, rules
        self.first = np.searchsorted(rules.head, np.arange(2 * rules.relations + 1))
        self._room = memory
        self._kept: dict[bytes, Grounding] = {}

    def of(self, relation: int, given: AnyInts) -> Grounding:
        """The paths from given entities; rules are numbered from the first of the relation on."""
        name = np.array([relation, *given], dtype=np.int64).tobytes()
        if name in self._kept:
            return self._kept[name]
        own = self.rules.at(np.arange(self.first[relation], self.first[relation + 1]))
        found = self.grounder.paths(own, np.asarray(given, dtype=np.int64))
        size = sum(column.nbytes for column in vars(found).values())
        # What came first stays: a pass over more than there is room for would find nothing that it looks for
        # if the oldest had to go.
        if size <= self._room:
            self._kept[name] = found
            self._room -= size
        return found


_PAIRS = 1 << 17

"""So many pairs are judged at once."""

_QUERIES = 128

"""So many queries of a relation are scored at once."""


class RNNLogicScorer:
    """Scores by a trained predictor, in float64 and then rounded, so that candidates with equal evidence tie.

    Args:
        model: The predictor, as it is now; what it learns later does not change the scores.
        grounded: What its rules find.
    """

    def __init__(self, model: RNNLogic, grounded: GroundingCache) -> None:
        self.model = deepcopy(model).double().eval()
        self.grounded = grounded
        self.rules, self.grounder = grounded.rules, grounded.grounder
        self.device = self.model.rule.device

    @torch.no_grad()
    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """The scores of all entities [queries, entities] as answers on the ``side`` of (given, relation)."""
        asked, entities = self._asked(side, relation), np.asarray(given, dtype=np.int64)
        scores = torch.empty(len(asked), self.model.sizes.entities, device=self.device)
        order = np.argsort(asked, kind="stable")
        for same in np.split(order, np.flatnonzero(np.diff(asked[order])) + 1):
            for start in range(0, len(same), _QUERIES):
                rows = same[start : start + _QUERIES]
                self._fill(scores, rows, int(asked[rows[0]]), entities[rows])
        return scores

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """By how much one path of each rule alone moves the score of a candidate."""
        with torch.no_grad():
            one = self.model.weigh(torch.ones(1, device=self.device))
            head = torch.from_numpy(self.rules.head.astype(np.int64)).to(self.device)
            moved: NDArray[np.float64] = self.model.rule_scores(self.model.rule * one, head).cpu().numpy()
        return moved

    @torch.no_grad()
    def explain(self, side: Side, given: int, relation: int, candidates: AnyInts) -> list[Explanation]:
        """Why candidates have their scores: what each rule adds to them, the strongest first.

        Args:
            side: The side that is asked for.
            given: The entity on the other side.
            relation: The relation.
            candidates: The entities to be explained.
        """
        asked = int(self._asked(side, np.array([relation]))[0])
        found = self.grounded.of(asked, np.array([given]))
        return [self._explained(found, asked, int(candidate)) for candidate in np.asarray(candidates)]

    def _explained(self, found: Grounding, asked: int, candidate: int) -> Explanation:
        place = int(np.searchsorted(found.candidate, candidate))
        reached = place < len(found.candidate) and found.candidate[place] == candidate
        entries = slice(*found.rules_at[place : place + 2]) if reached else slice(0, 0)
        rule = found.rule[entries].astype(np.int64) + self.grounded.first[asked]
        gain, added = self._gains(asked, rule, found.count[entries])
        parts = {"rules": added} | self._without_rules(asked, candidate)
        order = np.argsort(-gain, kind="stable")
        paths = found.count[entries].astype(np.float64)
        return Explanation(
            candidate, float(np.float32(sum(parts.values()))), parts, rule[order], paths[order], gain[order]
        )

    def _without_rules(self, asked: int, candidate: int) -> dict[str, float]:
        bias = self.model.bias
        return {} if bias is None else {"bias": float(bias[asked if len(bias) > 1 else 0, candidate])}

    def _gains(self, asked: int, rule: AnyInts, count: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
        """By how much the score falls without each of a pair's rules, and what all of them add."""
        if not len(rule):
            return np.zeros(0), 0.0
        weight = self.model.weigh(torch.from_numpy(count).to(self.device))
        each = self.model.rule[torch.from_numpy(rule.astype(np.int64)).to(self.device)] * weight[:, None]
        evidence = torch.cat([each.sum(0)[None], each.sum(0) - each])
        judged = self.model.rule_scores(evidence, torch.full((len(evidence),), asked, device=self.device))
        without = judged[1:] if len(rule) > 1 else torch.zeros_like(judged[1:])
        return (judged[0] - without).cpu().numpy(), float(judged[0])

    def _fill(self, scores: Tensor, rows: AnyInts, asked: int, given: AnyInts) -> None:
        base, row = self.model.base(torch.full((len(given),), asked, device=self.device))
        at = torch.from_numpy(np.asarray(rows)).to(self.device)
        scores[at] = base[row].float()
        found = self.grounded.of(asked, given)
        query = torch.from_numpy(np.repeat(np.arange(len(given)), np.diff(found.candidates_at))).to(self.device)
        candidate = torch.from_numpy(found.candidate.astype(np.int64)).to(self.device)
        for start in range(0, len(candidate), _PAIRS):
            pairs = slice(start, min(start + _PAIRS, len(candidate)))
            added = self._judged(found, pairs, asked)
            own = base[row[query[pairs]], candidate[pairs]] + added
            scores[at[query[pairs]], candidate[pairs]] = own.float()

    def _judged(self, found: Grounding, pairs: slice, asked: int) -> Tensor:
        """What the rules add to the scores of some pairs."""
        starts = found.rules_at[pairs.start : pairs.stop + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        rule = torch.from_numpy(found.rule[entries] + np.int32(self.grounded.first[asked])).to(self.device)
        count = torch.from_numpy(found.count[entries]).to(self.device)
        places = torch.from_numpy(starts[:-1] - starts[0]).to(self.device)
        evidence = self.model.evidence(rule, self.model.weigh(count), places)
        return self.model.rule_scores(evidence, torch.full((len(places),), asked, device=self.device))

    def _asked(self, side: Side, relation: AnyInts) -> NDArray[np.int64]:
        return np.asarray(relation, dtype=np.int64) + (self.rules.relations if side == "head" else 0)


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """score = that of one scorer + weight * that of another.

    Attributes:
        first: The one.
        second: The other.
        weight: How much it counts.

    Example:
        >>> import torch
        >>> from kgprobe.predict.adapters.opening import FunctionScorer
        >>> same = FunctionScorer(lambda side, given, relation: torch.tensor([[1.0, 3.0]]))
        >>> WeightedSum(same, same, weight=0.5).score("tail", np.array([0]), np.array([0])).tolist()
        [[1.5, 4.5]]
    """

    first: Scorer
    second: Scorer
    weight: float

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Tensor:
        """The scores of all entities [queries, entities] as answers on the ``side`` of (given, relation)."""
        first: Tensor = self.first.score(side, given, relation)
        second: Tensor = self.second.score(side, given, relation)
        return first + self.weight * second


@dataclass(frozen=True, eq=False)
class RNNLogicWithEmbedding(WeightedSum):
    """What the rules say, and beside it what vectors say.

    Attributes:
        first: Scores by rules.
        second: Scores by vectors.
        weight: How much the vectors count.
    """

    first: RNNLogicScorer

    @property
    def rules(self) -> Rules:
        """The rules that it uses."""
        return self.first.rules

    @property
    def grounder(self) -> Grounder:
        """What follows them."""
        return self.first.grounder

    @property
    def weights(self) -> NDArray[np.float64]:
        """By how much one path of each rule alone moves the score of a candidate."""
        return self.first.weights

    def explain(self, side: Side, given: int, relation: int, candidates: AnyInts) -> list[Explanation]:
        """Why candidates have their scores: what each rule adds to them, the strongest first.

        Args:
            side: The side that is asked for.
            given: The entity on the other side.
            relation: The relation.
            candidates: The entities to be explained.
        """
        query = side, np.array([given]), np.array([relation])
        scores = self.score(*query)[0].tolist()
        embedded = (self.weight * self.second.score(*query))[0].tolist()
        return [
            replace(why, score=scores[why.candidate], parts={**why.parts, "embedding": embedded[why.candidate]})
            for why in self.first.explain(side, given, relation, candidates)
        ]
