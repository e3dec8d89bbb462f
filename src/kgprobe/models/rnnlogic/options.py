"""The settings that only RNNLogic has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from kgprobe.models.options import option

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
