"""Every kind of model is recognised by its path; what is nothing of the kind is answered with what it can be."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pykeen.models import TransE
from pykeen.triples import KGInfo
from safetensors.numpy import save_file

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Dot, Opening, open_model
from kgprobe.predict.baselines import BASELINES, RandomScores
from kgprobe.predict.facts import Facts
from kgprobe.predict.scorer import EmbeddingScorer, Scorer
from kgprobe.predict.sources.embeddings import write_embeddings
from kgprobe.predict.sources.open import SOURCES
from kgprobe.predict.sources.pykeen import save_for_ranking
from kgprobe.predict.sources.top_k import TopKLists, Unlisted

GRAPH = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 2], [2, 1, 0]], name="tiny")
OPENING = Opening(GRAPH, Facts.build(GRAPH))
EYE, ONES = np.eye(3, dtype=np.float32), np.ones((2, 3), dtype=np.float32)


def _rotate(folder: Path) -> Path:
    folder.mkdir()
    np.save(folder / "entity_embedding.npy", EYE)
    np.save(folder / "relation_embedding.npy", ONES)
    config = {"model": "DistMult", "gamma": 1.0, "hidden_dim": 3, "nentity": 3, "nrelation": 2}
    options = {"double_entity_embedding": False, "double_relation_embedding": False}
    (folder / "config.json").write_text(json.dumps(config | options), encoding="utf-8")
    return folder


def _pykeen(folder: Path) -> Path:
    save_for_ranking(TransE(triples_factory=KGInfo(3, 2, create_inverse_triples=False), embedding_dim=2), None, folder)
    return folder


def _embeddings(path: Path) -> Path:
    write_embeddings(path, {"model": "DistMult"}, {"entity": EYE, "relation": ONES})
    return path


def _scores(path: Path) -> Path:
    arrays = {"tail": np.zeros((2, 3), dtype=np.float32), "head": np.zeros((2, 3), dtype=np.float32)}
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".safetensors":
        save_file(arrays, path)
    else:
        path.mkdir()
        for name, values in arrays.items():
            np.save(path / f"{name}.npy", values)
    return path


def _lists(path: Path) -> Path:
    text = json.dumps({"head": 1, "relation": 0, "predictions": [2]}) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


KINDS: dict[str, tuple[Callable[[Path], Path], str, type, str]] = {
    "RotatE": (_rotate, "checkpoint", EmbeddingScorer, "DistMult"),
    "PyKEEN": (_pykeen, "saved", EmbeddingScorer, "TransE"),
    "embeddings": (_embeddings, "mine.npz", EmbeddingScorer, "DistMult"),
    "embeddings, safetensors": (_embeddings, "mine.safetensors", EmbeddingScorer, "DistMult"),
    "scores": (_scores, "mine.npz", Scorer, "mine"),
    "scores, safetensors": (_scores, "mine.safetensors", Scorer, "mine"),
    "scores in a folder": (_scores, "mine", Scorer, "mine"),
    "lists": (_lists, "mine.v2.jsonl", TopKLists, "mine.v2"),
    "lists, compressed": (_lists, "mine.jsonl.gz", TopKLists, "mine"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [str, Path], ids=["text", "path"])
def test_every_kind_is_recognised(kind: str, text: Callable[[Path], Any], tmp_path: Path) -> None:
    write, name, scorer, called = KINDS[kind]
    path = write(tmp_path / name)
    model = open_model(text(path), OPENING)
    assert isinstance(model.scorer, scorer)
    assert model.name == called
    assert json.loads(json.dumps(model.settings)) == model.settings


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_is_of_one_kind(kind: str, tmp_path: Path) -> None:
    write, name, *_ = KINDS[kind]
    path = write(tmp_path / name)
    assert sum(source.is_meant(path) for source in SOURCES) == 1


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_go_by_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert open_model(name, OPENING).name == name.replace("-", " ")


def test_the_seed_is_that_of_the_random_baseline() -> None:
    scorer = open_model("random", Opening(GRAPH, OPENING.facts, seed=5)).scorer
    assert isinstance(scorer, RandomScores)
    assert scorer.seed == 5


def test_what_lists_leave_out_is_passed_on(tmp_path: Path) -> None:
    path = _lists(tmp_path / "mine.jsonl")
    for how in Unlisted:
        model = open_model(path, Opening(GRAPH, OPENING.facts, unlisted=how))
        assert isinstance(model.scorer, TopKLists)
        assert model.scorer.unlisted is how
        assert model.settings["unlisted"] == str(how)


def test_a_pickle_is_trusted_only_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "trained_model.pkl").write_bytes(b"not even a pickle")
    with pytest.raises((DataError, UsageError), match="pickle") as error:
        open_model(tmp_path, OPENING)
    assert "pickle" in error.value.remedy


@pytest.mark.parametrize("name", ["notes.txt", "model.pt", "folder", "mine.csv"])
def test_what_is_no_model_is_answered_with_all_that_it_can_be(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if path.suffix:
        path.write_text("something else", encoding="utf-8")
    else:
        path.mkdir()
    with pytest.raises(DataError, match="no model") as error:
        open_model(path, OPENING)
    assert error.value.problems == ["it is nothing that is known"]
    assert all(source.what in error.value.remedy for source in SOURCES)
    assert all(baseline in error.value.remedy for baseline in BASELINES)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no model") as error:
        open_model(tmp_path / "nowhere.npz", OPENING)
    assert error.value.problems[0].startswith("there is no such file or folder")
    assert all(source.what in error.value.remedy for source in SOURCES)
    with pytest.raises(DataError) as error:
        open_model("randon", OPENING)
    assert "random" in error.value.problems[0]


def test_a_file_of_arrays_without_a_header_is_an_embedding_file_that_says_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", entity=EYE)
    with pytest.raises(DataError, match=r"mine\.npz"):
        open_model(tmp_path / "mine.npz", OPENING)


def test_the_similarity_of_a_file_is_that_of_its_model(tmp_path: Path) -> None:
    scorer: Any = open_model(_embeddings(tmp_path / "mine.npz"), OPENING).scorer
    assert scorer.similarity == Dot()
