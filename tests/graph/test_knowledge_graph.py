import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe.graph.knowledge_graph as module
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, KnownAnswers, TrainCounts, load_graph
from kgprobe.graph.names import Names, as_labels, label_problems, labels_of
from kgprobe.graph.text_files import KnownNames


@pytest.mark.parametrize(
    "values",
    [
        ["a", None],
        pa.array(["a", None], pa.large_string()),
        pa.chunked_array([["a"], [None]], pa.string()),
        pa.array(["a", None]).dictionary_encode(),
    ],
    ids=["list", "large strings", "chunks", "dictionary"],
)
def test_labels_become_one_string_array(values: object) -> None:
    labels = as_labels(values)
    assert isinstance(labels, pa.Array)
    assert labels.type == pa.string()
    assert labels.to_pylist() == ["a", None]


def test_no_labels_give_ids() -> None:
    assert as_labels(None) is None
    assert labels_of(None, np.array([3, 1])) == ["3", "1"]


def test_one_id_is_enough() -> None:
    assert labels_of(as_labels(["a", "b"]), 1) == ["b"]


def test_labels_must_be_as_many_as_ids() -> None:
    assert label_problems("x", as_labels(["a"]), 1) == []
    assert label_problems("x", as_labels(["a"]), 2) == ["x: 1 labels for 2 ids"]


def test_labels_and_ids_where_there_is_none() -> None:
    graph = KnowledgeGraph.from_triples(entity_labels=["Ada", None, "2"], num_relations=2)
    texts = pa.array(["2", "1", "0", "Ada", "ada", "01"])
    assert graph.entity_index().ids(texts).tolist() == [2, 1, -1, 0, -1, -1]
    assert graph.entity_index(labels=False).ids(texts).tolist() == [2, 1, 0, -1, -1, -1]
    assert graph.relation_index().ids(pa.array(["0", "1", "2"])).tolist() == [0, 1, -1]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_a_name_that_several_have_is_nobodys(kind: pa.DataType) -> None:
    names = Names.build("entity", 4, pa.array(["Ada", "Bob", "Ada", None], kind))
    assert names.ids(pa.array(["Ada", "Bob", "3"])).tolist() == [-1, 1, 3]
    assert names.problem("Ada") == "'Ada' is the name of more than one entity"
    assert names.problem("Bob") is None
    assert names.problem("Eve") == "'Eve' is no known entity"


def test_an_id_that_is_the_label_of_another_is_nobodys() -> None:
    names = Names.build("relation", 2, pa.array(["1", None]))
    assert names.ids(pa.array(["1"])).tolist() == [-1]
    assert names.problem("1") == "'1' is the name of more than one relation"


def test_everything_wrong_with_a_line_is_said() -> None:
    rule = KnownNames(
        {"entity": Names.build("entity", 1, None), "side": Names("side", pa.array(["left"]))}, ("side", "entity")
    )
    assert rule.judge(1, ["left", "0"]) is None
    assert rule.judge(2, ["up", "7"]) == "'7' is no known entity, 'up' is no known side"


TRAIN = [[0, 0, 1], [1, 1, 2], [2, 0, 2]]

TEST = [[0, 1, 2]]


def _counts() -> TrainCounts:
    none = np.array([], dtype=np.int64)
    return TrainCounts.from_pairs(np.array([1, 1, 0]), none, none, none, num_relations=2)


def test_sizes_come_from_the_largest_ids_of_all_splits() -> None:
    graph = KnowledgeGraph.from_triples(train=TRAIN, test=[[7, 4, 0]])
    assert (graph.num_entities, graph.num_relations) == (8, 5)
    assert KnowledgeGraph.from_triples().num_entities == 0


def test_sizes_come_from_labels_where_there_are_any() -> None:
    graph = KnowledgeGraph.from_triples(train=TRAIN, entity_labels=list("abcde"))
    assert (graph.num_entities, graph.num_relations) == (5, 2)
    assert graph.entity_label([4, 0]) == ["e", "a"]
    assert graph.relation_label([1]) == ["1"]


