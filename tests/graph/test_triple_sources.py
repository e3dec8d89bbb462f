import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from pykeen.datasets import EagerDataset, Nations
from pykeen.datasets.inductive import InductiveFB15k237
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import DistMult
from pykeen.triples import CoreTriplesFactory, TriplesFactory

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph

TRAIN = [
    ("Zoë", "knows", "Bob"),
    ("b", "likes", "Zoë"),
    ("10", "knows", "9"),
    ("NA", "likes", "x y"),
    ("b", "likes", "Zoë"),
]
VALID = [("9", "knows", "b")]
TEST = [("only in test", "is", "null")]
SPLITS = {"train": TRAIN, "valid": VALID, "test": TEST}


def _of_files(directory: Path) -> KnowledgeGraph:
    for split, triples in SPLITS.items():
        (directory / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in triples), encoding="utf-8")
    return load_graph(directory)


def _same(graph: KnowledgeGraph, other: KnowledgeGraph) -> None:
    assert graph.content_hash == other.content_hash
    assert graph.entity_labels.to_pylist() == other.entity_labels.to_pylist()
    assert graph.relation_labels.to_pylist() == other.relation_labels.to_pylist()


def _labels(graph: KnowledgeGraph, split: str) -> np.ndarray[Any, Any]:
    head, relation, tail = graph.triples(split).T
    return np.column_stack([graph.entity_label(head), graph.relation_label(relation), graph.entity_label(tail)])


def _columns(triples: list[tuple[str, str, str]], names: tuple[str, str, str]) -> dict[str, list[str]]:
    return dict(zip(names, map(list, zip(*triples, strict=True)), strict=True))


