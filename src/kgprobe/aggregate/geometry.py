"""The paper's geometric view of a metric: the inner product of a score vector and a weight vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgprobe.aggregate.weighted_mean import Sums, no_alternatives, refuse_empty
from kgprobe.aggregate.weights import Weighting, table_weights
from kgprobe.arrays import Floats
from kgprobe.ranks import Ranks, refuse_estimates, refuse_intervals
from kgprobe.transform import Transformer


@dataclass(frozen=True)
class Geometry:
    """Scores c and normalised weights w of all queries; the metric is c . w (Eq. 6 of the paper).

    Alpha changes c, beta changes the direction of w.

    Example:
        The paper's models A, B, C, with E = 1000 and eps = 1e-5: each wins for other values of alpha and beta.

        >>> from kgprobe.aggregate.weights import PopularityWeight
        >>> from kgprobe.transform import AffinePower
        >>> def best(alpha, beta):
        ...     values = {}
        ...     for model, rank in {"A": [1, 2, 300], "B": [2, 3, 10], "C": [4, 4, 5]}.items():
        ...         ranks = Ranks.from_columns(
        ...             head=[0, 1, 2], relation=[0, 0, 0], tail=[3, 4, 5], side=["tail"] * 3,
        ...             rank=rank, candidates=[1000] * 3,
        ...             entity_popularity=[0.5, 0.5, 0.1], relation_popularity=[0.8, 0.8, 0.25],
        ...         )
        ...         weighting = PopularityWeight(beta, beta, eps_e=1e-5, eps_r=1e-5)
        ...         values[model] = Geometry.of(ranks, AffinePower(alpha), weighting).value
        ...     return max(values, key=values.get)
        >>> best(1, 0), best(0.25, 0), best(1, 0.8)
        ('A', 'B', 'C')

        The introduction's models, with ranks [1, 2, 50] and [2, 2, 5]: MRR prefers the first, Hits@5 the second.

        >>> from kgprobe.aggregate.weights import Uniform
        >>> from kgprobe.transform import Power, TopK
        >>> def value(rank, transformer):
        ...     ranks = Ranks.from_columns(
        ...         head=[0, 1, 2], relation=[0, 0, 0], tail=[3, 4, 5], side=["tail"] * 3,
        ...         rank=rank, candidates=[100] * 3,
        ...     )
        ...     return round(Geometry.of(ranks, transformer, Uniform()).value, 2)
        >>> value([1, 2, 50], Power(1)), value([2, 2, 5], Power(1))
        (0.51, 0.4)
        >>> value([1, 2, 50], TopK(5)), value([2, 2, 5], TopK(5))
        (0.67, 1.0)
    """

    scores: Floats
    weights: Floats

    @classmethod
    def of(cls, ranks: Ranks, transformer: Transformer, weighting: Weighting) -> Geometry:
        """The vectors of a rank table; a candidate-aware score leaves out queries with a single candidate."""
        refuse_empty(ranks)
        refuse_intervals(ranks)
        refuse_estimates(ranks)
        counted = (ranks.candidates > 1) | (not transformer.candidate_aware)
        if not counted.any():
            raise no_alternatives()
        weights = table_weights(ranks, weighting, counted)[counted]
        return cls(transformer(ranks.rank[counted], ranks.candidates[counted]), weights / weights.sum())

    @property
    def value(self) -> float:
        """The metric: the inner product of scores and weights."""
        return float(Sums.of(self.scores, self.weights).mean)

    @property
    def contributions(self) -> Floats:
        """What each query adds to the value."""
        return self.scores * self.weights

    @property
    def cosine(self) -> float:
        """The cosine of the angle between scores and weights."""
        length = float(np.linalg.norm(self.scores) * np.linalg.norm(self.weights))
        return self.value / length if length else 0.0

    @property
    def effective_queries(self) -> float:
        """The number of equally weighted queries that would determine the value equally well."""
        return float(Sums.of(self.scores, self.weights).effective)