def test_splits_are_contiguous_int32_and_constant() -> None:
    given = np.asfortranarray(TRAIN, dtype=np.int64)
    graph = KnowledgeGraph.from_triples(train=given)
    train = graph.triples("train")
    assert train.dtype == np.int32
    assert train.flags.c_contiguous
    assert train.tolist() == TRAIN
    with pytest.raises(ValueError, match="read-only"):
        train[0, 0] = 5


def test_the_array_of_the_caller_stays_writable() -> None:
    given = np.array(TRAIN, dtype=np.int32)
    graph = KnowledgeGraph.from_triples(train=given)
    before = graph.content_hash
    given[0, 0] = 2
    assert graph.triples("train").tolist() == TRAIN
    assert KnowledgeGraph.from_triples(train=graph.triples("train")).content_hash == before


def test_memory_that_cannot_change_is_shared() -> None:
    given = np.array(TRAIN, dtype=np.int32)
    given.flags.writeable = False
    assert np.shares_memory(KnowledgeGraph.from_triples(train=given).triples("train"), given)


def test_triples_of_splits() -> None:
    graph = KnowledgeGraph.from_triples(train=TRAIN, test=TEST)
    assert graph.triples().tolist() == TRAIN + TEST
    assert graph.triples("test", "train").tolist() == TEST + TRAIN
    assert graph.triples("valid").shape == (0, 3)
    assert graph.has_train
    with pytest.raises(UsageError, match="unknown split 'dev'") as caught:
        graph.triples("train", "dev")
    assert "train, valid, test" in caught.value.remedy


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(DataError) as caught:
        KnowledgeGraph(
            "bad",
            3,
            1,
            {
                "train": np.array([[0, 1, 0]]),
                "valid": np.zeros((2, 2), int),
                "test": np.array([[-1, 0, 3]]),
                "dev": [],
            },
            entity_labels=["a"],  # type: ignore[arg-type]
        )
    text = "\n".join(caught.value.problems)
    for part in ("train relation", "valid: shape", "test head", "test tail", "'dev'", "1 labels for 3 ids"):
        assert part in text
    assert len(caught.value.problems) == 6


def test_negative_ids_are_refused_where_sizes_are_inferred() -> None:
    with pytest.raises(DataError, match="not a graph"):
        KnowledgeGraph.from_triples(train=[[0, 0, -1]])


def test_hash_is_the_documented_one() -> None:
    graph = KnowledgeGraph.from_triples(train=TRAIN, test=TEST)
    expected = hashlib.sha256()
    expected.update(b"3 2\ntrain 3\n" + b"".join(i.to_bytes(8, "little") for row in TRAIN for i in row))
    expected.update(b"valid 0\ntest 1\n" + b"".join(i.to_bytes(8, "little") for row in TEST for i in row))
    assert graph.content_hash == expected.hexdigest()


def test_hash_depends_on_content_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    original = KnowledgeGraph.from_triples(train=TRAIN, test=TEST).content_hash
    twin = KnowledgeGraph.from_triples(
        train=np.asfortranarray(TRAIN, dtype=np.uint16),
        test=TEST,
        valid=[],
        name="other",
        entity_labels=list("abc"),
    )
    monkeypatch.setattr(module, "_HASH_ROWS", 2)
    assert twin.content_hash == original


@pytest.mark.parametrize(
    "other",
    [
        KnowledgeGraph.from_triples(train=TRAIN[::-1], test=TEST),
        KnowledgeGraph.from_triples(train=TRAIN, valid=TEST),
        KnowledgeGraph.from_triples(train=TRAIN + TEST),
        KnowledgeGraph.from_triples(train=TRAIN, test=TEST, num_entities=4),
        KnowledgeGraph.from_triples(train=TRAIN, test=TEST, num_relations=3),
    ],
    ids=["order", "split", "no test", "entities", "relations"],
)
def test_hash_tells_graphs_apart(other: KnowledgeGraph) -> None:
    assert other.content_hash != KnowledgeGraph.from_triples(train=TRAIN, test=TEST).content_hash


