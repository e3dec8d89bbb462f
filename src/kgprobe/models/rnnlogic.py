"""RNNLogic (Qu et al. 2021): settings and the reasoning predictor, which scores candidates by weighted rules."""

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

# Features from the number of paths of a rule.
TRANSFORMS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "count": lambda count: count,
    "log": torch.log1p,
    "any": lambda count: (count > 0).to(count.dtype),
}


@dataclass(frozen=True)
class RNNLogicOptions:
    """The settings of the rule search, of the generator, of the predictor and of the added ComplEx."""

    rule_length: int = option(3, "maximum length of a rule body", least=1, most=6)
    rules_per_relation: int = option(100, "rules of the predictor per relation and direction", least=1, most=30_000)
    em_iterations: int = option(3, "EM iterations: epochs in which the generator learns from explaining rules", least=0)
    sampled_rules: int = option(100, "rules sampled per relation in an EM iteration", least=1, most=30_000)
    em_facts: int = option(200, "training triples of each relation that an EM iteration explains", least=1)
    em_steps: int = option(100, "minimum number of steps that learn rule weights in an EM iteration", least=1)
    em_rate: float = option(0.05, "learning rate of these steps", above=0)
    prior_weight: float = option(0.001, "weight of the generator's log probability in the posterior of a rule", least=0)

    generator_dimension: int = option(64, "coordinates of a relation embedding in the generator", least=1)
    generator_hidden: int = option(128, "hidden units of the generator", least=1)
    generator_batch: int = option(512, "batch size of the generator, in rules", least=1)
    pretraining_steps: int = option(500, "steps in which the generator learns the mined rules", least=0)
    generator_steps: int = option(100, "steps of the generator in an EM iteration", least=0)
    generator_rate: float = option(1e-3, "learning rate of the generator", above=0)
    mined_rules: int = option(200, "best mined rules of each relation that the generator is pretrained on", least=1)
    mined_facts: int = option(200, "triples per relation that rules of three and more atoms are mined from", least=1)

    predictor: str = option(
        "both", "linear: rule weights; plus: rule embeddings and a network; both: their sum", choices=PREDICTORS
    )
    counts: str = option("log", "feature of the number of paths: count, log(1 + count), any", choices=tuple(TRANSFORMS))
    bias: str = option("answer", "bias of candidates: none, per entity, per relation and entity", choices=BIASES)
    rule_dimension: int = option(16, "coordinates of a rule embedding, in plus", least=1)
    hidden: int = option(64, "hidden units of the network, in plus", least=1)
    dropout: float = option(0.0, "dropout probability of the summed rule embeddings of a pair", least=0, most=0.95)
    initial_weight: float = option(0.0, "initial weight of a rule of confidence 1, in linear and both", least=0)
    bias_regularisation: float = option(0.0, "weight of the L2 norm of the biases", least=0)
    most_groundings: int = option(100_000_000, "maximum number of rule groundings in training, approximately", least=1)

    embedding_dimension: int = option(0, "complex coordinates of the added ComplEx; 0 for none", least=0)
    embedding_epochs: int = option(50, "first epochs, in which ComplEx is trained, if any", least=1)
    embedding_batch: int = option(512, "batch size of ComplEx, in queries", least=1)
    embedding_rate: float = option(0.1, "learning rate of ComplEx", above=0)
    embedding_dropout: float = option(0.0, "dropout probability of queries in ComplEx", least=0, most=0.95)
    embedding_regularisation: float = option(0.05, "weight of the N3 regulariser of ComplEx", least=0)
    embedding_weights: tuple[float, ...] = option(
        (1.0, 0.0, 0.25, 0.5, 2.0, 4.0, 8.0), "weight of ComplEx; of several, validation triples choose", least=0
    )

    MEMORY: ClassVar[tuple[str, ...]] = ("most_groundings", "rules_per_relation", "embedding_dimension")

    @property
    def first_epoch(self) -> int:
        """The epoch in which the rule search begins, after those of ComplEx."""
        return self.embedding_epochs if self.embedding_dimension else 0

    def problems_with(self, settings: Any) -> Iterator[str]:
        if settings.epochs <= self.first_epoch:
            yield f"epochs is {settings.epochs}, and must be more than embedding_epochs, which is {self.first_epoch}"


