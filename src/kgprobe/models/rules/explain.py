"""What a model of rules says about itself: the rules it uses, and why a candidate has its score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from kgprobe.predict.scorer import Side


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a candidate of a query has its score.

    Attributes:
        candidate: The entity.
        score: Its score, as it is ranked.
        parts: What the score is the sum of, by name: "rules", "bias", "embedding" and the like.
        rule: The rules that lead to the candidate, by their place among the rules of the model, the strongest first.
        paths: Along how many paths each of them does.
        gain: By how much the score would fall without each of them.

    Example:
        >>> parts = {"rules": 1.5, "bias": 0.5}
        >>> why = Explanation(7, 2.0, parts, rule=np.array([3]), paths=np.array([1.0]), gain=np.array([1.5]))
        >>> why.score == sum(why.parts.values())
        True
    """

    candidate: int
    score: float
    parts: Mapping[str, float]
    rule: Ints
    paths: NDArray[np.float64]
    gain: NDArray[np.float64]


@runtime_checkable
class RuleScorer(Protocol):
    """A `Scorer` that reaches its answers by rules, and can say by which."""

    @property
    def rules(self) -> Rules:
        """The rules it uses: a relation of the graph is concluded for tails, a reverse relation for heads."""
        ...

    @property
    def weights(self) -> NDArray[np.float64]:
        """By how much one path of each rule alone moves the score of a candidate."""
        ...

    @property
    def grounder(self) -> Grounder:
        """What follows its rules, through all that the model holds true."""
        ...

    def score(self, side: Side, given: Ints, relation: Ints) -> Any:
        """The scores [queries, entities] of all entities as answers on the ``side`` of (given[i], relation[i])."""
        ...

    def explain(self, side: Side, given: int, relation: int, candidates: Ints) -> list[Explanation]:
        """Why candidates have their scores as answers on the ``side`` of (given, relation)."""
        ...
