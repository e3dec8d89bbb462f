"""Names and files that are ranked: baselines, embedding files, top-k lists."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict import Dot, Model, Opening, Setting, open_model, rank, rank_in
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.adapters.list_matching import ListOptions, Unlisted
from kgprobe.predict.adapters.top_k_files import open_top_k
from kgprobe.predict.baselines import BASELINES
from kgprobe.resources import Resources
from ranking import Matrix, brute_force, graph_of, matrix, rows_of, vectors

GRAPH = graph_of(seed=41)


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_have_names(name: str) -> None:
    called, scorer = BASELINES[name](GRAPH, 0)
    ranks = rank(name, GRAPH)
    assert ranks.to_arrow().equals(rank(Model(called, scorer), GRAPH).to_arrow(), check_metadata=True)


def test_chance_is_chance(data: Path) -> None:
    ranks = rank("random", load_graph(data / "graphs" / "codex-s"))
    assert ranks.rank.mean() == pytest.approx(ranks.candidates.mean() / 2, rel=0.05)
    assert not ranks.ties.any()


@pytest.mark.parametrize("options", [{}, {"device": "torch:cpu"}, {"shards": 4, "tile": 2}], ids=str)
def test_an_embedding_file_is_a_model(tmp_path: Path, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    entity, relation = (rng.integers(-2, 3, (n, 4)).astype(np.float32) for n in (GRAPH.num_entities, 3))
    path = tmp_path / "mine.npz"
    write_embeddings(path, {"model": "DistMult"}, {"entity": entity, "relation": relation})
    scores = np.einsum("gd,rd,ed->gre", entity, relation, entity)
    ranks = rank(path, GRAPH, resources=Resources(**options))
    assert rows_of(ranks) == brute_force(Matrix(np.stack([scores, scores])), GRAPH)
    assert (ranks.info.model, ranks.info.settings["source"]) == ("DistMult", "mine.npz")
    assert rank(str(path), GRAPH).to_arrow().equals(ranks.to_arrow(), check_metadata=True)


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """For each query the entities 0, 1 and 2, best first."""
    path = tmp_path / "answers.jsonl"
    asked = {(h, r, "head") for h, r, _ in GRAPH.triples("test").tolist()}
    asked |= {(t, r, "tail") for _, r, t in GRAPH.triples("test").tolist()}
    lines = [json.dumps({given: e, "relation": r, "predictions": [0, 1, 2]}) for e, r, given in sorted(asked)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_lists_are_a_model(lists: Path) -> None:
    ranks = rank(lists, GRAPH, filter="none")
    assert rank(open_top_k(lists, GRAPH), GRAPH, filter="none").rank.tolist() == ranks.rank.tolist()
    listed = ranks.target < 3
    assert ranks.rank.tolist() == np.where(listed, ranks.target + 1, 4).tolist()
    assert ranks.worst_rank.tolist() == np.where(listed, ranks.target + 1, GRAPH.num_entities).tolist()
    assert ranks.candidates.tolist() == [GRAPH.num_entities] * len(ranks)
    assert "entity_popularity" in ranks.column_names
    assert ranks.info.model == "answers"


def test_lists_have_no_candidates_but_all(lists: Path) -> None:
    with pytest.raises(UsageError, match="top-k lists are ranked against all entities"):
        rank(lists, GRAPH, candidates="train")


def test_what_a_list_leaves_out_may_be_tied(lists: Path) -> None:
    setting = Setting.build(GRAPH, filter="none")
    model = open_model(lists, Opening(GRAPH, setting.ranked, lists=ListOptions(Unlisted.tied)))
    ranks = rank_in(setting, model, Resources())
    left_out = GRAPH.num_entities - 3
    listed = ranks.target < 3
    assert ranks.rank.tolist() == np.where(listed, ranks.target + 1, 3 + (left_out + 1) / 2).tolist()
    assert ranks.ties.tolist() == np.where(listed, 0, left_out - 1).tolist()
    assert not ranks.has_intervals


def test_models_that_do_not_fit_the_graph() -> None:
    model = vectors("random", Dot(), GRAPH, 6, seed=0)
    smaller = KnowledgeGraph.from_triples(test=[[0, 0, 1]], num_entities=9, num_relations=3)
    with pytest.raises(DataError) as error:
        rank(model, smaller)
    assert "9" in str(error.value)
    assert "12" in str(error.value)
    with pytest.raises(DataError) as error:
        rank(matrix(GRAPH, 0), smaller)
    assert "[1, 9]" in str(error.value)
    assert "[1, 12]" in str(error.value)
