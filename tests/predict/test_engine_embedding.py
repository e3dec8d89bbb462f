"""Models that compare vectors: what they may give, what is refused, how they are asked, and how a run ends early."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import Dot, GroupNorm, encoding, engine, rank
from kgprobe.predict.backends.backend import NumpyBackend
from kgprobe.predict.scorers import Similarity
from kgprobe.predict.stored_arrays import StoredTable
from kgprobe.resources import Resources
from ranking import (
    COUNTED,
    COUNTING,
    SIMILARITIES,
    RelationVectors,
    Vectors,
    brute_force,
    counted,
    graph_of,
    relation_sets,
    relation_vectors,
    vectors,
)

GRAPH = graph_of(seed=21)

ENTITIES = GRAPH.num_entities

DEVICES = ["cpu", "torch:cpu"]

PEOPLE = KnowledgeGraph.from_triples(
    train=[[0, 0, 1]],
    test=[[0, 0, 2], [1, 1, 0], [1, 0, 0]],
    entity_labels=["Ada", "Bob", "Cyd"],
    relation_labels=["knows", "likes"],
)


def people(similarity: Similarity = Dot()) -> Vectors:  # noqa: B008
    return vectors("random", similarity, PEOPLE, 4, seed=0)


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("chunk", [1, 6 * 5, 6 * 7 + 5])
def test_queries_are_encoded_some_at_a_time(chunk: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_ENCODED_AT_ONCE", chunk)
    model = vectors("whole", GroupNorm(2), GRAPH, 6, seed=1)
    expected = brute_force(model, GRAPH)
    for batch in (None, 1, 2, 100):
        resources = Resources(threads=2, batch=batch, shards=2)
        assert counted(model, GRAPH, COUNTING[backend](), resources) == expected


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("most", [1, 3, 10, 64])
def test_undecided_pairs_are_decided_some_at_a_time(most: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_UNDECIDED_AT_ONCE", most)
    for kind, similarity in (("zero", Dot()), ("huge", Dot()), ("duplicated", GroupNorm(3)), ("permuted", Dot())):
        model = vectors(kind, similarity, GRAPH, 6, seed=2)
        assert counted(model, GRAPH, COUNTING[backend]()) == brute_force(model, GRAPH)


class Asked(Vectors):
    """A model that remembers what it was asked."""

    def __init__(self, model: Vectors) -> None:
        super().__init__(model.similarity, model.queries, model.table)
        self.calls: list[tuple[str, NDArray[Any], NDArray[Any]]] = []
        self.tables: list[str] = []

    def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
        self.calls.append((side, given, relation))
        return super().encode_queries(side, given, relation)

    def candidates(self, side: Any) -> Any:
        self.tables.append(side)
        return super().candidates(side)


@pytest.mark.parametrize("candidates", ["all", "train"])
def test_each_query_is_encoded_once(candidates: str) -> None:
    asked = Asked(vectors("random", Dot(), GRAPH, 6, seed=3))
    rank(asked, GRAPH, candidates=candidates, resources=Resources(batch=2))
    found = [
        (side, *pair) for side, *ids in asked.calls for pair in zip(*(array.tolist() for array in ids), strict=True)
    ]
    test = GRAPH.triples("test").tolist()
    assert len(found) == len(set(found))
    assert set(found) == {("tail", h, r) for h, r, _ in test} | {("head", t, r) for _, r, t in test}
    assert asked.tables == ["tail", "head"]


FORMS: dict[str, Callable[[NDArray[np.float32]], Any]] = {
    "double": lambda x: x.astype(np.float64),
    "half": lambda x: x.astype(np.float16),
    "whole": lambda x: x.astype(np.int64),
    "list": lambda x: x.tolist(),
    "columns first": np.asfortranarray,
    "every second": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "tensor": torch.tensor,
    "short tensor": lambda x: torch.tensor(x, dtype=torch.bfloat16),
    "parameter": lambda x: torch.nn.Parameter(torch.tensor(x)),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", FORMS)
def test_vectors_come_in_many_forms(form: str, device: str) -> None:
    model = vectors("whole", Dot(), GRAPH, 6, seed=4)
    convert = FORMS[form]

    class Converted(Vectors):
        def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
            return convert(super().encode_queries(side, given, relation))

        def candidates(self, side: Any) -> Any:
            return convert(self.table)

    found = rank(Converted(Dot(), model.queries, model.table), GRAPH, resources=Resources(device=device))
    assert found.to_arrow().equals(rank(model, GRAPH).with_info(model="Converted").to_arrow(), check_metadata=True)


def test_doubles_are_rounded_before_they_are_compared() -> None:
    model = vectors("zero", Dot(), GRAPH, 1, seed=0)
    table = 1 + np.arange(ENTITIES)[:, None] * 2.0**-40
    model.queries[:] = 1
    found = rank(Vectors(Dot(), model.queries, table), GRAPH)  # type: ignore[arg-type]
    assert found.ties.tolist() == (found.candidates - 1).tolist()


def test_tables_are_never_changed() -> None:
    for device in DEVICES:
        for similarity in (Dot(), GroupNorm(2)):
            model = vectors("mixed", similarity, GRAPH, 6, seed=5)
            before = model.queries.copy(), model.table.copy()
            model.queries.flags.writeable = model.table.flags.writeable = False
            rank(model, GRAPH, resources=Resources(device=device))
            assert all(map(np.array_equal, before, (model.queries, model.table)))


@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(2)], ids=str)
def test_nan_in_a_table_names_the_entities(similarity: Similarity) -> None:
    model = people(similarity)
    model.table[[0, 2], 1] = np.nan
    with pytest.raises(DataError, match="scores are NaN, so nothing can be ranked") as error:
        rank(model, PEOPLE)
    assert error.value.problems == ["embeddings of 2 entities contain NaN: ids 0, 2 (Ada, Cyd)"]
    many = vectors("random", similarity, GRAPH, 6, seed=0)
    many.table[1:, 0] = np.nan
    with pytest.raises(DataError, match="scores are NaN") as error:
        rank(many, GRAPH)
    assert error.value.problems == [
        f"embeddings of {ENTITIES - 1} entities contain NaN: ids 1-11 (1, 2, 3, 4, 5, 6, 7, 8)"
    ]


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(2)], ids=str)
def test_nan_names_the_entities_of_all_ranges(
    similarity: Similarity, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "_PIECE", 1)
    for broken, triples in (([1, 2], [[1, 0, 0]]), ([2], [[0, 0, 2]]), ([0], [[1, 1, 0]])):
        model = people(similarity)
        model.table[broken] = np.nan
        for sides in ("head", "tail"):
            with pytest.raises(DataError) as error:
                rank(model, PEOPLE, triples=triples, sides=sides, resources=Resources(shards=shards))
            assert error.value.problems[0].startswith(f"embeddings of {len(broken)} entities contain NaN")


@pytest.mark.parametrize("device", DEVICES)
def test_nan_in_a_query_names_it(device: str) -> None:
    model = people()
    model.queries[1, 1, 1, 3] = np.nan
    model.queries[0, 0, :, 0] = np.nan
    with pytest.raises(DataError, match="scores are NaN, so nothing can be ranked") as error:
        rank(model, PEOPLE, resources=Resources(device=device))
    assert error.value.problems == ["query (Bob, likes, ?)"]
    with pytest.raises(DataError, match="scores are NaN") as error:
        rank(model, PEOPLE, sides="head", resources=Resources(device=device))
    assert error.value.problems == ["query (?, knows, Ada)", "query (?, likes, Ada)"]


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize(("query", "candidate"), [(np.inf, 0.0), (0.0, np.inf), (-np.inf, 0.0)], ids=str)
@pytest.mark.parametrize("target", [True, False], ids=["target", "candidate"])
def test_infinity_times_zero_is_nan_and_names_the_query(
    backend: str, query: float, candidate: float, target: bool
) -> None:
    model = people()
    model.queries[1, 1, 1, 2], model.table[0 if target else 1, 2] = query, candidate
    with pytest.raises(DataError, match="scores are NaN") as error:
        counted(model, PEOPLE, COUNTING[backend](), Resources(threads=1, batch=1))
    assert error.value.problems == ["query (Bob, likes, ?)"]


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("similarity", [GroupNorm(1), GroupNorm(2), GroupNorm(None)], ids=str)
def test_the_distance_between_infinities_is_nan(backend: str, similarity: Similarity) -> None:
    model = people(similarity)
    model.queries[1, 0, 0, 2], model.table[0, 2] = np.inf, np.inf
    with pytest.raises(DataError, match="scores are NaN") as error:
        counted(model, PEOPLE, COUNTING[backend]())
    assert error.value.problems == ["query (Ada, knows, ?)"]


@pytest.mark.parametrize("per_relation", [False, True], ids=["one table", "a table for each relation"])
def test_tables_that_do_not_fit_the_graph(per_relation: bool) -> None:
    kind = RelationVectors if per_relation else Vectors
    model = vectors("random", Dot(), GRAPH, 6, seed=0)
    for table, found in (
        (model.table[1:], "float32 of shape [11, 6]"),
        (np.pad(model.table, ((0, 1), (0, 0))), "float32 of shape [13, 6]"),
        (model.table[0], "float32 of shape [6]"),
        (model.table[:, :, None], "float32 of shape [12, 6, 1]"),
        (model.table.astype(complex), "complex128 of shape [12, 6]"),
    ):
        with pytest.raises(DataError, match="the graph has 12 entities") as error:
            rank(kind(Dot(), model.queries, table), GRAPH)
        assert error.value.problems == [f"expected real numbers of shape [12, any], found {found}"]


@pytest.mark.parametrize(
    ("encode", "found"),
    [
        (lambda x: x[1:], "float32 of shape [18, 6]"),
        (lambda x: x[:, 1:], "float32 of shape [19, 5]"),
        (lambda x: x[:, :, None], "float32 of shape [19, 6, 1]"),
        (lambda x: x.astype(complex), "complex128 of shape [19, 6]"),
        (lambda x: None, "object of shape []"),
    ],
    ids=["a query less", "a coordinate less", "three axes", "complex", "nothing"],
)
def test_queries_that_do_not_fit_their_candidates(encode: Callable[[Any], Any], found: str) -> None:
    graph = KnowledgeGraph.from_triples(test=[[i, 0, 0] for i in range(19)], num_entities=20)
    model = vectors("random", Dot(), graph, 6, seed=0)

    class Wrong(Vectors):
        def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
            return encode(super().encode_queries(side, given, relation))

    with pytest.raises(DataError, match="the model's queries cannot be used") as error:
        rank(Wrong(Dot(), model.queries, model.table), graph, sides="tail")
    assert error.value.problems == [f"expected real numbers of shape [19, 6], found {found}"]


@pytest.mark.parametrize(
    ("similarity", "dimension", "problem"),
    [
        (GroupNorm(4), 6, "6 coordinates do not divide into groups of 4"),
        (GroupNorm(0), 6, "groups of 0 coordinates"),
        (Dot(), 0, "the embeddings have no coordinates"),
    ],
    ids=str,
)
def test_vectors_that_cannot_be_compared(similarity: Similarity, dimension: int, problem: str) -> None:
    model = vectors("random", similarity, GRAPH, dimension, seed=0)
    with pytest.raises(DataError, match="the model's candidates cannot be compared") as error:
        rank(model, GRAPH)
    assert error.value.problems == [problem]


def test_entities_that_training_does_not_know_are_candidates() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]], num_entities=50)
    model = vectors("random", Dot(), graph, 2, seed=0)
    model.queries[:] = 1
    model.table[:] = -1
    model.table[30:] = 5
    table = rank(model, graph)
    assert table.candidates.tolist() == [49, 50]
    assert table.optimistic.tolist() == [21, 21]
    assert table.ties.tolist() == [28, 29]


def test_candidates_by_relation_go_before_those_of_all_relations() -> None:
    class Both(RelationVectors):
        def candidates(self, side: Any) -> Any:
            raise AssertionError("these candidates depend on the relation")

    model = relation_vectors("whole", Dot(), GRAPH, seed=7)
    found = counted(Both(Dot(), model.queries, model.table), GRAPH, NumpyBackend())  # type: ignore[arg-type]
    assert found == brute_force(model, GRAPH)


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("size", [1, 2, None])
def test_an_infinite_gamma_makes_all_scores_equal(size: int | None, backend: str) -> None:
    for gamma in (np.inf, -np.inf, 1e300):
        model = vectors("random", GroupNorm(size, gamma), GRAPH, 6, seed=6)
        found = counted(model, GRAPH, COUNTING[backend]())
        assert all(
            (ties, rank_) == (candidates - 1, (candidates + 1) / 2) for rank_, ties, candidates in found.values()
        )
    with pytest.raises(DataError, match="scores are NaN"):
        counted(vectors("random", GroupNorm(size, np.nan), GRAPH, 6, seed=6), GRAPH, COUNTING[backend]())


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
def test_one_entity_is_ranked_first_of_one(similarity: Similarity) -> None:
    graph = KnowledgeGraph.from_triples(test=[[0, 0, 0]])
    table = rank(vectors("random", similarity, graph, 6, seed=0), graph, resources=Resources(shards=5))
    assert (table.rank.tolist(), table.candidates.tolist(), table.ties.tolist()) == ([1, 1], [1, 1], [0, 0])


def test_an_encoder_may_use_its_memory_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgprobe.predict.encoding._ENCODED_AT_ONCE", 64)
    model = vectors("random", Dot(), GRAPH, 16, seed=0)
    expected = rank(model, GRAPH, resources=Resources(threads=2, batch=4)).to_arrow()
    memory, encode = np.empty((ENTITIES * 3, 16), dtype=np.float32), model.encode_queries

    def encode_again(side: str, given: Any, relation: Any) -> Any:
        memory[: len(given)] = encode(side, given, relation)
        return memory[: len(given)]

    monkeypatch.setattr(model, "encode_queries", encode_again)
    assert rank(model, GRAPH, resources=Resources(threads=2, batch=4)).to_arrow().equals(expected)


def test_the_table_of_a_relation_is_done_with_when_the_next_is_asked_for() -> None:
    """It may be large, and the model may write the next one in its place."""
    model, done, asked = relation_vectors("random", Dot(), GRAPH, seed=0), [0.0], []
    make = model.candidates_for

    def candidates_for(side: str, relation: int) -> Any:
        asked.append((relation, done[0]))
        return make(side, relation)

    def progress(targets: float) -> None:
        done[0] += targets

    model.candidates_for = candidates_for  # type: ignore[method-assign]
    rank(model, GRAPH, sides="tail", resources=Resources(threads=2, batch=1), progress=progress)
    triples = {tuple(triple) for triple in GRAPH.triples("test").tolist()}
    assert asked == [(r, sum(relation < r for _, relation, _ in triples)) for r, _ in asked]
    assert len(asked) == 3


@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(2)], ids=repr)
def test_tables_that_are_read_when_they_are_ranked(similarity: Similarity, backend: str) -> None:
    model = vectors("whole", similarity, GRAPH, 6, seed=4)
    expected = brute_force(model, GRAPH)
    most = []

    def read(index: Any) -> NDArray[Any]:
        most.append(len(model.table[index]))
        return model.table[index].astype(np.float64)

    stored: Any = StoredTable(Path("model"), "entity", model.table.shape, read)
    sets, allowed = relation_sets(GRAPH, seed=3)
    for shards in (1, 4):
        resources, most[:] = Resources(threads=2, shards=shards, batch=2), []
        read_in_parts = Vectors(similarity, model.queries, stored)
        assert counted(read_in_parts, GRAPH, COUNTING[backend](), resources) == expected
        assert max(most) <= max(-(-ENTITIES // shards), len(GRAPH.triples("test")))
        of_relations = counted(read_in_parts, GRAPH, COUNTING[backend](), resources, sets=sets)
        assert of_relations == brute_force(model, GRAPH, allowed=allowed)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("backend", COUNTED)
@pytest.mark.parametrize("piece", [1, 6 * 3, 6 * 7 + 5])
def test_candidates_are_prepared_some_at_a_time(
    piece: int, backend: str, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "_PIECE", piece)
    sets, allowed = relation_sets(GRAPH, seed=3)
    for kind, similarity in (("huge", Dot()), ("whole", GroupNorm(2))):
        model = vectors(kind, similarity, GRAPH, 6, seed=4)
        table: Any = StoredTable(Path("model"), "entity", model.table.shape, model.table.__getitem__)
        read = Vectors(similarity, model.queries, table) if stored else model
        for shards in (1, 4):
            resources = Resources(threads=2, shards=shards, batch=2)
            assert counted(read, GRAPH, COUNTING[backend](), resources) == brute_force(model, GRAPH)
            of_relations = counted(read, GRAPH, COUNTING[backend](), resources, sets=sets)
            assert of_relations == brute_force(model, GRAPH, allowed=allowed)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e300])
def test_rows_of_files_that_are_no_numbers_are_named(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_PIECE", 4 * 2)
    rows = np.zeros((GRAPH.num_entities, 4))
    rows[[3, 7]] = wrong
    model = vectors("random", Dot(), GRAPH, 4, seed=0)
    stored: Any = StoredTable(Path("model.npy"), "entity", rows.shape, lambda index: rows[index])
    with pytest.raises(DataError) as error:
        rank(Vectors(Dot(), model.queries, stored), GRAPH)
    assert "entity: 2 rows hold NaN, infinity or numbers beyond float32: 3, 7" in str(error.value)
