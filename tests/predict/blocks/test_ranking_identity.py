"""The identity of a ranking: equal for equal rankings, another one for whatever changes a rank."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Dot, GroupNorm, Model, Opening, Setting, open_model
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.blocks import ranking_identity
from kgprobe.predict.blocks.ranking_identity import RankingIdentity, model_files, scorer_of
from kgprobe.predict.ranking import info_of
from ranking import graph_of, matrix, query_sets, relation_sets, relation_vectors, vectors

GRAPH = graph_of(seed=5)

SAME = graph_of(seed=5)


def identity(setting: Setting, model: Model, name: str | None = None) -> RankingIdentity:
    return RankingIdentity.of(setting, model, info_of(setting, model, name), model_files(model.files))


def in_memory(seed: int = 1, similarity: Any = Dot()) -> Model:  # noqa: B008
    return Model("mine", vectors("random", similarity, GRAPH, 6, seed))


def test_what_is_the_same_has_the_same_identity() -> None:
    one, other = identity(Setting.build(GRAPH), in_memory()), identity(Setting.build(SAME), in_memory())
    assert one == other
    assert one.hash == other.hash
    assert one.differences(other) == []


LABELLED = KnowledgeGraph.from_triples(
    GRAPH.triples("train"),
    GRAPH.triples("valid"),
    GRAPH.triples("test"),
    num_entities=GRAPH.num_entities,
    num_relations=GRAPH.num_relations,
    entity_labels=[f"e{i}" for i in range(GRAPH.num_entities)],
)

OTHERS: dict[str, tuple[Setting, Model, str]] = {
    "weights": (Setting.build(GRAPH), in_memory(seed=2), "weights"),
    "similarity": (Setting.build(GRAPH), in_memory(similarity=GroupNorm(2)), "weights"),
    "gamma": (Setting.build(GRAPH), in_memory(similarity=GroupNorm(2, gamma=3.0)), "weights"),
    "graph": (Setting.build(graph_of(seed=6)), in_memory(), "triples, entities or relations"),
    "labels": (Setting.build(LABELLED), in_memory(), "labels"),
    "side": (Setting.build(GRAPH, sides="head"), in_memory(), "other triples or sides"),
    "split": (Setting.build(GRAPH, split="valid"), in_memory(), "other triples or sides"),
    "filter": (Setting.build(GRAPH, filter="train"), in_memory(), "filtered"),
    "none": (Setting.build(GRAPH, filter="none"), in_memory(), "filtered"),
    "candidates": (Setting.build(GRAPH, candidates="train"), in_memory(), "candidate sets"),
    "sets": (Setting.build(GRAPH, candidates=relation_sets(GRAPH, seed=1)[0]), in_memory(), "candidate sets"),
    "lists": (
        Setting.build(GRAPH, candidates=query_sets(Setting.build(GRAPH).ranked, GRAPH.num_entities, 1)[0]),
        in_memory(),
        "candidate sets",
    ),
    "name": (Setting.build(GRAPH), replace(in_memory(), name="theirs"), "metadata"),
    "settings": (Setting.build(GRAPH), replace(in_memory(), settings={"library": "mine"}), "metadata"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_whatever_changes_a_rank_changes_the_identity(what: str) -> None:
    setting, model, word = OTHERS[what]
    one, other = identity(Setting.build(GRAPH), in_memory()), identity(setting, model)
    assert any(word in line for line in one.differences(other))
    assert one.hash != other.hash


def test_drawn_candidates_are_told_apart() -> None:
    found = {
        identity(Setting.build(GRAPH, candidates=sets), in_memory()).candidates
        for seed in (1, 2)
        for sets in (relation_sets(GRAPH, seed)[0], query_sets(Setting.build(GRAPH).ranked, 12, seed)[0])
    }
    assert len(found) == 4


def test_embeddings_by_relation_are_hashed_for_all_relations() -> None:
    setting = Setting.build(GRAPH)
    one, other = (relation_vectors("random", Dot(), GRAPH, seed=1) for _ in range(2))
    assert identity(setting, Model("m", one)) == identity(setting, Model("m", other))
    last = int(GRAPH.triples("test")[:, 1].max())
    before = other.candidates_for

    def changed(side: Any, relation: int) -> Any:
        return before(side, relation) * (2 if relation == last else 1)

    other.candidates_for = changed  # type: ignore[method-assign]
    assert identity(setting, Model("m", one)) != identity(setting, Model("m", other))


def test_scores_of_memory_cannot_be_identified() -> None:
    model = Model("mine", matrix(GRAPH, seed=1))
    with pytest.raises(UsageError, match="mine cannot be ranked by blocks") as caught:
        identity(Setting.build(GRAPH), model)
    assert "save it" in caught.value.remedy


def test_baselines_are_identified_by_name_and_seed() -> None:
    setting = Setting.build(GRAPH)
    models = [open_model("random", Opening(GRAPH, setting.ranked, seed)) for seed in (0, 1)]
    models.append(open_model("entity-frequency", Opening(GRAPH, setting.ranked)))
    assert len({identity(setting, model).model for model in models}) == 3


def embedding_file(path: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    arrays = {"entity": rng.normal(size=(12, 4)), "relation": rng.normal(size=(3, 4))}
    write_embeddings(path, {"model": "DistMult"}, arrays)
    return path


def test_a_model_of_a_file_is_its_content(tmp_path: Path) -> None:
    setting = Setting.build(GRAPH)
    found = []
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / folder).mkdir()
        path = embedding_file(tmp_path / folder / "mine.safetensors", seed)
        found.append(identity(setting, open_model(path, Opening(GRAPH, setting.ranked))).model)
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"some weights")
    files = model_files([path])
    monkeypatch.setattr(ranking_identity, "_file_hash", lambda path, size: pytest.fail("it was read"))
    assert model_files([path], files) == files
    monkeypatch.undo()
    os.utime(path, ns=(0, files[0].modified + 1))
    assert [file.hash for file in model_files([path], files)] == [files[0].hash]
    path.write_bytes(b"more weights")
    assert [file.hash for file in model_files([path], files)] != [files[0].hash]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 200])
def test_large_files_are_hashed_in_pieces(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking_identity, "_PIECE", 64)
    content = np.random.default_rng(0).bytes(size)
    seen = set()
    for i in range(min(size, 200) + 1):
        changed = bytearray(content)
        if i:
            changed[i - 1] ^= 1
        path = tmp_path / "file"
        path.write_bytes(changed)
        seen.add(model_files([path])[0].hash)
    assert len(seen) == size + 1


def test_names_of_files_are_those_below_the_folder_of_the_model(tmp_path: Path) -> None:
    for name in ("model/entity.npy", "model/maps/entities.tsv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    paths = sorted((tmp_path / "model").rglob("*.*"))
    assert [file.name for file in model_files(paths)] == ["entity.npy", "maps/entities.tsv"]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.npz: cannot be read"):
        model_files([tmp_path / "gone.npz"])


def test_lists_have_no_blocks(tmp_path: Path) -> None:
    path = tmp_path / "lists.jsonl"
    path.write_text('{"head": 0, "relation": 0, "predictions": [1]}\n', encoding="utf-8")
    setting = Setting.build(KnowledgeGraph.from_triples(train=[[1, 0, 2]], test=[[0, 0, 1]]), sides="tail")
    with pytest.raises(UsageError, match="top-k lists are not ranked by blocks"):
        scorer_of(open_model(path, Opening(setting.graph, setting.ranked)))


def test_the_embedding_of_every_query_counts() -> None:
    before = identity(Setting.build(GRAPH), in_memory())
    for side, given, relation in {(1, *row[:2]) for row in GRAPH.triples("test").tolist()}:
        changed = in_memory()
        changed.scorer.queries[side, given, relation, 0] += 1  # type: ignore[union-attr]
        assert identity(Setting.build(GRAPH), changed) != before


def test_candidates_of_relations_may_share_their_memory() -> None:
    class Reusing:
        """Gives the candidates of every relation in the same memory."""

        similarity = Dot()

        def __init__(self, last: float) -> None:
            self.table, self.last = np.zeros((GRAPH.num_entities, 2), dtype=np.float32), last

        def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
            return np.ones((len(given), 2), dtype=np.float32)

        def candidates_for(self, side: Any, relation: int) -> Any:
            self.table[:] = self.last if relation == GRAPH.num_relations - 1 else relation
            return self.table

    one, other = (identity(Setting.build(GRAPH), Model("m", Reusing(last))) for last in (7.0, 8.0))
    assert one != other