HRT = ("head", "relation", "tail")
FORMS: dict[str, Any] = {
    "list": lambda rows: rows,
    "lists": lambda rows: [list(row) for row in rows],
    "generator": iter,
    "array": np.array,
    "array of objects": lambda rows: np.array(rows, dtype=object),
    "dictionary": lambda rows: _columns(rows, HRT),
    "Arrow": lambda rows: pa.table(_columns(rows, ("Subject", "Predicate", "Object"))),
    "Arrow batch": lambda rows: pa.RecordBatch.from_pydict(_columns(rows, HRT)),
    "Arrow dictionaries": lambda rows: pa.table(
        {k: pa.array(v).dictionary_encode() for k, v in _columns(rows, HRT).items()}
    ),
    "pandas": lambda rows: pd.DataFrame(rows, columns=["h", "r", "t"]).iloc[:, [2, 0, 1]],
    "pandas without names": pd.DataFrame,
    "pandas with an index": lambda rows: pd.DataFrame(rows, columns=HRT, index=range(7, 7 + len(rows))),
    "pandas categories": lambda rows: pd.DataFrame(rows, columns=HRT).astype("category"),
    "polars": lambda rows: pl.DataFrame(_columns(rows, ("source", "edge", "target"))),
    "polars with more columns": lambda rows: pl.DataFrame(_columns(rows, HRT) | {"weight": [1.5] * len(rows)}),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_labels_in_any_form_give_the_graph_of_the_files(tmp_path: Path, form: Any) -> None:
    graph = KnowledgeGraph.from_labels(**{split: form(rows) for split, rows in SPLITS.items()}, name="mine")
    _same(graph, _of_files(tmp_path))
    assert graph.name == "mine"
    assert list(graph.splits) == ["train", "valid", "test"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_one_table_with_a_column_of_splits(tmp_path: Path, make: Any) -> None:
    rows = [(*row, word) for row, word in zip([*TEST, *TRAIN, *VALID], ["Test", *["train"] * 5, "dev"], strict=True)]
    table = {name: [row[i] for row in rows] for i, name in enumerate((*HRT, "split"))}
    _same(KnowledgeGraph.from_labels(make(table)), _of_files(tmp_path))


def test_real_graph(data: Path) -> None:
    graph = load_graph(data / "graphs" / "nations")
    _same(KnowledgeGraph.from_labels(**{split: _labels(graph, split) for split in graph.splits}), graph)


def test_an_empty_split_stays_empty() -> None:
    graph = KnowledgeGraph.from_labels(train=[], valid=np.empty((0, 3), dtype=str), test=[("a", "r", "b")])
    assert {split: len(rows) for split, rows in graph.splits.items()} == {"train": 0, "valid": 0, "test": 1}


WRONG = {
    "numbers": ([(0, 0, 1)], ["head is not text but 0 in rows 0", "relation is not text", "tail is not text but 1"]),
    "an array of numbers": (np.zeros((2, 3), dtype=int), ["head is not text but 0 in rows 0-1"]),
    "a number among texts": ([("a", "r", "b"), ("a", "r", 3)], ["tail is not text but 3 in rows 1"]),
    "a table of numbers": (pd.DataFrame({"head": [1], "relation": [2], "tail": [3]}), ["column head holds int64"]),
    "mixed columns": (pd.DataFrame([["a", "r", 1], ["b", "r", "c"]]), ["not a table of texts"]),
    "nothing": ([("a", "r", None), ("a", "r", float("nan"))], ["tail is not text but None in rows 0-1"]),
    "nulls": (
        pd.DataFrame({"head": ["a", None], "relation": ["r", ""], "tail": ["b", "c"]}),
        ["head is missing in rows 1", "relation is missing in rows 1"],
    ),
    "short rows": ([("a", "r", "b"), ("a", "r"), "arb"], ["not (head, relation, tail) but ('a', 'r') in rows 1-2"]),
    "a flat array": (np.array(["a", "r", "b"]), ["an array of shape (3,), expected [n, 3]"]),
    "a path": ("train.txt", ["'train.txt' is neither a list of triples nor a table"]),
    "other columns": (
        {"drug": ["a"], "treats": ["r"], "tail": ["b"]},
        ["no column for the head", "no column for the relation"],
    ),
    "two heads": (
        {"subject": ["a"], "source": ["a"], "r": ["r"], "t": ["b"]},
        ["'subject' and 'source' may all be the head"],
    ),
    "unknown split": ({"h": ["a"], "r": ["r"], "t": ["b"], "split": ["holdout"]}, ["the column 'split' has 'holdout'"]),
    "surrogates": ([("\ud800", "r", "b")], ["head: a text has no UTF-8 form"]),
}


@pytest.mark.parametrize(("train", "expected"), WRONG.values(), ids=WRONG)
def test_what_is_no_label_is_refused(train: Any, expected: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        KnowledgeGraph.from_labels(train=train)
    text = str(caught.value)
    assert all(part in text for part in expected), text
    assert "from_triples" in text


def test_problems_of_all_splits_are_listed() -> None:
    with pytest.raises(DataError) as caught:
        KnowledgeGraph.from_labels(train=[(1, "r", "b")], test={"h": ["a"]})
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["train", "test", "test"]
    with pytest.raises(DataError, match="no triples"):
        KnowledgeGraph.from_labels()


def test_a_column_of_splits_must_not_contradict_the_argument() -> None:
    table = {"h": ["a", "b"], "r": ["r", "r"], "t": ["b", "a"], "split": ["train", "test"]}
    with pytest.raises(DataError, match="rows of test"):
        KnowledgeGraph.from_labels(train=table, test=[("a", "r", "b")])
    same = {**table, "split": ["train", "train"]}
    assert len(KnowledgeGraph.from_labels(train=same, test=[("a", "r", "b")]).triples("train")) == 2


@pytest.mark.parametrize("inverse", [False, True])
def test_pykeen_dataset(data: Path, inverse: bool) -> None:
    dataset = Nations(create_inverse_triples=inverse)
    graph = KnowledgeGraph.from_pykeen(dataset)
    assert graph.num_relations == 55
    for split, factory in (("train", dataset.training), ("valid", dataset.validation), ("test", dataset.testing)):
        assert graph.triples(split).tolist() == factory.mapped_triples.tolist()
    assert dict(zip(graph.entity_labels.to_pylist(), range(14), strict=True)) == dict(dataset.entity_to_id)
    # PyKEEN sorts the triples of a split, on which the hash depends.
    files = load_graph(data / "graphs" / "nations")
    assert {split: sorted(rows.tolist()) for split, rows in graph.splits.items()} == {
        split: sorted(rows.tolist()) for split, rows in files.splits.items()
    }


def test_a_pykeen_model_is_ranked_on_its_dataset() -> None:
    dataset = Nations()
    torch.manual_seed(0)
    model = DistMult(triples_factory=dataset.training, embedding_dim=8, random_seed=3)
    ranks = kp.rank(model, dataset)
    known = [dataset.training.mapped_triples, dataset.validation.mapped_triples]
    metrics = RankBasedEvaluator(filtered=True).evaluate(
        model, dataset.testing.mapped_triples, additional_filter_triples=known, use_tqdm=False
    )
    expected = metrics.get_metric("both.realistic.inverse_harmonic_mean_rank")
    assert kp.evaluate(ranks, "MRR")["MRR"] == pytest.approx(expected, abs=1e-6)
    assert ranks.info.graph == "nations"


def test_pykeen_factories() -> None:
    train = TriplesFactory.from_labeled_triples(np.array(TRAIN), create_inverse_triples=True)
    ids = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
    valid = TriplesFactory.from_labeled_triples(np.array(VALID), **ids)
    graph = KnowledgeGraph.from_pykeen(train, valid=valid)
    assert list(graph.splits) == ["train", "valid"]
    assert (graph.name, graph.num_relations) == ("graph", 2)
    assert sorted(map(tuple, _labels(graph, "train").tolist())) == sorted(set(TRAIN))
    _same(KnowledgeGraph.from_pykeen(EagerDataset(train, valid)), KnowledgeGraph.from_pykeen(train, test=valid))
    bare = CoreTriplesFactory.create(train.mapped_triples, num_entities=9, num_relations=3)
    unnamed = KnowledgeGraph.from_pykeen(bare)
    assert (unnamed.num_entities, unnamed.num_relations, unnamed.entity_labels) == (9, 3, None)


def test_pykeen_factories_with_other_ids() -> None:
    train, test = (TriplesFactory.from_labeled_triples(np.array(rows)) for rows in (TRAIN, TEST))
    with pytest.raises(DataError) as caught:
        KnowledgeGraph.from_pykeen(train, test=test)
    assert caught.value.problems == [
        "entities of test have other ids than those of train",
        "relations of test have other ids than those of train",
    ]


def test_what_is_not_of_pykeen() -> None:
    train = TriplesFactory.from_labeled_triples(np.array(TRAIN))
    for arguments, problem in (
        (([[0, 0, 1]],), "train is a list"),
        ((train, TRAIN), "valid is a list"),
        ((Nations(), train), "a dataset has its own"),
        ((InductiveFB15k237.__new__(InductiveFB15k237),), "inductive"),
    ):
        with pytest.raises(UsageError, match=problem):
            KnowledgeGraph.from_pykeen(*arguments)
    with pytest.raises(UsageError, match="PyKEEN dataset"):
        kp.rank("random", 5)


def test_no_table_library_is_imported() -> None:
    code = (
        "import sys, kgprobe as kp\n"
        "kp.KnowledgeGraph.from_labels(train=[('a', 'r', 'b')], test={'h': ['a'], 'r': ['r'], 't': ['b']})\n"
        "print([name for name in ('polars', 'pykeen', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
