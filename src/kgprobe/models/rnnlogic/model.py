"""The reasoning predictor: what the paths of rules say about a candidate, and what is known of it without rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from kgprobe.models.base import Sizes
from kgprobe.models.noise import Noise
from kgprobe.models.rnnlogic.options import RNNLogicOptions

TRANSFORMS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "count": lambda count: count,
    "log": torch.log1p,
    "any": lambda count: (count > 0).to(count.dtype),
}
"""What counts of a number of paths."""


class RNNLogic(nn.Module):
    """Scores candidates by the rules that lead to them; the score of a candidate that none leads to is its base.

    Args:
        sizes: Number of entities, and of relations with the reverse ones.
        rules: Number of rules of all relations together.
        options: The settings.
        noise: Where the parameters are drawn from, and are: one run.

    Example:
        >>> noise = Noise([0], "cpu")
        >>> model = RNNLogic(Sizes(3, 2), 4, RNNLogicOptions(predictor="linear", counts="count"), noise)
        >>> _ = model.rule.data.copy_(torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
        >>> evidence = model.evidence(torch.tensor([0, 1, 3]), torch.tensor([1.0, 2.0, 1.0]), torch.tensor([0, 2]))
        >>> model.judged(evidence, torch.tensor([0, 1])).tolist()
        [5.0, 4.0]
    """

    Options = RNNLogicOptions

    def __init__(self, sizes: Sizes, rules: int, options: RNNLogicOptions, noise: Noise) -> None:
        super().__init__()
        self.sizes, self.options = sizes, options
        self._transform = TRANSFORMS[options.counts]
        linear, plus = options.predictor != "plus", options.predictor != "linear"
        vector = noise.normal((rules, options.rule_dimension * plus))[0] * 0.1
        self.rule = nn.Parameter(torch.cat([vector.new_zeros(rules, int(linear)), vector], 1))
        self.linear = linear
        self.network = _Network(sizes.relations, options, noise) if plus else None
        table = {"none": (), "entity": (1, sizes.entities), "answer": (sizes.relations, sizes.entities)}[options.bias]
        self.bias = nn.Parameter(torch.zeros(table, device=noise.device)) if table else None

    def weigh(self, count: Tensor) -> Tensor:
        """What counts of numbers of paths, in the precision of the model."""
        return self._transform(count.to(self.rule.dtype))

    def evidence(self, rule: Tensor, weight: Tensor, starts: Tensor) -> Tensor:
        """The weighted sum of the vectors of each pair's rules: [pairs, dimension].

        Args:
            rule: The rules of all pairs, one pair after the other.
            weight: What counts of the paths of each.
            starts: Where the rules of each pair begin.
        """
        if not len(starts):
            return self.rule[:0]
        return functional.embedding_bag(rule, self.rule, starts.to(rule.dtype), mode="sum", per_sample_weights=weight)

    def judged(self, evidence: Tensor, relation: Tensor) -> Tensor:
        """How much the evidence [pairs, dimension] adds to the score of a candidate, by what is asked [pairs]."""
        if self.network is None:
            return evidence[:, 0]
        judged: Tensor = self.network(evidence[:, int(self.linear) :], relation)
        return judged + evidence[:, 0] if self.linear else judged

    def base(self, relation: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of all entities without rules [rows, entities], and the row of each query.

        Args:
            relation: The relation of each query, reverse ones for heads.
        """
        distinct, row = torch.unique(relation, return_inverse=True)
        if self.bias is None:
            return self.rule.new_zeros(1, self.sizes.entities), torch.zeros_like(row)
        return (self.bias[distinct], row) if len(self.bias) > 1 else (self.bias, torch.zeros_like(row))


class _Network(nn.Module):
    """RNNLogic+: the sum of rule vectors, normalised and joined with the relation, through one hidden layer."""

    def __init__(self, relations: int, options: RNNLogicOptions, noise: Noise) -> None:
        super().__init__()
        width, hidden = options.rule_dimension, options.hidden
        # Nothing is drawn but from the noise, which is where all parameters are made.
        self.inner = nn.Linear(width, width, device="meta").to_empty(device=noise.device)
        self.norm = nn.LayerNorm(width, device=noise.device)
        self.relation = nn.Embedding(relations, width, device="meta").to_empty(device=noise.device)
        self.outer = nn.Linear(2 * width, hidden, device="meta").to_empty(device=noise.device)
        self.score = nn.Linear(hidden, 1, device="meta").to_empty(device=noise.device)
        with torch.no_grad():
            for part in (self.inner, self.outer, self.score):
                for own in part.parameters():
                    own.copy_((2 * noise.uniform(tuple(own.shape))[0] - 1) / part.in_features**0.5)
            if options.predictor == "both":
                self.score.weight.zero_()
                self.score.bias.zero_()
            self.relation.weight.copy_(noise.normal((relations, width))[0])

    def forward(self, evidence: Tensor, relation: Tensor) -> Tensor:
        inner = self.norm(self.inner(evidence)).relu()
        # The relation's share of the hidden layer is the same for all its pairs.
        weights = torch.split(self.outer.weight, inner.shape[1], dim=1)
        of_relation = functional.linear(self.relation.weight, weights[1], self.outer.bias)
        hidden = (inner @ weights[0].T + of_relation[relation]).relu()
        scores: Tensor = self.score(hidden)[:, 0]
        return scores
