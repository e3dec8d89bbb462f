import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pykeen.models import TransE
from pykeen.triples import TriplesFactory

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Dot, Model, rank
from kgprobe.predict.model import FunctionScorer, model_of
from kgprobe.predict.sources.top_k import TopKLists
from ranking import Matrix, RelationVectors, Vectors, vectors

GRAPH = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], test=[[0, 0, 2]])


def by_distance(side: str, given: Any, relation: Any) -> Any:
    return -np.abs(np.arange(3) - given[:, None])


class Callable:
    def __call__(self, side: str, given: Any, relation: Any) -> Any:
        return by_distance(side, given, relation)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (by_distance, "by_distance"),
        (lambda side, given, relation: by_distance(side, given, relation), "function"),
        (functools.partial(by_distance), "function"),
        (Callable(), "function"),
    ],
    ids=["function", "lambda", "partial", "object that can be called"],
)
def test_functions_are_models(given: Any, name: str) -> None:
    model = model_of(given, GRAPH)
    assert (model.name, model.settings) == (name, {})
    assert isinstance(model.scorer, FunctionScorer)
    assert model.scorer.score("tail", np.array([1]), np.array([0])).tolist() == [[-1, 0, -1]]


def test_scorers_are_models_with_the_name_of_their_class() -> None:
    embedding = vectors("random", Dot(), GRAPH, 2, seed=0)
    for given in (embedding, RelationVectors(Dot(), embedding.queries, embedding.table), Matrix(np.zeros(1))):
        model = model_of(given, GRAPH)
        assert model.scorer is given
        assert model.name == type(given).__name__


def test_a_scorer_that_can_also_be_called_is_asked_for_its_scores() -> None:
    class Both(Matrix):
        def __call__(self) -> None:
            raise AssertionError("this is not how a scorer is asked")

    both = Both(np.zeros((2, 3, 1, 3)))
    assert model_of(both, GRAPH).scorer is both


def test_a_model_is_itself() -> None:
    model = Model("mine", Matrix(np.zeros(1)), {"dimension": 3})
    assert model_of(model, GRAPH) is model


def test_lists_are_a_model() -> None:
    lists = TopKLists(Path("answers.jsonl"), GRAPH, {})
    assert model_of(lists, GRAPH).scorer is lists
    assert model_of(lists, GRAPH).name == "top-k lists"


@pytest.mark.parametrize(
    "given", [None, 3, np.zeros((2, 2)), {"score": 1}, [1]], ids=lambda given: type(given).__name__
)
def test_what_is_no_model_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match=f"{type(given).__name__} is nothing that can be ranked") as error:
        rank(given, GRAPH)
    assert "encode_queries" in error.value.problems[0]


def test_half_a_model_is_refused() -> None:
    class Half:
        similarity = Dot()

        def encode_queries(self, side: str, given: Any, relation: Any) -> Any: ...

    with pytest.raises(UsageError, match="Half is nothing that can be ranked"):
        rank(Half(), GRAPH)


NAMED = KnowledgeGraph.from_triples(
    train=[[0, 0, 1], [1, 0, 2]], test=[[0, 0, 2]], entity_labels=["c", "b", "a"], relation_labels=["knows"]
)


@pytest.fixture(scope="module")
def trained() -> Any:
    """A model of PyKEEN, and its training triples, which number the entities by the alphabet."""
    factory = TriplesFactory.from_labeled_triples(np.array([["c", "knows", "b"], ["b", "knows", "a"]]))
    return TransE(triples_factory=factory, embedding_dim=4, random_seed=0), factory


def test_a_model_of_pykeen_is_a_model(trained: Any) -> None:
    model = model_of(trained[0], GRAPH)
    assert (model.name, model.settings) == ("TransE", {"library": "pykeen"})


def test_the_result_of_a_pipeline_of_pykeen_tells_the_names(trained: Any) -> None:
    model, factory = trained
    table = rank(SimpleNamespace(model=model, training=factory), NAMED, filter="none")
    ids = [factory.entity_to_id[label] for label in NAMED.entity_label([0, 1, 2])]
    assert ids == [2, 1, 0]
    tails = [model.score_hrt(torch.tensor([[ids[0], 0, e]])).item() for e in ids]
    heads = [model.score_hrt(torch.tensor([[e, 0, ids[2]]])).item() for e in ids]
    assert table.rank.tolist() == [1 + sum(s > tails[2] for s in tails), 1 + sum(s > heads[0] for s in heads)]


def test_a_scorer_that_holds_a_model_of_pykeen_is_still_a_scorer(trained: Any) -> None:
    class Reranked:
        """What somebody makes of a model of PyKEEN."""

        def __init__(self, model: Any) -> None:
            self.model = model

        def score(self, side: str, given: Any, relation: Any) -> Any:
            return np.zeros((len(given), 3))

    table = rank(Reranked(trained[0]), GRAPH)
    assert table.info.model == "Reranked"
    assert table.ties.tolist() == (table.candidates - 1).tolist()


def test_vectors_are_seen_before_scores() -> None:
    class Both(Vectors):
        def score(self, side: str, given: Any, relation: Any) -> Any:
            raise AssertionError("vectors are faster")

    embedding = vectors("random", Dot(), GRAPH, 2, seed=0)
    found = rank(Both(Dot(), embedding.queries, embedding.table), GRAPH)
    assert found.rank.tolist() == rank(embedding, GRAPH).rank.tolist()
