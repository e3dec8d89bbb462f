"""Models through the engine that ranks, against ranks by loops over the slow float64 scores."""

import numpy as np
import pytest

from kgprobe import rank
from kgprobe.models.base import EmbeddingModel, Sizes
from kgprobe.models.reciprocal import RankedRun, ReciprocalRelations, ReciprocalTable, ranked_run
from kgprobe.predict.scorer import EmbeddingScorer, RelationEmbeddingScorer
from ranking import Matrix, Rows, brute_force, graph_of, rows_of
from slow_models import KINDS, scattered, slow_scores, tables

GRAPH = graph_of(seed=5, entities=9, relations=2, facts=40)


def in_float32(kind: str, relations: int) -> EmbeddingModel:
    """Two runs, whose parameters are float32 numbers."""
    return scattered(kind, Sizes(GRAPH.num_entities, relations), runs=2, seed=3).float()


def ranks_of(run: RankedRun) -> Rows:
    return rows_of(rank(run, GRAPH))


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_are_those_of_the_definition(kind: str) -> None:
    model = in_float32(kind, GRAPH.num_relations)
    for run in range(2):
        scores = slow_scores(kind, tables(model, run))
        assert ranks_of(ranked_run(model.one_run(run), None)) == brute_force(Matrix(scores), GRAPH)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_the_tails_of_reverse_relations(kind: str) -> None:
    model = in_float32(kind, 2 * GRAPH.num_relations)
    for run in range(2):
        tails = slow_scores(kind, tables(model, run))[1]
        asked = np.stack([tails[:, GRAPH.num_relations :], tails[:, : GRAPH.num_relations]])
        wrapped = ranked_run(model.one_run(run), GRAPH.num_relations)
        assert ranks_of(wrapped) == brute_force(Matrix(asked), GRAPH)


@pytest.mark.parametrize("kind", KINDS)
def test_the_wrapper_keeps_the_protocol_of_the_model(kind: str) -> None:
    model = in_float32(kind, 2 * GRAPH.num_relations).one_run(0)
    wrapped = ranked_run(model, GRAPH.num_relations)
    by_relation = kind.startswith("HousE")
    assert isinstance(wrapped, ReciprocalRelations if by_relation else ReciprocalTable)
    assert isinstance(wrapped, RelationEmbeddingScorer if by_relation else EmbeddingScorer)
    assert isinstance(model, RelationEmbeddingScorer) == by_relation
    assert wrapped.similarity == model.similarity
    assert ranked_run(model, None) is model


def test_a_table_of_candidates_is_none_for_each_relation() -> None:
    model = in_float32("RotatE", 2 * GRAPH.num_relations).one_run(0)
    with pytest.raises(TypeError, match="RotatE has the same candidates for all relations"):
        ReciprocalRelations(model, GRAPH.num_relations).candidates_for("tail", 0)
