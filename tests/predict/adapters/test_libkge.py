from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import rank
from kgprobe.predict.adapters.libkge import is_libkge
from libkge_files import FORMULAS, SavedModel, save
from ranking import Matrix, brute_force, graph_of, rows_of

ENTITIES, RELATIONS = 23, 3
ODD = ["Ada", "a b", "é", "'", '"', "0", "1", "知識", "-", "#x", "x\\n", "a,b", "%s", "NaN", "None", " z"]


def _named_graph(seed: int = 3) -> KnowledgeGraph:
    graph = graph_of(seed, ENTITIES, RELATIONS, 80)
    return KnowledgeGraph.from_triples(
        **{split: graph.triples(split) for split in ("train", "valid", "test")},
        entity_labels=[*ODD, *(f"e{i}" for i in range(ENTITIES - len(ODD)))],
        relation_labels=["r 0", "ß", "2"],
    )


graph = _named_graph()


def _shuffled(graph: KnowledgeGraph, seed: int = 0) -> tuple[Any, Any, tuple[list[str], list[str]]]:
    """The ids of the rows of a model in another order than that of the graph, and the names of the rows."""
    draw = np.random.default_rng(seed)
    entities, relations = draw.permutation(graph.num_entities), draw.permutation(graph.num_relations)
    return entities, relations, (graph.entity_label(entities), graph.relation_label(relations))


def _as_in_graph(scores: Any, entities: Any, relations: Any) -> Any:
    """Scores of the model's rows, in the order of the graph's ids."""
    rows, kinds = np.argsort(entities), np.argsort(relations)
    return scores[:, rows][:, :, kinds][:, :, :, rows]


def _assert_ranks(path: Path, graph: KnowledgeGraph, scores: Any) -> None:
    assert rows_of(rank(path, graph)) == brute_force(Matrix(scores), graph)


@pytest.mark.parametrize("reciprocal", [False, True], ids=["plain", "reciprocal"])
@pytest.mark.parametrize("name", FORMULAS)
def test_ranks_are_those_of_the_formula(tmp_path: Path, name: str, reciprocal: bool) -> None:
    entities, relations, names = _shuffled(graph)
    model = SavedModel(name, ENTITIES, RELATIONS, reciprocal=reciprocal)
    path = save(tmp_path / "model_best.pt", model, names)
    assert is_libkge(path)
    _assert_ranks(path, graph, _as_in_graph(model.scores(), entities, relations))
