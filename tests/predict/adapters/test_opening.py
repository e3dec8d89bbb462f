"""Every kind of model is recognised by its path; what is nothing of the kind is answered with what it can be."""

import functools
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pykeen.models import TransE
from pykeen.triples import KGInfo, TriplesFactory
from safetensors.numpy import save_file

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Dot, Model, Opening, open_model, rank
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.adapters.list_matching import ListOptions, Unlisted
from kgprobe.predict.adapters.opening import ADAPTERS, FunctionScorer, model_of
from kgprobe.predict.adapters.pykeen_folder import save_for_ranking
from kgprobe.predict.adapters.top_k import TopKLists
from kgprobe.predict.baselines import BASELINES, RandomScores
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.scorers import EmbeddingScorer, Scorer
from pbg_models import configuration, write_checkpoint
from ranking import Matrix, RelationVectors, Vectors, vectors

GRAPH = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 2]], test=[[0, 0, 2]])


def by_distance(side: str, given: Any, relation: Any) -> Any:
    return -np.abs(np.arange(3) - given[:, None])


class CallableModel:
    def __call__(self, side: str, given: Any, relation: Any) -> Any:
        return by_distance(side, given, relation)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (by_distance, "by_distance"),
        (lambda side, given, relation: by_distance(side, given, relation), "function"),
        (functools.partial(by_distance), "function"),
        (CallableModel(), "function"),
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
    with pytest.raises(UsageError, match=f"{type(given).__name__} cannot be ranked") as error:
        rank(given, GRAPH)
    assert "encode_queries" in error.value.problems[0]


def test_half_a_model_is_refused() -> None:
    class Half:
        similarity = Dot()

        def encode_queries(self, side: str, given: Any, relation: Any) -> Any: ...

    with pytest.raises(UsageError, match="Half cannot be ranked"):
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


SMALL_GRAPH = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 2], [2, 1, 0]], name="tiny")

OPENING = Opening(SMALL_GRAPH, RankedTriples.build(SMALL_GRAPH))

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


def _pbg(folder: Path) -> Path:
    write_checkpoint(folder, configuration("dot"), {"all": ["0", "1", "2"]}, ["0", "1"])
    return folder


def _pbg_export(folder: Path) -> Path:
    config = configuration("dot")
    config["relations"][0]["operator"] = "none"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "entity_embeddings.tsv").write_text("".join(f"{i}\t1\t2\t3\t{i}\n" for i in range(3)))
    (folder / "relation_types_parameters.tsv").touch()
    return folder


KINDS: dict[str, tuple[Callable[[Path], Path], str, type, str]] = {
    "RotatE": (_rotate, "checkpoint", EmbeddingScorer, "DistMult"),
    "PyKEEN": (_pykeen, "saved", EmbeddingScorer, "TransE"),
    "PyTorch-BigGraph": (_pbg, "model", EmbeddingScorer, "PBG(translation, dot)"),
    "export of PyTorch-BigGraph": (_pbg_export, "exported", EmbeddingScorer, "PBG(none, dot)"),
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
    assert sum(adapter.matches(path) for adapter in ADAPTERS) == 1


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_go_by_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert open_model(name, OPENING).name == name.replace("-", " ")


def test_the_seed_is_that_of_the_random_baseline() -> None:
    scorer = open_model("random", Opening(SMALL_GRAPH, OPENING.ranked, seed=5)).scorer
    assert isinstance(scorer, RandomScores)
    assert scorer.seed == 5


def test_what_lists_leave_out_is_passed_on(tmp_path: Path) -> None:
    path = _lists(tmp_path / "mine.jsonl")
    for how in Unlisted:
        model = open_model(path, Opening(SMALL_GRAPH, OPENING.ranked, lists=ListOptions(how)))
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
    assert error.value.problems == ["not a recognised model file or folder"]
    assert all(source.what in error.value.remedy for source in ADAPTERS)
    assert all(baseline in error.value.remedy for baseline in BASELINES)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no model") as error:
        open_model(tmp_path / "nowhere.npz", OPENING)
    assert error.value.problems[0].startswith("there is no such file or folder")
    assert all(source.what in error.value.remedy for source in ADAPTERS)
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


def test_options_of_lists_are_refused_for_other_models() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
    with pytest.raises(UsageError, match="random: `unknown`, `nearest` only for top-k lists"):
        rank("random", graph, unknown="drop", nearest=0.9)
    with pytest.raises(UsageError, match="`unlisted` only for top-k lists"):
        rank(lambda side, given, relation: np.zeros((len(given), 2)), graph, unlisted="tied")
    lists = [{"head": 1, "relation": 0, "predictions": ["nobody"]}]
    assert rank(lists, graph, sides="tail", unknown="drop").has_intervals
