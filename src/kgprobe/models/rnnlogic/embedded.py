"""RNNLogic with embeddings: what rules say of a candidate, and beside it what its vectors say."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.graph.sorted_keys import Ints
from kgprobe.models.rnnlogic.scorer import RNNLogicScorer
from kgprobe.models.rules.explain import Explanation
from kgprobe.models.rules.ground import Grounder
from kgprobe.models.rules.rule import Rules
from kgprobe.predict.scorer import Scorer, Side


@dataclass(frozen=True, eq=False)
class Beside:
    """score = that of one scorer + weight * that of another.

    Attributes:
        first: The one.
        second: The other.
        weight: How much it counts.

    Example:
        >>> import torch
        >>> from kgprobe.predict.model import FunctionScorer
        >>> same = FunctionScorer(lambda side, given, relation: torch.tensor([[1.0, 3.0]]))
        >>> Beside(same, same, weight=0.5).score("tail", np.array([0]), np.array([0])).tolist()
        [[1.5, 4.5]]
    """

    first: Scorer
    second: Scorer
    weight: float

    def score(self, side: Side, given: Ints, relation: Ints) -> Tensor:
        """The scores of all entities [queries, entities] as answers on the ``side`` of (given, relation)."""
        first: Tensor = self.first.score(side, given, relation)
        second: Tensor = self.second.score(side, given, relation)
        return first + self.weight * second


@dataclass(frozen=True, eq=False)
class RNNLogicWithEmbedding(Beside):
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

    def explain(self, side: Side, given: int, relation: int, candidates: Ints) -> list[Explanation]:
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
