"""RNNLogic (Qu et al. 2021): the reasoning predictor and its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from kgprobe.models.embedding_model import Sizes
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import option

PREDICTORS = ("both", "plus", "linear")

BIASES = ("none", "entity", "answer")

COUNTS = ("count", "log", "any")


@dataclass(frozen=True)
class RNNLogicOptions:
    """The settings of RNNLogic: how rules are found, and what is made of their paths."""

    rule_length: int = option(3, "relations in the body of a rule, at most", least=1, most=6)
    rules_per_relation: int = option(
        100, "rules that the predictor uses for each relation and direction", least=1, most=30_000
    )
    em_iterations: int = option(3, "epochs in which the generator learns from the rules that explain facts", least=0)
    sampled_rules: int = option(
        100, "rules that the generator proposes for each relation in an iteration", least=1, most=30_000
    )
    em_facts: int = option(200, "training facts of each relation that an iteration explains", least=1)
    em_steps: int = option(100, "steps, at least, in which an iteration weighs the rules", least=1)
    em_rate: float = option(0.05, "step size of these steps", above=0)
    prior_weight: float = option(0.001, "weight of the generator's own opinion in the posterior of a rule", least=0)

    generator_dimension: int = option(64, "coordinates of a relation in the generator", least=1)
    generator_hidden: int = option(128, "hidden units of the generator", least=1)
    generator_batch: int = option(512, "rules in a step of the generator", least=1)
    pretraining_steps: int = option(500, "steps in which the generator learns the mined rules", least=0)
    generator_steps: int = option(100, "steps of the generator in an iteration", least=0)
    generator_rate: float = option(1e-3, "step size of the generator's steps", above=0)
    mined_rules: int = option(200, "best mined rules of each relation that the generator begins with", least=1)
    mined_facts: int = option(200, "facts of each relation whose longer paths are looked at in mining", least=1)

    predictor: str = option(
        "both", "linear: weights of rules; plus: vectors of rules and a network; both: their sum", choices=PREDICTORS
    )
    counts: str = option("log", "what counts of the paths of a rule: their count, log(1 + count), any", choices=COUNTS)
    bias: str = option("answer", "what candidates have without rules, one each or one by relation", choices=BIASES)
    rule_dimension: int = option(16, "coordinates of the vector of a rule, in plus", least=1)
    hidden: int = option(64, "hidden units of the network, in plus", least=1)
    dropout: float = option(0.0, "share of what the rules say of a pair left out in a step", least=0, most=0.95)
    initial_weight: float = option(0.0, "what a rule that is always right weighs at first, in linear and both", least=0)
    bias_regularisation: float = option(0.0, "how strongly candidates are held to have nothing without rules", least=0)
    most_groundings: int = option(100_000_000, "rule groundings that a run is trained with, at most, about", least=1)

    embedding_dimension: int = option(0, "complex coordinates of the ComplEx that is added; 0 for none", least=0)
    embedding_epochs: int = option(50, "the first epochs, in which ComplEx is trained, if any", least=1)
    embedding_batch: int = option(512, "queries in a step of ComplEx", least=1)
    embedding_rate: float = option(0.1, "step size of ComplEx", above=0)
    embedding_dropout: float = option(
        0.0, "share of a query's coordinates left out in a step of ComplEx", least=0, most=0.95
    )
    embedding_regularisation: float = option(0.05, "weight of the n3 norm of ComplEx", least=0)
    embedding_weights: tuple[float, ...] = option(
        (1.0, 0.0, 0.25, 0.5, 2.0, 4.0, 8.0),
        "weight of ComplEx beside rules; of several, validation facts choose",
        least=0,
    )

    MEMORY: ClassVar[tuple[str, ...]] = ("most_groundings", "rules_per_relation", "embedding_dimension")

    @property
    def first_epoch(self) -> int:
        """The epoch in which the search for rules begins, after those of ComplEx."""
        return self.embedding_epochs if self.embedding_dimension else 0

    def problems_with(self, settings: Any) -> Iterator[str]:
        """What is wrong with the settings of the trainer beside these."""
        if settings.epochs <= self.first_epoch:
            yield f"epochs is {settings.epochs}, and must be more than embedding_epochs, which is {self.first_epoch}"


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
        >>> noise = RandomStreams([0], "cpu")
        >>> model = RNNLogic(Sizes(3, 2), 4, RNNLogicOptions(predictor="linear", counts="count"), noise)
        >>> _ = model.rule.data.copy_(torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
        >>> evidence = model.evidence(torch.tensor([0, 1, 3]), torch.tensor([1.0, 2.0, 1.0]), torch.tensor([0, 2]))
        >>> model.rule_scores(evidence, torch.tensor([0, 1])).tolist()
        [5.0, 4.0]
    """

    Options = RNNLogicOptions

    def __init__(self, sizes: Sizes, rules: int, options: RNNLogicOptions, noise: RandomStreams) -> None:
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

    def rule_scores(self, evidence: Tensor, relation: Tensor) -> Tensor:
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

    def __init__(self, relations: int, options: RNNLogicOptions, noise: RandomStreams) -> None:
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