def test_popularity_needs_training_triples() -> None:
    with pytest.raises(DataError, match="popularity is not defined"):
        _ = KnowledgeGraph.from_triples(test=TEST).popularity


def test_counts_stand_in_for_training_triples() -> None:
    graph = KnowledgeGraph("counted", 3, 2, {"test": np.array(TEST)}, train_counts=_counts())
    assert graph.popularity.entity([0, 2]).tolist() == [0.5, 0.0]
    assert not graph.has_train
    assert graph.known_answers("test").count([0], [1], [2], [True]).tolist() == [1]
    for splits in ((), ("train", "test")):
        with pytest.raises(DataError, match="cannot be listed"):
            graph.known_answers(*splits)


def test_counts_beside_training_triples_are_refused() -> None:
    with pytest.raises(DataError) as caught:
        KnowledgeGraph("both", 3, 2, {"train": np.array(TRAIN)}, train_counts=_counts())
    assert "both are given" in caught.value.problems[0]


def test_known_answers_of_some_splits() -> None:
    graph = KnowledgeGraph.from_triples(train=TRAIN, test=[[0, 0, 2]])
    query = ([0], [0], [1], [True])
    assert graph.known_answers().count(*query).tolist() == [2]
    assert graph.known_answers("train").count(*query).tolist() == [1]


triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), max_size=40)


@settings(max_examples=50)
@given(triples, triples)
def test_counts_are_those_of_a_search(known: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    index = KnownAnswers.from_triples(np.array(known, dtype=np.int32).reshape(-1, 3), 6, 3)
    head, relation, tail = np.array(asked, dtype=np.int32).reshape(-1, 3).T
    tail_side = np.arange(len(asked)) % 2 == 0
    by_tail = [len({c for a, b, c in known if (a, b) == (h, r)}) for h, r, _ in asked]
    by_head = [len({a for a, b, c in known if (b, c) == (r, t)}) for _, r, t in asked]
    expected = np.where(tail_side, by_tail, by_head).tolist()
    assert index.count(head, relation, tail, tail_side).tolist() == expected
    others = [n - (triple in known) for n, triple in zip(expected, asked, strict=True)]
    assert index.others(head, relation, tail, tail_side).tolist() == others


def test_one_side_for_all_queries() -> None:
    index = KnownAnswers.from_triples(np.array([[0, 0, 1], [0, 0, 2]]), 3, 1)
    assert index.count([0, 0], [0, 0], [1, 2], tail_side=True).tolist() == [2, 2]
    assert index.count([0, 0], [0, 0], [1, 2], tail_side=False).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["wn18rr", "umls"])
def test_candidates_of_the_published_ranks(data: Path, name: str) -> None:
    """The published candidate counts are what the filter leaves: all entities less the other known answers."""
    graph = load_graph(data / "graphs" / name)
    ranks = pq.read_table(data / "published_ranks" / name / "RotatE.parquet").filter(pc.field("seed") == 1)
    columns = [ranks.column(c).to_numpy() for c in ("head", "relation", "tail")]
    tail_side = pc.equal(ranks.column("side"), "tail").to_numpy()
    known = graph.known_answers().count(*columns, tail_side)
    assert (graph.num_entities - known + 1).tolist() == ranks.column("candidates").to_pylist()


def test_filtered_entities_of_the_authors_own_file(data: Path) -> None:
    records = json.loads((data / "published_ranks" / "raw" / "RotatE_umls_1.json").read_text())
    triples = np.array([record[0] for record in records])
    known = load_graph(data / "graphs" / "umls").known_answers("train", "valid", "test")
    count = known.count(*triples.T, tail_side=[record[1] == "t" for record in records])
    assert (count - 1).tolist() == [record[5] for record in records]