class RNNLogic(nn.Module):
    """The reasoning predictor: the score of a candidate is its base score plus that of the rules that reach it.

    Args:
        sizes: Number of entities, and of relations with the reverse ones.
        rules: Number of rules of all relations together.
        options: The settings.
        streams: Random generators of the initial parameters, for one run.

    Example:
        >>> streams = RandomStreams([0], "cpu")
        >>> model = RNNLogic(Sizes(3, 2), 4, RNNLogicOptions(predictor="linear", counts="count"), streams)
        >>> _ = model.rule.data.copy_(torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
        >>> evidence = model.evidence(torch.tensor([0, 1, 3]), torch.tensor([1.0, 2.0, 1.0]), torch.tensor([0, 2]))
        >>> model.rule_scores(evidence, torch.tensor([0, 1])).tolist()
        [5.0, 4.0]
    """

    Options = RNNLogicOptions

    def __init__(self, sizes: Sizes, rules: int, options: RNNLogicOptions, streams: RandomStreams) -> None:
        super().__init__()
        self.sizes, self.options = sizes, options
        self._transform = TRANSFORMS[options.counts]
        linear, plus = options.predictor != "plus", options.predictor != "linear"
        embedding = streams.normal((rules, options.rule_dimension * plus))[0] * 0.1
        self.rule = nn.Parameter(torch.cat([embedding.new_zeros(rules, int(linear)), embedding], 1))
        self.linear = linear
        self.network = _Network(sizes.relations, options, streams) if plus else None
        table = {"none": (), "entity": (1, sizes.entities), "answer": (sizes.relations, sizes.entities)}[options.bias]
        self.bias = nn.Parameter(torch.zeros(table, device=streams.device)) if table else None

    def weigh(self, count: Tensor) -> Tensor:
        """Features of numbers of paths, in the precision of the model."""
        return self._transform(count.to(self.rule.dtype))

    def evidence(self, rule: Tensor, weight: Tensor, starts: Tensor) -> Tensor:
        """The weighted sum of the embeddings of each pair's rules: [pairs, dimension].

        Args:
            rule: The rules of all pairs, one pair after the other.
            weight: The feature of each rule's number of paths.
            starts: Offset of the first rule of each pair.
        """
        if not len(starts):
            return self.rule[:0]
        return functional.embedding_bag(rule, self.rule, starts.to(rule.dtype), mode="sum", per_sample_weights=weight)

    def rule_scores(self, evidence: Tensor, relation: Tensor) -> Tensor:
        """Scores of the evidence [pairs, dimension] for queries of the relations [pairs]."""
        if self.network is None:
            return evidence[:, 0]
        scores: Tensor = self.network(evidence[:, int(self.linear) :], relation)
        return scores + evidence[:, 0] if self.linear else scores

    def base(self, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of all entities without rules [rows, entities], and the row of each query by its relation."""
        distinct, row = torch.unique(relation, return_inverse=True)
        if self.bias is None:
            return self.rule.new_zeros(1, self.sizes.entities), torch.zeros_like(row)
        return (self.bias[distinct], row) if len(self.bias) > 1 else (self.bias, torch.zeros_like(row))


class _Network(nn.Module):
    """RNNLogic+: the sum of rule embeddings, normalised, with the relation embedding, through one hidden layer."""

    def __init__(self, relations: int, options: RNNLogicOptions, streams: RandomStreams) -> None:
        super().__init__()
        width, hidden = options.rule_dimension, options.hidden
        # Parameters are initialised from the streams only, on their device.
        self.inner = nn.Linear(width, width, device="meta").to_empty(device=streams.device)
        self.norm = nn.LayerNorm(width, device=streams.device)
        self.relation = nn.Embedding(relations, width, device="meta").to_empty(device=streams.device)
        self.outer = nn.Linear(2 * width, hidden, device="meta").to_empty(device=streams.device)
        self.score = nn.Linear(hidden, 1, device="meta").to_empty(device=streams.device)
        with torch.no_grad():
            for part in (self.inner, self.outer, self.score):
                for own in part.parameters():
                    own.copy_((2 * streams.uniform(tuple(own.shape))[0] - 1) / part.in_features**0.5)
            if options.predictor == "both":
                self.score.weight.zero_()
                self.score.bias.zero_()
            self.relation.weight.copy_(streams.normal((relations, width))[0])

    def forward(self, evidence: Tensor, relation: Tensor) -> Tensor:
        inner = self.norm(self.inner(evidence)).relu()
        # The input of the hidden layer from the relation is computed once per relation.
        weights = torch.split(self.outer.weight, inner.shape[1], dim=1)
        of_relation = functional.linear(self.relation.weight, weights[1], self.outer.bias)
        hidden = (inner @ weights[0].T + of_relation[relation]).relu()
        scores: Tensor = self.score(hidden)[:, 0]
        return scores
