"""What is to be ranked, with what its rank file says about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.sorted_keys import Ints
from kgprobe.predict.scorer import AnyScorer, EmbeddingScorer, RelationEmbeddingScorer, ScoreFunction, Scorer, Side
from kgprobe.predict.sources.pykeen.adapter import is_pykeen
from kgprobe.predict.sources.top_k import TopKLists


@dataclass(frozen=True, eq=False)
class Model:
    """Something that can be ranked.

    Attributes:
        name: What reports call it.
        scorer: What scores candidates, or lists of the best of them.
        settings: Facts about the model that go into the rank file.
    """

    name: str
    scorer: AnyScorer | TopKLists
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FunctionScorer:
    """A function as a scorer.

    Example:
        >>> FunctionScorer(lambda side, given, relation: [[0.5, 0.1]]).score("tail", [0], [0])
        [[0.5, 0.1]]
    """

    function: ScoreFunction

    def score(self, side: Side, given: Ints, relation: Ints) -> Any:
        """What the function gives."""
        return self.function(side, given, relation)


def model_of(given: Any, graph: KnowledgeGraph) -> Model:
    """A model that is in memory, whatever it is.

    Example:
        >>> model_of(lambda side, given, relation: None, KnowledgeGraph.from_triples(test=[[0, 0, 1]])).name
        'function'
    """
    if isinstance(given, Model):
        return given
    if isinstance(given, TopKLists):
        return Model("top-k lists", given)
    if isinstance(given, EmbeddingScorer | RelationEmbeddingScorer | Scorer):
        return Model(type(given).__name__, given)
    if is_pykeen(getattr(given, "model", given)):
        return _pykeen_model(given, graph)
    if callable(given):
        name = getattr(given, "__name__", "function")
        return Model("function" if name == "<lambda>" else name, FunctionScorer(given))
    raise UsageError(
        f"{type(given).__name__} is nothing that can be ranked",
        ["it has neither 'score' nor 'encode_queries' and 'candidates', and is no function"],
        "see kgprobe.predict.scorer for what a model must offer",
    )


def _pykeen_model(given: Any, graph: KnowledgeGraph) -> Model:
    """A PyKEEN model, or the result of its pipeline, which also tells the names that its ids stand for."""
    from kgprobe.predict.sources.pykeen import ModelNames, scorer_for

    model = getattr(given, "model", given)
    training: Any = None if model is given else getattr(given, "training", None)
    names = ModelNames.of(training) if hasattr(training, "entity_to_id") else None
    return Model(type(model).__name__, scorer_for(model, graph, names), {"library": "pykeen"})
